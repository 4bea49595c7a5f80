/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The protocol between a client and its session, over the SOCK_SEQPACKET socket that OpenSession
 * returns (or that a directly started helper inherits). This header, record.h and, where it asks for tables,
 * unwind-table.h suffice to write another client.
 *
 * One message is one packet of exactly the size its type says; anything else ends the session.
 * Requests are even and come from the client, answers are odd and repeat the request's cookie. The
 * only unasked-for message is END. A request may carry file descriptors only where noted.
 *
 *      client                           session
 *      HELLO + pidfd + credentials  ->
 *                                   <-  WELCOME + ring, counters, tables
 *      TARGET + pidfd               ->                    (0 to RS_TARGETS_MAX times)
 *                                   <-  TARGETED
 *      START                        ->
 *                                   <-  STARTED
 *      STATS                        ->                    (whenever)
 *                                   <-  STATISTICS
 *      SET_RATE                     ->                    (whenever)
 *                                   <-  RATE_SET
 *      STOP                         ->
 *                                   <-  STOPPED           (START may follow)
 *      SYMBOLS                      ->                    (whenever, with profile-kernel)
 *                                   <-  SYMBOL_NAMES + memfd, where there are new ones
 *      MAPS + pidfd                 ->                    (whenever, with profile-system)
 *                                   <-  MAPPINGS
 *                                   <-  END               (and the socket closes)
 *
 * Every answer has an error: 0, or enum rs_error. After an error the session is in the state it was
 * in before, except that a failed HELLO ends it, and that a TARGET refused half-way (TARGET_LIMIT,
 * EVENTS) may leave some of its threads watched, and with them the number of a target.
 */

#include <linux/types.h>

#include "record.h"

#define RS_PROTOCOL_VERSION 3

/* Processes, threads and cgroups one session may be told to watch: as many as a sample can tell apart. */
#define RS_TARGETS_MAX 63
/* Task-bound events of one session: threads times events. */
#define RS_TASK_EVENTS_MAX 1024
#define RS_RINGS_MAX 16

enum rs_message_type {
        RS_HELLO = 2, /* struct rs_hello, SCM_CREDENTIALS and one fd: a pidfd of the sender itself */
        RS_WELCOME = 3,
        RS_TARGET = 4, /* struct rs_target, one fd: the pidfd of the process */
        RS_TARGETED = 5,
        RS_START = 6, /* struct rs_request */
        RS_STARTED = 7,
        RS_STOP = 8, /* struct rs_request */
        RS_STOPPED = 9,
        RS_STATS = 10, /* struct rs_request */
        RS_STATISTICS = 11,
        RS_OPEN = 12, /* struct rs_open; to a directly started helper only, unanswered but by END */
        RS_SYMBOLS = 14, /* struct rs_request */
        RS_SYMBOL_NAMES = 15,
        RS_MAPS = 16, /* struct rs_maps, one fd: the pidfd of the process */
        RS_MAPPINGS = 17,
        RS_SET_RATE = 18, /* struct rs_set_rate */
        RS_RATE_SET = 19,
        RS_END = 13, /* unasked: the session is over, error says why */
};

/* Every refusal there is on the socket; those of the bus are in docs/dbus.md. */
enum rs_error {
        RS_OK = 0,
        RS_ERROR_INTERNAL = 1,      /* a fault of the helper; its journal has more */
        RS_ERROR_VERSION = 2,       /* a protocol version this helper does not speak */
        RS_ERROR_IDENTITY = 3,      /* HELLO is not from the user the session was granted to */
        RS_ERROR_NO_BTF = 4,        /* the kernel describes no types (CONFIG_DEBUG_INFO_BTF) */
        RS_ERROR_LOCKDOWN = 5,      /* the kernel is locked down (confidentiality) */
        RS_ERROR_CAPABILITY = 6,    /* the helper lacks CAP_BPF or CAP_PERFMON */
        RS_ERROR_PARANOID = 7,      /* kernel.perf_event_paranoid forbids, and CAP_SYS_ADMIN is missing */
        RS_ERROR_KERNEL = 8,        /* the kernel is too old, or refused the programs */
        RS_ERROR_RING_UNSAFE = 9,   /* a kernel without the fix for CVE-2024-41009 */
        RS_ERROR_NO_PMU = 10,       /* no such hardware event here, as in most virtual machines */
        RS_ERROR_MEMORY = 11,       /* no memory for ring or tables */
        RS_ERROR_TARGET_GONE = 12,  /* the process has ended */
        RS_ERROR_TARGET_HIDDEN = 13, /* the client may not see that process */
        RS_ERROR_TARGET_LIMIT = 14, /* more processes or threads than one session may watch */
        RS_ERROR_STATE = 15,        /* not now: the request does not fit the session's state */
        RS_ERROR_EVENTS = 16,       /* the kernel refused the event (too many open files, busy PMU) */
        RS_ERROR_HELPER_GONE = 17,  /* END: the helper ends */
        RS_ERROR_REVOKED = 18,      /* END: the grant was withdrawn: the user's seat is no longer active */
        RS_ERROR_PROTOCOL = 19,     /* END: the client broke the protocol */
        RS_ERROR_NO_USER = 20,      /* END: there is no system user for a directly started helper to become */
        /* kernel.kptr_restrict is 2, the kernel has no symbols, or the user has had too many. */
        RS_ERROR_NO_KERNEL_NAMES = 21,
        RS_ERROR_RATE = 22,         /* no such event, or a rate that is not 1 to what was granted for it */
        RS_ERROR_MAX
};

