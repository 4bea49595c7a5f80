/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "record-lines.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cli.h"
#include "summary.h"

/* Who waits for the end of a recording waits that long for lines, */
#define LINES_NS UINT64_C(1500000000)
/* and that long where a file does not answer: what is written then is not to be cut off on a slow machine. */
#define GIVE_UP_MS 10000
/* What it has begun to write it ends first, which takes milliseconds. */
#define COMMIT_MS 5000
/* For the end of a process that was killed, which takes no time unless the kernel itself waits for a file. */
#define END_MS 1000

static void tell_unread(uint64_t n, const char *one, const char *several) {
        if (n > 0)
                cli_error(NULL, "%" PRIu64 " %s", n, n == 1 ? one : several);
}

static void tell_late(void) {
        cli_error("'ringside symbolize' takes as long as it needs",
                  "There was no time to look up all lines and inlined functions");
}

/* The recording is whole without them; what there is no time for `ringside symbolize` can do later. */
static void look_up(const char *path, bool quiet) {
        /* No server is asked: none would be done in that time. What was fetched before is used. */
        RingsideSymbolizeOptions options = { .size = sizeof(options), .timeout = LINES_NS, .debuginfod_urls = "" };
        RingsideSymbolizeStatistics statistics = {};
        RingsideError error = {};
        int r;

        r = ringside_symbolize(path, &options, &statistics, &error);
        if (r < 0)
                cli_error_library(&error, r);
        if (r < 0 || quiet)
                return;
        tell_unread(statistics.zstd, SUMMARY_ZSTD("file"), SUMMARY_ZSTD("files"));
        tell_unread(statistics.dwp, SUMMARY_DWP("file"), SUMMARY_DWP("files"));
        if (statistics.late > 0)
                tell_late();
}

/* Nothing of ours is kept open by it, such as the session: it may be left behind. */
static void run(const char *path, const sigset_t *mask, bool quiet, pid_t parent) {
        sigset_t ours = *mask;

        /* With this one it is ended, whoever had us start with it blocked or ignored. */
        (void) sigdelset(&ours, SIGTERM);
        (void) signal(SIGTERM, SIG_DFL);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
                return;
        close_fds_but(NULL, 0);
        (void) sigprocmask(SIG_SETMASK, &ours, NULL);
        look_up(path, quiet);
}

/* What came before was for the recording. */
static void drop_signals(int signal_fd) {
        struct signalfd_siginfo info;

        while (RETRY_ON_EINTR(read(signal_fd, &info, sizeof(info))) == sizeof(info))
                ;
}

static bool is_over(int pidfd, int timeout_ms) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };

        return RETRY_ON_EINTR(poll(&p, 1, timeout_ms)) != 0;
}

void record_lines_look_up(const char *path, int signal_fd, const sigset_t *mask, bool quiet) {
        _cleanup_close_ int pidfd = -1;
        pid_t parent = getpid(), pid;

        drop_signals(signal_fd);
        pid = fork();
        if (pid == 0) {
                run(path, mask, quiet, parent);
                _exit(EXIT_SUCCESS);
        }
        if (pid < 0)
                return;
        pidfd = pidfd_open(pid, 0);
        if (pidfd >= 0) {
                struct pollfd fds[] = { { .fd = pidfd, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };

                if (RETRY_ON_EINTR(poll(fds, ELEMENTSOF(fds), GIVE_UP_MS)) == 0 && !quiet)
                        tell_late();
        }
        if (pidfd >= 0 && !is_over(pidfd, 0))
                (void) kill(pid, SIGTERM);
        if (pidfd < 0 || !is_over(pidfd, COMMIT_MS))
                (void) kill(pid, SIGKILL);
        if (pidfd < 0 || is_over(pidfd, END_MS))
                (void) RETRY_ON_EINTR(waitpid(pid, NULL, 0));
}
