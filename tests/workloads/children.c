/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Three child processes that take 50, 30 and 20 % of the CPU seconds asked for in all; the first is executed
 * anew (this program again, as "children-exec"), the others are only forked. The parent waits.
 */

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static NOINLINE uint64_t child_work(double seconds) {
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = spin(x, 5);
        return x;
}

static int child_run(const char *name, double seconds) {
        prctl(PR_SET_NAME, name);
        return spin_end(child_work(seconds));
}

static pid_t child_start(const char *name, double seconds, int exec_again) {
        char argument[32];
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        if (!exec_again)
                _exit(child_run(name, seconds));
        snprintf(argument, sizeof(argument), "%f", seconds);
        execl("/proc/self/exe", "children-exec", argument, NULL);
        _exit(1);
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        int failed = 0;

        if (strcmp(argv[0], "children-exec") == 0)
                return child_run("child-50", seconds);

        pid_t pids[3] = {
                child_start("child-50", seconds * 0.5, 1),
                child_start("child-30", seconds * 0.3, 0),
                child_start("child-20", seconds * 0.2, 0),
        };

        for (int i = 0; i < 3; i++) {
                int status = 0;

                if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
                        failed = 1;
        }
        return failed;
}
