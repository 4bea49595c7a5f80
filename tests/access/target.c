/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process to be seen, or not to be seen: takes on an identity step by step and burns CPU while the gate is
 * open (target.h).
 *
 *      access-target STEP[=ARGUMENT]...
 */

#include "target.h"

#include <string.h>

#include "util.h"

static const struct {
        const char *name;
        StepFunc func;
} steps[] = {
        {"comm", step_comm},
        {"uid", step_uid},
        {"gid", step_gid},
        {"dumpable", step_dumpable},
        {"keepcaps", step_keepcaps},
        {"nocaps", step_nocaps},
        {"userns", step_userns},
        {"owned-ns", step_owned_ns},
        {"pidns", step_pidns},
        {"exec", step_exec},
        {"fork-exec", step_fork_exec},
        {"hold", step_hold},
        {"burn", step_burn},
        {"spin", step_spin},
        {"thread", step_thread},
        {"pty", step_pty},
        {"now", step_now},
        {"uring-worker", step_uring_worker},
        {"uring-borrow", step_uring_borrow},
};

static int take_step(char *word, char **rest) {
        char *argument = strchr(word, '=');

        if (argument)
                *argument++ = '\0';
        for (size_t i = 0; i < ELEMENTSOF(steps); i++)
                if (strcmp(steps[i].name, word) == 0)
                        return steps[i].func(argument, rest);
        return -ENOSYS;
}

int main(_unused_ int argc, char *argv[]) {
        for (char **word = argv + 1; *word; word++) {
                int r = take_step(*word, word + 1);

                if (r < 0) {
                        fprintf(stderr, "access-target: %s: %s\n", *word, strerror(-r));
                        return EXIT_FAILURE;
                }
        }
        return EXIT_SUCCESS;
}
