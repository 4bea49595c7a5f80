/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "disassemble.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sandbox.h"
#include "util.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define BUFFER_SIZE (64U << 10)
#define TEXT_SIZE_MAX (64U << 20)
#define FILE_FD 3
#define ABOVE_ALL 10 /* of the numbers that fds are moved to */
#define EXIT_NOT_FOUND 127

void disassembly_done(Disassembly *disassembly) {
        free(disassembly->items);
        free(disassembly->text);
        *disassembly = (Disassembly){};
}

/* ---- the process that becomes objdump ---- */

/* It has the file, and the pipe as standard output. What it has to complain of goes nowhere. */
static int arrange_files(int fd, int out_fd) {
        int null;

        null = fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, ABOVE_ALL);
        fd = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_ALL);
        out_fd = fcntl(out_fd, F_DUPFD_CLOEXEC, ABOVE_ALL);
        if (null < 0 || fd < 0 || out_fd < 0)
                return -errno;
        if (dup2(null, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
            dup2(fd, FILE_FD) < 0)
                return -errno;
        close_fds_but((int[]){ FILE_FD }, 1);
        return 0;
}

static int become_objdump(int fd, uint64_t start, uint64_t end, uint64_t deadline, pid_t parent, int out_fd) {
        char from[64], to[64], path[64];
        /* Zeroes, too, and each in one line. */
        char *const argv[] = { (char *) "objdump", (char *) "--disassemble", (char *) "--disassemble-zeroes", (char *) "--wide",
                               (char *) "--no-show-raw-insn", from, to, path, NULL };
        char *const environment[] = { (char *) "LC_ALL=C", NULL };
        int r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        if (getppid() != parent)
                return -ESRCH;
        (void) snprintf(from, sizeof(from), "--start-address=0x%" PRIx64, start);
        (void) snprintf(to, sizeof(to), "--stop-address=0x%" PRIx64, end);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", FILE_FD);
        r = sandbox_drop_capabilities();
        if (r >= 0)
                r = arrange_files(fd, out_fd);
        if (r >= 0)
                r = sandbox_limit(deadline, /* memory_max= */ 0, /* file_max= */ 0);
        if (r >= 0)
                r = sandbox_confine(/* exec= */ true);
        if (r < 0)
                return r;
        (void) execvpe(argv[0], argv, environment);
        /* EACCES: there is a directory in PATH which may not be searched. */
        return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? -ENOPKG : -errno;
}

/* ---- what it says ---- */

static int grow(void *array, size_t *allocated, size_t n, size_t size) {
        void **p = array, *bigger;
        size_t room = MAX(*allocated * 2, n);

        if (n <= *allocated)
                return 0;
        bigger = reallocarray(*p, room, size);
        if (!bigger)
                return -ENOMEM;
        *p = bigger;
        *allocated = room;
        return 0;
}

static int add_instruction(Disassembly *d, uint64_t address, const char *text) {
        size_t len = strnlen(text, DISASSEMBLE_TEXT_MAX);
        int r;

        while (len > 0 && isspace((unsigned char) text[len - 1]))
                len--;
        if (d->text_size + len + 1 > TEXT_SIZE_MAX)
                return -EFBIG;
        r = grow(&d->items, &d->allocated, MAX(d->n + 1, (size_t) 64), sizeof(*d->items));
        if (r >= 0)
                r = grow(&d->text, &d->text_allocated, MAX(d->text_size + len + 1, (size_t) 4096), 1);
        if (r < 0)
                return r;
        d->items[d->n++] = (DisassembledInstruction){ .address = address, .text = d->text_size };
        for (size_t i = 0; i < len; i++)
                d->text[d->text_size++] = text[i] == '\t' ? ' ' : text[i];
        d->text[d->text_size++] = 0;
        return 0;
}

/* "   1139:\tpush   %rbp"; whatever else it says is for people. */
static int take_line(Disassembly *d, const char *line, uint64_t start, uint64_t end) {
        uint64_t address;
        char *rest;

        line += strspn(line, " ");
        if (!isxdigit((unsigned char) *line))
                return 0;
        address = strtoull(line, &rest, 16); /* the highest, where that is too long */
        if (rest[0] != ':' || rest[1] != '\t' || address < start || address >= end)
                return 0;
        if (d->n > 0 && address <= d->items[d->n - 1].address)
                return -EBADMSG;
        return add_instruction(d, address, rest + 2);
}

