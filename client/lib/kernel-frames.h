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
        const char *sysfs;      /* "/sys"; tests set another one */
        KernelSymbols *symbols; /* NULL: none came yet */
        Table files;            /* number of the module + 1 -> file id */
        Table paths;            /* likewise -> its name in brackets, which is ours */
        Table frames;           /* frame, interrupted -> id; of those that have their final name */
        bool unnamed;           /* frames were stored that a later table may have names for */
        bool said_no_names;
} KernelFrames;

/* What a frame is. */
typedef struct KernelPlace {
        unsigned module;
        const char *path;  /* "[kernel]" or the module's name; lives as long as the frames */
        const char *name;  /* NULL: not known */
        uint64_t name_offset;
        uint64_t address;  /* in the module's text */
} KernelPlace;

void kernel_frames_init(KernelFrames *frames, Store *store);
void kernel_frames_done(KernelFrames *frames);

/* A RINGSIDE_KERNEL_NAMES record. 1: frames that were stored without a name may have one now; 0, or -errno. */
int kernel_frames_take_names(KernelFrames *frames, const RingsideRecord *record);
/* interrupted: where the CPU was, not a return address. 0 or -errno. */
int kernel_frames_store(KernelFrames *frames, uint64_t frame, bool interrupted, int64_t *ret_id);
/* What is stored of it. 0 or -ENOMEM. */
int kernel_frames_find(KernelFrames *frames, uint64_t frame, bool interrupted, KernelPlace *ret);
