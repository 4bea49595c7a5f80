/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "store.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "dbfile.h"
#include "schema.h"
#include "test-recording-util.h"
#include "util.h"

static Store *store_with_one_stack(const char *path, int64_t *ret_thread, int64_t *ret_stack) {
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        int64_t process, file, frame;
        Store *store;

        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, &event), 0);
        assert_return_code(store_add_process(store, 10, 0, 0, 0, "prog", "prog\0-x\0", 8, &process), 0);
        assert_return_code(store_add_thread(store, process, 10, "prog", ret_thread), 0);
        assert_return_code(store_add_file(store, "/bin/prog", 1, 2, 3, "\1\2", 2, &file), 0);
        assert_return_code(store_add_frame(store, file, 0x1000, "main", 4, false, &frame), 0);
        assert_return_code(store_add_stack(store, 0, frame, ret_stack), 0);
        return store;
}

static void test_ids_and_interning(void **state) {
        Place *place = *state;
        int64_t thread, stack, again, frame, other, unnamed;
        Store *store = store_with_one_stack(place->file, &thread, &stack);

        assert_int_equal(thread, 1);
        assert_int_equal(stack, 1);
        assert_return_code(store_add_frame(store, 1, 0x1000, "main", 4, false, &frame), 0);
        assert_int_equal(frame, 1);
        assert_return_code(store_add_frame(store, 1, 0x1000, "other", 4, false, &other), 0);
        assert_int_equal(other, 2);
        assert_return_code(store_add_frame(store, 1, 0x1000, NULL, 0, false, &unnamed), 0);
        assert_int_equal(unnamed, 3);
        assert_return_code(store_add_stack(store, 0, frame, &again), 0);
        assert_int_equal(again, stack);
        assert_return_code(store_add_stack(store, stack, frame, &again), 0);
        assert_int_equal(again, 2);
        assert_null(store_free(store));
        assert_int_equal(count_rows(place->file, "symbol"), 2);
        assert_int_equal(count_rows(place->file, "frame"), 3);
        assert_int_equal(count_rows(place->file, "stack"), 2);
}

/* Whether its row is in the file already or not, and whether the function is new or not. */
static void test_name_frame(void **state) {
        Place *place = *state;
        int64_t thread, stack, frames[3];
        Store *store = store_with_one_stack(place->file, &thread, &stack);

        for (size_t i = 0; i < ELEMENTSOF(frames); i++)
                assert_return_code(store_add_frame_once(store, 1, 0x2000 + i, NULL, 0, false, &frames[i]), 0);
        assert_return_code(store_name_frame(store, frames[1], 1, 0x2001, "late", 1), 0);
        assert_return_code(store_commit(store), 0);
        assert_return_code(store_name_frame(store, frames[2], 1, 0x2002, "late", 2), 0);
        assert_null(store_free(store));
        assert_int_equal(count_rows(place->file, "frame WHERE symbol IS NULL AND address = 0x2000"), 1);
        assert_int_equal(count_rows(place->file, "frame JOIN symbol ON symbol.id = symbol "
                                                 "WHERE name = CAST('late' AS BLOB) AND offset > 0 AND address = 0x2000 + offset"), 2);
        assert_int_equal(count_rows(place->file, "function WHERE name = CAST('late' AS BLOB)"), 1);
}

#define LINES(condition) "line WHERE depth=0 AND name IS NULL AND " condition

