/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The writer with a symbolizer that is made up here, so that each process's mappings are what the test
 * says: every process has one file that maps 0x1000 to 0x9000, and "functions" of 0x100 bytes.
 */

#include "writer.h"

#include <inttypes.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "late-names.h"
#include "self-counts.h"
#include "test-kernel-symbols.h"
#include "test-recording-util.h"

/* ---- the fake ---- */

struct Symbolizer {
        MappedFile files[8]; /* [0] is [unknown] */
        unsigned refreshes;
        unsigned resolved; /* addresses that were asked for by name */
        bool not_final;
        bool late, told;    /* names are still to come, and have come */
        const char *source; /* of the second page's code, which is at a line for each byte; NULL: no line is known */
        uint64_t window;    /* when it ends */
        bool names_changed; /* the next time it is asked */
        unsigned last_reads;
        unsigned costs;      /* times that it was told what names have cost */
        unsigned late_looks; /* for one name */
        unsigned delay;      /* ms, of the next such look */
        int refresh_result;
        unsigned file; /* the one the next refresh finds */
        unsigned rewritten; /* the one that stands in the file that is told next, 0: none */
        char *swept_path, *swept_name; /* the first file's, and of its leaf; NULL: they stay */
        char *next_path;               /* of what comes to its place */
        bool jit_memory_short;
        unsigned freed; /* spaces of processes */
        char *interned[256];
        unsigned n_interned;
};

static bool steal_flag(bool *flag) {
        bool set = *flag;

        *flag = false;
        return set;
}

/* What is told has the number of its file as inode. */
struct AddressSpace {
        Symbolizer *symbolizer;
        unsigned file; /* 0: nothing is known */
        uint64_t generation;
        ToldMapping told[4];
        unsigned n_told;
};

int address_space_new(AddressSpace **ret, Symbolizer *symbolizer, pid_t pid) {
        (void) pid;
        *ret = calloc(1, sizeof(AddressSpace));
        if (!*ret)
                return -ENOMEM;
        (*ret)->symbolizer = symbolizer;
        return 0;
}

int address_space_fork(AddressSpace **ret, const AddressSpace *parent, pid_t pid, _unused_ uint64_t start) {
        int r = address_space_new(ret, parent->symbolizer, pid);

        if (r >= 0) {
                (*ret)->file = parent->file;
                memcpy((*ret)->told, parent->told, sizeof(parent->told));
                (*ret)->n_told = parent->n_told;
        }
        return r;
}

void address_space_set_start(_unused_ AddressSpace *space, _unused_ uint64_t start) {}

bool symbolizer_is_jit_memory_short(const Symbolizer *symbolizer) {
        return symbolizer->jit_memory_short;
}

AddressSpace *address_space_free(AddressSpace *space) {
        if (space)
                space->symbolizer->freed++;
        free(space);
        return NULL;
}

int address_space_refresh(AddressSpace *space) {
        Symbolizer *s = space->symbolizer;

        s->refreshes++;
        if (s->refresh_result < 0)
                return s->refresh_result;
        if (space->file == s->file)
                return 0;
        space->file = s->file;
        space->generation++;
        return 1;
}

void address_space_clear(AddressSpace *space) {
        space->file = space->n_told = 0;
        space->generation++;
}

static const ToldMapping *told_at(const AddressSpace *space, uint64_t address) {
        for (unsigned i = space->n_told; i-- > 0;)
                if (address >= space->told[i].start && address < space->told[i].end)
                        return &space->told[i];
        return NULL;
}

static unsigned told_find(const AddressSpace *space, uint64_t address) {
        const ToldMapping *told = told_at(space, address);

        return told ? told->inode : 0;
}

bool address_space_contradicts(const AddressSpace *space, const ToldMapping *told) {
        unsigned file = told_find(space, told->start);

        return file != 0 && file != told->inode;
}

bool address_space_forget_rewritten(AddressSpace *space, const ToldMapping *told) {
        return space->symbolizer->rewritten != 0 && told_find(space, told->start) == told->inode;
}

int address_space_tell(AddressSpace *space, const ToldMapping *told) {
        bool rewritten = address_space_forget_rewritten(space, told);
        bool other = rewritten || address_space_contradicts(space, told);

        if (!rewritten && told_find(space, told->start) == told->inode)
                return TOLD_KNOWN;
        assert_true(space->n_told < ELEMENTSOF(space->told));
        space->told[space->n_told] = *told;
        if (rewritten) {
                space->told[space->n_told].inode = space->symbolizer->rewritten;
                space->symbolizer->rewritten = 0;
        }
        space->n_told++;
        space->generation++;
        return other ? TOLD_OTHER : TOLD_NEW;
}

bool address_space_pass(AddressSpace *space, uint64_t time) {
        (void) space;
        (void) time;
        return false;
}

void symbolizer_let_go(Symbolizer *symbolizer) {
        (void) symbolizer;
}

/* In the first file's place there is another one. */
bool symbolizer_sweep(Symbolizer *symbolizer) {
        if (!symbolizer->next_path)
                return false;
        memset(symbolizer->swept_path, '?', strlen(symbolizer->swept_path));
        memset(symbolizer->swept_name, '?', strlen(symbolizer->swept_name));
        symbolizer->swept_name = NULL;
        symbolizer->files[1] = (MappedFile){ .path = symbolizer->next_path };
        symbolizer->next_path = NULL;
        return true;
}

int symbolizer_intern(Symbolizer *symbolizer, const char *name, const char **ret) {
        for (unsigned i = 0; i < symbolizer->n_interned; i++)
                if (strcmp(symbolizer->interned[i], name) == 0) {
                        *ret = symbolizer->interned[i];
                        return 0;
                }
        assert_true(symbolizer->n_interned < ELEMENTSOF(symbolizer->interned));
        *ret = symbolizer->interned[symbolizer->n_interned++] = strdup(name);
        return *ret ? 0 : -ENOMEM;
}

uint64_t address_space_get_generation(const AddressSpace *space) {
        return space->generation;
}

bool address_space_contains(const AddressSpace *space, uint64_t address) {
        return (space->file > 0 && address >= 0x1000 && address < 0x9000) || told_find(space, address) != 0;
}

size_t address_space_get_n_mappings(const AddressSpace *space) {
        return space->file > 0;
}

void address_space_get_mapping(const AddressSpace *space, size_t index, MappedRange *ret) {
        assert_int_equal(index, 0);
        *ret = (MappedRange){ 0x1000, 0x9000, 0, &space->symbolizer->files[space->file] };
}

static const char *const names[] = { [1] = "main", [2] = "work", [3] = "leaf", [4] = "_start",
                                     [5] = "__libc_start_call_main", [6] = "clone", [7] = "start_thread" };

int address_space_locate(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret) {
        *ret = (Resolved){ .file = &space->symbolizer->files[0], .address = address - return_address };
        if (address_space_contains(space, address)) {
                const ToldMapping *told = told_at(space, address);

                if (told)
                        ret->mapped = (MappedRange){ told->start, told->end, told->offset,
                                                     &space->symbolizer->files[told->inode] };
                else
                        address_space_get_mapping(space, 0, &ret->mapped);
                ret->file = ret->mapped.file;
                ret->final = !space->symbolizer->not_final;
        }
        return 0;
}

int address_space_resolve(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret) {
        (void) address_space_locate(space, address, return_address, ret);
        space->symbolizer->resolved++;
        if (ret->mapped.file) {
                ret->name = ret->address >> 12 < ELEMENTSOF(names) ? names[ret->address >> 12] : NULL;
                if (ret->address >> 12 == 3 && space->symbolizer->swept_name)
                        ret->name = space->symbolizer->swept_name;
                ret->name_offset = ret->address & 0xfff;
                if (space->symbolizer->late) {
                        ret->name = NULL;
                        ret->late_until = space->symbolizer->window;
                } else if (ret->address >> 12 == 2) {
                        ret->source = space->symbolizer->source;
                        ret->line = (uint32_t) ret->name_offset;
                }
        }
        return 0;
}

int address_space_update_names(AddressSpace *space, uint64_t time) {
        (void) time;
        return steal_flag(&space->symbolizer->names_changed);
}

