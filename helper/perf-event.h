/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * perf_event_open(2), as narrow as we need it: an event of our own list, by frequency, that samples
 * nothing itself (sample_type 0, no mmap) but runs a BPF program.
 */

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

struct perf_event_request {
        uint32_t event; /* index into the grant's events */
        int32_t tid;    /* in the helper's pid namespace; -1: a whole CPU */
        int32_t cpu;    /* -1: wherever the thread runs */
        uint32_t flags; /* RS_TARGET_* */
};

/* What read(2) on such an event gives. */
struct perf_event_count {
        uint64_t count, enabled, running;
};

/*
 * Disabled until told otherwise. Returns an fd, -EAGAIN: the thread has been in an exec for longer than we
 * wait, or another -errno. Uses SIGALRM.
 */
int perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request);
/* Whether this machine can count it: opens one on the caller itself. Returns 0 or -errno. */
int perf_event_probe(uint32_t event_id);
