/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libringside: CPU profiles for people without root.
 *
 *   RingsideSession    samples, delivered record by record as they happen
 *   RingsideRecorder   writes what a session delivers to a recording (symbols included)
 *   RingsideRecording  reads a recording
 *   ringside_symbolize adds source lines and inlined functions to a recording
 *   RingsideProfile    aggregates a recording: functions, call trees, totals
 *   ringside_export_*  writes a recording or a profile for other tools
 *   ringside_list_*    what this machine can sample, and what it lacks
 *
 * Conventions. Functions that can fail return 0 or a positive number on success and a negative
 * number on failure: -errno, or one of the negative RINGSIDE_E_* values. What is behind a failure is
 * told in a RingsideError, whose text names what is wrong and whose hint is the next step; both are
 * plain UTF-8 without control characters. `ret_` parameters are set on success only. `x_free(NULL)`
 * is allowed and returns NULL. The library never logs, never exits, keeps no global state and starts
 * no threads but a recorder's writer and, from its start on, that of a session with unwind tables, which makes
 * them; neither takes signals. Only ringside_symbolize(), ringside_profile_get_code() and sessions without a bus start
 * processes. Objects belong to one thread at a time.
 *
 * Times are nanoseconds of CLOCK_BOOTTIME unless said otherwise. Pids are those of the caller's pid
 * namespace. Strings that come from processes and files (names of commands, symbols, paths) may hold
 * any byte but 0: use ringside_escape() before they reach a terminal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGSIDE_PUBLIC __attribute__((visibility("default")))

typedef struct RingsideSession RingsideSession;
typedef struct RingsideRecorder RingsideRecorder;
typedef struct RingsideRow RingsideRow;
typedef struct RingsideRecording RingsideRecording;
typedef struct RingsideProfile RingsideProfile;

/* ---- errors ---- */

/* Beyond any errno, so that both fit one int. */
enum {
        RINGSIDE_E_NO_BUS = -5001,      /* no system bus to ask on */
        RINGSIDE_E_NO_HELPER = -5002,   /* the bus cannot start org.ringside.Helper1, or no ringside-helper */
        RINGSIDE_E_DENIED = -5003,      /* polkit said no, or nobody could answer its question */
        RINGSIDE_E_BUDGET = -5004,      /* the request is over a budget; the text says which and what fits */
        RINGSIDE_E_NO_EVENT = -5005,    /* no such event, or this machine cannot count it */
        RINGSIDE_E_KERNEL = -5006,      /* the kernel cannot do it: the text says what it lacks */
        RINGSIDE_E_TARGET = -5007,      /* the process is gone, or not the caller's to see */
        RINGSIDE_E_PROTOCOL = -5008,    /* the helper speaks another version, or nonsense */
        RINGSIDE_E_ENDED = -5009,       /* the session is over; the text says why */
        RINGSIDE_E_RECORDING = -5010,   /* not a recording, a newer format, or a damaged one */
        RINGSIDE_E_INVALID = -5011,     /* an argument out of range; the text names it */
};

typedef struct RingsideError {
        int code;        /* as returned: -errno or RINGSIDE_E_*, 0: none */
        char text[512];  /* what is wrong */
        char hint[512];  /* what to do, may be empty; several lines are separated by \n */
} RingsideError;

/* ---- sessions ---- */

enum RingsideHelper {
        RINGSIDE_HELPER_AUTO = 0,   /* direct for the machine's root, or with ambient CAP_BPF and CAP_PERFMON; else the bus */
        RINGSIDE_HELPER_BUS = 1,    /* org.ringside.Helper1 on the system bus, polkit decides */
        RINGSIDE_HELPER_DIRECT = 2, /* start ringside-helper --direct with the caller's own rights */
};

enum RingsideRecordType {
        RINGSIDE_SAMPLE = 1,
        RINGSIDE_STACK = 3,
        RINGSIDE_PROCESS = 4,
        RINGSIDE_MAPPING = 5,
        RINGSIDE_KERNEL_NAMES = 6,
};

enum RingsideProcessKind {
        RINGSIDE_PROCESS_SEEN = 1, /* sampled for the first time, was there before the session */
        RINGSIDE_PROCESS_FORK = 2, /* tid == pid: a new process, child of ppid; else a new thread of pid */
        RINGSIDE_PROCESS_EXEC = 3, /* runs a new program; while stopped that is told with the first sample after it */
        RINGSIDE_PROCESS_COMM = 4, /* thread tid has a new name */
        RINGSIDE_PROCESS_EXIT = 5, /* the last thread has exited */
        RINGSIDE_PROCESS_GONE = 6, /* became something the caller may not see, or has not asked for */
};

