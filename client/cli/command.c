/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * See command.h. Two pipes: one byte down the first lets the child go on to execvp(), its end without
 * a byte makes the child leave; the second is closed by a successful execve() and carries errno else.
 */

#include "command.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli.h"

struct Command {
        pid_t pid; /* 0 once it was collected */
        int pidfd;
        int release_fd; /* -1 once it was released */
        int error_fd;
};

/* Only what is async-signal-safe: other threads may have held locks at the fork. */
_Noreturn static void run_child(char *const *argv, const sigset_t *mask, const struct sigaction *sigchld,
                                int release_fd, int error_fd) {
        int error;
        char byte;

        if (RETRY_ON_EINTR(read(release_fd, &byte, 1)) != 1)
                _exit(EXIT_OWN_FAILURE);
        (void) sigaction(SIGCHLD, sigchld, NULL);
        (void) sigprocmask(SIG_SETMASK, mask, NULL);
        (void) execvp(argv[0], argv);
        error = errno;
        (void) RETRY_ON_EINTR(write(error_fd, &error, sizeof(error)));
        _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE);
}

int command_new(Command **ret, char *const *argv, const sigset_t *mask) {
        _cleanup_close_ int release_read = -1, error_write = -1;
        _cleanup_(command_freep) Command *command = NULL;
        struct sigaction sigchld, dfl = { .sa_handler = SIG_DFL };
        int fds[2];

        command = calloc(1, sizeof(*command));
        if (!command)
                return -ENOMEM;
        *command = (Command){ .pidfd = -1, .release_fd = -1, .error_fd = -1 };

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        release_read = fds[0];
        command->release_fd = fds[1];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        command->error_fd = fds[0];
        error_write = fds[1];

        /* Inherited as ignored it would throw the exit status away; the program gets it as it was. */
        if (sigaction(SIGCHLD, &dfl, &sigchld) < 0)
                return -errno;
        command->pid = fork();
        if (command->pid < 0) {
                command->pid = 0;
                return -errno;
        }
        if (command->pid == 0) {
                /* The child's copy would keep the pipe open when we die. */
                (void) close(command->release_fd);
                run_child(argv, mask, &sigchld, release_read, error_write);
        }
        command->pidfd = pidfd_open(command->pid, 0);
        if (command->pidfd < 0)
                return -errno;
        *ret = TAKE_PTR(command);
        return 0;
}

Command *command_free(Command *command) {
        if (!command)
                return NULL;
        if (command->release_fd >= 0) {
                command->release_fd = close_fd(command->release_fd);
                if (command->pid > 0)
                        (void) RETRY_ON_EINTR(waitpid(command->pid, NULL, 0));
        }
        close_fd(command->pidfd);
        close_fd(command->error_fd);
        free(command);
        return NULL;
}

pid_t command_get_pid(const Command *command) {
        return command->pid;
}

int command_get_pidfd(const Command *command) {
        return command->pidfd;
}

int command_release(Command *command) {
        if (RETRY_ON_EINTR(write(command->release_fd, "", 1)) != 1)
                return -errno;
        command->release_fd = close_fd(command->release_fd);
        return 0;
}

int command_reap(Command *command, int *ret_status, int *ret_exec_errno) {
        int status, error = 0;

        if (RETRY_ON_EINTR(waitpid(command->pid, &status, 0)) != command->pid)
                return -errno;
        command->pid = 0;
        /* Closed by execve(), or by the end of a child that never came so far: then nothing is in it. */
        if (RETRY_ON_EINTR(read(command->error_fd, &error, sizeof(error))) != sizeof(error))
                error = 0;
        *ret_status = status;
        *ret_exec_errno = error;
        return 0;
}

static bool is_below(const char *directory, size_t n, const char *name) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        /* An empty part of PATH is the current directory. */
        if (asprintf(&path, "%.*s%s%s", (int) n, directory, n > 0 ? "/" : "", name) < 0) {
                path = NULL;
                return false;
        }
        return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool command_is_there(const char *name) {
        const char *path = getenv("PATH") ?: "/bin:/usr/bin"; /* glibc's own default */
        struct stat st;

        if (strchr(name, '/'))
                return stat(name, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
        for (;; path++) {
                size_t n = strcspn(path, ":");

                if (*name && n < PATH_MAX && is_below(path, n, name))
                        return true;
                path += n;
                if (!*path)
                        return false;
        }
}

int command_signal(Command *command, int signal) {
        return pidfd_send_signal(command->pidfd, signal, NULL, 0) < 0 ? -errno : 0;
}
