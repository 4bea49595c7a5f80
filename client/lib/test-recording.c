/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

#include <cmocka.h>

#include "schema.h"
#include "test-recording-util.h"

/* Two processes, a few stacks, a hundred samples. */
static void make_recording(const char *path) {
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        RingsideStatistics statistics = { .taken = 101, .emitted = 100, .lost = 1, .walk_end = { 0, 90, 0, 10 },
                                          .tables_refused = 4, .rules_no_room = 6, .tables_lost = 7, .untracked = 8 };
        int64_t process, thread, file, frame, stack = 0, frames[10], inner[10];
        Store *store;

        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, &event), 0);
        assert_return_code(store_put_meta(store, "command", "prog 'a b'"), 0);
        assert_return_code(store_put_meta(store, "hostname", "host"), 0);
        assert_return_code(store_put_meta(store, "start_realtime", "1700000000000000000"), 0);
        assert_return_code(store_add_process(store, 10, 3, 0, -5, "prog", "prog\0", 5, &process), 0);
        assert_return_code(store_add_thread(store, process, 10, "prog", &thread), 0);
        assert_return_code(store_add_file(store, "/bin/prog", 1, 2, 3, "\1\2\3", 3, &file), 0);
        assert_return_code(store_add_mapping(store, process, 0x1000, 0x2000, 0, file, 0), 0);
        for (uint64_t i = 0; i < 20; i++) {
                assert_return_code(store_add_frame(store, file, i * 16, "_Z3foov", 4, false, &frame), 0);
                if (i < 10)
                        assert_return_code(store_add_stack(store, stack, frame, &stack), 0);
                else
                        frames[i - 10] = frame;
        }
        assert_return_code(store_add_stacks(store, stack, frames, 10, inner), 0);
        stack = inner[9];
        assert_return_code(store_add_target(store, 1, "process", "10"), 0);
        for (int i = 0; i < 100; i++)
                assert_return_code(store_add_sample(store, SAMPLE(.time = i * 1000000, .thread_id = thread,
                                                                  .stack_id = 1 + i % stack, .target = i % 2)), 0);
        assert_return_code(store_put_statistics(store, 200000000, &statistics, 0, 7), 0);
        assert_return_code(store_commit(store), 0);
        store_free(store);
}

static void test_info(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        const RingsideRecordingInfo *info;

        make_recording(place->file);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        info = ringside_recording_get_info(recording);
        assert_int_equal(info->format, 3);
        assert_false(info->finished);
        assert_int_equal(info->samples, 100);
        assert_int_equal(info->truncated, 7);
        assert_int_equal(info->duration, 200000000);
        assert_int_equal(info->exit_status, -1);
        assert_int_equal(info->start_realtime, 1700000000000000000);
        assert_string_equal(info->command, "prog 'a b'");
        assert_string_equal(info->hostname, "host");
        assert_string_equal(info->grant, "");
        assert_int_equal(info->n_events, 1);
        assert_string_equal(info->events[0].name, "cpu-clock");
        assert_int_equal(info->events[0].value, 1000);
        assert_int_equal(info->statistics.taken, 101);
        assert_int_equal(info->statistics.lost, 1);
        assert_int_equal(info->statistics.walk_end[3], 10);
        assert_int_equal(info->statistics.tables_refused, 4);
        assert_int_equal(info->statistics.tables_no_room, 0);
        assert_int_equal(info->statistics.rules_no_room, 6);
        assert_int_equal(info->statistics.processes_no_room, 0);
        assert_int_equal(info->statistics.tables_lost, 7);
        assert_int_equal(info->statistics.untracked, 8);
        assert_int_equal(count_rows(place->file, "counter WHERE name LIKE '%room'"), 1);
}

static void put_be(uint8_t *p, uint32_t v, size_t n) {
        while (n-- > 0) {
                p[n] = v;
                v >>= 8;
        }
}

static size_t page_size_of(const char *bytes) {
        size_t size = (uint8_t) bytes[16] << 8 | (uint8_t) bytes[17];

        assert_in_range(size, 512, 32768);
        return size;
}