/* How the walk over a user stack ended. */
enum RingsideWalkEnd {
        RINGSIDE_WALK_NONE = 0,       /* no user stack */
        RINGSIDE_WALK_COMPLETE = 1,   /* reached its start */
        RINGSIDE_WALK_DEPTH = 2,      /* had more frames than a record holds */
        RINGSIDE_WALK_BAD_FP = 3,     /* frame pointers that lead nowhere: built without them */
        RINGSIDE_WALK_UNREADABLE = 4, /* memory of the stack, or of code, that was not resident, or a stack that is not mapped */
        RINGSIDE_WALK_BAD_RETURN = 5, /* a return address outside user space, or 0 where nothing else says that it is the last */
        RINGSIDE_WALK_COMPAT = 6,     /* a 32-bit task: only the leaf is known */
        /* With unwind tables. */
        RINGSIDE_WALK_NO_TABLES = 7,   /* there were none of the process yet */
        RINGSIDE_WALK_NO_MAPPING = 8,  /* an address in no mapping that was known */
        RINGSIDE_WALK_NO_RULE = 9,     /* an address that no rule covers, as in a file without .eh_frame, or code made at run time */
        RINGSIDE_WALK_UNSUPPORTED = 10, /* a rule that is too complicated, or goes by a register that is not known there */
        RINGSIDE_WALK_BAD_CFA = 11,    /* a frame that is not above the last one */
        RINGSIDE_WALK_NO_CALL = 12,    /* a return address that no call instruction stands before */
        RINGSIDE_WALK_END_MAX
};

/* "Somewhere in the kernel": the leaf of kernel-mode samples without kernel frames. */
#define RINGSIDE_FRAME_KERNEL 0xffff000000000000ULL
/* Code made at run time, as BPF programs; and code in no module that is known. */
#define RINGSIDE_FRAME_KERNEL_JIT 0xfffe000000000000ULL
#define RINGSIDE_FRAME_KERNEL_UNKNOWN 0xfffd000000000000ULL
/* Other kernel frames: a number that stands for a module (0: the kernel itself), and an offset into its text. */
#define RINGSIDE_FRAME_MODULE(frame) ((unsigned) ((uint64_t) (frame) >> 48 & 0x7fff))
#define RINGSIDE_FRAME_OFFSET(frame) ((uint64_t) (frame) & 0xffffffffffffULL)
#define RINGSIDE_FRAME_IS_KERNEL(frame) (((uint64_t) (frame)) >> 63)

/* Set in a stack's user frame that is no return address: what a signal interrupted, and what its handler returns to. */
#define RINGSIDE_FRAME_EXACT 0x4000000000000000ULL

/* One record; the pointers in it are valid until the callback returns. */
typedef struct RingsideRecord {
        enum RingsideRecordType type;
        uint64_t time; /* samples, processes */
        uint32_t pid;
        uint32_t tid;
        uint16_t cpu;
        union {
                struct {
                        uint32_t event;  /* index into the session's events */
                        uint64_t weight; /* units of the event; 0: one period of what the event was opened with */
                        bool kernel_mode;
                        bool idle;       /* interrupts' work on an idle CPU: softirqs, or any by a counter's event; pid and tid are 0 */
                        unsigned target; /* whose it is: 1 for the first that was added; 0: none was */
                        enum RingsideWalkEnd walk_end;
                        uint64_t leaf;  /* an address of pid's, a kernel frame, or 0 */
                        uint64_t stack; /* id of the callers, 0: none */
                } sample;
                struct {
                        uint64_t id;
                        const uint64_t *frames; /* innermost first: n_kernel kernel frames, then user frames, some with _EXACT */
                        uint32_t n_kernel;
                        uint32_t n_frames; /* both kinds together, at most 255 */
                        bool guessed;      /* where unwind tables had no rule, a step was made by frame pointer */
                } stack;
                struct {
                        enum RingsideProcessKind kind;
                        uint32_t ppid;  /* 0: hidden or unknown */
                        uint32_t inner_pid; /* SEEN, FORK, EXEC: in its own pid namespace, 0: the same */
                        bool kernel;    /* likewise: one of the kernel's own threads */
                        uint64_t start; /* when the process started */
                        char comm[17];  /* name of thread tid, any bytes, ends with 0 */
                } process;
                struct {
                        uint64_t process_start;
                        uint64_t start, end; /* addresses */
                        uint64_t offset;     /* in the file, bytes */
                        uint64_t inode;      /* 0: no file */
                        uint32_t dev_major, dev_minor;
                        bool deleted;    /* the file had no name any more */
                        bool incomplete; /* the path lacks its beginning */
                        const char *path; /* "": none; any bytes, ends with 0 */
                } mapping;
                struct {
                        int fd; /* a sealed memfd, -1: there are no names (kernel.kptr_restrict) */
                        uint64_t size;
                        uint64_t generation;
                } kernel_names; /* pid and tid are 0 */
        };
} RingsideRecord;

