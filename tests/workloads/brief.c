/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that is over before anybody looks: half of its CPU seconds in functions of its own, the rest in two
 * libraries that no other program has. Built several times with a number, which is in the names of all of them.
 */

#include "brief.h"

#define brief_program NUMBERED(brief_program)

static NOINLINE uint64_t brief_program(uint64_t x, unsigned int units) {
        return spin(x, units);
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        uint64_t x = 1;

        /* The clock is the thread's, so what starting the program took is in it. */
        while (spin_cpu_seconds() < seconds) {
                x = brief_program(x, 10);
                x = brief_first(x, 5);
                x = brief_second(x, 5);
        }
        return spin_end(x);
}