/* Their tables are there when the first one is. One that is told two is at none. */
static void test_lines(void **state) {
        Place *place = *state;
        int64_t thread, stack, frames[3];
        Store *store = store_with_one_stack(place->file, &thread, &stack);

        for (size_t i = 0; i < ELEMENTSOF(frames); i++)
                assert_return_code(store_add_frame(store, 1, 0x2000 + i, "f", i, false, &frames[i]), 0);
        assert_return_code(store_commit(store), 0);
        assert_int_equal(count_rows(place->file, "pragma_user_version WHERE user_version=3"), 1);
        assert_int_equal(count_rows(place->file, "line"), -1);
        assert_return_code(store_set_line(store, frames[0], "/a.js", 7), 0);
        assert_return_code(store_set_line(store, frames[1], "/a.js", 8), 0);
        assert_return_code(store_set_line(store, frames[0], "/a.js", 7), 0);
        assert_return_code(store_set_line(store, frames[2], "/b.js", 7), 0);
        assert_return_code(store_commit(store), 0);
        assert_int_equal(count_rows(place->file, "pragma_user_version WHERE user_version=4"), 1);
        assert_int_equal(count_rows(place->file, LINES("frame=2 AND line=7 AND path=CAST('/a.js' AS BLOB)")), 1);
        assert_int_equal(count_rows(place->file, LINES("frame=3 AND line=8 AND path=CAST('/a.js' AS BLOB)")), 1);
        assert_int_equal(count_rows(place->file, LINES("frame=4 AND line=7 AND path=CAST('/b.js' AS BLOB)")), 1);
        assert_int_equal(count_rows(place->file, "line"), 3);
        assert_int_equal(count_rows(place->file, "source"), 2);
        assert_int_equal(count_rows(place->file, "code"), 3);
        assert_return_code(store_set_line(store, frames[0], "/a.js", 8), 0);
        assert_return_code(store_set_line(store, frames[0], "/a.js", 7), 0);
        assert_null(store_free(store));
        assert_int_equal(count_rows(place->file, "line WHERE frame=2"), 0);
        assert_int_equal(count_rows(place->file, "line"), 2);
        assert_int_equal(open_result(place->file), 0);
}

static sqlite3 *open_as_others(const char *path) {
        sqlite3 *db;

        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        return db;
}

/* Whatever number a frame has, and however many are new at once, the view has a row of each with its caller. */
static void test_branches(void **state) {
        static const int64_t interesting[] = { 1, 2, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xd800, 0xdfff, 0xe000, 0xfffd, 0xfffe, 0xffff,
                                               0x10000, 999999, 1000000, 1000001, 1000128, 2000000, 1, 2000001, INT32_MAX, 7 };
        Place *place = *state;
        int64_t thread, stack, frames[300], ids[300], again[300], fork_frames[3] = { 1, 0x800, 5 }, fork_ids[3];
        size_t n = ELEMENTSOF(frames), i = 0;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        sqlite3 *db;
        sqlite3_stmt *s;

        for (size_t k = 0; k < n; k++)
                frames[k] = k < ELEMENTSOF(interesting) ? interesting[k] : (int64_t) k * 197;
        assert_return_code(store_add_stacks(store, stack, frames, n, ids), 0);
        for (size_t k = 0; k < n; k++)
                assert_int_equal(ids[k], stack + 1 + (int64_t) k);
        assert_return_code(store_add_stacks(store, stack, frames, n, again), 0);
        assert_memory_equal(ids, again, sizeof(ids));
        /* The first two are there, the third is another one. */
        fork_frames[1] = frames[1];
        assert_return_code(store_add_stacks(store, stack, fork_frames, 3, fork_ids), 0);
        assert_memory_equal(ids, fork_ids, 2 * sizeof(*ids));
        assert_int_equal(fork_ids[2], ids[n - 1] + 1);
        /* Many short ones, so that a statement with many rows has them. */
        for (int64_t k = 0; k < 100; k++)
                assert_return_code(store_add_stack(store, 0, 100 + k, &again[k]), 0);
        assert_null(store_free(store));

        db = open_as_others(place->file);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT id,parent,frame FROM stack ORDER BY id", -1, &s, NULL), SQLITE_OK);
        for (; sqlite3_step(s) == SQLITE_ROW; i++) {
                int64_t parent = i == 0 || i > n + 1 ? 0 : i == 1 ? stack : i <= n ? ids[i - 2] : ids[1];

                assert_int_equal(sqlite3_column_int64(s, 0), i + 1);
                assert_int_equal(sqlite3_column_int64(s, 1), parent);
                assert_int_equal(sqlite3_column_type(s, 1) == SQLITE_NULL, parent == 0);
                assert_int_equal(sqlite3_column_int64(s, 2), i == 0 ? 1 : i <= n ? frames[i - 1] : i == n + 1 ? 5 : 98 + i - n);
        }
        assert_int_equal(i, 1 + n + 1 + 100);
        (void) sqlite3_finalize(s);
        (void) sqlite3_close(db);
        assert_in_range(count_rows(place->file, "branch"), 102, 120);
}

