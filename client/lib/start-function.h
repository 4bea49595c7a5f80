/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Where stacks begin. Functions that nobody called leave no sane frame pointer to their caller, so a walk
 * that got there has seen everything, whatever it stumbled over afterwards.
 */

#include <stdbool.h>

#include "symbolizer.h"

/* interrupted: the address is where the thread is, not a return address. */
bool start_function_is(AddressSpace *space, uint64_t address, const Resolved *resolved, bool interrupted);
