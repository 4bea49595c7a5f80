/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Walks over registers and stacks, for both machines: each kind of row, and each way a walk ends. Rules come from the
 * tables of fixtures/unwind, whose addresses these are.
 */

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "test-unwind-walk.h"
#include "unwind-table-builder.h"

#define STACK UINT64_C(0x7ffe00000000)
#define WORDS 128
#define FRAMES_MAX 16
#define ALL UINT32_MAX
#define NULL_FP (UINT64_C(0) - STACK)

enum {
        RBX = 3,
        RBP = 6,
        RSP = 7,
        R10 = 10,
        X12 = 12,
        X19 = 19,
        FP = 29,
        LR = 30,
        SP = 31,
};

/* A stack, and code at one place. */
typedef struct Recorded {
        UnwindTable *table;
        uint64_t words[WORDS]; /* from STACK on */
        uint64_t hidden;       /* one that cannot be read; 0: none */
} Recorded;

static int read_word(void *userdata, uint64_t address, uint64_t *ret) {
        const Recorded *recorded = userdata;
        uint64_t offset = address - STACK;

        if (offset / 8 >= WORDS || offset % 8 != 0 || (recorded->hidden != 0 && offset / 8 == recorded->hidden))
                return -EFAULT;
        *ret = recorded->words[offset / 8];
        return 0;
}

static const struct rs_table_rule *find_rule(void *userdata, uint64_t address) {
        const Recorded *recorded = userdata;

        return address >= 0x400000 && address < 0x500000 ? unwind_table_find(recorded->table, address) : NULL;
}

static void recorded_init(Recorded *recorded, const char *name) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        char path[PATH_MAX];
        int fd;

        memset(recorded, 0, sizeof(*recorded));
        snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(elf_file_new_take_fd(&elf, fd), 0);
        assert_int_equal(unwind_table_new(&recorded->table, elf), 0);
}

static void recorded_done(Recorded *recorded) {
        unwind_table_free(recorded->table);
}

/* One frame at a time. */

typedef struct Case {
        const char *what;
        uint64_t pc;
        uint64_t sp, fp; /* offsets from STACK; other registers: reg, value */
        unsigned reg;
        uint64_t value;
        struct {
                uint64_t at, value;
        } words[4];
        uint32_t known; /* 0: all, and exact */
        int end;
        /* Where it goes on. caller_fp 0: is not known; others are known, or not, as they were, unless it forgets them. */
        uint64_t caller_pc, caller_sp, caller_fp;
        bool exact, forgets;
} Case;

/* Kinds of rules that a step has gone on by, as bits. */
typedef struct Seen {
        unsigned cfa, fp, ra, flags;
} Seen;

typedef struct Machine {
        WalkStep step;
        unsigned sp, fp;
        uint32_t lr; /* its bit, if there is one */
} Machine;

/* Of a signal's frame nothing but that is looked at. */
static void see(Seen *seen, const struct rs_table_rule *rule) {
        seen->flags |= rule->ra & ~RS_RULE_REG_MASK & UINT8_MAX;
        if (rule->ra & RS_RULE_SIGNAL)
                return;
        seen->cfa |= 1U << rule->cfa;
        seen->fp |= 1U << rule->fp;
        seen->ra |= 1U << (rule->ra & RS_RULE_REG_MASK);
}

