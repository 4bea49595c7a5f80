/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The walk over a stack outside of the kernel: unwind-step.h and unwind-part.h, compiled once for each machine, on registers
 * and memory that a test has.
 */

#include <stddef.h>
#include <stdint.h>

#include "unwind-table.h"

/* struct unwind_state, which needs a machine to be declared. */
typedef struct WalkState {
        uint64_t pc;
        uint64_t regs[32];
        uint32_t known, exact;
} WalkState;

/* And struct unwind_part. */
typedef struct WalkPart {
        uint64_t at;
        uint64_t words[64];
} WalkPart;

#define WALK_NO_PART 1

typedef struct Walk {
        /* 0, or the word cannot be read. */
        int (*read)(void *userdata, uint64_t address, uint64_t *ret);
        /* NULL: there is no mapping. */
        const struct rs_table_rule *(*find)(void *userdata, uint64_t address);
        void *userdata;
        WalkPart *part; /* of the stack, as it was read last; NULL: words are read one by one */
} Walk;

/* One step: UNWIND_GOES_ON (0), or an enum rs_walk_end. */
typedef int (*WalkStep)(const Walk *walk, WalkState *state, const struct rs_table_rule *rule);
int walk_step_x86_64(const Walk *walk, WalkState *state, const struct rs_table_rule *rule);
int walk_step_aarch64(const Walk *walk, WalkState *state, const struct rs_table_rule *rule);

/* An aligned word of the stack, as a step reads it: 0, or it cannot be read. */
int walk_read_stack(const Walk *walk, uint64_t address, uint64_t *ret);

/* The program counters, innermost first, at most max; the stack is read by parts. Returns how many there are. */
size_t walk_stack(WalkStep step, const Walk *walk, WalkState state, uint64_t *ret, size_t max, enum rs_walk_end *ret_end);
