/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * BPF programs tell the time of the initial time namespace (time_namespaces(7)), as all that comes from the
 * ring does. In another one clocks and /proc go by that one's own.
 */

#include <stdint.h>

/*
 * What the own "boottime" or "monotonic" clock is ahead of the initial one, ns. 0, too, where the kernel has
 * but one.
 */
int64_t time_offset(const char *clock);