/* What is stored by function comes back as it was given. */
static void test_frames(void **state) {
        static const struct {
                uint64_t address;
                const char *name;
                uint64_t offset;
                int64_t file;
                bool kernel;
        } frames[] = {
                { 0x1000, "main", 4, 1, false },
                { 0x1004, "main", 8, 1, false },
                { 0x2000, "main", 4, 1, false }, /* another of the name */
                { 0x1000, "main", 4, 2, false },
                { 0x1000, "main", 4, 1, true },
                { 0x1000, "", 4, 1, false },
                { 0x1000, NULL, 0, 1, false },
                { 0x1000, "", 0x1000, 1, false },
                { 0x1004, NULL, 0, 1, false },
                { 0x0ffc, NULL, 0, 1, true },
                { 0x1000, NULL, 0, 2, false },
                { 0, "[truncated]", 0, 0, false },
                { UINT64_C(0xffffffffff600004), "vsyscall", 4, 1, false },
                { UINT64_C(0xffffffffff600004), NULL, 0, 1, false },
                { 0x10, "before its start", 0x20, 1, false },
        };
        Place *place = *state;
        size_t i = 0;
        Store *store;
        sqlite3 *db;
        sqlite3_stmt *s;

        assert_return_code(store_new(&store, place->file, NULL), 0);
        for (int again = 0; again < 2; again++)
                for (size_t k = 0; k < ELEMENTSOF(frames); k++) {
                        int64_t id;

                        assert_return_code(store_add_frame(store, frames[k].file, frames[k].address, frames[k].name, frames[k].offset,
                                                           frames[k].kernel, &id), 0);
                        assert_int_equal(id, k + 1);
                }
        assert_null(store_free(store));

        db = open_as_others(place->file);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT frame.id,file,address,symbol IS NULL,offset,kernel,CAST(name AS TEXT) FROM frame "
                                                "LEFT JOIN symbol ON symbol.id=symbol ORDER BY frame.id", -1, &s, NULL), SQLITE_OK);
        for (; sqlite3_step(s) == SQLITE_ROW; i++) {
                assert_int_equal(sqlite3_column_int64(s, 0), i + 1);
                assert_int_equal(sqlite3_column_int64(s, 1), frames[i].file);
                assert_int_equal(sqlite3_column_type(s, 1) == SQLITE_NULL, frames[i].file == 0);
                assert_int_equal(sqlite3_column_type(s, 2), SQLITE_INTEGER);
                assert_int_equal(sqlite3_column_int64(s, 2), (int64_t) frames[i].address);
                assert_int_equal(sqlite3_column_int64(s, 3), frames[i].name == NULL);
                assert_int_equal(sqlite3_column_int64(s, 4), frames[i].offset);
                assert_int_equal(sqlite3_column_int64(s, 5), frames[i].kernel);
                if (frames[i].name)
                        assert_string_equal((const char *) sqlite3_column_text(s, 6), frames[i].name);
        }
        assert_int_equal(i, ELEMENTSOF(frames));
        (void) sqlite3_finalize(s);
        (void) sqlite3_close(db);
        assert_int_equal(count_rows(place->file, "function"), 12);
}

