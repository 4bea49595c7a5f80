/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * The records of a session's ring, written by the BPF programs and read by the client.
 *
 * Every record starts with struct rs_record. The ring is private to one client, but the client must
 * still treat every byte as hostile: it checks len against the ring's own length before anything
 * else, and skips types it does not know. All integers are in host byte order, all padding is
 * explicit and zero. Pids and tids are those of the client's own pid namespace.
 *
 * Included by BPF programs as well, so nothing but fixed-width types may stand here.
 */

#ifdef RS_BPF
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
#else
#include <linux/types.h>
#endif

/* Raised whenever a record or the counters change shape; stated in WELCOME. */
#define RS_LAYOUT_VERSION 4

#define RS_FRAMES_MAX 255
#define RS_EVENTS_MAX 8
#define RS_COMM_SIZE 16

enum rs_record_type {
        RS_RECORD_SAMPLE = 1,  /* struct rs_sample */
        RS_RECORD_WSAMPLE = 2, /* struct rs_wsample */
        RS_RECORD_STACK = 3,   /* struct rs_stack */
        RS_RECORD_PROCESS = 4, /* struct rs_process */
        RS_RECORD_MAPPING = 5, /* struct rs_mapping */
};

struct rs_record {
        __u8 type;   /* enum rs_record_type */
        __u8 event;  /* samples: index of the event; PROCESS: enum rs_process_kind; else 0 */
        __u16 len;   /* of the whole record in bytes, this header included */
        __u16 cpu;   /* where it was written */
        /* Samples: RS_SAMPLE_*, the target, and enum rs_walk_end; else RS_STACK_*, RS_MAPPING_*, RS_PROCESS_*, or 0. */
        __u16 flags;
};

#define RS_SAMPLE_KERNEL_MODE 0x0001 /* the interrupt hit the kernel */
#define RS_SAMPLE_NO_USER 0x0002     /* no user part: an io or user worker, a kernel thread, or an exec under way */
#define RS_SAMPLE_IDLE 0x0004        /* interrupts' work on an idle CPU; pid and tid are 0 */
/* Which target the task belongs to, counted from 1 in the order they were accepted; 0: none was named. */
#define RS_SAMPLE_TARGET_SHIFT 4
#define RS_SAMPLE_TARGET_MASK 0x3f
#define RS_WALK_END_SHIFT 10
#define RS_WALK_END_MASK 0xf

/* How the walk over the user stack ended. */
enum rs_walk_end {
        RS_WALK_NONE = 0,       /* nothing was walked */
        /*
         * As the first frame is marked: a frame pointer of 0, or a rule; or where goroutines, Go's threads or
         * coroutines begin.
         */
        RS_WALK_COMPLETE = 1,
        RS_WALK_DEPTH = 2,      /* as many frames as a record holds, and there were more */
        RS_WALK_BAD_FP = 3,     /* a frame pointer that is unaligned, not above the last one, or 0 at once */
        RS_WALK_UNREADABLE = 4, /* user memory, of the stack or of code, that was not resident; or no stack is mapped */
        /* A return address: by frame pointers outside user space, or 0; by a rule 0, where the frame pointer is not. */
        RS_WALK_BAD_RETURN = 5,
        RS_WALK_COMPAT = 6,     /* a 32-bit task: only the leaf is known */
        /* With tables (unwind-table.h). */
        RS_WALK_NO_TABLES = 7,   /* the process has no tables yet */
        RS_WALK_NO_MAPPING = 8,  /* an address in no mapping that is known */
        RS_WALK_NO_RULE = 9,     /* an address that no rule covers, or a file without any */
        RS_WALK_UNSUPPORTED = 10, /* a rule of another kind, or by a register that is not known here */
        RS_WALK_BAD_CFA = 11,    /* a frame that is not above the last one */
        RS_WALK_NO_CALL = 12,    /* a return address that no call stands before */
        RS_WALK_END_MAX
};

/*
 * Frames: a user address as it is, always below 1 << 62; or a kernel frame, which never is an
 * address: bit 63 set, then 15 bits of module number, then 48 bits of offset into the module's text.
 */
/*
 * With a user address in a STACK: no call stands before it. It is what a signal interrupted, or what its
 * handler returns to.
 */
#define RS_FRAME_EXACT 0x4000000000000000ULL
#define RS_FRAME_KERNEL_BIT 0x8000000000000000ULL
#define RS_FRAME_MODULE_SHIFT 48
#define RS_FRAME_MODULE_MASK 0x7fffULL
#define RS_FRAME_OFFSET_MASK 0x0000ffffffffffffULL
/* Module 0 is the kernel's own text; the numbers of modules are never used again (kernel-names.h). */
#define RS_MODULE_CORE 0
#define RS_MODULE_MAX 0x7ff0 /* above are the markers */
/* "Somewhere in the kernel": all that is told without profile-kernel, or where kernel.kptr_restrict is 2. */
#define RS_FRAME_KERNEL (RS_FRAME_KERNEL_BIT | (0x7fffULL << RS_FRAME_MODULE_SHIFT))
/* Code that was made while the kernel runs: BPF programs and trampolines. */
#define RS_FRAME_KERNEL_JIT (RS_FRAME_KERNEL_BIT | (0x7ffeULL << RS_FRAME_MODULE_SHIFT))
/* In no text that is known, as of a module loaded a moment ago. */
#define RS_FRAME_KERNEL_UNKNOWN (RS_FRAME_KERNEL_BIT | (0x7ffdULL << RS_FRAME_MODULE_SHIFT))

