/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A child of vfork(), on its parent's stack and in its memory, that computes before it executes another program. */

#include <sys/wait.h>
#include <unistd.h>

#include "chain.h"

static CHAINED uint64_t child_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t child_inner(uint64_t x) {
        return chain_after(child_leaf(x));
}

/* All that the child does, so that nothing of what it writes to the stack is the parent's. */
static CHAINED void child_work(double seconds) {
        chain_wait();
        if (chain_repeat(seconds, child_inner) == 42)
                _exit(3);
        (void) execl("/bin/true", "true", (char *) NULL);
        _exit(1);
}

static CHAINED int start_child(double seconds) {
        pid_t pid = vfork();
        int status;

        if (pid == 0)
                child_work(seconds);
        return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

int main(int argc, char **argv) {
        return (int) chain_after((uint64_t) start_child(spin_seconds(argc, argv)));
}
