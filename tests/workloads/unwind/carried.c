/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Assembly as cryptographic libraries have it: a function's frame is found by a register that no convention preserves,
 * and what it calls leaves that as it is.
 */

#include "chain.h"

/* Computes something, for that many rounds, in carried_leaf. */
uint64_t carried_caller(uint64_t x, uint64_t rounds);

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".type carried_leaf, @function\n"
        "carried_leaf:\n"
        ".cfi_startproc\n"
        "1:     imulq %rdi, %rdi\n"
        "       addq $1, %rdi\n"
        "       subq $1, %rsi\n"
        "       jne 1b\n"
        "       ret\n"
        ".cfi_endproc\n"
        ".size carried_leaf, . - carried_leaf\n"
        ".p2align 4\n"
        ".globl carried_caller\n"
        ".hidden carried_caller\n"
        ".type carried_caller, @function\n"
        "carried_caller:\n"
        ".cfi_startproc\n"
        "       leaq (%rsp), %rax\n"
        ".cfi_def_cfa_register %rax\n"
        "       pushq %rbx\n"
        ".cfi_offset %rbx, -16\n"
        "       subq $128, %rsp\n"
        "       andq $-64, %rsp\n"
        "       call carried_leaf\n"
        "       movq -8(%rax), %rbx\n"
        ".cfi_restore %rbx\n"
        "       movq %rax, %rsp\n"
        ".cfi_def_cfa_register %rsp\n"
        "       movq %rdi, %rax\n"
        "       ret\n"
        ".cfi_endproc\n"
        ".size carried_caller, . - carried_caller\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".type carried_leaf, %function\n"
        "carried_leaf:\n"
        ".cfi_startproc\n"
        "1:     mul x0, x0, x0\n"
        "       add x0, x0, #1\n"
        "       subs x1, x1, #1\n"
        "       b.ne 1b\n"
        "       ret\n"
        ".cfi_endproc\n"
        ".size carried_leaf, . - carried_leaf\n"
        ".p2align 4\n"
        ".globl carried_caller\n"
        ".hidden carried_caller\n"
        ".type carried_caller, %function\n"
        "carried_caller:\n"
        ".cfi_startproc\n"
        "       mov x9, sp\n"
        ".cfi_def_cfa_register x9\n"
        "       stp x29, x30, [sp, #-16]!\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "       sub x10, sp, #128\n"
        "       and sp, x10, #-64\n"
        "       bl carried_leaf\n"
        "       ldp x29, x30, [x9, #-16]\n"
        ".cfi_restore x30\n"
        ".cfi_restore x29\n"
        "       mov sp, x9\n"
        ".cfi_def_cfa_register sp\n"
        "       ret\n"
        ".cfi_endproc\n"
        ".size carried_caller, . - carried_caller\n");
#endif

static CHAINED uint64_t carried_outer(uint64_t x) {
        return chain_after(carried_caller(x, CHAIN_UNITS * SPIN_UNIT));
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, carried_outer));
}
