/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Entries of all sources are put in order of addresses, and each gets what those before it have left; their rows come out
 * in order, and are laid out page by page at once.
 */

#include "unwind-table-builder.h"

#include <dwarf.h>
#include <elf.h>
#include <string.h>

#include "table.h"
#include "unwind-cfi.h"

#define ENTRIES_MAX (1U << 22)
#define ROWS_A_CHUNK (RS_TABLE_CHUNK / 4)
#define UNKNOWN_RULE 1U
/* Code is searched for what is known up to here: C libraries; larger files without .eh_frame are programs in Go. */
#define SEARCH_MAX (2U << 20)
#define SEARCH_GO_MAX (64U << 20)
#define SEARCH_BLOCK (64U << 10)
/* Bytes from where the kernel begins to where nothing else than that is, in what is written by hand. */
#define ENTRY_POINT_SIZE 64U

/* Where an entry is from; of two that begin at the same address the first wins, so they are added in this order. */
enum Source {
        SOURCE_KNOWN_CODE,
        SOURCE_EH_FRAME,
        SOURCE_DEBUG_FRAME,
};
#define AHEAD 8 /* entries */
#define PAGE_ROOM (2U * RS_TABLE_PAGE) /* rows */
#define DIGIT_BITS 11U
#define DIGITS (1U << DIGIT_BITS)
/* A place in the order: where the entry starts, from the beginning of code on << 32, and its index. */
_Static_assert((uint64_t) UNWIND_PAGES_MAX << RS_TABLE_PAGE_SHIFT <= UINT64_C(1) << 32, "a start has 32 bits");

typedef struct Builder {
        const ElfFile *elf;
        UnwindTable *table;
        const CfiMachine *machine;
        uint64_t start, end; /* of code */
        uint64_t entry_point; /* UINT64_MAX: there is none */
        CfiEntry *entries;
        size_t n_entries, entries_allocated;
        uint64_t *order; /* NULL: they are in order as they are */
        size_t rows_allocated, rules_allocated;
        Table numbers;        /* what is in a rule -> its number */
        uint64_t covered;  /* everything below has its rows */
        size_t page;       /* that of the rows held */
        size_t n_held;     /* behind the table's rows */
        uint32_t last_rule;
} Builder;

static void builder_done(Builder *b) {
        free(b->entries);
        free(b->order);
        table_done(&b->numbers);
}

/* More room for element n. */
static int reserve(void *array, size_t *allocated, size_t n, size_t element, size_t max) {
        void **p = array, *larger;
        size_t want;

        if (n < *allocated)
                return 0;
        if (n >= max)
                return -EFBIG;
        want = MIN(MAX(2 * n, 256), max);
        larger = reallocarray(*p, want, element);
        if (!larger)
                return -ENOMEM;
        *p = larger;
        *allocated = want;
        return 0;
}

/* Rules. */

/* Where there are more than one file may have, those that come late are unknown. */
static int add_rule(Builder *b, const struct rs_table_rule *rule, uint32_t *ret) {
        UnwindTable *table = b->table;
        TableKey key = {};
        uint64_t number;
        int r;

        memcpy(&key.a, rule, sizeof(key.a));
        memcpy(&key.b, (const uint8_t *) rule + sizeof(key.a), sizeof(key.b));
        number = table_get(&b->numbers, key);
        if (number == 0) {
                if (table->n_rules == UNWIND_RULES_MAX) {
                        *ret = UNKNOWN_RULE;
                        return 0;
                }
                number = table->n_rules;
                r = reserve(&table->rules, &b->rules_allocated, number, sizeof(*rule), UNWIND_RULES_MAX);
                if (r < 0)
                        return r;
                r = table_put(&b->numbers, key, number);
                if (r < 0)
                        return r;
                table->rules[table->n_rules++] = *rule;
        }
        *ret = (uint32_t) number;
        return 0;
}