enum rs_event_id {
        RS_EVENT_CPU_CLOCK = 1,
        RS_EVENT_CPU_CYCLES = 2,
        RS_EVENT_MAX
};

/* What was granted, and is told again in WELCOME. */
#define RS_GRANT_TARGETS 0x1 /* task-bound events: TARGET is needed; else every process of the user */
#define RS_GRANT_DIRECT 0x2  /* the helper was started by the client, polkit was not asked */

#define RS_GRANT_KERNEL 0x4  /* profile-kernel: kernel frames; else the marker */
#define RS_GRANT_SYSTEM 0x8  /* profile-system: every process of the client's pid namespace, kernel threads included */

struct rs_event {
        __u32 id;         /* enum rs_event_id */
        __u32 by_period;  /* 0: value is a frequency in Hz, 1: a period in units of the event */
        __u64 value;
};

/*
 * What is granted: the options of OpenSession, checked. Over the bus the front fills it in; a helper
 * started directly takes it in OPEN, its first packet, before there is a session.
 */
struct rs_grant {
        __u32 uid;        /* of the client; in OPEN: 0, and ignored */
        __u32 grants;     /* RS_GRANT_* */
        __u32 max_frames; /* 1 to RS_FRAMES_MAX */
        __u32 nr_events;  /* 1 to RS_EVENTS_MAX */
        __u64 ring_size;  /* bytes, a power of two */
        /* Bytes of unwind tables, 0: none; else a power of two, RS_TABLE_SIZE_MIN to RS_TABLE_SIZE_MAX. */
        __u64 table_size;
        struct rs_event events[RS_EVENTS_MAX];
};

#define RS_RING_SIZE_MIN (64U * 1024)
#define RS_RING_SIZE_MAX (64U * 1024 * 1024)

struct rs_message {
        __u32 type; /* enum rs_message_type */
        __u32 len;  /* of the whole message in bytes */
        __u64 cookie;
        __u32 error; /* answers: enum rs_error; requests: 0 */
        __s32 detail; /* answers: errno behind the error where there is one, else 0; requests: 0 */
};

struct rs_request {
        struct rs_message m;
};

struct rs_open {
        struct rs_message m;
        struct rs_grant grant;
};

struct rs_hello {
        struct rs_message m;
        __u32 version; /* RS_PROTOCOL_VERSION */
        __u32 pad;
};

enum rs_fd_kind {
        RS_FD_RING = 1,     /* BPF_MAP_TYPE_RINGBUF */
        RS_FD_COUNTERS = 2, /* array of struct rs_counters by CPU, frozen: map it read-only */
        RS_FD_TABLES = 3,   /* unwind-table.h: the client writes it. Only where it asked for them */
};

struct rs_welcome {
        struct rs_message m;
        __u32 version;  /* RS_PROTOCOL_VERSION */
        __u32 layout;   /* RS_LAYOUT_VERSION */
        __u32 grants;   /* RS_GRANT_* */
        __u32 clock;    /* clockid_t of every time, CLOCK_BOOTTIME, as in the initial time namespace */
        __u32 nr_cpus;  /* possible CPUs: elements of the counters */
        __u32 counter_size; /* bytes of one element */
        __u32 nr_events;
        __u32 nr_fds;       /* that came with this message */
        __u32 max_frames;   /* of a user stack */
        __u32 table_size;   /* bytes of the unwind tables, 0: none */
        __u64 ring_size;    /* bytes of data of each ring */
        __u32 fd_kind[RS_RINGS_MAX + 16]; /* enum rs_fd_kind, in the order of the fds */
        struct rs_event events[RS_EVENTS_MAX]; /* as granted: a sample without a weight stands for a period of these */
};

