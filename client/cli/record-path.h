/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Where a recording goes: decided, and tried, before anybody is asked for a password. */

#include "record-options.h"

/* -o, or "ringside-COMMAND-DATE.ringside" here. Errors were printed; the caller frees the path. */
int record_path_choose(char **ret, const RecordOptions *options);
/*
 * A descriptor of the file that has just been made there, or -errno: path may be another's by the end, which
 * record_path_check() tells. That returns 0 or a negative errno, printed.
 */
int record_path_pin(const char *path);
int record_path_check(const char *path, int fd);
/* A recording that came to nothing, with what SQLite may have left beside it. */
void record_path_remove(const char *path);
