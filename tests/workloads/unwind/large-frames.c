/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Eight frames of 300 KiB, each of which is more than any tool copies of a stack. */

#include "chain.h"

#define WORDS (300 * 1024 / sizeof(uint64_t))
#define DEPTH 8

static CHAINED uint64_t large_leaf(uint64_t x) {
        return spin(x, CHAIN_UNITS);
}

static CHAINED uint64_t large(uint64_t x, unsigned depth) {
        volatile uint64_t words[WORDS]; /* as it comes: what is in it does not matter */

        words[x % WORDS] = x;
        x = depth > 1 ? large(x, depth - 1) : large_leaf(x);
        return chain_after(x) + words[x % WORDS] % 2;
}

static CHAINED uint64_t large_first(uint64_t x) {
        return chain_after(large(x, DEPTH));
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, large_first));
}
