/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The keeper holds the capabilities. It takes fixed-size structs from the front, and from each of
 * its sessions nothing but struct session_request: where the kernel demands CAP_SYS_ADMIN for
 * perf_event_open, only the keeper has it. It knows no bus, parses nothing, and ends when
 * the front does; then its sessions end.
 */

#include <stdint.h>

#include "grant.h"
#include "kernel-build.h"
#include "kernel-types.h"
#include "map-list.h"
#include "perf-event.h"
#include "protocol.h"

/* Three for each session there may be, and for each that has ended; and as many again of other helpers, in containers. */
#define KEEPER_MAPS_MAX 768

enum keeper_op {
        KEEPER_SPAWN = 1, /* with the session's end of a client's socket */
        KEEPER_PROBE = 2, /* which events open here, and what is missing for any session */
        KEEPER_MAPS = 3,  /* which maps are alive? */
        KEEPER_ENDED = 4, /* report only: the session's process is gone */
        KEEPER_REVOKE = 5, /* this session is to end, for its grant is withdrawn; unanswered */
};

struct keeper_request {
        uint32_t op;
        uint32_t id; /* of the session */
        struct rs_grant grant;
};

struct keeper_report {
        uint32_t op;
        uint32_t id;
        int32_t error;  /* SPAWN: errno; MAPS: -errno, it cannot tell; PROBE: enum rs_error */
        uint32_t n;     /* MAPS: of them; ENDED: how often everybody waited for this session */
        int32_t probe[RS_EVENTS_MAX]; /* PROBE: errno for each EventType, in list order */
        struct rs_map_info maps[KEEPER_MAPS_MAX];
};

/* First packet to a session, from its keeper. */
struct keeper_setup {
        uint32_t id;
        struct kernel_types types;
        uint32_t pad;
        struct rs_grant grant;
};

/* Between a session and its keeper: each question has one answer of the same op. */
enum session_op {
        SESSION_OP_EVENT = 1,   /* open this event of the grant there; one fd where error is 0 */
        SESSION_OP_KERNEL = 2,  /* with RS_GRANT_KERNEL: rs_kernel's map and the names' memfd, once for each generation */
        SESSION_OP_REVOKED = 3, /* unasked, from the keeper: the grant is withdrawn */
};

struct session_request {
        uint32_t op;
        uint32_t pad;
        struct perf_event_request event;
        uint64_t changed; /* KERNEL: when a module was last seen to go, by the programs' clock, ns; 0: none was */
};

struct session_answer {
        uint32_t op;
        int32_t error;       /* errno */
        uint64_t generation; /* KERNEL: of what the keeper has, and the bytes of its names */
        uint64_t size;
};

/* Where a session finds its sockets. */
#define SESSION_CLIENT_FD 3
#define SESSION_KEEPER_FD 4
/* And the kernel's types, if the keeper has them: while it loads its programs. */
#define SESSION_TYPES_FD 5
#define SESSION_TYPES_PATH "/proc/self/fd/5"

/* Runs until the front closes its end. exe_fd: the helper's own binary; build is borrowed. Returns an exit status. */
int keeper_run(int front_fd, int exe_fd, KernelBuild *build);
/* One session for one client, without a front; ends with it. */
int keeper_run_direct(int client_fd, int exe_fd, KernelBuild *build);
