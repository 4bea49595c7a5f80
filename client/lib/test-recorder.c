/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The recorder as a program uses it, on this very process and children of it. */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "machine.h"
#include "test-recording-util.h"

/* Something to be found by name. */
__attribute__((noinline)) static void recorded_function(void) {
        __asm__ volatile("nop; nop; nop; nop");
}

static RingsideRecorder *start(const Place *place, const RingsideRecorderOptions *options) {
        RingsideRecorder *recorder;
        RingsideError error;

        if (ringside_recorder_new(&recorder, place->file, NULL, options, &error) < 0)
                fail_msg("%s", error.text);
        return recorder;
}

static void push_process(RingsideRecorder *recorder, enum RingsideProcessKind kind, pid_t pid, uint64_t start) {
        RingsideRecord record = {
                .type = RINGSIDE_PROCESS, .time = now_ns(CLOCK_BOOTTIME), .pid = pid, .tid = pid,
                .process = { .kind = kind, .start = start, .comm = "name" },
        };

        assert_return_code(ringside_recorder_push(&record, recorder), 0);
}

static int push_sample_at(RingsideRecorder *recorder, pid_t pid, uint64_t leaf) {
        RingsideRecord record = {
                .type = RINGSIDE_SAMPLE, .time = now_ns(CLOCK_BOOTTIME), .pid = pid, .tid = pid,
                .sample = { .leaf = leaf, .walk_end = RINGSIDE_WALK_COMPLETE },
        };

        return ringside_recorder_push(&record, recorder);
}

static int push_sample(RingsideRecorder *recorder, pid_t pid) {
        return push_sample_at(recorder, pid, (uintptr_t) recorded_function + 2);
}

static void test_whole(void **state) {
        Place *place = *state;
        const char *const command[] = { "prog", "a b", "it's", "", NULL }, *const labels[] = { "job=7", NULL };
        const RingsideTarget targets[] = { { "command", "prog" }, { "unit", "x.service" } };
        RingsideRecorderOptions options = { .size = sizeof(options), .command = command, .labels = labels,
                                            .targets = targets, .n_targets = 2 };
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, &options);
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        RingsideStatistics statistics = { .taken = 60, .emitted = 50, .lost = 10 };
        RingsideRecorderStatistics s;
        const RingsideRecordingInfo *info;
        const RingsideRow *rows;
        size_t n;

        for (int i = 0; i < 50; i++)
                assert_return_code(push_sample(recorder, getpid()), 0);
        assert_return_code(ringside_recorder_put_statistics(recorder, &statistics), 0);
        assert_return_code(ringside_recorder_finish(recorder, 3 << 8, NULL), 0);
        assert_return_code(ringside_recorder_finish(recorder, 3 << 8, NULL), 0); /* once more is nothing new */
        assert_return_code(ringside_recorder_get_statistics(recorder, &s), 0);
        assert_int_equal(s.samples, 50);
        assert_int_equal(s.dropped, 0);
        assert_true(s.bytes > 4096);

        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        info = ringside_recording_get_info(recording);
        assert_true(info->finished);
        assert_int_equal(info->exit_status, 3 << 8);
        assert_string_equal(info->ended_why, "");
        assert_int_equal(info->names_refused, 0);
        assert_int_equal(info->samples, 50);
        assert_int_equal(info->statistics.taken, 60);
        assert_int_equal(info->statistics.lost, 10);
        assert_string_equal(info->command, "prog 'a b' 'it'\\''s' ''");
        assert_string_equal(info->grant, "own");
        assert_int_equal(info->n_labels, 1);
        assert_string_equal(info->labels[0], "job=7");
        assert_int_equal(info->n_targets, 2);
        assert_string_equal(info->targets[1], "unit x.service");
        assert_true(info->n_cpus > 0);
        assert_true(strlen(info->hostname) > 0 && strlen(info->kernel) > 0);
        assert_true(info->start_realtime > 1700000000000000000);
        assert_in_range(info->duration, 1, 60000000000);

        assert_return_code(ringside_profile_new(&profile, recording, NULL, NULL), 0);
        assert_return_code(ringside_profile_get_rows(profile, RINGSIDE_BY_FUNCTION, &rows, &n), 0);
        assert_int_equal(n, 1);
        assert_string_equal(rows[0].name, "recorded_function");
        assert_int_equal(rows[0].self_samples, 50);
        assert_return_code(ringside_recorder_get_rows(recorder, &rows, &n), 0);
        assert_int_equal(n, 1);
        assert_string_equal(rows[0].name, "recorded_function");
        assert_int_equal(rows[0].self_samples, 50);
        assert_int_equal(rows[0].self_weight, 50);
}

