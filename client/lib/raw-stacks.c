/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Second chance: a queue by age in which what was used since goes to the end once more. */

#include "raw-stacks.h"

#include <string.h>

#include "util.h"

static size_t stack_size(uint16_t n_frames) {
        return sizeof(RawStack) + n_frames * sizeof(uint64_t);
}

static void append(RawStacks *stacks, RawStack *stack) {
        stack->newer = NULL;
        if (stacks->newest)
                stacks->newest->newer = stack;
        else
                stacks->oldest = stack;
        stacks->newest = stack;
}

static RawStack *take_oldest(RawStacks *stacks) {
        RawStack *stack = stacks->oldest;

        stacks->oldest = stack->newer;
        if (!stacks->oldest)
                stacks->newest = NULL;
        return stack;
}

static void evict(RawStacks *stacks, size_t needed) {
        while (stacks->oldest && stacks->bytes + needed > stacks->limit) {
                RawStack *stack = take_oldest(stacks);
                TableKey key = { .a = stack->id };

                /* One that was replaced is in the queue still, but not in the table. */
                if (table_get(&stacks->by_id, key) == (uintptr_t) stack) {
                        if (stack->used) {
                                stack->used = false;
                                append(stacks, stack);
                                continue;
                        }
                        (void) table_remove(&stacks->by_id, key);
                }
                stacks->bytes -= stack_size(stack->n_frames);
                free(stack);
        }
}

void raw_stacks_init(RawStacks *stacks, size_t limit_bytes) {
        *stacks = (RawStacks){ .limit = limit_bytes };
}

void raw_stacks_done(RawStacks *stacks) {
        while (stacks->oldest)
                free(take_oldest(stacks));
        table_done(&stacks->by_id);
}

int raw_stacks_put(RawStacks *stacks, uint64_t id, const uint64_t *frames, uint16_t n_kernel, uint16_t n_frames, bool guessed) {
        RawStack *stack = (RawStack *) (uintptr_t) table_get(&stacks->by_id, (TableKey){ .a = id });
        size_t size = stack_size(n_frames);
        int r;

        /* The helper sends some twice; that is the usual case of one that is there. */
        if (stack && stack->n_kernel == n_kernel && stack->n_frames == n_frames && stack->guessed == guessed &&
            memcmp(stack->frames, frames, n_frames * sizeof(uint64_t)) == 0) {
                stack->used = true;
                return 0;
        }

        evict(stacks, size);
        stack = malloc(size);
        if (!stack)
                return -ENOMEM;
        *stack = (RawStack){ .id = id, .guessed = guessed, .n_kernel = n_kernel, .n_frames = n_frames };
        if (n_frames > 0)
                memcpy(stack->frames, frames, n_frames * sizeof(uint64_t));
        r = table_put(&stacks->by_id, (TableKey){ .a = id }, (uintptr_t) stack);
        if (r < 0) {
                free(stack);
                return r;
        }
        append(stacks, stack);
        stacks->bytes += size;
        stacks->n_distinct++;
        return 0;
}

RawStack *raw_stacks_get(RawStacks *stacks, uint64_t id) {
        RawStack *stack = (RawStack *) (uintptr_t) table_get(&stacks->by_id, (TableKey){ .a = id });

        if (!stack)
                return NULL;
        stack->used = true;
        if (stack->epoch != stacks->epoch) {
                stack->epoch = stacks->epoch;
                stack->n_outcomes = 0;
                stack->overflowed = false;
        }
        return stack;
}

uint64_t raw_stack_find(const RawStack *stack, uint64_t how, uint64_t leaf) {
        for (unsigned i = 0; i < stack->n_outcomes; i++)
                if (stack->outcomes[i].how == how && stack->outcomes[i].leaf == leaf)
                        return stack->outcomes[i].outcome;
        return 0;
}

bool raw_stack_keep(RawStack *stack, uint64_t how, uint64_t leaf, uint64_t outcome) {
        unsigned i = 0;

        while (i < stack->n_outcomes && (stack->outcomes[i].how != how || stack->outcomes[i].leaf != leaf))
                i++;
        if (i == RAW_STACK_OUTCOMES) {
                stack->overflowed = true;
                return false;
        }
        stack->outcomes[i] = (RawOutcome){ how, leaf, outcome };
        stack->n_outcomes = MAX(stack->n_outcomes, i + 1);
        return true;
}

void raw_stacks_forget_outcomes(RawStacks *stacks) {
        stacks->epoch++;
}
