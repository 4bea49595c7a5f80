/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which maps of ended sessions are alive, because a client still has them mapped. Only the keeper asks,
 * for it has the capabilities.
 */

#include <stdint.h>

#define MAP_NAME_SIZE 16
#define MAP_NAME_RING "rsr%08x"
#define MAP_NAME_COUNTERS "rsc%08x"

/* Loads the program that lists them: once, it takes a tenth of a second. Returns an fd or -errno. */
int map_list_open(void);
/* list_fd: from map_list_open(). 1: some map named for this session is alive, 0: none, -errno: cannot tell. */
int map_list_has(int list_fd, uint32_t id);
