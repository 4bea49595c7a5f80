/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Interrupt work on an idle CPU: softirqs, network and timers mostly, which the kernel does between two sleeps in
 * the name of a task that has no number and is nobody's. It is told in a session that sees everybody, from
 * the initial pid namespace, where CPUs belong; a CPU that merely sleeps never is.
 *
 * Such work runs on a stack of the CPU's own, while the idle task's stack waits. With PREEMPT_RT threads do most of it.
 *
 * The timer of cpu-clock comes only where interrupts are let in, which is in softirqs. The interrupt of a counter may be
 * an NMI on x86, and then this is any interrupt's work. The CPU's preempt_count would tell softirqs from others, but is a
 * variable, in one place or another by version; it can be had only where kallsyms lists variables, and where it does not a
 * program that names it is not loaded. Whether interrupts were let in does not tell: softirqs keep them out now and then.
 * So it is the client that names both alike, by the event.
 */

#include "rule.h"

static __always_inline bool idle_is_interrupted(struct task_struct *task, struct sample_context *ctx) {
        __u64 stack, sp = CONTEXT_SP(ctx), top;
        int pid;

        /* The initial namespace is the only one of its level. */
        if (!sees_everybody || identity.pid_ns.level != 0 || CONTEXT_IS_USER(ctx) || READ_FAILS(pid, task->pid) ||
            pid != 0 || READ_FAILS(stack, task->stack))
                return false;
        top = address_of((void *) bpf_task_pt_regs(task));
        return sp < stack || sp > top;
}
