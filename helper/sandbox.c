/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sandbox.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "util.h"

/* What every event loop needs. */
static const int common[] = {
        SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(close), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg),
        SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl),
        SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getpid), SCMP_SYS(gettid),
        SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
        SCMP_SYS(setitimer), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall), SCMP_SYS(exit),
        SCMP_SYS(exit_group), SCMP_SYS(getrandom),
};

/* Not F_SETOWN and F_SETSIG: together they send any signal to any process of the same user. */
static const int common_fcntl[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC};

/* sd-bus on a socket that is connected, sd-event. */
static const int front[] = {
        SCMP_SYS(epoll_create1), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(socketpair),
        SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(getsockname),
        SCMP_SYS(getpeername), SCMP_SYS(geteuid), SCMP_SYS(getuid), SCMP_SYS(getegid), SCMP_SYS(getgid),
        SCMP_SYS(dup), SCMP_SYS(dup3), SCMP_SYS(memfd_create), SCMP_SYS(shutdown), SCMP_SYS(fstat),
        SCMP_SYS(newfstatat), SCMP_SYS(lseek), SCMP_SYS(ftruncate), SCMP_SYS(sched_yield), SCMP_SYS(signalfd4),
};

/* Ways into other processes, out to the network, and into the system's state. */
static const int keeper_denied[] = {
        SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise),
        SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
        SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp), SCMP_SYS(socket), SCMP_SYS(connect),
        SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(mount), SCMP_SYS(umount2),
        SCMP_SYS(fsopen), SCMP_SYS(fspick), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(move_mount),
        SCMP_SYS(open_tree), SCMP_SYS(mount_setattr),
        SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare), SCMP_SYS(open_by_handle_at),
        SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
        SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(sethostname),
        SCMP_SYS(setdomainname), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(adjtimex),
        SCMP_SYS(clock_adjtime), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(userfaultfd),
        SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(mknod),
        SCMP_SYS(mknodat), SCMP_SYS(chmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown),
        SCMP_SYS(fchownat), SCMP_SYS(lchown), SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(rename),
        SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(symlink),
        SCMP_SYS(symlinkat), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(truncate),
        SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr), SCMP_SYS(quotactl), SCMP_SYS(syslog),
        SCMP_SYS(personality), SCMP_SYS(acct), SCMP_SYS(setuid), SCMP_SYS(setreuid), SCMP_SYS(setresuid),
        SCMP_SYS(setgid), SCMP_SYS(setregid), SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(setfsuid),
        SCMP_SYS(setfsgid),
};

/* kernel-build.c: reads what is open, and fills a memfd. qsort() asks how much memory there is. */
static const int build[] = {SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(sysinfo), SCMP_SYS(fchmod)};

/* Signals by way of a descriptor. */
static const int keeper_denied_fcntl[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_NOTIFY, F_SETLEASE};
static const int keeper_denied_ioctl[] = {FIOSETOWN, SIOCSPGRP, FIOASYNC, TIOCSTI};
/* Where this kernel lacks a type, libbpf asks the modules, which takes CAP_SYS_ADMIN: there are none. */
static const int keeper_modules[] = {BPF_BTF_GET_NEXT_ID};

/* On maps and programs it holds: attach, read iterators, fill control maps. Nothing creates or looks up. */
static const int session_bpf[] = {
        BPF_LINK_CREATE, BPF_ITER_CREATE, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_RAW_TRACEPOINT_OPEN,
        BPF_LINK_DETACH, BPF_PROG_ATTACH,
};

static const int session_ioctl[] = {PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_SET_BPF, TIOCOUTQ};

static int allow(scmp_filter_ctx filter, const int *calls, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);

                /* A call this architecture does not have. */
                if (r < 0 && r != -EDOM)
                        return r;
        }
        return 0;
}

/* A call with one of these commands as its argument number `index`. */
static int add_commands(scmp_filter_ctx filter, uint32_t action, int call, unsigned index, const int *commands,
                        size_t n) {
        int r = 0;

        /* The kernel takes 32 bits of it; so a denial must not be evaded by the other 32. */
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = seccomp_rule_add(filter, action, call, 1,
                                     SCMP_CMP(index, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t) commands[i]));
        return r;
}

/* Memory, but no new code. */
static int allow_common(scmp_filter_ctx filter) {
        int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

        if (r >= 0)
                r = add_commands(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, common_fcntl, ELEMENTSOF(common_fcntl));
        return r < 0 ? r : allow(filter, common, ELEMENTSOF(common));
}

static int allow_session(scmp_filter_ctx filter) {
        /* Only ever less: sampler_set_identity(). */
        int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_EQ, PROT_READ));

        if (r >= 0)
                r = add_commands(filter, SCMP_ACT_ALLOW, SCMP_SYS(bpf), 0, session_bpf, ELEMENTSOF(session_bpf));
        return r < 0 ? r : add_commands(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, session_ioctl, ELEMENTSOF(session_ioctl));
}

static int allow_build(scmp_filter_ctx filter) {
        int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS));

        return r < 0 ? r : allow(filter, build, ELEMENTSOF(build));
}

static int deny_keeper(scmp_filter_ctx filter) {
        const uint32_t deny = SCMP_ACT_ERRNO(EPERM);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(keeper_denied); i++) {
                r = seccomp_rule_add(filter, deny, keeper_denied[i], 0);
                if (r == -EDOM)
                        r = 0;
        }
        /* The names of the kernel become read-only: that, and only that. */
        if (r >= 0)
                r = seccomp_rule_add(filter, deny, SCMP_SYS(fchmod), 1, SCMP_A1(SCMP_CMP_NE, 0444));
        if (r >= 0)
                r = add_commands(filter, deny, SCMP_SYS(fcntl), 1, keeper_denied_fcntl, ELEMENTSOF(keeper_denied_fcntl));
        if (r >= 0)
                r = add_commands(filter, deny, SCMP_SYS(ioctl), 1, keeper_denied_ioctl, ELEMENTSOF(keeper_denied_ioctl));
        if (r >= 0)
                r = add_commands(filter, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(bpf), 0, keeper_modules, 1);
        return r;
}

int sandbox_enter(enum SandboxRole role) {
        scmp_filter_ctx filter;
        int r = -ENOMEM;

        filter = seccomp_init(role == SANDBOX_KEEPER ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
        if (filter)
                r = role == SANDBOX_KEEPER ? deny_keeper(filter) : allow_common(filter);
        if (r >= 0 && role == SANDBOX_FRONT)
                r = allow(filter, front, ELEMENTSOF(front));
        if (r >= 0 && role == SANDBOX_SESSION)
                r = allow_session(filter);
        if (r >= 0 && role == SANDBOX_BUILD)
                r = allow_build(filter);
        if (r >= 0)
                r = seccomp_load(filter);
        seccomp_release(filter);
        return r;
}
