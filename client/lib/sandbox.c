/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
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

#include "util.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
/* What it may write to; files are mapped for reading, and do not count. */
#define MEMORY_MAX (UINT64_C(1) << 30)
/* With the files that it maps. */
#define ADDRESS_SPACE_MAX (UINT64_C(64) << 30)
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

/* And those of which a program has no need once it runs. */
static const unsigned calls_of_exec[] = {
        SYS_execve, SYS_faccessat, SYS_faccessat2, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_sysinfo,
#ifdef SYS_access
        SYS_access,
#endif
#ifdef SYS_arch_prctl
        SYS_arch_prctl,
#endif
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
/* Skips n where the accumulator is not that. */
#define UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)

/* Reading alone; the lower half of an argument, since no flag is in the upper one and the kernel looks at none there. */
#define OPEN_FORBIDDEN (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

static size_t allow(struct sock_filter *program, size_t n, const unsigned *calls, size_t n_calls) {
        for (size_t i = 0; i < n_calls; i++) {
                program[n++] = (struct sock_filter) UNLESS(calls[i], 1);
                program[n++] = (struct sock_filter) RETURN(SECCOMP_RET_ALLOW);
        }
        return n;
}

int sandbox_confine(bool exec) {
        struct sock_filter program[8 + 2 * (ELEMENTSOF(calls_allowed) + ELEMENTSOF(calls_of_exec)) + 24];
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
        n = allow(program, n, calls_allowed, ELEMENTSOF(calls_allowed));
        if (exec)
                n = allow(program, n, calls_of_exec, ELEMENTSOF(calls_of_exec));
        memcpy(program + n, tail, sizeof(tail));
        fprog.len = (unsigned short) (n + ELEMENTSOF(tail));

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) < 0)
                return -errno;
        return 0;
}

/*
 * All that the first version knows: others were added since, of which reading is no part. Whoever has a file open goes on with
 * it, and stat(2) is not its business.
 */
#define LANDLOCK_ALL (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | \
                      LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
                      LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
                      LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
                      LANDLOCK_ACCESS_FS_MAKE_SYM)

int sandbox_hide_files_begin(void) {
        const struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ALL };
        long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

        return fd < 0 ? -errno : (int) fd;
}

int sandbox_hide_files_but(int hide_fd, int fd) {
        const struct landlock_path_beneath_attr attr = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = fd };

        return syscall(SYS_landlock_add_rule, hide_fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0 ? -errno : 0;
}

int sandbox_hide_files(int hide_fd) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, hide_fd, 0) < 0)
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

int sandbox_limit(uint64_t deadline, uint64_t memory_max, uint64_t file_max) {
        uint64_t data = 0, now = now_ns(CLOCK_MONOTONIC);
        uint64_t left = deadline > now ? deadline - now : 0;
        int r;

        r = get_data_size(&data);
        if (r >= 0)
                r = limit(RLIMIT_CORE, 0);
        if (r >= 0)
                r = limit(RLIMIT_FSIZE, file_max);
        if (r >= 0)
                r = limit(RLIMIT_CPU, left / NSEC_PER_SEC + 2); /* only if we do not come to it: who is late is told apart */
        /* A sanitizer reserves more than there is. */
        if (r >= 0 && !SANITIZED)
                r = limit(RLIMIT_DATA, data + (memory_max ?: MEMORY_MAX));
        if (r >= 0 && !SANITIZED)
                r = limit(RLIMIT_AS, ADDRESS_SPACE_MAX);
        return r;
}

/* root's files are root's to read, but nobody else's are any more. What is less is always allowed. */
int sandbox_drop_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

void sandbox_end(pid_t pid) {
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        struct pollfd p = { .fd = pidfd, .events = POLLIN };

        (void) kill(pid, SIGKILL);
        if (pidfd < 0 || RETRY_ON_EINTR(poll(&p, 1, END_MS)) != 0)
                (void) RETRY_ON_EINTR(waitpid(pid, NULL, 0));
}
