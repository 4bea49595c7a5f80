/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How often the innermost function of a sample was which, counted while they are written: what is shown when a recording
 * ends need not be read from it again. It is what rows of a profile of all of it have as self.
 */

#include <stdbool.h>
#include <stdint.h>

#include "functions.h"
#include "ringside.h"
#include "table.h"

/* A function's number is above 0, and below this. */
#define SELF_NUMBER_MAX (1U << 17)

typedef struct SelfCount {
        uint64_t samples, weight;
} SelfCount;

/* Embedded; all zero is empty. */
typedef struct SelfCounts {
        FunctionPlace *places; /* by number */
        uint32_t n;            /* numbers that are given, and that of what is too many */
        size_t n_places_allocated;
        Table by_symbol;
        uint32_t *by_frame; /* id of a frame in the store -> number, 0: not looked at yet */
        size_t n_frames;    /* there is room for */
        SelfCount *counts;  /* by number */
        size_t allocated;
        Functions functions; /* of the rows, as are these */
        RingsideRow *rows;
} SelfCounts;

void self_counts_done(SelfCounts *self);

/* The number of the function of a frame, 0: it was not added. */
uint32_t self_counts_get(const SelfCounts *self, int64_t frame_id);
/* What place points to stays where it is. key: as for functions_find(). 0 or -ENOMEM. */
int self_counts_add(SelfCounts *self, int64_t frame_id, TableKey key, const FunctionPlace *place, uint32_t *ret);
void self_counts_count(SelfCounts *self, uint32_t number, uint64_t weight);
/*
 * Functions that have samples, by weight, descending; totals are 0. Valid until it is asked again. -EFBIG: there were more
 * than are counted. Names are demangled only here, which may take as long as whoever made them likes.
 */
int self_counts_get_rows(SelfCounts *self, const RingsideRow **ret, size_t *ret_n);
