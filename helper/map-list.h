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

/* 1: some map named for this session is alive, 0: none, -errno: cannot tell. */
int map_list_has(uint32_t id);
