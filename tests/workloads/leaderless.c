/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process whose first thread ends before the others: another one waits for that, and only then loads a
 * library and spends the CPU seconds it is told, half of them in itself and half in the library. By then
 * /proc/PID/maps, exe and root show nothing any more.
 *
 *     leaderless CPU-SECONDS LIBRARY
 */

#include <dlfcn.h>
#include <pthread.h>

#include "spin.h"

typedef uint64_t WorkFunction(uint64_t x, unsigned int units);

typedef struct Worker {
        pthread_t leader;
        double seconds;
        const char *library;
} Worker;

static NOINLINE uint64_t after_leader(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static void *worker_run(void *p) {
        const Worker *w = p;
        WorkFunction *library_work;
        uint64_t x = 1;
        void *library;

        pthread_join(w->leader, NULL);
        library = dlopen(w->library, RTLD_NOW);
        library_work = library ? (WorkFunction *) dlsym(library, "inner_library") : NULL;
        if (!library_work)
                exit(1);
        while (spin_cpu_seconds() < w->seconds)
                x = library_work(after_leader(x, 10), 10);
        exit(spin_end(x));
}

int main(int argc, char **argv) {
        static Worker worker; /* outlives this stack */
        pthread_t thread;

        if (argc != 3)
                return 2;
        worker = (Worker){ .leader = pthread_self(), .seconds = spin_seconds(2, argv), .library = argv[2] };
        if (pthread_create(&thread, NULL, worker_run, &worker) != 0)
                return 1;
        pthread_exit(NULL);
}
