/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The stacks as they came, by id, until the samples that name them have been resolved. A stack is sent
 * once and named for as long as the helper remembers having sent it, so what is kept is bounded by
 * memory, and what was not asked for longest goes first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

typedef struct RawStack RawStack;

struct RawStack {
        uint64_t id;
        RawStack *newer;
        bool used; /* since it was last considered for eviction */
        bool guessed; /* some of it, by frame pointer */
        uint16_t n_kernel;
        uint16_t n_frames;
        uint64_t frames[]; /* innermost first */
};

/* Embedded. */
typedef struct RawStacks {
        size_t limit, bytes;
        uint64_t n_distinct; /* put so far, what was evicted included */
        Table by_id;
        RawStack *oldest, *newest;
} RawStacks;

void raw_stacks_init(RawStacks *stacks, size_t limit_bytes);
void raw_stacks_done(RawStacks *stacks);
/* One that is there already is replaced. 0 or -ENOMEM. */
int raw_stacks_put(RawStacks *stacks, uint64_t id, const uint64_t *frames, uint16_t n_kernel, uint16_t n_frames, bool guessed);
/* NULL: never came, or was evicted. Valid until the next put. */
const RawStack *raw_stacks_get(RawStacks *stacks, uint64_t id);
