/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The file in which a JIT writes what code it has made, jit-PID.dump; Linux describes it in
 * tools/perf/Documentation/jitdump-specification.txt. It has the code itself as well, which nobody here reads.
 *
 * Whoever has such a file maps a page of it executable, for perf to see, and so it is found here. It grows
 * while it is read, by the buffers through which it is written: the newest records may be missing for long, and the
 * last one may be there by half.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit-clock.h"
#include "jit-code.h"

typedef struct JitDump JitDump;

/* The number in a path's last part, "jit-PID.dump", or that and " (deleted)" as in maps; -1: it is another name. */
pid_t jitdump_path_get_pid(const char *path, size_t len);

/*
 * fd: of a regular file. It stays the caller's where this fails. ahead: how far CLOCK_MONOTONIC of who writes it is ahead
 * of ours, ns. memory: as jit_code_new() has it.
 */
int jitdump_new_take_fd(JitDump **ret, int fd, int64_t ahead, JitMemory *memory);
/* For a file in memory: jitdump_parse(). */
int jitdump_new(JitDump **ret);
/* Whoever has one frees one. */
JitDump *jitdump_ref(JitDump *dump);
JitDump *jitdump_free(JitDump *dump);
DEFINE_CLEANUP(JitDump, jitdump_free)

/*
 * Reads the records that are whole and were not read before; beyond a first megabyte none once the deadline, ns
 * CLOCK_MONOTONIC, is over. Returns 1 if there was something new, of which there may be more, 0 if not, -ESTALE: the file is
 * another now, -EBADMSG, -EFBIG: malformed, or more than anybody needs. After these two nothing more is read, and what was
 * read stays.
 */
int jitdump_update(JitDump *dump, const JitClock *clock, uint64_t deadline);
/* Another one whenever something new was read, by whoever has it, too. */
uint64_t jitdump_get_generation(const JitDump *dump);
/* Whether the last one left some that were there. */
bool jitdump_has_more(const JitDump *dump);
/* The same of size bytes, the whole file as it is by now. */
int jitdump_parse(JitDump *dump, const JitClock *clock, const uint8_t *data, size_t size);

const JitCode *jitdump_get_code(const JitDump *dump);
