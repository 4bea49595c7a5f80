/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Four named threads that take 40, 30, 20 and 10 % of the CPU seconds asked for in all. Each measures its own
 * CPU time, so the shares hold on any number of CPUs. The first waits until all have begun.
 */

#include <pthread.h>

#include "spin.h"

typedef struct Worker {
        const char *name;
        double seconds;
        pthread_barrier_t *start;
} Worker;

static NOINLINE uint64_t thread_work(double seconds) {
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = spin(x, 5);
        return x;
}

static void *worker_run(void *p) {
        Worker *w = p;

        pthread_setname_np(pthread_self(), w->name);
        pthread_barrier_wait(w->start);
        if (thread_work(w->seconds) == 42)
                exit(3);
        return NULL;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        pthread_barrier_t start;
        pthread_t threads[4];
        Worker workers[4] = {
                { "work-40", seconds * 0.4, &start },
                { "work-30", seconds * 0.3, &start },
                { "work-20", seconds * 0.2, &start },
                { "work-10", seconds * 0.1, &start },
        };

        pthread_barrier_init(&start, NULL, 4);
        for (int i = 0; i < 4; i++)
                if (pthread_create(&threads[i], NULL, worker_run, &workers[i]) != 0)
                        return 1;
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
