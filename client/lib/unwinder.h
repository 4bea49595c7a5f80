/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Fills the unwind tables of a session: for each process that is told of, what it has mapped and what its files'
 * .eh_frame says. All of that happens in a thread of its own, so that who reads the ring never waits for it; a
 * table is there a moment after the process, and samples until then say RINGSIDE_WALK_NO_TABLES, or, while its mappings
 * are being read, RINGSIDE_WALK_NO_MAPPING.
 */

#include <stddef.h>
#include <stdint.h>

#include "ringside.h"
#include "unwind-images.h"

typedef struct Unwinder Unwinder;

typedef struct UnwinderStatistics {
        UnwindImagesStatistics images;
        uint64_t processes; /* that are known now */
        uint64_t readings;  /* of /proc/PID/maps */
        uint64_t touches;   /* of processes' code */
        uint64_t no_slot;   /* processes that found the places of their slot taken */
        uint64_t no_list;   /* lists that found no room */
        uint64_t handled;   /* records */
        uint64_t lost;      /* records that found the queue full */
} UnwinderStatistics;

/* As for unwind_memory_new_of_file(); mapping and fd are taken over where it succeeds. Starts the thread. */
int unwinder_new(Unwinder **ret, void *memory, size_t size, int fd, size_t mapped);
/*
 * Ends it. A file system that does not answer, or a process that waits for one, may keep the thread: after 2 s it is left
 * alone with all that is its own, which it frees when it can.
 */
Unwinder *unwinder_free(Unwinder *unwinder);
DEFINE_CLEANUP(Unwinder, unwinder_free)

/* Every record of the session, in order. Never waits, and cannot fail. */
void unwinder_note(Unwinder *unwinder, const RingsideRecord *record);
/* Records of processes that the ring had no room for: some that are known may have ended. */
void unwinder_note_lost(Unwinder *unwinder);
void unwinder_get_statistics(Unwinder *unwinder, UnwinderStatistics *ret);
