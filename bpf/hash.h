/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF") over 64-bit words, one after the
 * other: what the ids of stacks and processes are made of. Whoever has ids, and may choose what goes into
 * them, learns nothing about the key or about the rest of what went in; so a client can neither try guesses
 * at what it was not told, nor make two stacks of one id.
 */

#include "kernel.h"
#include "leak.h"

struct hash {
        __u64 v[4];
        __u64 n; /* words so far */
};

/* Set before the programs are loaded: random, of this session alone. */
const volatile __u64 session_key[2] = {};

static __always_inline __u64 rotate_left(__u64 x, int n) {
        return x << n | x >> (64 - n);
}

static __always_inline void hash_round(struct hash *h) {
        __u64 v0 = h->v[0], v1 = h->v[1], v2 = h->v[2], v3 = h->v[3];

        v0 += v1;
        v1 = rotate_left(v1, 13) ^ v0;
        v0 = rotate_left(v0, 32);
        v2 += v3;
        v3 = rotate_left(v3, 16) ^ v2;
        v0 += v3;
        v3 = rotate_left(v3, 21) ^ v0;
        v2 += v1;
        v1 = rotate_left(v1, 17) ^ v2;
        v2 = rotate_left(v2, 32);
        h->v[0] = v0;
        h->v[1] = v1;
        h->v[2] = v2;
        h->v[3] = v3;
}

static __always_inline void hash_begin(struct hash *h) {
        __u64 k0 = LEAKS(LEAK_UNKEYED) ? 0 : session_key[0], k1 = LEAKS(LEAK_UNKEYED) ? 0 : session_key[1];

        h->v[0] = k0 ^ 0x736f6d6570736575ULL;
        h->v[1] = k1 ^ 0x646f72616e646f6dULL;
        h->v[2] = k0 ^ 0x6c7967656e657261ULL;
        h->v[3] = k1 ^ 0x7465646279746573ULL;
        h->n = 0;
}

static __always_inline void hash_add(struct hash *h, __u64 word) {
        h->v[3] ^= word;
        hash_round(h);
        h->v[0] ^= word;
        h->n++;
}

/* Never 0. */
static __always_inline __u64 hash_end(struct hash *h) {
        __u64 last = h->n * 8 << 56;

        h->v[3] ^= last;
        hash_round(h);
        h->v[0] ^= last;
        h->v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                hash_round(h);
        return (h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3]) | 1;
}
