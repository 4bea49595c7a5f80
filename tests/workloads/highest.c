/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * workload-highest CPU-SECONDS: a chain of frame pointers whose last pair is the last 16 bytes that a user has. Nobody has called
 * what is returned to by that, highest_root().
 */

#include <sys/mman.h>

#include "spin.h"

#if defined(__x86_64__)
#define USER_END 0x7ffffffff000
#else
#define USER_END 0x1000000000000
#endif
#define PAGE 4096

static double seconds;

void highest_run(void);

void highest_run(void) {
        double until = spin_cpu_seconds() + seconds;
        uint64_t x = 1;

        while (spin_cpu_seconds() < until)
                x = spin(x, 10);
        exit(spin_end(x));
}

static NOINLINE uint64_t highest_root(uint64_t x) {
        return spin(x, 1) + 1;
}

/* Calls highest_run() with a frame pointer of the caller's choice. */
void highest_enter(uint64_t frame);

#if defined(__x86_64__)
__asm__(".globl highest_enter\n.type highest_enter, @function\nhighest_enter:\n"
        "push %rbp\nmov %rdi, %rbp\ncall highest_run\nud2\n.size highest_enter, . - highest_enter\n");
#elif defined(__aarch64__)
__asm__(".globl highest_enter\n.type highest_enter, %function\nhighest_enter:\n"
        "mov x29, x0\nbl highest_run\nbrk #0\n.size highest_enter, . - highest_enter\n");
#endif

/* Without randomization the stack is there; then these are anywhere above what is called. */
static uint64_t *last_pair(uint64_t *otherwise) {
        uint64_t *page = mmap((char *) USER_END - PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                              -1, 0);

        return page == MAP_FAILED ? otherwise : &page[PAGE / sizeof(*page) - 2];
}

int main(int argc, char **argv) {
        uint64_t otherwise[2], *pair = last_pair(otherwise);

        seconds = spin_seconds(argc, argv);
        pair[0] = 0;
        pair[1] = (uintptr_t) highest_root + 8;
        highest_enter((uintptr_t) pair);
        return 1;
}