static int add_first_rules(Builder *b) {
        static const struct rs_table_rule none = {}, unknown = { .cfa = RS_CFA_UNKNOWN };
        uint32_t number;
        int r;

        r = reserve(&b->table->rules, &b->rules_allocated, 0, sizeof(none), UNWIND_RULES_MAX);
        if (r < 0)
                return r;
        b->table->rules[b->table->n_rules++] = none;
        return add_rule(b, &unknown, &number);
}

/* Rows. */

/* Room for a page more, and for what fills a chunk up before it. */
static int reserve_page(Builder *b) {
        UnwindTable *table = b->table;

        return reserve(&table->rows, &b->rows_allocated, table->n_rows + PAGE_ROOM - 1, sizeof(*table->rows),
                       UNWIND_ROWS_MAX + PAGE_ROOM);
}

/* The page is complete. What fills a chunk up is the row before the next page's first, and so is the last one's. */
static int place_page(Builder *b) {
        UnwindTable *table = b->table;
        uint32_t *rows = table->rows + table->n_rows;
        const size_t left = ROWS_A_CHUNK - table->n_rows % ROWS_A_CHUNK;

        if (b->n_held > left) {
                memmove(rows + left, rows, b->n_held * sizeof(*rows));
                for (size_t i = 0; i < left; i++)
                        rows[i] = rows[-1];
                table->n_rows += left;
        }
        table->pages[b->page++] = (uint64_t) table->n_rows << 32 | b->n_held;
        table->n_rows += b->n_held;
        b->n_held = 0;
        return reserve_page(b);
}

/* Addresses ascend. */
static inline int add_row(Builder *b, uint64_t address, uint32_t rule) {
        size_t page = (address - b->table->base) >> RS_TABLE_PAGE_SHIFT;
        int r;

        if (rule == b->last_rule)
                return 0;
        while (b->page < page) {
                r = place_page(b);
                if (r < 0)
                        return r;
        }
        b->table->rows[b->table->n_rows + b->n_held++] = (uint32_t) (address & (RS_TABLE_PAGE - 1)) << RS_TABLE_ROW_SHIFT | rule;
        b->last_rule = rule;
        b->table->n_unknown += rule == UNKNOWN_RULE;
        return 0;
}

static int emit(void *userdata, uint64_t start, uint64_t end, CfiRule *rule) {
        Builder *b = userdata;
        int r;

        start = MAX(start, b->covered);
        if (start >= end)
                return 0;
        if (start > b->covered) {
                r = add_row(b, b->covered, 0);
                if (r < 0)
                        return r;
        }
        if (rule->number == 0) {
                r = add_rule(b, &rule->rule, &rule->number);
                if (r < 0)
                        return r;
        }
        b->covered = end;
        return add_row(b, start, rule->number);
}

/* Entries. */

static int add_entry(Builder *b, CfiEntry entry, enum Source source) {
        int r;

        /* Of what the linker has thrown away the entry may be left, at address 0. */
        if (entry.start < b->start || entry.start >= b->end)
                return 0;
        r = reserve(&b->entries, &b->entries_allocated, b->n_entries, sizeof(entry), ENTRIES_MAX);
        if (r < 0)
                return r;
        entry.end = MIN(entry.end, b->end);
        entry.source = source;
        b->entries[b->n_entries++] = entry;
        return 0;
}

static int add_entries(Builder *b, CfiReader *reader, enum Source source) {
        CfiEntry entry;
        int r;

        while ((r = cfi_next(reader, &entry)) > 0) {
                r = elf_file_is_stopped(b->elf) ? -ECANCELED : add_entry(b, entry, source);
                if (r < 0)
                        return r;
        }
        b->table->n_skipped += reader->n_skipped;
        return r;
}

/* What comes after the last of them needs no pages: with one segment for all, as lld makes it, that may be most of it. */
static void find_end(Builder *b) {
        uint64_t end = b->entry_point == UINT64_MAX ? 0 : b->entry_point + MIN(b->end - b->entry_point, ENTRY_POINT_SIZE);

        for (size_t i = 0; i < b->n_entries; i++)
                end = MAX(end, b->entries[i].end);
        b->end = end;
}

