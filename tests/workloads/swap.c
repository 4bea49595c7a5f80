/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * swap LIBRARY LIBRARY [--remap]: loads one library after the other, again and again, at the same address: 60 ms of CPU
 * time in the first one's function, which is swapped_a, then 40 ms in the other's. Half of each is spent in a function of
 * this program that the library calls; or, in libraries that only call, all of it. Both libraries are alike but for
 * the name. --remap: the function that is called changes the address space each time.
 */

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "spin.h"

#define ROUNDS 20

typedef uint64_t SwapFunction(uint64_t x, uint64_t (*back)(uint64_t, unsigned int));

static NOINLINE uint64_t called_back(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static NOINLINE uint64_t called_back_remapping(uint64_t x, unsigned int units) {
        void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        munmap(page, 4096);
        return spin(x, units);
}

static uint64_t run(uint64_t x, const char *path, const char *name, double seconds, bool remap,
                    void **ret_address) {
        double until = spin_cpu_seconds() + seconds;
        void *library = dlopen(path, RTLD_NOW);
        SwapFunction *function = library ? (SwapFunction *) dlsym(library, name) : NULL;

        if (!function) {
                fprintf(stderr, "swap: %s\n", dlerror());
                exit(1);
        }
        while (spin_cpu_seconds() < until)
                x = function(x, remap ? called_back_remapping : called_back);
        dlclose(library);
        *ret_address = (void *) function;
        return x;
}

int main(int argc, char **argv) {
        void *a, *b, *first = NULL;
        uint64_t x = 1;

        if (argc < 3 || argc > 4)
                return 2;
        for (int i = 0; i < ROUNDS; i++) {
                x = run(x, argv[1], "swapped_a", 0.06, argc > 3, &a);
                x = run(x, argv[2], "swapped_b", 0.04, argc > 3, &b);
                first = first ? first : a;
                if (a != b || a != first) {
                        fprintf(stderr, "swap: at %p, then at %p\n", a, b);
                        return 1;
                }
        }
        return spin_end(x);
}
