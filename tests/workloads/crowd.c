/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * 300 threads that run at the same time, each in a function of its own, crowd_000 to crowd_299, and each for a
 * 300th of the CPU seconds asked for.
 */

#include <pthread.h>

#include "spin.h"

#define N 300

typedef uint64_t WorkFunction(double seconds, uint64_t x);

/* 1##n is what it differs by: equal functions could be made one. */
#define F1(n)                                                                                           \
        static NOINLINE uint64_t crowd_##n(double seconds, uint64_t x) {                                \
                for (x += 1##n; spin_cpu_seconds() < seconds;)                                          \
                        x = spin(x, 2);                                                                 \
                return x;                                                                               \
        }
#define F10(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n) F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F100(0)
F100(1)
F100(2)

#define P10(n) \
        crowd_##n##0, crowd_##n##1, crowd_##n##2, crowd_##n##3, crowd_##n##4, crowd_##n##5, crowd_##n##6, \
        crowd_##n##7, crowd_##n##8, crowd_##n##9
#define P100(n) P10(n##0), P10(n##1), P10(n##2), P10(n##3), P10(n##4), P10(n##5), P10(n##6), P10(n##7), P10(n##8), P10(n##9)
static WorkFunction *const functions[N] = { P100(0), P100(1), P100(2) };

typedef struct Worker {
        WorkFunction *function;
        double seconds;
        pthread_barrier_t *start;
} Worker;

static void *worker_run(void *p) {
        const Worker *w = p;

        pthread_barrier_wait(w->start);
        if (w->function(w->seconds, 1) == 42)
                exit(3);
        return NULL;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        pthread_barrier_t start;
        pthread_attr_t attr;
        pthread_t threads[N];
        Worker workers[N];

        pthread_barrier_init(&start, NULL, N);
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 256 << 10);
        for (int i = 0; i < N; i++) {
                workers[i] = (Worker){ functions[i], seconds / N, &start };
                if (pthread_create(&threads[i], &attr, worker_run, &workers[i]) != 0)
                        return 1;
        }
        for (int i = 0; i < N; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