int address_space_read_last_names(AddressSpace *space, uint64_t deadline) {
        assert_true(deadline < now_ns(CLOCK_MONOTONIC) + 1000000000);
        space->symbolizer->last_reads++;
        return 0;
}

void address_space_note_names_cost(AddressSpace *space, _unused_ uint64_t spent) {
        space->symbolizer->costs++;
}

uint64_t address_space_get_late_end(const AddressSpace *space) {
        return space->symbolizer->window;
}

int address_space_find_late_name(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until, bool final,
                                 const char **ret_name, uint64_t *ret_offset) {
        assert_true(first <= until);
        space->symbolizer->late_looks++;
        if (space->symbolizer->delay > 0)
                nanosleep(&(struct timespec){ .tv_nsec = space->symbolizer->delay * 1000000L }, NULL);
        space->symbolizer->delay = 0;
        if (!space->symbolizer->told)
                return final ? 0 : -EAGAIN;
        if (address >> 12 >= ELEMENTSOF(names))
                return 0;
        *ret_name = names[address >> 12];
        *ret_offset = address & 0xfff;
        return 1;
}

int address_space_find_late_line(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until,
                                 const char **ret_source, uint32_t *ret_line) {
        assert_true(first <= until);
        if (!space->symbolizer->told || address >> 12 != 2 || !space->symbolizer->source)
                return 0;
        *ret_source = space->symbolizer->source;
        *ret_line = address & 0xfff;
        return 1;
}

/* ---- fixture ---- */

typedef struct Fixture {
        Place *place;
        Symbolizer symbolizer;
        Store *store;
        Writer *writer;
        bool weighed; /* not by 1 for each sample */
} Fixture;

#define PID 4000000U /* above any real one, so that /proc never has it */

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(Fixture));
        static char paths[][16] = { "[unknown]", "/bin/one", "/bin/two", "/bin/three" };

        if (!f || place_setup((void **) &f->place) < 0)
                return -1;
        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                f->symbolizer.files[i].path = paths[i];
        f->symbolizer.file = 1;
        if (store_new(&f->store, f->place->file, NULL) < 0 || writer_new(&f->writer, f->store, &f->symbolizer, 1000) < 0)
                return -1;
        *state = f;
        return 0;
}

static void process_event_of(Fixture *f, enum RingsideProcessKind kind, uint32_t pid, uint32_t tid, uint32_t ppid,
                             uint64_t start, const char *comm, uint32_t inner_pid, bool kernel) {
        RingsideRecord record = {
                .type = RINGSIDE_PROCESS, .time = 5000, .pid = pid, .tid = tid,
                .process = { .kind = kind, .ppid = ppid, .start = start, .inner_pid = inner_pid, .kernel = kernel },
        };

        (void) snprintf(record.process.comm, sizeof(record.process.comm), "%s", comm);
        assert_return_code(writer_handle(f->writer, &record), 0);
}

static void process_event(Fixture *f, enum RingsideProcessKind kind, uint32_t pid, uint32_t tid, uint32_t ppid,
                          uint64_t start, const char *comm) {
        process_event_of(f, kind, pid, tid, ppid, start, comm, /* inner_pid= */ 0, /* kernel= */ false);
}

