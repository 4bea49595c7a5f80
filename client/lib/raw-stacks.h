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

/* Where most stacks have one leaf, and are walked once: what they became needs no table. */
#define RAW_STACK_OUTCOMES 3

typedef struct RawStack RawStack;

/* What the stack became with a leaf; both numbers that tell it from others are the caller's. */
typedef struct RawOutcome {
        uint64_t how, leaf;
        uint64_t outcome;
} RawOutcome;

struct RawStack {
        uint64_t id;
        RawStack *newer;
        uint32_t epoch;  /* of the outcomes */
        bool used;       /* since it was last considered for eviction */
        bool guessed;    /* some of it, by frame pointer */
        bool overflowed; /* there were more outcomes */
        uint8_t n_outcomes;
        RawOutcome outcomes[RAW_STACK_OUTCOMES];
        uint16_t n_kernel;
        uint16_t n_frames;
        uint64_t frames[]; /* innermost first */
};

/* Embedded. */
typedef struct RawStacks {
        size_t limit, bytes;
        uint64_t n_distinct; /* put so far, what was evicted included */
        uint32_t epoch;
        Table by_id;
        RawStack *oldest, *newest;
} RawStacks;

void raw_stacks_init(RawStacks *stacks, size_t limit_bytes);
void raw_stacks_done(RawStacks *stacks);
/* One that is there already is replaced. 0 or -ENOMEM. */
int raw_stacks_put(RawStacks *stacks, uint64_t id, const uint64_t *frames, uint16_t n_kernel, uint16_t n_frames, bool guessed);
/* NULL: never came, or was evicted. Valid until the next put. */
RawStack *raw_stacks_get(RawStacks *stacks, uint64_t id);
/* 0: none is kept. */
uint64_t raw_stack_find(const RawStack *stack, uint64_t how, uint64_t leaf);
/* false: there is no room for more. */
bool raw_stack_keep(RawStack *stack, uint64_t how, uint64_t leaf, uint64_t outcome);
/* All outcomes of all stacks. */
void raw_stacks_forget_outcomes(RawStacks *stacks);
