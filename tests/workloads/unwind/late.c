/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * unwind-late CPU-SECONDS LIBRARY LIBRARY: loads one library after the other at the same address, and computes in them at
 * once, and in a function of its own that they call. Each has a sixth of the time, thrice.
 */

#include <dlfcn.h>

#include "late.h"

#define ROUNDS 3

static CHAINED uint64_t called_back(uint64_t x) {
        return spin(x, CHAIN_UNITS / 2);
}

static CHAINED uint64_t load_and_run(uint64_t x, const char *path, const char *name, double seconds, void **ret_address) {
        void *library = dlopen(path, RTLD_NOW);
        LateFunction *function = library ? (LateFunction *) dlsym(library, name) : NULL;
        double until = spin_cpu_seconds() + seconds;

        if (!function) {
                fprintf(stderr, "late: %s\n", dlerror());
                exit(1);
        }
        while (spin_cpu_seconds() < until)
                x = chain_after(function(x, called_back));
        dlclose(library);
        *ret_address = (void *) function;
        return x;
}

int main(int argc, char **argv) {
        double seconds = argc == 4 ? spin_seconds(2, argv) / 2 / ROUNDS : 0;
        void *a = NULL, *b = NULL, *first = NULL;
        uint64_t x = 1;

        if (seconds == 0)
                return 2;
        chain_wait();
        for (int i = 0; i < ROUNDS; i++) {
                x = load_and_run(x, argv[2], "late_a", seconds, &a);
                x = load_and_run(x, argv[3], "late_b", seconds, &b);
                first = first ? first : a;
                /* The functions' places in their libraries are about the same. */
                if (((uintptr_t) a ^ (uintptr_t) first) >> 12 != 0 || ((uintptr_t) b ^ (uintptr_t) first) >> 12 != 0) {
                        fprintf(stderr, "late: at %p, then at %p\n", a, b);
                        return 1;
                }
        }
        return spin_end(x);
}
