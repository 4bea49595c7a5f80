/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Names of code that a JIT made: "START SIZE name" lines, numbers in hex, which the process itself
 * appends to /tmp/perf-PID.map. What a later line says covers what an earlier one said.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit-code.h"
#include "process-dir.h"
#include "util.h"

typedef struct PerfMap PerfMap;

/* memory: as jit_code_new() has it. */
int perf_map_new(PerfMap **ret, JitMemory *memory);
/* Of the same file, as far as it is written by now; nothing of it is read yet. map must be open. */
int perf_map_new_until_now(PerfMap **ret, const PerfMap *map);
/* Whoever has one frees one. */
PerfMap *perf_map_ref(PerfMap *map);
PerfMap *perf_map_free(PerfMap *map);
DEFINE_CLEANUP(PerfMap, perf_map_free)

/*
 * Takes whole lines only and returns in ret_used how many bytes these were; lines that are not
 * understood are skipped. What was added is found after the next seal.
 */
int perf_map_parse(PerfMap *map, const char *text, size_t size, size_t *ret_used);
int perf_map_seal(PerfMap *map);

/* NULL: unnamed. The name lives until the map changes. */
const char *perf_map_find(const PerfMap *map, uint64_t address, uint64_t *ret_offset);

/*
 * Looks for the file: a regular one in /tmp below the root of the process, named for its innermost
 * pid, and owned by its user or root. Kept open from then on, so that it outlives the
 * process. -ENOENT: none; -EPERM: not the process's.
 */
int perf_map_open(PerfMap *map, ProcessDir *dir);
bool perf_map_is_open(const PerfMap *map);
/*
 * Reads what was appended since. Returns 1 if there was something, -ESTALE: the file is another now, -EFBIG: more than anybody
 * needs, or than there is memory for, -EBADF: none is open.
 */
int perf_map_update(PerfMap *map);
