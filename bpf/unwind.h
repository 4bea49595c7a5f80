/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The walk over a user stack by the client's tables (unwind-lookup.h), for programs without frame pointers.
 *
 * What the tables choose is which words of the stack are read. Of these only return addresses are told: those
 * that a call stands before. What a signal interrupted is no return address; it is told where the frame looks
 * like one that the kernel has made, and both it and where the handler returns to are in what is executable.
 * A word that is neither ends the walk; nothing is looked for in the tables that is not the address of
 * something executable.
 */

#include "kernel.h"
#include "mapping.h"
#include "repeat.h"
#include "unwind-lookup.h"
#include "walk.h"

/* ---- what is a return address ---- */

/* Whether an address may be told. */
_Static_assert(CALL_NONE == MAPPING_IS_NO_CODE && CALL_BEFORE == MAPPING_IS_CODE && CALL_UNREADABLE == MAPPING_UNREADABLE,
               "one answer, whatever was asked");

#if defined(__TARGET_ARCH_x86)
#define CALL_SIZE_MAX 7
#define CODE_ALIGNMENT 1
/* The byte that many before the address; code holds the last eight. */
#define CODE_BEFORE(code, n) ((code) >> (64 - 8 * (n)) & 0xff)

/* call rel32 (e8), or call r/m64 (ff /2), of 2, 3, 4, 6 or 7 bytes; prefixes stand before these. */
static __always_inline bool code_is_call(__u64 code) {
        __u32 modrm;

        if (CODE_BEFORE(code, 5) == 0xe8)
                return true;
        modrm = CODE_BEFORE(code, 1);
        if (CODE_BEFORE(code, 2) == 0xff && ((modrm & 0xf8) == 0xd0 || ((modrm & 0xf8) == 0x10 && modrm != 0x14 && modrm != 0x15)))
                return true;
        modrm = CODE_BEFORE(code, 2);
        if (CODE_BEFORE(code, 3) == 0xff &&
            (((modrm & 0xf8) == 0x50 && modrm != 0x54) || (modrm == 0x14 && (CODE_BEFORE(code, 1) & 7) != 5)))
                return true;
        if (CODE_BEFORE(code, 4) == 0xff && CODE_BEFORE(code, 3) == 0x54)
                return true;
        modrm = CODE_BEFORE(code, 5);
        if (CODE_BEFORE(code, 6) == 0xff && (((modrm & 0xf8) == 0x90 && modrm != 0x94) || modrm == 0x15))
                return true;
        modrm = CODE_BEFORE(code, 6);
        return CODE_BEFORE(code, 7) == 0xff && (modrm == 0x94 || (modrm == 0x14 && (CODE_BEFORE(code, 5) & 7) == 5));
}

#else
#define CALL_SIZE_MAX 4
#define CODE_ALIGNMENT 4

/* bl, blr, and blr with pointer authentication. */
static __always_inline bool code_is_call(__u64 code) {
        __u32 instruction = code >> 32;

        return (instruction & 0xfc000000) == 0x94000000 || (instruction & 0xfffffc1f) == 0xd63f0000 ||
               (instruction & 0xfefff800) == 0xd63f0800;
}
#endif

__noinline int call_before(__u64 address) {
        __u64 code = 0;
        __u32 n;

        if (address < CODE_ADDRESS_MIN || address >= TASK_SIZE_MAX || address % CODE_ALIGNMENT != 0)
                return CALL_NONE;
        if (unwind_read_bytes(&code, CALL_SIZE_MAX, address - CALL_SIZE_MAX) == 0)
                return code_is_call(code << (64 - 8 * CALL_SIZE_MAX)) ? CALL_BEFORE : CALL_NONE;
        /* The page before may not be there; the call can be in this one. */
        n = address & (PAGE_SIZE_MIN - 1);
        if (n == 0 || n >= CALL_SIZE_MAX)
                return CALL_UNREADABLE;
        code = 0;
        if (unwind_read_bytes(&code, n, address - n) != 0)
                return CALL_UNREADABLE;
        return code_is_call(code << (64 - 8 * n)) ? CALL_BEFORE : CALL_UNREADABLE;
}