/* Returns 0, or a negative number that ends the dispatch and is returned from it. */
typedef int (*RingsideRecordFunc)(const RingsideRecord *record, void *userdata);

typedef struct RingsideEvent {
        char name[32];       /* "cpu-clock", "cpu-cycles" */
        char unit[16];       /* "ns", "cycles" */
        bool by_period;
        uint64_t value;      /* that it was opened with: Hz, or units of the event */
} RingsideEvent;

/* Sums over all CPUs. taken == emitted + lost once the session is stopped. */
typedef struct RingsideStatistics {
        uint64_t taken;     /* samples the kernel took of what the caller may see */
        uint64_t emitted;   /* of these: written to the ring */
        uint64_t lost;      /* of these: the ring was full */
        uint64_t stacks;
        uint64_t stacks_lost;
        uint64_t processes;
        uint64_t processes_lost;
        uint64_t unknown;   /* records the reader did not understand and skipped */
        uint64_t malformed; /* records that were not well-formed and were dropped */
        uint64_t ring_peak; /* bytes */
        uint64_t ring_size; /* bytes */
        uint64_t expected;  /* samples the counted events should have given, 0: not known (no targets) */
        uint64_t walk_end[RINGSIDE_WALK_END_MAX]; /* samples by enum RingsideWalkEnd */
        uint64_t missed;    /* ns of CPU time that no event covered: CPUs were offline, or the machine suspended */
        /* Of unwind tables. */
        uint64_t tables_refused; /* files whose call frame information is malformed, or more than the memory could ever hold */
        uint64_t tables_no_room; /* how often the table of a file found no room in the memory, or none any more */
        uint64_t rules_no_room;  /* rules of files that found none: walks that need one end RINGSIDE_WALK_UNSUPPORTED */
        uint64_t processes_no_room; /* how often a process, or the list of what it has mapped, found none */
        uint64_t tables_lost;    /* records that came too fast for tables to follow; then all processes were looked at again */
        uint64_t untracked; /* processes that targets started, and threads of named ones, of which nothing is told: too many */
} RingsideStatistics;

/* A session that is not open yet; `set_` and `add_event` are for before, the rest for after. */
RINGSIDE_PUBLIC int ringside_session_new(RingsideSession **ret);
RINGSIDE_PUBLIC RingsideSession *ringside_session_free(RingsideSession *session);

/* Of the last call on this session that failed. Valid until the next call. Never NULL. */
RINGSIDE_PUBLIC const RingsideError *ringside_session_get_error(RingsideSession *session);

RINGSIDE_PUBLIC int ringside_session_set_helper(RingsideSession *session, enum RingsideHelper helper);
/* by_period false: value in Hz. None added: cpu-cycles where there is a PMU, else cpu-clock, 99 Hz. */
RINGSIDE_PUBLIC int ringside_session_add_event(RingsideSession *session, const char *name, bool by_period, uint64_t value);
/* The frequency of the default event, Hz. */
RINGSIDE_PUBLIC int ringside_session_set_frequency(RingsideSession *session, uint64_t hz);
/* Bytes, a power of two of at least 64 KiB; the default is 8 MiB. */
RINGSIDE_PUBLIC int ringside_session_set_ring_size(RingsideSession *session, uint64_t bytes);
/*
 * Bytes of memory for unwind tables, a power of two from 4 MiB to 64 MiB; 0, the default: none, and stacks are walked by
 * frame pointers.
 */
RINGSIDE_PUBLIC int ringside_session_set_table_size(RingsideSession *session, uint64_t bytes);
/* How many callers of the interrupted instruction are told, 1 to 255; default 127. */
RINGSIDE_PUBLIC int ringside_session_set_max_frames(RingsideSession *session, unsigned frames);
enum RingsideKernel {
        RINGSIDE_KERNEL_QUIET = 0, /* kernel frames where they are granted without a question */
        RINGSIDE_KERNEL_ASK = 1,   /* the user may be asked for them, where `interactive` allows it; else as QUIET */
        RINGSIDE_KERNEL_NO = 2,
};
RINGSIDE_PUBLIC int ringside_session_set_kernel(RingsideSession *session, enum RingsideKernel kernel);

