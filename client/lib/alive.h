/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which processes still run, as far as the records told, counted where the records come in, so that
 * the count does not lag behind the writer. An EXIT record may have been lost, so the kernel is asked
 * as well.
 */

#include "ringside.h"
#include "table.h"

/* Embedded; all zero is an empty set. For one thread at a time. */
typedef struct Alive {
        Table starts;        /* pid -> start + 1 */
        uint64_t checked_at; /* ns CLOCK_MONOTONIC */
} Alive;

/* record is a RINGSIDE_PROCESS. 0 or -ENOMEM. */
int alive_note(Alive *alive, const RingsideRecord *record);
/* Asks the kernel at most every 200 ms. */
unsigned alive_count(Alive *alive, uint64_t now);
void alive_done(Alive *alive);