/*
 * Before a step out of a signal frame: whether this is what the kernel has made. Whatever program has it in
 * its memory can have made it up; so where the code is must be executable, too, before anything of it is told
 * (unwind_without_call()). Returns UNWIND_GOES_ON, or an enum rs_walk_end. The first frame may be anywhere in
 * the code that returns.
 */
#define SIGNAL_FRAMES_MAX 4

#if defined(__TARGET_ARCH_x86)
/*
 * struct rt_sigframe: the address of the code that returns, then the context; and that code, mov $15, %rax or
 * %eax; syscall.
 */
#define SIGNAL_LINK_AT 8
#define SIGNAL_CS_AT 184
#define SIGNAL_CODE_SIZE 9
#define USER_CS 0x33

static __always_inline bool code_returns(__u64 code) {
        return code == 0x0f0000000fc0c748ULL || (code & 0xffffffffffffffULL) == 0x050f0000000fb8ULL;
}

__noinline int unwind_look_at_signal(void) {
        struct scratch *s = scratch_get();
        __u64 sp, returns, code, link, cs, within;

        if (!has_tables || !s)
                return RS_WALK_UNSUPPORTED;
        sp = s->unwind.state.regs[UNWIND_SP];
        if (unwind_read(&returns, sp - sizeof(returns)) != 0 || unwind_read(&code, returns) != 0 ||
            unwind_read(&link, sp + SIGNAL_LINK_AT) != 0 || unwind_read(&cs, sp + SIGNAL_CS_AT) != 0)
                return RS_WALK_UNREADABLE;
        within = s->unwind.first ? SIGNAL_CODE_SIZE : 0;
        return s->unwind.state.pc - returns <= within && code_returns(code) && link == 0 && (__u16) cs == USER_CS
                       ? UNWIND_GOES_ON
                       : RS_WALK_UNSUPPORTED;
}
#else
/*
 * struct rt_sigframe: siginfo, then the context, whose first record is of the vector unit; and the code, in
 * the vdso: mov x8, #139; svc #0.
 */
#define SIGNAL_PSTATE_AT 576
#define SIGNAL_RECORD_AT 592
#define SIGNAL_RECORD 0x0000021046508001ULL /* FPSIMD_MAGIC, and its size */
#define SIGNAL_CODE 0xd4000001d2801168ULL

__noinline int unwind_look_at_signal(void) {
        struct scratch *s = scratch_get();
        __u64 sp, pc, code, record, pstate;

        if (!has_tables || !s)
                return RS_WALK_UNSUPPORTED;
        sp = s->unwind.state.regs[UNWIND_SP];
        pc = s->unwind.state.pc;
        /* Where it is in the system call the address is of what follows. */
        if (s->unwind.first)
                pc -= s->unwind.entered ? 8 : 4 * (unwind_read(&code, pc) != 0 || code != SIGNAL_CODE);
        if (unwind_read(&code, pc) != 0 || unwind_read(&pstate, sp + SIGNAL_PSTATE_AT) != 0 ||
            unwind_read(&record, sp + SIGNAL_RECORD_AT) != 0)
                return RS_WALK_UNREADABLE;
        return code == SIGNAL_CODE && (pstate & 0xf) == 0 && record == SIGNAL_RECORD ? UNWIND_GOES_ON : RS_WALK_UNSUPPORTED;
}
#endif

/* ---- the walk ---- */

/* A function of its own: most words are in the last part. */
__noinline int unwind_read_part(__u64 address) {
        struct scratch *s = scratch_get();

        return has_tables && s ? unwind_part_fill(&s->unwind.part, address) : -1;
}

static __always_inline int unwind_read_stack(__u64 *ret, __u64 address) {
        struct scratch *s = scratch_get();

        return s ? unwind_part_read(&s->unwind.part, ret, address) : -1;
}

/*
 * How often each kind of rule was followed, and how long samples took, for a test that spoils them; no
 * product is built with it.
 */
#if defined(RINGSIDE_COUNT_RULES)
__u64 rule_hits[32] = {};

static __always_inline void rule_count(const struct rs_table_rule *rule) {
        rule_hits[rule->cfa > RS_CFA_UNKNOWN ? RS_CFA_UNKNOWN : rule->cfa & 7]++;
        rule_hits[8 + (rule->fp & 3)]++;
        rule_hits[12 + (rule->ra & 3)]++;
        rule_hits[16 + (rule->ra >> 7)]++;
        rule_hits[18 + (rule->ra >> 5 & 1)]++;
}

