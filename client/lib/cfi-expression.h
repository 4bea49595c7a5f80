/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What expressions of call frame information say. They are not computed but recognised: by a small machine that only
 * knows "register + number", "what is there" and sums, which is all that compilers, linkers and libraries of
 * assembly write, and all that a rule can say.
 */

#include "cfi-cursor.h"
#include "unwind-cfi.h"

/* The CFA is what expression computes: RS_CFA_UNKNOWN where no rule says that. */
void cfi_set_by_expression(const CfiMachine *machine, CfiState *state, Cursor expression);
/* What is saved where expression says. */
CfiPlace cfi_place_by_expression(const CfiMachine *machine, Cursor expression);
