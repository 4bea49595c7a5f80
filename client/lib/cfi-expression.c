/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cfi-expression.h"

#include <dwarf.h>
#include <string.h>

#define EXPRESSION_MAX 8U /* values at once */

enum ValueKind {
        VALUE_NUMBER,
        VALUE_CFA,   /* CFA + offset */
        VALUE_REG,   /* reg + offset */
        VALUE_DEREF, /* what is at reg + offset, + more */
};

typedef struct Value {
        enum ValueKind kind;
        uint8_t reg;
        int64_t offset, more;
} Value;

static bool add_number(Value *value, int64_t number) {
        int64_t *sum = value->kind == VALUE_DEREF ? &value->more : &value->offset;

        return !__builtin_add_overflow(*sum, number, sum);
}

static bool add_values(Value *a, const Value *b) {
        Value sum;

        if (b->kind == VALUE_NUMBER)
                return add_number(a, b->offset);
        if (a->kind != VALUE_NUMBER)
                return false;
        sum = *b;
        if (!add_number(&sum, a->offset))
                return false;
        *a = sum;
        return true;
}

/* The constants that an operation puts there. */
static bool take_constant(Cursor *c, uint8_t op, int64_t *ret) {
        if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
                *ret = op - DW_OP_lit0;
                return true;
        }
        switch (op) {
        case DW_OP_const1u:
                *ret = (int64_t) cursor_take_unsigned(c, 1);
                return true;
        case DW_OP_const1s:
                *ret = cursor_take_signed(c, 1);
                return true;
        case DW_OP_const2u:
                *ret = (int64_t) cursor_take_unsigned(c, 2);
                return true;
        case DW_OP_const2s:
                *ret = cursor_take_signed(c, 2);
                return true;
        case DW_OP_const4u:
                *ret = (int64_t) cursor_take_unsigned(c, 4);
                return true;
        case DW_OP_const4s:
                *ret = cursor_take_signed(c, 4);
                return true;
        case DW_OP_const8u:
        case DW_OP_const8s:
                *ret = cursor_take_signed(c, 8);
                return true;
        case DW_OP_constu:
                *ret = (int64_t) cursor_take_uleb(c);
                return true;
        case DW_OP_consts:
                *ret = cursor_take_sleb(c);
                return true;
        default:
                return false;
        }
}

static bool evaluate(const CfiMachine *machine, Cursor c, bool starts_with_cfa, Value *ret) {
        Value stack[EXPRESSION_MAX];
        size_t n = 0;

        if (starts_with_cfa)
                stack[n++] = (Value){ .kind = VALUE_CFA };
        while (c.left > 0) {
                uint8_t op = cursor_take_byte(&c);
                Value value = {};

                if (op == DW_OP_nop)
                        continue;
                if (op == DW_OP_plus || op == DW_OP_minus) {
                        if (n < 2)
                                return false;
                        n--;
                        if (op == DW_OP_minus && (stack[n].kind != VALUE_NUMBER ||
                                                  __builtin_sub_overflow(0, stack[n].offset, &stack[n].offset)))
                                return false;
                        if (!add_values(&stack[n - 1], &stack[n]))
                                return false;
                        continue;
                }
                if (op == DW_OP_plus_uconst) {
                        uint64_t number = cursor_take_uleb(&c);

                        if (n == 0 || number > INT64_MAX || !add_number(&stack[n - 1], (int64_t) number))
                                return false;
                        continue;
                }
                if (op == DW_OP_deref) {
                        if (n == 0 || stack[n - 1].kind != VALUE_REG)
                                return false;
                        stack[n - 1].kind = VALUE_DEREF;
                        continue;
                }
                if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
                        value = (Value){ .kind = VALUE_REG, .reg = (uint8_t) (op - DW_OP_breg0) };
                        value.offset = cursor_take_sleb(&c);
                        if (value.reg >= machine->n_regs)
                                return false;
                } else if (!take_constant(&c, op, &value.offset))
                        return false;
                if (n == EXPRESSION_MAX)
                        return false;
                stack[n++] = value;
        }
        if (c.failed || n == 0)
                return false;
        *ret = stack[n - 1];
        return true;
}

/*
 * Linkers describe a PLT, whose entries of 16 bytes push a word at some byte, by one expression:
 * rsp + 8 + ((rip & 15) >= that byte) * 8.
 */
static bool is_plt(const CfiMachine *machine, const Cursor *c, uint8_t *ret_from) {
        static const uint8_t plt[] = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,
                                      /* the byte */ DW_OP_lit0, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};

        if (machine->is_aarch64 || c->left != sizeof(plt) || memcmp(c->next, plt, 6) != 0 ||
            memcmp(c->next + 7, plt + 7, sizeof(plt) - 7) != 0)
                return false;
        if (c->next[6] <= DW_OP_lit0 || c->next[6] > DW_OP_lit15)
                return false;
        *ret_from = (uint8_t) (c->next[6] - DW_OP_lit0);
        return true;
}

void cfi_set_by_expression(const CfiMachine *machine, CfiState *state, Cursor c) {
        Value value;

        if (!c.failed && is_plt(machine, &c, &state->plt_from)) {
                state->cfa = RS_CFA_PLT;
                state->cfa_reg = machine->sp;
                state->cfa_offset = 8;
                return;
        }
        state->cfa = RS_CFA_UNKNOWN;
        if (!evaluate(machine, c, false, &value))
                return;
        if (value.kind == VALUE_REG)
                state->cfa = RS_CFA_REG;
        else if (value.kind == VALUE_DEREF && value.more == 0)
                state->cfa = RS_CFA_DEREF;
        else if (value.kind == VALUE_DEREF && value.more == 8)
                state->cfa = RS_CFA_DEREF_8;
        else
                return;
        state->cfa_reg = value.reg;
        state->cfa_offset = value.offset;
}

CfiPlace cfi_place_by_expression(const CfiMachine *machine, Cursor c) {
        Value value;

        if (!evaluate(machine, c, true, &value))
                return (CfiPlace){ .how = CFI_OTHER };
        if (value.kind == VALUE_CFA)
                return (CfiPlace){ .how = CFI_AT_CFA, .offset = value.offset };
        if (value.kind == VALUE_REG)
                return (CfiPlace){ .how = CFI_AT_REG, .reg = value.reg, .offset = value.offset };
        return (CfiPlace){ .how = CFI_OTHER };
}
