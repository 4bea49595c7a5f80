/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The memory of the tables, with tables and mappings that are made up here: the functions below take the place of the
 * library's.
 */

#include "unwind-images.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol-file.h"
#include "unwind-code.h"
#include "unwind-identity.h"

#define SIZE RS_TABLE_SIZE_MIN
#define HEAP (SIZE - RS_TABLE_HEAP_AT)

/* ---- what is made up ---- */

/* What the next table is like. */
static size_t next_n_pages, next_n_rules;
static int32_t next_offset; /* of the rules' CFAs */
static int next_error;
static unsigned n_made;
static int64_t allocations_left = -1; /* then each fails */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left -= allocations_left > 0;
        return __real_calloc(n, size);
}

/* Page i has one row, number i + 1, of rule i % n_rules. */
int unwind_cache_get(_unused_ UnwindCache *cache, _unused_ ElfFile *elf, UnwindTable **ret) {
        UnwindTable *t;

        if (next_error < 0)
                return next_error;
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->base = 0x1000;
        t->n_pages = next_n_pages;
        t->n_rows = next_n_pages + 1;
        t->n_rules = next_n_rules;
        t->pages = calloc(t->n_pages, sizeof(*t->pages));
        t->rows = calloc(t->n_rows, sizeof(*t->rows));
        t->rules = calloc(t->n_rules, sizeof(*t->rules));
        if (!t->pages || !t->rows || !t->rules) {
                unwind_table_free(t);
                return -ENOMEM;
        }
        for (size_t i = 0; i < t->n_pages; i++) {
                t->pages[i] = (uint64_t) (i + 1) << 32 | 1;
                t->rows[i + 1] = 0x10U << RS_TABLE_ROW_SHIFT | (uint32_t) (i % next_n_rules);
        }
        for (size_t i = 1; i < t->n_rules; i++)
                t->rules[i] = (struct rs_table_rule){ .cfa = RS_CFA_REG, .reg = 7, .cfa_offset = next_offset + (int32_t) i * 8 };
        n_made++;
        *ret = t;
        return 0;
}

/* Of the same kind, from 0 on; its content is not looked at. */
int unwind_table_new_of_code(UnwindTable **ret, _unused_ const uint8_t *code, _unused_ size_t size) {
        int r = unwind_cache_get(NULL, NULL, ret);

        if (r >= 0)
                (*ret)->base = 0;
        return r;
}

void unwind_cache_put(_unused_ UnwindCache *cache, _unused_ const ElfFile *elf, _unused_ UnwindTable *table) {}

void unwind_cache_take(_unused_ UnwindCache *cache, _unused_ const ElfFile *elf, UnwindTable *table) {
        unwind_table_free(table);
}

UnwindTable *unwind_table_free(UnwindTable *t) {
        if (!t)
                return NULL;
        free(t->pages);
        free(t->rows);
        free(t->rules);
        free(t);
        return NULL;
}

static const char *next_identity; /* NULL: none */

bool unwind_identity_get(_unused_ const ElfFile *elf, char identity[static UNWIND_IDENTITY_SIZE]) {
        if (next_identity)
                strcpy(identity, next_identity);
        return next_identity != NULL;
}

void elf_file_set_stop(_unused_ ElfFile *elf, _unused_ const bool *stop) {}

/* Files are mapped as they are. */
bool elf_file_get_code_address(const ElfFile *elf, uint64_t offset, _unused_ uint64_t size, uint64_t *ret) {
        *ret = offset;
        return elf != NULL;
}

struct AddressSpace {
        size_t n;
        MappedRange *ranges;
};

size_t address_space_get_n_mappings(const AddressSpace *space) {
        return space->n;
}

void address_space_get_mapping(const AddressSpace *space, size_t index, MappedRange *ret) {
        *ret = space->ranges[index];
}

/* ---- the fixture ---- */

typedef struct Fixture {
        uint8_t *bytes;
        UnwindMemory *memory;
        UnwindImages *images;
} Fixture;

static int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->bytes = calloc(1, SIZE);
        assert_non_null(f->bytes);
        assert_return_code(unwind_memory_new(&f->memory, f->bytes, SIZE), 0);
        assert_return_code(unwind_images_new(&f->images, f->memory, NULL, NULL), 0);
        next_error = 0;
        next_identity = NULL;
        next_n_rules = 3;
        next_offset = 0;
        n_made = 0;
        *state = f;
        return 0;
}

static int tear_down(void **state) {
        Fixture *f = *state;

        unwind_images_free(f->images);
        unwind_memory_free(f->memory);
        free(f->bytes);
        free(f);
        return 0;
}

/* A file whose table takes so many bytes of the heap, more or less. */
static void read_file(Fixture *f, SymbolFile *file, size_t bytes) {
        next_n_pages = bytes / 12;
        file->elf = (ElfFile *) f; /* not looked into */
        assert_int_equal(unwind_images_read(&file->mapped, file->elf, f->images), next_error);
        file->loaded = true;
}

static UnwindList *map_file(Fixture *f, SymbolFile *file) {
        MappedRange range = { .start = 0x7f0000001000, .end = 0x7f0000101000, .offset = 0x1000, .file = &file->mapped };
        AddressSpace space = { .n = 1, .ranges = &range };
        UnwindList *list = NULL;

        assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
        assert_non_null(list);
        return list;
}