/* Samples are inserted many at a time: each comes once, in order, with its own columns, and none is held back. */
static void test_samples(void **state) {
        Place *place = *state;
        int64_t thread, stack;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        sqlite3_stmt *s;
        sqlite3 *db;
        int n = 0;

        assert_return_code(store_add_target(store, 1, "process", "10"), 0);
        assert_int_equal(store_add_target(store, 1, "process", "11"), -EINVAL);
        assert_return_code(store_add_target(store, 2, "cgroup", "/a b"), 0);
        for (int i = 0; i < 100; i++) {
                assert_return_code(store_add_sample(store, SAMPLE(.time = 1000 + i, .thread_id = i + 1, .event = i % 3,
                                                                  .cpu = i % 5, .kernel_mode = i % 2, .walk_end = i % 7, .guessed = i % 17 == 0,
                                                                  .stack_id = i % 11 ? i : 0,
                                                                  .weight = i % 13 ? 2 * i : 0, .target = i % 4)), 0);
                if (i == 49)
                        assert_return_code(store_commit(store), 0);
                if (i == 50)
                        assert_int_equal(count_rows(place->file, "sample"), 50);
        }
        assert_null(store_free(store));

        assert_int_equal(sqlite3_open_v2(place->file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT rowid,* FROM sample ORDER BY rowid", -1, &s, NULL), SQLITE_OK);
        for (; sqlite3_step(s) == SQLITE_ROW; n++) {
                const int64_t columns[] = { n + 1, 1000 + n, n + 1, n % 3, n % 5, n % 2, n % 7 + (n % 17 ? 0 : 16), n % 11 ? n : 0,
                                            n % 13 ? 2 * n : 0, n % 4 < 3 ? n % 4 : 0 };

                for (size_t i = 0; i < ELEMENTSOF(columns); i++)
                        assert_int_equal(sqlite3_column_int64(s, i), columns[i]);
                assert_int_equal(sqlite3_column_type(s, 7) == SQLITE_NULL, columns[7] == 0);
                assert_int_equal(sqlite3_column_type(s, 8) == SQLITE_NULL, columns[8] == 0);
                assert_int_equal(sqlite3_column_type(s, 9) == SQLITE_NULL, columns[9] == 0);
        }
        assert_int_equal(n, 100);
        (void) sqlite3_finalize(s);
        (void) sqlite3_close(db);
}

static void test_new_file(void **state) {
        Place *place = *state;
        RingsideError error = {};
        char beside[PLACE_PATH_MAX + 16];
        struct stat st;
        Store *store;

        (void) umask(0);
        assert_return_code(store_new(&store, place->file, &error), 0);
        assert_return_code(stat(place->file, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        store_free(store);

        /* Never over a file, never through a link, dangling or not. */
        assert_int_equal(store_new(&store, place->file, &error), -EEXIST);
        assert_int_equal(error.code, -EEXIST);
        assert_non_null(strstr(error.text, place->file));
        assert_return_code(unlink(place->file), 0);
        assert_return_code(symlink("elsewhere", place->file), 0);
        assert_int_equal(store_new(&store, place->file, &error), -EEXIST);
        assert_return_code(unlink(place->file), 0);

        for (size_t i = 0; i < 3; i++) {
                (void) snprintf(beside, sizeof(beside), "%s%s", place->file,
                                (const char *[]){ "-journal", "-wal", "-shm" }[i]);
                assert_return_code(symlink("elsewhere", beside), 0);
                assert_int_equal(store_new(&store, place->file, &error), -EEXIST);
                assert_int_equal(access(place->file, F_OK), -1);
                assert_return_code(unlink(beside), 0);
        }
        assert_int_equal(store_new(&store, "/nonexistent/x", &error), -ENOENT);
        assert_int_equal(store_new(&store, "", &error), -ENOENT);
        assert_int_equal(store_new(&store, "/tmp/", &error), -EISDIR);
}

/* Whoever may rename things in the directory cannot make us write into another file. */
static void test_swapped_file(void **state) {
        Place *place = *state;
        char victim[PLACE_PATH_MAX], moved[PLACE_PATH_MAX], journal[PLACE_PATH_MAX + 16];
        int64_t thread, stack;
        struct stat st;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        int fd;

        (void) snprintf(victim, sizeof(victim), "%s/victim", place->dir);
        (void) snprintf(moved, sizeof(moved), "%s/moved", place->dir);
        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        fd = open(victim, O_WRONLY | O_CREAT, 0600);
        assert_return_code(fd, errno);
        (void) close(fd);
        assert_return_code(rename(place->file, moved), 0);
        assert_return_code(symlink("victim", place->file), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 1, .thread_id = thread, .stack_id = stack)), 0);
        assert_return_code(store_commit(store), 0);

        /* A journal that is planted later stops the recording; it is neither followed nor written to. */
        assert_return_code(symlink("victim", journal), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 2, .thread_id = thread, .stack_id = stack)), 0);
        assert_int_equal(store_commit(store), -EEXIST);
        assert_int_equal(store_add_sample(store, SAMPLE(.time = 3, .thread_id = thread, .stack_id = stack)), -EEXIST);
        store_free(store);

        assert_return_code(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 0);
        assert_int_equal(count_rows(moved, "sample"), 1);
}

