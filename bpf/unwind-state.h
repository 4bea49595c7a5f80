/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* What a walk by tables (unwind.h) has at hand, per CPU; it never leaves the helper. */

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define UNWIND_X86_64
#else
#define UNWIND_AARCH64
#endif

/* A word of the user's memory; what the kernel would have to look at twice, as a non-canonical address, is not tried. */
static __always_inline int unwind_read(__u64 *ret, __u64 address) {
        if (address >= TASK_SIZE_MAX - sizeof(*ret))
                return -1;
        return bpf_probe_read_user(ret, sizeof(*ret), (void *) address);
}

#include "unwind-step.h"

struct unwind {
        struct unwind_state state;
        union {
                struct rs_table_rule rule; /* of the current frame; a copy */
                __u64 rule_words[2];
        };
        struct rs_table_mapping mapping; /* of the last frame; a copy */
        __u64 lookup;     /* the address that a mapping is looked for */
        __u64 list;       /* where the mappings of the process begin, in bytes */
        __u64 n_list;
        __u64 signal_pc;  /* what a signal interrupted, if the frame is one that the kernel makes; else 0 */
        __u64 tgid, exec_id; /* what a stack's id begins with */
        __u32 cut;    /* the first frame that needs one and has none */
        bool used;    /* this stack was walked by tables */
        bool guessed; /* a step was made by frame pointer */
        bool hidden;  /* the first frame to be cut could not be read */
        /* As the kernel saved them, at its entry. */
#if defined(__TARGET_ARCH_x86)
        struct sample_registers entry;
#else
        struct user_pt_regs entry;
#endif
};
