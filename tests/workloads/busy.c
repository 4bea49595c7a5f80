/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One busy function, for CPU seconds as asked: a process that is easy to see. */

#include "spin.h"

static NOINLINE uint64_t busy_loop(double seconds) {
        uint64_t x = 1;

        while (spin_cpu_seconds() < seconds)
                x = spin(x, 10);
        return x;
}

int main(int argc, char **argv) {
        return spin_end(busy_loop(spin_seconds(argc, argv)));
}
