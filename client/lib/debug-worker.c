/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "debug-worker.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NSEC_PER_SEC UINT64_C(1000000000)
/* What it may write to; files are mapped for reading, and do not count. */
#define MEMORY_MAX (UINT64_C(1) << 30)
/* With the files that it maps. */
#define ADDRESS_SPACE_MAX (UINT64_C(64) << 30)
#define BUFFER_SIZE (64U << 10)
/* For the end of a process that was killed. */
#define END_MS 1000

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#else
#error "which system calls a worker may make is not known for this machine"
#endif

/* ---- the process that reads ---- */

/* Memory, files that are open, the pipe, its own end. Anything else fails as if it was not permitted. */
static const unsigned calls_allowed[] = {
        SYS_read,     SYS_pread64,      SYS_write,        SYS_writev,     SYS_close,        SYS_fstat,     SYS_newfstatat,
        SYS_statx,    SYS_lseek,        SYS_munmap,       SYS_mprotect,     SYS_mremap,       SYS_madvise,   SYS_brk,
        SYS_futex,    SYS_getrandom,    SYS_getpid,       SYS_gettid,       SYS_exit,         SYS_exit_group,
        SYS_readlinkat, SYS_clock_gettime, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_sched_yield,
#ifdef SYS_readlink
        SYS_readlink,
#endif
#ifdef SYS_stat
        SYS_stat,
#endif
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
/* Skips n where the accumulator is not that. */
#define UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)

/* Reading alone; the lower half of an argument, since no flag is in the upper one and the kernel looks at none there. */
#define OPEN_FORBIDDEN (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

static int confine(void) {
        struct sock_filter program[8 + 2 * ELEMENTSOF(calls_allowed) + 24];
        const struct sock_filter head[] = {
                LOAD(arch),
                UNLESS(AUDIT_ARCH_OURS, 2),
                LOAD(nr),
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* the x32 calls, which have other numbers */
                RETURN(SECCOMP_RET_KILL_PROCESS),
        };
        const struct sock_filter tail[] = {
                UNLESS(SYS_openat, 4),
                LOAD(args[2]),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, OPEN_FORBIDDEN, 1, 0),
                RETURN(SECCOMP_RET_ALLOW),
                RETURN(SECCOMP_RET_ERRNO | EPERM),
                /* Memory that is shared does not count as written to. */
                UNLESS(SYS_mmap, 4),
                LOAD(args[3]),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 1, 0),
                RETURN(SECCOMP_RET_ALLOW),
                RETURN(SECCOMP_RET_ERRNO | EPERM),
                UNLESS(SYS_fcntl, 3),
                LOAD(args[1]),
                UNLESS(F_GETFD, 1),
                RETURN(SECCOMP_RET_ALLOW),
                RETURN(SECCOMP_RET_ERRNO | EPERM),
        };
        struct sock_fprog fprog = { .filter = program };
        size_t n = ELEMENTSOF(head);

        memcpy(program, head, sizeof(head));
        for (size_t i = 0; i < ELEMENTSOF(calls_allowed); i++) {
                program[n++] = (struct sock_filter) UNLESS(calls_allowed[i], 1);
                program[n++] = (struct sock_filter) RETURN(SECCOMP_RET_ALLOW);
        }
        memcpy(program + n, tail, sizeof(tail));
        fprog.len = (unsigned short) (n + ELEMENTSOF(tail));

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) < 0)
                return -errno;
        return 0;
}

/* Or less, where we were given less: that may not be raised. */
static int limit(int resource, uint64_t value) {
        struct rlimit l;

        if (getrlimit(resource, &l) < 0)
                return -errno;
        l.rlim_cur = l.rlim_max = MIN(value, l.rlim_max);
        return setrlimit(resource, &l) < 0 ? -errno : 0;
}

/* What counts as written to: as a fork we begin with all that our parent has. */
static int get_data_size(uint64_t *ret) {
        _cleanup_close_ int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        char text[256];
        ssize_t n = fd < 0 ? -1 : RETRY_ON_EINTR(read(fd, text, sizeof(text) - 1));
        unsigned long long pages;

        if (n < 0)
                return -errno;
        text[n] = 0;
        if (sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
                return -EBADMSG;
        *ret = pages * (uint64_t) sysconf(_SC_PAGESIZE);
        return 0;
}

static int limit_resources(const DebugWorkerOptions *options) {
        uint64_t data = 0, now = now_ns(CLOCK_MONOTONIC);
        uint64_t left = options->deadline > now ? options->deadline - now : 0;
        int r;

        r = get_data_size(&data);
        if (r >= 0)
                r = limit(RLIMIT_CORE, 0);
        if (r >= 0)
                r = limit(RLIMIT_FSIZE, 0);
        if (r >= 0)
                r = limit(RLIMIT_CPU, left / NSEC_PER_SEC + 2); /* only if we do not come to it: who is late is told apart */
        /* A sanitizer reserves more than there is. */
        if (r >= 0 && !SANITIZED)
                r = limit(RLIMIT_DATA, data + (options->memory_max ?: MEMORY_MAX));
        if (r >= 0 && !SANITIZED)
                r = limit(RLIMIT_AS, ADDRESS_SPACE_MAX);
        return r;
}

/* root's files are root's to read, but nobody else's are any more. What is less is always allowed. */
static int drop_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

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

static int send_progress(DebugLines *lines, void *userdata) {
        return debug_lines_send(lines, userdata);
}

/* Whatever keeps it from being confined keeps it from reading. */
static int work(const DebugInfoRequest *request, const DebugWorkerOptions *options, pid_t parent, int out_fd) {
        DebugLines lines;
        FILE *out;
        int r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        if (getppid() != parent)
                return -ESRCH;
        r = drop_capabilities();
        if (r >= 0)
                r = drop_files(request, out_fd);
        if (r >= 0)
                r = limit_resources(options);
        if (r < 0)
                return r;
        out = fdopen(out_fd, "w");
        if (!out)
                return -errno;
        r = confine();
        if (r >= 0)
                r = debug_lines_init(&lines, request->n_addresses);
        if (r >= 0)
                r = (options->read ?: debug_info_read)(request, &lines, send_progress, out);
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

/*
 * It may not have ended, whatever it said. One that waits for a file on a file system which does not answer ends when there is
 * an answer, and no sooner: that one is left.
 */
static void end(pid_t pid) {
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        struct pollfd p = { .fd = pidfd, .events = POLLIN };

        (void) kill(pid, SIGKILL);
        if (pidfd < 0 || RETRY_ON_EINTR(poll(&p, 1, END_MS)) != 0)
                (void) RETRY_ON_EINTR(waitpid(pid, NULL, 0));
}

int debug_worker_run(DebugLines *lines, const DebugInfoRequest *request, const DebugWorkerOptions *options) {
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
                _exit(work(request, options, parent, fds[1]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
        r = pid < 0 ? -errno : 0;
        close_fd(fds[1]);
        if (r < 0)
                return r;
        do
                r = receive(lines, in_fd, options->deadline, buffer, &n);
        while (r > 0);
        end(pid);
        if (r < 0)
                return r;
        return lines->result == -ENOMEM ? -EFBIG : lines->result; /* it may have no more; we have some */
}
