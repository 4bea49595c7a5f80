/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two threads, one of pthread_create() and one that clone() made, which is no thread to the C library. */

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "chain.h"

#define STACK_SIZE 65536

static double seconds;

static CHAINED uint64_t thread_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t thread_inner(uint64_t x) {
        return chain_after(thread_leaf(x));
}

static CHAINED void *thread_run(void *unused) {
        (void) unused;
        return (void *) (uintptr_t) chain_repeat(seconds / 2, thread_inner);
}

static CHAINED uint64_t cloned_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t cloned_inner(uint64_t x) {
        return chain_after(cloned_leaf(x));
}

static CHAINED int cloned_run(void *unused) {
        (void) unused;
        return spin_end(chain_repeat(seconds / 2, cloned_inner));
}

int main(int argc, char **argv) {
        static char stack[STACK_SIZE] __attribute__((aligned(16)));
        const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |
                          CLONE_CHILD_CLEARTID;
        pthread_t thread;
        volatile pid_t tid = 0;

        seconds = spin_seconds(argc, argv);
        chain_wait();
        if (pthread_create(&thread, NULL, thread_run, NULL) != 0 ||
            clone(cloned_run, stack + STACK_SIZE, flags, NULL, &tid, NULL, &tid) < 0) {
                perror("threads");
                return 1;
        }
        pthread_join(thread, NULL);
        while (tid != 0)
                chain_wait();
        return 0;
}
