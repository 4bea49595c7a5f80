/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Records between the thread that reads the ring and the one that writes the recording. One of each;
 * neither ever waits for the other. Records lie in chunks that are taken as needed and handed back, so
 * that a queue that is nearly empty is also small, whatever its limit.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringside.h"

typedef struct QueueChunk QueueChunk;

typedef struct Queue {
        size_t limit;        /* bytes */
        QueueChunk *tail;    /* the pusher's */
        QueueChunk *head;    /* the popper's, like the position in it */
        size_t head_pos;
        int popped_fd;       /* of the record that was popped last, -1: none */
        _Atomic(size_t) bytes;        /* that were pushed and not popped */
        _Atomic(QueueChunk *) spare;  /* on its way back from the popper to the pusher */
} Queue;

int queue_init(Queue *queue, size_t limit);
void queue_done(Queue *queue);

/*
 * Copies record and the frames it points to, and duplicates its descriptor. -ENOBUFS: full. Samples are already refused when seven
 * eighths are taken, so that the stacks and processes that later samples need still fit.
 */
int queue_push(Queue *queue, const RingsideRecord *record);
/* The oldest record, valid until the next call, which closes its descriptor; NULL: the queue is empty. */
const RingsideRecord *queue_pop(Queue *queue);
size_t queue_get_bytes(Queue *queue);
