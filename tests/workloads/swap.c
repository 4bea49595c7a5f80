/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * swap LIBRARY LIBRARY: loads one library after the other, again and again, at the same address: 60 ms of CPU time in the
 * first one's function, which is swapped_a, then 40 ms in the other's. Half of each is spent in a function of this program
 * that the library calls. Both libraries are alike but for the name.
 */

#include <dlfcn.h>

#include "spin.h"

#define ROUNDS 20

typedef uint64_t SwapFunction(uint64_t x, uint64_t (*back)(uint64_t, unsigned int));

static NOINLINE uint64_t called_back(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static uint64_t run(const char *path, const char *name, double seconds, void **ret_address) {
        double until = spin_cpu_seconds() + seconds;
        void *library = dlopen(path, RTLD_NOW);
        SwapFunction *function = library ? (SwapFunction *) dlsym(library, name) : NULL;
        uint64_t x = 1;

        if (!function) {
                fprintf(stderr, "swap: %s\n", dlerror());
                exit(1);
        }
        while (spin_cpu_seconds() < until)
                x = function(x, called_back);
        dlclose(library);
        *ret_address = (void *) function;
        return x;
}

int main(int argc, char **argv) {
        void *a, *b, *first = NULL;
        uint64_t x = 0;

        if (argc != 3)
                return 2;
        for (int i = 0; i < ROUNDS; i++) {
                x += run(argv[1], "swapped_a", 0.06, &a);
                x += run(argv[2], "swapped_b", 0.04, &b);
                first = first ? first : a;
                if (a != b || a != first) {
                        fprintf(stderr, "swap: at %p, then at %p\n", a, b);
                        return 1;
                }
        }
        return spin_end(x);
}