/* Whatever is said, it is an answer: 0 or a refusal. Sanitizers and the clock say the rest. */
static void expect_answer(const char *path) {
        int r = open_result(path);

        if (r != 0 && r != RINGSIDE_E_RECORDING)
                fail_msg("%s: %d", path, r);
}

static void test_truncated(void **state) {
        Place *place = *state;
        _cleanup_free_ char *bytes = NULL;
        unsigned refused = 0, tried = 0;
        size_t n;

        make_recording(place->file);
        bytes = read_bytes(place->file, &n);
        for (size_t cut = 0; cut < n; cut += cut < 128 ? 1 : 113) {
                write_bytes(place->file, bytes, cut);
                assert_int_equal(open_result(place->file), RINGSIDE_E_RECORDING);
                refused++;
                tried++;
        }
        assert_int_equal(refused, tried);
        assert_in_range(tried, 150, 5000);
}

static void test_flipped(void **state) {
        Place *place = *state;
        _cleanup_free_ char *bytes = NULL;
        unsigned seed = 42;
        size_t n, page;

        make_recording(place->file);
        bytes = read_bytes(place->file, &n);
        page = page_size_of(bytes);
        for (int i = 0; i < 1500; i++) {
                _cleanup_free_ char *changed = malloc(n);

                assert_non_null(changed);
                memcpy(changed, bytes, n);
                for (int k = 0; k <= i % 4; k++) {
                        /* Half of them where pages have their headers and pointers. */
                        size_t at = rand_r(&seed) % 2 ? rand_r(&seed) % n
                                                      : rand_r(&seed) % (n / page) * page + rand_r(&seed) % 64;

                        changed[at] = i % 3 ? rand_r(&seed) : changed[at] ^ 1 << rand_r(&seed) % 8;
                }
                write_bytes(place->file, changed, n);
                expect_answer(place->file);
        }
}

