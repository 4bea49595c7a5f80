/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A session that has been taken over. Linked into a helper of the tests' own (never installed) in place of
 * packet_receive(): a packet of type ATTACK makes the session, behind its sandbox, try everything it could do to
 * the processes named in it, and to the rest of the machine. Each attempt is reported with its result.
 *
 * With ATTACK_WITHOUT_SANDBOX the sandbox is left out, which shows that the attempts are real.
 */

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "control.h"
#include "keeper.h"
#include "packet.h"
#include "protocol.h"
#include "sandbox.h"
#include "util.h"

#define ATTACK 0x4154
#define ATTACK_GENTLE 1  /* flags: nothing that would end a process */
#define ATTACK_FOREIGN 2 /* a system call of another architecture: the filter kills for it */
#define ATTACK_UNREAD 4  /* only this: asks the keeper for more events than it takes */
#define ATTACK_FLOOD 8   /* only this: all it may ask the keeper for, until that ends */
#define ATTACK_PRETEND 16 /* only this: says that modules go */
#define FLOOD_MAX 100000
#define VICTIMS_MAX 3
#define UNREAD_MSEC 20000
/* For arguments of which the kernel takes the lower half. */
#define EVASION (1ULL << 32)

struct attack {
        struct rs_message m;
        uint32_t flags;
        int32_t victims[VICTIMS_MAX]; /* 0: none */
};

int __real_packet_receive(int fd, void *data, size_t size, size_t max_fds, int flags, Packet *ret);
int __wrap_packet_receive(int fd, void *data, size_t size, size_t max_fds, int flags, Packet *ret);

static void report(const char *name, int32_t victim, long result, int error) {
        char line[128];
        int n = snprintf(line, sizeof(line), "%s %d %ld %d", name, victim, result, result < 0 ? error : 0);

        (void) packet_send(SESSION_CLIENT_FD, line, n, NULL, 0, 0);
}

#define TRY_ON(victim, name, call)                                                                                     \
        do {                                                                                                           \
                errno = 0;                                                                                             \
                long result_ = (long) (call);                                                                          \
                report(name, victim, result_, errno);                                                                  \
        } while (0)
#define TRY(name, call) TRY_ON(0, name, call)
#define SYS(...) syscall(__VA_ARGS__)

static void signals(int32_t pid, bool gentle) {
        static const int numbers[] = {0, SIGUSR1, SIGSTOP, SIGTERM, SIGSEGV, SIGKILL};
        const int fd = SESSION_CLIENT_FD;
        struct f_owner_ex owner = {F_OWNER_PID, pid};
        siginfo_t info = {.si_code = SI_QUEUE};

        for (size_t i = 0; i < (gentle ? 1 : ELEMENTSOF(numbers)); i++) {
                int n = numbers[i];

                info.si_signo = n;
                TRY_ON(pid, "kill", SYS(SYS_kill, pid, n));
                TRY_ON(pid, "tkill", SYS(SYS_tkill, pid, n));
                TRY_ON(pid, "tgkill", SYS(SYS_tgkill, pid, pid, n));
                TRY_ON(pid, "rt_sigqueueinfo", SYS(SYS_rt_sigqueueinfo, pid, n, &info));
                TRY_ON(pid, "rt_tgsigqueueinfo", SYS(SYS_rt_tgsigqueueinfo, pid, pid, n, &info));
                TRY_ON(pid, "pidfd_send_signal", SYS(SYS_pidfd_send_signal, fd, n, NULL, 0));
        }
        TRY_ON(pid, "F_SETOWN", SYS(SYS_fcntl, fd, F_SETOWN, pid));
        TRY_ON(pid, "F_SETOWN-evading", SYS(SYS_fcntl, fd, F_SETOWN | EVASION, pid));
        TRY_ON(pid, "F_SETOWN_EX", SYS(SYS_fcntl, fd, F_SETOWN_EX, &owner));
        TRY_ON(pid, "F_SETSIG", SYS(SYS_fcntl, fd, F_SETSIG, gentle ? 0 : SIGKILL));
        TRY_ON(pid, "FIOSETOWN", SYS(SYS_ioctl, fd, FIOSETOWN, &pid));
        TRY_ON(pid, "SIOCSPGRP-evading", SYS(SYS_ioctl, fd, SIOCSPGRP | EVASION, &pid));
}