static void run_case(Recorded *recorded, const Machine *machine, const Case *c, Seen *seen) {
        const Walk walk = { .read = read_word, .userdata = recorded };
        const uint32_t own = 1U << machine->sp | 1U << machine->fp | machine->lr;
        WalkState s = { .pc = c->pc, .known = c->known ? c->known : ALL, .exact = 1 };
        const uint32_t others = c->forgets ? 0 : s.known & ~own;
        int end;

        for (unsigned i = 0; i < ELEMENTSOF(s.regs); i++)
                s.regs[i] = UINT64_C(0xdead0000) + i; /* leads nowhere */
        memset(recorded->words, 0xee, sizeof(recorded->words));
        for (size_t i = 0; i < ELEMENTSOF(c->words); i++)
                recorded->words[c->words[i].at / 8] = c->words[i].value;
        if (c->reg != 0)
                s.regs[c->reg] = c->value;
        s.regs[machine->sp] = STACK + c->sp;
        s.regs[machine->fp] = STACK + c->fp;
        end = machine->step(&walk, &s, unwind_table_find(recorded->table, c->pc));
        if (end != c->end)
                fail_msg("%s: %d and not %d", c->what, end, c->end);
        if (c->end != 0)
                return;
        see(seen, unwind_table_find(recorded->table, c->pc));
        if (s.pc != c->caller_pc || s.regs[machine->sp] != c->caller_sp)
                fail_msg("%s: pc %jx, sp %jx", c->what, (uintmax_t) s.pc, (uintmax_t) s.regs[machine->sp]);
        if ((s.known >> machine->fp & 1) != (c->caller_fp != 0) || (c->caller_fp && s.regs[machine->fp] != c->caller_fp))
                fail_msg("%s: fp %jx", c->what, (uintmax_t) s.regs[machine->fp]);
        if (!(s.known >> machine->sp & 1) || s.exact != c->exact)
                fail_msg("%s: known %x, exact %u", c->what, s.known, s.exact);
        if ((s.known & ~own) != others || (s.known & machine->lr) != (c->exact ? machine->lr : 0))
                fail_msg("%s: known %x of others", c->what, s.known);
}

