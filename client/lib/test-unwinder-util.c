/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "test-unwinder-util.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

static int set_up_of(void **state, size_t size) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1, 0);
        assert_ptr_not_equal(f->bytes, MAP_FAILED);
        assert_return_code(unwinder_new(&f->unwinder, f->bytes, size, -1, size), 0);
        *state = f;
        return 0;
}

int set_up(void **state) {
        return set_up_of(state, SIZE);
}

int set_up_small(void **state) {
        return set_up_of(state, SIZE_SMALL);
}

int tear_down(void **state) {
        Fixture *f = *state;

        unwinder_free(f->unwinder);
        free(f);
        return 0;
}

void pause_ms(unsigned ms) {
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

/* ---- records ---- */

void note(Fixture *f, const Child *child, enum RingsideProcessKind kind, uint32_t ppid) {
        RingsideRecord record = {
                .type = RINGSIDE_PROCESS,
                .pid = (uint32_t) child->pid,
                .tid = (uint32_t) child->pid,
                .process = { .kind = kind, .ppid = ppid, .start = child->start },
        };

        unwinder_note(f->unwinder, &record);
        f->noted++;
}

void note_mapping(Fixture *f, const Child *child, uint64_t address) {
        RingsideRecord record = {
                .type = RINGSIDE_MAPPING,
                .pid = (uint32_t) child->pid,
                .mapping = { .process_start = child->start, .start = address, .end = address + 0x1000, .path = "" },
        };

        unwinder_note(f->unwinder, &record);
        f->noted++;
}

void note_real_mapping(Fixture *f, const Child *child, uint64_t address) {
        RingsideRecord record = {
                .type = RINGSIDE_MAPPING,
                .pid = (uint32_t) child->pid,
                .mapping = { .process_start = child->start, .path = "/" },
        };
        bool found = false;
        char path[64], line[1024];
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", child->pid);
        maps = fopen(path, "re");
        assert_non_null(maps);
        while (!found && fgets(line, sizeof(line), maps)) {
                assert_int_equal(sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
                                        &record.mapping.start, &record.mapping.end, &record.mapping.offset,
                                        &record.mapping.dev_major, &record.mapping.dev_minor, &record.mapping.inode), 6);
                found = record.mapping.start <= address && address < record.mapping.end;
        }
        fclose(maps);
        assert_true(found);
        unwinder_note(f->unwinder, &record);
        f->noted++;
}

void note_sample(Fixture *f, const Child *child, enum RingsideWalkEnd end) {
        RingsideRecord record = { .type = RINGSIDE_SAMPLE, .pid = (uint32_t) child->pid, .sample.walk_end = end };

        unwinder_note(f->unwinder, &record);
}

UnwinderStatistics statistics(Fixture *f) {
        UnwinderStatistics s;

        unwinder_get_statistics(f->unwinder, &s);
        return s;
}

/* ---- as the programs see it ---- */

struct rs_table_process *find_slot(const Fixture *f, const Child *child) {
        struct rs_table_process *slots = (struct rs_table_process *) f->bytes;
        uint32_t first = rs_table_slot((uint32_t) child->pid, child->start);

        for (unsigned i = 0; i < RS_TABLE_PROBES; i++) {
                struct rs_table_process *p = &slots[(first + i) % RS_TABLE_PROCESSES];

                if (p->pid == (uint32_t) child->pid && p->start == child->start)
                        return p;
        }
        return NULL;
}

uint64_t find_list(const Fixture *f, const Child *child) {
        struct rs_table_process *p = find_slot(f, child);

        return p ? __atomic_load_n(&p->list, __ATOMIC_ACQUIRE) : 0;
}

const struct rs_table_mapping *find_mapping(const Fixture *f, uint64_t list, uint64_t address) {
        const struct rs_table_mapping *m = (const struct rs_table_mapping *) f->bytes + (list >> 32);

        if (list & RS_TABLE_FRAME_POINTERS)
                return NULL; /* a mark, not a length */
        for (uint32_t i = 0; i < (uint32_t) list; i++)
                if (m[i].start <= address && address < m[i].end)
                        return &m[i];
        return NULL;
}

struct rs_table_rule find_rule(const Fixture *f, const struct rs_table_mapping *m, uint64_t address) {
        uint64_t page = (address - m->bias) >> RS_TABLE_PAGE_SHIFT, entry;
        const uint32_t *rows = (const uint32_t *) f->bytes;
        uint32_t n, number;

        if (page >= m->n_pages)
                return (struct rs_table_rule){};
        entry = ((const uint64_t *) f->bytes)[m->pages + page];
        n = (uint32_t) entry;
        while (n > 0 && rows[(entry >> 32) + n - 1] >> RS_TABLE_ROW_SHIFT > (address & (RS_TABLE_PAGE - 1)))
                n--;
        number = rows[(entry >> 32) + n - 1] & RS_TABLE_ROW_RULE;
        assert_true(number < RS_TABLE_RULES);
        return ((const struct rs_table_rule *) (f->bytes + RS_TABLE_RULES_AT))[number];
}

/* ---- waiting ---- */

bool wait_for(Fixture *f, const Child *child, Condition condition, uint64_t value) {
        for (unsigned i = 0; i < PATIENCE_MS; i++) {
                if (condition(f, child, value))
                        return true;
                pause_ms(1);
        }
        return false;
}

bool has_address(Fixture *f, const Child *child, uint64_t address) {
        uint64_t list = find_list(f, child);
        const struct rs_table_mapping *m = list != 0 ? find_mapping(f, list, address) : NULL;

        return m && m->n_pages > 0;
}

uint64_t find_mapped(pid_t pid, const char *name, char *ret_path, size_t size, uint64_t *ret_offset) {
        char path[64], line[1024];
        uint64_t found = 0;
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", pid);
        maps = fopen(path, "re");
        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps)) {
                uint64_t start, offset;
                char permissions[8];
                int at = 0;

                assert_int_equal(sscanf(line, "%" SCNx64 "-%*x %7s %" SCNx64 " %*s %*s %n", &start, permissions, &offset, &at), 3);
                line[strcspn(line, "\n")] = 0;
                if (permissions[2] != 'x' || !strstr(line + at, name))
                        continue;
                found = start;
                if (ret_path)
                        snprintf(ret_path, size, "%s", line + at);
                if (ret_offset)
                        *ret_offset = offset;
                break;
        }
        (void) fclose(maps);
        return found;
}
