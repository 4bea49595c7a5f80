/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The contents of a recording in memory, as of one moment: every table but the samples as it is, the
 * samples as sums over those with the same thread and stack. Indices are those of the rows, but for stacks, so
 * element 0 of each array stands for "none", and every index is in range. Functions that were inlined are frames and
 * stacks of their own, beside those of the rows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorded-file.h"
#include "recording.h"
#include "ringside.h"
#include "util.h"

typedef struct SnapshotProcess {
        int64_t pid;
        int64_t inner_pid; /* in its own pid namespace, 0: the same */
        char *comm;
} SnapshotProcess;

typedef struct SnapshotThread {
        uint32_t process;
        int64_t tid;
        char *comm;
} SnapshotThread;

typedef struct SnapshotFrame {
        uint32_t file;
        uint32_t symbol;
        uint64_t address;
        uint32_t source, line; /* 0: not known */
        bool kernel;
        bool inlined; /* into what calls it */
} SnapshotFrame;

/* A line of a function, see schema.h; the function's name is a symbol. */
typedef struct SnapshotCode {
        uint32_t caller, symbol, source, line;
        uint8_t depth;
} SnapshotCode;

typedef struct SnapshotStack {
        uint32_t parent; /* below the own index, 0: outermost */
        uint32_t frame;
        uint16_t depth;
        bool truncated; /* hangs under [truncated] */
} SnapshotStack;

typedef struct SnapshotTarget {
        char *name; /* kind and label */
        char *label;
} SnapshotTarget;

/* Samples of one thread and one target with one stack, which was cut short for one reason. */
typedef struct SnapshotSum {
        uint32_t thread;
        uint32_t stack; /* 0: none */
        uint32_t target; /* 0: none */
        uint32_t walk_end; /* enum RingsideWalkEnd, or its MAX for others; 0 where the stack is whole */
        uint64_t samples;
        uint64_t weight; /* units of the event; stays at the largest number rather than overflow */
} SnapshotSum;

typedef struct Snapshot {
        SnapshotProcess *processes;
        SnapshotThread *threads;
        RecordedFile *files;
        SnapshotFrame *frames;
        SnapshotStack *stacks;
        SnapshotTarget *targets;
        char **symbols; /* raw names */
        char **sources; /* paths */
        size_t n_processes, n_threads, n_files, n_frames, n_stacks, n_targets, n_symbols, n_sources; /* element 0 included */
        SnapshotCode *codes;
        size_t n_codes;
        uint32_t *code_of; /* of the frames that are rows: the innermost code there; NULL: there is none of any */
        bool *chosen; /* by frame: it is the function that was asked for; NULL: none was */
        SnapshotSum *sums; /* ordered by thread, then stack, then target, then how the walk ended */
        size_t n_sums;
        __int128 recorded; /* ns CLOCK_REALTIME: when the recording ended */
        unsigned event;
        bool merged; /* no sum has a target, though there may be some */
        bool folded; /* parts of functions are called by the functions' names */
        uint64_t samples, weight, truncated; /* sums over the sums */
        uint64_t guessed; /* samples of which some of the stack was found by frame pointer */
        uint32_t main_file; /* the program of the process with the most weight, 0: not known */
} Snapshot;

/* Frames of a stack, [truncated] included. */
#define SNAPSHOT_DEPTH_MAX 1024

/* Embedded. filter NULL: everything, first event. */
int snapshot_load(Snapshot *ret, RingsideRecording *recording, const RingsideFilter *filter, RingsideError *error);
void snapshot_done(Snapshot *snapshot);
