/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The command line of `ringside record`, parsed and checked, before anything is asked or opened. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ringside.h"

/* What the helper grants one session at most. */
#define RECORD_EVENTS_MAX 8
#define RECORD_PIDS_MAX 64
#define RECORD_LABELS_MAX 32

typedef struct RecordEvent {
        char name[32];
        bool by_period;
        uint64_t value; /* Hz or units of the event; 0: the common frequency */
} RecordEvent;

typedef struct RecordOptions {
        uint64_t frequency; /* Hz, 0: the library's default */
        RecordEvent events[RECORD_EVENTS_MAX];
        unsigned n_events;
        pid_t pids[RECORD_PIDS_MAX];
        unsigned n_pids;
        const char *output;  /* NULL: a name made from command and date */
        uint64_t duration;   /* ns, 0: until it ends by itself */
        enum RingsideHelper helper;
        bool no_ask, no_inherit, no_wait, quiet;
        uint64_t ring_size;  /* bytes, 0: the default */
        unsigned max_frames; /* 0: the default */
        const char *labels[RECORD_LABELS_MAX + 1]; /* ends with NULL */
        char **command;      /* argv, NULL: none */
} RecordOptions;

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. Strings point into argv. */
int record_options_parse(RecordOptions *ret, int argc, char **argv);
