/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The reading end of a BPF ring buffer, by mmap() alone: the positions page, which we write, and the
 * producer's page with the data. That could be mapped twice in a row, so that no record would wrap; but each page of it
 * takes time to map, and records are copied anyhow. What stands there is the kernel's, but is checked as if it were
 * anybody's: a position or length that cannot be ends the ring, never the process.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct Ring Ring;

/* fd is borrowed; size: bytes of data, a power of two. Returns 0 or -errno. */
int ring_new(Ring **ret, int fd, uint64_t size);
/* The same over memory of the caller's: one page of positions, one of the producer's, and the data. */
int ring_new_from_memory(Ring **ret, void *consumer, const void *producer, uint64_t size);
Ring *ring_free(Ring *ring);

/*
 * Copies the next record into record, and returns its size; where that is more than size, the rest
 * is left out. 0: none is ready. -EBADMSG: the ring is corrupt and will give nothing more.
 */
int ring_read(Ring *ring, void *record, size_t size);
/* Tells the kernel how far we are; at the latest when ring_read() returned 0. */
void ring_release(Ring *ring);
