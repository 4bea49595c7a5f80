/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Asks for the time, which the kernel's own code answers in the process. */

#include "chain.h"

#define ROUNDS 100000

static CHAINED uint64_t asks_clock(uint64_t x) {
        struct timespec t;

        for (unsigned i = 0; i < ROUNDS; i++) {
                clock_gettime(CLOCK_MONOTONIC, &t);
                x += (uint64_t) t.tv_nsec;
        }
        return x;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, asks_clock));
}