/* Lines that are whole; what is left stays at the beginning of the buffer. */
static int take_lines(Disassembly *d, char *buffer, size_t *n, uint64_t start, uint64_t end) {
        char *line = buffer, *newline;
        int r = 0;

        while (r >= 0 && (newline = memchr(line, '\n', *n - (size_t) (line - buffer)))) {
                *newline = 0;
                r = take_line(d, line, start, end);
                line = newline + 1;
        }
        *n -= (size_t) (line - buffer);
        memmove(buffer, line, *n);
        return r < 0 ? r : *n == BUFFER_SIZE ? -EBADMSG : 0;
}

static int wait_for(struct pollfd *p, uint64_t deadline) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        struct timespec timeout;
        int r;

        if (now >= deadline)
                return -ETIMEDOUT;
        timeout.tv_sec = (time_t) ((deadline - now) / NSEC_PER_SEC);
        timeout.tv_nsec = (long) ((deadline - now) % NSEC_PER_SEC);
        r = (int) RETRY_ON_EINTR(ppoll(p, 1, &timeout, NULL));
        return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

static int receive(Disassembly *d, int in_fd, char *buffer, uint64_t start, uint64_t end, uint64_t deadline) {
        struct pollfd p = { .fd = in_fd, .events = POLLIN };
        size_t n = 0;
        ssize_t k;
        int r;

        do {
                r = wait_for(&p, deadline);
                if (r < 0)
                        return r;
                k = RETRY_ON_EINTR(read(in_fd, buffer + n, BUFFER_SIZE - n));
                if (k < 0)
                        return -errno;
                n += (size_t) k;
                r = take_lines(d, buffer, &n, start, end);
        } while (k > 0 && r >= 0);
        return r;
}

/* How it ended, which it may not have done though it has nothing more to say. */
static int wait_for_end(pid_t pid, uint64_t deadline, int *ret_status) {
        const struct timespec pause = { .tv_nsec = 1000000 };
        pid_t ended;

        for (;;) {
                ended = (pid_t) RETRY_ON_EINTR(waitpid(pid, ret_status, WNOHANG));
                if (ended != 0)
                        return ended < 0 ? -errno : 0;
                if (now_ns(CLOCK_MONOTONIC) >= deadline)
                        return -ETIMEDOUT;
                (void) nanosleep(&pause, NULL);
        }
}

/* r: whether what it said was all right. */
static int end_objdump(pid_t pid, int r, uint64_t deadline) {
        int status;

        if (r >= 0)
                r = wait_for_end(pid, deadline, &status);
        if (r < 0) {
                sandbox_end(pid);
                return r;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND)
                return -ENOPKG;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBADMSG;
}

int disassemble(Disassembly *ret, int fd, uint64_t start, uint64_t end, uint64_t deadline) {
        _cleanup_(disassembly_done) Disassembly d = {};
        _cleanup_free_ char *buffer = NULL;
        _cleanup_close_ int in_fd = -1;
        pid_t parent = getpid(), pid;
        int fds[2], r;

        if (end <= start)
                return -ENODATA;
        if (end - start > DISASSEMBLE_SIZE_MAX)
                return -EFBIG;
        buffer = malloc(BUFFER_SIZE);
        if (!buffer)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        in_fd = fds[0];
        pid = fork();
        if (pid == 0) {
                r = become_objdump(fd, start, end, deadline, parent, fds[1]);
                /* Before _exit() a sanitizer looks about, which is not permitted any more. */
                (void) syscall(SYS_exit_group, r == -ENOPKG ? EXIT_NOT_FOUND : EXIT_FAILURE);
                __builtin_unreachable();
        }
        r = pid < 0 ? -errno : 0;
        close_fd(fds[1]);
        if (r < 0)
                return r;
        r = receive(&d, in_fd, buffer, start, end, deadline);
        r = end_objdump(pid, r, deadline);
        if (r < 0)
                return r;
        if (d.n == 0)
                return -ENODATA;
        *ret = d;
        d = (Disassembly){};
        return 0;
}
