/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Files whose names come from others: from a process, another file, or a recording. To open what has such a name may already
 * do something, as with a device or a pipe; so it is looked at before. Compiled into the library and into the program.
 */

#include <sys/stat.h>

/*
 * Opens what was found with O_PATH for reading, if it is a regular file on a file system that stores files: those below /proc
 * and /sys are regular, too, and reading them may do anything. Takes path_fd over, and passes its errors on. Returns the
 * fd; -EBADF: nothing to be read.
 */
int reopen_regular(int path_fd, struct stat *ret_st);
