/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a container's process may run: a third of the CPU seconds in this program, a third in a library beside
 * it, and a third in code that was made at run time, whose name stands in /tmp/perf-PID.map as JITs write it, by
 * the number the process has in its own pid namespace. Says that number first.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inside.h"
#include "made.h"

static NOINLINE uint64_t inner_program(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static MadeFunction *make_function(void) {
        size_t size = (size_t) (made_end - made_start);
        char path[64];
        FILE *map;
        void *code;

        code = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (code == MAP_FAILED)
                return NULL;
        memcpy(code, made_start, size);
        __builtin___clear_cache(code, (char *) code + size);
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int) getpid());
        map = fopen(path, "we");
        if (!map)
                return NULL;
        fprintf(map, "%lx %zx inner_made\n", (unsigned long) code, size);
        fclose(map);
        return (MadeFunction *) code;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv), spent[3] = {};
        MadeFunction *made = make_function();
        uint64_t x = 1, random = 1;

        if (!made) {
                perror("inside");
                return 1;
        }
        printf("%d\n", (int) getpid());
        fflush(stdout);
        while (spin_cpu_seconds() < seconds) {
                double before = spin_cpu_seconds();
                /* Rounds of any length, lest they fall into step with a clock: 1 to 64, by a generator of random numbers. */
                unsigned int units = 1 + ((random = random * 6364136223846793005u + 1442695040888963407u) >> 58);
                int next = spent[0] <= spent[1] && spent[0] <= spent[2] ? 0 : spent[1] <= spent[2] ? 1 : 2;

                x = next == 0   ? inner_program(x, units)
                    : next == 1 ? inner_library(x, units)
                                : x + made(units * SPIN_UNIT);
                spent[next] += spin_cpu_seconds() - before;
        }
        return spin_end(x);
}
