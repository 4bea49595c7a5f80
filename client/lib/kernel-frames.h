/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Kernel frames on their way into the store: (module, offset) becomes a frame of the file "[ext4]". */

#include <stdbool.h>
#include <stdint.h>

#include "kernel-symbols.h"
#include "ringside.h"
#include "store.h"
#include "table.h"

/* Embedded. */
typedef struct KernelFrames {
        Store *store;
        KernelSymbols *symbols; /* NULL: none came yet */
        Table files;            /* number of the module + 1 -> file id */
        Table frames;           /* frame, interrupted -> id; of those that have their final name */
        bool unnamed;           /* frames were stored that a later table may have names for */
        bool said_no_names;
} KernelFrames;

void kernel_frames_init(KernelFrames *frames, Store *store);
void kernel_frames_done(KernelFrames *frames);

/* A RINGSIDE_KERNEL_NAMES record. 1: frames that were stored without a name may have one now; 0, or -errno. */
int kernel_frames_take_names(KernelFrames *frames, const RingsideRecord *record);
/* interrupted: where the CPU was, not a return address. 0 or -errno. */
int kernel_frames_store(KernelFrames *frames, uint64_t frame, bool interrupted, int64_t *ret_id);
