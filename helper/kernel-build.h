/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The newest tables of the kernel's text and names, which the keeper has for its sessions. A child of the
 * keeper makes them (kernel-builder.h), without capabilities and in a sandbox of its own; the keeper only ever sees
 * the descriptors it gives back, and never waits for it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "kernel-builder.h"

typedef struct KernelBuild {
        int symbols_fd; /* /proc/kallsyms, opened by who had CAP_SYSLOG: it shows addresses for ever; -1: there is none */
        int modules_fd; /* /proc/modules, the same */
        KernelGeneration newest;
        int map_fd;    /* its ranges, an array of one: by this descriptor nobody reads or writes them; -1: there are none */
        uint64_t size; /* bytes of its names */
        uint64_t modules_hash; /* of what the last build was for; 0: it failed, and the newest tables are of other modules */
        int64_t time_offset;    /* time-offset.h, "monotonic" */
        uint64_t began; /* when, by the programs' clock, the last build did, which may be under way; ns */
        uint64_t checked, wait; /* when, CLOCK_MONOTONIC, and how long not again, after builds that died; s */
        int child_fd;     /* of a build under way: ready when it is over; -1: there is none */
} KernelBuild;

/* Opens what is there, while there is CAP_SYSLOG. */
void kernel_build_init(KernelBuild *build);
void kernel_build_done(KernelBuild *build);
/*
 * Looks whether there is something new, at most once a second or at once, and starts a build then. And where somebody
 * has seen a module go, when that was (by the programs' clock, ns; 0: nobody has), and no build has begun since: every few
 * seconds at most.
 */
void kernel_build_refresh(KernelBuild *build, uint64_t changed, bool at_once);
/* Takes in what the child says, or that it is gone. */
void kernel_build_take(KernelBuild *build);
