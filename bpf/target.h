/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Whose a task is: which of the session's targets, if any were named. With task-bound events these are threads and
 * processes with what they have started, and whoever is none of them has an event of ours by mistake: its number was
 * used again while the session opened it. CPU-wide events see everybody, and cgroups narrow that.
 *
 * A thread named by itself goes before its process.
 */

#include "cgroup.h"
#include "control.h"
#include "kernel.h"
#include "rule.h"
#include "tracked.h"

/* Set before the programs are loaded. */
const volatile bool targeted = false;

static __always_inline struct rs_tracked *tracked_thread(struct task_struct *task, bool current) {
        struct rs_tracked *tracked;
        __u64 start;
        __u32 tid;

        if (READ_OF_FAILS(current, tid, task->pid))
                return 0;
        tracked = tracked_find(RS_TRACKED_THREAD, tid);
        return tracked && !READ_OF_FAILS(current, start, task->start_boottime) && tracked->start == start ? tracked : 0;
}

static __always_inline struct rs_tracked *tracked_process(struct task_struct *task, bool current) {
        struct rs_tracked *tracked;
        struct task_struct *leader;
        __u64 start;
        __u32 tgid;

        if (READ_OF_FAILS(current, tgid, task->tgid) || READ_OF_FAILS(current, leader, task->group_leader) || !leader)
                return 0;
        tracked = tracked_find(RS_TRACKED_PROCESS, tgid);
        return tracked && !READ_OF_FAILS(current, start, leader->start_boottime) && tracked->start == start ? tracked : 0;
}

static __always_inline int target_of_task(struct task_struct *task, bool current) {
        struct rs_tracked *tracked;

        if (!targeted)
                return cgroup_target(task);
        tracked = tracked_thread(task, current);
        if (!tracked)
                tracked = tracked_process(task, current);
        return tracked && tracked->target > 0 ? (int) (tracked->target & RS_SAMPLE_TARGET_MASK) : -1;
}

/* The number of a task's target, 0: none was named, below 0: the task belongs to none of them. */
__noinline int target_of(__u64 address) {
        return target_of_task((void *) address, false);
}

__noinline int target_of_current(void) {
        return target_of_task(bpf_get_current_task_btf(), true);
}

/* Outside START and STOP targets are followed, it is noted who becomes another program, and nothing is told. */
static __always_inline bool is_told(void) {
        const struct rs_tracked *telling = tracked_find(RS_TRACKED_TELLING, 0);

        return telling && telling->target;
}

/*
 * What is started by something that is followed is followed as well. Its events it has inherited. False: it should be,
 * and is not.
 */
static __always_inline bool tracked_inherit(struct task_struct *parent, struct task_struct *child) {
        struct rs_tracked *thread, *tracked;
        __u32 parent_tgid, tgid, tid;
        __u64 start;

        if (!targeted || READ_FAILS(parent_tgid, parent->tgid) || READ_FAILS(tgid, child->tgid) ||
            READ_FAILS(tid, child->pid) || READ_FAILS(start, child->start_boottime))
                return true;
        thread = tracked_thread(parent, false);
        tracked = thread ? thread : tracked_process(parent, false);
        if (!tracked || !tracked->follow)
                return true;
        if (tgid != parent_tgid)
                return tracked_add(RS_TRACKED_PROCESS, tgid, start, tracked);
        return !thread || tracked_add(RS_TRACKED_THREAD, tid, start, tracked);
}

/* At an exec a thread takes over the number and the start of its process's leader. */
static __always_inline void tracked_exec(struct task_struct *task, __u32 old_tid) {
        struct rs_tracked *tracked, copy;
        __u64 start;
        __u32 tid;

        if (!targeted || READ_FAILS(tid, task->pid) || tid == old_tid || READ_FAILS(start, task->start_boottime))
                return;
        tracked = tracked_find(RS_TRACKED_THREAD, old_tid);
        if (!tracked)
                return;
        /* In its place, for there may be no other. */
        copy = *tracked;
        tracked_remove(RS_TRACKED_THREAD, old_tid);
        tracked_add(RS_TRACKED_THREAD, tid, start, &copy);
}

/* Whoever gets the number next must not inherit. */
static __always_inline void tracked_exit(struct task_struct *task, bool last) {
        __u32 tgid, tid;

        if (!targeted || READ_FAILS(tid, task->pid) || READ_FAILS(tgid, task->tgid))
                return;
        tracked_remove(RS_TRACKED_THREAD, tid);
        if (last)
                tracked_remove(RS_TRACKED_PROCESS, tgid);
}
