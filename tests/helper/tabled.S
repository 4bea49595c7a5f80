/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program whose every frame is known, for tables that a test makes by hand: nothing but _start, outer, framed, middle and
 * inner, which call one another and never return. Each begins at another page of tables. By the number of arguments:
 *
 *      1  middle is interrupted by a signal whose handler calls inner
 *      2  all of it is done by one child after another, which exit soon
 *      3  instead, form_1 and so on call one another until inner is called, each in another way
 *      4  instead, inner is gone to without a call, and finds a return address
 *      5  instead, holder calls inner, with a word on the stack that is the client's to tell, which the last argument picks
 *      6  instead, inner is called on a stack of data that looks like a signal's
 *      7  instead, former calls inner; at SIGUSR1 it executes this program anew, as with
 *      8  instead, former's call is overwritten, and inner is gone to with the return address that it would have made
 *      9  framed is called by starts, which looks like what threads of Go's begin with; their frame pointer is of a decoy
 *     10  and by nearly, which nearly looks like that
 *
 *      outer   rsp + 32
 *      framed  a frame pointer; the test has no rule for it
 *      middle  rsp + 56, the frame pointer saved at CFA - 16 and then used for something else
 *      inner   rsp + 8; computes, and asks the kernel for something now and then
 */

#define SYS_mprotect 10
#define SYS_rt_sigaction 13
#define SYS_rt_sigreturn 15
#define SYS_getpid 39
#define SYS_fork 57
#define SYS_execve 59
#define SYS_exit 60
#define SYS_wait4 61
#define SYS_kill 62
#define SYS_getppid 110
#define SIGUSR1 10
#define SA_RESTORER 0x04000000

#define COMMA ,
#define FUNCTION(name) .balign 256; .globl name; .type name, @function; name

        .text
FUNCTION(_start):
        mov     (%rsp), %r12            /* argc */
        mov     $-1, %r13               /* turns of inner until exit */
        xor     %ebp, %ebp
        lea     decoy(%rip), %rbp
        mov     (%rbp), %rax            /* for walks it has to be in memory */
        cmp     $10, %r12
        je      starts
        jg      nearly
        xor     %ebp, %ebp
        cmp     $8, %r12
        je      former
        jg      latter
        cmp     $6, %r12
        je      4f
        jg      5f
        cmp     $4, %r12
        je      2f
        jg      3f
        cmp     $3, %r12
        jne     1f
0:      mov     $SYS_fork, %eax
        syscall
        mov     $500, %r13
        test    %eax, %eax
        jz      1f
        mov     $-1, %rdi
        xor     %esi, %esi
        xor     %edx, %edx
        xor     %r10d, %r10d
        mov     $SYS_wait4, %eax
        syscall
        jmp     0b
2:      call    form_1
        .globl  after_forms
after_forms:
        hlt
3:      call    jumper
        .globl  after_jumper
after_jumper:
        hlt
4:      mov     48(%rsp), %rax          /* the last argument */
        movzbl  (%rax), %eax
        and     $7, %eax
        mov     secrets(, %rax, 8), %r14
        and     $6, %eax
        cmp     $4, %eax
        jne     6f
        add     %rsp, %r14              /* these are from the stack on */
6:      call    holder
        .globl  after_holder
after_holder:
        hlt
5:      mov     $fake_stack, %rsp
        call    inner
        hlt
1:      call    outer
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
        je      1f
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

