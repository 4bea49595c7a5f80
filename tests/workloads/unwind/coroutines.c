/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two coroutines on stacks of their own, which take turns with each other and with main. The first one's is the highest that there
 * can be: its frames are in the last bytes of all that a user has.
 */

#include <sys/mman.h>
#include <ucontext.h>

#include "chain.h"

#define STACK_SIZE 65536
#if defined(__x86_64__)
#define USER_END 0x7ffffffff000
#else
#define USER_END 0x1000000000000
#endif

static ucontext_t in_main, in_first, in_second;

static CHAINED uint64_t first_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t first_inner(uint64_t x) {
        return chain_after(first_leaf(x));
}

static CHAINED void first_coroutine(void) {
        for (uint64_t x = 1;; swapcontext(&in_first, &in_second))
                x = chain_after(first_inner(x));
}

static CHAINED uint64_t second_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED void second_coroutine(void) {
        for (uint64_t x = 1;; swapcontext(&in_second, &in_main))
                x = chain_after(second_leaf(x));
}

static CHAINED uint64_t main_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t take_turns(uint64_t x) {
        swapcontext(&in_main, &in_first);
        return chain_after(main_leaf(x));
}

/* Without randomization it is where main's is. */
static char *highest_stack(char *otherwise) {
        char *stack = mmap((char *) USER_END - STACK_SIZE, STACK_SIZE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        return stack == MAP_FAILED ? otherwise : stack;
}

static void make(ucontext_t *context, char *stack, void (*function)(void)) {
        getcontext(context);
        context->uc_stack.ss_sp = stack;
        context->uc_stack.ss_size = STACK_SIZE;
        context->uc_link = NULL;
        makecontext(context, function, 0);
}

int main(int argc, char **argv) {
        static char stacks[2][STACK_SIZE] __attribute__((aligned(16)));
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        make(&in_first, highest_stack(stacks[0]), first_coroutine);
        make(&in_second, stacks[1], second_coroutine);
        return spin_end(chain_repeat(seconds, take_turns));
}
