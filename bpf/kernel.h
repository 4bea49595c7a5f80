/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * What the programs read of the kernel, and nothing else. Every struct is relocated against the
 * running kernel's own types when it is loaded (CO-RE); a ___flavour names one of several shapes a
 * struct has had. Offsets here mean nothing.
 */

typedef _Bool bool;
#define true 1
#define false 0

#include "record.h"

#include <bpf/bpf_core_read.h>

/* Named by bpf_helper_defs.h, used by nobody here. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type {
        BPF_MAP_TYPE_HASH = 1,
        BPF_MAP_TYPE_ARRAY = 2,
        BPF_MAP_TYPE_PERCPU_ARRAY = 6,
        BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
        BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
        BPF_ANY = 0,
        BPF_F_RDONLY_PROG = 1U << 7,
        BPF_F_MMAPABLE = 1U << 10,
        BPF_RB_NO_WAKEUP = 1U << 0,
        BPF_RB_FORCE_WAKEUP = 1U << 1,
        BPF_RB_AVAIL_DATA = 0,
};

/* task_struct.flags, include/linux/sched.h; unchanged since 6.1 but for USER_WORKER, new in 6.4. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
/* mm_struct.flags, include/linux/sched/coredump.h. */
#define MMF_DUMPABLE_MASK 3
#define SUID_DUMP_USER 1
#define CAP_SYS_PTRACE 19
#define PIDTYPE_TGID 1
#define USER_NS_DEPTH_MAX 33

/*
 * What has had one layout for ever, or is an interface. For each type below whose layout is looked up, libbpf compares
 * the names of all of the kernel's types, a millisecond of the time that a session takes to load: so a
 * type has all of its versions in one declaration, members that only some kernels have included, unless
 * one name has had two meanings.
 */
typedef struct {
        __u32 val;
} kuid_t;

typedef struct {
        __u32 val;
} kgid_t;

struct list_head {
        struct list_head *next;
};

struct seq_file;
struct task_struct;
struct vm_area_struct;

struct bpf_iter_meta {
        struct seq_file *seq;
};

struct bpf_iter__task {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
};

struct bpf_iter__task_vma {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
        struct vm_area_struct *vma;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
        unsigned int inum;
        __u64 ns_id; /* since 6.18: numbers for good; inum alone is used again after the namespace is gone */
};

struct user_namespace {
        struct user_namespace *parent;
        int level;
        kuid_t owner;
        struct ns_common ns;
};

struct pid_namespace {
        struct ns_common ns;
};

struct upid {
        int nr;
        struct pid_namespace *ns;
};

struct pid {
        unsigned int level;
        struct upid numbers[1];
};

/* Two __u32 before 6.3, one __u64 since: the same bytes on little-endian machines. */
struct kernel_cap_struct {
        __u64 val;
};

struct cred {
        kuid_t uid;
        kgid_t gid;
        kuid_t suid;
        kgid_t sgid;
        kuid_t euid;
        kgid_t egid;
        struct kernel_cap_struct cap_permitted;
        struct kernel_cap_struct cap_effective;
        struct user_namespace *user_ns;
};

struct rw_semaphore {
        struct {
                long counter;
        } count;
};

struct mm_struct {
        struct user_namespace *user_ns; /* before 7.2 */
        struct rw_semaphore mmap_lock;
        unsigned long exec_vm; /* pages */
        int map_count;
        struct {
                void *vdso;
        } context;
};

/* What exec settles: until 7.2 it belonged to the memory, since then to the task, in a struct of its own. */
enum task_dumpable {
        TASK_DUMPABLE_OFF = 0,
        TASK_DUMPABLE_OWNER = 1,
};

struct task_exec_state {
        enum task_dumpable dumpable;
        struct user_namespace *user_ns;
};

struct seqcount {
        unsigned int sequence;
};

/* With CONFIG_PER_VMA_LOCK, since 6.4, mm_lock_seq is odd while somebody changes the address space. */
struct mm_struct___old {
        unsigned long flags; /* before 6.18 */
        int mm_lock_seq;     /* before 6.14 */
};

struct mm_struct___new {
        struct {
                unsigned long __mm_flags[1];
        } flags;
        struct seqcount mm_lock_seq;
};