static void test_other_readers(void **state) {
        Place *place = *state;
        int64_t thread, stack;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        sqlite3_stmt *statement;
        sqlite3 *db;

        /* The sqlite3 of somebody else reads while we write, and we wait for it without losing anything. */
        assert_return_code(store_commit(store), 0);
        assert_int_equal(sqlite3_open_v2(place->file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM thread", -1, &statement, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 1, .thread_id = thread, .stack_id = stack)), 0);
        assert_int_equal(store_commit(store), -EBUSY);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 2, .thread_id = thread, .stack_id = stack)), 0);
        assert_int_equal(store_commit(store), -EBUSY);
        sqlite3_finalize(statement);
        assert_return_code(store_commit(store), 0);
        assert_int_equal(count_rows(place->file, "sample"), 2);
        sqlite3_close(db);
        store_free(store);
}

static void test_long_text(void **state) {
        Place *place = *state;
        _cleanup_free_ char *text = malloc(1 << 20);
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        int64_t id;
        Store *store;

        assert_non_null(text);
        memset(text, 'x', (1 << 20) - 1);
        text[(1 << 20) - 1] = 0;
        assert_return_code(store_new(&store, place->file, NULL), 0);
        assert_return_code(store_put_event(store, 0, &(RingsideEvent){ .name = "e", .unit = "ns" }), 0);
        assert_return_code(store_put_meta(store, "command", text), 0);
        assert_return_code(store_add_process(store, 1, 0, 0, 0, text, text, 1 << 20, &id), 0);
        assert_return_code(store_add_file(store, text, 0, 0, 0, NULL, 0, &id), 0);
        assert_return_code(store_add_frame(store, id, 0, text, 0, false, &id), 0);
        /* More than goes together on its way. */
        for (uint64_t i = 0; i < 70; i++) {
                (void) snprintf(text, 5000, "%04" PRIu64 "%0*u", i, (int) i * 71, 7U);
                assert_return_code(store_add_frame(store, 1, i, text, 0, false, &id), 0);
        }
        store_free(store);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_int_equal(count_rows(place->file, "symbol WHERE length(name) = 4 + max(71 * (id - 2), 1) AND "
                                                 "CAST(substr(name, 1, 4) AS INTEGER) = id - 2"), 70);
}

static void test_disk_full(void **state) {
        Place *place = *state;
        int64_t thread, stack;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        pid_t pid;
        int status, r = 0;

        store_free(store);
        assert_return_code(unlink(place->file), 0);
        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                limit_file_size(256 << 10);
                store = store_with_one_stack(place->file, &thread, &stack);
                for (int i = 0; i < 100000 && r >= 0; i++) {
                        r = store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .stack_id = stack));
                        if (r >= 0 && i % 1000 == 0)
                                r = store_commit(store);
                }
                store_free(store);
                _exit(r == -EFBIG ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        /* What was committed before is there, and in order. */
        assert_in_range(count_rows(place->file, "sample"), 1000, 20000);
        assert_int_equal(open_result(place->file), 0);
}

/* ---- kill -9 ---- */