/* Samples by the highest bit of what they took, ns. */
__u64 sample_times[64] = {};

static __always_inline __u64 sample_clock(void) {
        return bpf_ktime_get_ns();
}

static __always_inline void sample_count(__u64 began) {
        __u64 ns = bpf_ktime_get_ns() - began;
        __u32 bit = 0;

#pragma unroll
        for (__u32 shift = 32; shift > 0; shift /= 2) {
                __u32 more = ns >> shift != 0 ? shift : 0;

                ns >>= more;
                bit += more;
        }
        __sync_fetch_and_add(&sample_times[bit & 63], 1);
}
#else
static __always_inline __u64 sample_clock(void) {
        return 0;
}

static __always_inline void sample_count(__u64 began) {
}

static __always_inline void rule_count(const struct rs_table_rule *rule) {
}
#endif

/*
 * Whether what no call stands before is in something executable. Where that is not known it is asked for,
 * after the walk.
 */
static __always_inline int unwind_is_code(struct unwind *u, __u64 address) {
        int is_code = mapping_is_code(address);

        if (is_code == MAPPING_UNREADABLE)
                u->ask = address;
        return is_code;
}

/*
 * Whether this is what goroutines are made to return to: runtime.goexit, after its first instruction, which
 * does nothing, and before its second, a call. As much is asked of it as of a return address.
 */
static __always_inline bool begins_goroutine(__u64 address) {
        __u64 code = 0;

        if (address < CODE_ADDRESS_MIN || address >= TASK_SIZE_MAX || address % CODE_ALIGNMENT != 0)
                return false;
#if defined(__TARGET_ARCH_x86)
        return unwind_read_bytes(&code, 2, address - 1) == 0 && code == 0xe890; /* nop; call */
#else
        /* mov x0, x0; bl */
        return unwind_read_bytes(&code, 8, address - 4) == 0 && (__u32) code == 0xaa0003e0 && code >> 58 == 0x25;
#endif
}

/*
 * Whether this is in what Go's threads begin with, and the stacks that its scheduler runs on: runtime.mstart,
 * which is a call and the return that it never comes to. Its frame pointer is of whoever made the thread, on
 * the stack of another, where by now may be anything.
 */
static __always_inline bool begins_thread(__u64 address) {
#if defined(__TARGET_ARCH_x86)
        __u64 code = 0;

        /* int3, call, ret, int3: functions are aligned, and that is what is between them. */
        return address % 32 == 5 && unwind_read_bytes(&code, sizeof(code), address - 6) == 0 &&
               (code & 0xffff00000000ffffULL) == 0xccc300000000e8ccULL;
#else
        return false; /* with a frame of its own it looks like others */
#endif
}

#define NOT_GUESSED (RS_FRAMES_MAX + 1)
/* How far a frame may be from the one inside it, bytes, for a frame pointer to be believed where no rule says so. */
#define GUESS_DISTANCE_MAX (1ULL << 20)
/*
 * Go runs its scheduler on stacks of its own, and keeps the chain. But for the first frame's, so many may go
 * elsewhere.
 */
#define GUESS_JUMPS_MAX 2

#define GUESS_NONE 0
#define GUESS_STEP 1
#define GUESS_END 2

/*
 * A step by frame pointer, if it looks like one; GUESS_NONE: nothing was done. GUESS_END: there were such
 * steps, and they have come to a frame pointer of 0, as a chain's end is marked; or to one that is saved
 * beside where a goroutine begins; or to where a thread of Go's does.
 */
