/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What is due when, the earliest first: a binary heap of what is part of something else. */

#include <stddef.h>
#include <stdint.h>

typedef struct Due {
        uint64_t time;
        size_t place; /* in the heap, from 1 on; 0: it is not there */
} Due;

typedef struct DueHeap {
        Due **list;
        size_t n, max;
} DueHeap;

/* For at most so many. 0 or -ENOMEM. */
int due_heap_init(DueHeap *heap, size_t max);
void due_heap_done(DueHeap *heap);

/* At that time, whenever it was due before. At most as many as there is room for. */
void due_heap_set(DueHeap *heap, Due *due, uint64_t time);
void due_heap_remove(DueHeap *heap, Due *due);
/* NULL: there is none. */
Due *due_heap_get_first(const DueHeap *heap);