/* A file that is no program, however often it is met. */
static void test_names_refused(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, NULL);
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        void *code;

        assert_true(asprintf(&path, "%s.other", place->file) > 0);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_return_code(fd, errno);
        assert_int_equal(write(fd, "no program", 10), 10);
        code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        assert_ptr_not_equal(code, MAP_FAILED);
        for (int i = 0; i < 50; i++)
                assert_return_code(push_sample_at(recorder, getpid(), (uintptr_t) code + 2), 0);
        assert_return_code(ringside_recorder_finish(recorder, -1, NULL), 0);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_int_equal(ringside_recording_get_info(recording)->names_refused, 1);
        assert_int_equal(munmap(code, 4096), 0);
        assert_return_code(unlink(path), errno);
}

/* Known as soon as it is known at all: the recorder may be killed while the command goes on. */
static void test_ended(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, NULL);
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        const RingsideRecordingInfo *info;

        assert_int_equal(ringside_recorder_put_ended(recorder, ""), -EINVAL);
        assert_return_code(ringside_recorder_put_ended(recorder, "the helper has ended"), 0);
        assert_return_code(ringside_recorder_put_ended(recorder, "and again"), 0);
        for (int i = 0; i < 6000 && count_rows(place->file, "meta WHERE key='ended_why'") == 0; i++)
                usleep(10000);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_string_equal(ringside_recording_get_info(recording)->ended_why, "the helper has ended");
        recording = ringside_recording_free(recording);

        assert_return_code(ringside_recorder_finish(recorder, -1, NULL), 0);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        info = ringside_recording_get_info(recording);
        assert_string_equal(info->ended_why, "the helper has ended");
        assert_in_range(info->ended, 1, info->duration - 1);
}

static void test_refused(void **state) {
        Place *place = *state;
        const char *const bad[] = { "no equals sign", NULL };
        RingsideRecorderOptions options = { .size = sizeof(options), .labels = bad };
        RingsideRecorder *recorder;
        RingsideError error = {};

        assert_int_equal(ringside_recorder_new(&recorder, place->file, NULL, &options, &error), RINGSIDE_E_INVALID);
        assert_int_equal(access(place->file, F_OK), -1);
        write_text(place->file, "precious");
        assert_int_equal(ringside_recorder_new(&recorder, place->file, NULL, NULL, &error), -EEXIST);
        assert_int_equal(ringside_recorder_new(&recorder, "/nonexistent/x", NULL, NULL, &error), -ENOENT);
}

static void test_full_queue(void **state) {
        Place *place = *state;
        RingsideRecorderOptions options = { .size = sizeof(options), .queue_bytes = 1 };
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, &options);
        RingsideRecorderStatistics s;
        int n = 200000;

        for (int i = 0; i < n; i++)
                assert_return_code(push_sample(recorder, getpid()), 0);
        assert_return_code(ringside_recorder_finish(recorder, -1, NULL), 0);
        assert_return_code(ringside_recorder_get_statistics(recorder, &s), 0);
        assert_int_equal(s.samples + s.dropped, n);
        assert_in_range(s.dropped, 1, n - 1);
        assert_int_equal(count_rows(place->file, "sample"), s.samples);
        assert_int_equal(count_rows(place->file, "counter WHERE name='dropped' AND value > 0"), 1);
}

/* Somebody who reads for long keeps us from writing, not from going on, and not without bounds. */
static void test_long_reader(void **state) {
        Place *place = *state;
        RingsideRecorderOptions options = { .size = sizeof(options), .queue_bytes = 1 << 20 };
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, &options);
        RingsideRecorderStatistics s;
        sqlite3_stmt *statement;
        sqlite3 *db;
        int n = 0;

        assert_int_equal(sqlite3_open_v2(place->file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM meta", -1, &statement, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        do {
                for (int i = 0; i < 1000; i++, n++)
                        assert_return_code(push_sample(recorder, getpid()), 0);
                usleep(60000); /* the queue takes three times as many, while the thread waits for a processor */
                assert_return_code(ringside_recorder_get_statistics(recorder, &s), 0);
        } while (s.dropped == 0 && n < 100000);
        sqlite3_finalize(statement);
        sqlite3_close(db);
        assert_return_code(ringside_recorder_finish(recorder, -1, NULL), 0);
        assert_return_code(ringside_recorder_get_statistics(recorder, &s), 0);
        assert_in_range(s.samples, 30000, 70000);
        assert_true(s.dropped > 0);
        assert_int_equal(s.samples + s.dropped, n);
        assert_int_equal(count_rows(place->file, "sample"), s.samples);
}

static void test_unfinished(void **state) {
        Place *place = *state;
        RingsideRecorder *recorder = start(place, NULL);
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;

        assert_return_code(push_sample(recorder, getpid()), 0);
        assert_null(ringside_recorder_free(recorder));
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_false(ringside_recording_get_info(recording)->finished);
        assert_int_equal(ringside_recording_get_info(recording)->samples, 1);
}

