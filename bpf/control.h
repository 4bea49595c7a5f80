/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * What a session tells its programs, and what their iterator tells the session. Lives in maps that
 * never leave the helper.
 */

#include "record.h"

/* Direct-mapped, racy on purpose (see sampler.bpf.c); powers of two. */
#define RS_SENT_SLOTS 65536
#define RS_ANNOUNCED_SLOTS 8192
/* Of mappings that were told: so many sets of so many bytes (mapping.h). */
#define RS_MAPPED_SETS 4096
#define RS_MAPPED_SET_SIZE 224
/* Of rules that walks by tables have found: so many, of so many bytes (unwind-lookup.h). */
#define RS_REMEMBERED_SLOTS 16384
#define RS_REMEMBERED_SIZE 32
/* Frames of the kernel in one stack; its own limit is 127 unless kernel.perf_event_max_stack was raised. */
#define RS_KERNEL_FRAMES_MAX 128
/*
 * What programs put things together in, bytes on each CPU: a walk, the part of the stack that it reads, a sample and the
 * record of a stack (walk.h), for the machine that has more registers; a mapping and its path, and one of a list (vma.h);
 * the kernel's frames (kernel-stack.h); which mappings a stack is in (mapping.h).
 */
#define RS_SCRATCH_SIZE 3584
#define RS_VMA_SIZE 2592
#define RS_KERNEL_RAW_SIZE (16 + 8 * RS_KERNEL_FRAMES_MAX)
#define RS_MAPPING_SCRATCH_SIZE 128
#define RS_CPU_SIZE (RS_SCRATCH_SIZE + 2 * RS_VMA_SIZE + RS_KERNEL_RAW_SIZE + RS_MAPPING_SCRATCH_SIZE)
/* Processes followed in a session with targets: those named and those they started. */
#define RS_TRACKED_MAX 16384

/*
 * What a session was told to watch, and what that has started since: processes and threads by number in the
 * initial pid namespace, cgroups by number. An element of a kind of cgroup with the number 0, which no cgroup has,
 * says that there are some.
 */
enum rs_tracked_kind {
        RS_TRACKED_PROCESS = 1,
        RS_TRACKED_THREAD = 2,
        RS_TRACKED_CGROUP = 3,
        RS_TRACKED_CGROUP_V1 = 4, /* of the perf_event hierarchy */
        RS_TRACKED_TELLING = 5,   /* number 0: its target is 1 between START and STOP, else 0 */
};

struct rs_tracked_key {
        __u64 number;
        __u64 kind;
};

struct rs_tracked {
        __u64 start;  /* of the process or thread, as below: whoever has the number later is not it */
        __u32 target; /* which one, from 1; 0: none any more */
        __u32 follow; /* 1: so is what it starts */
};

/* Before mappings are listed: from which address on; the program remembers of which thread it tells. */
struct rs_mapping_question {
        __u64 from;
        __u64 tid; /* 0: of none yet */
};

struct rs_namespace {
        __u64 id;    /* never used again; 0 before 6.18 */
        __u32 inum;  /* as stat() of /proc/PID/ns/ shows; 0: nobody matches */
        __u32 level; /* 0: the initial one */
};

/* Whom the access rule is evaluated for: fixed at HELLO. uids and gids are the kernel's own. */
struct rs_identity {
        __u32 uid;
        __u32 gid;
        __u64 caps; /* effective capabilities; always 0 but in direct mode */
        struct rs_namespace user_ns;
        struct rs_namespace pid_ns;
};

/*
 * Where the kernel's text lies: the one secret of this header, in an array of one element that the keeper's child
 * makes, that every session's programs use, and that no client ever gets.
 */
#define RS_KERNEL_RANGES_MAX 1024
struct rs_kernel_range {
        __u64 start, end;
        __u64 module; /* its number */
};

struct rs_kernel_ranges {
        __u64 generation;
        __u64 made; /* bpf_ktime_get_ns(), before it was looked what there is */
        __u64 core_start, core_end; /* _stext, _etext */
        __u64 jit_start, jit_end;   /* where code is made at run time: what is in no module there is such code */
        __u64 nr;
        struct rs_kernel_range ranges[RS_KERNEL_RANGES_MAX]; /* sorted, of modules only, not overlapping */
};

/* One task, as the iterator describes it. */
struct rs_task_info {
        struct rs_identity identity; /* of the task itself */
        __u64 start;                 /* of the thread, ns, CLOCK_BOOTTIME */
        __u64 process_start;         /* of its process, the same */
        __u32 tgid;                  /* in the helper's pid namespace, 0: not there */
        __u32 tid;                   /* the same */
        __u32 client_tid;            /* in the client's pid namespace, 0: not there */
        __u32 admitted;              /* 1: the access rule holds for the session's identity */
        __u32 watched;   /* 1: has events of this session already, opened or inherited */
        __u32 tgid_root;             /* in the initial pid namespace: what the programs use as key */
        __u32 tid_root;              /* the same */
        __u32 ring_safe; /* the kernel has the fix for CVE-2024-41009 (bpf_ringbuf.pending_pos) */
        __u32 mm_busy;   /* somebody changes its address space, or waits to: whoever reads it would wait as well */
        __u32 pad;
};

_Static_assert(sizeof(struct rs_tracked_key) == 16 && sizeof(struct rs_tracked) == 16, "shared with the programs");
_Static_assert(sizeof(struct rs_identity) == 48, "shared with the programs");
_Static_assert(sizeof(struct rs_task_info) == 104, "shared with the programs");
