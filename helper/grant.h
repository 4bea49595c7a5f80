/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A grant (struct rs_grant) is what one session may do. This checks its form and computes what it
 * costs. It decides nothing about who may have it.
 */

#include <stdint.h>

#include "protocol.h"

#define GRANT_FREQUENCY_MAX 20000U /* Hz, the largest budget there is */
#define GRANT_FRAMES_DEFAULT 127U
#define GRANT_RING_SIZE_DEFAULT (8U * 1024 * 1024)
#define GRANT_FREQUENCY_DEFAULT 99U

void grant_init(struct rs_grant *grant);
/* NULL: well-formed. Else what is not, a constant text. */
const char *grant_check(const struct rs_grant *grant);
/* Samples a second, all events together; by period: the most the program lets through. */
uint64_t grant_rate(const struct rs_grant *grant);
/* Bytes of every map of a session together. */
uint64_t grant_memory(const struct rs_grant *grant, unsigned n_cpus);
