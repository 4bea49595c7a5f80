/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program of a page whose every frame is known, for tables that a test makes by hand: nothing but _start, outer, framed,
 * middle and inner, which call one another and never return. With an argument middle is interrupted by a signal whose
 * handler calls inner. Each begins at another page of tables.
 *
 *      outer   rsp + 32
 *      framed  a frame pointer; the test has no rule for it
 *      middle  rsp + 56, the frame pointer saved at CFA - 16 and then used for something else
 *      inner   rsp + 8; computes, and asks the kernel for something now and then
 */

#define SYS_rt_sigaction 13
#define SYS_rt_sigreturn 15
#define SYS_getpid 39
#define SYS_kill 62
#define SYS_getppid 110
#define SIGUSR1 10
#define SA_RESTORER 0x04000000

#define FUNCTION(name) .balign 256; .globl name; .type name, @function; name

        .text
FUNCTION(_start):
        mov     (%rsp), %r12            /* argc */
        xor     %ebp, %ebp
        call    outer
        .globl  after_outer
after_outer:
        hlt

FUNCTION(outer):
        sub     $24, %rsp
        call    framed
        .globl  after_framed
after_framed:
        hlt

FUNCTION(framed):
        push    %rbp
        mov     %rsp, %rbp
        lea     middle(%rip), %rax
        call    *%rax
        .globl  after_middle
after_middle:
        hlt

FUNCTION(middle):
        push    %rbp
        sub     $40, %rsp
        mov     $0x5a5a5a5a5a5a5a5a, %rbp
        cmp     $2, %r12
        jge     1f
        call    inner
        .globl  after_inner
after_inner:
        hlt
1:      mov     $SYS_rt_sigaction, %eax
        mov     $SIGUSR1, %edi
        lea     action(%rip), %rsi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        mov     $SYS_getpid, %eax
        syscall
        mov     %eax, %edi
        mov     $SIGUSR1, %esi
        mov     $SYS_kill, %eax
        syscall
        .globl  interrupted
interrupted:
        hlt

FUNCTION(handler):
        sub     $8, %rsp
        call    inner
        .globl  after_handled
after_handled:
        hlt

        .balign 256
        nop
        .globl  restorer
restorer:
        mov     $SYS_rt_sigreturn, %rax
        syscall

FUNCTION(inner):
        mov     $100000, %ecx
1:      dec     %ecx
        jnz     1b
        mov     $SYS_getppid, %eax
        syscall
        jmp     inner
        .globl  inner_end
inner_end:

        .data
        .balign 8
action: .quad   handler, SA_RESTORER, restorer, 0

        .section .note.GNU-stack, "", @progbits
