/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cfi-rule.h"

#include <string.h>

static bool fits(int64_t offset) {
        return offset >= INT32_MIN && offset <= INT32_MAX;
}

/* What the rule has of a register; reg is the CFA's. false: nothing. */
static bool place_to_rule(const CfiPlace *place, uint8_t reg, uint8_t *ret, __s32 *ret_offset) {
        if (place->how == CFI_SAME) {
                *ret = RS_REG_SAME;
                return true;
        }
        if (!fits(place->offset))
                return false;
        *ret_offset = (__s32) place->offset;
        if (place->how == CFI_AT_CFA)
                *ret = RS_REG_AT_CFA;
        else if (place->how == CFI_AT_REG && place->reg == reg)
                *ret = RS_REG_AT_BASE;
        else
                return false;
        return true;
}

/*
 * In two words: who reads a rule next reads it so, and a processor waits for what was written in smaller pieces just
 * before. The byte order is ours on both machines.
 */
static void rule_store(const struct rs_table_rule *rule, struct rs_table_rule *ret) {
        const uint64_t words[2] = {
                rule->cfa | (uint64_t) rule->reg << 8 | (uint64_t) rule->fp << 16 | (uint64_t) rule->ra << 24 |
                        (uint64_t) (uint32_t) rule->cfa_offset << 32,
                (uint32_t) rule->fp_offset | (uint64_t) (uint32_t) rule->ra_offset << 32,
        };

        _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(words) == sizeof(*ret), "words are fields");
        memcpy(ret, words, sizeof(*ret));
}

bool cfi_rule_of_state(const CfiMachine *machine, bool is_signal, const CfiState *state, struct rs_table_rule *ret) {
        struct rs_table_rule rule = { .cfa = state->cfa, .reg = state->cfa_reg };

        if (state->ra.how == CFI_UNDEFINED) {
                *ret = (struct rs_table_rule){ .cfa = RS_CFA_REG, .reg = machine->sp, .fp = RS_REG_UNDEFINED,
                                               .ra = RS_REG_UNDEFINED };
                return true;
        }
        if (state->cfa == RS_CFA_NONE || state->cfa == RS_CFA_UNKNOWN || !fits(state->cfa_offset))
                return false;
        rule.cfa_offset = (__s32) state->cfa_offset;
        if (!place_to_rule(&state->ra, rule.reg, &rule.ra, &rule.ra_offset))
                return false;
        if (rule.ra == RS_REG_SAME && !machine->is_aarch64)
                return false; /* it is in no register there */
        if (!place_to_rule(&state->fp, rule.reg, &rule.fp, &rule.fp_offset)) {
                rule.fp = RS_REG_UNDEFINED;
                rule.fp_offset = 0;
        }
        if (is_signal) {
                /* There all registers are found by where the frame pointer is. */
                if (machine->is_aarch64 && rule.fp != RS_REG_AT_BASE)
                        return false;
                rule.ra |= RS_RULE_SIGNAL;
        } else if (state->others != 0 || (rule.reg != machine->fp && rule.reg != machine->sp)) {
                /* What the frame is found by, unless it is one of these two, is something else in the caller. */
                rule.ra |= RS_RULE_SAVES;
        }
        if (state->is_signed)
                rule.ra |= RS_RULE_PAC;
        rule_store(&rule, ret);
        return true;
}
