/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is behind a RingsideRecording, and rows as they are read from it. Each value is checked when it
 * is read: a row that points to what is not there makes the recording a damaged one.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dbfile.h"
#include "ringside.h"

struct RingsideRecording {
        char *path;
        DbFile *file;
        sqlite3 *db;
        int64_t work; /* steps of SQLite's machine that the query under way may still take, in thousands */
        RingsideRecordingInfo info;
        char *command, *hostname, *kernel, *grant, *scope, *kernel_frames, *unwind, *ended_why; /* what info points to */
        RingsideEvent *events;
        char **targets, **labels;
};

/*
 * As ringside_recording_open(), and writes are allowed. What a writer that was killed left half-done is undone first, and
 * -EEXIST says that something lies beside it which is no journal of one. Nothing is locked yet.
 */
int recording_open_for_update(RingsideRecording **ret, const char *path, RingsideError *error);
/* What SQLite says, as an error. */
int recording_fail(RingsideRecording *recording, int result, RingsideError *error);

/* Returns 0 to go on, or a negative number that is returned from recording_query(). */
typedef int (*RecordingRowFunc)(sqlite3_stmt *row, void *userdata);

/*
 * Runs one of our own queries. Returns 0; RINGSIDE_E_RECORDING where the file is damaged, -EBUSY where it
 * is being written for too long, -ENOMEM; or what func returned. error is filled in.
 */
int recording_query(RingsideRecording *recording, const char *sql, RecordingRowFunc func, void *userdata,
                    RingsideError *error);
/* The error of a row that makes no sense. */
int recording_damaged(const RingsideRecording *recording, RingsideError *error, const char *what);
/* Between these two, all queries see the recording as it was at the first of them. */
int recording_begin(RingsideRecording *recording, RingsideError *error);
void recording_end(RingsideRecording *recording);

/* One period of an event in its own units, which is the weight of a sample without one. */
uint64_t recording_period_of(const RingsideEvent *event);
uint64_t recording_get_period(const RingsideRecording *recording, unsigned event);

/* How a target is called wherever it is shown. NULL: no memory. */
char *recording_target_name(const char *kind, const char *label);

/* Column i as a string for free(), cut at a zero byte; what is no text or blob is "". NULL: no memory. */
char *row_string(sqlite3_stmt *row, int i);
/* Column i, where it is an integer from min to max; else min - 1. */
int64_t row_integer(sqlite3_stmt *row, int i, int64_t min, int64_t max);
