/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * unwind-late CPU-SECONDS LIBRARY LIBRARY [MAPPINGS [FILE]]: loads one library after the other at the same address, and computes
 * in them at once, and in a function of its own that they call. Each has a sixth of the time, thrice. MAPPINGS: so many others
 * are there before. FILE: where each library is written to, over the one before, and loaded from.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "late.h"

#define ROUNDS 3

static CHAINED uint64_t called_back(uint64_t x) {
        return spin(x, CHAIN_UNITS / 2);
}

/* Each by itself, for those beside each other differ. */
static bool map_many(long n) {
        for (long i = 0; i < n; i++)
                if (mmap(NULL, 4096, PROT_READ | (i % 2 == 0 ? 0 : PROT_EXEC), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
                        return false;
        return true;
}

/* NULL: it failed. */
static const char *write_over(const char *library, const char *path) {
        static char bytes[1 << 20];
        int from = open(library, O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
        ssize_t n = read(from, bytes, sizeof(bytes));
        bool written = n > 0 && n < (ssize_t) sizeof(bytes) && write(to, bytes, (size_t) n) == n;

        (void) close(from);
        (void) close(to);
        return written ? path : NULL;
}

static CHAINED uint64_t load_and_run(uint64_t x, const char *path, const char *name, double seconds, void **ret_address) {
        void *library = path ? dlopen(path, RTLD_NOW) : NULL;
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
        double seconds = argc >= 4 && argc <= 6 ? spin_seconds(2, argv) / 2 / ROUNDS : 0;
        const char *file = argc > 5 ? argv[5] : NULL;
        void *a = NULL, *b = NULL, *first = NULL;
        uint64_t x = 1;

        if (seconds == 0)
                return 2;
        if (argc > 4 && !map_many(atol(argv[4])))
                return 1;
        chain_wait();
        for (int i = 0; i < ROUNDS; i++) {
                x = load_and_run(x, file ? write_over(argv[2], file) : argv[2], "late_a", seconds, &a);
                x = load_and_run(x, file ? write_over(argv[3], file) : argv[3], "late_b", seconds, &b);
                first = first ? first : a;
                /* The functions' places in their libraries are about the same. */
                if (((uintptr_t) a ^ (uintptr_t) first) >> 12 != 0 || ((uintptr_t) b ^ (uintptr_t) first) >> 12 != 0) {
                        fprintf(stderr, "late: at %p, then at %p\n", a, b);
                        return 1;
                }
        }
        return spin_end(x);
}
