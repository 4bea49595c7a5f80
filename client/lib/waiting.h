/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Samples that are not in the store yet, oldest first: those whose mappings may still be told, and all that came behind
 * them, since they are stored in the order in which they came.
 */

#include <stddef.h>
#include <stdint.h>

#include "processes.h"
#include "ringside.h"

/* About 10 MiB. */
#define WAITING_MAX 65536U

typedef struct WaitingSample {
        RingsideRecord record;
        Process *process; /* while it is not resolved */
        int64_t thread_id;
        uint64_t outcome;    /* as the writer packs it; 0: not resolved */
        uint64_t arrived;    /* ns CLOCK_MONOTONIC */
        uint64_t generation; /* of the process's mappings when it was tried last */
} WaitingSample;

/* Embedded; all zero is empty. */
typedef struct Waiting {
        WaitingSample *samples;
        size_t allocated; /* a power of two, or 0 */
        size_t first, n;
} Waiting;

void waiting_done(Waiting *waiting);
/* -ENOMEM, -ENOBUFS: as many as may wait. */
int waiting_push(Waiting *waiting, const WaitingSample *sample);
/* index 0: the oldest; below n. Valid until the next push. */
WaitingSample *waiting_get(Waiting *waiting, size_t index);
/* The oldest. There must be one. */
void waiting_pop(Waiting *waiting);
