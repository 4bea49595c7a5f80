/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Getting the socket of a session: over the bus, where polkit decides, or from a helper that is
 * started directly by somebody who has the capabilities anyway.
 */

#include <sys/types.h>

#include "protocol.h"
#include "ringside.h"

/* What is asked for, and what became of it the last time. nr_events may be 0: the helper's default event is chosen by the caller first. */
typedef struct HelperRequest {
        struct rs_grant grant;
        bool interactive;
        enum RingsideKernel kernel; /* direct: anything but NO is granted */
        bool waited; /* for a budget, in vain: at the next time there is nothing more to wait for */
        bool short_of_memory;
        uint64_t memory_wanted, memory_left; /* bytes, 0: not known */
} HelperRequest;

/* AUTO becomes BUS or DIRECT: direct for who could start the helper with its capabilities. */
enum RingsideHelper helper_choose(enum RingsideHelper helper);

/* The caller owns *ret_fd. Blocks until polkit has answered. */
int helper_open_bus(HelperRequest *request, int *ret_fd, RingsideError *error);
int helper_list_events_bus(RingsideEventInfo **ret_events, size_t *ret_n, RingsideError *error);

/* The same, and *ret_pid has to be waited for once the socket is closed. */
int helper_open_direct(const HelperRequest *request, int *ret_fd, pid_t *ret_pid, RingsideError *error);
int helper_list_events_direct(RingsideEventInfo **ret_events, size_t *ret_n, RingsideError *error);

/* RINGSIDE_HELPER_PATH; test builds look at $RINGSIDE_HELPER first. */
const char *helper_path(void);

/* Whether a release, as uname(2) has it, is older than what the programs need; a distribution's may have it anyway. */
bool helper_kernel_is_old(const char *release);

/* What an answer on the socket means. error: enum rs_error, detail: an errno or 0. Returns RINGSIDE_E_*. */
int helper_error(RingsideError *ret, uint32_t error, int detail);