enum RingsideScope {
        RINGSIDE_SCOPE_OWN = 0,    /* processes the caller may see */
        RINGSIDE_SCOPE_SYSTEM = 1, /* every process of the caller's pid namespace, and the kernel's own threads */
};
RINGSIDE_PUBLIC int ringside_session_set_scope(RingsideSession *session, enum RingsideScope scope);
/* Whether polkit may ask the user (default: no). Somebody must be there to answer: an agent. */
RINGSIDE_PUBLIC int ringside_session_set_interactive(RingsideSession *session, bool interactive);
/* true: only processes named by add_target are sampled. false (default): all of the caller's. */
RINGSIDE_PUBLIC int ringside_session_set_targeted(RingsideSession *session, bool targeted);

/* Blocks until polkit has answered. Nothing is sampled yet. */
RINGSIDE_PUBLIC int ringside_session_open(RingsideSession *session);
/*
 * Whether the last call to open failed for want of memory, of the user's or the machine's: then smaller sizes may do. In bytes,
 * what the session wanted in all and what is left; 0 and 0 where the helper did not tell.
 */
RINGSIDE_PUBLIC bool ringside_session_is_short_of_memory(RingsideSession *session, uint64_t *ret_wanted, uint64_t *ret_left);

#define RINGSIDE_TARGET_ON_EXEC 0x1U    /* counts from the next execve on */
#define RINGSIDE_TARGET_NO_INHERIT 0x2U /* children are not followed */

/*
 * pidfd is borrowed. tid 0: every thread. Returns how many threads are watched. A tid may have come to be another thread's
 * of that process since it was found out; that a /proc/PID/task/TID opened then can still be read afterwards tells not.
 */
RINGSIDE_PUBLIC int ringside_session_add_target(RingsideSession *session, int pidfd, pid_t tid, unsigned flags);
/*
 * Only tasks of this cgroup and those below it; of untargeted sessions. id: the number of the inode of its
 * directory. v1: one of the perf_event hierarchy of cgroup v1. Processes, threads and cgroups are numbered
 * from 1 in the order they are added, at most 63.
 */
RINGSIDE_PUBLIC int ringside_session_add_cgroup(RingsideSession *session, uint64_t id, bool v1);
/* What was granted; of an open session. */
RINGSIDE_PUBLIC bool ringside_session_has_kernel_frames(RingsideSession *session);
RINGSIDE_PUBLIC uint64_t ringside_session_get_table_size(RingsideSession *session);
RINGSIDE_PUBLIC enum RingsideScope ringside_session_get_scope(RingsideSession *session);
/* As it was set. */
RINGSIDE_PUBLIC enum RingsideKernel ringside_session_get_kernel(RingsideSession *session);
/*
 * The rate of one event from now on, in Hz, from 1 to what it was opened with; before start, while it runs and after
 * stop. It counts for all targets and their children. Samples that are taken below the opened rate say by their weight
 * how much they stand for, so that weights of all samples can be added up, whenever the rate was changed. What is
 * saved is what samples cost; the clocks go on at the opened rate. RINGSIDE_E_INVALID: no such event, or not that fast.
 */
RINGSIDE_PUBLIC int ringside_session_set_rate(RingsideSession *session, unsigned event, uint64_t hz);
RINGSIDE_PUBLIC int ringside_session_start(RingsideSession *session);
RINGSIDE_PUBLIC int ringside_session_stop(RingsideSession *session);

/* An epoll fd that becomes readable when dispatch has something to do. Owned by the session. */
RINGSIDE_PUBLIC int ringside_session_get_fd(RingsideSession *session);
/*
 * Hands every record that is there to func, in ring order. Returns their number; RINGSIDE_E_ENDED
 * once the session is over and the ring is empty. Records without urgency raise no event: call this
 * at least every 250 ms.
 */
RINGSIDE_PUBLIC int ringside_session_dispatch(RingsideSession *session, RingsideRecordFunc func, void *userdata);

RINGSIDE_PUBLIC int ringside_session_get_statistics(RingsideSession *session, RingsideStatistics *ret);
/* Number of events, and the one at index. */
RINGSIDE_PUBLIC unsigned ringside_session_get_n_events(RingsideSession *session);
RINGSIDE_PUBLIC int ringside_session_get_event(RingsideSession *session, unsigned index, RingsideEvent *ret);
/* RINGSIDE_HELPER_BUS or RINGSIDE_HELPER_DIRECT: how it was opened. */
RINGSIDE_PUBLIC enum RingsideHelper ringside_session_get_helper(RingsideSession *session);

/*
 * Where a systemd unit's processes are: unit is its name, a service where it has no suffix; user: of the caller's own
 * manager, on the user bus. ret_name is the whole name, ret_cgroup the path of the cgroup in its hierarchy; both are
 * freed with free(). RINGSIDE_E_TARGET: not loaded, not running, or there is no systemd.
 */
