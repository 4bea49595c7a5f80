/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What all sessions together may cost, by user and for the machine. A request that does not fit is
 * refused with the name of the budget and what would fit; nothing is ever clipped. Memory that
 * outlives its session, because the client still has the ring mapped, stays charged.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

#define BUDGET_SESSIONS_MAX 64U      /* on the machine */
#define BUDGET_SESSIONS_USER 8U
/* With those that have ended, but whose ring is still mapped: their user pays, and nobody else waits. */
#define BUDGET_RINGS_USER 16U
#define BUDGET_WIDE_RATE_USER 1000U  /* Hz: CPU-wide events are paid for by everybody */
#define BUDGET_WIDE_RATE 4000U       /* Hz, on the machine */
#define BUDGET_TASK_RATE_USER 20000U /* Hz: task-bound events are paid for by their tasks */
#define BUDGET_MEMORY_USER (96ULL * 1024 * 1024)
#define BUDGET_MEMORY_MAX (1024ULL * 1024 * 1024)

typedef struct Charge {
        uint32_t id;  /* of the session, 0: free */
        uint32_t uid;
        bool ended;   /* only its memory is still charged */
        bool wide;    /* CPU-wide events */
        uint64_t rate;
        uint64_t memory;
} Charge;

typedef struct Budget {
        unsigned n_cpus;
        uint64_t memory_max; /* bytes, for the machine */
        uint64_t rate_max;   /* Hz for one session: a quarter of kernel.perf_event_max_sample_rate */
        Charge charges[BUDGET_SESSIONS_MAX * 2];
} Budget;

/* Reads what the machine has. */
void budget_init(Budget *budget);
/*
 * Charges the grant to its user under this id. Returns 0, or -EDQUOT with a text (at least 160
 * bytes) that names the budget, how much is left and what would fit.
 */
int budget_charge(Budget *budget, uint32_t id, const struct rs_grant *grant, char *ret_text, size_t size);
/* The session is over; its memory is charged until budget_release(). */
void budget_end(Budget *budget, uint32_t id);
void budget_release(Budget *budget, uint32_t id);
/* Sessions that have not ended. */
unsigned budget_count(const Budget *budget);
/* The id of the next charge after `after` whose session has ended; 0: none. */
uint32_t budget_next_ended(const Budget *budget, uint32_t after);
