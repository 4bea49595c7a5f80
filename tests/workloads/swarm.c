/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * swarm COUNT PROGRAM...: so many processes of these programs in turn, two at a time, each of which gets 20 to 50 ms of
 * CPU time. Prints all they got, in CPU seconds.
 */

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

static pid_t start(char *program, int i) {
        char seconds[16], *argv[] = {program, seconds, NULL};
        pid_t pid;

        snprintf(seconds, sizeof(seconds), "0.%03d", 20 + i * 7 % 31);
        return posix_spawn(&pid, program, NULL, NULL, argv, NULL) == 0 ? pid : -1;
}

int main(int argc, char **argv) {
        int count = argc > 2 ? atoi(argv[1]) : 0, running = 0, status;
        struct rusage used;

        for (int i = 0; i < count || running > 0;) {
                if (i < count && running < 2) {
                        if (start(argv[2 + i % (argc - 2)], i) < 0)
                                return 1;
                        running++;
                        i++;
                        continue;
                }
                if (wait(&status) < 0 || status != 0)
                        return 1;
                running--;
        }
        if (getrusage(RUSAGE_CHILDREN, &used) < 0)
                return 1;
        printf("%.3f\n", (double) used.ru_utime.tv_sec + (double) used.ru_utime.tv_usec / 1e6 +
                                 (double) used.ru_stime.tv_sec + (double) used.ru_stime.tv_usec / 1e6);
        return count > 0 ? 0 : 2;
}
