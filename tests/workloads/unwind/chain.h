/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Known chains of calls in code as distributions build it, optimised and without frame pointers. What may not be
 * changed about a function is its name, that it is one, and that its caller waits for it.
 */

#include "../spin.h"

#if defined(__clang__)
#define CHAINED __attribute__((noinline))
#else
#define CHAINED __attribute__((noipa))
#endif

/* About a millisecond: rarely asked for the time beside it. */
#define CHAIN_UNITS 50

/* Something to do after a call, or it were a jump and the caller not in the stack. */
static inline uint64_t chain_after(uint64_t x) {
        __asm__ volatile("" : "+r"(x));
        return x;
}

/* Who is found out late is another test's matter: what happens in the first moments is not counted here. */
static inline void chain_wait(void) {
        const struct timespec moment = { .tv_nsec = 300000000 };

        nanosleep(&moment, NULL);
}

/* Until what is called has taken this much CPU time of the thread. */
static inline __attribute__((always_inline)) uint64_t chain_repeat(double seconds, uint64_t (*function)(uint64_t)) {
        double until = spin_cpu_seconds() + seconds;
        uint64_t x = 1;

        while (spin_cpu_seconds() < until)
                x = chain_after(function(x));
        return x;
}
