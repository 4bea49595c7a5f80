/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compiled with UNWIND_X86_64 and with UNWIND_AARCH64. */

#include "test-unwind-walk.h"

#include <stdbool.h>
#include <string.h>

/* Where the step reads: it has no argument for that. */
static const Walk *walk_now;

/* As the kernel does it: where not all can be read, nothing is left of what was there. */
static int unwind_read_bytes(void *ret, __u32 size, __u64 address) {
        for (__u32 at = 0; at < size; at += 8) {
                uint64_t word;
                int r = walk_now->read(walk_now->userdata, address + at, &word);

                if (r < 0) {
                        memset(ret, 0, size);
                        return r;
                }
                memcpy((char *) ret + at, &word, 8);
        }
        return 0;
}

static int unwind_read(__u64 *ret, __u64 address) {
        return unwind_read_bytes(ret, sizeof(*ret), address);
}

static int unwind_read_part(__u64 address);
static int unwind_read_stack(__u64 *ret, __u64 address);

#define UNWIND_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)
#include "unwind-part.h"
#include "unwind-step.h"

_Static_assert(sizeof(WalkState) == sizeof(struct unwind_state), "the same by another name");
_Static_assert(sizeof(WalkPart) == sizeof(struct unwind_part) && WALK_NO_PART == UNWIND_NO_PART, "the same by another name");

static struct unwind_part part_now; /* if it has one */

static int unwind_read_part(__u64 address) {
        return unwind_part_fill(&part_now, address);
}

static int unwind_read_stack(__u64 *ret, __u64 address) {
        return walk_now->part ? unwind_part_read(&part_now, ret, address) : unwind_read(ret, address);
}

static void begin(const Walk *walk) {
        if (walk->part)
                memcpy(&part_now, walk->part, sizeof(part_now));
        walk_now = walk;
}

static void end(void) {
        if (walk_now->part)
                memcpy(walk_now->part, &part_now, sizeof(part_now));
        walk_now = NULL;
}

static int step(const Walk *walk, WalkState *state, const struct rs_table_rule *rule) {
        struct unwind_state s;
        int r;

        memcpy(&s, state, sizeof(s));
        begin(walk);
        r = unwind_step(&s, rule);
        end();
        memcpy(state, &s, sizeof(s));
        return r;
}

#ifdef UNWIND_X86_64
int walk_read_stack(const Walk *walk, uint64_t address, uint64_t *ret) {
        __u64 word = 0;
        int r;

        begin(walk);
        r = unwind_read_stack(&word, address);
        end();
        *ret = word;
        return r;
}

int walk_step_x86_64(const Walk *walk, WalkState *state, const struct rs_table_rule *rule) {
        return step(walk, state, rule);
}

size_t walk_stack(WalkStep one, const Walk *walk, WalkState state, uint64_t *ret, size_t max, enum rs_walk_end *ret_end) {
        WalkPart part = { .at = WALK_NO_PART };
        Walk by_parts = *walk;

        by_parts.part = &part;
        for (size_t n = 0; n < max; n++) {
                const struct rs_table_rule *rule;
                int r;

                ret[n] = state.pc;
                rule = walk->find(walk->userdata, state.exact ? state.pc : state.pc - 1);
                r = rule ? one(&by_parts, &state, rule) : RS_WALK_NO_MAPPING;
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
