/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "config.h"
#include "error.h"
#include "event-type.h"
#include "helper.h"
#include "packet.h"
#include "util.h"

#define HELPER_FD 3
/* Of linux/nsfs.h since 6.18; the number itself is older than Ringside. */
#ifndef USER_NS_INIT_INO
#define USER_NS_INIT_INO 0xEFFFFFFDU
#endif

const char *helper_path(void) {
#if RINGSIDE_TEST_HOOKS
        const char *path = getenv("RINGSIDE_HELPER");

        if (path)
                return path;
#endif
        return RINGSIDE_HELPER_PATH;
}

/* Where this process's root is not the machine's: it holds no capability that BPF asks for. */
static bool is_user_namespace(void) {
        struct stat st;

        return stat("/proc/self/ns/user", &st) == 0 && st.st_ino != USER_NS_INIT_INO;
}

enum RingsideHelper helper_choose(enum RingsideHelper helper) {
        if (helper != RINGSIDE_HELPER_AUTO)
                return helper;
        /* Over the bus root would be shown only what a user without capabilities may see of root's. */
        if (geteuid() == 0 && !is_user_namespace())
                return RINGSIDE_HELPER_DIRECT;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_BPF, 0, 0) == 1 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_PERFMON, 0, 0) == 1)
                return RINGSIDE_HELPER_DIRECT;
        return RINGSIDE_HELPER_BUS;
}

/* In a session of its own, so that the terminal's Ctrl-C is the client's alone to handle. */
static int spawn_helper(int fd, pid_t *ret_pid) {
        char *const argv[] = {(char *) "ringside-helper", (char *) "--direct", NULL};
        char *const envp[] = {NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        sigset_t none, all;
        int r;

        sigemptyset(&none);
        sigfillset(&all);
        r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&attr);
        if (r != 0) {
                posix_spawn_file_actions_destroy(&actions);
                return -r;
        }
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, fd, HELPER_FD);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(&actions, HELPER_FD + 1);
        if (r == 0)
                r = posix_spawnattr_setsigmask(&attr, &none);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(&attr, &all);
        if (r == 0)
                r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (r == 0)
                r = posix_spawn(ret_pid, helper_path(), &actions, &attr, argv, envp);
        posix_spawnattr_destroy(&attr);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

int helper_open_direct(const HelperRequest *request, int *ret_fd, pid_t *ret_pid, RingsideError *error) {
        struct rs_open open = {
                .m = {.type = RS_OPEN, .len = sizeof(open)},
                .grant = request->grant,
        };
        _cleanup_close_ int ours = -1, theirs = -1;
        const int on = 1;
        int pair[2], r;

        if (request->kernel != RINGSIDE_KERNEL_NO)
                open.grant.grants |= RS_GRANT_KERNEL;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(error, -errno, NULL, "no socket for the helper: %s", strerror(errno));
        ours = pair[0];
        theirs = pair[1];
        if (setsockopt(theirs, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return error_set(error, -errno, NULL, "no credentials on the helper's socket: %s", strerror(errno));
        r = packet_send(ours, &open, sizeof(open), NULL, 0, MSG_DONTWAIT);
        if (r >= 0)
                r = spawn_helper(theirs, ret_pid);
        if (r == -ENOENT || r == -EACCES)
                return error_set(error, RINGSIDE_E_NO_HELPER, "Install ringside completely (meson install).",
                                 "%s cannot be started: %s", helper_path(), strerror(-r));
        if (r < 0)
                return error_set(error, r, NULL, "the helper cannot be started: %s", strerror(-r));
        *ret_fd = TAKE_FD(ours);
        return 0;
}

/* As the helper's keeper would: by opening. */
static int probe_event(const EventType *type) {
        struct perf_event_attr attr = {
                .size = sizeof(attr),
                .type = type->perf_type,
                .config = type->perf_config,
                .disabled = 1,
        };
        _cleanup_close_ int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

        return fd < 0 ? errno : 0;
}

int helper_list_events_direct(RingsideEventInfo **ret_events, size_t *ret_n, RingsideError *error) {
        RingsideEventInfo *events = calloc(event_type_count(), sizeof(*events));

        if (!events)
                return error_set(error, -ENOMEM, NULL, "out of memory");
        for (size_t i = 0; i < event_type_count(); i++) {
                const EventType *type = event_type_get(i);
                const char *problem = event_type_problem(probe_event(type));

                (void) snprintf(events[i].name, sizeof(events[i].name), "%s", type->name);
                (void) snprintf(events[i].unit, sizeof(events[i].unit), "%s", type->unit);
                (void) snprintf(events[i].category, sizeof(events[i].category), "%s", type->category);
                (void) snprintf(events[i].description, sizeof(events[i].description), "%s", type->description);
                events[i].available = !problem;
                (void) snprintf(events[i].reason, sizeof(events[i].reason), "%s", problem ?: "");
        }
        *ret_events = events;
        *ret_n = event_type_count();
        return 0;
}