typedef struct Shared {
        _Atomic(uint64_t) committed; /* samples */
} Shared;

static void write_until_killed(const char *path, Shared *shared) {
        int64_t thread, stack;
        Store *store = store_with_one_stack(path, &thread, &stack);

        for (uint64_t i = 1;; i++) {
                int64_t frame, inner;

                /* New frames as well, so that a commit writes into several tables. */
                if (store_add_frame(store, 1, i / 8, "f", 0, false, &frame) < 0 ||
                    store_add_stack(store, stack, frame, &inner) < 0 ||
                    store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .cpu = i % 4, .stack_id = inner)) < 0)
                        _exit(1);
                if (i % 64 == 0) {
                        if (store_commit(store) < 0)
                                _exit(1);
                        shared->committed = i;
                }
        }
}

/* As our reader sees it, from a child that may be another user. */
static bool reads_samples(const char *path, uid_t uid, uint64_t least) {
        pid_t pid = fork();
        int status;

        assert_return_code(pid, errno);
        if (pid == 0) {
                RingsideRecording *recording;
                RingsideProfile *profile;
                RingsideError error = {};
                int r = 0;

                if (uid > 0 && (setgid(uid) < 0 || setuid(uid) < 0))
                        r = -errno;
                if (r >= 0)
                        r = ringside_recording_open(&recording, path, &error);
                if (r >= 0)
                        r = ringside_profile_new(&profile, recording, NULL, &error);
                if (r >= 0 && ringside_profile_get_samples(profile) < least) {
                        (void) fprintf(stderr, "%" PRIu64 " of %" PRIu64 " samples\n",
                                       ringside_profile_get_samples(profile), least);
                        r = -1;
                }
                if (r < 0)
                        (void) fprintf(stderr, "uid %u: %d %s\n", (unsigned) uid, r, error.text);
                _exit(r < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status == 0;
}

static void kill_one(Place *place, Shared *shared, unsigned round, unsigned *n_journals) {
        char journal[PLACE_PATH_MAX + 16];
        struct timespec delay = { .tv_nsec = 2000000 + (long) (round * 7919 % 97) * 100000 };
        pid_t pid;
        int status;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        shared->committed = 0;
        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0)
                write_until_killed(place->file, shared);
        while (shared->committed == 0)
                (void) nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
        (void) nanosleep(&delay, NULL);
        assert_return_code(kill(pid, SIGKILL), errno);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));

        /* Whoever may read can open it, and nobody writes. */
        if (chmod(journal, 0444) == 0)
                (*n_journals)++;
        assert_return_code(chmod(place->file, 0444), errno);
        assert_return_code(chmod(place->dir, 0555), errno);
        assert_true(reads_samples(place->file, geteuid() == 0 ? 65534 : 0, shared->committed));
        assert_return_code(chmod(place->dir, 0755), errno);

        /* And SQLite by itself agrees, given the right to roll back. */
        assert_return_code(chmod(place->file, 0644), errno);
        (void) chmod(journal, 0644);
        assert_true((uint64_t) count_rows(place->file, "sample") >= shared->committed);
        assert_true(is_intact(place->file));
        assert_return_code(unlink(place->file), errno);
        (void) unlink(journal);
}

static void test_kill(void **state) {
        Place *place = *state;
        Shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        unsigned n_journals = 0;

        assert_ptr_not_equal(shared, MAP_FAILED);
        for (unsigned round = 0; round < 50; round++)
                kill_one(place, shared, round, &n_journals);
        /* Committing all the time it is often hit in the middle; without that this would prove nothing. */
        print_message("%u of 50 were killed within a commit\n", n_journals);
        assert_true(n_journals > 0);
        (void) munmap(shared, 4096);
}

/* ---- the same, at each step of one commit ---- */

/* The system calls of the next commit until the process kills itself; below 0: it does not. */
static long steps_left = -1;

static bool dies_now(void) {
        return steps_left >= 0 && steps_left-- == 0;
}

