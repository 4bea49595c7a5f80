/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A function that calls itself until a hundred of it stand on the stack, and spends all its time there. */

#include "spin.h"

#define DEPTH 100

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
        return spin_end(recurse(1, DEPTH, spin_seconds(argc, argv)));
}
