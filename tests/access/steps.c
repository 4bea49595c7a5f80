/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target.h"
#include "util.h"

static int parse_three(const char *argument, unsigned ret[3]) {
        return argument && sscanf(argument, "%u,%u,%u", &ret[0], &ret[1], &ret[2]) == 3 ? 0 : -EINVAL;
}

int step_comm(char *argument, _unused_ char **rest) {
        return prctl(PR_SET_NAME, argument) < 0 ? -errno : 0;
}

/* The C library would change all threads. */
int step_uid(char *argument, _unused_ char **rest) {
        unsigned ids[3];

        if (parse_three(argument, ids) < 0)
                return -EINVAL;
        return syscall(SYS_setresuid, ids[0], ids[1], ids[2]) < 0 ? -errno : 0;
}

int step_gid(char *argument, _unused_ char **rest) {
        unsigned ids[3];

        if (parse_three(argument, ids) < 0)
                return -EINVAL;
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, ids[0], ids[1], ids[2]) < 0)
                return -errno;
        return 0;
}

int step_dumpable(char *argument, _unused_ char **rest) {
        return prctl(PR_SET_DUMPABLE, argument[0] == '1', 0, 0, 0) < 0 ? -errno : 0;
}

int step_keepcaps(_unused_ char *argument, _unused_ char **rest) {
        return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int step_nocaps(_unused_ char *argument, _unused_ char **rest) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[2] = {};

        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int step_userns(_unused_ char *argument, _unused_ char **rest) {
        return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

static int map_write(pid_t pid, const char *name, unsigned id) {
        _cleanup_close_ int fd = -1;
        char path[64], line[64];
        int n;

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        n = snprintf(line, sizeof(line), "%u %u 1\n", id, id);
        return fd < 0 || write(fd, line, n) != n ? -errno : 0;
}

/* In a child that is still root: the mapping, once the parent has made its namespace. */
static _Noreturn void map_from_outside(int go) {
        unsigned ids[3];

        if (read(go, ids, sizeof(ids)) != sizeof(ids))
                _exit(EXIT_FAILURE);
        _exit(map_write(getppid(), "gid_map", ids[2]) < 0 || map_write(getppid(), "uid_map", ids[1]) < 0);
}

int step_owned_ns(char *argument, _unused_ char **rest) {
        unsigned ids[3];
        int pair[2], status;
        pid_t pid;

        if (parse_three(argument, ids) < 0)
                return -EINVAL;
        if (pipe2(pair, O_CLOEXEC) < 0 || (pid = fork()) < 0)
                return -errno;
        if (pid == 0) {
                close_fd(pair[1]);
                map_from_outside(pair[0]);
        }
        if (setgroups(0, NULL) < 0 || setresuid(ids[0], ids[0], ids[0]) < 0 || unshare(CLONE_NEWUSER) < 0 ||
            write(pair[1], ids, sizeof(ids)) != sizeof(ids))
                return -errno;
        close_fd(pair[0]);
        close_fd(pair[1]);
        if (waitpid(pid, &status, 0) < 0 || status != 0)
                return -ECHILD;
        if (setresgid(ids[2], ids[2], ids[2]) < 0 || setresuid(ids[1], ids[1], ids[1]) < 0)
                return -errno;
        return 0;
}

static _Noreturn void wait_for(pid_t pid) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        _exit(EXIT_SUCCESS);
}

int step_pidns(_unused_ char *argument, _unused_ char **rest) {
        pid_t pid;

        if (unshare(CLONE_NEWPID) < 0 || (pid = fork()) < 0)
                return -errno;
        if (pid > 0)
                wait_for(pid);
        return 0;
}

int step_exec(char *argument, char **rest) {
        rest[-1] = argument;
        (void) execv(argument, rest - 1);
        return -errno;
}

int step_fork_exec(char *argument, char **rest) {
        pid_t pid = fork();

        if (pid > 0)
                wait_for(pid);
        return pid < 0 ? -errno : step_exec(argument, rest);
}
