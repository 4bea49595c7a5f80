/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compiled with UNWIND_X86_64 and with UNWIND_AARCH64. */

#include "test-unwind-walk.h"

#include <stdbool.h>
#include <string.h>

/* Where the step reads: it has no argument for that. */
static const Walk *walk_now;

static int unwind_read(__u64 *ret, __u64 address) {
        uint64_t word;
        int r = walk_now->read(walk_now->userdata, address, &word);

        *ret = word;
        return r;
}

static int unwind_read_stack(__u64 *ret, __u64 address) {
        return unwind_read(ret, address);
}

#define UNWIND_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)
#include "unwind-step.h"

_Static_assert(sizeof(WalkState) == sizeof(struct unwind_state), "the same by another name");

static int step(const Walk *walk, WalkState *state, const struct rs_table_rule *rule) {
        struct unwind_state s;
        int r;

        memcpy(&s, state, sizeof(s));
        walk_now = walk;
        r = unwind_step(&s, rule);
        walk_now = NULL;
        memcpy(state, &s, sizeof(s));
        return r;
}

#ifdef UNWIND_X86_64
int walk_step_x86_64(const Walk *walk, WalkState *state, const struct rs_table_rule *rule) {
        return step(walk, state, rule);
}

size_t walk_stack(WalkStep one, const Walk *walk, WalkState state, uint64_t *ret, size_t max, enum rs_walk_end *ret_end) {
        for (size_t n = 0; n < max; n++) {
                const struct rs_table_rule *rule;
                int r;

                ret[n] = state.pc;
                rule = walk->find(walk->userdata, state.exact ? state.pc : state.pc - 1);
                r = rule ? one(walk, &state, rule) : RS_WALK_NO_MAPPING;
                if (r != UNWIND_GOES_ON) {
                        *ret_end = (enum rs_walk_end) r;
                        return n + 1;
                }
        }
        *ret_end = RS_WALK_DEPTH;
        return max;
}
#else
int walk_step_aarch64(const Walk *walk, WalkState *state, const struct rs_table_rule *rule) {
        return step(walk, state, rule);
}
#endif
