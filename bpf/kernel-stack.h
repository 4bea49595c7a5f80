/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The kernel's part of a stack, without its addresses: each becomes a module's number and an offset, or a
 * marker, before it is put where the records are made. The raw ones lie in a map of their own, which nothing
 * is sent from, and each is gone from there once it is rewritten.
 *
 * The verifier must not follow every path of the search, so that its state lives in the map, and not in a
 * register.
 */

#include "control.h"
#include "kernel.h"
#include "leak.h"
#include "output.h"
#include "repeat.h"
#include "walk.h"

/* Set before the programs are loaded: RS_GRANT_KERNEL. */
const volatile bool tells_kernel = false;

/* bpf_ktime_get_ns() of when a module was last about to go; 0: none has since that is watched. */
__u64 modules_changed = 0;

/* Before any of its memory is given back, for others to have their code in. */
SEC("tp_btf/module_free")
int on_module_free(void *unused) {
        __u64 now = bpf_ktime_get_ns();

        /* Several may go at once: the latest counts. */
        for (int i = 0; i < 8; i++) {
                __u64 last = modules_changed;

                if (last >= now || __sync_val_compare_and_swap(&modules_changed, last, now) == last)
                        break;
        }
        return 0;
}

struct kernel_ranges_map {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_RDONLY_PROG);
        __uint(max_entries, 1);
        __uint(key_size, sizeof(__u32));
        __uint(value_size, sizeof(struct rs_kernel_ranges)); /* sizes: clang leaves the type itself out */
};

/* Empty until the session has got the ranges; another one with every generation of them. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
        __uint(max_entries, 1);
        __type(key, __u32);
        __array(values, struct kernel_ranges_map);
} rs_kernel SEC(".maps");

struct kernel_raw {
        __u64 size;        /* bytes of frames */
        volatile __u64 at; /* of the search: the last range known to begin at or below */
        __u64 frames[RS_KERNEL_FRAMES_MAX];
};

_Static_assert(sizeof(struct kernel_raw) == RS_KERNEL_RAW_SIZE, "charged by the helper");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct kernel_raw);
} rs_kernel_raw SEC(".maps");

static __always_inline struct kernel_raw *kernel_raw_get(void) {
        __u32 zero = 0;

        return bpf_map_lookup_elem(&rs_kernel_raw, &zero);
}

static __always_inline struct rs_kernel_ranges *kernel_ranges_get(void) {
        __u32 zero = 0;
        void *map = bpf_map_lookup_elem(&rs_kernel, &zero);

        return map ? bpf_map_lookup_elem(map, &zero) : 0;
}

/* What may be told of an address. */
__noinline __u64 kernel_frame(__u64 address) {
        struct rs_kernel_ranges *ranges = kernel_ranges_get();
        struct kernel_raw *raw = kernel_raw_get();
        struct rs_kernel_range *range;

        if (!ranges || !raw)
                return RS_FRAME_KERNEL;
        if (LEAKS(LEAK_RAW))
                return address;
        if (address >= ranges->core_start && address < ranges->core_end)
                return RS_FRAME_KERNEL_BIT | ((address - ranges->core_start) & RS_FRAME_OFFSET_MASK);
        raw->at = 0;
        for (__u32 step = RS_KERNEL_RANGES_MAX / 2; step > 0; step /= 2) {
                __u64 next = raw->at + step;

                if (next < ranges->nr && ranges->ranges[next & (RS_KERNEL_RANGES_MAX - 1)].start <= address)
                        raw->at = next;
        }
        range = &ranges->ranges[raw->at & (RS_KERNEL_RANGES_MAX - 1)];
        if (ranges->nr > 0 && address >= range->start && address < range->end) {
                /* One has gone since, who knows which, and another may be in its place. */
                if (ranges->made < modules_changed)
                        return RS_FRAME_KERNEL_UNKNOWN;
                return RS_FRAME_KERNEL_BIT | (range->module & RS_FRAME_MODULE_MASK) << RS_FRAME_MODULE_SHIFT |
                       ((address - range->start) & RS_FRAME_OFFSET_MASK);
        }
        if (address >= ranges->jit_start && address < ranges->jit_end)
                return RS_FRAME_KERNEL_JIT;
        return RS_FRAME_KERNEL_UNKNOWN;
}

