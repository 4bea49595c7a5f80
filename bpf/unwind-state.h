/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* What a walk by tables (unwind.h) has at hand, per CPU; it never leaves the helper. */

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define UNWIND_X86_64
#else
#define UNWIND_AARCH64
#endif

/* Set before the programs are loaded: the bits of a user's address, as the kernel was built and the machine is. */
const volatile __u64 user_address_bits = USER_ADDRESS_MASK;
#define UNWIND_ADDRESS_MASK user_address_bits

/*
 * Of the user's memory. Tables choose the address: so it is not only tested but masked, for a processor that speculates
 * does not wait for a test. What the kernel would have to look at twice, as a non-canonical address, is not tried.
 */
static __always_inline int unwind_read_bytes(void *ret, __u32 size, __u64 address) {
        __u64 mask = USER_ADDRESS_MASK;

        if (address > TASK_SIZE_MAX - size)
                return -1;
        asm volatile("%0 &= %1" : "+r"(address) : "r"(mask));
        return bpf_probe_read_user(ret, size, (void *) address);
}

static __always_inline int unwind_read(__u64 *ret, __u64 address) {
        return unwind_read_bytes(ret, sizeof(*ret), address);
}

/* The same of an aligned word of the stack; most come together with one that was read before (unwind.h). */
static int unwind_read_stack(__u64 *ret, __u64 address);

/* Of the stack that is walked (unwind.h). */
int unwind_read_part(__u64 address);

#include "unwind-part.h"
#include "unwind-step.h"

struct unwind {
        struct unwind_state state;
        union {
                struct rs_table_rule rule; /* of the current frame; a copy */
                __u64 rule_words[2];
        };
        struct rs_table_mapping mapping; /* of the last frame; a copy */
        __u64 lookup;     /* the address that a mapping is looked for, or a page, or a row */
        __u64 page[2];    /* as in the tables; and nothing */
        struct unwind_part part; /* of the stack */
        __u64 list;       /* where the mappings of the process begin, in bytes */
        __u64 n_list;
        __u64 key;        /* of the process, and of this list of its mappings */
        __u64 ask;        /* what ended the walk, where it is not known what is mapped there; 0: it is */
        __u32 n_signals;   /* signal frames so far */
        __u32 n_jumps;     /* steps by frame pointer to another stack, so far */
        __u32 guessed_at;  /* the first frame that was found by frame pointer; NOT_GUESSED */
        bool used;         /* this stack was walked by tables, or as tables say: */
        bool by_fp;        /* by frame pointers */
        bool entered;      /* its first frame is where the kernel was entered */
        bool first;        /* of the frames: where it was interrupted, or entered the kernel */
        bool untold;       /* a step has found it, and nobody has looked whether it may be told */
        /* As the kernel saved them, at its entry. */
#if defined(__TARGET_ARCH_x86)
        struct sample_registers entry;
#else
        struct user_pt_regs entry;
#endif
};
