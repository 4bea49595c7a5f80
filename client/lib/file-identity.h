/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Is what a path leads to what is mapped? Asked of a file that is not open yet: whoever chose the path may have put
 * anything there, and opening is already an act.
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "maps.h"
#include "process-dir.h"

/*
 * fd: O_PATH is enough; st: what fstat() says of it. The inode must be the same (it cannot be given to another file
 * while it is mapped), and so must the device.
 */
bool file_identity_fits(int fd, const struct stat *st, const MapsLine *line, const ProcessDir *dir);
