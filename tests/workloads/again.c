/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * again PATH [PROGRAM ARGUMENT...]: half a CPU second in again_before, then does with its own file what its name says,
 * then half a second in again_after: "unlink" removes PATH, "replace" renames PATH.new to it, "exec" becomes PROGRAM.
 */

#include <string.h>
#include <unistd.h>

#include "spin.h"

static NOINLINE uint64_t again_before(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static NOINLINE uint64_t again_after(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static int change(char **argv) {
        const char *name = strrchr(argv[0], '/');
        char other[4096];

        name = name ? name + 1 : argv[0];
        if (strcmp(name, "unlink") == 0)
                return unlink(argv[1]);
        if (strcmp(name, "exec") == 0)
                return execv(argv[2], argv + 2);
        snprintf(other, sizeof(other), "%s.new", argv[1]);
        return rename(other, argv[1]);
}

int main(int argc, char **argv) {
        uint64_t x = 1;

        if (argc < 2)
                return 2;
        while (spin_cpu_seconds() < 0.5)
                x = again_before(x, 5);
        if (change(argv) < 0) {
                perror(argv[0]);
                return 1;
        }
        while (spin_cpu_seconds() < 1)
                x = again_after(x, 5);
        return spin_end(x);
}
