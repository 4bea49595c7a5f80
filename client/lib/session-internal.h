/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is behind a RingsideSession, for the two that ask on their own while records are dispatched: for
 * the names of kernel functions, and for the mappings of processes that the client may not look into.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "helper.h"
#include "packet.h"
#include "protocol.h"
#include "ring.h"
#include "ringside.h"
#include "table.h"
#include "unwinder.h"

typedef struct SessionNames {
        uint64_t next;       /* ns CLOCK_MONOTONIC: when to ask again */
        uint64_t last;       /* when it was asked */
        uint64_t generation; /* whose names were delivered last, 0: of none */
        bool told;           /* something was delivered, */
        bool none;           /* and it was that there are none */
        uint8_t modules[RS_MODULE_MAX / 8]; /* bits: numbers that were seen before something was asked */
} SessionNames;

/* Where to go on with a process. */
typedef struct SessionMapsRequest {
        uint32_t pid;
        unsigned n; /* answers so far */
        uint64_t from;
} SessionMapsRequest;

#define SESSION_MAPS_PENDING_MAX 256

typedef struct SessionMaps {
        SessionMapsRequest pending[SESSION_MAPS_PENDING_MAX]; /* a ring */
        unsigned first, n;
        Table known;       /* processes that were announced: whether their mappings are to be asked for once they have a sample */
        uint32_t sampled;  /* the last that had one */
        uint64_t credited; /* ns CLOCK_MONOTONIC, 0: not yet */
        int64_t credit;    /* ns that may be spent on asking */
} SessionMaps;

/* Of an event whose rate is set now and then: what the count should have given until it was set last. */
typedef struct SessionRate {
        uint64_t expected, counted; /* samples; units of the event */
        uint32_t rate;              /* Hz, 0: as granted */
} SessionRate;

struct RingsideSession {
        RingsideError error;
        enum RingsideHelper helper;
        HelperRequest request;
        uint64_t frequency;
        int fd;        /* the socket, -1: not open */
        int epoll_fd;
        int ring_fd;
        pid_t pid;     /* of a helper started directly, 0: none */
        bool ended;    /* the other side said so, or closed */
        uint32_t end_error;
        uint64_t cookie;
        struct rs_welcome welcome;
        Ring *ring;
        const struct rs_counters *counters;
        size_t counters_size;
        uint8_t *tables; /* unwind-table.h; NULL: there are none. Written by us, read by the programs at any time */
        size_t tables_size, tables_mapped; /* the place is kept free for all of it */
        int tables_fd;
        Unwinder *unwinder; /* from the first start on; NULL: there are no tables */
        int64_t time_offset; /* time-offset.h, "boottime": what records' times are put right by */
        uint64_t unknown, malformed;
        bool started;
        uint64_t processes_lost; /* by the counters, as the unwinder was told, which are looked at */
        uint64_t lost_next;      /* not before, ns CLOCK_MONOTONIC */
        struct rs_statistics kernel; /* the last that was asked for */
        SessionRate rates[RS_EVENTS_MAX];
        SessionNames names;
        SessionMaps maps;
};

/*
 * One request and its answer, of answer_size bytes. Blocks. The answer's descriptors are the caller's, in
 * ret_packet, on success.
 */
int session_ask(RingsideSession *session, uint32_t type, struct rs_message *request, size_t size, int fd,
                union rs_any_message *ret, size_t answer_size, Packet *ret_packet);

/* Of a record that was decoded: times as the own boot clock and /proc tell them. */
void session_own_times(const RingsideSession *session, RingsideRecord *record);

/*
 * Before records are read, and for each STACK before it is delivered: delivers a KERNEL_NAMES record where there is
 * news. Returns how many, or what func returned.
 */
int session_names_poll(RingsideSession *session, RingsideRecordFunc func, void *userdata);
int session_names_look(RingsideSession *session, const RingsideRecord *stack, RingsideRecordFunc func, void *userdata);

/* For each PROCESS record and each sample after it was delivered. 1: there is something to ask for, 0, or -ENOMEM. */
int session_maps_note(RingsideSession *session, const RingsideRecord *record);
/* Asks as far as time allows, and delivers MAPPING records. Returns how many, or what func returned. */
int session_maps_serve(RingsideSession *session, RingsideRecordFunc func, void *userdata);
