/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When the mappings of a process are read: when it is first seen; when it becomes another program, and a few times
 * in the moments after that, while the dynamic linker maps one library after the other; and whenever a sample lay in a
 * mapping that is not known here, or a walk ended at one. A child has its parent's list until it becomes another program.
 *
 * The code of a child that goes on as its parent's is touched, and that and the stacks of a process in which a walk found
 * what could not be read.
 *
 * A list is published as soon as there is one, and again with each few files whose tables are ready.
 */

#include "unwinder.h"

#include <pthread.h>

#include "due-heap.h"
#include "proc-file.h"
#include "process-pages.h"
#include "table.h"
#include "thread.h"
#include "time-offset.h"
#include "unwind-code.h"
#include "unwind-queue.h"

#define NSEC_PER_MSEC UINT64_C(1000000)

#define BATCH 64
/* Processes read in a row, before new records are looked at. */
#define READ_BATCH 16
#define PROCESSES_MAX (2 * RS_TABLE_PROCESSES)
/*
 * Bytes of the text of mappings, some 10,000 of them. To read more takes the kernel tens of milliseconds, which whoever
 * writes down what samples say spends as well.
 */
#define MAPS_MAX (1U << 20)

/*
 * Readings of one process: at least so far apart, which doubles while nothing changes; and at a hundredth of the time. But
 * what a program loads is to have its table soon, and with a thousand mappings a reading takes a millisecond: who waited for
 * the longest of these intervals waits no longer, unless that would take a twentieth of the time.
 */
#define INTERVAL_MIN (5 * NSEC_PER_MSEC)
#define INTERVAL_MAX (40 * NSEC_PER_MSEC)
#define SHARE 100
#define SHARE_MIN 20
/* With thousands of mappings that is too late. So who was not read for a while is as soon as others, until that is used up. */
#define SAVED_MAX (1000 * NSEC_PER_MSEC)
/* After an exec: the first reading that follows, each next one after twice the time. */
#define FOLLOW_MIN (2 * NSEC_PER_MSEC)
#define FOLLOW_UPS 5
#define FOLLOW_SHARE 4
/* All readings together may take this share of the time, and so much at once; then those for which no sample asks are left. */
#define TOTAL_SHARE 4
#define CREDIT_MAX (250 * (int64_t) NSEC_PER_MSEC)
#define POSTPONED (20 * NSEC_PER_MSEC)
/* A child that has become no other program by then is not about to. Then, where walks still find some: twice as late each time. */
#define TOUCH_AFTER_FORK (2 * NSEC_PER_MSEC)
#define TOUCH_MIN (50 * NSEC_PER_MSEC)
#define TOUCH_MAX (128 * TOUCH_MIN)
/* Where something had no room, or no memory. */
#define RETRY_MIN (2 * UNWIND_MEMORY_GRACE)
#define RETRY_MAX (64 * RETRY_MIN)
/* Of a process that we may not look into, or that has too much. It may be ours again, or have less. */
#define HIDDEN_INTERVAL (10000 * NSEC_PER_MSEC)
/* While tables are being made, what is ready is published this often. */
#define PUBLISH_INTERVAL (3 * NSEC_PER_MSEC)
/* Bytes of a mapping whose table takes a millisecond or two. */
#define SMALL (UINT64_C(4) << 20)
/* Where any of them may have become another one, they are read so far apart. */
#define SUSPECT_INTERVAL (1 * NSEC_PER_MSEC)
/* Who ends the session waits so long for the thread, which a file or a process may keep from ending. */
#define PATIENCE (2000 * NSEC_PER_MSEC)
/* Whose end was not told are looked for when room is short, so often at most. */
#define SWEEP_INTERVAL (10000 * NSEC_PER_MSEC)

typedef struct Process Process;

