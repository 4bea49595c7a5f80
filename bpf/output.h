/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* What the client has mapped: the ring that all records go to, and the counters. */

#include "kernel.h"

#include "record.h"

/* Set before the programs are loaded. */
const volatile __u64 wakeup_mark = 0; /* bytes in the ring that wake the client */

struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, 65536);
} rs_ring SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct rs_counters);
} rs_counters SEC(".maps");

static __always_inline struct rs_counters *counters_get(void) {
        __u32 cpu = bpf_get_smp_processor_id();

        return bpf_map_lookup_elem(&rs_counters, &cpu);
}

/* Wakes the client only where the fill passes the mark: a wakeup costs more than a record. */
static __always_inline __u64 ring_wakeup(struct rs_counters *c, __u64 size) {
        __u64 avail = bpf_ringbuf_query(&rs_ring, BPF_RB_AVAIL_DATA);

        if (avail > c->ring_peak)
                c->ring_peak = avail;
        return avail < wakeup_mark && avail + size + 8 >= wakeup_mark ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}