struct rs_sample {
        struct rs_record r;
        __u64 time; /* ns, CLOCK_BOOTTIME */
        __u32 pid;
        __u32 tid;
        __u64 leaf;  /* where it was interrupted: a frame as above, or 0 where there is none */
        __u64 stack; /* id of the STACK record that holds the leaf's callers, 0: it has none */
};

struct rs_wsample {
        struct rs_sample s;
        /* In units of the event (cycles, ns), where the period varies or the rate is not the granted one. */
        __u64 weight;
};

/*
 * The callers of a leaf: kernel frames first, then user frames, innermost first. Sent before the first sample
 * that names it; may be sent more than once with the same content. Where the sample's mode is
 * kernel, the first user frame is the user instruction that entered the kernel (not a return
 * address); every other frame is a return address, but for those with RS_FRAME_EXACT.
 */
#define RS_STACK_GUESSED 0x0001 /* where a table had no rule, a step was made by frame pointer */
struct rs_stack {
        struct rs_record r; /* flags: RS_STACK_* */
        __u64 id; /* keyed hash over the process and the frames, never 0 */
        __u32 pid;
        __u16 nr_kernel;
        __u16 nr_user;
        __u64 frames[]; /* nr_kernel + nr_user, at most RS_FRAMES_MAX */
};

/* What happened to a process or a thread; only for those the client may see. */
enum rs_process_kind {
        RS_PROCESS_SEEN = 1, /* sampled for the first time, was there before the session */
        RS_PROCESS_FORK = 2, /* tid == pid: a new process, child of ppid; else a new thread of pid */
        RS_PROCESS_EXEC = 3, /* runs a new program; its mappings are all new. Told with a sample, if that came after STOP */
        RS_PROCESS_COMM = 4, /* thread tid has a new name */
        RS_PROCESS_EXIT = 5, /* the last thread of the process has exited */
        RS_PROCESS_GONE = 6, /* an exec made it into what the client may not see, or has not asked for (cgroups) */
        RS_PROCESS_KIND_MAX
};

#define RS_PROCESS_KERNEL 0x0001 /* one of the kernel's own threads; not told by COMM, EXIT and GONE */

struct rs_process {
        struct rs_record r;
        __u64 time; /* ns, CLOCK_BOOTTIME */
        __u32 pid;
        __u32 tid;
        __u32 ppid; /* 0 where the parent is hidden or unknown */
        __u32 inner_pid; /* its number in its own pid namespace, 0: the same, or COMM, EXIT and GONE */
        __u64 start;             /* of the process: ns, CLOCK_BOOTTIME; tells a pid used again */
        char comm[RS_COMM_SIZE]; /* of thread tid, padded with zeros; any byte may stand in it */
};

/*
 * A mapping with code in it, as it was at `time`: told when a sample lies in one that was not told of yet,
 * since the process may be gone before anybody can read its maps. At most one comes with each sample, before
 * it: that of its leaf first, those of its callers with the next ones that have the same stack. Names are as
 * the kernel has them, and end with a 0 that is counted.
 */
#define RS_PATH_MAX 1024
#define RS_MAPPING_DELETED 0x0001   /* the file had no name any more */
#define RS_MAPPING_INCOMPLETE 0x0002 /* the path's beginning is missing: it was too long or too deep */
struct rs_mapping {
        struct rs_record r;
        __u64 time;          /* ns, CLOCK_BOOTTIME */
        __u64 process_start; /* as in struct rs_process */
        __u64 start, end;    /* addresses */
        __u64 offset;        /* in the file, bytes */
        __u64 inode;         /* 0: no file, anonymous memory */
        __u32 pid;
        __u32 dev_major, dev_minor;
        __u32 path_len;      /* bytes of path, its final 0 included; 0: none */
        char path[];         /* padded with zeros to a multiple of 8 */
};

/*
 * Counters, one per possible CPU, in an array the client maps read-only (stride: sizeof). All only
 * count what the access rule admitted, so that nothing about other people can be read from them.
 * taken == emitted + lost, exactly, once the events are stopped.
 */
struct rs_counters {
        __u64 taken;          /* admitted samples */
        __u64 emitted;        /* of these: written to the ring */
        __u64 lost;           /* of these: the ring was full, or a read of the task failed after the rule had passed */
        __u64 stacks;         /* STACK records written */
        __u64 stacks_lost;    /* STACK records the ring had no room for; their samples count as lost */
        __u64 processes;      /* PROCESS records written */
        __u64 processes_lost; /* PROCESS records the ring had no room for */
        __u64 ring_peak;      /* highest fill of the ring seen here, bytes */
        __u64 mappings;       /* MAPPING records written */
        __u64 mappings_lost;  /* MAPPING records the ring had no room for */
        __u64 untracked;      /* processes that targets started, and threads of named ones: no room to follow them */
        __u64 pad[5];
        __u64 walk_end[16];   /* samples by enum rs_walk_end */
};

_Static_assert(sizeof(struct rs_record) == 8, "layout");
_Static_assert(sizeof(struct rs_sample) == 40, "layout");
_Static_assert(sizeof(struct rs_wsample) == 48, "layout");
_Static_assert(sizeof(struct rs_stack) == 24, "layout");
_Static_assert(sizeof(struct rs_process) == 56, "layout");
_Static_assert(sizeof(struct rs_mapping) == 72, "layout");
_Static_assert(sizeof(struct rs_counters) == 256, "layout");
_Static_assert(RS_WALK_END_MAX <= 16, "counters hold every reason");