struct Process {
        Due due; /* the earlier of read_due and touch_due; first, so that one is the other */
        uint32_t pid;
        uint64_t start;
        int slot;            /* -1: there is none for it */
        UnwindList *list;    /* as published */
        AddressSpace *space; /* NULL: not read yet */
        UnwindCodes codes;   /* of what is mapped there and no file's */
        bool verified;       /* /proc/PID is the one that was told of */
        uint64_t generation; /* of the images, when the list was made, */
        uint64_t space_generation; /* and of the space; 0: the list is not its own */
        /* ns CLOCK_MONOTONIC */
        uint64_t read_due, touch_due; /* 0: not planned */
        uint64_t next;       /* not before, for what a sample asks */
        uint64_t interval;
        uint64_t paid;       /* what was read so far is the share of the time until then */
        uint64_t retry_interval;
        unsigned follow_ups; /* still to come */
        uint64_t follow_interval;
        uint64_t touch_next, touch_interval;
        bool missing;   /* a walk found a page that was not there */
        bool rewritten; /* a file was written anew since it was read */
        StackPages stacks;
};

struct Unwinder {
        pthread_t thread;
        UnwindQueue queue;
        UnwinderStatistics published; /* by the queue's lock */
        bool untold; /* the ring had no room for records of processes; by whoever is the last to look */

        /* The thread's. */
        bool owns_memory; /* and fd */
        int fd;
        UnwindMemory *memory; /* of the tables */
        UnwindCache *cache; /* NULL: there is no place for one */
        UnwindImages *images;
        Symbolizer *symbolizer;
        Table processes; /* pid -> Process */
        DueHeap due;
        int64_t time_offset; /* time-offset.h: the programs know processes by when they started on theirs */
        uint64_t generation; /* of the images that all lists have seen */
        bool crowded;        /* something found no room, or the end of a process may not have been told */
        uint64_t no_room;    /* of the images' statistics, when that was looked at */
        uint64_t next_sweep;
        uint64_t credited;
        int64_t credit;      /* ns of CPU time */
        UnwinderStatistics statistics;
};

/* ---- processes ---- */

static Process *find_process(const Unwinder *u, uint32_t pid) {
        return (Process *) (uintptr_t) table_get(&u->processes, (TableKey){ .a = pid });
}

static void plan(Unwinder *u, Process *process) {
        uint64_t time = MIN(process->read_due - 1, process->touch_due - 1) + 1; /* 0 is none, and the latest */

        if (time == 0)
                due_heap_remove(&u->due, &process->due);
        else
                due_heap_set(&u->due, &process->due, time);
}

static uint64_t earlier(uint64_t planned, uint64_t time) {
        return planned == 0 ? time : MIN(planned, time);
}

/* At that time, or before where that is planned already. */
static void want_reading(Unwinder *u, Process *process, uint64_t time) {
        process->read_due = earlier(process->read_due, time);
        plan(u, process);
}

static void want_touch(Unwinder *u, Process *process, uint64_t time) {
        process->touch_due = earlier(process->touch_due, time);
        plan(u, process);
}

static void withdraw(Unwinder *u, Process *process) {
        if (process->slot >= 0)
                unwind_memory_withdraw(u->memory, (unsigned) process->slot);
        process->list = unwind_list_unref(process->list, u->images);
}

static void forget_process(Unwinder *u, Process *process) {
        withdraw(u, process);
        if (process->slot >= 0)
                unwind_memory_give_slot_back(u->memory, (unsigned) process->slot);
        due_heap_remove(&u->due, &process->due);
        (void) table_remove(&u->processes, (TableKey){ .a = process->pid });
        address_space_free(process->space);
        unwind_codes_done(&process->codes, u->images);
        free(process);
        u->statistics.processes--;
}

static void take_slot(Unwinder *u, Process *process) {
        unsigned slot;

        if (process->slot >= 0)
                return;
        if (unwind_memory_take_slot(u->memory, process->pid, process->start - (uint64_t) u->time_offset, &slot) < 0) {
                u->statistics.no_slot++;
                u->crowded = true;
        } else
                process->slot = (int) slot;
}

static Process *add_process(Unwinder *u, uint32_t pid, uint64_t start) {
        Process *process;

        if (u->processes.n >= PROCESSES_MAX) {
                u->crowded = true;
                return NULL;
        }
        process = calloc(1, sizeof(*process));
        if (!process)
                return NULL;
        *process = (Process){
                .pid = pid,
                .start = start,
                .slot = -1,
                .interval = INTERVAL_MIN,
                .retry_interval = RETRY_MIN,
                .touch_interval = TOUCH_MIN,
        };
        if (table_put(&u->processes, (TableKey){ .a = pid }, (uintptr_t) process) < 0) {
                free(process);
                return NULL;
        }
        u->statistics.processes++;
        take_slot(u, process);
        return process;
}

