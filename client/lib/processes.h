/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who is being recorded: processes by pid, their threads by tid. What is a Process here ends with an exec and with
 * the reuse of its pid, so that nothing of one program is ever taken for another's. A row in the store
 * is for those that have samples, and for their parents: of the many that a build or a shell script starts, most
 * have none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringside.h"
#include "store.h"
#include "symbolizer.h"
#include "table.h"

typedef struct Process Process;
typedef struct Thread Thread;
typedef struct LateFrame LateFrame;

#define COMM_SIZE 17

struct Thread {
        Process *process;
        Thread *next; /* of the same process */
        uint32_t tid;
        int64_t id; /* in the store, 0: not yet; threads that are never sampled get none */
        char comm[COMM_SIZE];
};

struct Process {
        uint32_t pid;
        uint32_t inner_pid; /* in its own pid namespace, 0: the same, or never known */
        uint64_t start;
        int64_t id;        /* in the store, 0: not yet */
        int64_t parent_id; /* likewise, 0: not known, or not yet */
        uint32_t parent_pid; /* not yet: then it may still be found by this, unless it has become something else */
        uint64_t parent_program;
        uint64_t program; /* of all that were ever run here */
        uint64_t version;  /* changes whenever what its addresses mean may have changed; unique among processes */
        uint64_t remembered; /* the last version that stacks of it were remembered for */
        AddressSpace *space;
        uint64_t written_generation; /* of the space: its lowest mapping is in the store */
        bool lowest_written;
        bool gone;  /* of what it has mapped /proc/PID tells nothing, any more */
        bool reaped; /* nor of anything else: it is not there, or another process's */
        bool ended; /* kept for samples that come late */
        bool exited; /* and not only out of sight */
        int64_t end; /* when, as in the store */
        bool gave_up; /* an address of it was looked up in vain */
        size_t n_waiting; /* samples that are not resolved yet */
        LateFrame *late; /* frames that may still get a name, newest first */
        size_t n_late;
        bool kernel; /* the kernel's own: nothing is mapped, ever */
        Process *next_ended;
        Process *below; /* while rows are given: the child that is next */
        Thread *threads;
        char comm[COMM_SIZE];
        char *cmdline;
        size_t cmdline_len;

        /* When its mappings may be read again, ns CLOCK_MONOTONIC. */
        uint64_t refresh_next;     /* for an address that is in none of them */
        uint64_t refresh_interval; /* grows while that does not help */
        unsigned refresh_eager;    /* readings left that need not wait */
        uint64_t refresh_routine;  /* for a stack that is new */
};

typedef struct Processes {
        Store *store;
        Symbolizer *symbolizer;
        uint64_t start; /* of the recording, ns CLOCK_BOOTTIME */
        bool by_counter; /* samples are not only a timer's, but those of a counter in the processor */
        uint64_t n;     /* announced or found out about, execs not counted */
        uint64_t last_version, last_program;
        Table by_pid;
        Table threads; /* pid, tid -> Thread */
        Thread *last_thread;
        Process *oldest_ended, *newest_ended;
        size_t n_ended;
        /* A process is about to go, or to become another program; NULL: nobody asks. 0 or -errno. */
        int (*leaving)(Process *process, void *userdata);
        void *userdata;
} Processes;

void processes_init(Processes *processes, Store *store, Symbolizer *symbolizer, uint64_t start);
void processes_done(Processes *processes);

/* A RINGSIDE_PROCESS record. 0 or -errno. */
int processes_handle(Processes *processes, const RingsideRecord *record);
/* Gives it its row. 0 or -errno. */
int process_need_row(Processes *processes, Process *process);
/* The process that started at start (0: not known), made up where no record told of it. */
int processes_get(Processes *processes, uint32_t pid, uint64_t start, Process **ret);
/* What its addresses mean has changed. */
void process_invalidate(Processes *processes, Process *process);
/* The thread of a sample, made up from /proc where no record told of it. It has its row. 0 or -errno. */
int processes_get_thread(Processes *processes, uint32_t pid, uint32_t tid, Thread **ret);

/* Why mappings would be read again. */
typedef enum RefreshReason {
        REFRESH_NOW,     /* a new program */
        REFRESH_MISSING, /* an address outside all of them */
        REFRESH_ROUTINE, /* a stack never seen: what was there may have been replaced */
} RefreshReason;

/* Reads the mappings, unless that was done too recently. 1: it was done, 0: not. -ENOMEM. */
int process_refresh(Processes *processes, Process *process, RefreshReason reason);
