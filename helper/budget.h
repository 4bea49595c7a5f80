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

#include "map-list.h"
#include "protocol.h"

#define BUDGET_SESSIONS_MAX 64U      /* on the machine */
#define BUDGET_SESSIONS_USER 8U
/* With those that have ended, but whose ring is still mapped: their user pays, and nobody else waits. */
#define BUDGET_RINGS_USER 16U
#define BUDGET_WIDE_RATE_USER 1000U  /* Hz: CPU-wide events are paid for by everybody */
#define BUDGET_WIDE_RATE 4000U       /* Hz, on the machine */
#define BUDGET_SYSTEM_RATE 10000U    /* Hz, on the machine, of those an administrator has allowed to see everybody */
#define BUDGET_TASK_RATE_USER 20000U /* Hz: task-bound events are paid for by their tasks */
/*
 * Sessions that one user opens: so many at once, later as many a minute as come back. Each costs the helper
 * a hundred milliseconds of CPU time and more before its first sample, until the programs are loaded.
 */
#define BUDGET_OPENS_USER 60U
#define BUDGET_OPENS_MINUTE 30U
#define BUDGET_MEMORY_USER (96ULL * 1024 * 1024)
#define BUDGET_MEMORY_MAX (1024ULL * 1024 * 1024)
/* For so long nobody may have had a session before the helper leaves; where the kernel's names were given, for so long. */
#define IDLE_USEC (60ULL * 1000000)
#define IDLE_USEC_NAMES (600ULL * 1000000)
/*
 * Of these, some five megabytes, which can be kept unseen: so many files a user gets, and later one more in the time that
 * the helper stays, since nobody else remembers who has had one.
 */
#define NAMES_USER 16
#define NAMES_NSEC (IDLE_USEC_NAMES * 1000)

typedef struct Charge {
        uint32_t id;  /* of the session, 0: free */
        uint32_t uid;
        bool ended;   /* only its memory is still charged */
        bool inherited; /* from the helper before this one */
        bool wide;    /* CPU-wide events */
        bool system;  /* of everybody */
        uint64_t rate;
        uint64_t memory;
} Charge;

/* Who has opened sessions lately; or, in the keeper, had names of the kernel's functions. */
typedef struct Opener {
        uint32_t uid;
        uint64_t due; /* when all of these will have come back; in the past: nothing to remember */
        uint64_t last; /* generation of names */
} Opener;

typedef struct Budget {
        unsigned n_cpus;
        uint64_t memory_max; /* bytes, for the machine */
        uint64_t rate_max;   /* Hz for one session: a quarter of kernel.perf_event_max_sample_rate */
        Charge charges[BUDGET_SESSIONS_MAX * 2];
        Opener openers[BUDGET_SESSIONS_MAX];
} Budget;

/* Reads what the machine has. */
void budget_init(Budget *budget);
/*
 * Charges the grant to its user under this id. Returns 0, or -EDQUOT with a text (at least 160
 * bytes) that names the budget, how much is left and what would fit. id 0: only looks whether it fits.
 */
int budget_charge(Budget *budget, uint32_t id, const struct rs_grant *grant, char *ret_text, size_t size);
/*
 * One more of what may be done so many times at once, and once more whenever `each` has passed, of the same unit as
 * now. *due, 0 at first: when all of it will have come back. Returns 0, and where it is taken that is one less; or how
 * long it is until there is one.
 */
uint64_t budget_take(uint64_t *due, uint64_t now, unsigned at_once, uint64_t each, bool take);
/* Of BUDGET_SESSIONS_MAX; never NULL. */
Opener *budget_find_opener(Opener *openers, uint32_t uid, uint64_t now);
/*
 * One session more of those that the user may open (now in usec, of a clock that only moves on). Returns 0, and where
 * it is taken that is one less; or how many usec from now there will be one.
 */
uint64_t budget_open(Budget *budget, uint32_t uid, uint64_t now, bool take);
/*
 * The session is over; its memory is charged until its maps are gone. Each time everybody had to wait for it counts as
 * one session that its user has opened.
 */
void budget_end(Budget *budget, uint32_t id, unsigned waits, uint64_t now);
void budget_release(Budget *budget, uint32_t id);
/* Sessions that have not ended. */
unsigned budget_count(const Budget *budget);
/* True where some session has ended and is still charged. */
bool budget_has_ended(const Budget *budget);
/*
 * All maps there are now. Ended sessions without any are charged no more. inherit: maps that no session uses, and that
 * are not charged, are what another helper has left; they are charged to their users as ended sessions' are.
 */
void budget_take_maps(Budget *budget, const struct rs_map_info *maps, size_t n, bool inherit);