__noinline int unwind_guess(void) {
        struct scratch *s = scratch_get();
        struct unwind_state *state;
        __u64 fp, pair[2];
        bool far;

        if (!has_tables || !s)
                return GUESS_NONE;
        state = &s->unwind.state;
        fp = state->regs[UNWIND_FP];
        far = fp - state->regs[UNWIND_SP] > GUESS_DISTANCE_MAX;
        if (s->unwind.guessed_at != NOT_GUESSED &&
            (unwind_is_marked(state) || (!state->exact && begins_thread(state->pc))))
                return GUESS_END;
        /* Go does not keep the alignment that C has. */
        if (!(state->known & UNWIND_KNOWN(UNWIND_FP)) || (fp & 7) != 0 ||
            (far && (s->unwind.first || s->unwind.n_jumps >= GUESS_JUMPS_MAX)) ||
            unwind_read_bytes(pair, sizeof(pair), fp) != 0)
                return GUESS_NONE;
#if defined(__TARGET_ARCH_arm64)
        pair[1] &= UNWIND_ADDRESS_MASK;
#endif
        if (!unwind_recall(&s->unwind, pair[1], s->unwind.rule_words)) {
                if (call_before(pair[1]) != CALL_BEFORE)
                        return pair[0] == 0 && s->unwind.guessed_at != NOT_GUESSED && begins_goroutine(pair[1]) ? GUESS_END
                                                                                                          : GUESS_NONE;
                s->unwind.lookup = pair[1] - 1;
                if (!unwind_find_mapping())
                        return GUESS_NONE;
        }
        state->pc = pair[1];
        state->regs[UNWIND_FP] = pair[0];
        state->regs[UNWIND_SP] = fp + sizeof(pair);
        state->known = UNWIND_KNOWN(UNWIND_FP);
#if defined(__TARGET_ARCH_x86)
        state->known |= UNWIND_KNOWN(UNWIND_SP);
#endif
        state->exact = false;
        s->unwind.n_jumps += far;
        if (s->unwind.guessed_at == NOT_GUESSED) {
                s->unwind.guessed_at = s->walk.n;
                hash_add(&s->walk.hash, 1); /* no frame is: the same frames without a guess have another id */
        }
        return GUESS_STEP;
}

/*
 * Of a word that nothing has called, how the walk goes on: from what a signal's handler returns to; or it is
 * at its end, where a rule says that it is the first frame of all, and where goroutines begin; or, with a
 * frame pointer of 0, where a function begins and no rule covers what is before it. So coroutines begin,
 * whose first function returns to what was put there for it, which is not told. Without that it is any
 * function's address, and stacks are full of these.
 */
__noinline int unwind_without_call(void) {
        struct scratch *s = scratch_get();
        struct unwind *u;
        int end, is_code;

        if (!has_tables || !s)
                return RS_WALK_NO_CALL;
        u = &s->unwind;
        is_code = unwind_is_code(u, u->state.pc);
        if (is_code != CALL_BEFORE)
                return is_code == CALL_NONE ? RS_WALK_NO_CALL : RS_WALK_NO_MAPPING;
        end = unwind_find_rule();
        if (end == UNWIND_GOES_ON) {
                if (u->rule.ra & RS_RULE_SIGNAL)
                        return UNWIND_GOES_ON;
                return unwind_is_first_by(&u->rule) || begins_goroutine(u->state.pc) ? RS_WALK_COMPLETE : RS_WALK_NO_CALL;
        }
        u->lookup = u->state.pc;
        return end == RS_WALK_NO_RULE && unwind_is_marked(&u->state) && unwind_find_page() == UNWIND_GOES_ON &&
                               unwind_find_row(u) != 0
                       ? RS_WALK_COMPLETE
                       : RS_WALK_NO_CALL;
}

/*
 * What the last step has found: tells it, if that may be, and finds its rule. Returns UNWIND_GOES_ON, or an
 * enum rs_walk_end.
 */
static __always_inline int unwind_tell(struct scratch *s, struct unwind *u) {
        const __u64 pc = u->state.pc;
        int end, may_be;

        /* Whatever the address is. */
        if (s->walk.n >= s->walk.max)
                return RS_WALK_DEPTH;
        if (pc < CODE_ADDRESS_MIN || pc >= TASK_SIZE_MAX)
                return RS_WALK_NO_CALL;
        if (!u->state.exact && unwind_recall(u, pc, u->rule_words)) {
                /* A call stands before it, or did when it was looked at. */
                u->untold = false;
                walk_push(s, pc);
                return UNWIND_GOES_ON;
        }
        may_be = u->state.exact ? unwind_is_code(u, pc) : call_before(pc);
        if (may_be == CALL_UNREADABLE) {
                /* The page is not in memory, or there is none. */
                if (!u->state.exact)
                        may_be = unwind_is_code(u, pc);
                return may_be == MAPPING_IS_CODE ? RS_WALK_UNREADABLE : RS_WALK_NO_MAPPING;
        }
        if (may_be == CALL_BEFORE) {
                u->untold = false;
                walk_push(s, u->state.exact ? pc | RS_FRAME_EXACT : pc);
                end = unwind_find_rule();
                if (end == RS_WALK_NO_RULE)
                        u->rule_words[0] = u->rule_words[1] = 0; /* RS_CFA_NONE */
                if ((end == UNWIND_GOES_ON || end == RS_WALK_NO_RULE) && !u->state.exact)
                        unwind_remember(u, pc, u->rule_words);
                return end;
        }
        return u->state.exact ? RS_WALK_NO_CALL : unwind_without_call();
}