static void stack(Fixture *f, uint64_t id, const uint64_t *frames, uint32_t n) {
        RingsideRecord record = {
                .type = RINGSIDE_STACK, .pid = PID,
                .stack = { .id = id, .frames = frames, .n_frames = n },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

static void stack_of_both(Fixture *f, uint64_t id, uint32_t n_kernel, const uint64_t *frames, uint32_t n) {
        RingsideRecord record = {
                .type = RINGSIDE_STACK, .pid = PID,
                .stack = { .id = id, .frames = frames, .n_kernel = n_kernel, .n_frames = n },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

#define STACK(f, id, ...) stack(f, id, (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8)

static void sample(Fixture *f, uint32_t pid, uint32_t tid, uint64_t leaf, uint64_t id, enum RingsideWalkEnd end) {
        RingsideRecord record = {
                .type = RINGSIDE_SAMPLE, .time = 6000, .pid = pid, .tid = tid, .cpu = 3,
                .sample = { .leaf = leaf, .stack = id, .walk_end = end, .kernel_mode = RINGSIDE_FRAME_IS_KERNEL(leaf) },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

/* The rows of a query, columns separated by |, rows by a space. */
static char *query(Fixture *f, const char *sql) {
        sqlite3_stmt *statement;
        char *result = NULL;
        size_t size;
        FILE *out = open_memstream(&result, &size);
        sqlite3 *db;

        assert_return_code(writer_flush(f->writer), 0);
        assert_return_code(store_commit(f->store), 0);
        assert_int_equal(sqlite3_open_v2(f->place->file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        for (int row = 0; sqlite3_step(statement) == SQLITE_ROW; row++)
                for (int i = 0; i < sqlite3_column_count(statement); i++)
                        (void) fprintf(out, "%s%s", i > 0 ? "|" : row > 0 ? " " : "",
                                       sqlite3_column_type(statement, i) == SQLITE_NULL
                                               ? "NULL"
                                               : (const char *) sqlite3_column_text(statement, i));
        sqlite3_finalize(statement);
        sqlite3_close(db);
        assert_int_equal(fclose(out), 0);
        return result;
}

static void expect(Fixture *f, const char *sql, const char *expected) {
        _cleanup_free_ char *result = query(f, sql);

        assert_string_equal(result, expected);
}

/* Each sample's innermost function, as a profile would call it. */
#define SELF                                                                                                            \
        "SELECT CASE WHEN sample.stack IS NULL THEN '[no stack]' ELSE coalesce(CAST(symbol.name AS TEXT), "            \
        "printf('%s+0x%x', base, address)) END AS called, coalesce(base, ''), count(*), sum(coalesce(weight, 1)) AS w " \
        "FROM sample LEFT JOIN stack ON stack.id = sample.stack LEFT JOIN frame ON frame.id = stack.frame "             \
        "LEFT JOIN symbol ON symbol.id = symbol LEFT JOIN (SELECT id, replace(CAST(path AS TEXT), rtrim(CAST(path AS TEXT), " \
        "replace(CAST(path AS TEXT), '/', '')), '') AS base FROM file) AS f ON f.id = frame.file WHERE event = 0 "      \
        "GROUP BY 1, 2, frame.kernel ORDER BY w DESC, 1, 2"

/* Whatever was recorded: what was counted meanwhile is what is found in it. */
static void expect_rows(Fixture *f) {
        char *text = NULL;
        size_t size, n;
        FILE *out = open_memstream(&text, &size);
        const RingsideRow *rows;
        _cleanup_free_ char *expected = query(f, SELF);

        assert_return_code(writer_get_rows(f->writer, &rows, &n), 0);
        for (size_t i = 0; i < n; i++)
                (void) fprintf(out, "%s%s|%s|%" PRIu64 "|%" PRIu64, i > 0 ? " " : "", rows[i].name, rows[i].file,
                               rows[i].self_samples, rows[i].self_weight);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, expected);
        free(text);
}

static int teardown(void **state) {
        Fixture *f = *state;

        if (!f->weighed)
                expect_rows(f);
        writer_free(f->writer);
        store_free(f->store);
        (void) place_teardown((void **) &f->place);
        while (f->symbolizer.n_interned > 0)
                free(f->symbolizer.interned[--f->symbolizer.n_interned]);
        free(f);
        return 0;
}

/* The names of each sample's stack, outermost first. */
#define STACKS                                                                                                          \
        "WITH RECURSIVE s(n, id, text) AS (SELECT rowid, stack, '' FROM sample UNION ALL "                              \
        "SELECT n, parent, coalesce(CAST(symbol.name AS TEXT), 'x') || substr('>', 1, length(text)) || text "           \
        "FROM s JOIN stack ON stack.id = s.id JOIN frame ON frame.id = frame LEFT JOIN symbol ON symbol.id = symbol) "  \
        "SELECT text FROM s WHERE id IS NULL ORDER BY n"

static void test_stacks(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010, 0x5010, 0x4010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        /* What lies beyond the start is no frame, where the walk went astray. */
        STACK(f, 2, 0x2010, 0x1010, 0x5010, 0x4010, 0x3333, 0x2222);
        sample(f, PID, PID, 0x3000, 2, RINGSIDE_WALK_BAD_FP);
        /* Where it did not, it is left alone. */
        STACK(f, 3, 0x5010, 0x1010);
        sample(f, PID, PID, 0x3000, 3, RINGSIDE_WALK_COMPLETE);
        /* No start: half a stack. */
        STACK(f, 4, 0x2010, 0x1010);
        sample(f, PID, PID, 0x3000, 4, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, 0x4000, 0, RINGSIDE_WALK_BAD_FP);
        /* A thread's start; and the parent in clone(), which does have callers. */
        STACK(f, 5, 0x2010, 0x7010, 0x6010, 0x1234);
        sample(f, PID, PID, 0x3000, 5, RINGSIDE_WALK_BAD_FP);
        STACK(f, 6, 0x2010, 0x1010, 0x5010);
        sample(f, PID, PID, 0x6000, 6, RINGSIDE_WALK_BAD_FP);
        expect(f, STACKS,
               "_start>__libc_start_call_main>main>work>leaf _start>__libc_start_call_main>main>work>leaf "
               "main>__libc_start_call_main>leaf [truncated]>main>work>leaf [truncated]>leaf _start "
               "clone>start_thread>work>leaf __libc_start_call_main>main>work>clone");
        expect(f, "SELECT DISTINCT walk_end FROM sample ORDER BY 1", "1 3");
}

/* Of such a stack, and of no other with the same frames, or another leaf. */
static void test_guessed(void **state) {
        static const uint64_t frames[] = { 0x2010, 0x1010, 0x5010, 0x4010 };
        Fixture *f = *state;
        RingsideRecord record = {
                .type = RINGSIDE_STACK, .pid = PID,
                .stack = { .id = 2, .frames = frames, .n_frames = ELEMENTSOF(frames), .guessed = true },
        };

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        stack(f, 1, frames, ELEMENTSOF(frames));
        assert_return_code(writer_handle(f->writer, &record), 0);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3000, 2, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3000, 2, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3010, 2, RINGSIDE_WALK_COMPLETE); /* above callers that are known */
        sample(f, PID, PID, 0x3010, 1, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3000, 2, RINGSIDE_WALK_NO_CALL);
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_NO_RULE);
        expect(f, "SELECT walk_end FROM sample ORDER BY rowid", "1 17 17 17 1 28 9");
        expect(f, "SELECT count(DISTINCT stack) FROM sample WHERE walk_end < 8 OR walk_end > 9", "2");
}

/* What a signal interrupted is no return address, also where it is the first instruction of a function. */
static void test_signals(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x8000 | RINGSIDE_FRAME_EXACT, 0x2000 | RINGSIDE_FRAME_EXACT, 0x1010, 0x5010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        STACK(f, 2, 0x2000, 0x1010, 0x5010);
        sample(f, PID, PID, 0x3000, 2, RINGSIDE_WALK_COMPLETE);
        expect(f, STACKS, "__libc_start_call_main>main>work>x>leaf __libc_start_call_main>main>main>leaf");
        expect(f, "SELECT DISTINCT printf('%x', address) FROM frame WHERE symbol IS NULL", "8000");
}

/* Callers are resolved once for all leaves above them, which must not show. */
static void test_leaves(void **state) {
        Fixture *f = *state;
        WriterStatistics s;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, 0x3004, 1, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL, 1, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, 0, 1, RINGSIDE_WALK_BAD_FP);
        sample(f, PID, PID, 0xa000, 1, RINGSIDE_WALK_BAD_FP);
        /* A leaf in which stacks begin has no callers, nor is it half a stack. */
        sample(f, PID, PID, 0x4000, 1, RINGSIDE_WALK_BAD_FP);
        /* The same stack, walked to its end, is another one. */
        sample(f, PID, PID, 0x3004, 1, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x4000, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, STACKS,
               "[truncated]>main>work>leaf [truncated]>main>work>leaf [truncated]>main>work>[kernel] "
               "[truncated]>main>work [truncated]>main>work>x _start main>work>leaf main>work>_start");
        writer_get_statistics(f->writer, &s);
        assert_int_equal(s.truncated, 5);

        /* Nor must what was mapped before. */
        f->symbolizer.file = 2;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "other");
        sample(f, PID, PID, 0x3008, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT group_concat(DISTINCT file.path) FROM sample JOIN stack ON stack.id = stack JOIN frame ON "
                  "frame.id = frame JOIN file ON file.id = file WHERE sample.rowid = 9", "/bin/two");
}

static void test_truncation_count(void **state) {
        Fixture *f = *state;
        WriterStatistics s;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 4, 0x2010, 0x1010);
        for (int i = 0; i < 3; i++)
                sample(f, PID, PID, 0x3000, 4, RINGSIDE_WALK_UNREADABLE);
        sample(f, PID, PID, 0x3000, 4, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3000, 77, RINGSIDE_WALK_COMPLETE); /* its stack never came */
        writer_get_statistics(f->writer, &s);
        assert_int_equal(s.samples, 5);
        assert_int_equal(s.truncated, 4);
        assert_int_equal(s.unresolved, 1);
        assert_int_equal(s.stacks, 1);
        assert_int_equal(s.processes, 1);
        /* It came late: then it is whole. */
        STACK(f, 77, 0x1010);
        sample(f, PID, PID, 0x3000, 77, RINGSIDE_WALK_COMPLETE);
        writer_get_statistics(f->writer, &s);
        assert_int_equal(s.unresolved, 1);
        assert_int_equal(s.truncated, 4);
}

static void test_kernel(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        /* The first user frame is where the system call was made, at an address that is not one to return to. */
        STACK(f, 1, 0x2000, 0x1010, 0x4010);
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL, 1, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL, 0, RINGSIDE_WALK_NONE);
        sample(f, PID, PID, 0, 0, RINGSIDE_WALK_NONE);
        expect(f, STACKS, "_start>main>work>[kernel] [kernel] ");
        expect(f, "SELECT kernel, walk_end, stack IS NULL FROM sample", "1|1|0 1|0|0 0|0|1");
        expect(f, "SELECT path, frame.kernel, address FROM frame JOIN file ON file.id = frame.file ORDER BY frame.id",
               "/bin/one|0|16399 /bin/one|0|4111 /bin/one|0|8192 [kernel]|1|0");
}

static void test_threads(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        process_event(f, RINGSIDE_PROCESS_FORK, PID, PID + 1, 0, 500, "prog");
        sample(f, PID, PID + 1, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_COMM, PID, PID + 1, 0, 500, "worker");
        process_event(f, RINGSIDE_PROCESS_COMM, PID, PID + 2, 0, 500, "late");
        sample(f, PID, PID + 1, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID + 2, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        /* The tid again, for another thread; one that is never sampled; one nobody told of. */
        process_event(f, RINGSIDE_PROCESS_FORK, PID, PID + 1, 0, 500, "second");
        process_event(f, RINGSIDE_PROCESS_FORK, PID, PID + 3, 0, 500, "idle");
        sample(f, PID, PID + 1, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID + 9, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT tid - 4000000, comm FROM thread", "1|worker 2|late 1|second 9|prog");
        expect(f, "SELECT thread FROM sample", "1 1 2 3 4");
}

static void test_exec_and_fork(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "sh");
        STACK(f, 1, 0x1010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 1, PID + 1, PID, 2000, "sh");
        f->symbolizer.refresh_result = -ESRCH; /* gone before we looked: it has its parent's mappings */
        sample(f, PID + 1, PID + 1, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.refresh_result = 0;
        f->symbolizer.file = 2;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "prog");
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE); /* the same stack id, and another program */
        expect(f, "SELECT pid - 4000000, parent, start, end, comm FROM process",
               "0|NULL|-500|4000|sh 1|1|1000|NULL|sh 0|NULL|-500|NULL|prog");
        expect(f, "SELECT process, path FROM sample JOIN thread ON thread.id = thread JOIN stack ON stack.id = stack "
                  "JOIN frame ON frame.id = frame JOIN file ON file.id = file",
               "1|/bin/one 2|/bin/one 3|/bin/two");
        expect(f, "SELECT process, path FROM mapping JOIN file ON file.id = file", "1|/bin/one 2|/bin/one 3|/bin/two");
}

/* Nothing is known of the new program, and nothing of the old one is taken for it. */
static void test_exec_unseen(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "sh");
        STACK(f, 1, 0x1010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.refresh_result = -ESRCH;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "prog");
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT path FROM sample JOIN stack ON stack.id = stack JOIN frame ON frame.id = frame "
                  "JOIN file ON file.id = file", "/bin/one [unknown]");
}

