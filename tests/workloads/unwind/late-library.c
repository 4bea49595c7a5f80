/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "late.h"

__attribute__((visibility("default"))) LateFunction LATE_FUNCTION;

/* The frames of the libraries differ in size, so that the one's tables do not do for the other. */
static CHAINED uint64_t LATE_INNER(uint64_t x, uint64_t (*back)(uint64_t)) {
        volatile uint64_t words[LATE_WORDS];

        words[x % LATE_WORDS] = x;
        return chain_after(back(spin(x, CHAIN_UNITS / 2))) + words[x % LATE_WORDS];
}

CHAINED uint64_t LATE_FUNCTION(uint64_t x, uint64_t (*back)(uint64_t)) {
        return chain_after(LATE_INNER(x, back));
}
