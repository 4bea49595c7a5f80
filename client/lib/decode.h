/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* From the bytes of one ring record to a RingsideRecord. Pure; any bytes are survived. */

#include <stddef.h>

#include "record.h"
#include "ringside.h"

/* The longest record there is. */
#define DECODE_RECORD_MAX (sizeof(struct rs_stack) + RS_FRAMES_MAX * sizeof(__u64))

enum { DECODE_OK = 0, DECODE_UNKNOWN = 1, DECODE_MALFORMED = 2 };

/*
 * bytes: aligned to 8, size of them, as the ring gave them. n_events: how many events the session has.
 * ret points into bytes (frames, path). Returns DECODE_*.
 */
int decode_record(const void *bytes, size_t size, unsigned n_events, RingsideRecord *ret);
