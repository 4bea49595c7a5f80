/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Frames in code of a JIT that has not written yet what it had there at that time, since it writes through a buffer. They are
 * stored by the name that is known, or without one, and called right when the JIT has written of that time.
 *
 * A frame stands for an address during one window of time, for the JIT may put something else there; and where it did so
 * within the window, the frame has no name.
 *
 * How many wait is limited, for each process and for all, and so is what is spent on them at once: nobody's frames take the
 * place of all others', and whoever has no dump yet, and may never have one, is the first for whom there is no room.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "processes.h"
#include "store.h"
#include "table.h"

#define LATE_NAMES_MAX (1U << 18)
#define LATE_NAMES_OF_NO_DUMP_MAX (LATE_NAMES_MAX / 4) /* no more are taken in of those where so many wait */
#define LATE_NAMES_OF_PROCESS_MAX (1U << 14)

struct LateFrame {
        LateFrame *next;       /* of the same process */
        uint64_t program;      /* of the process */
        uint64_t address;
        uint64_t window;       /* when it ends, ns CLOCK_BOOTTIME; UINT64_MAX: the process has no dump yet */
        uint64_t first, until; /* likewise: of the first sample, and after the last one */
        bool closed; /* what is sampled from now on has another frame, though its window may end at the same time */
        int64_t file_id, frame_id;
        const char *name; /* as it was stored; NULL: it has none. Lives as long as the symbolizer */
};

/* Embedded; all zero is empty. The frames are their processes'. */
typedef struct LateNames {
        size_t n;
        Table by_place; /* program, address, window -> LateFrame */
} LateNames;

void late_names_done(LateNames *late);
/* A process's, where it goes. NULL. */
LateFrame *late_frames_free(LateFrame *frames);

/* The frame of this address in a window that ends then, 0: there is none. */
int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t window);
/* Whether there is no room for one of the process, in such a window. */
bool late_names_is_full(const LateNames *late, const Process *process, uint64_t window);
/* One that is in the store by now; copied. until is the end of its window. */
int late_names_add(LateNames *late, Process *process, const LateFrame *frame);
/*
 * Gives frames of the process the names they had, as far as the JIT has told of their time; final: it will tell nothing
 * more. What is not done by the deadline, ns CLOCK_MONOTONIC, though some always are, waits for the next time, and has no name
 * where there is none. Returns whether any had another one before, or -errno.
 */
int late_names_settle(LateNames *late, Store *store, Process *process, bool final, uint64_t deadline);
