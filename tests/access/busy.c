/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "target.h"
#include "util.h"

/* A turn is a tenth of a millisecond to a whole one. */
#define TURN 400000
#define TURNS_PER_CHURN 32

static void say(const char *word) {
        /* By one write() each: several processes may share the pipe. */
        char line[64];
        int n = snprintf(line, sizeof(line), "%s\n", word);

        if (write(STDOUT_FILENO, line, n) != n)
                _exit(EXIT_FAILURE);
}

/* Returns whether a byte is there. */
static bool gate_poll(int timeout) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

        if (poll(&p, 1, timeout) < 0)
                return false;
        if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
                _exit(EXIT_SUCCESS);
        return p.revents & POLLIN;
}

void gate_wait(void) {
        static bool ready;

        if (!ready)
                say("ready");
        ready = true;
        while (!gate_poll(-1))
                ;
}

static void turn(void) {
        for (volatile unsigned i = 0; i < TURN; i++)
                ;
}

int step_hold(_unused_ char *argument, _unused_ char **rest) {
        say("ready");
        for (;;) {
                struct pollfd p = {.fd = STDIN_FILENO}; /* its end only */

                if (poll(&p, 1, -1) > 0)
                        _exit(EXIT_SUCCESS);
        }
}

/* The clock of what step_thread() has started: ours as long as there is nothing. */
static clockid_t thread_clock = CLOCK_THREAD_CPUTIME_ID;

static uint64_t cpu_msec(clockid_t clock) {
        struct timespec t = {};

        (void) clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* By clocks and not by turns, which fast machines take in no time; and among many, one thread may have its share
 * before another has run at all. */
int step_burn(char *argument, _unused_ char **rest) {
        uint64_t msec = strtoul(argument, NULL, 10);

        do {
                gate_wait();
                turn();
        } while (cpu_msec(CLOCK_THREAD_CPUTIME_ID) < msec || cpu_msec(thread_clock) < msec);
        return 0;
}

static void *nothing(_unused_ void *arg) {
        return NULL;
}

/* All that makes records besides samples: a name, a thread, a child. */
static void churn(void) {
        char comm[16] = "";
        pthread_t thread;
        pid_t pid;

        prctl(PR_GET_NAME, comm);
        prctl(PR_SET_NAME, comm);
        if (pthread_create(&thread, NULL, nothing, NULL) == 0)
                pthread_join(thread, NULL);
        pid = fork();
        if (pid == 0)
                _exit(EXIT_SUCCESS);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
}

int step_spin(_unused_ char *argument, _unused_ char **rest) {
        for (unsigned i = 1;; i++) {
                gate_wait();
                turn();
                if (i % TURNS_PER_CHURN == 0)
                        churn();
        }
}

typedef struct SpinThread {
        const char *name;
        sem_t named;
} SpinThread;

static void *spin_thread(void *userdata) {
        SpinThread *spin = userdata;

        prctl(PR_SET_NAME, spin->name);
        (void) sem_post(&spin->named);
        while (gate_poll(-1))
                turn();
        return NULL;
}

int step_thread(char *argument, _unused_ char **rest) {
        SpinThread spin = {.name = argument};
        pthread_t thread;
        int r;

        if (sem_init(&spin.named, /* pshared= */ 0, 0) < 0)
                return -errno;
        r = -pthread_create(&thread, NULL, spin_thread, &spin);
        /* Who looks for the name after "ready" must find it; and what the thread was given is on our stack. */
        while (r >= 0 && sem_wait(&spin.named) < 0)
                ;
        return r < 0 ? r : -pthread_getcpuclockid(thread, &thread_clock);
}

/* What is written to a terminal's end goes to the other by a work item of the kernel's. */
int step_pty(_unused_ char *argument, _unused_ char **rest) {
        _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
        struct termios raw;
        char buffer[2048] = "";

        if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
                return -errno;
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0 || tcgetattr(slave, &raw) < 0)
                return -errno;
        cfmakeraw(&raw);
        if (tcsetattr(slave, TCSANOW, &raw) < 0)
                return -errno;
        for (;;) {
                gate_wait();
                if (write(master, buffer, sizeof(buffer)) < 0 || read(slave, buffer, sizeof(buffer)) < 0)
                        return -errno;
        }
}

int step_now(_unused_ char *argument, _unused_ char **rest) {
        struct timespec t;
        char line[64];

        clock_gettime(CLOCK_BOOTTIME, &t);
        (void) snprintf(line, sizeof(line), "now %" PRIu64, (uint64_t) t.tv_sec * 1000000000U + t.tv_nsec);
        say(line);
        return 0;
}