static void test_rows_x86_64(_unused_ void **state) {
        static const Machine machine = { .step = walk_step_x86_64, .sp = RSP, .fp = RBP };
        static const Case cases[] = {
                {"by rsp", 0x410080, .sp = 16, .fp = 96, .words = {{16, 0x410201}},
                 .caller_pc = 0x410201, .caller_sp = STACK + 24, .caller_fp = STACK + 96},
                {"by rsp, rbp saved", 0x410081, .sp = 16, .words = {{16, STACK + 88}, {24, 0x410201}},
                 .caller_pc = 0x410201, .caller_sp = STACK + 32, .caller_fp = STACK + 88},
                {"by rbp", 0x410082, .sp = 8, .fp = 80, .words = {{80, STACK + 88}, {88, 0x410201}},
                 .caller_pc = 0x410201, .caller_sp = STACK + 96, .caller_fp = STACK + 88},
                {"by rbp, which is not known", 0x410082, .sp = 8, .fp = 80, .known = 1 << RSP, .end = RS_WALK_UNSUPPORTED},
                {"rbx saved", 0x410086, .sp = UINT64_C(24) - 74560, .fp = 96, .words = {{16, 0x410201}},
                 .caller_pc = 0x410201, .caller_sp = STACK + 24, .caller_fp = STACK + 96, .forgets = true},
                {"others not known", 0x410080, .sp = 16, .fp = 96, .known = 1 << RSP | 1 << RBP | 1 << RBX,
                 .words = {{16, 0x410201}}, .caller_pc = 0x410201, .caller_sp = STACK + 24, .caller_fp = STACK + 96},
                {"by another register", 0x4101c1, .sp = 8, .fp = 96, .reg = R10, .value = STACK + 64,
                 .words = {{56, 0x410202}}, .caller_pc = 0x410202, .caller_sp = STACK + 64, .caller_fp = STACK + 96,
                 .forgets = true},
                {"by another register, as it was in what is called", 0x4101c1, .sp = 8, .fp = 96, .reg = R10, .value = STACK + 64,
                 .known = 1 << RSP | 1 << RBP | 1 << R10, .words = {{56, 0x410202}},
                 .caller_pc = 0x410202, .caller_sp = STACK + 64, .caller_fp = STACK + 96, .forgets = true},
                {"by another register, which is not known", 0x4101c1, .sp = 8, .reg = R10, .value = STACK + 64,
                 .known = 1 << RSP | 1 << RBP, .end = RS_WALK_UNSUPPORTED},
                {"realigned", 0x4101c2, .sp = 8, .fp = 40, .words = {{32, STACK + 112}, {40, STACK + 120}, {104, 0x410203}},
                 .caller_pc = 0x410203, .caller_sp = STACK + 112, .caller_fp = STACK + 120},
                {"saved at rsp + 8, and 8", 0x410201, .sp = 8, .fp = 72, .words = {{16, STACK + 56}, {56, 0x410204}},
                 .caller_pc = 0x410204, .caller_sp = STACK + 64, .caller_fp = STACK + 72},
                {"saved at rsp, rbp at another register", 0x410204, .sp = 8, .words = {{8, STACK + 56}, {48, 0x410205}},
                 .caller_pc = 0x410205, .caller_sp = STACK + 56},
                {"signal", 0x410240, .sp = 0,
                 .words = {{120, STACK + 1000}, {160, STACK + 512}, {168, 0x410080}},
                 .caller_pc = 0x410080, .caller_sp = STACK + 512, .caller_fp = STACK + 1000, .exact = true, .forgets = true},
                {"signal, on a stack above", 0x41033f, .sp = 512,
                 .words = {{512 + 120, 1}, {512 + 160, STACK + 8}, {512 + 168, 0x410080}},
                 .caller_pc = 0x410080, .caller_sp = STACK + 8, .caller_fp = 1, .exact = true, .forgets = true},
                {"PLT, before it pushes", 0x43001a, .sp = 8, .fp = 96, .words = {{8, 0x410081}, {16, 0x410082}},
                 .caller_pc = 0x410081, .caller_sp = STACK + 16, .caller_fp = STACK + 96},
                {"PLT, after", 0x43001b, .sp = 8, .fp = 96, .words = {{8, 0x410081}, {16, 0x410082}},
                 .caller_pc = 0x410082, .caller_sp = STACK + 24, .caller_fp = STACK + 96},
                {"other PLT, before", 0x430048, .sp = 8, .fp = 96, .words = {{8, 0x410081}, {16, 0x410082}},
                 .caller_pc = 0x410081, .caller_sp = STACK + 16, .caller_fp = STACK + 96},
                {"other PLT, after", 0x430049, .sp = 8, .fp = 96, .words = {{8, 0x410081}, {16, 0x410082}},
                 .caller_pc = 0x410082, .caller_sp = STACK + 24, .caller_fp = STACK + 96},
                {"rbp lost", 0x410281, .sp = 8, .fp = 96, .words = {{8, 0x410081}},
                 .caller_pc = 0x410081, .caller_sp = STACK + 16},
                {"return address above rsp", 0x420740, .sp = 16, .fp = 96, .words = {{24, 0x410081}},
                 .caller_pc = 0x410081, .caller_sp = STACK + 48, .caller_fp = STACK + 96},
                {"first", 0x410000, .end = RS_WALK_COMPLETE},
                {"nothing called it", 0x410080, .sp = 8, .fp = NULL_FP, .words = {{8, 0}}, .end = RS_WALK_COMPLETE},
                {"nothing called it, as is saved", 0x410081, .sp = 8, .words = {{8, 0}, {16, 0}}, .end = RS_WALK_COMPLETE},
                {"a 0, and a frame pointer", 0x410080, .sp = 8, .fp = 96, .words = {{8, 0}}, .end = RS_WALK_BAD_RETURN},
                {"a 0, and nobody knows", 0x410080, .sp = 8, .fp = NULL_FP, .known = 1 << RSP, .words = {{8, 0}},
                 .end = RS_WALK_BAD_RETURN},
                {"a 0, and nobody knows any more", 0x410281, .sp = 8, .fp = NULL_FP, .words = {{8, 0}}, .end = RS_WALK_BAD_RETURN},
                {"a signal that came at 0", 0x410240, .sp = 0, .words = {{120, 1}, {160, STACK + 512}, {168, 0}},
                 .caller_pc = 0, .caller_sp = STACK + 512, .caller_fp = 1, .exact = true, .forgets = true},
                {"no rule", 0x410040, .end = RS_WALK_NO_RULE},
                {"no rule that can be said", 0x410203, .end = RS_WALK_UNSUPPORTED},
                {"return address not readable", 0x410080, .sp = 8 * WORDS, .end = RS_WALK_UNREADABLE},
                {"rbp not readable", 0x410081, .sp = UINT64_C(0) - 8, .words = {{0, 0x410201}}, .end = RS_WALK_UNREADABLE},
                {"CFA not readable", 0x410201, .sp = 8 * WORDS, .end = RS_WALK_UNREADABLE},
                {"not above", 0x410082, .sp = 96, .fp = 80, .words = {{80, 1}, {88, 0x410201}}, .end = RS_WALK_BAD_CFA},
                {"the same", 0x410201, .sp = 8, .words = {{16, STACK}, {0, 0x410204}}, .end = RS_WALK_BAD_CFA},
                /* What is far from the stack pointer is not looked at, and all of it ends in the same way. */
                {"far above", 0x410082, .sp = 8, .fp = RS_TABLE_FRAME_MAX + 16, .end = RS_WALK_BAD_CFA},
                {"as far as can be", 0x410082, .sp = 8, .fp = RS_TABLE_FRAME_MAX - 8, .end = RS_WALK_UNREADABLE},
                {"far below", 0x410082, .sp = 8, .fp = UINT64_C(0) - (UINT64_C(1) << 30), .end = RS_WALK_BAD_CFA},
                {"no address", 0x410082, .sp = 8, .fp = UINT64_C(0x1122334455667788) - STACK, .end = RS_WALK_BAD_CFA},
                {"unaligned", 0x410082, .sp = 8, .fp = 81, .end = RS_WALK_BAD_CFA},
                {"saved, and far above", 0x410201, .sp = 8, .words = {{16, STACK + RS_TABLE_FRAME_MAX + 8}}, .end = RS_WALK_BAD_CFA},
                {"saved, and as far as can be", 0x410201, .sp = 8, .words = {{16, STACK + RS_TABLE_FRAME_MAX}},
                 .end = RS_WALK_UNREADABLE},
                {"saved, and no address", 0x410201, .sp = 8, .words = {{16, UINT64_C(0x1122334455667788)}}, .end = RS_WALK_BAD_CFA},
        };
        _cleanup_(recorded_done) Recorded recorded;
        Seen seen = {};

        recorded_init(&recorded, "x86-64");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                run_case(&recorded, &machine, &cases[i], &seen);
        assert_int_equal(seen.cfa, 1 << RS_CFA_REG | 1 << RS_CFA_DEREF | 1 << RS_CFA_DEREF_8 | 1 << RS_CFA_PLT);
        assert_int_equal(seen.fp, 1 << RS_REG_SAME | 1 << RS_REG_AT_CFA | 1 << RS_REG_AT_BASE | 1 << RS_REG_UNDEFINED);
        assert_int_equal(seen.ra, 1 << RS_REG_AT_CFA | 1 << RS_REG_AT_BASE);
        assert_int_equal(seen.flags, RS_RULE_SIGNAL | RS_RULE_SAVES);
}

