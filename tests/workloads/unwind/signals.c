/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread that two signals interrupt wherever it is, the second one in the handler of the first, too. With
 * OTHER_STACK the handlers run on a stack of their own: below that of the thread first, then in a thread where it
 * lies above. Timers of CPU time, so that a handler never takes all there is.
 */

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <pthread.h>

#include "chain.h"

#ifndef OTHER_STACK
#define OTHER_STACK 0
#endif
#define STACK_SIZE 65536
#define ROUNDS 20000

static char stack_below[STACK_SIZE];

typedef struct Worker {
        double seconds;
        char *stack;
        uint64_t result;
} Worker;

static CHAINED uint64_t first_leaf(uint64_t x) {
        return spin(x, 10 * CHAIN_UNITS);
}

static CHAINED void on_first(int signal) {
        static uint64_t x = 1;

        x = chain_after(first_leaf(x + (uint64_t) signal));
}

static CHAINED uint64_t second_leaf(uint64_t x) {
        return spin(x, 2 * CHAIN_UNITS);
}

static CHAINED void on_second(int signal) {
        static uint64_t x = 1;

        x = chain_after(second_leaf(x + (uint64_t) signal));
}

/* Mostly beginning and end, which signals hit as well. */
static CHAINED uint64_t tiny(uint64_t x) {
        return x * 3 + 1;
}

static CHAINED uint64_t works_inner(uint64_t x) {
        for (unsigned i = 0; i < ROUNDS; i++)
                x = chain_after(tiny(x));
        return spin(x, 20);
}

static CHAINED uint64_t works(uint64_t x) {
        return chain_after(works_inner(x));
}

static timer_t start_timer(int signal, void (*handler)(int), long milliseconds) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = OTHER_STACK ? SA_ONSTACK | SA_RESTART : SA_RESTART };
        struct itimerspec times = { .it_interval.tv_nsec = milliseconds * 1000000, .it_value.tv_nsec = milliseconds * 1000000 };
        struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal };
        timer_t timer;

        event._sigev_un._tid = (pid_t) syscall(SYS_gettid);
        if (sigaction(signal, &action, NULL) < 0 || timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) < 0 ||
            timer_settime(timer, 0, &times, NULL) < 0) {
                perror("signals");
                exit(1);
        }
        return timer;
}

static CHAINED uint64_t interrupted(double seconds, char *stack) {
        stack_t other = { .ss_sp = stack, .ss_size = STACK_SIZE };
        timer_t first, second;
        uint64_t x;

        if (OTHER_STACK && sigaltstack(&other, NULL) < 0)
                exit(1);
        first = start_timer(SIGUSR1, on_first, 23);
        second = start_timer(SIGUSR2, on_second, 7);
        x = chain_repeat(seconds, works);
        timer_delete(first);
        timer_delete(second);
        return x;
}

static void *worker_run(void *p) {
        Worker *worker = p;

        worker->result = interrupted(worker->seconds, worker->stack);
        return NULL;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        char stack_above[STACK_SIZE];
        Worker worker = { .seconds = seconds / 2, .stack = stack_above };
        pthread_t thread;
        uint64_t x;

        chain_wait();
        memset(stack_below, 0, sizeof(stack_below));
        x = interrupted(OTHER_STACK ? seconds / 2 : seconds, stack_below);
        if (OTHER_STACK) {
                if (pthread_create(&thread, NULL, worker_run, &worker) != 0)
                        return 1;
                pthread_join(thread, NULL);
        }
        return spin_end(x + worker.result);
}
