/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * From a frame to its caller by one rule (unwind-table.h). The one source for the programs in the kernel and for the
 * walker that tests run on registers and stacks that were recorded. The includer says for which machine, by
 * UNWIND_X86_64 or UNWIND_AARCH64, and how a word of the stack is read:
 *
 *      static int unwind_read(__u64 *ret, __u64 address);      0, or the word cannot be read
 *      static int unwind_read_stack(__u64 *ret, __u64 address);      the same of one that is aligned
 *
 * and for aarch64, as UNWIND_ADDRESS_MASK, which bits of a signed return address are the address.
 *
 * Rules are hostile, and what becomes of a step is told. So that nobody can compare words of the stack with
 * what he likes, all that a step makes use of has to be near the stack pointer, and what is not ends the
 * walk, always in the same way.
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
        __u32 known;             /* bits: which of them are; all at the leaf, and for as long as none is saved */
        __u32 exact;             /* pc is the instruction that is next, not one that follows a call */
};

/* Where the kernel puts registers, from the stack pointer on, when it calls a signal handler: struct rt_sigframe. */
#if defined(UNWIND_X86_64)
#define UNWIND_SIGNAL_FP 120
#define UNWIND_SIGNAL_SP 160
#define UNWIND_SIGNAL_PC 168
#elif defined(UNWIND_AARCH64)
#define UNWIND_SIGNAL_FP 544
#define UNWIND_SIGNAL_LR 552
#define UNWIND_SIGNAL_SP 560
#define UNWIND_SIGNAL_PC 568
#endif

#define UNWIND_GOES_ON 0

/*
 * Where the rule of this frame is looked up: the call, where pc is a return address, which may be of another
 * function.
 */
static inline __attribute__((always_inline)) __u64 unwind_lookup_pc(const struct unwind_state *s) {
        return s->exact ? s->pc : s->pc - 1;
}

/* Whether a word is where a frame may have it, as far as one step sees. */
static inline __attribute__((always_inline)) bool unwind_is_near(const struct unwind_state *s, __u64 address) {
        return address - (s->regs[UNWIND_SP] - RS_TABLE_RED_ZONE) <= RS_TABLE_RED_ZONE + RS_TABLE_FRAME_MAX && (address & 7) == 0;
}

/* A word of the frame. Returns UNWIND_GOES_ON, or an enum rs_walk_end. */
static inline __attribute__((always_inline)) int unwind_read_near(const struct unwind_state *s, __u64 *ret, __u64 address) {
        if (!unwind_is_near(s, address))
                return RS_WALK_BAD_CFA;
        return unwind_read_stack(ret, address) == 0 ? UNWIND_GOES_ON : RS_WALK_UNREADABLE;
}

/* To what a signal interrupted. It may have come on a stack of its own: nothing is known of where the other one is. */
static inline __attribute__((always_inline)) int unwind_step_signal(struct unwind_state *s) {
        const __u64 frame = s->regs[UNWIND_SP];

        if (unwind_read(&s->pc, frame + UNWIND_SIGNAL_PC) != 0 || unwind_read(&s->regs[UNWIND_SP], frame + UNWIND_SIGNAL_SP) != 0 ||
            unwind_read(&s->regs[UNWIND_FP], frame + UNWIND_SIGNAL_FP) != 0)
                return RS_WALK_UNREADABLE;
        s->known = UNWIND_KNOWN(UNWIND_SP) | UNWIND_KNOWN(UNWIND_FP);
#ifdef UNWIND_LR
        /* What was interrupted may not have saved its return address. */
        if (unwind_read(&s->regs[UNWIND_LR], frame + UNWIND_SIGNAL_LR) != 0)
                return RS_WALK_UNREADABLE;
        s->known |= UNWIND_KNOWN(UNWIND_LR);
#endif
        s->exact = true;
        return UNWIND_GOES_ON;
}

/*
 * Whether the chain ends where no rule says that it does: by a frame pointer of 0, which is what an ABI has
 * beside a return address that is none. A word alone is no sign, least of all a 0: that is what walks that
 * went astray find first.
 */
static inline __attribute__((always_inline)) bool unwind_is_marked(const struct unwind_state *s) {
        return (s->known & UNWIND_KNOWN(UNWIND_FP)) && s->regs[UNWIND_FP] == 0;
}