/* Rules that no file has, whose offsets lead to what is far, or back from there. */
static void test_far(_unused_ void **state) {
        const __s32 gib = 1 << 30;
        const struct rs_table_rule rules[] = {
                {.cfa = RS_CFA_REG, .reg = RBP, .cfa_offset = -gib, .ra = RS_REG_AT_CFA, .ra_offset = -8},
                {.cfa = RS_CFA_DEREF, .reg = RBP, .cfa_offset = -gib, .ra = RS_REG_AT_CFA, .ra_offset = -8},
                {.cfa = RS_CFA_DEREF, .reg = RSP, .cfa_offset = gib, .ra = RS_REG_AT_CFA, .ra_offset = -8},
                {.cfa = RS_CFA_REG, .reg = RSP, .cfa_offset = 16, .ra = RS_REG_AT_CFA, .ra_offset = gib},
                {.cfa = RS_CFA_REG, .reg = RSP, .cfa_offset = 16, .ra = RS_REG_AT_BASE, .ra_offset = -gib},
                {.cfa = RS_CFA_REG, .reg = RSP, .cfa_offset = 16, .ra = RS_REG_AT_CFA, .ra_offset = -8, .fp = RS_REG_AT_CFA, .fp_offset = gib},
                {.cfa = RS_CFA_REG, .reg = RSP, .cfa_offset = 16, .ra = RS_REG_AT_CFA, .ra_offset = -9},
        };
        Recorded recorded = {};
        const Walk walk = { .read = read_word, .userdata = &recorded };

        for (size_t i = 0; i < WORDS; i++)
                recorded.words[i] = STACK + 64;
        for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
                WalkState s = { .pc = 0x410080, .known = ALL, .exact = 1 };

                s.regs[RSP] = STACK;
                s.regs[RBP] = STACK + (uint64_t) gib + 16;
                if (walk_step_x86_64(&walk, &s, &rules[i]) != RS_WALK_BAD_CFA)
                        fail_msg("rule %zu goes on, or ends otherwise", i);
        }
}

