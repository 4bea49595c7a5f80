/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The n-th allocation of ours fails, for every n, while a recording is written, and while it is read and
 * exported: each time the answer is -ENOMEM or right, and nothing leaks (a sanitizer looks).
 * Linked with --wrap for the allocator.
 */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "schema.h"
#include "test-alloc.h"
#include "test-recording-util.h"

typedef int (*Scenario)(const Place *place);

/* The linker's: where the file begins in memory, whose addresses count from there. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static int write_recording(const Place *place) {
        _cleanup_(store_freep) Store *store = NULL;
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        int64_t process, thread, file, frame, stack = 0;
        int r;

        (void) unlink(place->file);
        r = store_new(&store, place->file, NULL);
        if (r >= 0)
                r = store_put_event(store, 0, &event);
        if (r >= 0)
                r = store_add_process(store, 10, 0, 0, 0, "prog", "prog", 5, &process);
        if (r >= 0)
                r = store_add_target(store, 1, "process", "10");
        if (r >= 0)
                r = store_add_thread(store, process, 10, "prog", &thread);
        if (r >= 0)
                r = store_add_file(store, "/bin/prog", 1, 2, 3, "\1\2\3", 3, &file);
        for (uint64_t i = 0; i < 80 && r >= 0; i++) {
                r = store_add_frame(store, file, i * 16, i % 2 ? "_Z3foov" : NULL, 4, false, &frame);
                if (r >= 0)
                        r = store_add_stack(store, stack, frame, &stack);
                if (r >= 0)
                        r = store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .stack_id = stack));
        }
        return r < 0 ? r : store_commit(store);
}

static int read_recording(const Place *place) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        _cleanup_fclose_ FILE *null = fopen("/dev/null", "we");
        const RingsideCode *codes;
        const RingsideNode *root;
        const RingsideRow *rows;
        RingsideError error = {};
        size_t n;
        int r;

        r = ringside_recording_open(&recording, place->file, &error);
        if (r >= 0)
                r = ringside_profile_new(&profile, recording, NULL, &error);
        for (unsigned group = 0; group <= RINGSIDE_BY_LINE && r >= 0; group++)
                r = ringside_profile_get_rows(profile, group, &rows, &n);
        if (r >= 0)
                r = ringside_profile_get_callees(profile, &root);
        if (r >= 0)
                r = ringside_profile_get_callers(profile, &root);
        if (r >= 0) /* of a file that is not there */
                r = ringside_profile_get_code(profile, "foo*", NULL, &codes, &n);
        if (r >= 0)
                r = ringside_export_collapsed(profile, null, &error);
        if (r >= 0)
                r = ringside_export_pprof(recording, NULL, null, &error);
        if (r >= 0)
                assert_int_equal(ringside_profile_get_samples(profile), 80);
        return r;
}

/* With lines, and two functions that are inlined in every other frame. */
static void add_lines(const char *path) {
        for (size_t i = 0; i < ELEMENTSOF(schema_tables); i++)
                if (schema_tables[i].first > SCHEMA_VERSION_RECORDED)
                        run_sql(path, schema_tables[i].sql);
        run_sql(path, "INSERT INTO source VALUES(1,'a.c'); INSERT INTO routine VALUES(1,'_Z3barv'),(2,'foo');"
                      "INSERT INTO code VALUES(1,NULL,2,1,10),(2,1,1,1,20),(3,2,1,1,30);"
                      "INSERT INTO place_code SELECT id,3 FROM place WHERE id%2=0; PRAGMA user_version=4");
}

/* Of this program, whose debug information has one address that is asked for. */
static void write_own(const char *path) {
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        char exe[PATH_MAX] = {};
        int64_t file, frame;
        struct stat st;
        Store *store;

        assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
        assert_return_code(stat(exe, &st), errno);
        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, &event), 0);
        assert_return_code(store_add_file(store, exe, (uint64_t) major(st.st_dev) << 32 | minor(st.st_dev), st.st_ino,
                                          (uint64_t) st.st_size, NULL, 0, &file), 0);
        assert_return_code(store_add_frame(store, file, (uintptr_t) write_own - (uintptr_t) __ehdr_start, NULL, 0, false, &frame), 0);
        assert_null(store_free(store));
        /* It has no build id, and so must not be newer than the recording. */
        run_sql(path, "INSERT INTO meta VALUES('start_realtime','9000000000000000000')");
}

static int symbolize(const Place *place) {
        RingsideSymbolizeStatistics statistics;
        int r = ringside_symbolize(place->file, NULL, &statistics, NULL);

        /* The worker's lack of memory is the file's fault. */
        if (r >= 0 && statistics.refused == 1)
                return -ENOMEM;
        if (r >= 0)
                assert_int_equal(statistics.found, 1);
        return r;
}

static int find_recording(const Place *place) {
        _cleanup_free_ char *path = NULL;
        int r = ringside_recording_find_newest(place->dir, &path, NULL);

        /* One that there is no memory to open is none that opens. */
        return r == -ENOENT ? -ENOMEM : r;
}

static void fail_every_allocation(const Place *place, Scenario scenario, long least) {
        long n = 0;
        int r;

        do {
                allocations_left = n++;
                r = scenario(place);
                if (r != -ENOMEM)
                        assert_return_code(r, -r);
        } while (r < 0);
        allocations_left = -1;
        assert_true(n > least);
}

static void test_write(void **state) {
        fail_every_allocation(*state, write_recording, 10);
        assert_int_equal(count_rows(((Place *) *state)->file, "sample"), 80);
}

static void test_read(void **state) {
        assert_return_code(write_recording(*state), 0);
        fail_every_allocation(*state, read_recording, 100);
}

static void test_read_lines(void **state) {
        assert_return_code(write_recording(*state), 0);
        add_lines(((Place *) *state)->file);
        fail_every_allocation(*state, read_recording, 100);
}

static void test_symbolize(void **state) {
        write_own(((Place *) *state)->file);
        fail_every_allocation(*state, symbolize, 20);
        assert_int_equal(count_rows(((Place *) *state)->file, "place_code"), 1);
}

static void test_find(void **state) {
        assert_return_code(write_recording(*state), 0);
        fail_every_allocation(*state, find_recording, 10);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_write, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_read, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_read_lines, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_symbolize, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_find, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