/* The process that started then. NULL: it is gone already, or there are too many. */
static Process *get_process(Unwinder *u, const UnwindEvent *event) {
        Process *process = find_process(u, event->pid);

        if (event->start == 0 || (process && process->start == event->start))
                return process;
        if (process && process->start > event->start)
                return NULL;
        if (process)
                forget_process(u, process);
        return add_process(u, event->pid, event->start);
}

/* ---- reading ---- */

/* What the thread spends is a budget only for what nobody asks for. */
static bool may_spend(Unwinder *u) {
        uint64_t t = now_ns(CLOCK_MONOTONIC);

        u->credit = MIN(u->credit + (int64_t) ((t - u->credited) / TOTAL_SHARE), CREDIT_MAX);
        u->credited = t;
        return u->credit > 0;
}

static void become_new(Unwinder *u, Process *process) {
        withdraw(u, process);
        if (process->space)
                address_space_clear(process->space);
        unwind_codes_done(&process->codes, u->images);
        process->interval = INTERVAL_MIN;
        process->retry_interval = RETRY_MIN;
        process->next = 0;
        process->follow_ups = FOLLOW_UPS;
        process->follow_interval = FOLLOW_MIN;
        process->touch_due = process->touch_next = 0;
        process->touch_interval = TOUCH_MIN;
        process->missing = false;
        process->stacks = (StackPages){};
}

static void retry_later(Unwinder *u, Process *process) {
        want_reading(u, process, now_ns(CLOCK_MONOTONIC) + process->retry_interval);
        process->retry_interval = MIN(process->retry_interval * 2, RETRY_MAX);
}

static void publish(Unwinder *u, Process *process) {
        UnwindList *list, *old = process->list;

        process->generation = unwind_images_get_generation(u->images);
        if (unwind_list_new(&list, u->images, process->space, &process->codes, old) < 0) {
                u->statistics.no_list++;
                u->crowded = true;
                retry_later(u, process);
                if (process->space_generation == address_space_get_generation(process->space))
                        return;
                list = NULL; /* something else is mapped by now, and walks would go by what was */
        }
        /* The same is published again: that tells whether it still is. */
        if (!unwind_memory_publish(u->memory, (unsigned) process->slot,
                                   list ? unwind_list_get_value(list) : UNWIND_MEMORY_EMPTY_LIST)) {
                /* It has become another program since it was read, as will be told. */
                if (list != old)
                        unwind_list_unref(list, u->images);
                become_new(u, process);
                want_reading(u, process, now_ns(CLOCK_MONOTONIC) + FOLLOW_MIN);
                return;
        }
        process->list = list;
        process->space_generation = address_space_get_generation(process->space);
        if (list != old)
                unwind_list_unref(old, u->images);
}

/* Whether there are any that had a table once, or should have had one. */
static bool forget_files(Unwinder *u, Process *process) {
        bool any = false;

        for (size_t i = 0; i < address_space_get_n_mappings(process->space); i++) {
                MappedRange range;

                address_space_get_mapping(process->space, i, &range);
                if (!unwind_images_wants_file(u->images, range.file))
                        continue;
                symbolizer_forget_file(range.file);
                any = true;
        }
        return any;
}

typedef struct Reading {
        size_t n; /* mappings */
        uint64_t published; /* ns CLOCK_MONOTONIC */
        uint64_t generation;
} Reading;

/* 1: what is read next is of no use, since it is another program now, or all ends. */
static int read_file(Unwinder *u, Process *process, MappedFile *file, Reading *reading) {
        int r;

        r = symbolizer_read_file(u->symbolizer, file);
        if (r < 0 || unwind_images_get_generation(u->images) == reading->generation)
                return MIN(r, 0);
        /* At most so many files were read since then; the next one may be large. */
        reading->generation = unwind_images_get_generation(u->images);
        if (unwind_queue_is_stopping(&u->queue))
                return 1;
        if (now_ns(CLOCK_MONOTONIC) - reading->published < PUBLISH_INTERVAL)
                return 0;
        publish(u, process);
        reading->published = now_ns(CLOCK_MONOTONIC);
        return address_space_get_n_mappings(process->space) != reading->n;
}