RINGSIDE_PUBLIC int ringside_find_unit(const char *unit, bool user, char **ret_name, char **ret_cgroup, RingsideError *error);

/* ---- what can be sampled ---- */

typedef struct RingsideEventInfo {
        char name[32];
        char unit[16];
        char category[16];    /* "software", "hardware" */
        char description[96];
        bool available;
        char reason[160];     /* why not, and what would work; empty where available */
} RingsideEventInfo;

/* Asks the helper. ret_events is an array of n that the caller frees with free(). */
RINGSIDE_PUBLIC int ringside_list_events(enum RingsideHelper helper, RingsideEventInfo **ret_events, size_t *ret_n, RingsideError *error);

enum RingsideCheckResult { RINGSIDE_CHECK_OK = 0, RINGSIDE_CHECK_NOTE = 1, RINGSIDE_CHECK_FAILED = 2 };

typedef struct RingsideCheck {
        char name[24];   /* "kernel", "btf", "bus", "helper", "polkit" (profile-own), "profile-kernel", "pmu", ... */
        enum RingsideCheckResult result;
        char text[256];  /* what was found */
        char hint[256];  /* what to do, empty where nothing */
} RingsideCheck;

/* Looks at everything a session needs, without opening one. The array is freed with free(). */
RINGSIDE_PUBLIC int ringside_check_system(RingsideCheck **ret_checks, size_t *ret_n);

/* ---- recording ---- */

/* What was named to be recorded, in words. */
typedef struct RingsideTarget {
        const char *kind;  /* "process", "thread", "cgroup", "unit", "command" */
        const char *label; /* as it was named: the number, path, name or command */
} RingsideTarget;

typedef struct RingsideRecorderOptions {
        size_t size;                  /* sizeof(RingsideRecorderOptions), so that the struct can grow */
        const char *const *command;   /* argv of what is recorded, ends with NULL; NULL: none */
        const char *const *labels;    /* "key=value", ends with NULL; NULL: none */
        size_t queue_bytes;           /* between session and writer; 0: 64 MiB. Full: records count as dropped */
        const char *symbol_dir;       /* tree with .build-id below it; NULL: /usr/lib/debug */
        const RingsideTarget *targets; /* those of the session, in the order they were added; NULL: none */
        size_t n_targets;
} RingsideRecorderOptions;

typedef struct RingsideRecorderStatistics {
        uint64_t samples;  /* written */
        uint64_t dropped;  /* samples that found the queue full */
        uint64_t unresolved; /* samples whose stack never came */
        uint64_t stacks;   /* distinct */
        uint64_t truncated; /* samples whose user stack did not reach its start */
        uint64_t processes;
        uint64_t bytes;    /* of the recording on disk */
} RingsideRecorderStatistics;

/* path is created, and must not exist. The session must be open; it may be NULL in tests. */
RINGSIDE_PUBLIC int ringside_recorder_new(RingsideRecorder **ret, const char *path, RingsideSession *session,
                                          const RingsideRecorderOptions *options, RingsideError *error);
/* A RingsideRecordFunc with a RingsideRecorder as userdata. Never blocks. */
RINGSIDE_PUBLIC int ringside_recorder_push(const RingsideRecord *record, void *recorder);
/* Once a second or so: the counters, so that they survive a crash. */
RINGSIDE_PUBLIC int ringside_recorder_put_statistics(RingsideRecorder *recorder, const RingsideStatistics *statistics);
/*
 * Sampling has ended just now, though the recording goes on: why, in a few words without an end mark, as an error's text. Only
 * the first is kept. -EINVAL: no words.
 */
RINGSIDE_PUBLIC int ringside_recorder_put_ended(RingsideRecorder *recorder, const char *why);
/* Processes seen that have not ended, as far as the records told. */
RINGSIDE_PUBLIC unsigned ringside_recorder_get_n_alive(RingsideRecorder *recorder);
RINGSIDE_PUBLIC int ringside_recorder_get_statistics(RingsideRecorder *recorder, RingsideRecorderStatistics *ret);
/* Writes out everything and closes. exit_status: of the command as from waitpid(), -1: none. */
RINGSIDE_PUBLIC int ringside_recorder_finish(RingsideRecorder *recorder, int exit_status, RingsideError *error);
/*
 * After finish: the functions that samples of the first event were in, as a profile of the recording would give them, but
 * their totals, which are 0; without reading it again. Valid until the recorder is freed. -EFBIG: there are too many to be
 * counted meanwhile, and a profile is needed.
 */
