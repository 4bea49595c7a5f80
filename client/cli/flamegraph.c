/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside flamegraph: one HTML file beside the recording, and a browser to show it if asked for. */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "output.h"
#include "text.h"
#include "view.h"

#define SUFFIX ".ringside"
#define BROWSER_MS 3000

static const char help_text[] =
        "Usage: ringside flamegraph [OPTION...] [RECORDING]\n"
        "\n"
        "Writes a flame graph, one HTML file that works offline; of the newest recording\n"
        "here if none is named.\n"
        "\n"
        "      --open           Show it in the browser, by xdg-open\n" VIEW_HELP
        "  -o, --output=FILE    Default: the recording's name with .html; - for standard\n"
        "                       output\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_OPEN = OPT_VIEW_END };

static const struct option options[] = {
        VIEW_OPTIONS,
        { "open", no_argument, NULL, OPT_OPEN },
        { "help", no_argument, NULL, 'h' },
        {},
};

static int parse(ViewOptions *ret, bool *ret_open, int argc, char **argv) {
        int c, r;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c == '?' || c == ':')
                        return cli_error_option(c, argv, options);
                if (c == OPT_OPEN) {
                        *ret_open = true;
                        continue;
                }
                r = view_options_set(ret, argv[0], c, optarg);
                if (r < 0)
                        return r;
        }
        if (*ret_open && ret->output && strcmp(ret->output, "-") == 0) {
                cli_error("name a file with -o FILE, or leave -o out", "--open cannot show what goes to standard output");
                return -EINVAL;
        }
        r = view_options_rest(ret, argc, argv);
        return r < 0 ? r : 1;
}

static char *default_path(const char *recording) {
        size_t n = strlen(recording), suffix = strlen(SUFFIX);
        char *path;

        if (n > suffix && strcmp(recording + n - suffix, SUFFIX) == 0)
                n -= suffix;
        return asprintf(&path, "%.*s.html", (int) MIN(n, (size_t) PATH_MAX), recording) < 0 ? NULL : path;
}

static int write_page(const View *view, const char *path, bool named) {
        RingsideRecordingInfo info = *view->info;
        RingsideError error = {};
        Output output;
        int r;

        /* The page speaks of the first event there is: the profile's. */
        if (view->filter.event > 0) {
                info.events += view->filter.event;
                info.n_events -= view->filter.event;
        }
        r = named ? output_open(&output, path, view->path) : output_open_default(&output, path);
        if (r < 0)
                return r;
        r = ringside_export_flamegraph(view->profile, &info, output.file, &error);
        if (r < 0)
                cli_error_library(&error, r);
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

_Noreturn static void run_browser(const char *path, int error_fd) {
        int null = open("/dev/null", O_RDWR), error;

        /* It may live as long as the browser does: it must not hold our pipes or our terminal's job. */
        (void) setsid();
        if (null >= 0) {
                (void) dup2(null, STDIN_FILENO);
                (void) dup2(null, STDOUT_FILENO);
                (void) dup2(null, STDERR_FILENO);
        }
        (void) execlp("xdg-open", "xdg-open", path, (char *) NULL);
        error = errno;
        (void) RETRY_ON_EINTR(write(error_fd, &error, sizeof(error)));
        _exit(EXIT_NOT_FOUND);
}

/* 0, or what went wrong; a browser that is still there after a while works. */
static int wait_for_browser(pid_t pid, int error_fd) {
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int error, status;

        if (RETRY_ON_EINTR(read(error_fd, &error, sizeof(error))) == sizeof(error)) {
                (void) RETRY_ON_EINTR(waitpid(pid, NULL, 0));
                return -error;
        }
        if (pidfd < 0 || RETRY_ON_EINTR(poll(&p, 1, BROWSER_MS)) <= 0)
                return 0;
        if (RETRY_ON_EINTR(waitpid(pid, &status, 0)) != pid)
                return 0;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int open_page(const char *path) {
        _cleanup_free_ char *absolute = realpath(path, NULL);
        _cleanup_close_ int error_read = -1, error_write = -1;
        char hint[PATH_MAX + 64];
        int fds[2], r;
        pid_t pid;

        snprintf(hint, sizeof(hint), "open it by hand: %s", absolute ? absolute : path);
        if (!absolute || pipe2(fds, O_CLOEXEC) < 0) {
                cli_error(hint, "Cannot show the flame graph: %s", strerror(errno));
                return -EIO;
        }
        error_read = fds[0];
        error_write = fds[1];
        pid = fork();
        if (pid == 0)
                run_browser(absolute, error_write);
        error_write = close_fd(error_write);
        r = pid < 0 ? -errno : wait_for_browser(pid, error_read);
        if (r == -ENOENT)
                cli_error(hint, "Cannot show the flame graph: there is no xdg-open here (package xdg-utils)");
        else if (r < 0)
                cli_error(hint, "Cannot show the flame graph: xdg-open failed");
        return r;
}

static int flamegraph(const View *view, const ViewOptions *o, bool show) {
        _cleanup_free_ char *path = o->output ? strdup(o->output) : default_path(view->path);
        _cleanup_free_ char *escaped = NULL;
        int r;

        if (!path) {
                cli_error(NULL, "%s", strerror(ENOMEM));
                return -ENOMEM;
        }
        if (ringside_profile_get_samples(view->profile) == 0) {
                cli_error("'ringside report --by=thread' shows what there is", "There are no samples to draw");
                return -ENODATA;
        }
        r = write_page(view, path, o->output);
        if (r < 0)
                return r;
        if (strcmp(path, "-") == 0)
                return 0;
        escaped = text_escape(path);
        fprintf(stderr, "Wrote %s\n", escaped ? escaped : "");
        return show ? open_page(path) : 0;
}

int command_flamegraph(int argc, char **argv) {
        ViewOptions o = { .event = -1 };
        bool show = false;
        View view;
        int r;

        r = parse(&o, &show, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = view_open(&view, &o);
        if (r < 0)
                return EXIT_FAILURE;
        r = flamegraph(&view, &o, show);
        view_done(&view);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
