/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See output.h. */

#include "output.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli.h"

#define PAGER_WORDS 16

static int cannot_write(const char *path, int error) {
        cli_error("name another file with -o FILE, or - for standard output", "Cannot write %s: %s", path,
                  strerror(error));
        return -error;
}

static bool same_file(const struct stat *a, const char *path) {
        struct stat b;

        return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/* As open(2) would have made it; mkostemp() is for its owner only. Another user's choice of a mode is not ours. */
static void apply_umask(int fd, const struct stat *old) {
        mode_t mask = umask(0);
        bool keep = old && old->st_uid == geteuid();

        (void) umask(mask);
        (void) fchmod(fd, keep ? old->st_mode & 07777 : 0666 & ~mask);
}

/* replaced, made by the caller, is taken over; NULL: it could not be, and errno says why. */
static int open_temporary(Output *o, const char *path, char *replaced, const struct stat *old) {
        int fd;

        o->path = replaced;
        if (!o->path)
                return cannot_write(path, errno);
        if (asprintf(&o->temporary, "%s.XXXXXX", o->path) < 0) {
                o->temporary = NULL;
                return cannot_write(path, ENOMEM);
        }
        fd = mkostemp(o->temporary, O_CLOEXEC);
        if (fd < 0) {
                int error = errno;

                free(o->temporary);
                o->temporary = NULL;
                return cannot_write(path, error);
        }
        apply_umask(fd, old);
        o->file = fdopen(fd, "w");
        if (!o->file) {
                close_fd(fd);
                return cannot_write(path, ENOMEM);
        }
        return 0;
}

int output_open(Output *ret, const char *path, const char *recording) {
        Output o = {};
        struct stat old;
        int r = 0;

        if (!path || strcmp(path, "-") == 0) {
                *ret = (Output){ .file = stdout };
                return 0;
        }
        if (stat(path, &old) < 0)
                r = open_temporary(&o, path, strdup(path), NULL);
        else if (recording && same_file(&old, recording)) {
                cli_error("name another file with -o FILE", "%s is the recording itself", path);
                r = -EEXIST;
        } else if (S_ISDIR(old.st_mode))
                r = cannot_write(path, EISDIR);
        else if (S_ISREG(old.st_mode)) /* through a link its target is replaced, not the link */
                r = open_temporary(&o, path, realpath(path, NULL), &old);
        else { /* /dev/null, a fifo: nothing to replace */
                o.file = fopen(path, "we");
                if (!o.file)
                        r = cannot_write(path, errno);
        }
        if (r < 0) {
                output_done(&o);
                return r;
        }
        *ret = o;
        return 0;
}

int output_open_default(Output *ret, const char *path) {
        Output o = {};
        struct stat old;
        int r;

        /* In a directory that others write to, a link or a file of theirs may wait there for us. */
        if (lstat(path, &old) == 0 && (!S_ISREG(old.st_mode) || old.st_uid != geteuid())) {
                cli_error("name a file with -o FILE, or take that away", "%s is there already, and is %s", path,
                          S_ISREG(old.st_mode) ? "another user's" : "no regular file");
                return -EEXIST;
        }
        r = open_temporary(&o, path, strdup(path), NULL);
        if (r < 0) {
                output_done(&o);
                return r;
        }
        *ret = o;
        return 0;
}

/* Copies, for want of anything better: what was printed must not vanish with a pager that is missing. */
_Noreturn static void copy_through(void) {
        char buffer[4096];
        ssize_t n;

        while ((n = RETRY_ON_EINTR(read(STDIN_FILENO, buffer, sizeof(buffer)))) > 0)
                for (ssize_t done = 0; done < n;) {
                        ssize_t w = RETRY_ON_EINTR(write(STDOUT_FILENO, buffer + done, (size_t) (n - done)));

                        if (w < 0)
                                _exit(EXIT_FAILURE);
                        done += w;
                }
        _exit(EXIT_SUCCESS);
}

_Noreturn static void run_pager(const char *command) {
        char words[1024], *argv[PAGER_WORDS + 1], *state;
        size_t n = 0;

        (void) setenv("LESS", "FRX", /* overwrite= */ 0);
        snprintf(words, sizeof(words), "%s", command);
        /* Words, not a shell: $PAGER is a program with its options. */
        for (char *w = strtok_r(words, " \t", &state); w && n < PAGER_WORDS; w = strtok_r(NULL, " \t", &state))
                argv[n++] = w;
        argv[n] = NULL;
        if (n > 0)
                (void) execvp(argv[0], argv);
        copy_through();
}

int output_open_paged(Output *ret, bool pager) {
        const char *command = getenv("PAGER");
        int fds[2];
        pid_t pid;

        *ret = (Output){ .file = stdout };
        if (!command)
                command = "less";
        if (!pager || !isatty(STDOUT_FILENO) || command[strspn(command, " \t")] == 0 || strcmp(command, "cat") == 0)
                return 0;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return 0;
        pid = fork();
        if (pid == 0) {
                /* Without its copy of the other end closed it would never see the end of what it copies. */
                close_fd(fds[1]);
                if (dup2(fds[0], STDIN_FILENO) < 0)
                        _exit(EXIT_FAILURE);
                run_pager(command);
        }
        close_fd(fds[0]);
        ret->file = pid > 0 ? fdopen(fds[1], "w") : NULL;
        if (!ret->file) {
                close_fd(fds[1]);
                ret->file = stdout;
                if (pid > 0)
                        (void) RETRY_ON_EINTR(waitpid(pid, NULL, 0));
                return 0;
        }
        ret->pager = pid;
        /* The pager may be left early, and Ctrl-C in it is the pager's. */
        (void) signal(SIGPIPE, SIG_IGN);
        (void) signal(SIGINT, SIG_IGN);
        return 0;
}

/* Closes but stdout; a negative errno if anything that was written did not arrive. */
static int close_file(Output *o) {
        int r = 0;

        errno = EIO;
        if (fflush(o->file) != 0 || ferror(o->file))
                r = -errno;
        if (o->file != stdout && fclose(o->file) != 0 && r == 0)
                r = -errno;
        o->file = NULL;
        return r;
}

int output_finish(Output *o) {
        int r;

        r = close_file(o);
        if (o->pager > 0) {
                (void) RETRY_ON_EINTR(waitpid(o->pager, NULL, 0));
                o->pager = 0;
                return r == -EPIPE ? 0 : r;
        }
        if (r >= 0 && o->temporary) {
                if (rename(o->temporary, o->path) < 0)
                        r = -errno;
                else {
                        free(o->temporary);
                        o->temporary = NULL;
                }
        }
        if (r < 0)
                return cannot_write(o->path ? o->path : "the output", -r);
        return 0;
}

void output_done(Output *o) {
        if (o->file)
                (void) close_file(o);
        if (o->pager > 0)
                (void) RETRY_ON_EINTR(waitpid(o->pager, NULL, 0));
        if (o->temporary)
                (void) unlink(o->temporary);
        free(o->temporary);
        free(o->path);
        *o = (Output){};
}
