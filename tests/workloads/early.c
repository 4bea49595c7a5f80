/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All the CPU time asked for is spent before main(): what begins to look late sees nothing of it. */

#include "spin.h"

static NOINLINE uint64_t before_main(double seconds) {
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = spin(x, 5);
        return x;
}

/* The GNU C library hands constructors what it hands main(). */
__attribute__((constructor)) static void start(int argc, char **argv) {
        if (before_main(spin_seconds(argc, argv)) == 42)
                exit(3);
}

int main(void) {
        return 0;
}
