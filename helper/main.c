/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ringside-helper: one binary, three roles (docs/architecture.md).
 *
 *   ringside-helper             started by the bus: forks the keeper and becomes the front
 *   ringside-helper --direct    started by a privileged client: a keeper for one session, socket on fd 3
 *   ringside-helper --session   started by a keeper, sockets on fds 3 and 4
 */

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "config.h"
#include "front.h"
#include "keeper.h"
#include "log.h"
#include "packet.h"
#include "privileges.h"
#include "session.h"
#include "util.h"

/*
 * Each event of a session is two descriptors; and the front holds those that came with calls it has not answered,
 * sixteen with each. The unit does this itself, and then does not let us.
 */
static void raise_file_limit(void) {
        const rlim_t wanted = 2 * RS_TASK_EVENTS_MAX + 256;
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
                return;
        limit.rlim_cur = MIN(limit.rlim_max, wanted);
        (void) setrlimit(RLIMIT_NOFILE, &limit);
}

/* Returns 0, or what a client is to hear. */
static enum rs_error become_keeper(bool direct) {
        int r = privileges_become_keeper(direct);

        if (r == PRIVILEGES_NO_USER)
                log_line(LOG_ERR,
                         "there is no system user " PRIVILEGES_USER " to run as, or this is not it; "
                         "systemd-sysusers (sysusers.d/ringside.conf) or adduser --system creates it");
        else if (r == PRIVILEGES_NO_CAPABILITY)
                log_line(LOG_ERR, "CAP_BPF and CAP_PERFMON are missing; start me as root, or see the unit file");
        else if (r < 0)
                log_line(LOG_ERR, "cannot give up privileges: %s", strerror(-r));
        return r == PRIVILEGES_OK ? RS_OK : r == PRIVILEGES_NO_USER ? RS_ERROR_NO_USER : RS_ERROR_CAPABILITY;
}

static int run_bus(int exe_fd, KernelBuild *build) {
        int pair[2];
        pid_t pid;

        if (become_keeper(/* direct= */ false) != RS_OK)
                return EXIT_FAILURE;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || (pid = fork()) < 0) {
                log_line(LOG_ERR, "cannot start the keeper: %m");
                return EXIT_FAILURE;
        }
        if (pid == 0) {
                close_fd(pair[0]);
                return keeper_run(pair[1], exe_fd, build);
        }
        close_fd(pair[1]);
        close_fd(exe_fd);
        kernel_build_done(build);
        return front_run(pair[0]);
}

static int run_direct(int exe_fd, KernelBuild *build) {
        struct rs_message end = {.type = RS_END, .len = sizeof(end)};

        end.error = become_keeper(/* direct= */ true);
        if (end.error != RS_OK) {
                (void) packet_send(SESSION_CLIENT_FD, &end, sizeof(end), NULL, 0, MSG_DONTWAIT);
                return EXIT_FAILURE;
        }
        return keeper_run_direct(SESSION_CLIENT_FD, exe_fd, build);
}

int main(int argc, char *argv[]) {
        const char *role = argc == 2 ? argv[1] : "";
        KernelBuild build;
        int exe_fd;

        /* libbpf and the verifier speak of addresses and of other people's objects: nobody gets to hear it. */
        libbpf_set_print(NULL);
        if (privileges_seal() < 0) {
                log_line(LOG_ERR, "cannot seal the process: %m");
                return EXIT_FAILURE;
        }
        if (strcmp(role, "--version") == 0) {
                printf("ringside-helper %s\n", RINGSIDE_VERSION);
                return EXIT_SUCCESS;
        }
        if (strcmp(role, "--session") == 0)
                return session_run();
        if (argc > 2 || (argc == 2 && strcmp(role, "--direct") != 0)) {
                log_line(LOG_ERR, "started by the bus, or by ringside; see ringside-helper(8)");
                return 2;
        }
        raise_file_limit();
        /* Sessions are this very binary, even where a newer one has replaced it on disk. */
        exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
        if (exe_fd < 0) {
                log_line(LOG_ERR, "cannot open my own binary: %m");
                return EXIT_FAILURE;
        }
        /* The one thing CAP_SYSLOG is for; it goes with all that is not the keeper's. */
        kernel_build_init(&build);
        return argc == 2 ? run_direct(exe_fd, &build) : run_bus(exe_fd, &build);
}
