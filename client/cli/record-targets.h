/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a recording is told to watch, from the numbers and names of the command line to targets of a session: found
 * before a session is asked for, so that a slip of the pen costs no password; added to it; and looked after until they
 * have ended. Errors are printed here.
 */

#include "cgroup.h"
#include "record-options.h"

typedef struct RecordTargets {
        const RecordOptions *options;
        int pidfds[RECORD_TARGETS_MAX];  /* processes, and those of threads; -1: none, or it has ended */
        int threads[RECORD_TARGETS_MAX]; /* threads: their directory in /proc */
        Cgroup cgroups[RECORD_TARGETS_MAX];
        bool replaced[RECORD_TARGETS_MAX]; /* cgroups: that was said */
        char *texts[RECORD_TARGETS_MAX];
        RingsideTarget labels[RECORD_TARGETS_MAX]; /* for the recorder, in the order of the session's targets */
        unsigned n_labels;
        unsigned n_running; /* processes and threads */
} RecordTargets;

/* Embedded; done is allowed after init, whatever failed. */
void record_targets_init(RecordTargets *targets, const RecordOptions *options);
void record_targets_done(RecordTargets *targets);
/* 0, or a negative number that was printed. */
int record_targets_find(RecordTargets *targets);
int record_targets_add(RecordTargets *targets, RingsideSession *session);
/* The command as the only target. */
int record_targets_add_command(RecordTargets *targets, RingsideSession *session, int pidfd);

/* Becomes readable when target i has ended; -1: nothing does, so look now and then. */
int record_targets_get_fd(const RecordTargets *targets, unsigned i);
/* That of target i is readable. */
void record_targets_note_end(RecordTargets *targets, unsigned i);
/* Looks for threads that have ended. */
void record_targets_look(RecordTargets *targets);
/*
 * One that was named as a cgroup or unit, was removed since, and is there again as another cgroup, which nobody watches;
 * each once. Its number, or -1: there is none.
 */
int record_targets_find_replaced(RecordTargets *targets);
/* Says so of target i when that is found. */
void record_targets_say_replaced(const RecordTargets *targets, unsigned i);
/* Says so of all that were found, of a recording that has ended. */
void record_targets_sum_up_replaced(RecordTargets *targets);
/* Whether there were processes or threads, and all have ended. */
bool record_targets_have_ended(const RecordTargets *targets);
