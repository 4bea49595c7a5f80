/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Are the ids of stacks what somebody could compute who guesses where the kernel is?
 *
 *      leak-hash DUMP BASE STEP N PROCESSES
 *
 * For each STACK record of a ring's dump (leak-scan) that has kernel frames of the core text, and each of N bases of
 * it (BASE, BASE + STEP, ...): the frames become addresses, and hashes over them are compared with the record's id.
 * The hashes: the product's own with no key, over the frames alone and with the process's number and execs, which
 * PROCESSES tells (lines of "PID EXECS", hexadecimal), and in a session with unwind tables with the mark of the frame
 * by which the kernel was entered as a word of its own; and FNV-1a. All with the rewritten frames as well, where an id
 * that matches tells that there is no key. Prints "id PID BASE HASH" for each match, and "compared N".
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

typedef struct Hash {
        uint64_t v[4];
        uint64_t n;
} Hash;

static uint64_t rotate_left(uint64_t x, int n) {
        return x << n | x >> (64 - n);
}

/* SipHash-1-3 as bpf/hash.h has it, without a key. */
static void hash_round(Hash *h) {
        uint64_t *v = h->v;

        v[0] += v[1];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[3];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
}

static void hash_begin(Hash *h) {
        *h = (Hash){{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}, 0};
}

static void hash_add(Hash *h, uint64_t word) {
        h->v[3] ^= word;
        hash_round(h);
        h->v[0] ^= word;
        h->n++;
}

static uint64_t hash_end(Hash h) {
        uint64_t last = h.n * 8 << 56;

        h.v[3] ^= last;
        hash_round(&h);
        h.v[0] ^= last;
        h.v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                hash_round(&h);
        return (h.v[0] ^ h.v[1] ^ h.v[2] ^ h.v[3]) | 1;
}

static uint64_t fnv(const uint64_t *words, size_t n) {
        uint64_t hash = 0xcbf29ce484222325;

        for (size_t i = 0; i < n * 8; i++)
                hash = (hash ^ ((const uint8_t *) words)[i]) * 0x100000001b3;
        return hash | 1;
}

/* The longest record there is. */
typedef union Stack {
        struct rs_stack head;
        uint64_t words[sizeof(struct rs_stack) / sizeof(uint64_t) + RS_FRAMES_MAX];
} Stack;

/* By process number: execs + 1, 0: not known. */
static uint64_t execs[1 << 22];

static int read_processes(const char *path) {
        FILE *f = fopen(path, "re");
        uint64_t pid, n;

        if (!f)
                return -1;
        while (fscanf(f, "%" SCNx64 " %" SCNx64, &pid, &n) == 2)
                if (pid < sizeof(execs) / sizeof(execs[0]))
                        execs[pid] = n + 1;
        return fclose(f);
}

/* with_process: its number and execs are in it; with_mark: so is RS_FRAME_EXACT, after the frame that has it. */
static uint64_t product_hash(const Stack *stack, const uint64_t *words, size_t n, bool with_process, bool with_mark) {
        Hash h;

        hash_begin(&h);
        if (with_process) {
                hash_add(&h, stack->head.pid);
                hash_add(&h, execs[stack->head.pid] - 1);
        }
        for (size_t i = 0; i < n; i++) {
                bool marked = with_mark && i == stack->head.nr_kernel;

                hash_add(&h, marked ? words[i] & ~RS_FRAME_EXACT : words[i]);
                if (marked)
                        hash_add(&h, RS_FRAME_EXACT);
        }
        return hash_end(h);
}

static void compare(const Stack *stack, const uint64_t *words, size_t n, const char *base) {
        bool known = stack->head.pid < sizeof(execs) / sizeof(execs[0]) && execs[stack->head.pid] > 0;
        bool marked = stack->head.nr_user > 0 && stack->head.frames[stack->head.nr_kernel] & RS_FRAME_EXACT;

        for (int with_mark = 0; with_mark <= marked; with_mark++)
                for (int with_process = 0; with_process <= known; with_process++)
                        if (product_hash(stack, words, n, with_process, with_mark) == stack->head.id)
                                printf("id %u %s %s\n", stack->head.pid, base, with_process ? "process" : "frames");
        if (fnv(words, n) == stack->head.id)
                printf("id %u %s fnv\n", stack->head.pid, base);
}

/* Another base of the core text for every frame that lies in it; returns how many do. */
static size_t place(const Stack *stack, size_t n, uint64_t base, uint64_t *ret_words) {
        size_t placed = 0;

        for (size_t i = 0; i < n; i++) {
                ret_words[i] = stack->head.frames[i];
                if (stack->head.frames[i] >> 48 == RS_FRAME_KERNEL_BIT >> 48) {
                        ret_words[i] = base + (stack->head.frames[i] & RS_FRAME_OFFSET_MASK);
                        placed++;
                }
        }
        return placed;
}

int main(int argc, char *argv[]) {
        FILE *f = argc == 6 ? fopen(argv[1], "re") : NULL;
        uint64_t base, step, compared = 0;
        unsigned n_bases;
        uint32_t length;

        if (!f || read_processes(argv[5]) < 0) {
                perror("leak-hash");
                return EXIT_FAILURE;
        }
        base = strtoull(argv[2], NULL, 16);
        step = strtoull(argv[3], NULL, 16);
        n_bases = strtoul(argv[4], NULL, 10);
        while (fread(&length, sizeof(length), 1, f) == 1) {
                uint64_t words[RS_FRAMES_MAX];
                Stack stack;
                size_t n;

                if (length > sizeof(stack) || fread(&stack, 1, length, f) != length)
                        return fprintf(stderr, "leak-hash: not a dump\n"), EXIT_FAILURE;
                n = (size_t) stack.head.nr_kernel + stack.head.nr_user;
                if (stack.head.r.type != RS_RECORD_STACK || length != sizeof(stack.head) + 8 * n)
                        continue;
                compare(&stack, (const uint64_t *) stack.head.frames, n, "rewritten");
                for (unsigned i = 0; i < n_bases && place(&stack, n, base + i * step, words) > 0; i++) {
                        char text[32];

                        snprintf(text, sizeof(text), "%" PRIx64, base + i * step);
                        compare(&stack, words, n, text);
                        compared++;
                }
        }
        printf("compared %" PRIu64 "\n", compared);
        return EXIT_SUCCESS;
}
