/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A function that is nothing but beginning and end: it saves every register it has to, and gives them back. */

#include "chain.h"

#define ROUNDS 1000000

static CHAINED uint64_t saves_all(uint64_t x) {
#if defined(__x86_64__)
        __asm__ volatile("" : "+r"(x) : : "rbx", "rbp", "r12", "r13", "r14", "r15");
#elif defined(__aarch64__)
        __asm__ volatile("" : "+r"(x) : : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30");
#endif
        return x;
}

static CHAINED uint64_t calls_it(uint64_t x) {
        for (unsigned i = 0; i < ROUNDS; i++)
                x = chain_after(saves_all(x)) * 3;
        return x;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, calls_it));
}
