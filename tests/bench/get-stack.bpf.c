/* SPDX-License-Identifier: GPL-2.0-only */

/* What the kernel's own walk over a user stack costs, by frame pointers. For a benchmark; no part of the product. */

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#define FRAMES 127
#define USER_STACK (1ULL << 8) /* BPF_F_USER_STACK */

char LICENSE[] SEC("license") = "GPL";

struct frames {
        __u64 addresses[FRAMES];
};

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct frames);
} scratch SEC(".maps");

__u64 n_frames = 0;

SEC("perf_event")
int get_stack(void *ctx) {
        __u32 zero = 0;
        struct frames *frames = bpf_map_lookup_elem(&scratch, &zero);
        long size;

        if (!frames)
                return 0;
        size = bpf_get_stack(ctx, frames, sizeof(*frames), USER_STACK);
        if (size > 0)
                __sync_fetch_and_add(&n_frames, size / sizeof(__u64));
        return 0;
}
