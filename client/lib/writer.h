/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the recorder's thread does with each record: finds out whose it is, resolves its stack to files
 * and names the first time it is seen, and adds a row to the store. A sample of a stack that was seen
 * before costs one look-up and one row. Samples are stored in the order in which they came, though one may wait for a while
 * until its mappings are known.
 */

#include <stdint.h>

#include "ringside.h"
#include "store.h"
#include "symbolizer.h"

typedef struct Writer Writer;

typedef struct WriterStatistics {
        uint64_t samples;    /* written */
        uint64_t unresolved; /* samples whose stack never came */
        uint64_t stacks;     /* records of distinct stacks */
        uint64_t truncated;  /* samples whose user stack did not reach its start */
        uint64_t processes;
} WriterStatistics;

/* Borrows both. start: ns CLOCK_BOOTTIME, what the store's times count from. */
int writer_new(Writer **ret, Store *store, Symbolizer *symbolizer, uint64_t start);
Writer *writer_free(Writer *writer);
/* What a sample without a weight weighs; 1, unless this is called. */
void writer_set_period(Writer *writer, uint64_t period);
/* There are samples that a counter in the processor has taken, and not a timer; only a timer's, unless this is called. */
void writer_set_by_counter(Writer *writer);
/* 0 or -errno, after which the recording cannot go on. */
int writer_handle(Writer *writer, const RingsideRecord *record);
/* To be called several times a second, whether records come or not. */
int writer_tick(Writer *writer);
/* Files that are not needed are let go. To be called once in a while, with the writer's own symbolizer. */
void writer_let_go(Writer *writer);
/* Writes what waits. No more records come that could be waited for. */
int writer_flush(Writer *writer);
void writer_get_statistics(const Writer *writer, WriterStatistics *ret);
/* As ringside_recorder_get_rows(). */
int writer_get_rows(Writer *writer, const RingsideRow **ret, size_t *ret_n);