/* What one has become while nothing was told is told with a sample, of whichever thread. */
static void test_exec_by_thread(void **state) {
        Fixture *f = *state;
        uint32_t pid = (uint32_t) getpid();

        assert_return_code(prctl(PR_SET_NAME, "leader"), errno);
        process_event(f, RINGSIDE_PROCESS_SEEN, pid, pid, 0, 0, "sh");
        sample(f, pid, pid, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_EXEC, pid, pid + 1, 0, 0, "worker");
        sample(f, pid, pid, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT comm FROM process", "sh leader");
}

/* The parent of a pid's first owner is not that of its second. */
static void test_parent_of_reused(void **state) {
        Fixture *f = *state;
        const uint64_t ns = 1000000000;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 1 * ns, "parent");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 1, PID + 1, PID, 2 * ns, "parent");
        process_event(f, RINGSIDE_PROCESS_EXEC, PID + 1, PID + 1, 0, 2 * ns, "child");
        sample(f, PID + 1, PID + 1, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_EXEC, PID + 1, PID + 1, 0, 9 * ns, "stranger");
        sample(f, PID + 1, PID + 1, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT comm, parent FROM process", "parent|NULL child|1 stranger|NULL");
}

/* Rows are for who has samples and for whom that came from, as far up as is known. */
static void test_rows(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "shell");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 1, PID + 1, PID, 2000, "make");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 2, PID + 2, PID + 1, 3000, "never");
        process_event(f, RINGSIDE_PROCESS_EXIT, PID + 2, PID + 2, 0, 3000, "never");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 3, PID + 3, PID + 1, 4000, "cc");
        sample(f, PID + 3, PID + 3, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT comm, parent, end FROM process", "shell|NULL|NULL make|1|NULL cc|2|NULL");
        process_event(f, RINGSIDE_PROCESS_EXIT, PID + 1, PID + 1, 0, 2000, "make");
        /* Of one that has ended, by a sample that comes late. */
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 4, PID + 4, PID + 3, 4500, "as");
        process_event(f, RINGSIDE_PROCESS_EXIT, PID + 4, PID + 4, 0, 4500, "as");
        sample(f, PID + 4, PID + 4, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        /* The parent without a row is another program by now. */
        process_event(f, RINGSIDE_PROCESS_SEEN, PID + 5, PID + 5, 0, 600, "login");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 6, PID + 6, PID + 5, 5000, "session");
        process_event(f, RINGSIDE_PROCESS_EXEC, PID + 5, PID + 5, 0, 600, "desktop");
        sample(f, PID + 6, PID + 6, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT comm, parent, end FROM process",
               "shell|NULL|NULL make|1|4000 cc|2|NULL as|3|4000 session|NULL|NULL");
}

/* What has ended is kept for a while, and where JITs' memory is short, for less. */
static void test_ended(void **state) {
        static const unsigned expected[] = { 0, 2, 4, 6, 8, 9, 10 };
        Fixture *f = *state;
        unsigned pid = PID;

        for (unsigned i = 0; i < 19; i++, pid++) {
                process_event(f, RINGSIDE_PROCESS_SEEN, pid, pid, 0, 500, "prog");
                process_event(f, RINGSIDE_PROCESS_EXIT, pid, pid, 0, 500, "prog");
        }
        for (unsigned i = 0; i < ELEMENTSOF(expected); i++, pid++) {
                process_event(f, RINGSIDE_PROCESS_SEEN, pid, pid, 0, 500, "prog");
                process_event(f, RINGSIDE_PROCESS_EXIT, pid, pid, 0, 500, "prog");
                assert_int_equal(f->symbolizer.freed, expected[i]);
                f->symbolizer.jit_memory_short = true;
        }
        f->symbolizer.jit_memory_short = false;
        for (unsigned i = 16; i < 260; i++, pid++) {
                process_event(f, RINGSIDE_PROCESS_SEEN, pid, pid, 0, 500, "prog");
                process_event(f, RINGSIDE_PROCESS_EXIT, pid, pid, 0, 500, "prog");
        }
        assert_int_equal(f->symbolizer.freed, 10 + 4);
}

static void test_pid_used_again(void **state) {
        Fixture *f = *state;
        const uint64_t ns = 1000000000;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 1 * ns, "first");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_EXIT, PID, PID, 0, 1 * ns, "first");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE); /* late, from another CPU */
        f->symbolizer.file = 2;
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 9 * ns, "second");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        /* The exit was lost. */
        f->symbolizer.file = 3;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 20 * ns, "third");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        /* Seen twice is one. */
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 20 * ns, "third");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT comm FROM process", "first second third");
        expect(f, "SELECT process FROM sample JOIN thread ON thread.id = thread", "1 1 2 3 3");
        expect(f, "SELECT file FROM sample JOIN stack ON stack.id = stack JOIN frame ON frame.id = frame", "1 1 2 3 3");
}

static void test_nobody_told(void **state) {
        Fixture *f = *state;

        sample(f, PID + 5, PID + 5, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_EXIT, PID + 6, PID + 6, 0, 1, "x");
        process_event(f, RINGSIDE_PROCESS_COMM, PID + 6, PID + 6, 0, 1, "x");
        process_event(f, RINGSIDE_PROCESS_FORK, PID + 6, PID + 7, 0, 1, "x");
        expect(f, "SELECT pid - 4000000, comm FROM process", "5|[unknown]");
        expect(f, "SELECT count(*) FROM sample", "1");
}

/* An address outside everything is a reason to read the mappings again, but not each time. */
static void test_refresh_limit(void **state) {
        Fixture *f = *state;
        unsigned before;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        before = f->symbolizer.refreshes;
        for (uint64_t i = 0; i < 5000; i++)
                sample(f, PID, PID, 0x100000 + i, 0, RINGSIDE_WALK_COMPLETE);
        assert_in_range(f->symbolizer.refreshes, before, before + 30);

        /* Once it is allowed again, what came with it is found, also for addresses that were asked for in vain. */
        f->symbolizer.file = 2;
        usleep(1500000);
        before = f->symbolizer.refreshes;
        sample(f, PID, PID, 0x100000 + 4999, 0, RINGSIDE_WALK_COMPLETE);
        assert_int_equal(f->symbolizer.refreshes, before + 1);
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT path FROM sample JOIN stack ON stack.id = stack JOIN frame ON frame.id = frame "
                  "JOIN file ON file.id = file WHERE sample.rowid = 5002", "/bin/two");
}

static void kernel_names(Fixture *f, const NamesFile *file) {
        RingsideRecord record = { .type = RINGSIDE_KERNEL_NAMES, .kernel_names = { .fd = -1 } };
        size_t size = 0;

        if (file)
                record.kernel_names.fd = names_memfd(file, F_SEAL_WRITE | F_SEAL_SHRINK, &size);
        record.kernel_names.size = size;
        assert_return_code(writer_handle(f->writer, &record), 0);
        close_fd(record.kernel_names.fd);
}

static void kernel_file(NamesFile *file) {
        names_init(file, 1);
        names_module(file, 0, "kernel");
        names_symbol(file, 0x100, "do_syscall_64");
        names_symbol(file, 0x200, "ksys_read");
        names_symbol(file, 0x300, "copy_to_user");
        names_module(file, 5, "ext4");
        names_symbol(file, 0, "ext4_read");
}

#define KERNEL(module, offset) (UINT64_C(1) << 63 | (uint64_t) (module) << 48 | (offset))
#define FRAMES                                                                                                          \
        "SELECT CAST(path AS TEXT), CAST(name AS TEXT), address, offset, frame.kernel FROM frame "                      \
        "LEFT JOIN file ON file.id = file LEFT JOIN symbol ON symbol.id = symbol ORDER BY frame.id"

