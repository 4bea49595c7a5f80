/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-queue.h"

#include <time.h>

#include "util.h"

/* Samples that say the same of the same process are noted once in this time. */
#define AGAIN UINT64_C(5000000)

int unwind_queue_init(UnwindQueue *q) {
        pthread_condattr_t attributes;
        int r;

        r = pthread_condattr_init(&attributes);
        if (r != 0)
                return -r;
        (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        r = pthread_cond_init(&q->wake, &attributes);
        (void) pthread_condattr_destroy(&attributes);
        if (r != 0)
                return -r;
        r = pthread_mutex_init(&q->lock, NULL);
        if (r != 0)
                (void) pthread_cond_destroy(&q->wake);
        return -r;
}

void unwind_queue_done(UnwindQueue *q) {
        (void) pthread_mutex_destroy(&q->lock);
        (void) pthread_cond_destroy(&q->wake);
}

static void wait_until(UnwindQueue *q, uint64_t time) {
        struct timespec t = { .tv_sec = (time_t) (time / 1000000000U), .tv_nsec = (long) (time % 1000000000U) };

        if (time == 0)
                (void) pthread_cond_wait(&q->wake, &q->lock);
        else
                (void) pthread_cond_timedwait(&q->wake, &q->lock, &t);
}

/* ---- the reader ---- */

/* A walk found no list, or left what the list has, or found what it cannot read. */
static bool sample_is_news(UnwindQueue *q, const RingsideRecord *record) {
        uint64_t t;

        if (record->sample.walk_end != RINGSIDE_WALK_NO_TABLES && record->sample.walk_end != RINGSIDE_WALK_NO_MAPPING &&
            record->sample.walk_end != RINGSIDE_WALK_UNREADABLE)
                return false;
        t = now_ns(CLOCK_MONOTONIC);
        if (q->recent[record->pid % UNWIND_QUEUE_RECENT].pid == record->pid && t - q->recent[record->pid % UNWIND_QUEUE_RECENT].time < AGAIN)
                return false;
        q->recent[record->pid % UNWIND_QUEUE_RECENT].pid = record->pid;
        q->recent[record->pid % UNWIND_QUEUE_RECENT].time = t;
        return true;
}

static bool event_make(UnwindQueue *q, const RingsideRecord *record, UnwindEvent *ret) {
        *ret = (UnwindEvent){ .type = record->type, .pid = record->pid };
        switch (record->type) {
        case RINGSIDE_PROCESS:
                ret->kind = record->process.kind;
                ret->ppid = record->process.ppid;
                ret->start = record->process.start;
                return !record->process.kernel && ret->start != 0 && ret->kind != RINGSIDE_PROCESS_COMM &&
                       (ret->kind != RINGSIDE_PROCESS_FORK || record->tid == record->pid);
        case RINGSIDE_MAPPING:
                ret->start = record->mapping.process_start;
                ret->mapping = (ToldMapping){
                        .start = record->mapping.start,
                        .end = record->mapping.end,
                        .offset = record->mapping.offset,
                        .inode = record->mapping.inode,
                        .dev_major = record->mapping.dev_major,
                        .dev_minor = record->mapping.dev_minor,
                        .path = record->mapping.path[0] ? "?" : "",
                };
                return true;
        case RINGSIDE_SAMPLE:
                ret->walk_end = record->sample.walk_end;
                return sample_is_news(q, record);
        default:
                return false;
        }
}

void unwind_queue_note(UnwindQueue *q, const RingsideRecord *record) {
        UnwindEvent event;

        if (!event_make(q, record, &event))
                return;
        (void) pthread_mutex_lock(&q->lock);
        if (q->n < UNWIND_QUEUE_MAX)
                q->events[(q->first + q->n++) % UNWIND_QUEUE_MAX] = event;
        else {
                q->overflown = true;
                q->lost++;
        }
        (void) pthread_cond_signal(&q->wake);
        (void) pthread_mutex_unlock(&q->lock);
}

bool unwind_queue_stop(UnwindQueue *q, uint64_t deadline) {
        bool ended;

        (void) pthread_mutex_lock(&q->lock);
        __atomic_store_n(&q->stop, true, __ATOMIC_RELAXED); /* who reads a file looks at it without the lock */
        (void) pthread_cond_signal(&q->wake);
        while (!q->ended && now_ns(CLOCK_MONOTONIC) < deadline)
                wait_until(q, deadline);
        ended = q->ended;
        q->abandoned = !ended;
        (void) pthread_mutex_unlock(&q->lock);
        return ended;
}

/* ---- the thread ---- */

int unwind_queue_take(UnwindQueue *q, uint64_t time, UnwindEvent *events, unsigned max, bool *ret_overflown) {
        int n = 0;

        (void) pthread_mutex_lock(&q->lock);
        while (!q->stop && q->n == 0 && !q->overflown && (time == 0 || now_ns(CLOCK_MONOTONIC) < time))
                wait_until(q, time);
        while (q->n > 0 && (unsigned) n < max) {
                events[n++] = q->events[q->first];
                q->first = (q->first + 1) % UNWIND_QUEUE_MAX;
                q->n--;
        }
        *ret_overflown = q->overflown && q->n == 0;
        if (*ret_overflown)
                q->overflown = false;
        if (q->stop)
                n = -ECANCELED;
        (void) pthread_mutex_unlock(&q->lock);
        return n;
}

bool unwind_queue_is_stopping(UnwindQueue *q) {
        bool stop;

        (void) pthread_mutex_lock(&q->lock);
        stop = q->stop;
        (void) pthread_mutex_unlock(&q->lock);
        return stop;
}

bool unwind_queue_end(UnwindQueue *q) {
        bool abandoned;

        (void) pthread_mutex_lock(&q->lock);
        q->ended = true;
        abandoned = q->abandoned;
        (void) pthread_cond_signal(&q->wake);
        (void) pthread_mutex_unlock(&q->lock);
        return abandoned;
}