RINGSIDE_PUBLIC int ringside_recorder_get_rows(RingsideRecorder *recorder, const RingsideRow **ret_rows, size_t *ret_n);
/* Without finish: closes as after a crash; what was pushed is written. */
RINGSIDE_PUBLIC RingsideRecorder *ringside_recorder_free(RingsideRecorder *recorder);

/* ---- lines and inlined functions ---- */

typedef struct RingsideSymbolizeOptions {
        size_t size;            /* sizeof(RingsideSymbolizeOptions) */
        const char *symbol_dir; /* tree with .build-id below it; NULL: /usr/lib/debug */
        uint64_t file_timeout;  /* ns that one file may take, then it is given up on; 0: 20 s */
        /*
         * ns for all of them, then those that are left have none; 0: as long as it takes. What it takes to open a file is not
         * bounded, if its file system does not answer.
         */
        uint64_t timeout;
        /*
         * Of debuginfod servers to ask for what is not here, separated by spaces; "": none, but what was fetched before is
         * looked for; NULL: not even that. The environment is not asked, but for DEBUGINFOD_CACHE_PATH and the like.
         */
        const char *debuginfod_urls;
        uint64_t fetch_timeout; /* ns that a server may take for one file, then it is given up on; 0: 60 s */
        /* Called while a server is waited for; path: of the recorded file; total: bytes, 0: not known. NULL: nobody is told. */
        void (*fetch_progress)(const char *path, uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} RingsideSymbolizeOptions;

typedef struct RingsideSymbolizeStatistics {
        uint64_t places;  /* in files, of which no line was known */
        uint64_t found;   /* of these: something is known now */
        uint64_t files;   /* that they are in, and of these: */
        uint64_t missing; /* not there, or not what was recorded */
        uint64_t without; /* have no debug information, and nor is there a file with it */
        uint64_t refused; /* it is malformed, of a kind that is not known, or too much */
        uint64_t late;    /* there was no time for them, or not for all of it */
        uint64_t zstd;    /* it is compressed so, and this libelf cannot read that; lines may be known all the same */
        uint64_t dwp;     /* what is inlined is in FILE.dwp, which is not read; lines are known */
        uint64_t asked;   /* that servers were asked for, counted apart; of these: */
        uint64_t fetched; /* came, and are what was asked for */
        uint64_t unknown; /* are on no server */
        uint64_t failed;  /* no server could be reached, or it sent something else, or too much */
        uint64_t given_up; /* took too long */
        uint64_t not_asked; /* that they were not asked for, since the last had come to nothing */
        bool no_debuginfod; /* servers could not be asked: libdebuginfod is not installed, or was not when this was built */
} RingsideSymbolizeStatistics;

/*
 * Looks up where the code of a recording comes from, in the files that were recorded and in those with their debug
 * information, and adds it to the recording. What was found before stays. Debug information is read in child processes,
 * which have ended when this returns, unless they wait for a file system that does not answer: nobody else may wait for
 * them. RINGSIDE_E_RECORDING: also a format that is too old. -EBUSY: it is being written.
 */
RINGSIDE_PUBLIC int ringside_symbolize(const char *path, const RingsideSymbolizeOptions *options, RingsideSymbolizeStatistics *ret, RingsideError *error);

/* ---- reading recordings ---- */

typedef struct RingsideRecordingInfo {
        unsigned format;          /* of the file */
        bool finished;            /* false: the recorder was killed, or is still at work */
        int64_t start_realtime;   /* ns since 1970-01-01 UTC */
        uint64_t start;           /* ns CLOCK_BOOTTIME */
        uint64_t duration;        /* ns from start to the last that was written */
        int exit_status;          /* as from waitpid(), -1: none */
        uint64_t samples;
        uint64_t truncated;       /* samples whose user stack did not reach its start */
        uint64_t hidden;          /* processes that became something the caller may not see, or had not asked for */
        RingsideStatistics statistics; /* the last that were put */
        const char *command;      /* shell-quoted, "" where all processes were recorded */
        const char *hostname;
        const char *kernel;       /* release and machine, as uname says */
        const char *grant;        /* "own" or "direct" */
        const char *scope;        /* "own" or "system": every process; "" in recordings of format 1 */
        /*
         * "yes"; "denied": not granted; "not asked"; "no names": granted, but the kernel tells none
         * (kernel.kptr_restrict); "" in recordings of format 1, which have none.
         */
        const char *kernel_frames;
        const char *unwind;       /* how user stacks were walked: "table", or "fp" by frame pointers */
        unsigned n_cpus;
        unsigned n_events;
        const RingsideEvent *events;
        unsigned n_targets;
        const char *const *targets; /* kind and label, as "process 1234", in order */
        unsigned n_labels;
        const char *const *labels;  /* "key=value" */
        uint64_t ended;           /* ns from start until sampling ended before the recording did, */
        const char *ended_why;    /* and why; "": it did not */
        uint64_t names_refused;   /* files without names, or without some: malformed, too much, not to be opened, or others by now */
} RingsideRecordingInfo;

/* Opens read-only; a file that is hostile or damaged is refused with RINGSIDE_E_RECORDING. */
RINGSIDE_PUBLIC int ringside_recording_open(RingsideRecording **ret, const char *path, RingsideError *error);
RINGSIDE_PUBLIC RingsideRecording *ringside_recording_free(RingsideRecording *recording);
/* Strings and arrays are valid until the recording is freed. */
RINGSIDE_PUBLIC const RingsideRecordingInfo *ringside_recording_get_info(RingsideRecording *recording);
/* The newest *.ringside in directory that opens and is the caller's own; the path is freed with free(). -ENOENT: none. */
RINGSIDE_PUBLIC int ringside_recording_find_newest(const char *directory, char **ret_path, RingsideError *error);

/* ---- profiles ---- */

enum RingsideMode { RINGSIDE_MODE_ANY = 0, RINGSIDE_MODE_USER = 1, RINGSIDE_MODE_KERNEL = 2 };

typedef struct RingsideFilter {
        size_t size;            /* sizeof(RingsideFilter) */
        const char *process;    /* pid, or a glob on the command name; NULL: all */
        const char *thread;     /* tid, or a glob on the thread name; NULL: all */
        int event;              /* index; -1: the first */
        const char *target;     /* a label, kind and label, or a glob on either; NULL: all */
        bool merge_targets;     /* as if none had been named: rows and trees of all that passed together */
        bool no_inline;         /* inlined functions are part of what they are inlined into */
        bool fold_parts;        /* f.cold, f.part.0, f.constprop.0 and their like are f */
        /*
         * Only samples with this function in their stack: its name, demangled, or a glob on that; NULL: all. Trees begin
         * with it, and have below it what it calls or what calls it.
         */
        const char *function;
        uint64_t since, until;  /* ns from the start of the recording, until not included; 0: to the end */
        enum RingsideMode mode; /* where the CPU was */
} RingsideFilter;

/* A node of the call tree. Strings and children live as long as the profile. */
typedef struct RingsideNode {
        const char *name;  /* of the function, demangled; "[kernel]", "[truncated]", "file+0x1234" */
        const char *file;  /* base name of the file it is in, "" where there is none */
        bool kernel;
        bool inlined;      /* into its caller, and not called */
        uint64_t self_samples, total_samples;
        uint64_t self_weight, total_weight; /* units of the event */
        struct RingsideNode *const *children; /* sorted by total_weight, descending; then by name */
        size_t n_children;
} RingsideNode;

enum RingsideGroup {
        RINGSIDE_BY_FUNCTION = 0,
        RINGSIDE_BY_FILE = 1,
        RINGSIDE_BY_PROCESS = 2,
        RINGSIDE_BY_THREAD = 3,
        RINGSIDE_BY_TARGET = 4,
        RINGSIDE_BY_LINE = 5,
};

struct RingsideRow {
        const char *name;  /* function, path, command, or kind and label of a target */
        const char *file;  /* functions: the base name of their file; else "" */
        const char *source; /* lines, which have the name and file of their function: path of the source; "": not known */
        unsigned line;     /* 0: not known */
        const char *target; /* kind and label, where there are several targets: a row is of one; else "" */
        int64_t id;        /* processes: pid; threads: tid; else -1 */
        int64_t inner_id;  /* processes: in their own pid namespace; 0: the same, or not known */
        bool kernel;
        bool inlined;      /* functions: where they are inlined; the same one that is called is another row */
        uint64_t self_samples, total_samples; /* recursion counts once in total */
        uint64_t self_weight, total_weight;
};

/* filter may be NULL: everything, first event. */
RINGSIDE_PUBLIC int ringside_profile_new(RingsideProfile **ret, RingsideRecording *recording, const RingsideFilter *filter, RingsideError *error);
RINGSIDE_PUBLIC RingsideProfile *ringside_profile_free(RingsideProfile *profile);
/* Totals over what the filter let through. */
RINGSIDE_PUBLIC uint64_t ringside_profile_get_samples(RingsideProfile *profile);
RINGSIDE_PUBLIC uint64_t ringside_profile_get_weight(RingsideProfile *profile);
/* Samples whose user stack did not reach its start. */
RINGSIDE_PUBLIC uint64_t ringside_profile_get_truncated(RingsideProfile *profile);
/* Samples of which some of the user stack was found by frame pointer, where unwind tables had no rule: it may be wrong. */
RINGSIDE_PUBLIC uint64_t ringside_profile_get_guessed(RingsideProfile *profile);
/* Sorted by self weight, descending. The array lives as long as the profile. */
RINGSIDE_PUBLIC int ringside_profile_get_rows(RingsideProfile *profile, enum RingsideGroup group, const RingsideRow **ret_rows, size_t *ret_n);

/* Samples whose user stack was cut short for one reason, in one file. */
typedef struct RingsideTruncation {
        enum RingsideWalkEnd end; /* COMPLETE or NONE: its callers were lost; WALK_END_MAX: one that this version does not know */
        const char *file; /* path: of the outermost frame that was reached; "" where there is none */
        bool kernel;      /* that is one of the kernel's */
        uint64_t samples;
        uint64_t weight;  /* units of the event */
} RingsideTruncation;
/* Sorted by weight, descending. The array lives as long as the profile. */
RINGSIDE_PUBLIC int ringside_profile_get_truncations(RingsideProfile *profile, const RingsideTruncation **ret, size_t *ret_n);
/*
 * From the start of each stack down to its leaf; one child per process command below the root, or below one child
 * per target where there are several.
 */
RINGSIDE_PUBLIC int ringside_profile_get_callees(RingsideProfile *profile, const RingsideNode **ret_root);
/* Inverted: from each leaf function up to its callers; below one child per target where there are several. */
RINGSIDE_PUBLIC int ringside_profile_get_callers(RingsideProfile *profile, const RingsideNode **ret_root);

/* ---- instructions ---- */

typedef struct RingsideInstruction {
        uint64_t address; /* ELF virtual address in the file */
        const char *text; /* as objdump writes it; any bytes, ends with 0 */
        uint64_t self_samples, total_samples; /* recursion counts once in total */
        uint64_t self_weight, total_weight;
} RingsideInstruction;

/* What a symbol of a file holds: a function, or a part of it. */
typedef struct RingsideCode {
        const char *name; /* of the function, as rows have it */
        const char *path; /* of the file as it was recorded, or "[jit]" and the like */
        uint64_t start, end; /* ELF virtual addresses, end past the last byte; both 0: not known */
        uint64_t total_samples, total_weight; /* of the samples that were in it */
        const RingsideInstruction *instructions; /* by address */
        size_t n_instructions;
        RingsideError error; /* code 0, or why there are no instructions */
} RingsideCode;

typedef struct RingsideCodeOptions {
        size_t size;            /* sizeof(RingsideCodeOptions) */
        const char *symbol_dir; /* tree with .build-id below it; NULL: /usr/lib/debug */
        uint64_t timeout;       /* ns for all of it, then what is left has no instructions; 0: 20 s */
} RingsideCodeOptions;

/*
 * The code of the functions with this name, demangled, or a glob on it, that samples were in other than inlined, with what
 * each instruction took: of all targets that the filter let through, sorted by total weight, descending, at most
 * RINGSIDE_CODE_MAX of them. Files are those that were recorded or none. objdump disassembles them, in child processes
 * which have ended when this returns: nobody else may wait for them. Valid until the next call, and as long as the profile.
 * options may be NULL.
 */
#define RINGSIDE_CODE_MAX 32
RINGSIDE_PUBLIC int ringside_profile_get_code(RingsideProfile *profile, const char *function, const RingsideCodeOptions *options, const RingsideCode **ret, size_t *ret_n);

/* ---- export ---- */

/* "command;outermost;...;leaf count" lines, sorted, as FlameGraph's tools read them. */
RINGSIDE_PUBLIC int ringside_export_collapsed(RingsideProfile *profile, FILE *out, RingsideError *error);
/* gzipped profile.proto; addresses are ELF virtual addresses of the mapped files. */
RINGSIDE_PUBLIC int ringside_export_pprof(RingsideRecording *recording, const RingsideFilter *filter, FILE *out, RingsideError *error);
/* One self-contained HTML page; info's first event must be the profile's. */
RINGSIDE_PUBLIC int ringside_export_flamegraph(RingsideProfile *profile, const RingsideRecordingInfo *info, FILE *out, RingsideError *error);

/* ---- small things ---- */

/*
 * Copies s without what could act on a terminal, a line-based reader or a page: control characters,
 * invalid UTF-8, bidirectional overrides become \xNN; other text stays. At most size - 1 bytes and a
 * final 0 are written, cut at a character. Returns dst.
 */
RINGSIDE_PUBLIC char *ringside_escape(char *dst, size_t size, const char *s);
/* The version of the library, "0.1.0". */
RINGSIDE_PUBLIC const char *ringside_version(void);

#ifdef __cplusplus
}
#endif
