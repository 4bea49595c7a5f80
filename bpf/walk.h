/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The walk over a user stack by frame pointers: each frame pointer leads to a pair {the caller's
 * frame pointer, return address}. It differs from bpf_get_stack() in telling how it ended, and in
 * demanding that the chain is aligned and grows, so that a general register that is no frame
 * pointer is found out early.
 *
 * The state lives in a map value, not on the BPF stack: reads from it are unknown to the verifier,
 * so that the iterations prune each other.
 */

#include "control.h"
#include "hash.h"
#include "kernel.h"
#include "repeat.h"
#include "unwind-state.h"

/* vm.mmap_min_addr's least sensible value: no code lies below. */
#define CODE_ADDRESS_MIN 4096

struct walk {
        __u64 fp;
        __u64 kernel_leaf; /* what was interrupted, where that was in the kernel */
        struct hash hash;  /* over the frames so far */
        __u64 id;          /* of the callers, 0: there are none */
        __u16 n;           /* frames so far */
        __u16 nr_kernel;   /* of these, the first ones */
        __u16 max;
        __u8 end;  /* enum rs_walk_end */
        __u8 check; /* the mappings of its callers are to be looked at: it is new, or may be of others by now */
        __u8 proves; /* tables say that it is by frame pointers; what it tells is to be as with tables */
};

/* Per CPU; never leaves the helper. One more slot than frames, so that a masked index is in bounds. */
struct scratch {
        struct walk walk;
        __s64 due[RS_EVENTS_MAX]; /* what a lower rate has yet to take, in parts of the granted rate (rate.h) */
        struct unwind unwind;
        struct rs_wsample sample; /* as it will be sent */
        __u64 stack[sizeof(struct rs_stack) / sizeof(__u64)]; /* the record's head; its frames follow */
        __u64 frames[RS_FRAMES_MAX + 1];
};

_Static_assert(sizeof(struct scratch) <= RS_SCRATCH_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct scratch);
} rs_scratch SEC(".maps");

static __always_inline struct scratch *scratch_get(void) {
        __u32 zero = 0;

        return bpf_map_lookup_elem(&rs_scratch, &zero);
}

static __always_inline void walk_push(struct scratch *s, __u64 address) {
        s->frames[s->walk.n & RS_FRAMES_MAX] = address;
        hash_add(&s->walk.hash, address);
        s->walk.n++;
}

/* Of a frame that was pushed: it is where something was interrupted. The id is of that, too. */
static __always_inline void walk_mark_exact(struct scratch *s, __u32 frame) {
        s->frames[frame & RS_FRAMES_MAX] |= RS_FRAME_EXACT;
        hash_add(&s->walk.hash, RS_FRAME_EXACT);
}

/* Set before the programs are loaded: kernel_reads_user_memory_safely(). */
const volatile bool reads_user_memory = false;

/* Set before the programs are loaded: RS_FD_TABLES. */
const volatile bool has_tables = false;

/* Whether a call stands before an address (unwind.h), or CALL_NONE, CALL_UNREADABLE. */
#define CALL_NONE 0
#define CALL_BEFORE 1
#define CALL_UNREADABLE 2
int call_before(__u64 address);

#define STEP_ENDED 0
#define STEP_GOES_ON 1

/* One frame; a function of its own, so that the verifier checks it once. */
__noinline int walk_step(void) {
        struct scratch *s = scratch_get();
        __u64 pair[2];

        if (!s)
                return STEP_ENDED;
        if (s->walk.fp == 0) {
                s->walk.end = RS_WALK_COMPLETE;
                return STEP_ENDED;
        }
        if ((s->walk.fp & 7) != 0 || s->walk.fp > TASK_SIZE_MAX - sizeof(pair)) {
                s->walk.end = RS_WALK_BAD_FP;
                return STEP_ENDED;
        }
        if (bpf_probe_read_user(pair, sizeof(pair), (void *) s->walk.fp) != 0) {
                s->walk.end = RS_WALK_UNREADABLE;
                return STEP_ENDED;
        }
        if (pair[1] < CODE_ADDRESS_MIN || pair[1] >= TASK_SIZE_MAX) {
                s->walk.end = RS_WALK_BAD_RETURN;
                return STEP_ENDED;
        }
        if (s->walk.n >= s->walk.max) {
                s->walk.end = RS_WALK_DEPTH;
                return STEP_ENDED;
        }
        if (has_tables && s->walk.proves) {
                int found = call_before(pair[1]);

                if (found != CALL_BEFORE) {
                        s->walk.end = found == CALL_NONE ? RS_WALK_NO_CALL : RS_WALK_UNREADABLE;
                        return STEP_ENDED;
                }
        }
        walk_push(s, pair[1]);
        if (pair[0] != 0 && pair[0] <= s->walk.fp) {
                s->walk.end = RS_WALK_BAD_FP;
                return STEP_ENDED;
        }
        s->walk.fp = pair[0];
        return STEP_GOES_ON;
}

static long walk_turn(__u32 i, void *unused) {
        return walk_step() == STEP_ENDED ? TURN_IS_LAST : TURN_GOES_ON;
}

/*
 * Each step but the last pushes a frame, for which there is less room than turns: so it ends by itself. A zero at once does
 * not end a chain, there is none: code built without frame pointers has the register for other things.
 */
static __always_inline void walk_frame_pointers(struct scratch *s) {
        if (s->walk.fp == 0)
                s->walk.end = RS_WALK_BAD_FP;
        else if (reads_user_memory)
                repeat(RS_FRAMES_MAX + 1, walk_turn, 0);
        else
                s->walk.end = s->walk.n >= s->walk.max ? RS_WALK_DEPTH : RS_WALK_UNREADABLE;
}
