/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Debug information is read in a process of its own, which is given up on when a file is too much for it: it may fall, go
 * on for ever, or be taken over by what the file says. It has the files it reads and a pipe, and no capability, and can
 * write nothing, reach nobody and outlive neither us nor its time.
 *
 * Where the kernel has Landlock it can open nothing else. Where some of the debug information is in other files, it says in
 * which and ends, and there is a second one that may open them, as far as they are such files.
 */

#include "debug-info.h"

typedef struct DebugWorkerOptions {
        uint64_t deadline;    /* ns CLOCK_MONOTONIC */
        uint64_t memory_max;  /* bytes that it may write to, more than we have; 0: a gigabyte */
        /* For tests: what the process does instead. */
        int (*read)(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata);
} DebugWorkerOptions;

/*
 * As debug_info_read(). lines, which is set up, has what came until then also where this fails: -ETIMEDOUT: the deadline
 * was over. -EBADMSG: the process fell, or said what makes no sense. -EFBIG: also, it needed too much memory; -ENOMEM is
 * our own lack of it. The caller must not wait for children of any number meanwhile. One that the kernel does not let end
 * stays our child until it has, and as a zombie then.
 */
int debug_worker_run(DebugLines *lines, const DebugInfoRequest *request, const DebugWorkerOptions *options);