static void test_kernel_names(void **state) {
        Fixture *f = *state;
        NamesFile file;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        kernel_file(&file);
        kernel_names(f, &file);
        /* A call that is the last instruction of its function returns to the next; user code joins at the entry. */
        stack_of_both(f, 1, 3, (const uint64_t[]){ KERNEL(5, 0x20), KERNEL(0, 0x300), KERNEL(0, 0x110), 0x3000, 0x1010 }, 5);
        sample(f, PID, PID, KERNEL(0, 0x300), 1, RINGSIDE_WALK_COMPLETE);
        /* What is not known of the user's part is below it. */
        sample(f, PID, PID, KERNEL(0, 0x300), 1, RINGSIDE_WALK_UNREADABLE);
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL_JIT, 1, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL_UNKNOWN, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, STACKS,
               "main>leaf>do_syscall_64>ksys_read>ext4_read>copy_to_user "
               "[truncated]>main>leaf>do_syscall_64>ksys_read>ext4_read>copy_to_user "
               "main>leaf>do_syscall_64>ksys_read>ext4_read>[bpf or trampoline] "
               "main>leaf>do_syscall_64>ksys_read>ext4_read>[unknown kernel code]");
        expect(f, FRAMES,
               "/bin/one|main|4111|15|0 /bin/one|leaf|12288|0|0 [kernel]|do_syscall_64|271|15|1 [kernel]|ksys_read|767|255|1 "
               "[ext4]|ext4_read|31|31|1 [kernel]|copy_to_user|768|0|1 NULL|[truncated]|0|0|0 "
               "[kernel]|[bpf or trampoline]|0|0|1 [kernel]|[unknown kernel code]|0|0|1");
        expect(f, "SELECT sum(kernel), count(*) FROM sample", "4|4");
}

