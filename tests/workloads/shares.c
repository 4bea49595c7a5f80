/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Three functions that take 70, 20 and 10 % of the CPU time, for as many CPU seconds as asked. */

#include "spin.h"

static NOINLINE uint64_t takes_seventy(uint64_t x) {
        return spin(x, 7) + 1;
}

static NOINLINE uint64_t takes_twenty(uint64_t x) {
        return spin(x, 2) + 2;
}

static NOINLINE uint64_t takes_ten(uint64_t x) {
        return spin(x, 1) + 3;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = takes_ten(takes_twenty(takes_seventy(x)));
        return spin_end(x);
}
