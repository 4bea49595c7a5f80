/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * From a frame to its caller by one rule (unwind-table.h). The one source for the programs in the kernel and for the
 * walker that tests run on registers and stacks that were recorded. The includer says for which machine, by
 * UNWIND_X86_64 or UNWIND_AARCH64, and how a word of the stack is read:
 *
 *      static int unwind_read(__u64 *ret, __u64 address);      0, or the word cannot be read
 */

#include "unwind-table.h"

/* Numbers of DWARF. */
#if defined(UNWIND_X86_64)
#define UNWIND_FP 6
#define UNWIND_SP 7
#elif defined(UNWIND_AARCH64)
#define UNWIND_FP 29
#define UNWIND_LR 30
#define UNWIND_SP 31
#endif
#define UNWIND_REGS 32
#define UNWIND_KNOWN(reg) (1ULL << (reg))

struct unwind_state {
        __u64 pc;
        __u64 regs[UNWIND_REGS]; /* by number */
        __u32 known;             /* bits: which of them are; all at the leaf */
        __u32 exact;             /* pc is the instruction that is next, not one that follows a call */
};

#define UNWIND_GOES_ON 0

/* Where the rule of this frame is looked up: the call, where pc is a return address, which may be of another function. */
static inline __attribute__((always_inline)) __u64 unwind_lookup_pc(const struct unwind_state *s) {
        return s->exact ? s->pc : s->pc - 1;
}

/* rule: a copy that nobody else writes. Returns UNWIND_GOES_ON, or an enum rs_walk_end; s is the caller's, or of no use. */
static inline __attribute__((always_inline)) int unwind_step(struct unwind_state *s, const struct rs_table_rule *rule) {
        const __u32 reg = rule->reg & (UNWIND_REGS - 1);
        const __u64 base = s->regs[reg], sp = s->regs[UNWIND_SP];
        const bool is_signal = rule->ra & RS_RULE_SIGNAL;
        __u64 cfa = base + (__s64) rule->cfa_offset, ra, fp = s->regs[UNWIND_FP];
        __u32 known = UNWIND_KNOWN(UNWIND_SP) | (s->known & UNWIND_KNOWN(UNWIND_FP));

        if (rule->cfa == RS_CFA_NONE)
                return RS_WALK_NO_RULE;
        if ((rule->ra & RS_RULE_REG_MASK) == RS_REG_UNDEFINED)
                return RS_WALK_COMPLETE;
        if (rule->cfa >= RS_CFA_UNKNOWN || !(s->known & UNWIND_KNOWN(reg)))
                return RS_WALK_UNSUPPORTED;
        if (rule->cfa == RS_CFA_PLT && (s->pc & 15) >= 11)
                cfa += 8;
        if (rule->cfa == RS_CFA_DEREF || rule->cfa == RS_CFA_DEREF_8) {
                if (unwind_read(&cfa, cfa) != 0)
                        return RS_WALK_UNREADABLE;
                if (rule->cfa == RS_CFA_DEREF_8)
                        cfa += 8;
        }

        if ((rule->ra & RS_RULE_REG_MASK) == RS_REG_SAME) {
#ifdef UNWIND_LR
                if (!(s->known & UNWIND_KNOWN(UNWIND_LR)))
                        return RS_WALK_UNSUPPORTED;
                ra = s->regs[UNWIND_LR];
#else
                return RS_WALK_UNSUPPORTED;
#endif
        } else if (unwind_read(&ra, ((rule->ra & RS_RULE_REG_MASK) == RS_REG_AT_CFA ? cfa : base) + (__s64) rule->ra_offset) != 0)
                return RS_WALK_UNREADABLE;

        if (rule->fp == RS_REG_AT_CFA || rule->fp == RS_REG_AT_BASE) {
                if (unwind_read(&fp, (rule->fp == RS_REG_AT_CFA ? cfa : base) + (__s64) rule->fp_offset) != 0)
                        return RS_WALK_UNREADABLE;
                known |= UNWIND_KNOWN(UNWIND_FP);
        } else if (rule->fp != RS_REG_SAME)
                known &= ~UNWIND_KNOWN(UNWIND_FP);

#ifdef UNWIND_LR
        /* Its signal frame has all registers, in order. What was interrupted may not have saved its return address. */
        if (is_signal) {
                if (unwind_read(&s->regs[UNWIND_LR], base + (__s64) rule->fp_offset + 8) != 0)
                        return RS_WALK_UNREADABLE;
                known |= UNWIND_KNOWN(UNWIND_LR);
        }
        /* The signature is above the bits of an address. */
        if (rule->ra & RS_RULE_PAC)
                ra &= (1ULL << 48) - 1;
        /* What has pushed nothing has its caller's stack pointer. */
        if (!is_signal && (cfa < sp || (cfa == sp && !(s->known & UNWIND_KNOWN(UNWIND_LR)))))
                return RS_WALK_BAD_CFA;
#else
        if (!is_signal && cfa <= sp)
                return RS_WALK_BAD_CFA;
#endif
        /* A signal may have come on a stack of its own: nothing is known of where the other one is. */
        s->pc = ra;
        s->regs[UNWIND_SP] = cfa;
        s->regs[UNWIND_FP] = fp;
        s->known = known;
        s->exact = is_signal;
        return ra == 0 ? RS_WALK_COMPLETE : UNWIND_GOES_ON;
}
