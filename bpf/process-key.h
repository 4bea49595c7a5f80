/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/* What tells a process from all others, and what the client knows of it. */

#include "hash.h"
#include "kernel.h"
#include "rule.h"

struct process_key {
        __u64 key; /* never 0 */
        __u64 start;
};

/*
 * Tells a process from a later one with the same number, which may be somebody else's; not from itself
 * after exec. Its start is its leader's, whichever thread this is.
 */
static __always_inline bool process_key_read(struct process_key *ret, struct task_struct *task, bool current) {
        struct task_struct *leader;
        struct hash hash;
        __u32 tgid;

        if (READ_OF_FAILS(current, tgid, task->tgid) || READ_OF_FAILS(current, leader, task->group_leader) || !leader ||
            READ_OF_FAILS(current, ret->start, leader->start_boottime))
                return false;
        /* Two words, and ids of stacks are of more: none of one kind is one of the other. */
        hash_begin(&hash);
        hash_add(&hash, tgid);
        hash_add(&hash, ret->start);
        ret->key = hash_end(&hash);
        return true;
}