/* Names that come late are used from then on; a module that went keeps its own. */
static void test_kernel_names_late(void **state) {
        Fixture *f = *state;
        NamesFile file;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        stack_of_both(f, 1, 1, (const uint64_t[]){ KERNEL(5, 0x20) }, 1);
        sample(f, PID, PID, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        sample(f, PID, PID, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        expect(f, FRAMES, "[module]|NULL|31|0|1 [kernel]|NULL|784|0|1");
        kernel_file(&file);
        kernel_names(f, &file);
        sample(f, PID, PID, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        names_init(&file, 2);
        names_module(&file, 9, "xfs");
        names_symbol(&file, 0, "xfs_read");
        kernel_names(f, &file);
        sample(f, PID, PID, KERNEL(5, 0x10), 0, RINGSIDE_WALK_NONE);
        sample(f, PID, PID, KERNEL(9, 0x10), 0, RINGSIDE_WALK_NONE);
        expect(f, STACKS, "x>x x>x ext4_read>copy_to_user ext4_read xfs_read");
        expect(f, "SELECT count(*) FROM meta WHERE key='kernel_frames'", "0");
}

static void test_no_kernel_names(void **state) {
        Fixture *f = *state;
        NamesFile file;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        kernel_names(f, NULL);
        sample(f, PID, PID, KERNEL(0, 0x310), 0, RINGSIDE_WALK_NONE);
        expect(f, "SELECT value FROM meta WHERE key='kernel_frames'", "no names");
        kernel_file(&file);
        kernel_names(f, &file);
        expect(f, "SELECT value FROM meta WHERE key='kernel_frames'", "yes");
        /* Nonsense does not end a recording. */
        file.header.magic = 0;
        kernel_names(f, &file);
        expect(f, "SELECT value FROM meta WHERE key='kernel_frames'", "no names");
}

/* Neither mappings nor arguments are looked for where there cannot be any. */
static void test_kernel_threads(void **state) {
        Fixture *f = *state;

        stack_of_both(f, 1, 1, (const uint64_t[]){ KERNEL(0, 0x310) }, 1);
        process_event_of(f, RINGSIDE_PROCESS_SEEN, 2, 2, 0, 0, "kthreadd", 0, /* kernel= */ true);
        process_event_of(f, RINGSIDE_PROCESS_FORK, PID, PID, 2, 900, "kworker/0:1", 0, /* kernel= */ true);
        sample(f, PID, PID, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        sample(f, 0, 0, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        assert_int_equal(f->symbolizer.refreshes, 0);
        /* What it runs then, as modprobe, is a program. */
        process_event_of(f, RINGSIDE_PROCESS_EXEC, PID, PID, 2, 900, "modprobe", 7, /* kernel= */ false);
        assert_int_equal(f->symbolizer.refreshes, 1);
        sample(f, PID, PID, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        expect(f, "SELECT pid, CAST(comm AS TEXT), length(cmdline), inner_pid FROM process",
               "2|[kthreadd]|0|NULL 4000000|[kworker/0:1]|0|NULL 0|[idle softirq]|0|NULL 4000000|modprobe|0|7");
        expect(f, "SELECT tid, CAST(comm AS TEXT) FROM thread", "4000000|kworker/0:1 0|swapper 4000000|modprobe");
        expect(f, STACKS, "x>x x>x x>x");
}

/* A counter's interrupt may come in the midst of another, and not only of a softirq. */
static void test_idle_by_counter(void **state) {
        Fixture *f = *state;

        writer_set_by_counter(f->writer);
        stack_of_both(f, 1, 1, (const uint64_t[]){ KERNEL(0, 0x310) }, 1);
        sample(f, 0, 0, KERNEL(0, 0x310), 1, RINGSIDE_WALK_NONE);
        expect(f, "SELECT pid, CAST(comm AS TEXT) FROM process", "0|[idle interrupt]");
}

/* The same content twice is stored once, however it is asked for. */
static void test_tree_is_shared(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010);
        STACK(f, 1, 0x2010, 0x1010);
        for (int i = 0; i < 100; i++)
                sample(f, PID, PID, 0x3000 + i % 2, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT count(*) FROM stack", "4");
        expect(f, "SELECT count(*) FROM frame", "4");
        expect(f, "SELECT count(*) FROM symbol", "3");
        expect(f, "SELECT count(*), count(weight), min(cpu) FROM sample", "100|0|3");
}

/* Of two stacks in a row the outer frames that are the same are taken from the first, which must not show. */
static void test_stacks_in_a_row(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010, 0x5010, 0x4010);
        STACK(f, 2, 0x2010, 0x2020, 0x1010, 0x5010, 0x4010);
        STACK(f, 3, 0x1010, 0x5010, 0x4010);
        STACK(f, 4, 0x2010, 0x1010);
        STACK(f, 5, 0x2020, 0x2010, 0x1010);
        STACK(f, 6, 0x2020 | RINGSIDE_FRAME_EXACT, 0x2010, 0x1010);
        for (uint64_t id = 1; id <= 4; id++)
                sample(f, PID, PID, 0x3000, id, RINGSIDE_WALK_COMPLETE);
        /* What is missing below the same frames, or what is cut off there, makes others of them. */
        sample(f, PID, PID, 0x3000, 5, RINGSIDE_WALK_UNREADABLE);
        sample(f, PID, PID, 0x3000, 4, RINGSIDE_WALK_UNREADABLE);
        sample(f, PID, PID, 0x3000, 6, RINGSIDE_WALK_COMPLETE);
        STACK(f, 7, 0x2030, 0x1010, 0x5010, 0x3333);
        STACK(f, 8, 0x2040, 0x1010, 0x5010, 0x3333);
        sample(f, PID, PID, 0x3000, 7, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3000, 8, RINGSIDE_WALK_BAD_FP);
        expect(f, STACKS,
               "_start>__libc_start_call_main>main>work>leaf _start>__libc_start_call_main>main>work>work>leaf "
               "_start>__libc_start_call_main>main>leaf main>work>leaf [truncated]>main>work>work>leaf "
               "[truncated]>main>work>leaf main>work>work>leaf leaf>__libc_start_call_main>main>work>leaf "
               "__libc_start_call_main>main>work>leaf");
        /* Each node of the tree is there once. */
        expect(f, "SELECT count(*), count(DISTINCT coalesce(parent, 0) || ' ' || frame) FROM stack", "29|29");
        expect(f, "SELECT max(n) FROM (SELECT count(*) AS n FROM frame GROUP BY address)", "1");
}

/* The same addresses, of another program. */
static void test_stacks_in_a_row_of_others(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.file = 2;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "other");
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT group_concat(file) FROM frame", "1,1,1,2,2,2");
        expect(f, "SELECT count(DISTINCT stack) FROM sample", "2");
}

/* The same process and stack, and another file where its first frames are, as the reading finds that is due. */
static void test_stacks_in_a_row_replaced(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 1, 0x2010, 0x1010);
        STACK(f, 2, 0x2020, 0x1010);
        sample(f, PID, PID, 0x3000, 1, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.file = 2;
        usleep(1200000);
        sample(f, PID, PID, 0, 2, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT group_concat(file) FROM frame", "1,1,1,2,2");
}

/* Names take longest: a place in a file is asked for once, whether or not it has one, by however many processes. */
static void test_places_are_asked_for_once(void **state) {
        Fixture *f = *state;

        for (unsigned i = 0; i < 3; i++) {
                process_event(f, RINGSIDE_PROCESS_SEEN, PID + i, PID + i, 0, 500, "prog");
                STACK(f, 10 + i, 0x2010, 0x8010);
                STACK(f, 20 + i, 0x2020, 0x8010);
                sample(f, PID + i, PID + i, 0x3000, 10 + i, RINGSIDE_WALK_COMPLETE);
                sample(f, PID + i, PID + i, 0x3000, 20 + i, RINGSIDE_WALK_COMPLETE);
        }
        assert_int_equal(f->symbolizer.resolved, 4);
        expect(f, "SELECT process, path FROM mapping JOIN file ON file.id = file", "1|/bin/one 2|/bin/one 3|/bin/one");
        expect(f, "SELECT DISTINCT count(*) FROM sample GROUP BY stack", "3");
        /* Unless the answer may be another one. */
        f->symbolizer.not_final = true;
        STACK(f, 30, 0x2030, 0x2040);
        STACK(f, 31, 0x2050, 0x2040);
        sample(f, PID, PID, 0x3008, 30, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3008, 31, RINGSIDE_WALK_COMPLETE);
        assert_int_equal(f->symbolizer.resolved, 4 + 6);
        /* And all the same the store has each once. */
        expect(f, "SELECT count(*) - count(DISTINCT file || ' ' || address) FROM frame", "0");
}

#define NAMES "SELECT address, CAST(name AS TEXT), offset FROM frame LEFT JOIN symbol ON symbol.id = symbol ORDER BY frame.id"

static void late_sample(Fixture *f, uint64_t time, uint64_t leaf) {
        RingsideRecord record = {
                .type = RINGSIDE_SAMPLE, .time = time, .pid = PID, .tid = PID, .sample = { .leaf = leaf, .stack = 10 },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

/* Names that a JIT writes later are those of what was stored before, one frame for each window of time. */
static void test_late_names(void **state) {
        Fixture *f = *state;

        f->weighed = true; /* and is counted anew */
        f->symbolizer.late = f->symbolizer.not_final = true;
        f->symbolizer.window = 10000;
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 10, 0x2010, 0x8010);
        late_sample(f, 6000, 0x3000);
        late_sample(f, 6001, 0x3000);
        f->symbolizer.names_changed = true; /* the window is over, and still there is none */
        f->symbolizer.window = 20000;
        late_sample(f, 10000, 0x3000);
        assert_int_equal(f->symbolizer.last_reads, 0);
        f->symbolizer.names_changed = true; /* it told of other times: what comes now is none of what came before */
        late_sample(f, 10001, 0x3000);
        f->symbolizer.names_changed = f->symbolizer.told = true;
        f->symbolizer.window = 30000;
        late_sample(f, 20000, 0x3000);
        assert_return_code(store_commit(f->store), 0);
        expect(f, NAMES, "32783|NULL|0 8207|work|15 12288|leaf|0 32783|NULL|0 8207|work|15 12288|leaf|0 "
                         "32783|NULL|0 8207|work|15 12288|leaf|0 32783|NULL|0 8207|work|15 12288|leaf|0");
}

#define LINES "SELECT address, CAST(path AS TEXT), line, line.name FROM line JOIN frame ON frame.id = frame ORDER BY frame.id"

/* Lines that a JIT tells come with its names, at once or late. */
static void test_lines(void **state) {
        Fixture *f = *state;

        f->weighed = true;
        f->symbolizer.not_final = true;
        f->symbolizer.source = "/a.js";
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        STACK(f, 10, 0x2010, 0x8010);
        STACK(f, 11, 0x2010, 0x2020);
        late_sample(f, 6000, 0x3000);
        sample(f, PID, PID, 0x3000, 11, RINGSIDE_WALK_COMPLETE);
        assert_return_code(store_commit(f->store), 0);
        expect(f, LINES, "8207|/a.js|15|NULL 8223|/a.js|31|NULL");
        f->symbolizer.late = true;
        f->symbolizer.window = 10000;
        late_sample(f, 6001, 0x2030);
        assert_return_code(store_commit(f->store), 0);
        expect(f, "SELECT count(*) FROM line", "2");
        f->symbolizer.names_changed = f->symbolizer.told = true;
        late_sample(f, 6002, 0x2030);
        expect(f, LINES, "8207|/a.js|15|NULL 8223|/a.js|31|NULL 8207|/a.js|15|NULL 8240|/a.js|48|NULL");
}

/* At the end of the recording, and where the process becomes another program. */
static void test_last_names(void **state) {
        Fixture *f = *state;
        const RingsideRow *rows;
        size_t n;

        f->weighed = true;
        f->symbolizer.late = f->symbolizer.not_final = true;
        f->symbolizer.window = 10000;
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.told = true;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "other");
        assert_int_equal(f->symbolizer.last_reads, 1);
        sample(f, PID, PID, 0x2000, 0, RINGSIDE_WALK_COMPLETE);
        f->symbolizer.told = false;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "third");
        f->symbolizer.told = true;
        sample(f, PID, PID, 0x2000, 0, RINGSIDE_WALK_COMPLETE);
        sample(f, PID, PID, 0x3008, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, NAMES, "12288|leaf|0 8192|NULL|0 8192|work|0 12296|leaf|8");
        assert_int_equal(f->symbolizer.last_reads, 3);
        assert_int_equal(writer_get_rows(f->writer, &rows, &n), -EFBIG);
}

static void late_program(Fixture *f, uint32_t pid, uint64_t window, uint64_t first, unsigned n) {
        f->symbolizer.window = window;
        process_event(f, RINGSIDE_PROCESS_SEEN, pid, pid, 0, 500, "prog");
        for (unsigned i = 0; i < n; i++)
                sample(f, pid, pid, first + i, 0, RINGSIDE_WALK_COMPLETE);
}

/*
 * No process has all the room for names that are to come, nor have all that have no dump. What has room is a frame of its
 * own, and what has none is one with the same address of the others that have none.
 */
static void test_room_for_late_names(void **state) {
        enum { MAX_OF_ONE = LATE_NAMES_OF_PROCESS_MAX, FULL = LATE_NAMES_OF_NO_DUMP_MAX / MAX_OF_ONE };
        Fixture *f = *state;

        f->weighed = true;
        f->symbolizer.late = f->symbolizer.not_final = true;
        for (unsigned i = 0; i < FULL; i++)
                late_program(f, PID + i, UINT64_MAX, 0x1000, MAX_OF_ONE);
        late_program(f, PID, 10000, 0x6000, 100);
        f->symbolizer.names_changed = true; /* or it would be remembered what was there */
        late_program(f, PID, 20000, 0x6000, 100);
        late_program(f, PID + 20, UINT64_MAX, 0x7000, 10);
        late_program(f, PID + 21, UINT64_MAX, 0x7000, 10);
        f->symbolizer.names_changed = true;
        late_program(f, PID + 21, 10000, 0x7000, 10);
        f->symbolizer.names_changed = true;
        late_program(f, PID + 21, 20000, 0x7000, 10);
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "other"); /* which makes room */
        late_program(f, PID + 22, UINT64_MAX, 0x7100, 10);
        late_program(f, PID + 23, UINT64_MAX, 0x7100, 10);
        expect(f, "SELECT count(*) - 65536 FROM frame", "150"); /* 100 of the first, 10 without a dump, and 20, and 20 */
}

/* To settle names costs something, which is not spent where there is nothing new; and takes no longer than it may. */
static void test_cost_of_late_names(void **state) {
        Fixture *f = *state;

        f->weighed = true;
        f->symbolizer.late = f->symbolizer.not_final = true;
        late_program(f, PID, 10000, 0x1000, 2000);
        f->symbolizer.window = UINT64_MAX;
        f->symbolizer.names_changed = true; /* but no dump has told more */
        sample(f, PID, PID, 0x1000, 0, RINGSIDE_WALK_COMPLETE);
        assert_int_equal(f->symbolizer.late_looks, 0);
        assert_int_equal(f->symbolizer.costs, 0);
        f->symbolizer.window = 20000;
        f->symbolizer.names_changed = f->symbolizer.told = true;
        f->symbolizer.delay = 150;
        sample(f, PID, PID, 0x1000, 0, RINGSIDE_WALK_COMPLETE);
        assert_int_equal(f->symbolizer.late_looks, 1024);
        assert_int_equal(f->symbolizer.costs, 1);
        /* The last time they have no name, which is not looked for. */
        f->symbolizer.late_looks = 0;
        late_program(f, PID, 30000, 0x1000, 100);
        f->symbolizer.delay = 150;
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "other");
        assert_int_equal(f->symbolizer.late_looks, 1024);
        assert_int_equal(f->symbolizer.costs, 1);
        expect(f, "SELECT count(name) FROM frame JOIN symbol ON symbol.id = symbol", "2048");
}

/* Nothing that is known by a file, or has its names, is left when it goes. */
static void test_file_goes(void **state) {
        Fixture *f = *state;
        char path[] = "/bin/gone", name[] = "inner", next[] = "/bin/next";

        f->symbolizer.files[1].path = f->symbolizer.swept_path = path;
        f->symbolizer.swept_name = name;
        for (unsigned i = 0; i < 2; i++) {
                process_event(f, RINGSIDE_PROCESS_SEEN, PID + i, PID + i, 0, 500, "prog");
                sample(f, PID + i, PID + i, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
                writer_let_go(f->writer);
        }
        assert_int_equal(f->symbolizer.resolved, 1);
        f->symbolizer.next_path = next;
        writer_let_go(f->writer);
        process_event(f, RINGSIDE_PROCESS_SEEN, PID + 2, PID + 2, 0, 500, "prog");
        sample(f, PID + 2, PID + 2, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT path FROM sample JOIN stack ON stack.id = stack JOIN frame ON frame.id = frame "
                  "JOIN file ON file.id = file", "/bin/gone /bin/gone /bin/next");
        /* What is counted is compared with this at the end. */
}

/*
 * The kernel tells the end before it takes the memory: what is sampled then is still the process. One that went
 * out of sight, or another that has its number, is not.
 */
static void test_seen_after_its_end(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_FORK, PID, PID, 0, 500, "prog");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_EXIT, PID, PID, 0, 500, "");
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        sample(f, PID, PID, RINGSIDE_FRAME_KERNEL, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT pid, end FROM process", "4000000|4000");
        expect(f, "SELECT thread, count(*) FROM sample GROUP BY thread", "1|2");
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 600, "other");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        process_event(f, RINGSIDE_PROCESS_GONE, PID, PID, 0, 600, "");
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 600, "again");
        sample(f, PID, PID, 0x3000, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT CAST(comm AS TEXT) FROM process ORDER BY id", "prog other again");
}

/* Where the time went is said in the first event's units, and samples may stand for several periods. */
static void test_weights(void **state) {
        static const struct {
                unsigned event;
                uint64_t leaf, weight;
        } samples[] = { { 0, 0x3000, 0 }, { 0, 0x3000, 0 }, { 0, 0x2000, 70 }, { 1, 0x1000, 1000 }, { 0, 0x9000, 0 } };
        Fixture *f = *state;
        const RingsideRow *rows;
        size_t n;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        writer_set_period(f->writer, 10);
        for (size_t i = 0; i < ELEMENTSOF(samples); i++) {
                RingsideRecord record = {
                        .type = RINGSIDE_SAMPLE, .time = 6000, .pid = PID, .tid = PID,
                        .sample = { .leaf = samples[i].leaf, .event = samples[i].event, .weight = samples[i].weight },
                };

                assert_return_code(writer_handle(f->writer, &record), 0);
        }
        assert_return_code(writer_flush(f->writer), 0);
        assert_return_code(writer_get_rows(f->writer, &rows, &n), 0);
        assert_int_equal(n, 3);
        assert_string_equal(rows[0].name, "work");
        assert_int_equal(rows[0].self_weight, 70);
        assert_int_equal(rows[0].self_samples, 1);
        assert_string_equal(rows[1].name, "leaf");
        assert_int_equal(rows[1].self_weight, 20);
        assert_string_equal(rows[2].name, "[unknown]+0x9000");
        f->weighed = true;
}

static int count_address(SelfCounts *self, int64_t frame_id, uint64_t address) {
        const FunctionPlace place = { .path = "/bin/one", .address = address };
        uint32_t number = self_counts_get(self, frame_id);
        int r = number == 0 ? self_counts_add(self, frame_id, (TableKey){}, &place, &number) : 0;

        if (r >= 0)
                self_counts_count(self, number, 1);
        return r;
}

/* However many functions there are, which may be as many as addresses: and it is told that not all were counted. */
static void test_functions_are_bounded(_unused_ void **state) {
        _cleanup_(self_counts_done) SelfCounts self = {};
        const int64_t max = SELF_NUMBER_MAX - 2;
        const RingsideRow *rows;
        size_t n;

        for (int64_t i = 1; i <= max; i++)
                assert_return_code(count_address(&self, i, (uint64_t) i), 0);
        assert_return_code(count_address(&self, 1, 1), 0);
        assert_return_code(self_counts_get_rows(&self, &rows, &n), 0);
        assert_int_equal(n, max);
        assert_string_equal(rows[0].name, "one+0x1");
        assert_int_equal(rows[0].self_samples, 2);
        /* Nor is any number given for a frame that there is no room for. */
        assert_int_not_equal(self_counts_get(&self, INT64_C(1) << 40), 0);
        assert_return_code(count_address(&self, max + 1, 0x1000000), 0);
        assert_int_equal(self_counts_get_rows(&self, &rows, &n), -EFBIG);
}

/* ---- samples that wait ---- */

#define MSEC UINT64_C(1000000)

static void sample_at(Fixture *f, uint64_t time, uint32_t pid, uint64_t leaf) {
        RingsideRecord record = {
                .type = RINGSIDE_SAMPLE, .time = time, .pid = pid, .tid = pid,
                .sample = { .leaf = leaf, .walk_end = RINGSIDE_WALK_COMPLETE },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

static void tell_path(Fixture *f, uint32_t pid, uint64_t start, uint64_t end, unsigned file, const char *path) {
        RingsideRecord record = {
                .type = RINGSIDE_MAPPING, .time = 6000, .pid = pid, .tid = pid,
                .mapping = { .process_start = 500, .start = start, .end = end, .inode = file, .path = path },
        };

        assert_return_code(writer_handle(f->writer, &record), 0);
}

static void tell(Fixture *f, uint32_t pid, uint64_t start, uint64_t end, unsigned file) {
        tell_path(f, pid, start, end, file, "/bin/x");
}

/* Where a JIT may have code it is looked for what the JIT says of that; a file that is told of needs no looking. */
static void test_told_of_jit(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        f->symbolizer.refreshes = 0;
        tell(f, PID, 0x20000, 0x21000, 7);
        assert_int_equal(f->symbolizer.refreshes, 0);
        usleep(20000);
        tell_path(f, PID, 0x30000, 0x31000, 8, "/tmp/jit-17.dump");
        assert_int_equal(f->symbolizer.refreshes, 1);
        usleep(20000);
        tell_path(f, PID, 0x40000, 0x41000, 9, "");
        assert_int_equal(f->symbolizer.refreshes, 2);
        usleep(20000);
        tell_path(f, PID, 0x40000, 0x41000, 9, "");
        assert_int_equal(f->symbolizer.refreshes, 2);
}

static uint64_t written(Fixture *f) {
        WriterStatistics s;

        writer_get_statistics(f->writer, &s);
        return s.samples;
}

/* Of each sample: its time in milliseconds, and the file of its leaf. */
#define FILES                                                                                                          \
        "SELECT sample.time / 1000000, CAST(path AS TEXT) FROM sample JOIN stack ON stack.id = stack JOIN frame ON "      \
        "frame.id = frame JOIN file ON file.id = file ORDER BY sample.rowid"

/* Processes that nobody can read. */
static void gone(Fixture *f) {
        f->symbolizer.refresh_result = -ESRCH;
        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        process_event(f, RINGSIDE_PROCESS_SEEN, PID + 1, PID + 1, 0, 500, "other");
}

static void test_wait_until_told(void **state) {
        Fixture *f = *state;

        gone(f);
        tell(f, PID + 1, 0x1000, 0x2000, 2);
        sample_at(f, 1 * MSEC, PID, 0x1100);
        sample_at(f, 2 * MSEC, PID, 0x5100);
        sample_at(f, 3 * MSEC, PID + 1, 0x1100);
        assert_int_equal(written(f), 0);
        /* All that came behind it waits with it. */
        tell(f, PID, 0x5000, 0x6000, 3);
        assert_int_equal(written(f), 0);
        tell(f, PID, 0x1000, 0x2000, 1);
        assert_int_equal(written(f), 3);
        sample_at(f, 4 * MSEC, PID, 0x1100);
        assert_int_equal(written(f), 4);
        expect(f, FILES, "0|/bin/one 1|/bin/three 2|/bin/two 3|/bin/one");
}

/* A recording has the lowest, which is the program's, and those that frames lie in; each once. */
static void test_mappings(void **state) {
        Fixture *f = *state;

        process_event(f, RINGSIDE_PROCESS_SEEN, PID, PID, 0, 500, "prog");
        tell(f, PID, 0x20000, 0x28000, 2);
        tell(f, PID, 0x30000, 0x38000, 3);
        sample_at(f, 1 * MSEC, PID, 0x21000);
        expect(f, "SELECT start, end, path FROM mapping JOIN file ON file.id = file ORDER BY start",
               "4096|36864|/bin/one 131072|163840|/bin/two");
        for (uint64_t i = 0; i < 10; i++)
                sample_at(f, (2 + i) * MSEC, PID, 0x30000 + i);
        sample_at(f, 12 * MSEC, PID, 0x22000);
        sample_at(f, 13 * MSEC, PID, 0x1100);
        expect(f, "SELECT process, start, time / 1000000 FROM mapping ORDER BY start", "1|4096|0 1|131072|0 1|196608|1");
}

/* Another mapping at the same place: what came before it is as it was then. */
static void test_wait_and_contradict(void **state) {
        Fixture *f = *state;

        gone(f);
        STACK(f, 1, 0x5100);
        tell(f, PID, 0x1000, 0x2000, 1);
        sample_at(f, 1 * MSEC, PID + 1, 0x1100); /* all others wait behind it */
        sample(f, PID, PID, 0x1100, 1, RINGSIDE_WALK_COMPLETE); /* its caller is not mapped */
        sample_at(f, 2 * MSEC, PID, 0x1100);
        tell(f, PID, 0x1000, 0x2000, 2);
        sample_at(f, 3 * MSEC, PID, 0x1100);
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "again");
        tell(f, PID, 0x1000, 0x2000, 3);
        sample_at(f, 4 * MSEC, PID, 0x1100);
        assert_int_equal(written(f), 0);
        tell(f, PID + 1, 0x1000, 0x2000, 3);
        assert_int_equal(written(f), 5);
        expect(f, FILES, "0|/bin/three 0|/bin/one 1|/bin/one 2|/bin/two 3|/bin/three");
}

/* The same where it is the file that was written anew, which no number tells. */
static void test_wait_and_rewrite(void **state) {
        Fixture *f = *state;

        gone(f);
        STACK(f, 1, 0x5100);
        tell(f, PID, 0x1000, 0x2000, 1);
        sample(f, PID, PID, 0x1100, 1, RINGSIDE_WALK_COMPLETE); /* its caller is not mapped */
        assert_int_equal(written(f), 0);
        f->symbolizer.rewritten = 2;
        tell(f, PID, 0x1000, 0x2000, 1);
        sample_at(f, 1 * MSEC, PID, 0x1100);
        assert_int_equal(written(f), 2);
        expect(f, FILES, "0|/bin/one 0|/bin/two");
}

/* An exec while a sample of the program before waits. */
static void test_wait_and_exec(void **state) {
        Fixture *f = *state;

        gone(f);
        STACK(f, 1, 0x5100);
        tell(f, PID, 0x1000, 0x2000, 1);
        sample(f, PID, PID, 0x1100, 1, RINGSIDE_WALK_COMPLETE); /* its caller is not mapped */
        assert_int_equal(written(f), 0);
        process_event(f, RINGSIDE_PROCESS_EXEC, PID, PID, 0, 500, "again");
        tell(f, PID, 0x1000, 0x2000, 2);
        sample(f, PID, PID, 0x1100, 0, RINGSIDE_WALK_COMPLETE);
        expect(f, "SELECT CAST(path AS TEXT) FROM sample JOIN stack ON stack.id = stack JOIN frame ON frame.id = frame "
                  "JOIN file ON file.id = file ORDER BY sample.rowid", "/bin/one /bin/two");
}

static void test_wait_in_vain(void **state) {
        Fixture *f = *state;

        gone(f);
        sample_at(f, 1 * MSEC, PID, 0x1100);
        sample_at(f, 200 * MSEC, PID, 0x5100);
        assert_int_equal(written(f), 0);
        sample_at(f, 202 * MSEC, PID, 0x1200);
        assert_int_equal(written(f), 1);
        /* What is known not to be mapped does not wait again, but behind others. */
        sample_at(f, 500 * MSEC, PID, 0x1300);
        assert_int_equal(written(f), 4);
        /* Nor for ever where nothing comes any more. */
        sample_at(f, 501 * MSEC, PID, 0x7100);
        assert_return_code(writer_tick(f->writer), 0);
        assert_int_equal(written(f), 4);
        usleep(400000);
        assert_return_code(writer_tick(f->writer), 0);
        assert_int_equal(written(f), 5);
        /* What is told after all counts from there on. */
        tell(f, PID, 0x1000, 0x2000, 1);
        sample_at(f, 502 * MSEC, PID, 0x1300);
        expect(f, FILES, "0|[unknown] 199|[unknown] 201|[unknown] 499|[unknown] 500|[unknown] 501|/bin/one");
}

static void test_wait_is_bounded(void **state) {
        Fixture *f = *state;

        gone(f);
        for (uint64_t i = 0; i < 70000; i++)
                sample_at(f, 1 * MSEC, PID, 0x100000 + i * 4096);
        assert_in_range(written(f), 1, 70000);
        expect(f, "SELECT count(*) FROM sample", "70000");
        assert_int_equal(written(f), 70000);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_stacks),         TEST(test_guessed), TEST(test_signals),TEST(test_leaves),
                TEST(test_truncation_count), TEST(test_kernel),         TEST(test_threads),
                TEST(test_exec_unseen),    TEST(test_parent_of_reused), TEST(test_exec_by_thread),
                TEST(test_exec_and_fork),  TEST(test_ended),   TEST(test_nobody_told), TEST(test_refresh_limit),
                TEST(test_exec_and_fork),  TEST(test_pid_used_again),   TEST(test_nobody_told), TEST(test_refresh_limit),
                TEST(test_tree_is_shared), TEST(test_kernel_names),     TEST(test_kernel_names_late),
                TEST(test_no_kernel_names), TEST(test_rows), TEST(test_kernel_threads), TEST(test_idle_by_counter), TEST(test_wait_until_told),
                TEST(test_wait_and_contradict), TEST(test_wait_and_rewrite), TEST(test_wait_and_exec), TEST(test_wait_in_vain),
                TEST(test_wait_is_bounded), TEST(test_mappings), TEST(test_stacks_in_a_row),
                TEST(test_stacks_in_a_row_of_others), TEST(test_stacks_in_a_row_replaced), TEST(test_places_are_asked_for_once),
                TEST(test_room_for_late_names), TEST(test_cost_of_late_names), TEST(test_lines),
                TEST(test_weights), TEST(test_late_names), TEST(test_told_of_jit), TEST(test_last_names), TEST(test_seen_after_its_end), TEST(test_file_goes),
                cmocka_unit_test(test_functions_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
