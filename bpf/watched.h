/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Does a task have events of this session? Threads that are born while a process is being attached to
 * inherit their creator's events or not, depending on which came first; opening a second event on
 * one that has them would count it twice. The list may change while it is read: every step is checked
 * and their number is bounded.
 */

#include "control.h"
#include "kernel.h"
#include "repeat.h"

#define EVENTS_PER_TASK_MAX 64

/* Ids of the sampling programs, set once they are loaded. */
__u32 sampler_ids[RS_EVENTS_MAX] = {};

/* Both for the verifier: plain numbers, as rule.h says, and a function of its own, checked once and not per event. */
__noinline int event_is_ours(__u64 address) {
        struct perf_event *event = (void *) address;
        struct bpf_prog_aux *aux;
        struct bpf_prog *prog;
        __u32 id;

        if (READ_FAILS(prog, event->prog) || !prog || READ_FAILS(aux, prog->aux) || !aux || READ_FAILS(id, aux->id))
                return false;
        for (int i = 0; i < RS_EVENTS_MAX; i++)
                if (id != 0 && sampler_ids[i] == id)
                        return true;
        return false;
}

struct event_search {
        __u64 head, at; /* struct list_head */
        bool found;
};

static long watched_turn(__u32 i, void *context) {
        struct event_search *search = context;
        struct list_head *at = (void *) search->at;

        if (search->at == 0 || search->at == search->head)
                return TURN_IS_LAST;
        search->found = event_is_ours(search->at - bpf_core_field_offset(struct perf_event, event_entry));
        return search->found || READ_FAILS(search->at, at->next) ? TURN_IS_LAST : TURN_GOES_ON;
}

__noinline int context_is_watched(__u64 address) {
        struct perf_event_context *context = (void *) address;
        struct list_head *head = __builtin_preserve_access_index(&context->event_list);
        struct event_search search = {.head = (__u64) head};

        if (READ_FAILS(search.at, head->next))
                return false;
        repeat(EVENTS_PER_TASK_MAX, watched_turn, &search);
        return search.found;
}

static __always_inline bool task_is_watched(struct task_struct *task) {
        struct perf_event_context *context;

        if (bpf_core_field_exists(task->perf_event_ctxp))
                return !READ_FAILS(context, task->perf_event_ctxp) && context && context_is_watched((__u64) context);
        for (int i = 0; i < 2; i++)
                if (!READ_FAILS(context, ((struct task_struct___before_6_2 *) task)->perf_event_ctxp[i]) && context &&
                    context_is_watched((__u64) context))
                        return true;
        return false;
}
