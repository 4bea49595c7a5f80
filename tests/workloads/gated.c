/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread for each number of CPU seconds given. Says the threads' numbers, a line each, and then waits until its
 * standard input ends, so that a profiler can be attached to each before any of them begins.
 */

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "spin.h"

#define THREADS_MAX 16

typedef struct Worker {
        double seconds;
        pthread_barrier_t *gate;
        sem_t *said;
} Worker;

static NOINLINE uint64_t gated_work(double seconds) {
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = spin(x, 5);
        return x;
}

static void *worker_run(void *p) {
        Worker *w = p;

        printf("%d\n", gettid());
        (void) fflush(stdout);
        sem_post(w->said);
        pthread_barrier_wait(w->gate);
        return gated_work(w->seconds) == 42 ? p : NULL;
}

int main(int argc, char **argv) {
        Worker workers[THREADS_MAX];
        pthread_t threads[THREADS_MAX];
        pthread_barrier_t gate;
        int n = argc - 1;
        sem_t said;
        char c;

        if (n < 1 || n > THREADS_MAX || sem_init(&said, 0, 0) != 0 || pthread_barrier_init(&gate, NULL, n + 1) != 0)
                return 2;
        for (int i = 0; i < n; i++) {
                char *number[] = { argv[0], argv[i + 1] };

                workers[i] = (Worker){ spin_seconds(2, number), &gate, &said };
                if (pthread_create(&threads[i], NULL, worker_run, &workers[i]) != 0)
                        return 1;
                sem_wait(&said); /* the numbers in order */
        }
        while (read(STDIN_FILENO, &c, 1) > 0)
                ;
        pthread_barrier_wait(&gate);
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
