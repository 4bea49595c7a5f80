/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Call trees as text. */

#include "report.h"

/* Deeper than any stack the sampler takes; a damaged recording ends here. */
#define REPORT_DEPTH_MAX 600

int report_tree(FILE *out, const View *view, const ReportOptions *options, const Style *style);
