/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions that align their stack to more than their caller does, and take room on it whose size is known late:
 * where the caller's frame is can be told by no offset from a register then.
 */

#include <alloca.h>

#include "chain.h"

static CHAINED uint64_t use(volatile uint64_t *words, size_t n, uint64_t x) {
        for (size_t i = 0; i < n; i++)
                words[i] = x + i;
        return words[x % n];
}

static CHAINED uint64_t aligned_leaf(uint64_t x) {
        _Alignas(64) volatile uint64_t words[16];

        x = chain_after(use(words, 16, x));
        for (unsigned i = 0; i < CHAIN_UNITS; i++)
                words[i % 16] = x = spin(x, 1);
        return x;
}

static CHAINED uint64_t aligned_alloca(uint64_t x) {
        _Alignas(128) volatile uint64_t words[16];
        size_t n = 16 + x % 64;
        volatile uint64_t *more = alloca(n * sizeof(*more));

        x = chain_after(use(words, 16, x)) + use(more, n, x);
        return aligned_leaf(x) + words[x % 16] + more[0];
}

static CHAINED uint64_t aligned_outer(uint64_t x) {
        _Alignas(64) volatile uint64_t words[16];

        x = chain_after(use(words, 16, x));
        return aligned_alloca(x) + words[x % 16];
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, aligned_outer));
}