static UnwindImagesStatistics statistics(Fixture *f) {
        UnwindImagesStatistics s;

        unwind_images_get_statistics(f->images, &s);
        return s;
}

static void wait_ms(unsigned ms) {
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

/* As the programs do it. */
static const struct rs_table_mapping *mappings_of(const Fixture *f, uint64_t value, uint32_t *ret_n) {
        uint64_t at = (value >> 32) * 32;

        *ret_n = (uint32_t) value;
        assert_true(at >= RS_TABLE_HEAP_AT && at + *ret_n * 32 <= SIZE);
        return (const struct rs_table_mapping *) (f->bytes + at);
}

static uint32_t rule_of(const Fixture *f, const struct rs_table_mapping *m, uint64_t address) {
        uint64_t page = (address - m->bias) >> RS_TABLE_PAGE_SHIFT, entry;
        const uint32_t *rows = (const uint32_t *) f->bytes;

        assert_true(page < m->n_pages);
        entry = ((const uint64_t *) f->bytes)[m->pages + page];
        for (uint32_t i = (uint32_t) entry; i-- > 0;)
                if (rows[(entry >> 32) + i] >> RS_TABLE_ROW_SHIFT <= (address & 0xff))
                        return rows[(entry >> 32) + i] & RS_TABLE_ROW_RULE;
        return rows[(entry >> 32) - 1] & RS_TABLE_ROW_RULE;
}

/* ---- the memory alone ---- */

static void test_heap(void **state) {
        Fixture *f = *state;
        UnwindExtent a, b, c;
        uint64_t t = 1000;

        assert_int_equal(unwind_memory_take(f->memory, 0, t, &a), -ENOBUFS);
        assert_int_equal(unwind_memory_take(f->memory, HEAP + 1, t, &a), -ENOBUFS);
        assert_int_equal(unwind_memory_take(f->memory, UINT64_MAX, t, &a), -ENOBUFS);
        assert_return_code(unwind_memory_take(f->memory, 1, t, &a), 0);
        assert_int_equal(a.n, 1);
        assert_int_equal(unwind_memory_offset(&a), RS_TABLE_HEAP_AT);
        assert_return_code(unwind_memory_take(f->memory, RS_TABLE_CHUNK + 1, t, &b), 0);
        assert_int_equal(b.n, 2);
        assert_int_equal(b.chunk, 1);
        assert_ptr_equal(unwind_memory_at(f->memory, &b), f->bytes + RS_TABLE_HEAP_AT + RS_TABLE_CHUNK);

        /* Not before the time. */
        unwind_memory_give_back(f->memory, &a, t);
        assert_int_equal(a.n, 0);
        assert_return_code(unwind_memory_take(f->memory, 1, t + UNWIND_MEMORY_GRACE - 1, &c), 0);
        assert_int_equal(c.chunk, 3);
        assert_return_code(unwind_memory_take(f->memory, 1, t + UNWIND_MEMORY_GRACE, &a), 0);
        assert_int_equal(a.chunk, 0);

        assert_true(unwind_memory_will_have(f->memory, HEAP - 4 * RS_TABLE_CHUNK));
        assert_false(unwind_memory_will_have(f->memory, HEAP - 4 * RS_TABLE_CHUNK + 1));
        assert_return_code(unwind_memory_take(f->memory, HEAP - 4 * RS_TABLE_CHUNK, t, &a), 0);
        assert_int_equal(unwind_memory_take(f->memory, 1, t, &a), -ENOBUFS);
}

static void test_sizes(_unused_ void **state) {
        UnwindMemory *m;
        uint64_t word = 0;

        assert_int_equal(unwind_memory_new(&m, &word, RS_TABLE_SIZE_MIN / 2), -EINVAL);
        assert_int_equal(unwind_memory_new(&m, &word, RS_TABLE_SIZE_MIN + RS_TABLE_CHUNK), -EINVAL);
        assert_int_equal(unwind_memory_new(&m, &word, 2UL * RS_TABLE_SIZE_MAX), -EINVAL);
}

/* A file of which only the beginning is mapped: what is taken is there, and nothing is where that fails. */
static void test_of_file(_unused_ void **state) {
        const size_t size = 8U << 20, mapped = RS_TABLE_HEAP_AT, heap = size - RS_TABLE_HEAP_AT;
        uint8_t *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int fd = memfd_create("tables", MFD_CLOEXEC);
        const uint64_t sizes[] = { 1, 1U << 20, heap - (4U << 20), 2U << 20 };
        UnwindExtent extents[ELEMENTSOF(sizes)], none;
        struct rs_table_rule rule = { .cfa = RS_CFA_REG, .reg = 7 };
        uint32_t number;
        UnwindMemory *m;

        assert_ptr_not_equal(memory, MAP_FAILED);
        assert_return_code(fd, errno);
        assert_return_code(ftruncate(fd, size), errno);
        assert_ptr_not_equal(mmap(memory, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
        assert_int_equal(unwind_memory_new_of_file(&m, memory, size, fd, mapped - RS_TABLE_CHUNK), -EINVAL);
        assert_int_equal(unwind_memory_new_of_file(&m, memory, size, fd, size + RS_TABLE_CHUNK), -EINVAL);

        assert_return_code(unwind_memory_new_of_file(&m, memory, size, -1, mapped), 0);
        assert_int_equal(unwind_memory_take(m, 1, 0, &none), -ENOBUFS);
        assert_int_equal(unwind_memory_get_size(m), 0);
        unwind_memory_free(m);

        assert_return_code(unwind_memory_new_of_file(&m, memory, size, fd, mapped), 0);
        assert_return_code(unwind_memory_add_rule(m, &rule, &number), 0);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                assert_return_code(unwind_memory_take(m, sizes[i], 0, &extents[i]), 0);
                memset(unwind_memory_at(m, &extents[i]), (int) i + 1, sizes[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                const uint64_t at = unwind_memory_offset(&extents[i]);
                uint8_t first = 0, last = 0;

                assert_int_equal(pread(fd, &first, 1, (off_t) at), 1);
                assert_int_equal(pread(fd, &last, 1, (off_t) (at + sizes[i] - 1)), 1);
                assert_int_equal(first, i + 1);
                assert_int_equal(last, i + 1);
        }
        assert_return_code(unwind_memory_take(m, (1U << 20) - RS_TABLE_CHUNK, 0, &none), 0);
        assert_int_equal(unwind_memory_take(m, 1, 0, &none), -ENOBUFS);
        unwind_memory_free(m);
        assert_return_code(munmap(memory, size), errno);
        assert_return_code(close(fd), errno);
}

static bool is_mapped(const uint8_t *at) {
        unsigned char page;

        return mincore((void *) at, 4096, &page) == 0 || errno != ENOMEM;
}

/* What somebody else has put where more was to be mapped stays his. */
static void test_place_of_another(_unused_ void **state) {
        const size_t size = 8U << 20, mapped = RS_TABLE_HEAP_AT, step = 2U << 20;
        uint8_t *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *other;
        UnwindExtent none;
        UnwindMemory *m;

        assert_ptr_not_equal(memory, MAP_FAILED);
        assert_return_code(unwind_memory_new_of_file(&m, memory, size, -1, mapped), 0);
        unwind_memory_unmap(m);
        for (size_t at = 0; at < size; at += step)
                assert_false(is_mapped(memory + at));
        unwind_memory_free(m);

        memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        other = mmap(memory + mapped, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        assert_ptr_not_equal(other, MAP_FAILED);
        *other = 77;
        assert_return_code(unwind_memory_new_of_file(&m, memory, size, -1, mapped), 0);
        assert_int_equal(unwind_memory_take(m, 1, 0, &none), -ENOBUFS);
        unwind_memory_unmap(m);
        unwind_memory_free(m);
        assert_true(is_mapped(other));
        assert_int_equal(*other, 77);
        assert_false(is_mapped(memory));
        assert_false(is_mapped(memory + mapped - 4096));
        assert_false(is_mapped(memory + mapped + step));
        assert_false(is_mapped(memory + size - 4096));
        assert_return_code(munmap(other, step), errno);
}

static void test_rules(void **state) {
        Fixture *f = *state;
        struct rs_table_rule rule = { .cfa = RS_CFA_REG, .reg = 7 };
        const struct rs_table_rule *rules = (const struct rs_table_rule *) (f->bytes + RS_TABLE_RULES_AT);
        uint32_t a, b;

        assert_return_code(unwind_memory_add_rule(f->memory, &(struct rs_table_rule){ .reg = 3 }, &a), 0);
        assert_int_equal(a, 0);
        assert_int_equal(rules[1].cfa, RS_CFA_UNKNOWN); /* that of the images, which must be there in any case */
        for (uint32_t i = 2; i < RS_TABLE_RULES; i++) {
                rule.cfa_offset = (int32_t) i;
                assert_return_code(unwind_memory_add_rule(f->memory, &rule, &a), 0);
                assert_int_equal(a, i);
        }
        assert_return_code(unwind_memory_add_rule(f->memory, &rule, &b), 0);
        assert_int_equal(b, a);
        assert_memory_equal(&rules[b], &rule, sizeof(rule));
        assert_int_equal(rules[0].cfa, RS_CFA_NONE);
        rule.fp = RS_REG_AT_CFA;
        assert_int_equal(unwind_memory_add_rule(f->memory, &rule, &b), -ENOBUFS);
}

/* Processes whose slots are looked for from the same place on. */
static void test_slots(void **state) {
        Fixture *f = *state;
        struct rs_table_process *slots = (struct rs_table_process *) f->bytes;
        unsigned taken[RS_TABLE_PROBES], slot, n = 0;
        uint64_t start = 0, generation;

        for (; n < RS_TABLE_PROBES; start++) {
                if (rs_table_slot(17, start) != RS_TABLE_PROCESSES - 2)
                        continue;
                assert_return_code(unwind_memory_take_slot(f->memory, 17, start, &taken[n]), 0);
                assert_int_equal(taken[n], (RS_TABLE_PROCESSES - 2 + n) % RS_TABLE_PROCESSES);
                assert_int_equal(slots[taken[n]].pid, 17);
                assert_int_equal(slots[taken[n]].start, start);
                assert_true(unwind_memory_publish(f->memory, taken[n], 5));
                assert_int_equal(slots[taken[n]].list, 5);
                n++;
        }
        while (rs_table_slot(17, start) != RS_TABLE_PROCESSES - 2)
                start++;
        assert_int_equal(unwind_memory_take_slot(f->memory, 17, start, &slot), -ENOBUFS);

        /* A list may be at the place of an older one; it is not taken for it. The same list stays the same. */
        generation = slots[taken[3]].generation;
        assert_true(unwind_memory_publish(f->memory, taken[3], 5));
        assert_int_equal(slots[taken[3]].generation, generation);
        assert_true(unwind_memory_publish(f->memory, taken[3], 6));
        assert_true(slots[taken[3]].generation > generation);
        assert_true(unwind_memory_publish(f->memory, taken[3], 5));
        generation = slots[taken[3]].generation;
        unwind_memory_give_slot_back(f->memory, taken[3]);
        assert_int_equal(slots[taken[3]].list, 0);
        assert_return_code(unwind_memory_take_slot(f->memory, 17, start, &slot), 0);
        assert_int_equal(slot, taken[3]);
        assert_int_equal(slots[slot].start, start);
        assert_true(unwind_memory_publish(f->memory, slot, 5));
        assert_true(slots[slot].generation > generation);

        /* The programs store 0: nothing is published over that once, */
        slots[taken[0]].list = 0;
        assert_false(unwind_memory_publish(f->memory, taken[0], 6));
        assert_int_equal(slots[taken[0]].list, 0);
        /* and from then on again. */
        assert_true(unwind_memory_publish(f->memory, taken[0], 7));
        assert_int_equal(slots[taken[0]].list, 7);
        unwind_memory_prepare(f->memory, taken[0]);
        assert_int_equal(slots[taken[0]].list, 7);
        /* Also where nothing was published yet. */
        unwind_memory_withdraw(f->memory, taken[0]);
        unwind_memory_prepare(f->memory, taken[0]);
        assert_int_equal((uint32_t) slots[taken[0]].list, 0);
        assert_int_not_equal(slots[taken[0]].list, 0);
        slots[taken[0]].list = 0;
        assert_false(unwind_memory_publish(f->memory, taken[0], 8));
        assert_int_equal(slots[taken[0]].list, 0);
}

/* ---- images and lists ---- */

/* Of the i-th rule that is told; number 1 is the images' own. */
static uint32_t number_of(uint32_t i) {
        return i == 0 ? 0 : i + 1;
}

static void test_table(void **state) {
        Fixture *f = *state;
        SymbolFile first = {}, file = {};
        const struct rs_table_mapping *m;
        UnwindList *list;
        uint32_t n;

        next_n_rules = 5;
        read_file(f, &first, 50000);
        next_n_rules = 9; /* of which five are known */
        read_file(f, &file, 20000);
        list = map_file(f, &file);
        m = mappings_of(f, unwind_list_get_value(list), &n);
        assert_int_equal(n, 1);
        assert_int_equal(m->start, 0x7f0000001000);
        assert_int_equal(m->end, 0x7f0000101000);
        assert_int_equal(m->bias, 0x7f0000001000); /* base and offset are the same */
        assert_int_equal(m->n_pages, 20000 / 12);
        for (uint32_t i = 0; i < m->n_pages; i++) {
                assert_int_equal(rule_of(f, m, m->bias + i * 256 + 0x20), number_of(i % 9));
                /* Before the first of the page: the row before. */
                assert_int_equal(rule_of(f, m, m->bias + i * 256), i == 0 ? 0 : number_of((i - 1) % 9));
        }
        assert_false(unwind_list_is_waiting(list));
        assert_int_equal(statistics(f).images, 2);
        unwind_list_unref(list, f->images);
}

/* A build id alone counts for nothing here. */
static void test_identity(void **state) {
        Fixture *f = *state;
        SymbolFile a = { .mapped = { .build_id = "x", .build_id_len = 20 } }, b = a, other = a, none = a, also_none = a;

        next_identity = "x";
        read_file(f, &a, 10000);
        read_file(f, &b, 10000);
        assert_int_equal(n_made, 1);
        assert_ptr_equal(a.mapped.userdata, b.mapped.userdata);
        next_identity = "y";
        read_file(f, &other, 10000);
        next_identity = NULL;
        read_file(f, &none, 10000);
        read_file(f, &also_none, 10000);
        assert_int_equal(n_made, 4);
        assert_int_equal(statistics(f).images, 4);
}

static void test_malformed(void **state) {
        Fixture *f = *state;
        SymbolFile bad = {}, good = {}, empty = {};
        UnwindList *list;
        uint32_t n;

        next_error = -EBADMSG;
        next_identity = "x";
        read_file(f, &bad, 10000);
        assert_int_equal(statistics(f).refused, 1);
        next_error = -ENOENT;
        next_n_pages = 1;
        assert_return_code(unwind_images_read(&empty.mapped, NULL, f->images), 0);
        assert_int_equal(statistics(f).refused, 1);
        next_error = 0;
        /* That one of its identity is malformed says nothing of another. */
        read_file(f, &good, 10000);
        assert_int_equal(statistics(f).images, 1);

        list = map_file(f, &bad);
        assert_int_equal(mappings_of(f, unwind_list_get_value(list), &n)->n_pages, 0);
        assert_false(unwind_list_is_waiting(list));
        unwind_list_unref(list, f->images);
}

/* Where a file's first page is, is the file's to say. */
static void test_bias(void **state) {
        Fixture *f = *state;
        SymbolFile file = {}, unread = {};
        MappedRange ranges[] = {
                { .start = 0x10000, .end = 0x20000, .offset = 0, .file = &file.mapped },      /* begins before its first page */
                { .start = 0x30000, .end = 0x40000, .offset = 0x4000, .file = &file.mapped },
                { .start = 0x40000, .end = 0x41000, .offset = 0x14000, .file = &file.mapped }, /* goes on */
                { .start = 0x50000, .end = 0x5f000, .offset = 0x1008, .file = &file.mapped }, /* no multiple */
                { .start = 0x60000, .end = 0x61000, .offset = 0xf000000, .file = &file.mapped }, /* below address 0 */
                { .start = 0x61000, .end = 0x62000, .offset = 0, .file = &unread.mapped },
                { .start = 0xffffffffff600000, .end = 0xffffffffff601000, .file = &unread.mapped }, /* [vsyscall] */
        };
        AddressSpace space = { .n = ELEMENTSOF(ranges), .ranges = ranges };
        const struct rs_table_mapping *m;
        UnwindList *list;
        uint32_t n;

        read_file(f, &file, 100000);
        unread.elf = file.elf;
        assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
        m = mappings_of(f, unwind_list_get_value(list), &n);
        assert_int_equal(n, 6);
        assert_true(m[0].start == 0x10000 && m[0].end == 0x11000 && m[0].n_pages == 0);
        assert_true(m[1].start == 0x11000 && m[1].end == 0x20000 && m[1].bias == 0x11000 && m[1].n_pages == 100000 / 12);
        assert_true(m[2].start == 0x30000 && m[2].end == 0x41000 && m[2].bias == 0x2d000 && m[2].n_pages > 0);
        assert_true(m[3].start == 0x50000 && m[3].n_pages == 0);
        assert_true(m[4].start == 0x60000 && m[4].n_pages == 0);
        assert_true(m[5].start == 0x61000 && m[5].n_pages == 0);
        assert_true(unwind_list_is_waiting(list)); /* for the one that was not read */
        for (uint32_t i = 0; i < n; i++) {
                assert_true(m[i].bias <= m[i].start && m[i].bias % RS_TABLE_PAGE == 0);
                assert_true(i == 0 || m[i].start >= m[i - 1].end);
        }
        unwind_list_unref(list, f->images);
}

/* What is in no list goes first, oldest first, and its room is used after a while. */
static void test_eviction(void **state) {
        Fixture *f = *state;
        SymbolFile files[4] = {};
        UnwindList *lists[3], *list;
        uint32_t n;

        for (unsigned i = 0; i < 3; i++) {
                read_file(f, &files[i], HEAP * 3 / 10);
                lists[i] = map_file(f, &files[i]);
        }
        assert_int_equal(statistics(f).images, 3);
        unwind_list_unref(lists[1], f->images);
        unwind_list_unref(lists[0], f->images);
        assert_int_equal(statistics(f).evictions, 0);

        read_file(f, &files[3], HEAP * 3 / 10);
        assert_int_equal(statistics(f).evictions, 1); /* that of the second */
        assert_true(unwind_images_tick(f->images) > 0);
        list = map_file(f, &files[3]);
        assert_true(unwind_list_is_waiting(list));
        assert_int_equal(mappings_of(f, unwind_list_get_value(list), &n)->n_pages, 0);
        unwind_list_unref(list, f->images);

        wait_ms(110);
        assert_int_equal(unwind_images_tick(f->images), 0);
        list = map_file(f, &files[3]);
        assert_false(unwind_list_is_waiting(list));
        assert_int_not_equal(mappings_of(f, unwind_list_get_value(list), &n)->n_pages, 0);
        unwind_list_unref(list, f->images);
        assert_true(unwind_images_wants_file(f->images, &files[1].mapped));
        assert_false(unwind_images_wants_file(f->images, &files[0].mapped));
        assert_int_equal(statistics(f).images, 3);

        /* As one that was opened again. */
        read_file(f, &files[1], HEAP * 3 / 10);
        assert_int_equal(statistics(f).evictions, 2);
        assert_int_equal(statistics(f).no_room, 0);
        unwind_list_unref(lists[2], f->images);
}

static void test_no_room(void **state) {
        Fixture *f = *state;
        SymbolFile a = {}, b = {}, huge = {};
        UnwindList *list, *other;

        read_file(f, &a, HEAP * 6 / 10);
        /* Nothing has to go for what cannot have room. */
        read_file(f, &huge, 2 * HEAP);
        assert_int_equal(statistics(f).refused, 1);
        assert_false(unwind_images_wants_file(f->images, &huge.mapped));
        list = map_file(f, &a);
        read_file(f, &b, HEAP * 6 / 10);
        assert_int_equal(statistics(f).no_room, 1);
        assert_int_equal(statistics(f).evictions, 0);
        other = map_file(f, &b);
        assert_true(unwind_list_is_waiting(other));
        assert_int_equal(unwind_images_tick(f->images), 0);
        unwind_list_unref(list, f->images);
        assert_false(unwind_images_wants_file(f->images, &b.mapped)); /* so soon, though there is room */
        unwind_list_unref(other, f->images);
}

static size_t allocated(void) {
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* Nothing of a file without a table is left when that and all lists have gone, however many there are. */
static void test_files_go(void **state) {
        Fixture *f = *state;
        SymbolFile large = {};
        UnwindList *busy;
        size_t before = 0;

        read_file(f, &large, HEAP - 16 * RS_TABLE_CHUNK);
        busy = map_file(f, &large);
        for (unsigned i = 0; i < 20000; i++) {
                static const int errors[] = { -EBADMSG, -ENOENT, 0 }; /* the last has no room */
                MappedRange range = { .start = 0x7f0000001000, .end = 0x7f0000101000, .offset = 0x1000 };
                const AddressSpace space = { .n = 1, .ranges = &range };
                SymbolFile files[2] = {};
                UnwindList *list = NULL;
                char identity[32];

                if (i == 10000)
                        before = allocated();
                (void) snprintf(identity, sizeof(identity), "%u", i);
                next_identity = i % 4 == 0 ? NULL : identity;
                next_error = errors[i % ELEMENTSOF(errors)];
                next_n_pages = 20 * RS_TABLE_CHUNK / 12;
                for (unsigned k = 0; k < 2; k++)
                        (void) unwind_images_read(&files[k].mapped, (ElfFile *) f, f->images);
                range.file = &files[0].mapped;
                /* There is room for some. */
                (void) unwind_list_new(&list, f->images, &space, NULL, NULL);
                for (unsigned k = 0; k < 2; k++)
                        unwind_images_forget(&files[k].mapped, f->images);
                unwind_list_unref(list, f->images);
        }
        assert_in_range(allocated(), 0, before + 100000);
        assert_int_equal(statistics(f).images, 1);

        /* Lists may have what was their file's, as that of a child which is not a program of its own yet. */
        wait_ms(UNWIND_MEMORY_GRACE / 1000000 + 10);
        next_identity = NULL;
        next_error = -ENOENT;
        for (unsigned i = 0; i < 13; i++) {
                SymbolFile file = {};
                UnwindList *list;

                if (i == 1)
                        before = allocated();
                assert_return_code(unwind_images_read(&file.mapped, (ElfFile *) f, f->images), 0);
                list = map_file(f, &file);
                unwind_images_forget(&file.mapped, f->images);
                unwind_list_unref(list, f->images);
        }
        assert_in_range(allocated(), 0, before + 1000);
        next_error = 0;

        /* A table is left, and goes where its room is needed. */
        unwind_images_forget(&large.mapped, f->images);
        unwind_list_unref(busy, f->images);
        next_identity = "other";
        large = (SymbolFile){};
        read_file(f, &large, HEAP - 16 * RS_TABLE_CHUNK);
        assert_int_equal(statistics(f).evictions, 1);
        wait_ms(UNWIND_MEMORY_GRACE / 1000000 + 10);
        assert_int_equal(unwind_images_tick(f->images), 0);
        assert_int_equal(statistics(f).images, 1);
}

/* Where no more can be mapped what there is has to do: who is idle makes room. */
static void test_unmappable(void **state) {
        Fixture *f = *state;
        const size_t mapped = RS_TABLE_HEAP_AT + HEAP / 2 / RS_TABLE_CHUNK * RS_TABLE_CHUNK;
        SymbolFile a = {}, b = {}, huge = {};
        UnwindMemory *memory;
        UnwindImages *images;
        Fixture small = { .bytes = f->bytes };

        assert_return_code(unwind_memory_new_of_file(&memory, f->bytes, SIZE, -1, mapped), 0);
        assert_return_code(unwind_images_new(&images, memory, NULL, NULL), 0);
        small.memory = memory;
        small.images = images;
        read_file(&small, &a, HEAP * 4 / 10);
        assert_int_equal(statistics(&small).images, 1);
        read_file(&small, &b, HEAP * 4 / 10);
        assert_int_equal(statistics(&small).evictions, 1);
        wait_ms(110);
        assert_int_equal(unwind_images_tick(images), 0);
        assert_int_equal(statistics(&small).images, 1);
        assert_int_equal(statistics(&small).no_room, 0);
        read_file(&small, &huge, HEAP * 6 / 10); /* which there will never be room for */
        assert_int_equal(statistics(&small).refused, 1);
        unwind_images_free(images);
        unwind_memory_free(memory);
}

/* Room must lie together. What is idle goes until it does, and stays where it cannot. */
static void test_fragments(void **state) {
        Fixture *f = *state;
        SymbolFile files[8] = {}, quarter = {}, half = {};
        UnwindList *lists[8];

        for (unsigned i = 0; i < ELEMENTSOF(files); i++) {
                read_file(f, &files[i], HEAP * 12 / 100);
                lists[i] = map_file(f, &files[i]);
        }
        assert_int_equal(statistics(f).images, 8);
        for (unsigned i = 1; i < 8; i += 2)
                unwind_list_unref(lists[i], f->images);
        read_file(f, &quarter, HEAP / 4);
        assert_int_equal(statistics(f).evictions, 0);
        assert_int_equal(statistics(f).no_room, 1);
        assert_int_equal(unwind_images_tick(f->images), 0);

        unwind_list_unref(lists[2], f->images); /* the second to fourth lie together */
        unwind_list_unref(lists[4], f->images); /* and up to the sixth */
        read_file(f, &half, HEAP / 2);
        assert_int_equal(statistics(f).evictions, 6);
        assert_int_equal(statistics(f).no_room, 1);
        wait_ms(110);
        assert_int_equal(unwind_images_tick(f->images), 0);
        assert_int_equal(statistics(f).images, 3);
        unwind_list_unref(lists[0], f->images);
        unwind_list_unref(lists[6], f->images);
}

static void test_too_many_rules(void **state) {
        Fixture *f = *state;
        const struct rs_table_rule *rules = (const struct rs_table_rule *) (f->bytes + RS_TABLE_RULES_AT);
        SymbolFile huge = {}, many = {}, known = {}, other = {};
        const struct rs_table_mapping *m;
        UnwindList *list;
        uint32_t n;

        /* Without room it takes none. */
        next_n_rules = 1000;
        read_file(f, &huge, 2 * HEAP);
        assert_int_equal(rules[2].cfa, RS_CFA_NONE);

        next_n_rules = RS_TABLE_RULES - 2; /* one is left */
        read_file(f, &many, 10000);
        assert_int_equal(statistics(f).unknown_rules, 0);
        next_n_rules = 100;
        read_file(f, &known, 10000);
        assert_int_equal(statistics(f).unknown_rules, 0);
        next_n_rules = 4;
        next_offset = 1 << 30;
        read_file(f, &other, 10000);
        assert_int_equal(statistics(f).unknown_rules, 2);
        assert_int_equal(statistics(f).images, 3);

        list = map_file(f, &other);
        m = mappings_of(f, unwind_list_get_value(list), &n);
        for (uint32_t i = 0; i < m->n_pages; i++) {
                uint32_t rule = rule_of(f, m, m->bias + i * 256 + 0x20);

                assert_int_equal(rules[rule].cfa, i % 4 == 0 ? RS_CFA_NONE : i % 4 == 1 ? RS_CFA_REG : RS_CFA_UNKNOWN);
                assert_int_equal(rules[rule].cfa_offset, i % 4 == 1 ? (1 << 30) + 8 : 0);
        }
        unwind_list_unref(list, f->images);
        /* Of one file there are few. */
        _Static_assert(UNWIND_RULES_MAX <= RS_TABLE_RULES / 8, "for others");
}

static void test_same(void **state) {
        Fixture *f = *state;
        SymbolFile file = {};
        MappedRange range = { .start = 0x10000, .end = 0x20000, .offset = 0x1000, .file = &file.mapped };
        AddressSpace space = { .n = 1, .ranges = &range }, empty = {};
        UnwindList *list, *same;

        read_file(f, &file, 10000);
        assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
        assert_return_code(unwind_list_new(&same, f->images, &space, NULL, list), 0);
        assert_ptr_equal(same, list);
        range.end += 0x1000;
        assert_return_code(unwind_list_new(&same, f->images, &space, NULL, list), 0);
        assert_ptr_not_equal(same, list);
        assert_ptr_equal(unwind_list_ref(same), same);
        unwind_list_unref(same, f->images);
        unwind_list_unref(same, f->images);
        unwind_list_unref(list, f->images);
        assert_return_code(unwind_list_new(&list, f->images, &empty, NULL, NULL), 0);
        assert_null(list);
        assert_null(unwind_list_unref(NULL, f->images));
}

/* Code that is equal has one table, which stays as long as somebody has it, or a list. */
static void test_code(void **state) {
        Fixture *f = *state;
        SymbolFile jit = { .kind = SYMBOL_FILE_JIT }, file = {};
        MappedRange ranges[] = {
                { .start = 0x10000, .end = 0x20000, .file = &jit.mapped },
                { .start = 0x30000, .end = 0x40000, .file = &jit.mapped },
                { .start = 0x50000, .end = 0x60000, .file = &jit.mapped },
        };
        AddressSpace space = { .n = ELEMENTSOF(ranges), .ranges = ranges };
        UnwindCode items[] = { { .start = 0x10000, .end = 0x20000 }, { .start = 0x50000, .end = 0x60000 } };
        UnwindCodes codes = { .items = items, .n = ELEMENTSOF(items) };
        const struct rs_table_mapping *m;
        UnwindImage *other = NULL;
        int64_t n_allowed = 0;
        UnwindList *list;
        uint32_t n;

        n_made = 0;
        next_n_pages = 0x100;
        assert_return_code(unwind_images_get_code(f->images, (const uint8_t *) "code", 4, &items[0].image), 0);
        assert_return_code(unwind_images_get_code(f->images, (const uint8_t *) "code", 4, &items[1].image), 0);
        assert_ptr_equal(items[0].image, items[1].image);
        assert_int_equal(n_made, 1);
        assert_return_code(unwind_images_get_code(f->images, (const uint8_t *) "else", 4, &other), 0);
        assert_ptr_not_equal(other, items[0].image);
        /* Nor is it a file's, whatever that is called. */
        next_identity = "code";
        read_file(f, &file, 10000);
        next_identity = NULL;
        assert_ptr_not_equal(file.mapped.userdata, items[0].image);
        assert_int_equal(statistics(f).images, 3);

        assert_return_code(unwind_list_new(&list, f->images, &space, &codes, NULL), 0);
        assert_false(unwind_list_is_waiting(list));
        m = mappings_of(f, unwind_list_get_value(list), &n);
        assert_int_equal(n, 3);
        assert_int_equal(m[0].n_pages, 0x100);
        assert_int_equal(m[0].bias, m[0].start);
        assert_int_equal(m[1].n_pages, 0);
        assert_int_equal(m[2].pages, m[0].pages);
        assert_int_equal(m[2].bias, m[2].start);
        assert_true(rule_of(f, m, m->bias + 256 + 0x20) > 0);

        unwind_images_share_code(items[0].image);
        for (unsigned i = 0; i < 3; i++)
                unwind_images_put_code(f->images, items[0].image);
        assert_false(unwind_images_wants_code(f->images, items[0].image)); /* the list has it */
        unwind_list_unref(list, f->images);
        unwind_images_put_code(f->images, other);
        unwind_images_forget(&file.mapped, f->images);

        /* None, and none that had room. */
        next_error = -ENOENT;
        items[0].image = NULL;
        assert_return_code(unwind_images_get_code(f->images, (const uint8_t *) "none", 4, &items[0].image), 0);
        unwind_images_share_code(items[0].image);
        unwind_images_put_code(f->images, items[0].image);
        assert_false(unwind_images_wants_code(f->images, items[0].image));
        unwind_images_put_code(f->images, items[0].image);
        next_error = 0;
        do {
                assert_true(n_allowed < 100);
                allocations_left = n_allowed++;
        } while (unwind_images_get_code(f->images, (const uint8_t *) "more", 4, &items[0].image) < 0);
        allocations_left = -1;
        unwind_images_put_code(f->images, items[0].image);
}

/* More than can be told: those of files stay. */
static void test_many(void **state) {
        Fixture *f = *state;
        enum { MANY = 60000 };
        _cleanup_free_ MappedRange *ranges = calloc(MANY, sizeof(*ranges));
        AddressSpace space = { .ranges = ranges };
        SymbolFile file = {}, jit = { .kind = SYMBOL_FILE_JIT };
        const struct rs_table_mapping *m;
        UnwindList *list;
        uint32_t n;

        read_file(f, &file, 10000);
        for (size_t i = 0; i < MANY; i++)
                ranges[i] = (MappedRange){ 0x100000 + i * 0x2000, 0x101000 + i * 0x2000, 0x1000, i % 100 == 99 ? &file.mapped : &jit.mapped };
        space.n = 30000;
        assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
        mappings_of(f, unwind_list_get_value(list), &n);
        assert_int_equal(n, 30000);
        unwind_list_unref(list, f->images);
        space.n = MANY;
        assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
        m = mappings_of(f, unwind_list_get_value(list), &n);
        assert_int_equal(n, 600);
        assert_int_equal(m[599].start, 0x100000 + 59999 * 0x2000);
        unwind_list_unref(list, f->images);
}

/* Whichever allocation fails, nothing is lost but the table or list, and the next one is made. */
static void test_allocations(void **state) {
        Fixture *f = *state;

        for (unsigned i = 0, r = 1; r != 0; i++) {
                SymbolFile *file = __real_calloc(1, sizeof(*file));
                MappedRange range = { .start = 0x10000, .end = 0x20000, .offset = 0x1000, .file = &file->mapped };
                AddressSpace space = { .n = 1, .ranges = &range };
                UnwindList *list = NULL;
                char identity[16];

                snprintf(identity, sizeof(identity), "%u", i);
                next_identity = identity;
                file->elf = (ElfFile *) f;
                next_n_pages = 10;
                next_n_rules = 32U << i; /* the memory's table of rules has to grow each time */
                allocations_left = i;
                r = unwind_images_read(&file->mapped, file->elf, f->images) < 0 ||
                    unwind_list_new(&list, f->images, &space, NULL, NULL) < 0;
                allocations_left = -1;
                if (r == 0)
                        assert_true(i > 5);
                assert_return_code(unwind_images_read(&file->mapped, file->elf, f->images), 0);
                unwind_list_unref(list, f->images);
                assert_return_code(unwind_list_new(&list, f->images, &space, NULL, NULL), 0);
                assert_false(unwind_list_is_waiting(list));
                unwind_list_unref(list, f->images);
                free(file);
                next_identity = NULL;
        }
        /* All of the memory is there. */
        {
                SymbolFile all = {};

                wait_ms(110);
                read_file(f, &all, HEAP - RS_TABLE_CHUNK);
                wait_ms(110);
                assert_int_equal(unwind_images_tick(f->images), 0);
                assert_int_equal(statistics(f).images, 1);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_heap, set_up, tear_down),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_of_file),
                cmocka_unit_test(test_place_of_another),
                cmocka_unit_test_setup_teardown(test_rules, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_slots, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_code, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_identity, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_bias, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_eviction, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_files_go, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_unmappable, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_fragments, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_too_many_rules, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_same, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_allocations, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