/* SQL that makes a good recording a bad one. */
static void test_planted(void **state) {
        static const char *const schema[] = {
                "CREATE VIEW v AS SELECT 1",
                "CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM sample; END",
                "CREATE INDEX i ON sample(time)",
                "CREATE TABLE more(x)",
                "ALTER TABLE sample ADD COLUMN more",
                "ALTER TABLE sample ADD COLUMN g GENERATED ALWAYS AS (time * 2) VIRTUAL",
                "ALTER TABLE sample RENAME COLUMN time TO t",
                "DROP TABLE counter",
                "ALTER TABLE sample RENAME TO s; CREATE VIEW sample AS SELECT * FROM s",
                "ALTER TABLE meta RENAME TO m; CREATE VIEW meta(key, value) AS SELECT 'command', hex(randomblob(100000))",
                "CREATE VIRTUAL TABLE v USING fts5(x)",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='CREATE VIEW sample AS SELECT 1' WHERE name='sample'",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql,'time INTEGER','time INTEGER CHECK(hex(randomblob(1000000000)))') WHERE name='sample'",
                "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name='sample'",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage=1 WHERE name='sample'",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage=99999 WHERE name='branch'",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET type='view' WHERE name='sample'",
                "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET type='table' WHERE name='stack'",
                "DROP VIEW stack",
                "DROP VIEW frame; CREATE VIEW frame AS SELECT hex(randomblob(100000)) AS id",
                "DROP VIEW symbol; CREATE TABLE symbol(id, name)",
                "DROP TABLE place; CREATE VIEW place AS SELECT 1 AS id, 1 AS function, 1 AS offset",
                "PRAGMA application_id=1",
                "PRAGMA user_version=1",
                "PRAGMA user_version=2",
                "PRAGMA user_version=4",
                "DROP TABLE target",
                "PRAGMA user_version=0",
                "PRAGMA journal_mode=WAL",
        };
        static const char *const rows[] = {
                "UPDATE branch SET parent=id WHERE id=5",
                "UPDATE branch SET parent=9 WHERE id=5",
                "UPDATE branch SET parent=15 WHERE id=11",
                "UPDATE branch SET parent=-1 WHERE id=5",
                "UPDATE branch SET parent='1' || char(0) WHERE id=5",
                "UPDATE branch SET base=1 WHERE id=11",
                "UPDATE branch SET base=-1 WHERE id=11",
                "UPDATE branch SET base=1000000 WHERE id=11",
                "UPDATE branch SET base=9223372036854775807 WHERE id=11",
                "UPDATE branch SET base='x' WHERE id=11",
                "UPDATE branch SET frames='' WHERE id=5",
                "INSERT INTO branch VALUES(21, NULL, 0, '')",
                "UPDATE branch SET frames=char(0) WHERE id=5",
                "UPDATE branch SET frames=char(21) WHERE id=5",
                "UPDATE branch SET frames=char(0x10ffff) WHERE id=5",
                "UPDATE branch SET frames=x'01' WHERE id=5",
                "UPDATE branch SET frames=CAST(x'c081' AS TEXT) WHERE id=5",
                "UPDATE branch SET frames=CAST(x'01c2' AS TEXT) WHERE id=11",
                "UPDATE branch SET frames=frames || char(1) WHERE id=5",
                "UPDATE branch SET frames=substr(frames, 2) WHERE id=11", /* and samples of what is no more there */
                "UPDATE branch SET frames=printf('%.*c', 1015, char(1)) WHERE id=11",
                "UPDATE branch SET frames=hex(zeroblob(200000)) WHERE id=11",
                "DELETE FROM branch WHERE id=5",
                "UPDATE branch SET id=1000000000000 WHERE id=11",
                "UPDATE place SET function=21 WHERE id=3",
                "UPDATE place SET function=0 WHERE id=3",
                "UPDATE place SET offset='x' WHERE id=3",
                "DELETE FROM place WHERE id=3",
                "UPDATE function SET file=2 WHERE id=3",
                "UPDATE function SET kernel=2 WHERE id=3",
                "UPDATE function SET start='x' WHERE id=3",
                "DELETE FROM function WHERE id=3",
                "UPDATE thread SET process=2",
                "UPDATE thread SET tid=-1",
                "UPDATE process SET pid=99999999999",
                "UPDATE sample SET thread=2 WHERE rowid=50",
                "UPDATE sample SET thread=x'00' WHERE rowid=50",
                "UPDATE sample SET stack=21 WHERE rowid=50",
                "UPDATE sample SET event=1 WHERE rowid=50",
                "UPDATE sample SET weight=-1 WHERE rowid=50",
                "UPDATE sample SET weight=1.5 WHERE rowid=50",
                "UPDATE sample SET target=2 WHERE rowid=50",
                "UPDATE sample SET target=-1 WHERE rowid=50",
                "UPDATE process SET inner_pid=-1",
                "UPDATE process SET inner_pid='x'",
                "UPDATE target SET id=2",
                "UPDATE sample SET rowid=1000000000 WHERE rowid=100",
                "UPDATE sample SET rowid=-1 WHERE rowid=100",
                "UPDATE file SET build_id=zeroblob(65)",
                "UPDATE function SET name=zeroblob(1000000)",
                "UPDATE meta SET value=hex(zeroblob(200000)) WHERE key='command'",
                "DELETE FROM event",
                "UPDATE event SET id=3",
                /* A chain of two thousand. */
                "WITH RECURSIVE n(i) AS (SELECT 21 UNION ALL SELECT i+1 FROM n WHERE i<2000) INSERT INTO branch SELECT i,i-1,0,char(1) FROM n",
        };
        Place *place = *state;

        for (size_t i = 0; i < ELEMENTSOF(schema) + ELEMENTSOF(rows); i++) {
                const char *sql = i < ELEMENTSOF(schema) ? schema[i] : rows[i - ELEMENTSOF(schema)];

                make_recording(place->file);
                run_sql(place->file, sql);
                if (open_result(place->file) != RINGSIDE_E_RECORDING)
                        fail_msg("accepted: %s", sql);
                assert_return_code(unlink(place->file), 0);
        }
}

