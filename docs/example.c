/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A complete profiler on libringside: records a process, or all of the caller's, for a few seconds and
 * prints the functions that used most of the CPU.
 *
 *   cc example.c $(pkg-config --cflags --libs ringside) -o example
 *   ./example [PID [SECONDS]]          PID 0: all processes of mine
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ringside.h>

#define TOP 10

static int report_error(const RingsideError *error) {
        fprintf(stderr, "example: %s\n%s%s", error->text, error->hint, error->hint[0] ? "\n" : "");
        return -1;
}

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* Everything up to the first sample: what to sample, permission, whom to sample. */
static int prepare(RingsideSession *session, pid_t pid) {
        int pidfd, r;

        r = ringside_session_set_frequency(session, 199);
        if (r >= 0)
                r = ringside_session_set_targeted(session, pid > 0);
        if (r >= 0)
                r = ringside_session_open(session); /* polkit answers here */
        if (r < 0)
                return report_error(ringside_session_get_error(session));
        if (pid == 0)
                return 0;

        pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0) {
                fprintf(stderr, "example: process %d: %s\n", (int) pid, strerror(errno));
                return -1;
        }
        r = ringside_session_add_target(session, pidfd, /* tid= every thread */ 0, /* flags= */ 0);
        close(pidfd); /* the session keeps what it needs */
        return r < 0 ? report_error(ringside_session_get_error(session)) : 0;
}

/* Carries records from the session to the recorder. */
static int record(RingsideSession *session, RingsideRecorder *recorder, double seconds) {
        struct pollfd p = { .fd = ringside_session_get_fd(session), .events = POLLIN };
        RingsideStatistics statistics;
        double end = now() + seconds;
        int r;

        r = ringside_session_start(session);
        while (r >= 0 && now() < end) {
                /* Records without urgency wake nobody: look at least four times a second. */
                poll(&p, 1, 250);
                r = ringside_session_dispatch(session, ringside_recorder_push, recorder);
        }
        if (r >= 0)
                r = ringside_session_stop(session);
        while (r >= 0 && ringside_session_dispatch(session, ringside_recorder_push, recorder) > 0)
                ;
        if (r >= 0)
                r = ringside_session_get_statistics(session, &statistics);
        if (r < 0)
                return report_error(ringside_session_get_error(session));
        r = ringside_recorder_put_statistics(recorder, &statistics);
        printf("%" PRIu64 " samples taken, %" PRIu64 " lost\n", statistics.taken, statistics.lost);
        return r;
}

static int print_top(const char *path) {
        RingsideRecording *recording = NULL;
        RingsideProfile *profile = NULL;
        const RingsideRow *rows;
        RingsideError error = { 0 };
        size_t n;
        int r;

        r = ringside_recording_open(&recording, path, &error);
        if (r >= 0)
                r = ringside_profile_new(&profile, recording, /* filter= */ NULL, &error);
        if (r < 0)
                report_error(&error);
        if (r >= 0)
                r = ringside_profile_get_rows(profile, RINGSIDE_BY_FUNCTION, &rows, &n);
        for (size_t i = 0; r >= 0 && i < n && i < TOP; i++) {
                char name[200]; /* names come from files and processes: never print them raw */

                printf("%5.1f %%  %s\n",
                       100.0 * (double) rows[i].self_samples / (double) ringside_profile_get_samples(profile),
                       ringside_escape(name, sizeof(name), rows[i].name));
        }
        ringside_profile_free(profile);
        ringside_recording_free(recording);
        return r;
}

/* The session, and the recording it is written to. */
static int profile(RingsideSession *session, const char *path, pid_t pid, double seconds) {
        RingsideRecorderOptions options = { .size = sizeof(options) };
        RingsideRecorder *recorder = NULL;
        RingsideError error = { 0 };
        int r;

        r = prepare(session, pid);
        if (r < 0)
                return r;
        r = ringside_recorder_new(&recorder, path, session, &options, &error);
        if (r < 0)
                return report_error(&error);
        r = record(session, recorder, seconds);
        if (ringside_recorder_finish(recorder, /* exit_status= none */ -1, &error) < 0)
                r = report_error(&error);
        ringside_recorder_free(recorder);
        return r < 0 ? r : print_top(path);
}

int main(int argc, char **argv) {
        pid_t pid = argc > 1 ? (pid_t) strtol(argv[1], NULL, 10) : 0;
        double seconds = argc > 2 ? strtod(argv[2], NULL) : 5;
        char directory[] = "/tmp/ringside-example-XXXXXX", path[sizeof(directory) + 32];
        RingsideSession *session = NULL;
        int r;

        if (!mkdtemp(directory) || ringside_session_new(&session) < 0) {
                perror("example");
                return EXIT_FAILURE;
        }
        snprintf(path, sizeof(path), "%s/example.ringside", directory);
        r = profile(session, path, pid, seconds);
        ringside_session_free(session);
        unlink(path);
        rmdir(directory);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