/* Writes until the disk is full; below 0: it is not. */
static long writes_left = -1;
static bool stays_full;

static bool is_full(void) {
        if (writes_left != 0) {
                writes_left -= writes_left > 0;
                return false;
        }
        writes_left = stays_full ? 0 : -1;
        return true;
}

ssize_t __real_pwrite64(int fd, const void *data, size_t n, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t offset);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t offset) {
        if (is_full()) {
                errno = ENOSPC;
                return -1;
        }
        if (dies_now()) {
                (void) !__real_pwrite64(fd, data, n / 2, offset); /* a signal may cut a write short */
                (void) raise(SIGKILL);
        }
        return __real_pwrite64(fd, data, n, offset);
}

int __wrap_unlinkat(int fd, const char *name, int flags) {
        if (dies_now())
                (void) raise(SIGKILL);
        return __real_unlinkat(fd, name, flags);
}

/* Two commits of a thousand samples and as many frames; dies at the given step of the second. */
static void write_two_commits(const char *path, long steps) {
        int64_t thread, stack, frame, inner;
        Store *store = store_with_one_stack(path, &thread, &stack);

        for (int64_t i = 1; i <= 2000; i++) {
                if (store_add_frame(store, 1, i, "f", 0, false, &frame) < 0 ||
                    store_add_stack(store, stack, frame, &inner) < 0 ||
                    store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .cpu = i % 4, .stack_id = inner)) < 0)
                        _exit(1);
                if (i == 2000)
                        steps_left = steps;
                if (i % 1000 == 0 && store_commit(store) < 0)
                        _exit(1);
        }
        _exit(0);
}

static uint64_t samples_of(const char *path) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        RingsideError error = {};

        if (ringside_recording_open(&recording, path, &error) < 0 ||
            ringside_profile_new(&profile, recording, NULL, &error) < 0)
                fail_msg("%s", error.text);
        return ringside_profile_get_samples(profile);
}

static void test_kill_at_each_step(void **state) {
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        int status;
        long steps = 0;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        do {
                pid_t pid = fork();

                assert_return_code(pid, errno);
                if (pid == 0)
                        write_two_commits(place->file, steps);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFSIGNALED(status) || status == 0);

                /* All of it or nothing, by our reader and by SQLite's own. */
                assert_int_equal(samples_of(place->file), status == 0 ? 2000 : 1000);
                assert_int_equal(open_result(place->file), 0);
                assert_int_equal(count_rows(place->file, "sample"), status == 0 ? 2000 : 1000);
                assert_true(is_intact(place->file));
                assert_return_code(unlink(place->file), errno);
                (void) unlink(journal);
                steps++;
        } while (status != 0);
        /* The journal, its removal, and some twenty pages in between, those that follow each other at once. */
        assert_in_range(steps, 5, 200);
}

/* A disk that gets full with any of these writes, and stays so or not: what was committed before is there. */
static void test_full_at_each_step(void **state) {
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        int64_t thread, stack;
        long writes = 0;
        int r;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        do {
                Store *store = store_with_one_stack(place->file, &thread, &stack);

                for (int64_t i = 1; i <= 2000; i++) {
                        assert_return_code(store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .stack_id = stack)), 0);
                        if (i == 1000)
                                assert_return_code(store_commit(store), 0);
                }
                writes_left = writes / 2;
                stays_full = writes % 2;
                r = store_commit(store);
                (void) store_free(store);
                writes_left = -1;
                assert_true(r == 0 || r == -ENOSPC);
                assert_int_equal(samples_of(place->file), r == 0 ? 2000 : 1000);
                assert_true(is_intact(place->file));
                /* Where there was room again, SQLite itself has undone it. */
                assert_true(stays_full || access(journal, F_OK) < 0);
                assert_return_code(unlink(place->file), errno);
                (void) unlink(journal);
                writes++;
        } while (r < 0);
        assert_in_range(writes, 5, 200);
}

