/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The command line of `ringside record`, parsed and checked, before anything is asked or opened. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ringside.h"

/* What the helper grants one session at most. */
#define RECORD_EVENTS_MAX 8
#define RECORD_TARGETS_MAX 63
#define RECORD_LABELS_MAX 32

typedef struct RecordEvent {
        char name[32];
        bool by_period;
        uint64_t value; /* Hz or units of the event; 0: the common frequency */
} RecordEvent;

enum RecordTargetKind { RECORD_PROCESS, RECORD_THREAD, RECORD_CGROUP, RECORD_UNIT };

typedef struct RecordTarget {
        enum RecordTargetKind kind;
        pid_t id;         /* of processes and threads */
        const char *name; /* of cgroups and units */
} RecordTarget;

enum RecordUnwind {
        RECORD_UNWIND_AUTO,  /* by tables, where there is room for them */
        RECORD_UNWIND_TABLE, /* or not at all */
        RECORD_UNWIND_FP,
};

typedef struct RecordOptions {
        uint64_t frequency; /* Hz, 0: the library's default */
        RecordEvent events[RECORD_EVENTS_MAX];
        unsigned n_events;
        RecordTarget targets[RECORD_TARGETS_MAX]; /* all by number, or all by cgroup */
        unsigned n_targets;
        bool user; /* units are those of the user's manager */
        const char *output;  /* NULL: a name made from command and date */
        uint64_t duration;   /* ns, 0: until it ends by itself */
        enum RingsideHelper helper;
        bool no_ask, no_inherit, no_lines, no_wait, quiet;
        bool all;            /* everybody's processes may be seen; with a command: all of them while it runs */
        enum RingsideKernel kernel;
        uint64_t ring_size;  /* bytes, 0: the default */
        unsigned max_frames; /* 0: the default */
        enum RecordUnwind unwind;
        uint64_t table_size; /* bytes, 0 with frame pointers only */
        bool table_size_named; /* or it is the default */
        const char *labels[RECORD_LABELS_MAX + 1]; /* ends with NULL */
        char **command;      /* argv, NULL: none */
} RecordOptions;

/* Whether targets narrow what all CPUs see, rather than being watched by events of their own. */
static inline bool record_options_by_cgroup(const RecordOptions *o) {
        return o->n_targets > 0 && o->targets[0].kind >= RECORD_CGROUP;
}

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. Strings point into argv. */
int record_options_parse(RecordOptions *ret, int argc, char **argv);