static void test_rows_aarch64(_unused_ void **state) {
        static const Machine machine = { .step = walk_step_aarch64, .sp = SP, .fp = FP, .lr = 1U << LR };
        const uint64_t sign = UINT64_C(0x5a) << 48;
        const Case cases[] = {
                {"leaf", 0x410040, .sp = 16, .fp = 96, .reg = LR, .value = 0x410084,
                 .caller_pc = 0x410084, .caller_sp = STACK + 16, .caller_fp = STACK + 96},
                {"leaf with a stack", 0x410044, .sp = 16, .fp = 96, .reg = LR, .value = 0x410084,
                 .caller_pc = 0x410084, .caller_sp = STACK + 48, .caller_fp = STACK + 96},
                {"leaf as a caller", 0x410044, .sp = 16, .fp = 96, .reg = LR, .value = 0x410084,
                 .known = 1U << SP | 1U << FP, .end = RS_WALK_UNSUPPORTED},
                {"by sp", 0x410084, .sp = 16, .words = {{16, STACK + 88}, {24, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 64, .caller_fp = STACK + 88},
                {"by x29", 0x410088, .sp = 8, .fp = 16, .words = {{16, STACK + 88}, {24, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 64, .caller_fp = STACK + 88},
                {"by another register", 0x410100, .sp = 8, .fp = 96, .reg = X12, .value = STACK,
                 .known = ALL & ~(1U << LR), .end = RS_WALK_UNSUPPORTED},
                {"x19 and x20 saved", 0x410204, .sp = 16, .words = {{16, STACK + 88}, {24, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 48, .caller_fp = STACK + 88, .forgets = true},
                {"others not known", 0x410208, .sp = 16, .known = 1U << SP | 1U << FP | 1U << X19,
                 .words = {{16, STACK + 88}, {24, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 48, .caller_fp = STACK + 88},
                {"by another register, which is known", 0x410100, .sp = 8, .fp = 96, .reg = X12, .value = STACK,
                 .caller_pc = 0xdead0000 + LR, .caller_sp = STACK + 64, .caller_fp = STACK + 96, .forgets = true},
                {"signed, in x30", 0x4100c4, .sp = 16, .fp = 96, .reg = LR, .value = sign | 0x410084,
                 .caller_pc = 0x410084, .caller_sp = STACK + 16, .caller_fp = STACK + 96},
                {"signed, on the stack", 0x4100c8, .sp = 16, .words = {{16, STACK + 88}, {24, sign | 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 32, .caller_fp = STACK + 88},
                {"saved at sp, and all beside it", 0x410240, .sp = 16,
                 .words = {{16, STACK + 88}, {24, 0x410088}, {32, STACK + 72}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 72, .caller_fp = STACK + 88},
                {"saved below x29, and 8", 0x410244, .sp = 8, .fp = 40,
                 .words = {{32, STACK + 112}, {40, STACK + 88}, {104, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 120, .caller_fp = STACK + 88},
                {"x29 lost", 0x410248, .sp = 8, .fp = 40, .words = {{32, STACK + 112}, {104, 0x410088}},
                 .caller_pc = 0x410088, .caller_sp = STACK + 120},
                {"signal", 0x410140, .sp = 0,
                 .words = {{544, STACK + 1000}, {552, 0x410088}, {560, STACK + 720}, {568, 0x410040}},
                 .caller_pc = 0x410040, .caller_sp = STACK + 720, .caller_fp = STACK + 1000, .exact = true, .forgets = true},
                {"signal, trampoline without CFI", 0x4101c4, .sp = 0,
                 .words = {{544, STACK + 1000}, {552, 0x410088}, {560, STACK + 720}, {568, 0x410040}},
                 .caller_pc = 0x410040, .caller_sp = STACK + 720, .caller_fp = STACK + 1000, .exact = true, .forgets = true},
                {"first", 0x410000, .end = RS_WALK_COMPLETE},
                {"nothing called it", 0x410040, .sp = 16, .fp = NULL_FP, .reg = LR, .value = 0, .end = RS_WALK_COMPLETE},
                {"a 0, and a frame pointer", 0x410040, .sp = 16, .fp = 96, .reg = LR, .value = 0, .end = RS_WALK_BAD_RETURN},
                {"no rule", 0x410048, .end = RS_WALK_NO_RULE},
                {"no rule that can be said", 0x410104, .end = RS_WALK_UNSUPPORTED},
                {"return address not readable", 0x410084, .sp = 8 * (WORDS - 1), .end = RS_WALK_UNREADABLE},
                {"x30 of a signal not readable", 0x410140, .sp = 480, .end = RS_WALK_UNREADABLE},
                {"not above", 0x410088, .sp = 96, .fp = 16, .words = {{16, 1}, {24, 0x410088}}, .end = RS_WALK_BAD_CFA},
                {"the same, and not the leaf", 0x410088, .sp = 64, .fp = 16, .words = {{16, 1}, {24, 0x410088}},
                 .known = 1U << SP | 1U << FP, .end = RS_WALK_BAD_CFA},
        };
        _cleanup_(recorded_done) Recorded recorded;
        Seen seen = {};

        recorded_init(&recorded, "aarch64");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                run_case(&recorded, &machine, &cases[i], &seen);
        assert_int_equal(seen.cfa, 1 << RS_CFA_REG | 1 << RS_CFA_DEREF | 1 << RS_CFA_DEREF_8);
        assert_int_equal(seen.fp, 1 << RS_REG_SAME | 1 << RS_REG_AT_CFA | 1 << RS_REG_AT_BASE | 1 << RS_REG_UNDEFINED);
        assert_int_equal(seen.ra, 1 << RS_REG_SAME | 1 << RS_REG_AT_CFA | 1 << RS_REG_AT_BASE);
        assert_int_equal(seen.flags, RS_RULE_SIGNAL | RS_RULE_SAVES | RS_RULE_PAC);
}

/* Words of parts. */

#define PART_WORDS (sizeof(((WalkPart *) NULL)->words) / 8)
_Static_assert(STACK % (8 * PART_WORDS) == 0 && WORDS == 2 * PART_WORDS, "two parts");

/* A stack whose words are their numbers; and how many were read so far. */
typedef struct Numbers {
        uint64_t hidden; /* which cannot be read */
        size_t n_reads;
        WalkPart part;
} Numbers;

static int read_number(void *userdata, uint64_t address, uint64_t *ret) {
        Numbers *numbers = userdata;

        numbers->n_reads++;
        *ret = (address - STACK) / 8;
        return *ret >= WORDS || *ret == numbers->hidden ? -EFAULT : 0;
}

/* That one can be read or not, and costs so many reads. */
static void expect(Numbers *numbers, uint64_t number, bool good, size_t n_reads) {
        const Walk walk = { .read = read_number, .userdata = numbers, .part = &numbers->part };
        uint64_t word;

        numbers->n_reads = 0;
        assert_int_equal(walk_read_stack(&walk, STACK + 8 * number, &word) == 0, good);
        assert_int_equal(numbers->n_reads, n_reads);
        if (good)
                assert_int_equal(word, number);
}

static void test_parts(_unused_ void **state) {
        Numbers numbers = { .hidden = WORDS, .part.at = WALK_NO_PART };

        expect(&numbers, 5, true, PART_WORDS);
        for (size_t i = 0; i < PART_WORDS; i++)
                expect(&numbers, i, true, 0);
        expect(&numbers, PART_WORDS, true, PART_WORDS);
        expect(&numbers, WORDS - 1, true, 0);
        expect(&numbers, PART_WORDS - 1, true, PART_WORDS);
        expect(&numbers, 0, true, 0);
}

/* Whose words are read one by one; and what was there before is there no more. */
static void test_part_that_is_not_whole(_unused_ void **state) {
        Numbers numbers = { .hidden = PART_WORDS + 6, .part.at = WALK_NO_PART };

        expect(&numbers, 5, true, PART_WORDS);
        expect(&numbers, PART_WORDS, true, 7 + 1);
        expect(&numbers, PART_WORDS, true, 7 + 1);
        expect(&numbers, WORDS - 1, true, 7 + 1);
        expect(&numbers, 5, true, PART_WORDS);
        expect(&numbers, PART_WORDS + 6, false, 7 + 1);
        expect(&numbers, 5, true, PART_WORDS);
        expect(&numbers, WORDS, false, 1 + 1);
        expect(&numbers, 6, true, PART_WORDS);
        /* First and last of a part. */
        numbers.hidden = 0;
        expect(&numbers, PART_WORDS, true, PART_WORDS);
        expect(&numbers, 1, true, 1 + 1);
        numbers.hidden = PART_WORDS - 1;
        expect(&numbers, 0, true, PART_WORDS + 1);
        expect(&numbers, PART_WORDS - 1, false, PART_WORDS + 1);
}

/* Whole stacks. */

static void check_walk(Recorded *recorded, WalkStep step, const WalkState *leaf, const uint64_t *expected, size_t n,
                       enum rs_walk_end expected_end) {
        const Walk walk = { .read = read_word, .find = find_rule, .userdata = recorded };
        uint64_t frames[FRAMES_MAX];
        enum rs_walk_end end;
        size_t found;

        found = walk_stack(step, &walk, *leaf, frames, FRAMES_MAX, &end);
        assert_int_equal(found, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(frames[i], expected[i]);
        assert_int_equal(end, expected_end);
}

/* A handler of a signal that came in a PLT's entry, before its function had pushed anything; a realigned frame below. */
static void record_x86_64(Recorded *recorded, WalkState *leaf) {
        uint64_t *w = recorded->words;

        *leaf = (WalkState){ .pc = 0x410083, .known = ALL, .exact = 1 };
        leaf->regs[RSP] = STACK;
        leaf->regs[RBP] = STACK + 1000;
        w[0] = 0x410340;            /* the trampoline's first instruction: found by the byte before */
        w[1 + 15] = STACK + 640;    /* rbp */
        w[1 + 20] = STACK + 512;    /* rsp */
        w[1 + 21] = 0x43001b;       /* rip, after the push */
        w[64] = 1;                  /* what it has pushed */
        w[65] = 0x4101c3;           /* return address, of the last byte of its function */
        w[79] = STACK + 696; /* CFA of the realigned frame, below rbp */
        w[80] = STACK + 720;        /* rbp */
        w[86] = 0x410083;           /* return address, at CFA - 8 */
        w[90] = STACK + 1016;       /* rbp of the frame that has one */
        w[91] = 0x410001;           /* of the first */
}

static void test_walk_x86_64(_unused_ void **state) {
        static const uint64_t expected[] = {0x410083, 0x410340, 0x43001b, 0x4101c3, 0x410083, 0x410001};
        _cleanup_(recorded_done) Recorded recorded;
        WalkState leaf;

        recorded_init(&recorded, "x86-64");
        record_x86_64(&recorded, &leaf);
        check_walk(&recorded, walk_step_x86_64, &leaf, expected, ELEMENTSOF(expected), RS_WALK_COMPLETE);
        /* One beside those that it needs. */
        recorded.hidden = 100;
        check_walk(&recorded, walk_step_x86_64, &leaf, expected, ELEMENTSOF(expected), RS_WALK_COMPLETE);
        recorded.hidden = 0;
        recorded.words[91] = 0x600000;
        {
                const uint64_t astray[] = {0x410083, 0x410340, 0x43001b, 0x4101c3, 0x410083, 0x600000};

                check_walk(&recorded, walk_step_x86_64, &leaf, astray, ELEMENTSOF(astray), RS_WALK_NO_MAPPING);
        }
        recorded.words[91] = 0x410041;
        {
                const uint64_t uncovered[] = {0x410083, 0x410340, 0x43001b, 0x4101c3, 0x410083, 0x410041};

                check_walk(&recorded, walk_step_x86_64, &leaf, uncovered, ELEMENTSOF(uncovered), RS_WALK_NO_RULE);
        }
}

/* Assembly whose frame is found by a register, which what it calls has not touched; or has saved, nobody knows where. */
static void test_carried(_unused_ void **state) {
        const uint64_t whole[] = {0x410080, 0x430010, 0x4101c2, 0x410001}, lost[] = {0x420701, 0x430010, 0x4101c2};
        WalkState leaf = { .pc = whole[0], .known = 0xffff, .exact = 1 };
        _cleanup_(recorded_done) Recorded recorded;

        recorded_init(&recorded, "x86-64");
        leaf.regs[RSP] = STACK;
        leaf.regs[R10] = STACK + 256;
        recorded.words[0] = whole[1]; /* of a PLT's code, for one function more */
        recorded.words[1] = whole[2];
        recorded.words[31] = whole[3];
        check_walk(&recorded, walk_step_x86_64, &leaf, whole, ELEMENTSOF(whole), RS_WALK_COMPLETE);
        leaf.pc = lost[0];
        check_walk(&recorded, walk_step_x86_64, &leaf, lost, ELEMENTSOF(lost), RS_WALK_UNSUPPORTED);
}

static void test_depth(_unused_ void **state) {
        _cleanup_(recorded_done) Recorded recorded;
        WalkState leaf = { .pc = 0x410080, .known = ALL, .exact = 1 };
        uint64_t expected[FRAMES_MAX];

        recorded_init(&recorded, "x86-64");
        leaf.regs[RSP] = STACK;
        for (size_t i = 0; i < WORDS; i++)
                recorded.words[i] = 0x410081;
        for (size_t i = 0; i < FRAMES_MAX; i++)
                expected[i] = i == 0 ? 0x410080 : 0x410081;
        check_walk(&recorded, walk_step_x86_64, &leaf, expected, FRAMES_MAX, RS_WALK_DEPTH);
}

/* In a handler, of a signal that came in a leaf which has saved nothing: x30 is from the signal frame. */
static void test_walk_aarch64(_unused_ void **state) {
        const uint64_t sign = UINT64_C(0x5a) << 48;
        _cleanup_(recorded_done) Recorded recorded;
        WalkState leaf = { .pc = 0x410088, .known = ALL, .exact = 1 };
        uint64_t *w;

        recorded_init(&recorded, "aarch64");
        w = recorded.words;
        leaf.regs[SP] = STACK;
        leaf.regs[FP] = STACK;
        w[0] = STACK + 800; /* x29, x30 of the handler's caller */
        w[1] = 0x410144;
        w[6 + 68] = STACK + 720; /* x29 */
        w[6 + 69] = 0x4100cc;    /* x30 */
        w[6 + 70] = STACK + 640; /* sp */
        w[6 + 71] = 0x410040;    /* pc */
        w[80] = STACK + 720;     /* the signed frame */
        w[81] = sign | 0x410090;
        w[82] = 0;
        w[90] = 0;
        w[91] = 0x410004;
        leaf.regs[LR] = 0xdead;
        /* 0x410090 is looked up one byte before: sp + 0, x30, which a caller cannot have. */
        {
                const uint64_t lost[] = {0x410088, 0x410144, 0x410040, 0x4100cc, 0x410090};

                check_walk(&recorded, walk_step_aarch64, &leaf, lost, ELEMENTSOF(lost), RS_WALK_UNSUPPORTED);
        }
        w[81] = sign | 0x410089;
        {
                const uint64_t whole[] = {0x410088, 0x410144, 0x410040, 0x4100cc, 0x410089, 0x410004};

                check_walk(&recorded, walk_step_aarch64, &leaf, whole, ELEMENTSOF(whole), RS_WALK_COMPLETE);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows_x86_64),
                cmocka_unit_test(test_far),
                cmocka_unit_test(test_rows_aarch64),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_part_that_is_not_whole),
                cmocka_unit_test(test_walk_x86_64),
                cmocka_unit_test(test_carried),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_walk_aarch64),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
