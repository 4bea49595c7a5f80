/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What test-disassemble runs instead of objdump, under the same limits: it says what is in the file that it is given, or
 * does what that asks for.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "util.h"

#define FILE_FD 3

static int attempts;

/* As the text of an instruction. */
static void attempt(const char *what, int result) {
        printf("%x:\t%s %d\n", attempts++, what, result < 0 ? errno : 0);
}

static bool has_others(void) {
        for (int fd = FILE_FD + 1; fd < 64; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                        return true;
        errno = EBADF;
        return false;
}

/* All that a program which was taken over could want. */
static void misbehave(char **argv) {
        attempt("others", has_others() ? 0 : -1);
        attempt("write", open("written", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        attempt("read", open("/dev/null", O_RDONLY | O_CLOEXEC));
        attempt("unlink", unlink("kept"));
        attempt("connect", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        attempt("kill", kill(getppid(), 0));
        attempt("fork", fork());
        attempt("environment", getenv("PATH") ? -1 : 0);
        attempt("stdin", (int) read(STDIN_FILENO, argv, 0));
        attempt("stderr", (int) write(STDERR_FILENO, "x", 1));
}

int main(int argc, char **argv) {
        char buffer[4096] = {};
        ssize_t n;

        (void) argc;
        while ((n = read(FILE_FD, buffer, sizeof(buffer) - 1)) > 0) {
                buffer[n] = 0;
                if (strcmp(buffer, "misbehave") == 0)
                        misbehave(argv);
                else if (strcmp(buffer, "fall") == 0)
                        abort();
                else if (strcmp(buffer, "hang") == 0 || strcmp(buffer, "linger") == 0) {
                        if (buffer[0] == 'l')
                                (void) close(STDOUT_FILENO);
                        for (;;)
                                (void) getpid();
                } else
                        (void) fwrite(buffer, 1, (size_t) n, stdout);
        }
        return fflush(stdout) == 0 && strcmp(buffer, "fail") != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