/* The first frame of all, of which a rule says that nothing has called it. */
static inline __attribute__((always_inline)) bool unwind_is_first_by(const struct rs_table_rule *rule) {
        return rule->cfa != RS_CFA_NONE && (rule->ra & RS_RULE_REG_MASK) == RS_REG_UNDEFINED;
}

/*
 * rule: a copy that nobody else writes. Returns UNWIND_GOES_ON, or an enum rs_walk_end; s is the caller's, or
 * of no use.
 */
static inline __attribute__((always_inline)) int unwind_step(struct unwind_state *s, const struct rs_table_rule *rule) {
        const __u32 reg = rule->reg & (UNWIND_REGS - 1), how = rule->ra & RS_RULE_REG_MASK;
        const __u64 base = s->regs[reg], sp = s->regs[UNWIND_SP];
        __u64 cfa = base + (__s64) rule->cfa_offset, fp = s->regs[UNWIND_FP];
        /* All ones, or 0. No branch, each side of which the verifier would follow. */
        const __u32 kept = (rule->ra / RS_RULE_SAVES & 1) - 1U;
        __u32 known = UNWIND_KNOWN(UNWIND_SP) | (s->known & (kept | UNWIND_KNOWN(UNWIND_FP)));
#ifdef UNWIND_LR
        const bool has_lr = s->known & UNWIND_KNOWN(UNWIND_LR);
        __u64 ra = s->regs[UNWIND_LR];
#else
        const bool has_lr = false;
        __u64 ra = 0;
#endif
        int r;

        if (rule->cfa == RS_CFA_NONE)
                return RS_WALK_NO_RULE;
        if (unwind_is_first_by(rule))
                return RS_WALK_COMPLETE;
        if (rule->ra & RS_RULE_SIGNAL)
                return unwind_step_signal(s);
        if (rule->cfa >= RS_CFA_UNKNOWN || !(s->known & UNWIND_KNOWN(reg)) || (how == RS_REG_SAME && !has_lr))
                return RS_WALK_UNSUPPORTED;
        /* Offsets reach further than a frame does. */
        if (!unwind_is_near(s, base & ~7ULL))
                return RS_WALK_BAD_CFA;
        if (rule->cfa == RS_CFA_PLT && (s->pc & 15) >= 11)
                cfa += 8;
        if (rule->cfa == RS_CFA_DEREF || rule->cfa == RS_CFA_DEREF_8) {
                r = unwind_read_near(s, &cfa, cfa);
                if (r != UNWIND_GOES_ON)
                        return r;
                if (rule->cfa == RS_CFA_DEREF_8)
                        cfa += 8;
        }
        /* With a return address in a register what has pushed nothing has its caller's stack pointer. */
        if (cfa - sp - 1 >= RS_TABLE_FRAME_MAX && !(has_lr && cfa == sp))
                return RS_WALK_BAD_CFA;

        /* The return address last: it is above, nearer to what the next step reads. */
        if (rule->fp == RS_REG_AT_CFA || rule->fp == RS_REG_AT_BASE) {
                r = unwind_read_near(s, &fp, (rule->fp == RS_REG_AT_CFA ? cfa : base) + (__s64) rule->fp_offset);
                if (r != UNWIND_GOES_ON)
                        return r;
                known |= UNWIND_KNOWN(UNWIND_FP);
        } else if (rule->fp != RS_REG_SAME)
                known &= ~UNWIND_KNOWN(UNWIND_FP);
        if (how != RS_REG_SAME) {
                r = unwind_read_near(s, &ra, (how == RS_REG_AT_CFA ? cfa : base) + (__s64) rule->ra_offset);
                if (r != UNWIND_GOES_ON)
                        return r;
        }
#ifdef UNWIND_LR
        /* What it had before it called is on the stack, or lost. */
        known &= ~UNWIND_KNOWN(UNWIND_LR);
        /* The signature is above the bits of an address. */
        if (rule->ra & RS_RULE_PAC)
                ra &= UNWIND_ADDRESS_MASK;
#endif
        s->pc = ra;
        s->regs[UNWIND_SP] = cfa;
        s->regs[UNWIND_FP] = fp;
        s->known = known;
        s->exact = false;
        if (ra != 0)
                return UNWIND_GOES_ON;
        return unwind_is_marked(s) ? RS_WALK_COMPLETE : RS_WALK_BAD_RETURN;
}
