/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The access rule: may the client of this session see this task?
 *
 * It is the DAC and capability part of the kernel's own __ptrace_may_access() with
 * PTRACE_MODE_READ (kernel/ptrace.c) and of cap_capable() and cap_ptrace_access_check()
 * (security/commoncap.c), evaluated for the identity that was frozen at HELLO. Evaluated at every
 * sample and for every record about a task, since a task's credentials change under way.
 *
 * A read that fails leaves zero, and zero is root's uid, the empty capability set and the initial
 * level: so every read is checked, and a failed one denies.
 *
 * Each condition has a number; RINGSIDE_RULE_MUTANT leaves one out, and tests/access shows that it
 * then lets something through which the kernel would not. No number is given to what other
 * conditions imply: kernel threads are root's and have no memory of their own, reads through a
 * missing mm fail, and the initial user namespace has no parent whatever the levels say.
 *
 * A session that profile-system was granted to asks for nothing but the numbers (condition 4): it
 * sees every task of the client's pid namespace, whosever it is, kernel threads included. Idle tasks have no
 * number anywhere (idle.h).
 *
 * The parts are global functions, which the verifier checks once each; it wants plain numbers as
 * their arguments, so tasks and namespaces are passed as addresses that only checked reads follow.
 *
 * A checked read is a call, and these calls were a third of what a sample costs. So samples ask by functions of their
 * own, compiled from the same source: what the current task holds, as it does all of this, cannot be gone while it is
 * interrupted, and is read by plain instructions, from pointers that the verifier knows. They leave zero should they fail
 * after all, which hides, but for two: the empty capability set is read with a check there, too, and root's
 * uid stands in the same struct.
 */

#include "kernel.h"

#include "control.h"
#include "repeat.h"

/* Set once, at HELLO, before anything is attached. */
struct rs_identity identity = {};

/* Set before the programs are loaded: RS_GRANT_SYSTEM. */
const volatile bool sees_everybody = false;

#ifndef RINGSIDE_RULE_MUTANT
#define RINGSIDE_RULE_MUTANT 0
#endif
#define RULE_SKIPS(n) (RINGSIDE_RULE_MUTANT == (n))
#define RULE_UID 1
#define RULE_EUID 2
#define RULE_SUID 3
#define RULE_GID 4
#define RULE_DUMPABLE 5
#define RULE_USER_NS 6
#define RULE_CAPABILITIES 7
#define RULE_PID_NS 8
#define RULE_EGID 9
#define RULE_SGID 10
#define RULE_MM_OWNER 11 /* the memory's user namespace is asked for on its own */
#define RULE_REAL_CRED 12
#define RULE_NS_OWNER 13
#define RULE_NS_PARENT 14
#define RULE_PID_NS_SAME 15 /* of all pid namespaces of one level */

/* True on failure. */
#define READ_FAILS(dst, field) (bpf_core_read(&(dst), sizeof(dst), &(field)) != 0)

/* The same; with `current`, of what the current task holds, by a pointer that the verifier knows: without a call. */
#define READ_OF_FAILS(current, dst, field) ((current) ? ((dst) = (field), false) : READ_FAILS(dst, field))

/* A pointer the verifier knows as one, as a plain number. */
static __always_inline __u64 address_of(const void *pointer) {
        __u64 address = 0;

        bpf_probe_read_kernel(&address, sizeof(address), &pointer);
        return address;
}

/* False on failure. */
static __always_inline bool namespace_read(struct rs_namespace *ret, struct ns_common *ns, bool current) {
        ret->id = 0;
        if (bpf_core_field_exists(ns->ns_id) && READ_OF_FAILS(current, ret->id, ns->ns_id))
                return false;
        return !READ_OF_FAILS(current, ret->inum, ns->inum);
}

static __always_inline bool namespace_is(struct ns_common *ns, const struct rs_namespace *wanted, bool current) {
        struct rs_namespace n;

        return namespace_read(&n, ns, current) && n.inum != 0 && n.inum == wanted->inum && n.id == wanted->id;
}

#define OWNS_NO 0
#define OWNS_YES 1

/* One level of rule_owns(): OWNS_NO, OWNS_YES, or the address of the parent to go on with. */
__noinline __u64 rule_owns_level(__u64 address) {
        struct user_namespace *ns = (void *) address, *parent;
        kuid_t owner;
        int level;

        if (namespace_is(&ns->ns, &identity.user_ns, false))
                return (identity.caps >> CAP_SYS_PTRACE) & 1 ? OWNS_YES : OWNS_NO;
        if (READ_FAILS(level, ns->level) || level <= (int) identity.user_ns.level)
                return OWNS_NO;
        if (READ_FAILS(parent, ns->parent) || !parent)
                return OWNS_NO;
        if ((RULE_SKIPS(RULE_NS_PARENT) || namespace_is(&parent->ns, &identity.user_ns, false)) &&
            !READ_FAILS(owner, ns->owner) && (RULE_SKIPS(RULE_NS_OWNER) || owner.val == identity.uid))
                return OWNS_YES;
        return (__u64) parent;
}

