/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* ringside_check_system() with the machine's files taken from below root, for tests. */

#include <stddef.h>

#include "ringside.h"

int check_all(const char *root, RingsideCheck **ret_checks, size_t *ret_n);

/* One of them, for its test; no events where they are not known. */
void check_paranoid(RingsideCheck *check, const char *root, const RingsideEventInfo *events, size_t n);
