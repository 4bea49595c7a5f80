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

typedef uint64_t MadeFunction(uint64_t rounds);

/* Code for the run time: copied, never called where it is. Counts down, with a frame. */
extern const char made_start[], made_end[];
#if defined(__x86_64__)
__asm__(".pushsection .rodata\n"
        "made_start: push %rbp\n mov %rsp, %rbp\n mov %rdi, %rax\n"
        "1: imul $3, %rax, %rax\n dec %rdi\n jnz 1b\n"
        "pop %rbp\n ret\n"
        "made_end: .popsection");
#elif defined(__aarch64__)
__asm__(".pushsection .rodata\n .balign 4\n"
        "made_start: stp x29, x30, [sp, #-16]!\n mov x29, sp\n mov x1, x0\n"
        "1: madd x1, x1, x1, x0\n subs x0, x0, #1\n b.ne 1b\n"
        "mov x0, x1\n ldp x29, x30, [sp], #16\n ret\n"
        "made_end: .popsection");
#endif

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
