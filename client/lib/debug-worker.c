/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "debug-worker.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "elf-file.h"
#include "process-dir.h"
#include "sandbox.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define BUFFER_SIZE (64U << 10)

/* ---- the process that reads ---- */

/* Of the standard ones nothing is left that could be written to. */
static int drop_files(const DebugInfoRequest *request, int out_fd) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (null < 0)
                return -errno;
        for (int fd = 0; fd <= 2; fd++)
                if (fd != request->fd && fd != request->alt_fd && fd != out_fd && dup2(null, fd) < 0)
                        return -errno;
        close_fds_but((int[]){ request->fd, request->alt_fd, out_fd }, 3);
        return 0;
}

/* What would be of no use to who reads debug information is not what was wished for. */
static void allow_file(int hide_fd, int root_fd, const char *path) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_close_ int fd = -1;
        struct stat st;

        fd = reopen_regular(find_file_in(root_fd, path, /* nofollow= */ false), &st);
        if (fd < 0 || elf_file_new_alt_take_fd(&elf, fd) < 0)
                return;
        TAKE_FD(fd);
        if (elf_file_has_section(elf, ".debug_info.dwo") > 0 || elf_file_has_section(elf, ".zdebug_info.dwo") > 0)
                (void) sandbox_hide_files_but(hide_fd, elf_file_get_fd(elf));
}

static void allow_files(int hide_fd, const DebugInfoRequest *request, const DebugLines *wishes) {
        _cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char link[64], file[PATH_MAX], path[2 * PATH_MAX];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", request->fd);
        n = readlink(link, file, sizeof(file));
        while (n > 0 && file[n - 1] != '/')
                n--;
        for (size_t i = 0; i < wishes->n_wishes && root_fd >= 0; i++) {
                const char *wish = wishes->wishes[i];

                if (wish[0] == '/')
                        allow_file(hide_fd, root_fd, wish);
                else if (n > 0) {
                        (void) snprintf(path, sizeof(path), "%.*s%s", (int) n, file, wish);
                        allow_file(hide_fd, root_fd, path);
                }
        }
}

/* 1; 0: the kernel has no Landlock, or a container does not let us have it. */
static int hide_files(const DebugInfoRequest *request, const DebugLines *wishes) {
        _cleanup_close_ int hide_fd = sandbox_hide_files_begin();
        int r;

        if (hide_fd < 0)
                return 0;
        allow_files(hide_fd, request, wishes);
        r = sandbox_hide_files(hide_fd);
        return r < 0 ? r : 1;
}

static int send_progress(DebugLines *lines, void *userdata) {
        return debug_lines_send(lines, userdata);
}

/* Whatever keeps it from being confined keeps it from reading. */
static int work(const DebugInfoRequest *request, const DebugWorkerOptions *options, const DebugLines *wishes, pid_t parent,
                int out_fd) {
        DebugInfoRequest own = *request;
        DebugLines lines;
        FILE *out;
        int r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        if (getppid() != parent)
                return -ESRCH;
        r = sandbox_drop_capabilities();
        if (r >= 0)
                r = drop_files(request, out_fd);
        if (r >= 0)
                r = sandbox_limit(options->deadline, options->memory_max, /* file_max= */ 0);
        if (r >= 0)
                r = hide_files(request, wishes);
        if (r < 0)
                return r;
        own.ask_first = r > 0 && wishes->n_wishes == 0;
        out = fdopen(out_fd, "w");
        if (!out)
                return -errno;
        r = sandbox_confine(/* exec= */ false);
        if (r >= 0)
                r = debug_lines_init(&lines, request->n_addresses);
        if (r >= 0)
                r = (options->read ?: debug_info_read)(&own, &lines, send_progress, out);
        if (r >= 0)
                r = debug_lines_send(&lines, out);
        return debug_lines_send_end(r, out);
}

/* ---- ours ---- */

/* Whether there is more. buffer: BUFFER_SIZE bytes, the first *n of which are left from before. */
static int receive(DebugLines *lines, int fd, uint64_t deadline, uint8_t *buffer, size_t *n) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        struct timespec timeout;
        size_t used;
        ssize_t k;
        int r;

        if (now >= deadline)
                return -ETIMEDOUT;
        timeout.tv_sec = (time_t) ((deadline - now) / NSEC_PER_SEC);
        timeout.tv_nsec = (long) ((deadline - now) % NSEC_PER_SEC);
        r = ppoll(&p, 1, &timeout, NULL);
        if (r < 0)
                return errno == EINTR ? 1 : -errno;
        if (r == 0)
                return -ETIMEDOUT;
        k = RETRY_ON_EINTR(read(fd, buffer + *n, BUFFER_SIZE - *n));
        if (k < 0)
                return -errno;
        *n += (size_t) k;
        r = debug_lines_take(lines, buffer, *n, &used);
        if (r < 0)
                return r;
        *n -= used;
        memmove(buffer, buffer + used, *n);
        if (lines->ended)
                return *n == 0 ? 0 : -EBADMSG;
        return k > 0 ? 1 : -EBADMSG; /* it fell */
}

static int run(DebugLines *lines, const DebugInfoRequest *request, const DebugWorkerOptions *options,
               const DebugLines *wishes) {
        _cleanup_free_ uint8_t *buffer = NULL;
        _cleanup_close_ int in_fd = -1;
        pid_t parent = getpid(), pid;
        int fds[2], r;
        size_t n = 0;

        buffer = malloc(BUFFER_SIZE);
        if (!buffer)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        in_fd = fds[0];
        pid = fork();
        if (pid == 0)
                _exit(work(request, options, wishes, parent, fds[1]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
        r = pid < 0 ? -errno : 0;
        close_fd(fds[1]);
        if (r < 0)
                return r;
        do
                r = receive(lines, in_fd, options->deadline, buffer, &n);
        while (r > 0);
        sandbox_end(pid); /* it may not have ended, whatever it said */
        if (r < 0)
                return r;
        return lines->result == -ENOMEM ? -EFBIG : lines->result; /* it may have no more; we have some */
}

int debug_worker_run(DebugLines *lines, const DebugInfoRequest *request, const DebugWorkerOptions *options) {
        DebugLines wishes = {};
        int r;

        r = run(lines, request, options, &wishes);
        if (r != -EAGAIN || lines->n_wishes == 0)
                return r;
        /* What else it has said the next one says, or both were wrong. */
        wishes = (DebugLines){ .wishes = TAKE_PTR(lines->wishes), .n_wishes = lines->n_wishes };
        lines->n_wishes = lines->wishes_allocated = 0;
        lines->ended = false;
        r = run(lines, request, options, &wishes);
        debug_lines_done(&wishes);
        return r;
}
