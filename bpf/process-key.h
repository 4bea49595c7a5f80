/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* What tells a process from all others, and what the client knows of it. */

#include "kernel.h"

#include "rule.h"
#include "walk.h"

/* Set before the programs are loaded. */
const volatile __u64 session_key = 0; /* of the stack ids; random */

struct process_key {
        __u64 key; /* never 0 */
        __u64 start;
};

/*
 * Tells a process from a later one with the same number, which may be somebody else's; not from itself
 * after exec. Its start is its leader's, whichever thread this is.
 */
static __always_inline bool process_key_read(struct process_key *ret, struct task_struct *task) {
        struct task_struct *leader;
        __u32 tgid;

        if (READ_FAILS(tgid, task->tgid) || READ_FAILS(leader, task->group_leader) || !leader ||
            READ_FAILS(ret->start, leader->start_boottime))
                return false;
        ret->key = hash_step(hash_step(session_key, tgid), ret->start) | 1;
        return true;
}
