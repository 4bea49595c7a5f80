/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Which maps of ended sessions are still alive: a client that keeps its ring mapped keeps its
 * memory, and the keeper charges it for that. Reports the names of all ring and counter maps that
 * the helper made, the session's number in each.
 */

#include "kernel.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_map {
        __u32 id;
        char name[16];
};

struct bpf_iter__bpf_map {
        struct bpf_iter_meta *meta;
        struct bpf_map *map;
};

#pragma clang attribute pop

SEC("iter/bpf_map")
int list_maps(struct bpf_iter__bpf_map *ctx) {
        /* Read once: the verifier believes a check only of the value it was made of. */
        struct bpf_map *map = ctx->map;
        char name[16];

        if (!map || bpf_core_read(&name, sizeof(name), &map->name) != 0)
                return 0;
        /* "rsr" or "rsc" and eight hexadecimal digits: sampler.c names them. */
        if (name[0] == 'r' && name[1] == 's' && (name[2] == 'r' || name[2] == 'c'))
                bpf_seq_write(ctx->meta->seq, name, sizeof(name));
        return 0;
}