/* Before a step out of a signal frame. Of where its handler returns to, which nothing has called, only now is told. */
static __always_inline int unwind_leave_handler(struct scratch *s, struct unwind *u) {
        int end = u->n_signals++ < SIGNAL_FRAMES_MAX ? unwind_look_at_signal() : RS_WALK_UNSUPPORTED;

        if (end != UNWIND_GOES_ON)
                return u->untold && end != RS_WALK_UNREADABLE ? RS_WALK_NO_CALL : end;
        if (u->untold)
                walk_push(s, u->state.pc | RS_FRAME_EXACT);
        else if (s->walk.n > s->walk.nr_kernel)
                walk_mark_exact(s, s->walk.n - 1);
        u->untold = false;
        return UNWIND_GOES_ON;
}

/* One frame. */
static __always_inline int unwind_frame(void) {
        struct scratch *s = scratch_get();
        struct unwind *u;
        int end, guess;

        if (!has_tables || !s)
                return STEP_ENDED;
        u = &s->unwind;
        end = u->untold ? unwind_tell(s, u) : unwind_find_rule();
        if (end == UNWIND_GOES_ON) {
                rule_count(&u->rule);
                if (u->rule.ra & RS_RULE_SIGNAL)
                        end = unwind_leave_handler(s, u);
                if (end == UNWIND_GOES_ON)
                        end = unwind_step(&u->state, &u->rule);
        }
        if (!u->untold && (end == RS_WALK_NO_MAPPING || end == RS_WALK_NO_RULE || end == RS_WALK_UNSUPPORTED)) {
                guess = unwind_guess();
                if (guess != GUESS_NONE)
                        end = guess == GUESS_STEP ? UNWIND_GOES_ON : RS_WALK_COMPLETE;
        }
        if (end != UNWIND_GOES_ON) {
                /*
                 * What Go's threads begin with has been called by the function that makes them, and that by nobody. These
                 * are two frames of the user's. One with RS_FRAME_EXACT, which is above all addresses, is no such call's.
                 */
                if (end == RS_WALK_BAD_RETURN && s->walk.n > s->walk.nr_kernel + 1 &&
                    begins_thread(s->frames[(s->walk.n - 2) & RS_FRAMES_MAX]))
                        end = RS_WALK_COMPLETE;
                s->walk.end = end;
                return STEP_ENDED;
        }
        u->first = false;
        u->untold = true;
        return STEP_GOES_ON;
}

/* The first frame is not told, and one more is found than may be: then it is the depth that ends the walk. */
#define UNWIND_TURNS_MAX (RS_FRAMES_MAX + 2)

/* With all of it within, for calls and returns are a good part of what a frame costs. */
static long unwind_turn(__u32 i, void *unused) {
        return unwind_frame() == STEP_ENDED ? TURN_IS_LAST : TURN_GOES_ON;
}

