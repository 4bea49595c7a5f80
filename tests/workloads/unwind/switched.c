/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Half of its time on a stack of its own, which it goes to as Go goes to its scheduler's: the frame pointer stays. */

#include "chain.h"

#define STACK_SIZE 65536

static char stack[STACK_SIZE] __attribute__((aligned(16)));

static CHAINED uint64_t other_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

/* Called from below alone. */
uint64_t other_inner(uint64_t x);
CHAINED uint64_t other_inner(uint64_t x) {
        return chain_after(other_leaf(x));
}

/* Calls other_inner(x) there. */
uint64_t switch_stack(uint64_t x, void *top);
#if defined(__x86_64__)
__asm__(".text\n.type switch_stack, @function\nswitch_stack:\n"
        "push %rbx\nmov %rsp, %rbx\nmov %rsi, %rsp\ncall other_inner\nmov %rbx, %rsp\npop %rbx\nret\n"
        ".size switch_stack, . - switch_stack\n");
#else
__asm__(".text\n.type switch_stack, @function\nswitch_stack:\n"
        "stp x30, x19, [sp, -16]!\nmov x19, sp\nmov sp, x1\nbl other_inner\nmov sp, x19\nldp x30, x19, [sp], 16\nret\n"
        ".size switch_stack, . - switch_stack\n");
#endif

static CHAINED uint64_t same_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t same_inner(uint64_t x) {
        return chain_after(same_leaf(x));
}

/* Its own return address is on the stack that was left, above no frame. */
static CHAINED uint64_t leaves(uint64_t x) {
        return chain_after(switch_stack(x, stack + sizeof(stack)));
}

static CHAINED uint64_t takes_turns(uint64_t x) {
        return chain_after(same_inner(leaves(x)));
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, takes_turns));
}
