/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Where a recording goes: decided, and tried, before anybody is asked for a password. */

#include "record-options.h"

/* -o, or "ringside-COMMAND-DATE.ringside" here. Errors were printed; the caller frees the path. */
int record_path_choose(char **ret, const RecordOptions *options);
/* A recording that came to nothing, with what SQLite may have left beside it. */
void record_path_remove(const char *path);
