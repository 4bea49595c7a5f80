/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A function that calls itself until a hundred of it stand on the stack, or as many as a second argument says,
 * and spends all its time there.
 */

#include "spin.h"

#define DEPTH 100
#define DEPTH_MAX 10000

static NOINLINE uint64_t recurse(uint64_t x, unsigned int depth, double until) {
        if (depth > 1)
                x = recurse(x + depth, depth - 1, until);
        else
                while (spin_cpu_seconds() < until)
                        x = spin(x, 10);
        /* Work after the call: it is no tail call and every frame stays. */
        return x * 3 + depth;
}

int main(int argc, char **argv) {
        unsigned long depth = argc == 3 ? strtoul(argv[2], NULL, 10) : DEPTH;

        if (depth < 1 || depth > DEPTH_MAX) {
                fprintf(stderr, "usage: %s CPU-SECONDS [DEPTH]\n", argv[0]);
                return 2;
        }
        return spin_end(recurse(1, (unsigned int) depth, spin_seconds(argc == 3 ? 2 : argc, argv)));
}
