/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Frames in code of a JIT that has not written yet what it had there at that time, since it writes through a buffer. They are
 * stored by the name that is known, or without one, and called right when the JIT has written of that time.
 *
 * A frame stands for an address during one window of time, for the JIT may put something else there; and where it did so
 * within the window, the frame has no name.
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
        uint64_t window;       /* when it ends, ns CLOCK_BOOTTIME */
        uint64_t first, until; /* likewise: of the first sample, and after the last one */
        bool closed; /* what is sampled from now on has another frame, though its window may end at the same time */
        int64_t file_id, frame_id;
        const char *name; /* as it was stored; NULL: it has none. Lives as long as the symbolizer */
} LateFrame;

/* Embedded; all zero is empty. */
typedef struct LateNames {
        LateFrame *frames;
        size_t n, allocated;
        Table by_place; /* program, address, window -> index + 1 */
} LateNames;

void late_names_done(LateNames *late);

/* The frame of this address in a window that ends then, 0: there is none. */
int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t window);
bool late_names_is_full(const LateNames *late);
/* One that is in the store by now. until is the end of its window. */
int late_names_add(LateNames *late, Process *process, const LateFrame *frame);
/*
 * Gives frames of the process the names they had, as far as the JIT has told of their time; final: it will tell nothing
 * more. Returns whether any had another one before, or -errno.
 */
int late_names_settle(LateNames *late, Store *store, Process *process, bool final);
