/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A coroutine whose stack is in shared memory. While its innermost function runs, the pages of all its callers are none of
 * the process any more, as after a fork: what was in them is still there, once somebody looks.
 */

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "chain.h"

#define PAGE 4096
#define STACK_SIZE (64 * PAGE)
/* Far more than the kernel maps with a page that is asked for. */
#define WORDS (128 * 1024 / sizeof(uint64_t))

static ucontext_t in_main, in_lost;
static char *stack;
static double seconds;
static uint64_t result;

static CHAINED uint64_t lost_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t lost_inner(uint64_t x) {
        char here;
        uintptr_t lost = ((uintptr_t) &here + 2 * PAGE) / PAGE * PAGE;

        if (madvise((void *) lost, (uintptr_t) stack + STACK_SIZE - lost, MADV_DONTNEED) < 0)
                exit(2);
        return x + chain_repeat(seconds, lost_leaf);
}

static CHAINED uint64_t lost_outer(uint64_t x) {
        volatile uint64_t words[WORDS]; /* as it comes: what is in it does not matter */

        words[x % WORDS] = x;
        x = lost_inner(x);
        return chain_after(x) + words[x % WORDS] % 2;
}

static CHAINED void lost_coroutine(void) {
        result = chain_after(lost_outer(1));
        swapcontext(&in_lost, &in_main);
}

int main(int argc, char **argv) {
        int fd = memfd_create("stack", MFD_CLOEXEC);
        char *memory;

        seconds = spin_seconds(argc, argv);
        /* One page is left below it that nobody may touch. */
        memory = mmap(NULL, PAGE + STACK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || fd < 0 || ftruncate(fd, STACK_SIZE) < 0)
                return 2;
        stack = mmap(memory + PAGE, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        if (stack == MAP_FAILED)
                return 2;
        chain_wait();
        getcontext(&in_lost);
        in_lost.uc_stack.ss_sp = stack;
        in_lost.uc_stack.ss_size = STACK_SIZE;
        in_lost.uc_link = NULL;
        makecontext(&in_lost, lost_coroutine, 0);
        swapcontext(&in_main, &in_lost);
        return spin_end(result);
}