/* From the highest to the lowest, as far as they are no larger than max. */
static int read_files_up_to(Unwinder *u, Process *process, uint64_t max, Reading *reading) {
        int r = 0;

        for (size_t i = reading->n; i > 0 && r == 0; i--) {
                MappedRange range;

                address_space_get_mapping(process->space, i - 1, &range);
                if (range.end - range.start <= max)
                        r = read_file(u, process, range.file, reading);
        }
        return r;
}

/*
 * What most stacks go through comes first: the dynamic linker, the C library and others that take no time; the program, which
 * is mapped lowest; and libraries in the order in which they were loaded, each below the one before, so that those of the
 * program itself come before what these need.
 */
static int read_files(Unwinder *u, Process *process) {
        Reading reading = {
                .n = address_space_get_n_mappings(process->space),
                .published = now_ns(CLOCK_MONOTONIC),
                .generation = unwind_images_get_generation(u->images),
        };
        MappedRange lowest;
        int r;

        if (reading.n == 0)
                return 0;
        r = read_files_up_to(u, process, SMALL, &reading);
        if (r == 0) {
                address_space_get_mapping(process->space, 0, &lowest);
                r = read_file(u, process, lowest.file, &reading);
        }
        if (r == 0)
                r = read_files_up_to(u, process, UINT64_MAX, &reading);
        return MIN(r, 0);
}

/* The kernel's start and what /proc tells of it differ by up to a tick. -ESRCH: it is gone; others: who knows. */
static int verify(Process *process) {
        uint64_t start;
        ssize_t r;
        char c;

        if (process->verified)
                return 0;
        start = proc_file_read_start((pid_t) process->pid);
        if (start == 0) {
                r = proc_file_read((pid_t) process->pid, "stat", &c, 1);
                return r >= 0 || r == -ENOENT ? -ESRCH : (int) r;
        }
        process->verified = (start > process->start ? start - process->start : process->start - start) < 100 * NSEC_PER_MSEC;
        return process->verified ? 0 : -ESRCH;
}

/*
 * 1: something has changed, 0: not; -ENOBUFS: there is no slot for it, or an error that process_dir_open() has. Files are
 * not read yet.
 */
static int read_mappings(Unwinder *u, Process *process) {
        int r;

        u->statistics.readings++;
        r = verify(process);
        if (r < 0)
                return r;
        take_slot(u, process);
        if (process->slot < 0)
                return -ENOBUFS;
        unwind_memory_prepare(u->memory, (unsigned) process->slot);
        if (!process->space) {
                r = address_space_new(&process->space, u->symbolizer, (pid_t) process->pid);
                if (r < 0)
                        return r;
        }
        r = address_space_refresh(process->space);
        if (r >= 0 && forget_files(u, process)) {
                int again = address_space_refresh(process->space);

                r = again < 0 ? again : MAX(r, again);
        }
        if (r < 0)
                return r;
        /* For what there is no memory now there is at the next reading. */
        (void) unwind_codes_update(&process->codes, u->images, process->space, (pid_t) process->pid);
        publish(u, process); /* what is known of other processes is there at once */
        return r;
}

static void plan_next(Unwinder *u, Process *process, bool changed, uint64_t cost) {
        uint64_t t = now_ns(CLOCK_MONOTONIC);

        process->interval = changed ? INTERVAL_MIN : MIN(process->interval * 2, INTERVAL_MAX);
        process->paid = MAX(process->paid, t) + cost * SHARE_MIN;
        process->next = MAX(t + MAX(process->interval, MIN(cost * SHARE, INTERVAL_MAX)), process->paid - MIN(process->paid, SAVED_MAX));
        if (process->follow_ups > 0 && may_spend(u)) {
                want_reading(u, process, t + MAX(process->follow_interval, cost * FOLLOW_SHARE));
                process->follow_ups--;
                process->follow_interval *= 2;
        }
        if (unwind_list_is_waiting(process->list))
                retry_later(u, process);
}