typedef struct {
        int counter;
} atomic_t;

struct signal_struct {
        atomic_t live;
        struct pid *pids[4];
};

/* 64 bits since 5.5: the number of the inode of the cgroup's directory. */
struct kernfs_node {
        __u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
        struct cgroup *cgroup;
        struct cgroup_subsys_state *parent;
};

struct cgroup {
        struct cgroup_subsys_state self;
        struct kernfs_node *kn;
};

/* Of one set of cgroups, one in each hierarchy. */
struct css_set {
        struct cgroup_subsys_state *subsys[1]; /* as many as the kernel was built with */
        struct cgroup *dfl_cgrp;               /* in that of v2 */
};

struct task_struct {
        unsigned int flags;
        struct mm_struct *mm;
        unsigned in_execve : 1;
        int pid;
        int tgid;
        struct task_struct *real_parent;
        struct task_struct *group_leader;
        struct pid *thread_pid;
        __u64 start_boottime;
        const struct cred *real_cred;
        const struct cred *cred;
        char comm[16];
        struct signal_struct *signal;
        struct css_set *cgroups;
        __u64 parent_exec_id; /* its parent's self_exec_id when it was made */
        __u64 self_exec_id;
        void *stack;
        struct perf_event_context *perf_event_ctxp; /* since 6.2 */
        struct task_exec_state *exec_state;         /* since 7.2 */
};

/* One context for hardware and one for software events. */
struct task_struct___before_6_2 {
        struct perf_event_context *perf_event_ctxp[2];
};

/* The member is the fix for CVE-2024-41009: a client that moves its position could overrun records. */
struct bpf_ringbuf {
        unsigned long pending_pos;
};

struct bpf_prog_aux {
        __u32 id;
};

struct bpf_prog {
        struct bpf_prog_aux *aux;
};

struct perf_event {
        struct list_head event_entry;
        struct bpf_prog *prog;
};

struct perf_event_context {
        struct list_head event_list;
};

/* Its numbers differ by kernel, and are relocated as well. */
enum cgroup_subsys_id {
        perf_event_cgrp_id,
};

struct linux_binprm;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
        unsigned long bp;
        unsigned long ip;
        unsigned long cs;
        unsigned long sp;
};
#endif

#pragma clang attribute pop

/* The context of perf_event programs is user API and has its fixed layout (uapi/linux/bpf_perf_event.h). */
#if defined(__TARGET_ARCH_x86)

struct sample_registers {
        __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct sample_context {
        __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
        __u64 sample_period;
        __u64 addr;
};

#define CONTEXT_IS_USER(c) (((c)->cs & 3) != 0)
#define CONTEXT_IP(c) ((c)->ip)
#define CONTEXT_SP(c) ((c)->sp)
#define CONTEXT_FP(c) ((c)->bp)
/* USER32_CS of arch/x86/include/asm/segment.h */
#define CS_IS_COMPAT(cs) ((cs) == 0x23)
/* 47 bits; addresses above need a hint to mmap() on machines with five levels, and end the walk. */
#define TASK_SIZE_MAX 0x00007ffffffff000ULL
#define USER_ADDRESS_MASK ((1ULL << 47) - 1)

#elif defined(__TARGET_ARCH_arm64)

struct user_pt_regs {
        __u64 regs[31];
        __u64 sp;
        __u64 pc;
        __u64 pstate;
};

/* bpf_task_pt_regs() gives a struct pt_regs, whose first member is a union with this one. */
struct pt_regs {
        struct user_pt_regs user_regs;
        __s32 syscallno; /* below 0: not in a system call */
} __attribute__((preserve_access_index));

struct sample_context {
        struct user_pt_regs regs;
        __u64 sample_period;
        __u64 addr;
};

#define CONTEXT_IS_USER(c) (((c)->regs.pstate & 0xf) == 0)
#define CONTEXT_IP(c) ((c)->regs.pc)
#define CONTEXT_SP(c) ((c)->regs.sp)
#define CONTEXT_FP(c) ((c)->regs.regs[29])
#define TASK_SIZE_MAX 0x0001000000000000ULL
#define USER_ADDRESS_MASK ((1ULL << 48) - 1)

#else
#error "only x86-64 and aarch64 are known"
#endif

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