static bool is_in_order(const Builder *b) {
        for (size_t i = 1; i < b->n_entries; i++)
                if (b->entries[i - 1].start > b->entries[i].start)
                        return false;
        return true;
}

/* By digits, from the last on; of those that start at the same address the first that was added stays the first. */
static void sort_by_digit(const uint64_t *from, uint64_t *to, size_t n, unsigned shift) {
        size_t place[DIGITS] = {}, next = 0;

        for (size_t i = 0; i < n; i++)
                place[from[i] >> shift & (DIGITS - 1)]++;
        for (size_t i = 0; i < DIGITS; i++) {
                size_t many = place[i];

                place[i] = next;
                next += many;
        }
        for (size_t i = 0; i < n; i++)
                to[place[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

/* The order and not the entries: these are several times as large. */
static int sort_entries(Builder *b) {
        _cleanup_free_ uint64_t *order = NULL, *other = NULL;

        if (is_in_order(b))
                return 0;
        order = reallocarray(NULL, b->n_entries, sizeof(*order));
        other = reallocarray(NULL, b->n_entries, sizeof(*other));
        if (!order || !other)
                return -ENOMEM;
        for (size_t i = 0; i < b->n_entries; i++)
                order[i] = (b->entries[i].start - b->start) << 32 | i;
        for (unsigned shift = 0; (b->end - b->start) >> shift != 0; shift += DIGIT_BITS) {
                uint64_t *sorted = other;

                sort_by_digit(order, sorted, b->n_entries, 32 + shift);
                other = order;
                order = sorted;
        }
        b->order = TAKE_PTR(order);
        return 0;
}

static const CfiEntry *entry_in_order(const Builder *b, size_t i) {
        return &b->entries[b->order ? (uint32_t) b->order[i] : i];
}

/* Code that is known. */

/*
 * Where a signal handler returns to. The CFI of such code is missing (Go, musl) or describes the frame of the handler
 * (the kernel for aarch64), so that unwinders know it by its bytes. What was interrupted is found in the signal
 * frame, the kernel's struct rt_sigframe, from the stack pointer on.
 */
/*
 * ucontext is at 0 when the handler has returned, its registers at 40: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp,
 * rip.
 */
#define SIGNAL_X86_64                                                                                                  \
        {                                                                                                              \
                .cfa = RS_CFA_DEREF, .reg = 7, .cfa_offset = 40 + 15 * 8,                                              \
                .fp = RS_REG_AT_BASE, .fp_offset = 40 + 10 * 8,                                                        \
                .ra = RS_REG_AT_BASE | RS_RULE_SIGNAL, .ra_offset = 40 + 16 * 8,                                       \
        }
/* siginfo has 128 bytes; ucontext's registers are at 184: x0 to x30, sp, pc. */
#define SIGNAL_AARCH64                                                                                                 \
        {                                                                                                              \
                .cfa = RS_CFA_DEREF, .reg = 31, .cfa_offset = 312 + 31 * 8,                                            \
                .fp = RS_REG_AT_BASE, .fp_offset = 312 + 29 * 8,                                                       \
                .ra = RS_REG_AT_BASE | RS_RULE_SIGNAL, .ra_offset = 312 + 32 * 8,                                      \
        }
/* The first frame of a context that glibc's makecontext() has made, which its CFI has for one that was called. */
#define FIRST_X86_64                                                                                                   \
        {                                                                                                              \
                .cfa = RS_CFA_REG, .reg = 7, .fp = RS_REG_UNDEFINED, .ra = RS_REG_UNDEFINED,                           \
        }

typedef struct KnownCode {
        bool is_aarch64;
        /* Bytes: it is returned to without having called, and the rule of a return address is that of the byte before. */
        uint8_t before;
        uint8_t covers; /* bytes from its beginning on */
        uint8_t size;
        uint8_t code[12];
        struct rs_table_rule rule;
} KnownCode;

static const KnownCode known_code[] = {
        /* mov $15, %rax; syscall */
        {false, 1, 9, 9, {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, SIGNAL_X86_64},
        /* mov $15, %eax; syscall */
        {false, 1, 7, 7, {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}, SIGNAL_X86_64},
        /* mov x8, #139; svc #0 */
        {true, 4, 8, 8, {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}, SIGNAL_AARCH64},
        /* mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, %rdi; je. Then calls of setcontext() and exit(). */
        {false, 1, 26, 11, {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff, 0x74}, FIRST_X86_64},
        /* mov %rbx, %rsp; pop %rdi; test %rdi, %rdi; je. */
        {false, 1, 23, 8, {0x48, 0x89, 0xdc, 0x5f, 0x48, 0x85, 0xff, 0x74}, FIRST_X86_64},
};
#define KNOWN_CODE_MAX 12U

/*
 * Whether any of it may begin in so many bytes: compiled to a few wide comparisons, where memmem() would be a third of all
 * work.
 */
#define WINDOW 64U
static bool is_window_of_interest(bool is_aarch64, const uint8_t *p) {
        uint8_t any = 0;

        if (is_aarch64)
                for (size_t i = 0; i < WINDOW; i++)
                        any |= (p[i] == 0x68) & (p[i + 1] == 0x11) & (p[i + 2] == 0x80);
        else
                for (size_t i = 0; i < WINDOW; i++)
                        any |= ((p[i] == 0x48) & (p[i + 1] == 0xc7) & (p[i + 2] == 0xc0)) |
                               ((p[i] == 0xb8) & (p[i + 1] == 0x0f) & (p[i + 2] == 0)) |
                               ((p[i] == 0x48) & (p[i + 1] == 0x89) & (p[i + 2] == 0xdc));
        return any;
}

static int search_one(Builder *b, size_t index, const uint8_t *data, size_t size, uint64_t address) {
        const KnownCode *known = &known_code[index];
        const uint8_t *found;
        size_t at = 0;
        int r;

        while ((found = memmem(data + at, size - at, known->code, known->size))) {
                at = (size_t) (found - data);
                if (address + at >= known->before) {
                        r = add_entry(b,
                                      (CfiEntry){
                                              .start = address + at - known->before,
                                              .end = address + at + known->covers,
                                              .program = (uint32_t) index,
                                      },
                                      SOURCE_KNOWN_CODE);
                        if (r < 0)
                                return r;
                }
                at++;
        }
        return 0;
}

/* data has WINDOW + 2 bytes more, of anything. */
static int search_block(Builder *b, const uint8_t *data, size_t size, uint64_t address) {
        for (size_t at = 0; at < size; at += WINDOW) {
                if (!is_window_of_interest(b->machine->is_aarch64, data + at))
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(known_code); i++) {
                        int r;

                        if (known_code[i].is_aarch64 != b->machine->is_aarch64)
                                continue;
                        r = search_one(b, i, data + at, MIN(size - at, WINDOW + KNOWN_CODE_MAX - 1), address + at);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int search_known_code(Builder *b, const ElfFile *elf, size_t max) {
        _cleanup_free_ uint8_t *block = NULL;
        uint64_t n;
        int r;

        block = calloc(1, SEARCH_BLOCK + WINDOW + 2);
        if (!block)
                return -ENOMEM;
        for (uint64_t at = b->start; at < b->end && (n = elf_file_get_bytes_at(elf, at)) > 0; at += n) {
                n = MIN(MIN(n, SEARCH_BLOCK), b->end - at);
                if (at - b->start + n > max)
                        return 0;
                r = elf_file_read_address(elf, at, block, n);
                if (r < 0)
                        return r;
                r = search_block(b, block, n, at);
                if (r < 0)
                        return r;
                /* It may lie across two blocks; what is found twice is there once. */
                if (n == SEARCH_BLOCK)
                        n -= KNOWN_CODE_MAX - 1;
        }
        return 0;
}

/* Sections. */

typedef struct Section {
        uint8_t *data;
        size_t size;
        uint64_t address;
} Section;

static void section_done(Section *section) {
        free(section->data);
}

/* Without section headers: by the index that PT_GNU_EH_FRAME names. The end is marked, at the latest by the segment's. */
static int read_eh_frame_by_index(const ElfFile *elf, Section *ret) {
        const uint64_t index = elf_file_get_eh_frame_hdr(elf);
        _cleanup_free_ uint8_t *data = NULL;
        uint8_t header[4 + 8] = {};
        uint64_t address, size;
        int r;

        if (index == 0)
                return -ENOENT;
        size = MIN(sizeof(header), elf_file_get_bytes_at(elf, index));
        r = elf_file_read_address(elf, index, header, size);
        if (r < 0)
                return r;
        if (size < 4 || header[0] != 1 || header[1] == DW_EH_PE_omit ||
            cfi_read_pointer(header + 4, size - 4, header[1], index + 4, index, &address) == 0)
                return -EBADMSG;
        size = elf_file_get_bytes_at(elf, address);
        if (size == 0)
                return -EBADMSG;
        size = MIN(size, CFI_SIZE_MAX);
        data = malloc(size);
        if (!data)
                return -ENOMEM;
        r = elf_file_read_address(elf, address, data, size);
        if (r < 0)
                return r;
        ret->data = TAKE_PTR(data);
        ret->size = size;
        ret->address = address;
        return 0;
}

static int read_eh_frame(ElfFile *elf, Section *ret) {
        int r;

        r = elf_file_read_section(elf, ".eh_frame", CFI_SIZE_MAX, &ret->data, &ret->size, &ret->address);
        return r == -ENOENT ? read_eh_frame_by_index(elf, ret) : r;
}

/* The table. */

/*
 * Nothing has called what the kernel begins with. The dynamic linker's says nothing of itself: all it does, and all that
 * libraries do before main(), would be cut there. next: where what else is known begins.
 */
static int emit_entry_point(Builder *b, uint64_t next) {
        CfiRule first = { .rule = { .cfa = RS_CFA_REG, .reg = b->machine->sp, .fp = RS_REG_UNDEFINED, .ra = RS_REG_UNDEFINED } };

        if (b->entry_point < b->covered || b->entry_point >= next)
                return 0;
        return emit(b, b->entry_point, b->entry_point + MIN(next - b->entry_point, ENTRY_POINT_SIZE), &first);
}

/* Of all pages up to the end of what has rules. */
static int begin_rows(Builder *b) {
        UnwindTable *table = b->table;
        int r;

        table->n_pages = (b->end - table->base + RS_TABLE_PAGE - 1) >> RS_TABLE_PAGE_SHIFT;
        table->pages = calloc(table->n_pages, sizeof(*table->pages));
        if (!table->pages)
                return -ENOMEM;
        r = add_first_rules(b);
        if (r >= 0)
                r = reserve_page(b);
        if (r < 0)
                return r;
        table->rows[table->n_rows++] = 0;
        return reserve_page(b);
}

static int end_rows(Builder *b) {
        UnwindTable *table = b->table;
        int r;

        if (b->covered % RS_TABLE_PAGE != 0) {
                r = add_row(b, b->covered, 0);
                if (r < 0)
                        return r;
        }
        while (b->page < table->n_pages) {
                r = place_page(b);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_all_rows(Builder *b, CfiReader *eh, CfiReader *debug) {
        int r;

        r = begin_rows(b);
        if (r < 0)
                return r;
        for (size_t i = 0; i < b->n_entries; i++) {
                const CfiEntry *entry = entry_in_order(b, i);

                __builtin_prefetch(entry_in_order(b, MIN(i + AHEAD, b->n_entries - 1)));
                if (entry->end <= b->covered)
                        continue;
                if (elf_file_is_stopped(b->elf))
                        return -ECANCELED;
                r = emit_entry_point(b, entry->start);
                if (r < 0)
                        return r;
                switch ((enum Source) entry->source) {
                case SOURCE_KNOWN_CODE:
                        r = emit(b, entry->start, entry->end, &(CfiRule){ .rule = known_code[entry->program].rule });
                        break;
                case SOURCE_EH_FRAME:
                        r = cfi_run(eh, entry, emit, b);
                        break;
                case SOURCE_DEBUG_FRAME:
                        r = cfi_run(debug, entry, emit, b);
                        break;
                }
                if (r < 0)
                        return r;
        }
        r = emit_entry_point(b, b->end);
        return r < 0 ? r : end_rows(b);
}

static int build(Builder *b, ElfFile *elf) {
        _cleanup_(section_done) Section eh = {}, debug = {};
        CfiReader eh_reader, debug_reader;
        uint64_t code = b->end - b->start;
        int r, has_eh;

        has_eh = read_eh_frame(elf, &eh);
        if (has_eh < 0 && has_eh != -ENOENT)
                return has_eh;
        cfi_reader_init(&eh_reader, b->machine, true, eh.data, eh.size, eh.address, elf_file_get_eh_frame_hdr(elf));
        r = elf_file_read_section(elf, ".debug_frame", CFI_SIZE_MAX, &debug.data, &debug.size, &debug.address);
        if (r < 0 && r != -ENOENT)
                return r;
        cfi_reader_init(&debug_reader, b->machine, false, debug.data, debug.size, debug.address, 0);

        r = search_known_code(b, elf, code <= SEARCH_MAX ? SEARCH_MAX : has_eh < 0 ? SEARCH_GO_MAX : 0);
        if (r < 0)
                return r;
        r = add_entries(b, &eh_reader, SOURCE_EH_FRAME);
        if (r < 0)
                return r;
        r = add_entries(b, &debug_reader, SOURCE_DEBUG_FRAME);
        if (r < 0)
                return r;
        if (b->n_entries == 0)
                return -ENOENT;
        find_end(b);
        r = sort_entries(b);
        if (r < 0)
                return r;

        b->table->n_entries = b->n_entries;
        return add_all_rows(b, &eh_reader, &debug_reader);
}

/* Gives back what was reserved. */
static void shrink(void *array, size_t n, size_t element) {
        void **p = array, *smaller = reallocarray(*p, n, element);

        if (smaller)
                *p = smaller;
}

int unwind_table_new(UnwindTable **ret, ElfFile *elf) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(builder_done) Builder b = {};
        int r;

        table = calloc(1, sizeof(*table));
        if (!table)
                return -ENOMEM;
        b.elf = elf;
        b.table = table;
        b.machine = cfi_machine(elf_file_get_machine(elf));
        if (!b.machine || !elf_file_is_64(elf) || !elf_file_get_code(elf, &b.start, &b.end))
                return -ENOENT;
        table->base = b.start & ~(uint64_t) (RS_TABLE_PAGE - 1);
        if ((b.end - table->base) >> RS_TABLE_PAGE_SHIFT >= UNWIND_PAGES_MAX)
                return -EFBIG;
        b.covered = b.start;
        b.entry_point = elf_file_get_entry(elf) - b.start < b.end - b.start ? elf_file_get_entry(elf) : UINT64_MAX;
        r = build(&b, elf);
        if (r < 0)
                return r;
        shrink(&table->rows, table->n_rows, sizeof(*table->rows));
        shrink(&table->rules, table->n_rules, sizeof(*table->rules));
        *ret = TAKE_PTR(table);
        return 0;
}

/* Code in memory. */

/* CPython's, between two of its functions: sub $8, %rsp; call *%rcx; add $8, %rsp; ret. An endbr64 may stand before. */
static const uint8_t trampoline[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
#define TRAMPOLINE_SUBTRACTED 4U /* offset of what comes after */
#define TRAMPOLINE_ADDED 10U

bool unwind_table_knows_code(const uint8_t *head, size_t size) {
#ifdef __x86_64__
        return memmem(head, size, trampoline, sizeof(trampoline));
#else
        (void) head;
        (void) size;
        return false;
#endif
}

static int emit_trampoline(Builder *b, const uint8_t *code, uint64_t at) {
        CfiRule returned = { .rule = { .cfa = RS_CFA_REG, .reg = b->machine->sp, .cfa_offset = 8, .ra = RS_REG_AT_CFA, .ra_offset = -8 } };
        CfiRule called = returned;
        uint64_t start = at;
        int r;

        called.rule.cfa_offset = 16;
        if (at >= sizeof(endbr64) && memcmp(code + at - sizeof(endbr64), endbr64, sizeof(endbr64)) == 0)
                start -= sizeof(endbr64);
        r = emit(b, start, at + TRAMPOLINE_SUBTRACTED, &returned);
        if (r >= 0)
                r = emit(b, at + TRAMPOLINE_SUBTRACTED, at + TRAMPOLINE_ADDED, &called);
        return r < 0 ? r : emit(b, at + TRAMPOLINE_ADDED, at + sizeof(trampoline), &returned);
}

/* The next one from there on; size: there is none. */
static size_t next_trampoline(const uint8_t *code, size_t size, size_t from) {
        const uint8_t *found = from < size ? memmem(code + from, size - from, trampoline, sizeof(trampoline)) : NULL;

        return found ? (size_t) (found - code) : size;
}

int unwind_table_new_of_code(UnwindTable **ret, const uint8_t *code, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(builder_done) Builder b = { .machine = cfi_machine(EM_X86_64), .entry_point = UINT64_MAX };
        int r;

        if (!unwind_table_knows_code(code, size))
                return -ENOENT;
        if (size >> RS_TABLE_PAGE_SHIFT >= UNWIND_PAGES_MAX)
                return -EFBIG;
        table = b.table = calloc(1, sizeof(*table));
        if (!table)
                return -ENOMEM;
        for (size_t at = 0; (at = next_trampoline(code, size, at)) < size; at += sizeof(trampoline)) {
                b.end = at + sizeof(trampoline);
                table->n_entries++;
        }
        r = begin_rows(&b);
        for (size_t at = 0; r >= 0 && (at = next_trampoline(code, size, at)) < size; at += sizeof(trampoline))
                r = emit_trampoline(&b, code, at);
        if (r >= 0)
                r = end_rows(&b);
        if (r < 0)
                return r;
        shrink(&table->rows, table->n_rows, sizeof(*table->rows));
        shrink(&table->rules, table->n_rules, sizeof(*table->rules));
        *ret = TAKE_PTR(table);
        return 0;
}

UnwindTable *unwind_table_free(UnwindTable *table) {
        if (!table)
                return NULL;
        if (!table->memory) {
                free(table->pages);
                free(table->rows);
                free(table->rules);
        }
        free(table->memory);
        free(table);
        return NULL;
}

const struct rs_table_rule *unwind_table_find(const UnwindTable *table, uint64_t address) {
        static const struct rs_table_rule none = {};
        size_t page = (address - table->base) >> RS_TABLE_PAGE_SHIFT, first, n;

        if (address < table->base || page >= table->n_pages)
                return &none;
        first = table->pages[page] >> 32;
        n = (uint32_t) table->pages[page];
        while (n > 0 && table->rows[first + n - 1] >> RS_TABLE_ROW_SHIFT > (address & (RS_TABLE_PAGE - 1)))
                n--;
        return &table->rules[table->rows[first + n - 1] & RS_TABLE_ROW_RULE];
}
