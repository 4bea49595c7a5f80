/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Frames in code of a JIT that has not written yet what it is called, since it writes through a buffer. They are stored
 * without a name, and get one when it is there.
 *
 * A frame stands for an address during one window of time, for the JIT may put something else there; and where it did so
 * within the window, the frame stays without a name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "processes.h"
#include "store.h"
#include "table.h"

typedef struct LateFrame {
        uint64_t program;      /* of the process */
        uint64_t address;
        uint64_t first, until; /* ns CLOCK_BOOTTIME: of the first sample, and the end of the window */
        int64_t file_id, frame_id;
} LateFrame;

/* Embedded; all zero is empty. */
typedef struct LateNames {
        LateFrame *frames;
        size_t n, allocated;
        Table by_place; /* program, address, end of the window -> index + 1 */
} LateNames;

void late_names_done(LateNames *late);

/* The frame of this address at this time, 0: there is none. */
int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t time);
/* One that is in the store by now. Of too many the name is not waited for. */
int late_names_add(LateNames *late, Process *process, uint64_t address, uint64_t time, int64_t file_id, int64_t frame_id);
/*
 * Gives names to frames of the process, as far as the JIT has told of their time; final: it will tell nothing more.
 * Returns whether there were any, or -errno.
 */
int late_names_settle(LateNames *late, Store *store, Process *process, bool final);
