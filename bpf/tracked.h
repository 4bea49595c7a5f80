/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The list of what a session was told to watch, and of what that has started since. It never leaves the helper. The
 * session writes it, and so do the programs on process events; samplers look at it only.
 */

#include "control.h"
#include "kernel.h"

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, RS_TRACKED_MAX);
        __type(key, struct rs_tracked_key);
        __type(value, struct rs_tracked);
} rs_tracked SEC(".maps");

static __always_inline struct rs_tracked *tracked_find(__u32 kind, __u64 number) {
        const struct rs_tracked_key key = {.number = number, .kind = kind};

        return bpf_map_lookup_elem(&rs_tracked, &key);
}

/* Another is what `from` is. False: there is no room, so that it is not followed. */
static __always_inline bool tracked_add(__u32 kind, __u64 number, __u64 start, const struct rs_tracked *from) {
        const struct rs_tracked_key key = {.number = number, .kind = kind};
        const struct rs_tracked value = {.start = start, .target = from->target, .follow = from->follow};

        return bpf_map_update_elem(&rs_tracked, &key, &value, BPF_ANY) == 0;
}

static __always_inline void tracked_remove(__u32 kind, __u64 number) {
        const struct rs_tracked_key key = {.number = number, .kind = kind};

        /* Most threads that exit were not in it, and asking takes no lock. */
        if (bpf_map_lookup_elem(&rs_tracked, &key))
                bpf_map_delete_elem(&rs_tracked, &key);
}