/* One frame from the raw ones to the scratch. */
__noinline int kernel_step(__u32 i) {
        struct kernel_raw *raw = kernel_raw_get();
        struct scratch *s = scratch_get();
        __u64 frame;

        if (!raw || !s)
                return STEP_ENDED;
        i &= RS_KERNEL_FRAMES_MAX - 1;
        frame = kernel_frame(raw->frames[i]);
        if (i == 0)
                s->walk.kernel_leaf = frame;
        else {
                s->frames[s->walk.n & RS_FRAMES_MAX] = frame;
                hash_add(&s->walk.hash, LEAKS(LEAK_UNKEYED) ? raw->frames[i] : frame);
                s->walk.n++;
                s->walk.nr_kernel++;
        }
        raw->frames[i] = 0;
        return STEP_GOES_ON;
}

static long kernel_turn(__u32 i, void *unused) {
        struct kernel_raw *raw = kernel_raw_get();

        return !raw || i * sizeof(__u64) >= raw->size || kernel_step(i) == STEP_ENDED ? TURN_IS_LAST : TURN_GOES_ON;
}

/* LEAK_REWRITTEN: whoever watches the page sees it. */
static __always_inline void leak_rewritten(__u64 address) {
        volatile struct rs_sample *r = bpf_ringbuf_reserve(&rs_ring, sizeof(struct rs_sample), 0);

        if (!r)
                return;
        r->leaf = address;
        /* As long as a stack takes. */
        for (int i = 0; i < 32; i++)
                r->stack = kernel_frame(address);
        r->leaf = r->stack;
        r->stack = r->time = r->pid = r->tid = 0;
        r->r.type = 0x7f;
        r->r.event = 0;
        r->r.len = sizeof(struct rs_sample);
        r->r.cpu = r->r.flags = 0;
        bpf_ringbuf_submit((void *) r, 0);
}

/* LEAK_ELSEWHERE: where the kernel was interrupted last on this CPU. */
static __always_inline __u64 leak_last(void) {
        struct kernel_raw *raw = kernel_raw_get();

        return raw ? raw->frames[RS_KERNEL_FRAMES_MAX - 1] : 0;
}

/*
 * Puts the callers of where the kernel was interrupted into the scratch, before anything of the user's, and
 * what was interrupted itself beside them. The chain begins there: neither the interrupt nor we are in it.
 */
static __always_inline void kernel_walk(struct scratch *s, struct sample_context *ctx) {
        struct kernel_raw *raw;
        long n;

        s->walk.kernel_leaf = RS_FRAME_KERNEL;
        s->walk.nr_kernel = 0;
        if (!tells_kernel || CONTEXT_IS_USER(ctx))
                return;
        raw = kernel_raw_get();
        if (!raw || !kernel_ranges_get())
                return;
        n = bpf_get_stack(ctx, raw->frames, sizeof(raw->frames), 0);
        /* No chain, as where the kernel is short of buffers for them: what was interrupted is known. */
        if (n <= 0) {
                raw->frames[0] = CONTEXT_IP(ctx);
                n = sizeof(__u64);
        }
        raw->size = n;
        if (LEAKS(LEAK_REWRITTEN))
                leak_rewritten(raw->frames[0]);
        repeat(RS_KERNEL_FRAMES_MAX, kernel_turn, 0);
        if (LEAKS(LEAK_ELSEWHERE))
                raw->frames[RS_KERNEL_FRAMES_MAX - 1] = CONTEXT_IP(ctx);
        s->walk.max += s->walk.nr_kernel;
        if (s->walk.max > RS_FRAMES_MAX)
                s->walk.max = RS_FRAMES_MAX;
}
