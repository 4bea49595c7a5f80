/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-build.h"

#include <bpf/bpf.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "control.h"
#include "packet.h"
#include "privileges.h"
#include "sandbox.h"
#include "time-offset.h"
#include "util.h"

/* Hundreds of times what a build takes. */
#define BUILD_SEC 20
/* Not more often for a session's word alone, since one that is taken over says what it likes. */
#define CHANGED_NSEC 5000000000ULL

void kernel_build_init(KernelBuild *build) {
        *build = (KernelBuild){
                .symbols_fd = kernel_builder_open(),
                /* Not there where the kernel has no modules. */
                .modules_fd = open("/proc/modules", O_RDONLY | O_CLOEXEC),
                .newest = {.names_fd = -1}, .map_fd = -1, .child_fd = -1, .time_offset = time_offset("monotonic"),
        };
}

void kernel_build_done(KernelBuild *build) {
        close_fd(build->symbols_fd);
        close_fd(build->modules_fd);
}

/* ---- the child ---- */

static void child_run(const KernelBuild *build, int socket_fd) {
        KernelGeneration next = {.names_fd = memfd_create("ringside-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
        const int kept[] = {socket_fd, next.names_fd, build->symbols_fd, build->modules_fd, build->newest.names_fd};

        /* perf-event.c has a handler; here it is to kill. */
        signal(SIGALRM, SIG_DFL);
        alarm(BUILD_SEC);
        close_fds_but(kept, ELEMENTSOF(kept));
        if (next.names_fd < 0 || privileges_drop() < 0 || sandbox_enter(SANDBOX_BUILD) < 0)
                _exit(EXIT_FAILURE);
        /* What it says is what it has made, which is nothing where the number is 0. */
        if (kernel_builder_run(build->symbols_fd, build->modules_fd, &build->newest, &next) < 0)
                next.number = 0;
        _exit(packet_send(socket_fd, &next, sizeof(next), &next.names_fd, next.number != 0, 0) < 0);
}

/* ---- the keeper ---- */

static int kernel_build_start(KernelBuild *build) {
        int pair[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid = fork();
        if (pid == 0)
                child_run(build, pair[1]);
        /* Without a child nobody has the other end: that is what is found out next. */
        build->child_fd = pair[0];
        close_fd(pair[1]);
        return 0;
}

void kernel_build_refresh(KernelBuild *build, uint64_t changed, bool at_once) {
        uint64_t hash, nsec = now_ns(CLOCK_MONOTONIC), now = nsec / 1000000000ULL;

        if (build->symbols_fd < 0 || build->child_fd >= 0 ||
            (build->checked != 0 && (!at_once || build->wait > 0) && now <= build->checked + build->wait))
                return;
        build->checked = now;
        nsec -= build->time_offset;
        hash = kernel_modules_hash(build->modules_fd);
        if ((hash != build->modules_hash || (changed > build->began && nsec > build->began + CHANGED_NSEC)) &&
            kernel_build_start(build) == 0) {
                build->modules_hash = hash;
                build->began = nsec;
        }
}

/* Sessions put it where their programs look, and cannot: it never reads, and once frozen it does not write. */
static int ranges_to_map(const struct rs_kernel_ranges *ranges) {
        LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_RDONLY_PROG | BPF_F_WRONLY);
        _cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "rs_kernel", sizeof(uint32_t), sizeof(*ranges), 1, &options);
        const uint32_t zero = 0;

        return fd < 0 || bpf_map_update_elem(fd, &zero, ranges, BPF_ANY) < 0 || bpf_map_freeze(fd) < 0 ? -errno : TAKE_FD(fd);
}

void kernel_build_take(KernelBuild *build) {
        KernelGeneration result;
        Packet packet;
        int r, map_fd = -1;
        bool told;

        r = packet_receive(build->child_fd, &result, sizeof(result), 1, MSG_DONTWAIT, &packet);
        build->child_fd = close_fd(build->child_fd);
        told = r > 0 && packet.size == sizeof(result);
        result.ranges.made = build->began;
        if (told && packet.n_fds == 1 && fcntl(packet.fds[0], F_GET_SEALS) == KERNEL_NAMES_SEALS &&
            result.next_module >= build->newest.next_module && (map_fd = ranges_to_map(&result.ranges)) >= 0) {
                close_fd(build->map_fd);
                close_fd(build->newest.names_fd);
                result.number = build->newest.number + 1;
                result.names_fd = TAKE_FD(packet.fds[0]);
                build->newest = result;
                build->map_fd = map_fd;
                build->size = lseek(result.names_fd, 0, SEEK_END);
                build->wait = 0;
        } else if (!told || packet.n_fds > 0 || build->newest.number > 0) {
                /* It died, or what it made is of no use: another may fare better. Nothing can be had where nothing could. */
                build->modules_hash = 0;
                build->wait = MIN(2 * build->wait + 1, 60U);
        }
        if (r > 0)
                packet_done(&packet);
}
