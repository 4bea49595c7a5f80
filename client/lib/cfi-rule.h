/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What call frame information says of a place, as a rule of the unwind tables. */

#include <stdbool.h>

#include "unwind-cfi.h"

/* false: there is no rule like that. is_signal: of a signal frame. */
bool cfi_rule_of_state(const CfiMachine *machine, bool is_signal, const CfiState *state, struct rs_table_rule *ret);