/* A journal counts only where it is the owner's own, and no live writer's. */
static void test_foreign_journal(void **state) {
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        int64_t thread, stack;
        Store *store = store_with_one_stack(place->file, &thread, &stack);

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        store_free(store);
        assert_int_equal(open_result(place->file), 0);

        write_text(journal, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7 this is no journal");
        assert_int_equal(open_result(place->file), 0);
        assert_return_code(unlink(journal), 0);
        assert_return_code(mkfifo(journal, 0600), 0);
        assert_int_equal(open_result(place->file), 0);
        assert_return_code(unlink(journal), 0);

        /* One that says the database was empty. Somebody else's is ignored, the owner's is believed. */
        write_empty_journal(journal);
        assert_int_equal(open_result(place->file), RINGSIDE_E_RECORDING);
        if (geteuid() == 0) {
                assert_return_code(chown(journal, 65534, 65534), errno);
                assert_int_equal(open_result(place->file), 0);
        }
}

/* ---- the page that describes it ---- */

static void test_documentation(_unused_ void **state) {
        _cleanup_free_ char *page = read_text(getenv("RECORDING_PAGE"));
        const char *p;

        assert_non_null(page);
        p = strstr(page, "```sql\n");
        assert_non_null(p);
        p += strlen("```sql\n");
        for (size_t i = 0; i < ELEMENTSOF(schema_tables); i++) {
                size_t n = strlen(schema_tables[i].sql);

                if (!schema_table_is_in(&schema_tables[i], SCHEMA_VERSION))
                        continue;
                if (strncmp(p, schema_tables[i].sql, n) != 0)
                        fail_msg("docs/recording.md does not show the schema of %s", schema_tables[i].name);
                assert_int_equal(p[n], ';');
                p += n + 1 + strspn(p + n + 1, "\n");
        }
        assert_memory_equal(p, "```", 3);
}

/* Its example of how to walk stacks: main, which has called nobody, and inner in main. */
static void test_documented_query(void **state) {
        _cleanup_free_ char *page = read_text(getenv("RECORDING_PAGE"));
        static const char *const expected[] = { "1 0 main", "2 0 inner", "2 1 main" };
        Place *place = *state;
        int64_t thread, stack, frame, inner;
        Store *store = store_with_one_stack(place->file, &thread, &stack);
        const char *p;
        char *end;
        size_t i = 0;
        sqlite3 *db;
        sqlite3_stmt *s;

        assert_return_code(store_add_frame(store, 1, 0x2000, "inner", 4, false, &frame), 0);
        assert_return_code(store_add_stack(store, stack, frame, &inner), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 1, .thread_id = thread, .stack_id = stack)), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 2, .thread_id = thread, .stack_id = inner)), 0);
        assert_null(store_free(store));

        assert_non_null(page);
        p = strstr(page, "```sql\nWITH");
        assert_non_null(p);
        p += strlen("```sql\n");
        end = strstr(p, "```");
        assert_non_null(end);
        *end = 0;
        db = open_as_others(place->file);
        assert_int_equal(sqlite3_prepare_v2(db, p, -1, &s, NULL), SQLITE_OK);
        for (; sqlite3_step(s) == SQLITE_ROW; i++) {
                char line[64];

                (void) snprintf(line, sizeof(line), "%s %s %s", sqlite3_column_text(s, 0), sqlite3_column_text(s, 1),
                                sqlite3_column_text(s, 2));
                assert_in_range(i, 0, ELEMENTSOF(expected) - 1);
                assert_string_equal(line, expected[i]);
        }
        assert_int_equal(i, ELEMENTSOF(expected));
        (void) sqlite3_finalize(s);
        (void) sqlite3_close(db);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_ids_and_interning, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_name_frame, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_lines, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_branches, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_frames, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_samples, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_new_file, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_swapped_file, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_other_readers, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_long_text, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_disk_full, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_kill, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_kill_at_each_step, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_full_at_each_step, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_foreign_journal, place_setup, place_teardown),
                cmocka_unit_test(test_documentation),
                cmocka_unit_test_setup_teardown(test_documented_query, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