static long rule_owns_turn(__u32 i, void *context) {
        __u64 *address = context;

        *address = rule_owns_level(*address);
        return *address == OWNS_NO || *address == OWNS_YES ? TURN_IS_LAST : TURN_GOES_ON;
}

/*
 * cap_capable() for CAP_SYS_PTRACE in a user namespace: the client holds it in its own namespace
 * (direct mode only), or its user owns a child of its own namespace that is this one or above it.
 */
__noinline int rule_owns(__u64 address) {
        repeat(USER_NS_DEPTH_MAX, rule_owns_turn, &address);
        return address == OWNS_YES;
}

static __always_inline bool rule_same_ids(const struct cred *cred, const struct rs_identity *client, bool current) {
        kuid_t uid, euid, suid;
        kgid_t gid, egid, sgid;

        if (READ_OF_FAILS(current, uid.val, cred->uid.val) || READ_OF_FAILS(current, euid.val, cred->euid.val) ||
            READ_OF_FAILS(current, suid.val, cred->suid.val) || READ_OF_FAILS(current, gid.val, cred->gid.val) ||
            READ_OF_FAILS(current, egid.val, cred->egid.val) || READ_OF_FAILS(current, sgid.val, cred->sgid.val))
                return false;
        if (!RULE_SKIPS(RULE_UID) && uid.val != client->uid)
                return false;
        if (!RULE_SKIPS(RULE_EUID) && euid.val != client->uid)
                return false;
        if (!RULE_SKIPS(RULE_SUID) && suid.val != client->uid)
                return false;
        if (!RULE_SKIPS(RULE_GID) && gid.val != client->gid)
                return false;
        if (!RULE_SKIPS(RULE_EGID) && egid.val != client->gid)
                return false;
        if (!RULE_SKIPS(RULE_SGID) && sgid.val != client->gid)
                return false;
        return true;
}

/* Where it is, the memory's flags say nothing any more. */
#define HAS_EXEC_STATE bpf_core_field_exists(((struct task_struct *) 0)->exec_state)

/* NULL on failure, and before 7.2; reads through it fail then. */
static __always_inline struct task_exec_state *task_exec_state(struct task_struct *task, bool current) {
        struct task_exec_state *exec = 0;

        if (HAS_EXEC_STATE && READ_OF_FAILS(current, exec, task->exec_state))
                return 0;
        return exec;
}

/* Where exec took place, whatever namespace the task went to later. NULL on failure. */
static __always_inline struct user_namespace *rule_exec_ns(struct mm_struct *mm, struct task_exec_state *exec, bool current) {
        struct user_namespace *ns;

        if (HAS_EXEC_STATE)
                return !exec || READ_OF_FAILS(current, ns, exec->user_ns) ? 0 : ns;
        return !bpf_core_field_exists(mm->user_ns) || READ_OF_FAILS(current, ns, mm->user_ns) ? 0 : ns;
}

/* get_dumpable(mm) == SUID_DUMP_USER, or what it has become. */
static __always_inline bool rule_dumpable(struct mm_struct *mm, struct task_exec_state *exec, bool current) {
        enum task_dumpable dumpable;
        unsigned long flags = 0;

        if (HAS_EXEC_STATE)
                return exec && !READ_OF_FAILS(current, dumpable, exec->dumpable) && dumpable == TASK_DUMPABLE_OWNER;
        if (bpf_core_field_exists(((struct mm_struct___new *) 0)->flags.__mm_flags)) {
                if (READ_OF_FAILS(current, flags, ((struct mm_struct___new *) mm)->flags.__mm_flags[0]))
                        return false;
        } else if (bpf_core_field_exists(((struct mm_struct___old *) 0)->flags)) {
                if (READ_OF_FAILS(current, flags, ((struct mm_struct___old *) mm)->flags))
                        return false;
        } else
                return false; /* a layout nobody has taught us */
        return (flags & MMF_DUMPABLE_MASK) == SUID_DUMP_USER;
}

/* real_cred: what others see of the task; cred can be overridden for a while. NULL on failure. */
static __always_inline const struct cred *task_real_cred(struct task_struct *task, bool current) {
        const struct cred *cred;

        if (RULE_SKIPS(RULE_REAL_CRED) ? READ_OF_FAILS(current, cred, task->cred) : READ_OF_FAILS(current, cred, task->real_cred))
                return 0;
        return cred;
}

