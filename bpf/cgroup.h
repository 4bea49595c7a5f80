/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Which of the cgroups that a session was told of a task is in: the deepest, by its own cgroup and those above it.
 * The way up is that of the subsystem states, which has been the same in every kernel and in both versions of
 * cgroups; a cgroup's list of ancestors has not.
 */

#include "control.h"
#include "kernel.h"
#include "repeat.h"
#include "rule.h"
#include "tracked.h"

/* Further up is not looked: then the task is in none. */
#define CGROUP_DEPTH_MAX 64

struct cgroup_search {
        __u64 css;
        __u32 kind;
        int target; /* 0: none so far */
};

static long cgroup_turn(__u32 i, void *context) {
        struct cgroup_search *search = context;
        struct cgroup_subsys_state *css = (void *) search->css, *parent;
        struct rs_tracked *tracked;
        struct kernfs_node *node;
        struct cgroup *cgroup;
        __u64 id;

        if (READ_FAILS(cgroup, css->cgroup) || !cgroup || READ_FAILS(node, cgroup->kn) || !node || READ_FAILS(id, node->id))
                return TURN_IS_LAST;
        tracked = tracked_find(search->kind, id);
        if (tracked) {
                search->target = tracked->target & RS_SAMPLE_TARGET_MASK;
                return TURN_IS_LAST;
        }
        if (READ_FAILS(parent, css->parent) || !parent)
                return TURN_IS_LAST;
        search->css = (__u64) parent;
        return TURN_GOES_ON;
}

/* The target, 0: none. For the verifier a function of its own, and a plain number (rule.h says why). */
__noinline int cgroup_target_above(__u64 address, __u32 kind) {
        struct cgroup_search search = {.css = address, .kind = kind};

        if (address != 0)
                repeat(CGROUP_DEPTH_MAX, cgroup_turn, &search);
        return search.target;
}

static __always_inline int cgroup_target_v1(struct css_set *set) {
        struct cgroup_subsys_state **css = &set->subsys[0], *perf;

        if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, perf_event_cgrp_id))
                return 0;
        css += bpf_core_enum_value(enum cgroup_subsys_id, perf_event_cgrp_id);
        if (bpf_probe_read_kernel(&perf, sizeof(perf), css) != 0)
                return 0;
        return cgroup_target_above((__u64) perf, RS_TRACKED_CGROUP_V1);
}

static __always_inline bool cgroup_is_named(__u32 kind) {
        bool named = tracked_find(kind, 0);

        /* Else two pointers are merged to one test, which the verifier forbids. */
        barrier_var(named);
        return named;
}

/* The target, 0: no cgroup was named, below 0: the task is in none of them. */
static __always_inline int cgroup_target(struct task_struct *task) {
        bool v2 = cgroup_is_named(RS_TRACKED_CGROUP), v1 = cgroup_is_named(RS_TRACKED_CGROUP_V1);
        struct cgroup *cgroup;
        struct css_set *set;
        int target = 0;

        if (!v1 && !v2)
                return 0;
        if (READ_FAILS(set, task->cgroups) || !set)
                return -1;
        if (v2 && !READ_FAILS(cgroup, set->dfl_cgrp) && cgroup)
                target = cgroup_target_above((__u64) &cgroup->self, RS_TRACKED_CGROUP);
        if (v1 && target == 0)
                target = cgroup_target_v1(set);
        return target > 0 ? target : -1;
}