static void read_process(Unwinder *u, Process *process) {
        uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID), cost, all;
        int r;

        r = read_mappings(u, process);
        /* What may not be done so often is to read the mappings: a file is read once, but for one that is written anew. */
        cost = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        if (r >= 0 && read_files(u, process) < 0)
                r = -ENOMEM;
        all = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        if (process->rewritten)
                cost = all;
        process->rewritten = false;
        u->credit -= (int64_t) all;
        if (r == -ESRCH) {
                forget_process(u, process);
                return;
        }
        if (r == -EPERM || r == -EACCES || r == -EFBIG) { /* somebody else's, in a session that has everybody's; or this */
                withdraw(u, process);
                process->next = now_ns(CLOCK_MONOTONIC) + HIDDEN_INTERVAL;
                if (r == -EFBIG) {
                        unwind_memory_refuse(u->memory, (unsigned) process->slot);
                        want_reading(u, process, process->next); /* no sample asks for that */
                }
                return;
        }
        if (r < 0) { /* no memory, no fds, no slot: what is known of it still holds */
                retry_later(u, process);
                return;
        }
        publish(u, process);
        plan_next(u, process, r > 0, cost);
}

static void touch_process(Unwinder *u, Process *process) {
        uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
        const struct rs_table_mapping *mappings;
        size_t n;

        process->verified = false; /* it may have become somebody else's since it was read */
        if (!process->list || verify(process) < 0)
                return;
        mappings = unwind_list_get_mappings(process->list, &n);
        /*
         * As long as no walk says that one is missing, it need not be each of them. Who may not once, as where Yama forbids
         * it, need not try again so soon.
         */
        if (process_pages_touch_code((pid_t) process->pid, MAPS_MAX, mappings, n, process->missing) == -EPERM)
                process->touch_interval = TOUCH_MAX;
        else if (process->missing)
                (void) process_pages_touch_stacks((pid_t) process->pid, MAPS_MAX, &process->stacks);
        process->touch_next = now_ns(CLOCK_MONOTONIC) + process->touch_interval;
        process->touch_interval = MIN(process->touch_interval * 2, TOUCH_MAX);
        u->credit -= (int64_t) (now_ns(CLOCK_THREAD_CPUTIME_ID) - before);
        u->statistics.touches++;
}

/* One of those that are due, whose process may be gone afterwards. */
static void do_due(Unwinder *u, Process *process, uint64_t time) {
        bool read = process->read_due != 0 && process->read_due <= time;
        bool touch = process->touch_due != 0 && process->touch_due <= time;

        if (read)
                process->read_due = 0;
        if (touch)
                process->touch_due = 0;
        plan(u, process);
        if (touch)
                touch_process(u, process);
        if (read)
                read_process(u, process);
}

/* Returns when the next one is due, 0: none is planned. */
static uint64_t do_all_due(Unwinder *u) {
        Due *due = NULL;

        for (unsigned i = 0; i < READ_BATCH; i++) {
                due = due_heap_get_first(&u->due);
                if (!due || due->time > now_ns(CLOCK_MONOTONIC) || unwind_queue_is_stopping(&u->queue))
                        break;
                do_due(u, (Process *) due, due->time);
                due = due_heap_get_first(&u->due);
        }
        return due ? due->time : 0;
}

/* ---- records ---- */

static void handle_fork(Unwinder *u, const UnwindEvent *event, Process *process) {
        Process *parent = find_process(u, event->ppid);

        if (process->space || process->list)
                return; /* is told of for the second time */
        if (may_spend(u)) /* a walk that misses a page asks for it anyway */
                want_touch(u, process, now_ns(CLOCK_MONOTONIC) + TOUCH_AFTER_FORK);
        if (!parent || !parent->list || process->slot < 0) {
                want_reading(u, process, now_ns(CLOCK_MONOTONIC));
                return;
        }
        if (!unwind_memory_publish(u->memory, (unsigned) process->slot, unwind_list_get_value(parent->list)))
                return;
        process->list = unwind_list_ref(parent->list);
        process->generation = parent->generation;
}

