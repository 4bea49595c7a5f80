/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Is what a path leads to what is mapped? Asked of a file that is not open yet: whoever chose the path may have put
 * anything there, and opening is already an act.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "maps.h"
#include "process-dir.h"

/*
 * What was found out about mounts, for a second. Whoever has a mount namespace of its own decides how long that takes:
 * so time is a budget, and without it nothing fits. Zeroes are a new one.
 */
typedef struct MountVerdict {
        uint64_t mount;
        dev_t shown; /* by stat() */
        uint32_t dev_major, dev_minor;
        bool fits;
        uint64_t until; /* ns CLOCK_MONOTONIC */
} MountVerdict;

typedef struct FileIdentities {
        MountVerdict known[64];
        unsigned next;
        uint64_t credited; /* ns CLOCK_MONOTONIC, 0: not yet */
        int64_t credit;    /* ns */
} FileIdentities;

/*
 * fd: O_PATH is enough; st: what fstat() says of it. The inode must be the same (it cannot be given to another file
 * while it is mapped), and so must the device.
 */
bool file_identity_fits(FileIdentities *identities, int fd, const struct stat *st, const MapsLine *line,
                        const ProcessDir *dir);