static void memory(int32_t pid) {
        char path[64], byte;
        struct iovec local = {&byte, 1}, remote = {(void *) 0x400000, 1};

        TRY_ON(pid, "PTRACE_SEIZE", SYS(SYS_ptrace, PTRACE_SEIZE, pid, NULL, NULL));
        TRY_ON(pid, "process_vm_readv", SYS(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0));
        TRY_ON(pid, "process_vm_writev", SYS(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0));
        TRY_ON(pid, "process_madvise", SYS(SYS_process_madvise, SESSION_CLIENT_FD, &remote, 1, MADV_COLD, 0));
        TRY_ON(pid, "pidfd_open", SYS(SYS_pidfd_open, pid, 0));
        TRY_ON(pid, "pidfd_getfd", SYS(SYS_pidfd_getfd, SESSION_CLIENT_FD, 0, 0));
        TRY_ON(pid, "kcmp", SYS(SYS_kcmp, getpid(), pid, 0, 0, 0));
        snprintf(path, sizeof(path), "/proc/%d/mem", pid);
        TRY_ON(pid, "open-mem", SYS(SYS_openat, AT_FDCWD, path, O_RDWR));
        snprintf(path, sizeof(path), "/proc/%d/status", pid);
        TRY_ON(pid, "open-status", SYS(SYS_openat, AT_FDCWD, path, O_RDONLY));
}

static void scheduling(int32_t pid) {
        struct rlimit limit = {};
        unsigned long cpus = 1;
        struct sched_param param = {};

        TRY_ON(pid, "prlimit64", SYS(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, &limit));
        TRY_ON(pid, "sched_setaffinity", SYS(SYS_sched_setaffinity, pid, sizeof(cpus), &cpus));
        TRY_ON(pid, "sched_setscheduler", SYS(SYS_sched_setscheduler, pid, SCHED_IDLE, &param));
        TRY_ON(pid, "setpriority", SYS(SYS_setpriority, PRIO_PROCESS, pid, 19));
        TRY_ON(pid, "ioprio_set", SYS(SYS_ioprio_set, 1, pid, 0));
        TRY_ON(pid, "migrate_pages", SYS(SYS_migrate_pages, pid, 0, NULL, NULL));
        TRY_ON(pid, "move_pages", SYS(SYS_move_pages, pid, 0, NULL, NULL, NULL, 0));
}

static int in_child(long pid) {
        if (pid == 0)
                _exit(0);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        return pid;
}

static void processes(void) {
        char *const argv[] = {(char *) "true", NULL};
        uint64_t clone3[11] = {[4] = SIGCHLD};

#ifdef SYS_fork
        TRY("fork", in_child(SYS(SYS_fork)));
#endif
        TRY("clone", in_child(SYS(SYS_clone, SIGCHLD, 0, 0, 0, 0)));
        TRY("clone3", in_child(SYS(SYS_clone3, clone3, sizeof(clone3))));
        TRY("unshare", SYS(SYS_unshare, CLONE_NEWUSER));
        TRY("setns", SYS(SYS_setns, SESSION_CLIENT_FD, 0));
        TRY("setuid", SYS(SYS_setuid, 0));
        TRY("capset", SYS(SYS_capset, NULL, NULL));
        TRY("prctl", SYS(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0));
        TRY("seccomp", SYS(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, NULL));
        TRY("personality", SYS(SYS_personality, 0x0400000));
        TRY("keyctl", SYS(SYS_keyctl, 0, -3, 0));
#if !ATTACK_WITHOUT_SANDBOX
        TRY("execve", SYS(SYS_execve, "/bin/true", argv, argv + 1));
        TRY("execveat", SYS(SYS_execveat, AT_FDCWD, "/bin/true", argv, argv + 1, 0));
#else
        (void) argv;
#endif
}

