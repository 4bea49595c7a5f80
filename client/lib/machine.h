/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What a recording says of the machine, the session and the command it was made with: the rows of meta. */

#include "ringside.h"
#include "store.h"

/* A point in time on both clocks. */
typedef struct ClockPair {
        uint64_t boottime; /* ns */
        int64_t realtime;  /* ns since 1970-01-01 UTC */
} ClockPair;

void clock_pair_now(ClockPair *ret);
/* session may be NULL. -EINVAL: a label that is not key=value. */
int machine_describe(Store *store, const ClockPair *start, RingsideSession *session,
                     const RingsideRecorderOptions *options);
/* The words of argv, quoted for a shell where they need it, in one string to free(). NULL: no memory. */
char *shell_quote(const char *const *argv);