/* Credentials and memory: conditions 1 to 3 of the design. */
static __always_inline bool rule_may_read_task(struct task_struct *task, bool current) {
        const struct rs_identity *client = &identity;
        struct user_namespace *ns, *exec_ns;
        struct task_exec_state *exec;
        const struct cred *cred;
        struct mm_struct *mm;
        unsigned int flags;
        __u64 permitted;
        bool same;

        /* The layout that is one set of 64 capabilities, whatever it is called. */
        if (bpf_core_field_size(((struct cred *) 0)->cap_permitted) != sizeof(permitted))
                return false;
        if (READ_OF_FAILS(current, flags, task->flags) || (flags & PF_KTHREAD))
                return false;
        /* Kernel threads borrow an mm as active_mm only; a task past exit_mm has none. */
        if (READ_OF_FAILS(current, mm, task->mm) || !mm)
                return false;
        cred = task_real_cred(task, current);
        exec = task_exec_state(task, current);
        exec_ns = rule_exec_ns(mm, exec, current);
        if (!cred || READ_OF_FAILS(current, ns, cred->user_ns) || !ns || !exec_ns ||
            bpf_core_read(&permitted, sizeof(permitted), &cred->cap_permitted) != 0)
                return false;

        /* Mostly it is. Who owns a namespace takes longer to find out. */
        same = rule_same_ids(cred, client, current) &&
               (RULE_SKIPS(RULE_USER_NS) || namespace_is(&ns->ns, &client->user_ns, current)) &&
               (RULE_SKIPS(RULE_CAPABILITIES) || (permitted & ~client->caps) == 0);
        if (!same && !rule_owns(address_of(ns)))
                return false;
        return RULE_SKIPS(RULE_DUMPABLE) || rule_dumpable(mm, exec, current) ||
               rule_owns(address_of(RULE_SKIPS(RULE_MM_OWNER) ? ns : exec_ns));
}

__noinline int rule_may_read(__u64 address) {
        return rule_may_read_task((void *) address, false);
}

/* The number of a pid in a namespace, 0: it has none there. */
static __always_inline __u32 pid_number(struct pid *pid, const struct rs_namespace *wanted, bool current) {
        struct pid_namespace *ns;
        struct upid *numbers;
        unsigned int level;
        __u32 nr;

        if (READ_OF_FAILS(current, level, pid->level) || wanted->level > level || wanted->level > 32)
                return 0;
        /* Through a pointer that it knows the verifier follows no level that it does not know. */
        if (current && wanted->level == 0) {
                ns = pid->numbers[0].ns;
                nr = pid->numbers[0].nr;
                return ns && (RULE_SKIPS(RULE_PID_NS_SAME) || namespace_is(&ns->ns, wanted, true)) ? nr : 0;
        }
        numbers = current ? (void *) address_of(&pid->numbers[0]) : &pid->numbers[0];
        numbers = (void *) numbers + (__u64) wanted->level * bpf_core_type_size(struct upid);
        if (READ_FAILS(ns, numbers->ns) || !ns || READ_FAILS(nr, numbers->nr) ||
            !(RULE_SKIPS(RULE_PID_NS_SAME) || namespace_is(&ns->ns, wanted, false)))
                return 0;
        return nr;
}

static __always_inline struct pid *task_tgid(struct task_struct *task, bool current) {
        struct signal_struct *signal;
        struct pid *pid;

        if (READ_OF_FAILS(current, signal, task->signal) || !signal || READ_OF_FAILS(current, pid, signal->pids[PIDTYPE_TGID]))
                return 0;
        return pid;
}

/* Condition 4: the numbers by which the client knows the task, pid << 32 | tid; 0: it does not. */
static __always_inline __u64 rule_numbers_of(struct task_struct *task, bool current) {
        struct pid *tgid = task_tgid(task, current), *tid;
        __u32 pid_nr, tid_nr;

        if (!tgid || READ_OF_FAILS(current, tid, task->thread_pid) || !tid)
                return 0;
        pid_nr = pid_number(tgid, &identity.pid_ns, current);
        tid_nr = tid == tgid ? pid_nr : pid_number(tid, &identity.pid_ns, current);
        if (RULE_SKIPS(RULE_PID_NS) && !pid_nr &&
            (READ_FAILS(pid_nr, task->tgid) || READ_FAILS(tid_nr, task->pid)))
                return 0;
        return pid_nr && tid_nr ? (__u64) pid_nr << 32 | tid_nr : 0;
}

__noinline __u64 rule_numbers(__u64 address) {
        return rule_numbers_of((void *) address, false);
}

/* The whole rule: the task's numbers, 0: there is no such task for this client. */
static __always_inline __u64 rule_admits(__u64 task) {
        return sees_everybody || rule_may_read(task) ? rule_numbers(task) : 0;
}

__noinline __u64 rule_admits_current(void) {
        struct task_struct *task = bpf_get_current_task_btf();

        return sees_everybody || rule_may_read_task(task, true) ? rule_numbers_of(task, true) : 0;
}
