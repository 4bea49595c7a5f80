/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CPU time whose amount is known. A unit of work is a chain of dependent multiplications: it takes the same
 * number of cycles wherever it stands, however the function around it is aligned, and calls nothing. The
 * functions under test do k units each, so their shares of CPU time are ratios of integers: on average, since
 * work that takes turns in step with the sampling clock would always be seen at the same places.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

/* 10 to 20 us: short beside any sampling period, long beside the loop around it. */
#define SPIN_UNIT 10000

/*
 * Inlined, so that the caller is the leaf. The result depends on every step: nothing can be left out. Takes half
 * to one and a half times as many steps as asked for, as x has it: who calls again hands in what came out.
 */
static inline __attribute__((always_inline)) uint64_t spin(uint64_t x, unsigned int units) {
        uint64_t steps = units * (SPIN_UNIT / 2 + ((x * 0x9e3779b97f4a7c15u) >> 40) % SPIN_UNIT);

        for (uint64_t i = 0; i < steps; i++)
                x = x * 6364136223846793005u + 1442695040888963407u;
        /* gcc gives a leaf function a frame pointer only if something stands on its stack, whatever the options. */
        __asm__ volatile("" : "+m"(x));
        return x;
}

/* CPU seconds of the calling thread, which is what is sampled. */
static inline double spin_cpu_seconds(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* What each workload is told: how many CPU seconds. */
static inline double spin_seconds(int argc, char **argv) {
        char *end = NULL;
        double seconds = argc == 2 ? strtod(argv[1], &end) : 0;

        if (!(seconds > 0 && seconds <= 3600) || *end != '\0') {
                fprintf(stderr, "usage: %s CPU-SECONDS\n", argv[0]);
                exit(2);
        }
        return seconds;
}

/* Keeps the result and with it the work. */
static inline int spin_end(uint64_t x) {
        return x == 42 ? 3 : 0;
}