/* Its last instruction is the call; where prepare needs it, at(%rip) has the address of what is called. */
#define FORM(n, next, prepare, call_it)                                                                                \
        FUNCTION(form_##n):                                                                                            \
        sub     $8, %rsp;                                                                                              \
        jmp     1f;                                                                                                    \
        .balign 8;                                                                                                     \
at_##n: .quad   next;                                                                                                  \
1:      prepare;                                                                                                       \
        call_it;                                                                                                       \
        .globl  after_form_##n;                                                                                        \
after_form_##n:                                                                                                        \
        hlt

FORM(1, form_2, nop, call form_2)
FORM(2, form_3, lea form_3(%rip) COMMA %rcx, call *%rcx)
FORM(3, form_4, lea form_4(%rip) COMMA %r11, call *%r11)
FORM(4, form_5, lea at_4(%rip) COMMA %rax, call *(%rax))
FORM(5, form_6, lea at_5 - 8(%rip) COMMA %rdx, call *8(%rdx))
FORM(6, form_7, movq $form_7 COMMA (%rsp), call *(%rsp))
FORM(7, form_8, movq $form_8 COMMA -8(%rsp), call *-8(%rsp))
FORM(8, form_9, nop, call *at_8(%rip))
FORM(9, form_10, lea at_9 - 0x1000(%rip) COMMA %rax, call *0x1000(%rax))
FORM(10, form_11, lea -0x1000(%rsp) COMMA %rax; movq $form_11 COMMA (%rax), call *-0x1000(%rsp))
FORM(11, form_12, mov $at_11 COMMA %ecx; shr $3 COMMA %ecx, call *(COMMA %rcx COMMA 8))
FORM(12, form_13, lea at_12(%rip) COMMA %r8; xor %r9d COMMA %r9d, call *(%r8 COMMA %r9 COMMA 8))
FORM(13, inner, lea inner(%rip) COMMA %rax, notrack call *%rax)

FUNCTION(jumper):
        lea     not_after(%rip), %rax
        push    %rax
        jmp     inner
        .globl  not_after
not_after:
        hlt

        .balign 256, 0xcc
        int3
        .balign 256, 0xcc
        .globl  starts
starts: call    framed
        .globl  after_starts
after_starts:
        ret
        .balign 256, 0xcc
        .globl  nearly
nearly: call    framed
        .globl  after_nearly
after_nearly:
        hlt
        int3

FUNCTION(former):
        mov     $SYS_rt_sigaction, %eax
        mov     $SIGUSR1, %edi
        lea     becoming(%rip), %rsi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        .balign 64
formerly:
        call    inner
        .globl  after_formerly
after_formerly:
        hlt

FUNCTION(become):
        mov     $SYS_execve, %eax
        lea     itself(%rip), %rdi
        lea     arguments(%rip), %rsi
        xor     %edx, %edx
        syscall
        hlt

FUNCTION(latter):
        mov     $SYS_mprotect, %eax
        mov     $formerly, %edi
        and     $-4096, %edi
        mov     $4096, %esi
        mov     $7, %edx
        syscall
        movl    $0x90909090, formerly
        movb    $0x90, formerly + 4
        lea     after_formerly(%rip), %rax
        push    %rax
        jmp     inner

/* rsp + 40, and rbp + 16: the caller's frame pointer, a word that everybody knows, and the secret. */
FUNCTION(holder):
        push    %rbp
        mov     %rsp, %rbp
        push    secrets
        push    %r14
        call    inner
        .globl  after_held
after_held:
        hlt

FUNCTION(inner):
        mov     $20000, %ecx
1:      dec     %ecx
        jnz     1b
        mov     $SYS_getppid, %eax
        syscall
        dec     %r13
        jnz     inner
        mov     $SYS_exit, %eax
        syscall
        .globl  inner_end
inner_end:

        .data
        .balign 8
action: .quad   handler, SA_RESTORER, restorer, 0
decoy:  .quad   0, after_outer
becoming:
        .quad   become, SA_RESTORER, restorer, 0
arguments:
        .quad   itself, itself, itself, itself, itself, itself, itself, itself, itself, 0
itself: .asciz  "/proc/self/exe"
        .balign 8
secrets:
        .quad   0x1122334455667788, 0x1122334455667789, data_1, data_2, 0x40000000, -0x40000000, 0, middle
        .globl  data_1
        .globl  data_2
        .balign 64
data_1: .fill   8, 8, 0
data_2: .fill   8, 8, 0

/* A signal's frame, but for the one thing that nobody can write: its code cannot be run. */
        .globl  fake_code
fake_code:
        mov     $SYS_rt_sigreturn, %rax
        syscall
        .balign 8
        .fill   64, 8, 0
fake_stack:
        .quad   fake_code
        .quad   0, 0, 0, 0, 0           /* flags, link, and the signal stack */
        .fill   15, 8, 0                /* registers */
        .quad   fake_stack, 0x112233445566, 0, 0x33

        .section .note.GNU-stack, "", @progbits