static void handle_process(Unwinder *u, const UnwindEvent *event) {
        Process *process;
        uint64_t t = now_ns(CLOCK_MONOTONIC);

        if (event->kind == RINGSIDE_PROCESS_EXIT || event->kind == RINGSIDE_PROCESS_GONE) {
                process = find_process(u, event->pid);
                if (process && process->start == event->start)
                        forget_process(u, process);
                return;
        }
        process = get_process(u, event);
        if (!process)
                return;
        if (event->kind == RINGSIDE_PROCESS_FORK)
                handle_fork(u, event, process);
        else if (event->kind == RINGSIDE_PROCESS_SEEN)
                want_reading(u, process, t);
        else {
                become_new(u, process);
                /* Where many begin, those that end at once are not worth it. */
                want_reading(u, process, may_spend(u) ? t : t + POSTPONED);
        }
}

/* One that is told again may have a file that was written anew, and loaded again to the same place. */
static bool is_known(Process *process, const ToldMapping *mapping) {
        if (!process->space || !address_space_contains(process->space, mapping->start) ||
            address_space_contradicts(process->space, mapping))
                return false;
        process->rewritten |= address_space_forget_rewritten(process->space, mapping);
        return !process->rewritten;
}

static void handle_missing(Unwinder *u, const UnwindEvent *event) {
        Process *process = get_process(u, event);

        if (process && event->walk_end == RINGSIDE_WALK_UNREADABLE) {
                process->missing = true;
                want_touch(u, process, MAX(now_ns(CLOCK_MONOTONIC), process->touch_next));
                return;
        }
        if (!process)
                return;
        if (event->type == RINGSIDE_MAPPING && process->list && is_known(process, &event->mapping))
                return;
        want_reading(u, process, MAX(now_ns(CLOCK_MONOTONIC), process->next));
}

static void handle_event(Unwinder *u, const UnwindEvent *event) {
        if (event->type == RINGSIDE_PROCESS)
                handle_process(u, event);
        else
                handle_missing(u, event);
}

/* Any of them may have become another program, or be gone. */
static void suspect_all(Unwinder *u) {
        uint64_t time = now_ns(CLOCK_MONOTONIC);
        TableEntry entry;
        size_t pos = 0;

        while (table_next(&u->processes, &pos, &entry)) {
                Process *process = (Process *) (uintptr_t) entry.value;

                process->verified = false;
                want_reading(u, process, time);
                time += SUSPECT_INTERVAL; /* for those that samples ask about are still served first */
        }
}

/* The ring may have been full when they ended. What they had is then kept from those that live. */
static void sweep(Unwinder *u) {
        uint64_t t = now_ns(CLOCK_MONOTONIC);
        UnwindImagesStatistics images;
        TableEntry entry;
        size_t pos = 0;

        unwind_images_get_statistics(u->images, &images);
        u->crowded |= images.no_room != u->no_room;
        u->no_room = images.no_room;
        if (!u->crowded || t < u->next_sweep)
                return;
        u->crowded = false;
        u->next_sweep = t + SWEEP_INTERVAL;
        while (table_next(&u->processes, &pos, &entry)) {
                Process *process = (Process *) (uintptr_t) entry.value;

                if (!proc_file_is_running((pid_t) process->pid, process->start))
                        want_reading(u, process, t); /* which finds that it is gone */
        }
}

/* Lists in which a file is that has just got its table. */
static void publish_all(Unwinder *u) {
        TableEntry entry;
        size_t pos = 0;

        if (u->generation == unwind_images_get_generation(u->images))
                return;
        u->generation = unwind_images_get_generation(u->images);
        while (table_next(&u->processes, &pos, &entry)) {
                Process *process = (Process *) (uintptr_t) entry.value;

                if (process->space && process->generation != u->generation && unwind_list_is_waiting(process->list))
                        publish(u, process);
        }
}

/* ---- the thread ---- */

static void publish_statistics(Unwinder *u) {
        (void) pthread_mutex_lock(&u->queue.lock);
        u->published = u->statistics;
        u->published.lost = u->queue.lost;
        unwind_images_get_statistics(u->images, &u->published.images);
        (void) pthread_mutex_unlock(&u->queue.lock);
}