/* Nor may these make it fail: they are odd, and harmless. */
static void test_odd(void **state) {
        static const char *const rows[] = {
                "UPDATE process SET comm=5, cmdline=5",
                "UPDATE process SET comm=x'ff0a1b00ff'",
                "UPDATE meta SET value='nonsense' WHERE key='start_realtime'",
                "UPDATE counter SET value=-9223372036854775808",
                "UPDATE counter SET value='x'",
                "INSERT INTO counter VALUES('walk_end.99', 1), ('walk_end.1x', 1), ('', 1)",
                "UPDATE sample SET time=-9223372036854775808",
                "UPDATE sample SET weight=9223372036854775807",
                "UPDATE event SET value=0",
                "UPDATE event SET unit='', name=''",
                "UPDATE sample SET stack=NULL",
                "DELETE FROM sample",
                "DELETE FROM meta",
                "UPDATE function SET name=''",
                "UPDATE function SET name=NULL, start=-1",
                "UPDATE function SET start=9223372036854775807",
                "UPDATE branch SET frames=printf('%.*c', 1014, char(1)) WHERE id=11",
                "UPDATE file SET path='', build_id=NULL",
                "VACUUM",
        };
        Place *place = *state;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                make_recording(place->file);
                run_sql(place->file, rows[i]);
                if (open_result(place->file) != 0)
                        fail_msg("refused: %s", rows[i]);
                assert_return_code(unlink(place->file), 0);
        }
}

/*
 * An inner page of a tree, full of cells that lead to child. leads_to 0: a leaf. The rows of a table have
 * numbers; those of an index are two empty texts.
 */
static void make_page(uint8_t *page, size_t page_size, bool is_table, uint32_t child) {
        size_t header = child ? 12 : 8, n = page_size / 16 - 2, content = page_size / 2;

        memset(page, 0, page_size);
        page[0] = (is_table ? 5 : 2) + (child ? 0 : 8);
        put_be(page + 3, n, 2);
        put_be(page + 5, content, 2);
        if (child)
                put_be(page + 8, child, 4);
        for (size_t i = 0; i < n; i++) {
                uint8_t *p = page + content + 8 * i;

                put_be(page + header + 2 * i, content + 8 * i, 2);
                if (child) {
                        put_be(p, child, 4);
                        p += 4;
                }
                if (is_table)
                        *p = i & 127;
                else
                        memcpy(p, "\3\3\15\15", 4); /* size, size of its header, two types */
        }
}

/* A page that leads to itself, many times over, is small and never ends. */
static void test_endless(void **state) {
        Place *place = *state;
        _cleanup_free_ char *bytes = NULL;
        size_t n, page_size;

        make_recording(place->file);
        bytes = read_bytes(place->file, &n);
        page_size = page_size_of(bytes);
        for (size_t page = 1; page < n / page_size; page++) {
                _cleanup_free_ uint8_t *changed = malloc(n);

                assert_non_null(changed);
                memcpy(changed, bytes, n);
                make_page(changed + page * page_size, page_size, page % 2, page + 1);
                write_bytes(place->file, changed, n);
                expect_answer(place->file);
        }
}

/* Where the table meta begins, in a recording that is made for it. */
static uint32_t root_page(const Place *place) {
        make_recording(place->file);
        return count_rows(place->file, "(SELECT 1 FROM sample LIMIT (SELECT rootpage FROM sqlite_schema "
                                       "WHERE name = 'meta'))");
}

/*
 * Fifteen levels of pages, each of which leads to the next many times over: more rows than anybody can read in a small
 * file. In meta, whose rows have no numbers to count by.
 */
static void test_too_much_work(void **state) {
        Place *place = *state;
        _cleanup_free_ char *bytes = NULL;
        _cleanup_free_ uint8_t *changed = NULL;
        RingsideRecording *recording;
        RingsideError error = {};
        uint32_t n_pages, root = root_page(place), levels = 15;
        size_t n, page_size;

        bytes = read_bytes(place->file, &n);
        page_size = page_size_of(bytes);
        n_pages = n / page_size;
        changed = calloc(n_pages + levels, page_size);
        assert_non_null(changed);
        memcpy(changed, bytes, n);
        put_be(changed + 28, n_pages + levels, 4);
        make_page(changed + (root - 1) * page_size, page_size, false, n_pages + 1);
        for (uint32_t level = 1; level <= levels; level++)
                make_page(changed + (n_pages + level - 1) * page_size, page_size, false,
                          level < levels ? n_pages + level + 1 : 0);
        write_bytes(place->file, changed, (n_pages + levels) * page_size);
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
        assert_non_null(strstr(error.text, "more work"));
}