#define RS_TARGET_ON_EXEC 0x1    /* counts from the process's next execve on */
#define RS_TARGET_NO_INHERIT 0x2 /* children it starts from now on are not followed */

#define RS_TARGET_CGROUP 0x4     /* no fd, and not with the flags above: a cgroup and those below it */
#define RS_TARGET_CGROUP_V1 0x8  /* of the perf_event hierarchy of cgroup v1 */

/*
 * TARGET. With RS_GRANT_TARGETS processes and threads, watched by events of their own; without it cgroups,
 * which narrow what CPU-wide events tell. A cgroup is named by its number, which is that of its
 * directory's inode: a filter only narrows, so that nothing is learnt by guessing one. A thread is who has the
 * number when this is read, of the process that the pidfd is of; the client looks whether that was who it meant.
 */
struct rs_target {
        struct rs_message m;
        __u32 flags; /* RS_TARGET_* */
        __u32 tid;   /* only this thread, in the client's pid namespace; 0: all threads */
        __u64 cgroup;
};

/*
 * SYMBOL_NAMES. The names of a generation come once, with the first answer that tells of it. Without a memfd an answer
 * says that there is nothing newer: a session lets no descriptors lie in the socket of a client that does not read.
 */
struct rs_symbols {
        struct rs_message m;
        __u64 generation; /* from 1, and rises whenever modules have changed */
        __u64 size; /* bytes in the memfd, whose format is in kernel-names.h */
};

/*
 * SET_RATE. At once for all that is watched and will be, whether it is sampling or not. Below what was granted every
 * sample has a weight (struct rs_wsample); some that were taken under the rate before may still follow the answer.
 */
struct rs_set_rate {
        struct rs_message m;
        __u32 event; /* index into WELCOME's events */
        __u32 rate;  /* Hz, 1 to what was granted */
};

struct rs_maps {
        struct rs_message m;
        __u64 from; /* only mappings that start here or above */
};

/* As many mappings as fit, one after the other, lowest first. */
#define RS_MAPPINGS_SIZE 32768
struct rs_mappings {
        struct rs_message m;
        __u64 next;  /* what `from` of the next request is, 0: there are no more */
        __u32 size;  /* bytes of records that are used */
        __u32 pad;
        __u8 records[RS_MAPPINGS_SIZE]; /* struct rs_mapping, each of r.len bytes, a multiple of 8 */
};

struct rs_targeted {
        struct rs_message m;
        __u32 threads; /* that are being watched now */
        __u32 pad;
};

/*
 * What the kernel counted for the task-bound events, to estimate what was never sampled: of tasks that the access rule
 * shows. Of hidden ones it has what they use between two samples, and what the kernel let no program take.
 */
struct rs_statistics {
        struct rs_message m;
        __u64 count[RS_EVENTS_MAX];   /* in units of the event, 0 where not task-bound */
        __u64 enabled[RS_EVENTS_MAX]; /* ns */
        __u64 running[RS_EVENTS_MAX]; /* ns, less than enabled where the PMU was shared */
        __u64 missed;  /* ns of CPU time without an event: CPUs that were offline, with CPU-wide events */
};

union rs_any_message {
        struct rs_message m;
        struct rs_request request;
        struct rs_open open;
        struct rs_hello hello;
        struct rs_welcome welcome;
        struct rs_target target;
        struct rs_targeted targeted;
        struct rs_statistics statistics;
        struct rs_set_rate set_rate;
        struct rs_symbols symbols;
        struct rs_maps maps;
        struct rs_mappings mappings;
};

_Static_assert(sizeof(struct rs_message) == 24, "wire format");
_Static_assert(sizeof(struct rs_grant) == 32 + 16 * RS_EVENTS_MAX, "wire format");
_Static_assert(sizeof(struct rs_hello) == 32, "wire format");
_Static_assert(sizeof(struct rs_welcome) == 72 + 4 * 32 + 16 * RS_EVENTS_MAX, "wire format");
_Static_assert(sizeof(struct rs_target) == 40, "wire format");
_Static_assert(sizeof(struct rs_set_rate) == 32, "wire format");
_Static_assert(sizeof(struct rs_targeted) == 32, "wire format");
_Static_assert(sizeof(struct rs_statistics) == 32 + 24 * RS_EVENTS_MAX, "wire format");