static void run(Unwinder *u) {
        uint64_t due = 0;
        bool overflown;
        UnwindEvent events[BATCH];
        int n;

        while ((n = unwind_queue_take(&u->queue, due, events, BATCH, &overflown)) >= 0) {
                uint64_t tick;

                for (int i = 0; i < n; i++)
                        handle_event(u, &events[i]);
                u->statistics.handled += (unsigned) n;
                if (overflown)
                        suspect_all(u);
                u->crowded |= __atomic_exchange_n(&u->untold, false, __ATOMIC_RELAXED);
                sweep(u);
                due = do_all_due(u);
                tick = unwind_images_tick(u->images);
                publish_all(u);
                (void) symbolizer_sweep(u->symbolizer);
                /* Only where nobody waits for a table. */
                if (n == 0 && !overflown && (due == 0 || due > now_ns(CLOCK_MONOTONIC)))
                        (void) unwind_cache_write(u->cache);
                if (unwind_cache_is_waiting(u->cache))
                        due = 1; /* at once */
                due = due == 0 ? tick : tick == 0 ? due : MIN(due, tick);
                publish_statistics(u);
        }
}

static void unwinder_destroy(Unwinder *u) {
        TableEntry entry;
        size_t pos = 0;

        while (table_next(&u->processes, &pos, &entry)) {
                Process *process = (Process *) (uintptr_t) entry.value;

                (void) unwind_list_unref(process->list, u->images);
                (void) address_space_free(process->space);
                unwind_codes_done(&process->codes, u->images);
                free(process);
        }
        table_done(&u->processes);
        (void) symbolizer_free(u->symbolizer);
        (void) unwind_images_free(u->images);
        (void) unwind_cache_free(u->cache);
        if (u->owns_memory) {
                unwind_memory_unmap(u->memory);
                close_fd(u->fd);
        }
        (void) unwind_memory_free(u->memory);
        due_heap_done(&u->due);
        unwind_queue_done(&u->queue);
        free(u);
}

static void *unwinder_run(void *userdata) {
        Unwinder *u = userdata;

        run(u);
        /* What is left of it here, for whoever ends the session does not wait for longer than they want to. */
        while (unwind_cache_write(u->cache))
                continue;
        if (unwind_queue_end(&u->queue))
                unwinder_destroy(u);
        return NULL;
}

int unwinder_new(Unwinder **ret, void *memory, size_t size, int fd, size_t mapped) {
        Unwinder *u = calloc(1, sizeof(*u));
        int r;

        if (!u)
                return -ENOMEM;
        u->time_offset = time_offset("boottime");
        u->credit = CREDIT_MAX;
        u->credited = now_ns(CLOCK_MONOTONIC);
        r = unwind_queue_init(&u->queue);
        if (r < 0) {
                free(u);
                return r;
        }
        r = due_heap_init(&u->due, PROCESSES_MAX);
        if (r >= 0)
                r = unwind_memory_new_of_file(&u->memory, memory, size, fd, mapped);
        if (r >= 0) {
                /* It only saves time: there may be none. */
                (void) unwind_cache_new(&u->cache, NULL, UNWIND_CACHE_SIZE_MAX);
                r = unwind_images_new(&u->images, u->memory, u->cache, &u->queue.stop);
        }
        if (r >= 0)
                r = symbolizer_new(&u->symbolizer, &(SymbolizerOptions){ .maps_max = MAPS_MAX, .read = unwind_images_read, .forget = unwind_images_forget, .userdata = u->images });
        if (r >= 0)
                r = thread_start(&u->thread, unwinder_run, u);
        if (r < 0) {
                unwinder_destroy(u);
                return r;
        }
        u->owns_memory = true;
        u->fd = fd;
        *ret = u;
        return 0;
}

Unwinder *unwinder_free(Unwinder *u) {
        pthread_t thread;

        if (!u)
                return NULL;
        thread = u->thread;
        if (unwind_queue_stop(&u->queue, now_ns(CLOCK_MONOTONIC) + PATIENCE)) {
                (void) pthread_join(thread, NULL);
                unwinder_destroy(u);
        } else
                (void) pthread_detach(thread);
        return NULL;
}

void unwinder_note(Unwinder *u, const RingsideRecord *record) {
        unwind_queue_note(&u->queue, record);
}

void unwinder_note_lost(Unwinder *u) {
        __atomic_store_n(&u->untold, true, __ATOMIC_RELAXED);
}

void unwinder_get_statistics(Unwinder *u, UnwinderStatistics *ret) {
        (void) pthread_mutex_lock(&u->queue.lock);
        *ret = u->published;
        (void) pthread_mutex_unlock(&u->queue.lock);
}
