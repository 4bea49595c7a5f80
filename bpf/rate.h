/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * A rate below what was granted. The clocks go on as they were opened, and the programs take such a share of what
 * would be a sample; each that is taken carries as its weight the time it stands for.
 *
 * PERF_EVENT_IOC_PERIOD would save the interrupts, too, but it does not reach what tasks have inherited before, it
 * leaves ctx->sample_period as it was, it interrupts the other CPUs, and whoever may call it can make clocks
 * faster than was granted.
 */

#include "control.h"
#include "kernel.h"
#include "walk.h"

/* Hz by event, written by the session; 0: as granted. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, RS_EVENTS_MAX);
        __type(key, __u32);
        __type(value, __u32);
} rs_rates SEC(".maps");

/* Set before the programs are loaded: Hz by event. */
const volatile __u32 granted_rate[RS_EVENTS_MAX] = {};

/* Hz, 1 to what was granted. */
static __always_inline __u32 rate_get(__u32 event) {
        /* A copy: of what has been on the stack 6.1 no longer knows that it is a constant. */
        const __u32 key = event;
        __u32 *rate = bpf_map_lookup_elem(&rs_rates, &key);
        __u32 hz = rate ? *rate : 0;

        return hz > 0 && hz < granted_rate[event] ? hz : granted_rate[event];
}

/*
 * Whether this one is taken: of any number on a CPU their share to within one, but which of them is left to chance, or
 * two threads that take turns would not be told alike.
 */
static __always_inline bool rate_takes(struct scratch *s, __u32 event, __u32 rate) {
        const __u32 granted = granted_rate[event];

        if (rate == granted)
                return true;
        s->due[event] += rate;
        if (s->due[event] <= (__s64) ((__u64) bpf_get_prandom_u32() * granted >> 32))
                return false;
        s->due[event] -= granted;
        return true;
}
