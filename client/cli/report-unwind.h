/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Why stacks were cut short, and in which files: for the header of a report, and as a report of its own. */

#include "report.h"

/* "no rule", and as a key of JSON "no_rule". */
const char *walk_end_text(enum RingsideWalkEnd end);
const char *walk_end_key(enum RingsideWalkEnd end);

/* Samples by enum RingsideWalkEnd, the last for those that are not known. 0 or -ENOMEM. */
typedef uint64_t TruncatedBy[RINGSIDE_WALK_END_MAX + 1];
int report_count_truncated(const View *view, TruncatedBy ret);
/* "12 no rule, 3 too deep", most first; empty where nothing was cut short. */
int report_truncated_text(const View *view, char *dst, size_t size);

/* "12 samples (1.2 %) partly by frame pointers", where the rest was by unwind tables. NULL: there are none. */
char *report_guessed_text(const View *view, char *dst, size_t size);

int report_unwind(FILE *out, const View *view, const ReportOptions *options, const Style *style);
