/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Machine code for programs that make some at run time. Included by one file of each. */

#include <stdint.h>

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
