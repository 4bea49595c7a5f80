/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The part of the flame graph's export that needs no profile, for tests and for whoever has a tree.
 */

#include <stdint.h>
#include <stdio.h>

#include "ringside.h"

/* No page is larger, whatever the profile. */
#define FLAMEGRAPH_PAGE_MAX (5000 * 1000)

/* truncated: samples in the tree whose user stack did not reach its start. */
int flamegraph_write(const RingsideNode *root, const RingsideRecordingInfo *info, uint64_t truncated,
                     FILE *out, RingsideError *error);
