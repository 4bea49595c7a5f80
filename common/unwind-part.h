/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * Words of a stack, by parts: most words that a walk reads are in the part that the last one was in, and a call for each
 * would cost more than all else does. The one source for the programs in the kernel and for tests. The includer says how
 * memory is read, and which part is meant:
 *
 *      static int unwind_read_bytes(void *ret, __u32 size, __u64 address);      0, or not all can be read
 *      int unwind_read_part(__u64 address);      unwind_part_fill() of the walk's part
 */

#include "unwind-table.h"

/* So many bytes, several frames of most programs; a power of two that pages are a multiple of. */
#define UNWIND_PART 512
#define UNWIND_NO_PART 1 /* no multiple of it */

struct unwind_part {
        __u64 at; /* where it is; UNWIND_NO_PART: nowhere */
        __u64 words[UNWIND_PART / sizeof(__u64)];
};

static inline __attribute__((always_inline)) __u64 *unwind_part_word(struct unwind_part *part, __u64 address) {
        return &part->words[(address & (UNWIND_PART - 1)) / sizeof(__u64)];
}

/*
 * Reads the part that an aligned word is in; or, where something beside it cannot be read (tagged memory, a page that
 * nobody may read), the word alone, which is then no part. 0, or the word cannot be read.
 */
static inline __attribute__((always_inline)) int unwind_part_fill(struct unwind_part *part, __u64 address) {
        __u64 start = address & -(__u64) UNWIND_PART;

        part->at = UNWIND_NO_PART; /* whatever becomes of it, what was there is gone */
        if (unwind_read_bytes(part->words, sizeof(part->words), start) != 0)
                return unwind_read_bytes(unwind_part_word(part, address), sizeof(__u64), address);
        part->at = start;
        return 0;
}

/* An aligned word. 0, or it cannot be read. */
static inline __attribute__((always_inline)) int unwind_part_read(struct unwind_part *part, __u64 *ret, __u64 address) {
        if ((address & -(__u64) UNWIND_PART) != part->at && unwind_read_part(address) != 0)
                return -1;
        *ret = *unwind_part_word(part, address);
        return 0;
}