static void test_not_a_file(void **state) {
        Place *place = *state;
        RingsideError error = {};
        RingsideRecording *recording;

        assert_int_equal(ringside_recording_open(&recording, place->file, &error), -ENOENT);
        assert_non_null(strstr(error.text, place->file));
        assert_int_equal(ringside_recording_open(&recording, place->dir, &error), RINGSIDE_E_RECORDING);
        assert_return_code(mkfifo(place->file, 0600), 0); /* must not wait for a writer */
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
        assert_return_code(unlink(place->file), 0);
        assert_int_equal(ringside_recording_open(&recording, "/dev/zero", &error), RINGSIDE_E_RECORDING);
        write_text(place->file, "");
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
        write_text(place->file, "some text that is no database at all, and is a bit longer than the header of one would "
                                "have to be, which is a hundred bytes");
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
        assert_non_null(strstr(error.text, "not a recording"));
        assert_return_code(unlink(place->file), 0);
        run_sql_create(place->file, "CREATE TABLE sample(x); PRAGMA application_id=0x526e6773; PRAGMA user_version=1");
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
}

static void test_newer_format(void **state) {
        Place *place = *state;
        RingsideError error = {};
        RingsideRecording *recording;

        make_recording(place->file);
        run_sql(place->file, "PRAGMA user_version=5");
        assert_int_equal(ringside_recording_open(&recording, place->file, &error), RINGSIDE_E_RECORDING);
        assert_non_null(strstr(error.text, "format 5"));
        assert_non_null(strstr(error.hint, "newer version"));
}

/* Written by the release that had version 1: 1000 samples, 200 of them truncated, 50 in the kernel. */
static void test_version_1(_unused_ void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        const RingsideRecordingInfo *info;
        const RingsideRow *rows;
        RingsideError error = {};
        size_t n;

        if (ringside_recording_open(&recording, getenv("RECORDING_VERSION_1"), &error) < 0)
                fail_msg("%s", error.text);
        info = ringside_recording_get_info(recording);
        assert_int_equal(info->format, 1);
        assert_true(info->finished);
        assert_int_equal(info->samples, 1000);
        assert_string_equal(info->hostname, "machine");
        assert_string_equal(info->grant, "own");
        assert_string_equal(info->scope, "");
        assert_string_equal(info->kernel_frames, "");
        if (ringside_profile_new(&profile, recording, NULL, &error) < 0)
                fail_msg("%s", error.text);
        assert_int_equal(ringside_profile_get_samples(profile), 1000);
        assert_int_equal(ringside_profile_get_truncated(profile), 200);
        assert_return_code(ringside_profile_get_rows(profile, RINGSIDE_BY_FUNCTION, &rows, &n), 0);
        assert_int_equal(n, 6);
        assert_string_equal(rows[0].name, "cli_hot_a");
        assert_int_equal(rows[0].self_samples, 700);
        assert_string_equal(rows[1].name, "cli_hot_b");
        assert_int_equal(rows[1].self_samples, 200);
        assert_return_code(ringside_profile_get_rows(profile, RINGSIDE_BY_THREAD, &rows, &n), 0);
        assert_int_equal(n, 2);
        recording = ringside_recording_free(recording);
        assert_int_equal(open_result(getenv("RECORDING_VERSION_1")), 0);
}

/* Written by the release that had version 2, as the one before. */
static void test_version_2(_unused_ void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        const RingsideRow *rows;
        RingsideError error = {};
        size_t n;

        if (ringside_recording_open(&recording, getenv("RECORDING_VERSION_2"), &error) < 0)
                fail_msg("%s", error.text);
        assert_int_equal(ringside_recording_get_info(recording)->format, 2);
        assert_string_equal(ringside_recording_get_info(recording)->scope, "own");
        if (ringside_profile_new(&profile, recording, NULL, &error) < 0)
                fail_msg("%s", error.text);
        assert_int_equal(ringside_profile_get_samples(profile), 1000);
        assert_int_equal(ringside_profile_get_truncated(profile), 200);
        assert_return_code(ringside_profile_get_rows(profile, RINGSIDE_BY_FUNCTION, &rows, &n), 0);
        assert_int_equal(n, 6);
        assert_string_equal(rows[0].name, "cli_hot_a");
        assert_int_equal(rows[0].self_samples, 700);
        recording = ringside_recording_free(recording);
        assert_int_equal(open_result(getenv("RECORDING_VERSION_2")), 0);
}

