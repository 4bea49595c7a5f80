/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * From the reader of the ring to the thread of the tables: what of a session's records concerns these. The reader never
 * waits; what finds no place is lost, which the thread is told. And the end, which either may be the last to see.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ringside.h"
#include "symbolizer.h"

#define UNWIND_QUEUE_MAX 4096
#define UNWIND_QUEUE_RECENT 64

typedef struct UnwindEvent {
        enum RingsideRecordType type;
        enum RingsideProcessKind kind;
        enum RingsideWalkEnd walk_end;
        uint32_t pid, ppid;
        uint64_t start; /* 0: not known */
        ToldMapping mapping; /* without its path */
} UnwindEvent;

typedef struct UnwindQueue {
        pthread_mutex_t lock; /* what follows */
        pthread_cond_t wake;
        bool stop;      /* the thread is to end (may be read without the lock), */
        bool ended;     /* has done so, */
        bool abandoned; /* or will do so when it can, as the last owner */
        UnwindEvent events[UNWIND_QUEUE_MAX]; /* a ring */
        unsigned first, n;
        bool overflown;
        uint64_t lost;

        /* The reader's. */
        struct {
                uint32_t pid;
                uint64_t time;
        } recent[UNWIND_QUEUE_RECENT];
} UnwindQueue;

/* queue: zeroes. Times are ns CLOCK_MONOTONIC. */
int unwind_queue_init(UnwindQueue *queue);
void unwind_queue_done(UnwindQueue *queue);

/* ---- the reader ---- */

void unwind_queue_note(UnwindQueue *queue, const RingsideRecord *record);
/* Tells the thread to end. false: it has not done so by then, and is the owner of everything now. */
bool unwind_queue_stop(UnwindQueue *queue, uint64_t deadline);

/* ---- the thread ---- */

/*
 * Waits for the first of at most max, but not longer than until time (0: for ever). Returns how many; -ECANCELED: this is the end.
 * *ret_overflown: some were lost, and those before have all been taken.
 */
int unwind_queue_take(UnwindQueue *queue, uint64_t time, UnwindEvent *events, unsigned max, bool *ret_overflown);
bool unwind_queue_is_stopping(UnwindQueue *queue);
/* The last thing it does. true: nobody waits for it any more, and everything is its own. */
bool unwind_queue_end(UnwindQueue *queue);