/* What was pushed is on disk soon, without anybody asking: within a second where there is a processor to do it. */
static void test_commits_by_itself(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, NULL);

        assert_return_code(push_sample(recorder, getpid()), 0);
        for (int i = 0; i < 3000 && count_rows(place->file, "sample") < 1; i++)
                usleep(10000);
        assert_int_equal(count_rows(place->file, "sample"), 1);
}

static void test_disk_full(void **state) {
        Place *place = *state;
        pid_t pid = fork();
        int status;

        assert_return_code(pid, errno);
        if (pid == 0) {
                RingsideRecorder *recorder;
                RingsideError error = {};
                int r = 0;

                limit_file_size(512 << 10);
                recorder = start(place, NULL);
                for (int i = 0; i < 100000 && r >= 0; i++) {
                        r = push_sample(recorder, getpid());
                        if (i % 100 == 0)
                                usleep(10000);
                        if (i < 50000 && i % 100 == 99)
                                for (int k = 0; k < 2000 && r >= 0; k++)
                                        r = push_sample(recorder, getpid());
                }
                /* It is told to whoever pushes, and once more at the end, in words. */
                if (r != -EFBIG || ringside_recorder_finish(recorder, 0, &error) != -EFBIG || !strstr(error.text, "write"))
                        _exit(1);
                ringside_recorder_free(recorder);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(open_result(place->file), 0);
}

static pid_t start_sleeper(void) {
        pid_t pid = fork();

        assert_return_code(pid, errno);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves none behind */
                for (;;)
                        (void) pause();
        }
        return pid;
}

static void wait_for_alive(RingsideRecorder *recorder, unsigned n) {
        for (int i = 0; i < 200 && ringside_recorder_get_n_alive(recorder) != n; i++)
                usleep(10000);
        assert_int_equal(ringside_recorder_get_n_alive(recorder), n);
}

static void test_alive(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = start(place, NULL);
        pid_t first = start_sleeper(), second = start_sleeper();
        int status;

        assert_int_equal(ringside_recorder_get_n_alive(recorder), 0);
        push_process(recorder, RINGSIDE_PROCESS_FORK, first, now_ns(CLOCK_BOOTTIME));
        push_process(recorder, RINGSIDE_PROCESS_EXEC, first, now_ns(CLOCK_BOOTTIME));
        push_process(recorder, RINGSIDE_PROCESS_SEEN, second, now_ns(CLOCK_BOOTTIME));
        push_process(recorder, RINGSIDE_PROCESS_SEEN, getpid(), 0);
        assert_int_equal(ringside_recorder_get_n_alive(recorder), 3);
        usleep(300000);
        assert_int_equal(ringside_recorder_get_n_alive(recorder), 3);

        push_process(recorder, RINGSIDE_PROCESS_EXIT, first, now_ns(CLOCK_BOOTTIME));
        assert_int_equal(ringside_recorder_get_n_alive(recorder), 2);

        /* A zombie has ended, though nobody said so; and so has one that is not there at all. */
        assert_return_code(kill(second, SIGKILL), errno);
        wait_for_alive(recorder, 1);
        assert_int_equal(waitpid(second, &status, 0), second);
        push_process(recorder, RINGSIDE_PROCESS_SEEN, second, now_ns(CLOCK_BOOTTIME));
        wait_for_alive(recorder, 1);

        /* A pid that belongs to somebody else by now. */
        push_process(recorder, RINGSIDE_PROCESS_SEEN, first, 1);
        wait_for_alive(recorder, 1);
        push_process(recorder, RINGSIDE_PROCESS_GONE, getpid(), 0);
        assert_int_equal(ringside_recorder_get_n_alive(recorder), 0);
        assert_return_code(kill(first, SIGKILL), errno);
        assert_int_equal(waitpid(first, &status, 0), first);
}

static void test_quoting(_unused_ void **state) {
        const char *const words[] = { "ls", "-l", "a'b", "*", "$HOME", "x\ny", NULL };
        _cleanup_free_ char *quoted = shell_quote(words), *nothing = shell_quote((const char *const[]){ NULL });

        assert_string_equal(quoted, "ls -l 'a'\\''b' '*' '$HOME' 'x\ny'");
        assert_string_equal(nothing, "");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_whole),
                TEST(test_refused),
                TEST(test_full_queue),
                TEST(test_long_reader),
                TEST(test_ended),
                TEST(test_names_refused),
                TEST(test_unfinished),
                TEST(test_commits_by_itself),
                TEST(test_disk_full),
                TEST(test_alive),
                cmocka_unit_test(test_quoting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
