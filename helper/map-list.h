/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which rings, counters and unwind tables are alive, those among them that a client of an ended session still has mapped. Only the
 * keeper asks, for it has the capabilities.
 */

#include <stddef.h>

#include "../bpf/map-list.h"

/* Loads the program that lists them: once, it takes a tenth of a second. Returns an fd or -errno. */
int map_list_open(void);
/* list_fd: from map_list_open(). Returns how many there are, or -errno: cannot tell, -E2BIG: more than max. */
int map_list_read(int list_fd, struct rs_map_info *ret_maps, size_t max);
