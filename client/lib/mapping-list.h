/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Mappings of one process, sorted by address and not overlapping. The files are the symbolizer's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol-file.h"

#define MAPPINGS_MAX (1U << 20)

typedef struct Mapping {
        uint64_t start, end, offset;
        uint64_t inode; /* 0: no file */
        uint64_t time;  /* when it was there, ns CLOCK_BOOTTIME */
        SymbolFile *file;
} Mapping;

/* Embedded; all zero is an empty list. */
typedef struct Mappings {
        Mapping *list;
        size_t n, allocated;
} Mappings;

void mappings_done(Mappings *mappings);
int mappings_copy(Mappings *ret, const Mappings *from);
/* The one that holds the address; NULL: none. */
const Mapping *mappings_find(const Mappings *mappings, uint64_t address);
/* The first that has something of the range; NULL: none. */
const Mapping *mappings_overlap(const Mappings *mappings, uint64_t start, uint64_t end);
/* Behind the last one; it must lie above that. -ENOMEM, -EFBIG: there are too many. */
int mappings_append(Mappings *mappings, const Mapping *mapping);
/* Wherever it belongs, in place of what is there, of which the parts outside it stay. */
int mappings_put(Mappings *mappings, const Mapping *mapping);
/* Without those that are older than time and overlap with one of `newer`. Returns how many these were. */
size_t mappings_remove_covered(Mappings *mappings, uint64_t time, const Mappings *newer);

/* The same bytes of the same file at the same addresses, as far as both go. */
static inline bool mapping_continues(const Mapping *a, const Mapping *b) {
        return a->file == b->file && a->start - a->offset == b->start - b->offset;
}