static void files_and_sockets(void) {
        struct sockaddr name = {.sa_family = AF_UNIX};
        uint64_t how[3] = {};

#ifdef SYS_open
        TRY("open", SYS(SYS_open, "/etc/passwd", O_RDONLY));
        TRY("unlink", SYS(SYS_unlink, "/nothing"));
#endif
        TRY("openat", SYS(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
        TRY("openat2", SYS(SYS_openat2, AT_FDCWD, "/etc/passwd", how, sizeof(how)));
        TRY("open-create", SYS(SYS_openat, AT_FDCWD, "/tmp/x", O_CREAT | O_TMPFILE | O_RDWR, 0600));
        TRY("newfstatat", SYS(SYS_newfstatat, AT_FDCWD, "/etc", NULL, 0));
        TRY("readlinkat", SYS(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", NULL, 0));
        TRY("getdents64", SYS(SYS_getdents64, SESSION_CLIENT_FD, NULL, 0));
        TRY("memfd_create", SYS(SYS_memfd_create, "x", 0));
        TRY("mount", SYS(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
        TRY("chroot", SYS(SYS_chroot, "/"));
        TRY("inotify_init1", SYS(SYS_inotify_init1, 0));
        TRY("userfaultfd", SYS(SYS_userfaultfd, 1));
        TRY("io_uring_setup", SYS(SYS_io_uring_setup, 1, NULL));
        TRY("shmget", SYS(SYS_shmget, 0, 4096, 0600));
        TRY("socket-unix", SYS(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
        TRY("socket-inet", SYS(SYS_socket, AF_INET, SOCK_DGRAM, 0));
        TRY("socket-netlink", SYS(SYS_socket, AF_NETLINK, SOCK_RAW, 0));
        TRY("socketpair", SYS(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (int[2]){}));
        TRY("connect", SYS(SYS_connect, SESSION_CLIENT_FD, &name, sizeof(name)));
        TRY("bind", SYS(SYS_bind, SESSION_CLIENT_FD, &name, sizeof(name)));
        TRY("setsockopt", SYS(SYS_setsockopt, SESSION_CLIENT_FD, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)));
}

static void code_and_bpf(int32_t pid) {
        struct perf_event_attr attr = {.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .disabled = 1};
        static const struct {
                const char *name;
                int command;
        } commands[] = {
                {"BPF_MAP_CREATE", BPF_MAP_CREATE},
                {"BPF_MAP_LOOKUP_ELEM", BPF_MAP_LOOKUP_ELEM},
                {"BPF_MAP_GET_NEXT_KEY", BPF_MAP_GET_NEXT_KEY},
                {"BPF_PROG_LOAD", BPF_PROG_LOAD},
                {"BPF_OBJ_PIN", BPF_OBJ_PIN},
                {"BPF_OBJ_GET", BPF_OBJ_GET},
                {"BPF_PROG_GET_NEXT_ID", BPF_PROG_GET_NEXT_ID},
                {"BPF_MAP_GET_NEXT_ID", BPF_MAP_GET_NEXT_ID},
                {"BPF_PROG_GET_FD_BY_ID", BPF_PROG_GET_FD_BY_ID},
                {"BPF_MAP_GET_FD_BY_ID", BPF_MAP_GET_FD_BY_ID},
                {"BPF_OBJ_GET_INFO_BY_FD", BPF_OBJ_GET_INFO_BY_FD},
                {"BPF_BTF_LOAD", BPF_BTF_LOAD},
                {"BPF_TASK_FD_QUERY", BPF_TASK_FD_QUERY},
                {"BPF_LINK_GET_FD_BY_ID", BPF_LINK_GET_FD_BY_ID},
                {"BPF_ENABLE_STATS", BPF_ENABLE_STATS},
        };
        char zeros[128] = {};
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                TRY(commands[i].name, SYS(SYS_bpf, commands[i].command, zeros, sizeof(zeros)));
        TRY("BPF_PROG_LOAD-evading", SYS(SYS_bpf, BPF_PROG_LOAD | EVASION, zeros, sizeof(zeros)));
        TRY("perf_event_open", SYS(SYS_perf_event_open, &attr, pid, -1, -1, 0));
        TRY("mmap-exec", SYS(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        TRY("mprotect-exec", SYS(SYS_mprotect, page, 4096, PROT_READ | PROT_EXEC));
        /* The identity that sampler_set_identity() has made read-only. */
        TRY("mprotect-write", SYS(SYS_mprotect, page, 4096, PROT_READ | PROT_WRITE));
        TRY("pkey_mprotect-exec", SYS(SYS_pkey_mprotect, page, 4096, PROT_READ | PROT_EXEC, -1));
}

/* Its programs where they belong, which is what it may do, and elsewhere. */
static void tracepoints(void) {
        static const char name[] = "sched_switch";
        int here = 0, elsewhere = 0, error = 0;

        for (int fd = 3; fd < 1024; fd++) {
                union bpf_attr attr = {.raw_tracepoint.prog_fd = fd};
                int link = SYS(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
                bool is_here = link >= 0 && close(link) == 0;

                here += is_here;
                attr.raw_tracepoint.name = (uintptr_t) name;
                link = SYS(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
                if (link >= 0 && close(link) == 0)
                        elsewhere++;
                else if (is_here)
                        error = errno;
        }
        report("tracepoint-here", 0, here, 0);
        report("tracepoint-elsewhere", 0, elsewhere > 0 ? elsewhere : -1, error);
}

/* On the kernel's ranges, while the session has them; 0: it has not tried. */
static struct {
        int read, read_flags, write;
} on_ranges;

static void attack_ranges(int fd) {
        static struct rs_kernel_ranges ranges;
        uint32_t zero = 0;
        union bpf_attr attr = {.map_fd = fd, .key = (uintptr_t) &zero, .value = (uintptr_t) &ranges};

        on_ranges.read = SYS(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)) < 0 ? errno : -1;
        attr.flags = BPF_F_LOCK;
        on_ranges.read_flags = SYS(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)) < 0 ? errno : -1;
        attr.flags = 0;
        on_ranges.write = SYS(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr)) < 0 ? errno : -1;
}

static void report_ranges(const char *name, int error) {
        if (error != 0)
                report(name, 0, error > 0 ? -1 : 0, error);
}

/* How many descriptors can be made to lie in our socket, where they count against the user of all sessions. */
static void leave_unread(void) {
        const struct session_request request = {.op = SESSION_OP_EVENT, .event = {.tid = -1}};
        struct pollfd keeper = {.fd = SESSION_KEEPER_FD};
        struct session_answer answer;
        Packet packet;
        long n = 0;

        for (int i = 0; i < 64; i++)
                (void) packet_send(SESSION_KEEPER_FD, &request, sizeof(request), NULL, 0, MSG_DONTWAIT);
        /* When it cannot send any more it is through with us. */
        if (poll(&keeper, 1, UNREAD_MSEC) != 1)
                n = 1000;
        while (__real_packet_receive(SESSION_KEEPER_FD, &answer, sizeof(answer), 1, MSG_DONTWAIT, &packet) > 0) {
                n += packet.n_fds;
                packet_done(&packet);
        }
        report("unread", 0, n, 0);
}

/* All it may ask for, and none of the answers is read. */
static void flood(void) {
        const struct session_request requests[] = {
                {.op = SESSION_OP_KERNEL},
                {.op = SESSION_OP_EVENT, .event = {.tid = -1}},
        };
        int sent = 0, r = 0;

        while (sent < FLOOD_MAX && r >= 0) {
                r = packet_send(SESSION_KEEPER_FD, &requests[sent % ELEMENTSOF(requests)], sizeof(requests[0]), NULL, 0, 0);
                sent += r >= 0;
        }
        report("flood", 0, r < 0 ? -sent : sent, -r);
}

/* A module has gone, again and again: how many generations that makes in ten seconds. */
static void pretend(void) {
        const struct session_request request = {.op = SESSION_OP_KERNEL, .changed = UINT64_MAX};
        uint64_t first = 0, last = 0;

        for (int i = 0; i < 200; i++) {
                struct session_answer answer;
                Packet packet;

                if (packet_send(SESSION_KEEPER_FD, &request, sizeof(request), NULL, 0, 0) < 0 ||
                    __real_packet_receive(SESSION_KEEPER_FD, &answer, sizeof(answer), 2, 0, &packet) <= 0)
                        break;
                packet_done(&packet);
                last = answer.generation;
                first = first ?: last;
                (void) poll(NULL, 0, /* timeout= */ 50);
        }
        report("pretend", 0, (long) (last - first), 0);
}

static void attack(const struct attack *request) {
        bool gentle = request->flags & ATTACK_GENTLE;

        if (request->flags & ATTACK_FLOOD) {
                flood();
                return;
        }
        if (request->flags & ATTACK_PRETEND) {
                pretend();
                return;
        }
        if (request->flags & ATTACK_UNREAD) {
                leave_unread();
                report("done", 0, 0, 0);
                return;
        }

#if defined(__x86_64__)
        if (request->flags & ATTACK_FOREIGN)
                TRY("x32", SYS(0x40000000 | SYS_getpid));
#endif
        for (size_t i = 0; i < VICTIMS_MAX && request->victims[i] > 0; i++) {
                memory(request->victims[i]);
                scheduling(request->victims[i]);
                signals(request->victims[i], gentle);
        }
        processes();
        files_and_sockets();
        code_and_bpf(request->victims[0]);
        tracepoints();
        report_ranges("ranges-read", on_ranges.read);
        report_ranges("ranges-read-flags", on_ranges.read_flags);
        report_ranges("ranges-write", on_ranges.write);
        report("done", 0, 0, 0);
}

int __wrap_packet_receive(int fd, void *data, size_t size, size_t max_fds, int flags, Packet *ret) {
        int r = __real_packet_receive(fd, data, size, max_fds, flags, ret);
        struct attack request;

        if (r == 1 && fd == SESSION_KEEPER_FD && ret->n_fds == 2)
                attack_ranges(ret->fds[0]);
        if (r != 1 || fd != SESSION_CLIENT_FD || ret->size != sizeof(request) || ret->n_fds > 0)
                return r;
        memcpy(&request, data, sizeof(request));
        if (request.m.type != ATTACK)
                return r;
        attack(&request);
        /* The session goes on as if nothing had come. */
        return -EAGAIN;
}

#if ATTACK_WITHOUT_SANDBOX
int __wrap_sandbox_enter(enum SandboxRole role);

/* But for what loading needs: that libbpf finds no modules to ask for types. */
int __wrap_sandbox_enter(enum SandboxRole role) {
        scmp_filter_ctx filter;
        int r = -ENOMEM;

        if (role != SANDBOX_KEEPER)
                return 0;
        filter = seccomp_init(SCMP_ACT_ALLOW);
        if (filter)
                r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(bpf), 1,
                                     SCMP_A0(SCMP_CMP_EQ, BPF_BTF_GET_NEXT_ID));
        if (r >= 0)
                r = seccomp_load(filter);
        seccomp_release(filter);
        return r;
}
#endif