static void test_planted_in_version_2(void **state) {
        static const char *const rows[] = {
                "UPDATE stack SET parent=id WHERE id=5",
                "UPDATE stack SET parent=9 WHERE id=5",
                "UPDATE stack SET parent=-1 WHERE id=5",
                "UPDATE stack SET parent='1' || char(0) WHERE id=5",
                "UPDATE stack SET frame=8 WHERE id=5",
                "UPDATE stack SET frame=0",
                "DELETE FROM stack WHERE id=5",
                "UPDATE stack SET id=1000000000000 WHERE id=107",
                "WITH RECURSIVE n(i) AS (SELECT 108 UNION ALL SELECT i+1 FROM n WHERE i<2000) INSERT INTO stack SELECT i,i-1,1 FROM n",
                "UPDATE frame SET file=4",
                "UPDATE frame SET symbol=7 WHERE id=3",
                "UPDATE frame SET kernel=2 WHERE id=3",
                "UPDATE frame SET address='x' WHERE id=3",
                "DELETE FROM symbol WHERE id=2",
                "UPDATE sample SET stack=108 WHERE rowid=50",
                "CREATE VIEW branch AS SELECT 1",
                "PRAGMA user_version=1",
                "PRAGMA user_version=3",
        };
        Place *place = *state;
        _cleanup_free_ char *bytes = NULL;
        size_t n;

        bytes = read_bytes(getenv("RECORDING_VERSION_2"), &n);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                write_bytes(place->file, bytes, n);
                run_sql(place->file, rows[i]);
                if (open_result(place->file) != RINGSIDE_E_RECORDING)
                        fail_msg("accepted: %s", rows[i]);
        }
}

static void make_at(const Place *place, const char *name, time_t modified) {
        char path[PLACE_PATH_MAX + 32];

        (void) snprintf(path, sizeof(path), "%s/%s", place->dir, name);
        make_recording(path);
        assert_return_code(utime(path, &(struct utimbuf){ modified, modified }), errno);
}

static void test_find_newest(void **state) {
        Place *place = *state;
        _cleanup_free_ char *path = NULL, *second = NULL;
        char other[PLACE_PATH_MAX + 32];
        RingsideError error = {};

        assert_int_equal(ringside_recording_find_newest(place->dir, &path, &error), -ENOENT);
        assert_non_null(strstr(error.hint, "ringside record"));

        make_at(place, "old.ringside", 1000);
        make_at(place, "new.ringside", 2000);
        make_at(place, ".hidden.ringside", 3000);
        make_at(place, "other.txt", 3000);
        (void) snprintf(other, sizeof(other), "%s/broken.ringside", place->dir);
        write_text(other, "broken");
        (void) snprintf(other, sizeof(other), "%s/fifo.ringside", place->dir);
        assert_return_code(mkfifo(other, 0600), 0);
        (void) snprintf(other, sizeof(other), "%s/dir.ringside", place->dir);
        assert_return_code(mkdir(other, 0700), 0);

        assert_return_code(ringside_recording_find_newest(place->dir, &path, &error), 0);
        (void) snprintf(other, sizeof(other), "%s/new.ringside", place->dir);
        assert_string_equal(path, other);
        assert_int_equal(ringside_recording_find_newest("/nonexistent", &second, &error), -ENOENT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_info, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_truncated, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_flipped, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_planted, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_odd, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_endless, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_too_much_work, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_not_a_file, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_newer_format, place_setup, place_teardown),
                cmocka_unit_test(test_version_1),
                cmocka_unit_test(test_version_2),
                cmocka_unit_test_setup_teardown(test_planted_in_version_2, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_find_newest, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
