/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Which rings, counters and unwind tables that the helper made are alive: a client that keeps its ring mapped keeps its memory, and
 * is charged for it, by the helper that served it and by the one after that.
 */

#include "kernel.h"

#include "map-list.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
        long long counter;
} atomic64_t;

struct bpf_map {
        __u32 value_size;
        __u32 max_entries;
        char name[16];
        atomic64_t refcnt;
        atomic64_t usercnt;
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
        struct rs_map_info info = {};
        char name[RS_MAP_NAME_SIZE];

        if (!map || bpf_core_read(&name, sizeof(name), &map->name) != 0)
                return 0;
        if (name[0] != 'r' || name[1] != 's' || (name[2] != 'r' && name[2] != 'c' && name[2] != 't') || name[14] == '\0')
                return 0;
        for (int i = 0; i < 6; i++) {
                info.id |= rs_map_value(name[3 + i]) << (6 * i);
                info.uid |= rs_map_value(name[9 + i]) << (6 * i);
        }
        /* A ring's entries are bytes; with the kernel's own page and two for positions. */
        info.size = name[2] == 'r' ? map->max_entries + 3 * 4096 : map->max_entries * map->value_size + 4096;
        /* Descriptors and mappings count in both, programs in the first, and so does this iterator. */
        info.in_use = map->refcnt.counter - 1 > map->usercnt.counter;
        bpf_seq_write(ctx->meta->seq, &info, sizeof(info));
        return 0;
}
