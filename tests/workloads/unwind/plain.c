/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * unwind-plain CPU-SECONDS [fork]: computes at once, without a moment for anybody to get ready; or in children, one
 * after the other, for as long each, as soon as they are there.
 */

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chain.h"

#define CHILDREN 5

static CHAINED uint64_t plain_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t plain_inner(uint64_t x) {
        return chain_after(plain_leaf(x));
}

static CHAINED uint64_t plain_outer(uint64_t x) {
        return chain_after(plain_inner(x));
}

static CHAINED int plain_child(double seconds) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(spin_end(chain_repeat(seconds, plain_outer)));
        return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

int main(int argc, char **argv) {
        const bool forks = argc == 3 && strcmp(argv[2], "fork") == 0;
        double seconds = spin_seconds(forks ? 2 : argc, argv);
        int failed = 0;

        if (!forks)
                return spin_end(chain_repeat(seconds, plain_outer));
        for (int i = 0; i < CHILDREN; i++)
                failed |= plain_child(seconds);
        return failed;
}
