/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Opening a session with what memory the user's others leave for its ring and its unwind tables. */

#include "record-options.h"

/*
 * As asked for where there is room for that; else with less of what the user named no size of, which is said in a line.
 * Returns 0 or the error of the session.
 */
int record_memory_open(RingsideSession *session, const RecordOptions *options);