#if defined(__TARGET_ARCH_x86)
/* Those of DWARF, from the structs of perf_event programs and of the kernel, which have the same names. */
#define UNWIND_TAKE_REGISTERS(state, from)                                                                             \
        do {                                                                                                           \
                (state)->regs[0] = (from)->ax;                                                                         \
                (state)->regs[1] = (from)->dx;                                                                         \
                (state)->regs[2] = (from)->cx;                                                                         \
                (state)->regs[3] = (from)->bx;                                                                         \
                (state)->regs[4] = (from)->si;                                                                         \
                (state)->regs[5] = (from)->di;                                                                         \
                (state)->regs[6] = (from)->bp;                                                                         \
                (state)->regs[7] = (from)->sp;                                                                         \
                (state)->regs[8] = (from)->r8;                                                                         \
                (state)->regs[9] = (from)->r9;                                                                         \
                (state)->regs[10] = (from)->r10;                                                                       \
                (state)->regs[11] = (from)->r11;                                                                       \
                (state)->regs[12] = (from)->r12;                                                                       \
                (state)->regs[13] = (from)->r13;                                                                       \
                (state)->regs[14] = (from)->r14;                                                                       \
                (state)->regs[15] = (from)->r15;                                                                       \
                (state)->pc = (from)->ip;                                                                              \
        } while (0)
#define UNWIND_REGISTERS_KNOWN 0xffffU
#define UNWIND_CONTEXT(ctx) (ctx)
#else
#define UNWIND_TAKE_REGISTERS(state, from)                                                                             \
        do {                                                                                                           \
                _Pragma("unroll") for (int r = 0; r < 31; r++) (state)->regs[r] = (from)->regs[r];                     \
                (state)->regs[31] = (from)->sp;                                                                        \
                (state)->pc = (from)->pc;                                                                              \
        } while (0)
#define UNWIND_REGISTERS_KNOWN 0xffffffffU
#define UNWIND_CONTEXT(ctx) (&(ctx)->regs)
#endif

/*
 * The registers with which the kernel was entered. In a system call the instruction that follows it is next,
 * so that it is looked up like a return address; else what was interrupted is run again. A function of its
 * own, lest the compiler make one of this and of what reads the context of the program, which the verifier
 * would not have.
 */
__noinline int unwind_take_entry(void) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct pt_regs *regs = (void *) bpf_task_pt_regs(task);
        struct scratch *s = scratch_get();
        struct unwind *u;

        if (!has_tables || !s)
                return false;
        u = &s->unwind;
        /* The layout is user API, as that of the programs' context is. */
        if (bpf_probe_read_kernel(&u->entry, sizeof(u->entry), regs) != 0)
                return false;
        UNWIND_TAKE_REGISTERS(&u->state, &u->entry);
#if defined(__TARGET_ARCH_x86)
        u->state.exact = (__s64) u->entry.orig_ax < 0;
#else
        __s32 number;

        if (READ_FAILS(number, regs->syscallno))
                return false;
        u->state.exact = number < 0;
#endif
        return true;
}

/* Goes on from what walk_prepare() has put into the scratch. */
static __always_inline void unwind_walk(struct scratch *s, struct sample_context *ctx, struct task_struct *task, __u32 pid,
                                        __u64 start) {
        struct unwind *u = &s->unwind;

        if (!reads_user_memory) {
                s->walk.end = s->walk.n >= s->walk.max ? RS_WALK_DEPTH : RS_WALK_UNREADABLE;
                return;
        }
        u->used = true;
        u->by_fp = false;
        u->entered = !CONTEXT_IS_USER(ctx);
        u->n_signals = 0;
        u->n_jumps = 0;
        u->first = true;
        u->untold = false;
        u->ask = 0;
        u->mapping.start = u->mapping.end = 0;
        u->part.at = UNWIND_NO_PART;
        u->state.known = UNWIND_REGISTERS_KNOWN;
        if (CONTEXT_IS_USER(ctx)) {
                UNWIND_TAKE_REGISTERS(&u->state, UNWIND_CONTEXT(ctx));
                u->state.exact = true;
        } else {
                /* The only frame of the user's so far is where it entered the kernel. */
                walk_mark_exact(s, s->walk.nr_kernel);
                if (!unwind_take_entry()) {
                        s->walk.end = RS_WALK_UNREADABLE;
                        return;
                }
        }
        if (!unwind_find_list(u, task, pid, start))
                s->walk.end = RS_WALK_NO_TABLES;
        else if (u->by_fp) {
                s->walk.proves = true;
                walk_frame_pointers(s);
        } else {
                repeat(UNWIND_TURNS_MAX, unwind_turn, 0);
                /* Not within the loop: the verifier adds up the stacks of all that calls each other. */
                if (u->ask != 0 && mapping_ask(u->ask))
                        repeat(UNWIND_TURNS_MAX, unwind_turn, 0);
        }
}
