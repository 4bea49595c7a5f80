/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The programs of one session: a sampler on every perf event, four on process events, and an
 * iterator that describes single tasks to the session.
 *
 * Each begins with the access rule (rule.h). Nothing is reserved in the ring before it has passed
 * and every frame is what may be told, since the client watches the ring's pages live.
 *
 * Samplers run in hardware interrupts or NMIs: they look hashes up but never update them, since a
 * hash's bucket lock may be held by the very code that was interrupted. What samplers write is plain
 * arrays, racy on purpose: the worst of a lost race is a record that is sent twice.
 */

#include "kernel.h"

#include "control.h"
#include "idle.h"
#include "kernel-stack.h"
#include "mapping-list.h"
#include "mapping.h"
#include "process-key.h"
#include "output.h"
#include "rate.h"
#include "rule.h"
#include "target.h"
#include "unwind.h"
#include "walk.h"
#include "watched.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before the programs are loaded. */
const volatile __u32 max_frames = 127;
const volatile bool weighted[RS_EVENTS_MAX] = {};

/* Set once, at HELLO, as the identity is. */
struct rs_namespace helper_pid_ns = {};

/*
 * With targets, in units of each event: what it has counted of tasks that the rule hides, or that are no target, since
 * there was no room to follow them. The events themselves cannot be told whom to leave out, and their counts are told; so
 * the session, the only one to see this, takes it off.
 */
__u64 hidden_count[RS_EVENTS_MAX] = {};

/*
 * Which stacks are in the ring already: the slot's id, by 16 of the id's bits. In their place stands of which state of the
 * address space the mappings of all its callers are known, 0: of none.
 */
#define SENT_SHIFT 32
#define SENT_MASK ((__u64) (RS_SENT_SLOTS - 1) << SENT_SHIFT)
_Static_assert(RS_SENT_SLOTS == 1 << 16, "as many bits as mapping_state() has");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, RS_SENT_SLOTS);
        __type(key, __u32);
        __type(value, __u64);
} rs_sent SEC(".maps");

/* Which processes the client knows of, by key; by its complement, where one has become another program untold. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, RS_ANNOUNCED_SLOTS);
        __type(key, __u32);
        __type(value, __u64);
} rs_announced SEC(".maps");

/* ---- processes ---- */

static __always_inline __u64 announced_get(const struct process_key *p) {
        __u32 slot = p->key >> 32 & (RS_ANNOUNCED_SLOTS - 1);
        __u64 *known = bpf_map_lookup_elem(&rs_announced, &slot);

        return known ? *known : 0;
}

/* As what it is, or was. */
static __always_inline bool announced_has(const struct process_key *p) {
        __u64 known = announced_get(p);

        return known == p->key || known == ~p->key;
}

static __always_inline void announced_set(const struct process_key *p, __u64 known) {
        __u32 slot = p->key >> 32 & (RS_ANNOUNCED_SLOTS - 1);
        __u64 *value = bpf_map_lookup_elem(&rs_announced, &slot);

        if (value)
                *value = known;
}

/* Copies a complete record; used where the program may be preempted between reserve and submit. */
static __always_inline void process_emit(struct rs_process *p, enum rs_process_kind kind, bool wakeup) {
        struct rs_counters *c = counters_get();

        if (!c)
                return;
        p->r.type = RS_RECORD_PROCESS;
        p->r.event = kind;
        p->r.len = sizeof(*p);
        p->r.cpu = bpf_get_smp_processor_id();
        p->time = bpf_ktime_get_boot_ns();
        if (bpf_ringbuf_output(&rs_ring, p, sizeof(*p), wakeup ? BPF_RB_FORCE_WAKEUP : ring_wakeup(c, sizeof(*p))) ==
            0)
                __sync_fetch_and_add(&c->processes, 1);
        else
                __sync_fetch_and_add(&c->processes_lost, 1);
}

/* What the process is called where it lives, which getpid() tells it. 0 on failure. */
static __always_inline __u32 process_inner_pid(struct task_struct *task) {
        struct pid *tgid = task_tgid(task, false);
        struct upid *numbers;
        unsigned int level;
        __u32 nr;

        if (!tgid || READ_FAILS(level, tgid->level) || level > 32)
                return 0;
        numbers = (void *) &tgid->numbers[0];
        numbers = (void *) numbers + (__u64) level * bpf_core_type_size(struct upid);
        return READ_FAILS(nr, numbers->nr) ? 0 : nr;
}

static __always_inline bool process_fill(struct rs_process *p, struct task_struct *task, __u64 start) {
        struct task_struct *parent;
        unsigned int flags;

        p->start = start;
        if (bpf_core_read(&p->comm, sizeof(p->comm), &task->comm) != 0 || READ_FAILS(flags, task->flags))
                return false;
        p->r.flags = flags & PF_KTHREAD ? RS_PROCESS_KERNEL : 0;
        p->inner_pid = process_inner_pid(task);
        if (p->inner_pid == p->pid)
                p->inner_pid = 0;
        if (!READ_FAILS(parent, task->real_parent) && parent)
                p->ppid = rule_admits((__u64) parent) >> 32;
        if (LEAKS(LEAK_SPLIT)) {
                p->inner_pid = address_of(task) >> 32;
                p->tid = address_of(task);
                p->ppid = (__u64) BPF_CORE_READ(task, signal);
        }
        return true;
}

/*
 * An exec gives the task its new name before its new credentials: the client may see who it was, but not yet
 * what it will be.
 */
static __always_inline bool task_in_exec(struct task_struct *task) {
        return !bpf_core_field_exists(task->in_execve) || BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/*
 * And until its end the registers are those of the program before, which may have been hidden. A kernel without the
 * bit is not treated as always in an exec here: no user stack would be left at all.
 */
static __always_inline bool task_has_old_registers(struct task_struct *current) {
        return bpf_core_field_exists(current->in_execve) && BPF_CORE_READ_BITFIELD(current, in_execve);
}

/*
 * Whether the registers are a user's, and user memory is the task's own. Kernel threads borrow a memory, and so
 * does whoever has given up its own at exit; workers run in the kernel for a process, and never its code.
 */
static __always_inline bool task_has_user(struct task_struct *current) {
        return !(current->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)) && current->mm &&
               !task_has_old_registers(current);
}

/* False where the rule hides the task. */
static __always_inline bool process_admit(struct rs_process *p, __u64 numbers) {
        p->pid = numbers >> 32;
        p->tid = numbers;
        return numbers != 0;
}

/*
 * Whom the client can read about in /proc, at once, for it may be short-lived. To be woken costs as much as a hundred
 * samples: where nothing can be read, what the samples bring has to do.
 */
static __always_inline bool client_can_look(struct task_struct *task) {
        return !sees_everybody || rule_may_read(address_of(task));
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child) {
        struct rs_process p = {};
        struct process_key key;
        struct rs_counters *c;

        if (!tracked_inherit(parent, child) && rule_admits(address_of(child)) && (c = counters_get()))
                __sync_fetch_and_add(&c->untracked, 1);
        if (!is_told())
                return 0;
        if (target_of(address_of(child)) < 0 || !process_admit(&p, rule_admits(address_of(child))) || !process_key_read(&key, child, false) ||
            !process_fill(&p, child, key.start))
                return 0;
        if (p.pid == p.tid)
                announced_set(&key, key.key);
        /* Until the client has looked, walks cannot read the code of a child, which is not its own before it ran. */
        process_emit(&p, RS_PROCESS_FORK, has_tables && p.pid == p.tid && client_can_look(child));
        return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm) {
        struct rs_process p = {};
        struct process_key key;

        tracked_exec(task, old_pid);
        if (!process_key_read(&key, task, false))
                return 0;
        if (!is_told()) {
                /* What it is now is told with its first sample. */
                if (announced_has(&key) && process_admit(&p, rule_numbers(address_of(task)))) {
                        table_forget_process(p.pid, key.start);
                        announced_set(&key, ~key.key);
                }
                return 0;
        }
        if (target_of(address_of(task)) >= 0 && process_admit(&p, rule_admits(address_of(task)))) {
                table_forget_process(p.pid, key.start);
                if (!process_fill(&p, task, key.start))
                        return 0;
                announced_set(&key, key.key);
                process_emit(&p, RS_PROCESS_EXEC, client_can_look(task));
        } else if (announced_has(&key) && process_admit(&p, rule_numbers(address_of(task)))) {
                /* It was in view and no longer is: that, and not one word about what it is now. */
                table_forget_process(p.pid, key.start);
                p.start = key.start;
                announced_set(&key, 0);
                process_emit(&p, RS_PROCESS_GONE, false);
        }
        return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm) {
        struct rs_process p = {};
        struct process_key key;

        /* EXEC tells the name that an exec gave. */
        if (task_in_exec(task) || target_of(address_of(task)) < 0 || !process_key_read(&key, task, false) || announced_get(&key) != key.key ||
            !process_admit(&p, rule_admits(address_of(task))))
                return 0;
        p.start = key.start;
        if (bpf_probe_read_kernel_str(p.comm, sizeof(p.comm), comm) < 0)
                return 0;
        process_emit(&p, RS_PROCESS_COMM, false);
        return 0;
}

/*
 * Before 6.16 this runs after exit_mm(), where the rule cannot hold any more: what counts is that the
 * process was in view, and the record says nothing but that it is over.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task) {
        struct signal_struct *signal;
        struct rs_process p = {};
        struct process_key key;
        int live;

        if (READ_FAILS(signal, task->signal) || !signal || READ_FAILS(live, signal->live.counter))
                return 0;
        tracked_exit(task, live == 0);
        if (live != 0 || !process_key_read(&key, task, false) || !announced_has(&key))
                return 0;
        announced_set(&key, 0);
        if (!is_told() || !process_admit(&p, rule_numbers(address_of(task))))
                return 0;
        p.start = key.start;
        p.tid = p.pid;
        process_emit(&p, RS_PROCESS_EXIT, false);
        return 0;
}

/* First sample of a process that was there before the session, or of what one has become after STOP. */
static __always_inline void announce(const struct process_key *key, struct task_struct *task, __u32 pid, __u32 tid) {
        struct rs_process p = {.pid = pid, .tid = tid};
        __u64 known = announced_get(key);

        if (known == key->key || !process_fill(&p, task, key->start))
                return;
        if (task_in_exec(task))
                __builtin_memset(p.comm, 0, sizeof(p.comm));
        announced_set(key, key->key);
        process_emit(&p, known == ~key->key ? RS_PROCESS_EXEC : RS_PROCESS_SEEN, client_can_look(task));
}

/* ---- samples ---- */

/* Puts the registers the walk starts from into the scratch, and the leaf or the entry into the kernel. */
static __always_inline __u64 walk_prepare(struct scratch *s, struct sample_context *ctx, struct task_struct *task,
                                          __u16 *flags) {
        __u64 ip, fp;

        if (CONTEXT_IS_USER(ctx)) {
#if defined(__TARGET_ARCH_x86)
                if (CS_IS_COMPAT(ctx->cs)) {
                        s->walk.end = RS_WALK_COMPAT;
                        return ctx->ip;
                }
#endif
                s->walk.fp = CONTEXT_FP(ctx);
                return CONTEXT_IP(ctx);
        }

        *flags |= RS_SAMPLE_KERNEL_MODE;
        struct pt_regs *regs = (void *) bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
        ip = regs->ip;
        fp = regs->bp;
        if (CS_IS_COMPAT(regs->cs)) {
                s->walk.end = RS_WALK_COMPAT;
                return RS_FRAME_KERNEL;
        }
#else
        if (READ_FAILS(ip, regs->user_regs.pc) || READ_FAILS(fp, regs->user_regs.regs[29]))
                return RS_FRAME_KERNEL;
#endif
        /* A task that has not been to user space yet has no registers of it. */
        if (ip == 0 || ip >= TASK_SIZE_MAX) {
                *flags |= RS_SAMPLE_NO_USER;
                return RS_FRAME_KERNEL;
        }
        walk_push(s, ip);
        s->walk.fp = fp;
        return RS_FRAME_KERNEL;
}

#define STACK_NEW 0
#define STACK_SENT 1
#define STACK_CHECKED 2 /* and the mappings of its callers, in this state of the address space */

/* What the client has of the stack in the scratch, and its id, 0: it has no frames. */
__noinline int stack_look(__u32 state) {
        struct scratch *s = scratch_get();
        __u64 id, *sent;
        __u32 slot;

        if (!s)
                return STACK_CHECKED;
        s->walk.id = 0;
        if (s->walk.n == 0)
                return STACK_CHECKED;
        id = s->walk.id = hash_end(&s->walk.hash);
        slot = id >> SENT_SHIFT & (RS_SENT_SLOTS - 1);
        sent = bpf_map_lookup_elem(&rs_sent, &slot);
        if (!sent)
                return STACK_NEW;
        if (*sent == ((id & ~SENT_MASK) | (__u64) state << SENT_SHIFT))
                return STACK_CHECKED;
        return ((*sent ^ id) & ~SENT_MASK) == 0 ? STACK_SENT : STACK_NEW;
}

/* LEAK_MEMORIES. 0: the counters have it no more. */
static __always_inline void leak_beside(struct rs_counters *c, __u64 address) {
        volatile __u64 *p = (volatile __u64 *) table_at(RS_TABLE_HEAP_AT, sizeof(*p));

        *(volatile __u64 *) &c->pad[0] = address;
        if (p && address != 0)
                *p = address;
}

/* The id of the callers, sent if the client has not got them; false: the ring was full. */
static __always_inline bool stack_send(struct scratch *s, struct rs_counters *c, __u32 pid, __u16 state) {
        int look = stack_look(state);
        struct rs_stack *stack;
        __u64 id, *sent;
        __u32 n, slot, size;

        s->walk.check = look != STACK_CHECKED;
        if (look != STACK_NEW)
                return true;

        id = s->walk.id;
        n = s->walk.n;
        if (n > RS_FRAMES_MAX)
                n = RS_FRAMES_MAX;
        stack = (void *) s->stack;
        size = sizeof(*stack) + n * 8;
        stack->r.type = RS_RECORD_STACK;
        stack->r.len = size;
        stack->r.cpu = bpf_get_smp_processor_id();
        stack->r.flags = has_tables && s->unwind.guessed_at < n ? RS_STACK_GUESSED : 0;
        stack->id = id;
        stack->pid = pid;
        stack->nr_kernel = s->walk.nr_kernel;
        stack->nr_user = n - s->walk.nr_kernel;
        if (bpf_ringbuf_output(&rs_ring, stack, size, ring_wakeup(c, size)) != 0) {
                c->stacks_lost++;
                return false;
        }
        c->stacks++;
        slot = id >> SENT_SHIFT & (RS_SENT_SLOTS - 1);
        sent = bpf_map_lookup_elem(&rs_sent, &slot);
        if (sent)
                *sent = id & ~SENT_MASK;
        return true;
}

/* The mappings of all its callers are known. */
static __always_inline void stack_checked(__u64 id, __u16 state) {
        __u32 slot = id >> SENT_SHIFT & (RS_SENT_SLOTS - 1);
        __u64 *sent = bpf_map_lookup_elem(&rs_sent, &slot);

        if (sent && ((*sent ^ id) & ~SENT_MASK) == 0)
                *sent = (id & ~SENT_MASK) | (__u64) state << SENT_SHIFT;
}

static __always_inline bool sample_send(struct rs_counters *c, struct rs_wsample *sample, bool with_weight, __u64 weight) {
        __u32 size = with_weight ? sizeof(*sample) : sizeof(sample->s);

        sample->s.r.type = with_weight ? RS_RECORD_WSAMPLE : RS_RECORD_SAMPLE;
        sample->s.r.len = size;
        sample->weight = weight;
        return bpf_ringbuf_output(&rs_ring, sample, size, ring_wakeup(c, size)) == 0;
}

static __always_inline int sample_take(struct sample_context *ctx, __u32 event) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct rs_sample *sample;
        struct process_key process;
        __u32 tgid;
        int target;
        struct rs_counters *c;
        struct scratch *s;
        __u64 exec_id, numbers;
        __u32 rate;
        __u16 state;
        bool sent;

        numbers = rule_admits_current();
        if (!numbers) {
                if (targeted)
                        __sync_fetch_and_add(&hidden_count[event], ctx->sample_period);
                if (!idle_is_interrupted(task, ctx))
                        return 0;
        }
        target = target_of_current();
        if (targeted && numbers && target < 0)
                __sync_fetch_and_add(&hidden_count[event], ctx->sample_period);
        c = counters_get();
        s = scratch_get();
        if (target < 0 || !c || !s)
                return 0;
        rate = rate_get(event);
        if (!rate_takes(s, event, rate))
                return 0;
        c->taken++;
        sample = &s->sample.s;
        sample->r.flags = numbers ? 0 : RS_SAMPLE_IDLE;
        sample->pid = numbers >> 32;
        sample->tid = numbers;
        if (!process_key_read(&process, task, true)) {
                c->lost++;
                return 0;
        }
        if (numbers)
                announce(&process, task, sample->pid, sample->tid);

        s->walk.n = 0;
        s->walk.max = max_frames < RS_FRAMES_MAX ? max_frames : RS_FRAMES_MAX;
        s->walk.end = RS_WALK_NONE;
        s->walk.fp = 0;
        s->walk.proves = false;
        tgid = task->tgid;
        exec_id = task->self_exec_id;
        if (has_tables) {
                s->unwind.used = false;
                s->unwind.guessed_at = NOT_GUESSED;
                s->unwind.key = mapped_mix(process.key, exec_id);
        }
        sample->time = bpf_ktime_get_boot_ns();
        state = mapping_begin(task, sample, &process, exec_id);
        hash_begin(&s->walk.hash);
        hash_add(&s->walk.hash, tgid);
        hash_add(&s->walk.hash, exec_id);
        kernel_walk(s, ctx);

        if (!task_has_user(task)) {
                sample->r.flags |= RS_SAMPLE_KERNEL_MODE | RS_SAMPLE_NO_USER;
                sample->leaf = RS_FRAME_KERNEL;
        } else {
                sample->leaf = walk_prepare(s, ctx, task, &sample->r.flags);
                if (s->walk.end == RS_WALK_NONE && !(sample->r.flags & RS_SAMPLE_NO_USER)) {
                        if (unwind_may(task))
                                unwind_walk(s, ctx, task, sample->pid, process.start);
                        else
                                walk_frame_pointers(s);
                }
        }
        if (sample->leaf == RS_FRAME_KERNEL)
                sample->leaf = s->walk.kernel_leaf;
        else if (sample->leaf >= TASK_SIZE_MAX)
                sample->leaf = 0;
        sample->r.flags |= (target & RS_SAMPLE_TARGET_MASK) << RS_SAMPLE_TARGET_SHIFT;
        if (LEAKS(LEAK_HALVES) && !CONTEXT_IS_USER(ctx))
                sample->tid = CONTEXT_IP(ctx);
        if (LEAKS(LEAK_ELSEWHERE) && CONTEXT_IS_USER(ctx))
                sample->tid = leak_last();
        sample->r.event = event;
        sample->r.cpu = bpf_get_smp_processor_id();
        if (LEAKS(LEAK_MEMORIES) && !CONTEXT_IS_USER(ctx))
                leak_beside(c, CONTEXT_IP(ctx));
        sent = stack_send(s, c, sample->pid, state);
        if (LEAKS(LEAK_MEMORIES))
                leak_beside(c, 0);
        sample->stack = s->walk.id;
        sample->r.flags |= (s->walk.end & RS_WALK_END_MASK) << RS_WALK_END_SHIFT;
        c->walk_end[s->walk.end & RS_WALK_END_MASK]++;
        if (!sent) {
                c->lost++;
                return 0;
        }
        if (mapping_report(sample->leaf, s->walk.check) && s->walk.check)
                stack_checked(sample->stack, state);
        if (sample_send(c, &s->sample, weighted[event] || rate < granted_rate[event],
                        ctx->sample_period * granted_rate[event] / rate))
                c->emitted++;
        else
                c->lost++;
        return 0;
}

/*
 * One program for each event, of which a session loads as many as it has. An attach cookie would do
 * with one, but events that are inherited lose theirs.
 */
#define DEFINE_SAMPLER(n)                                                                                              \
        SEC("perf_event")                                                                                              \
        int on_sample_##n(struct sample_context *ctx) {                                                                \
                const __u64 began = sample_clock();                                                                    \
                                                                                                                       \
                sample_take(ctx, n);                                                                                   \
                sample_count(began);                                                                                   \
                return 0;                                                                                              \
        }

DEFINE_SAMPLER(0)
DEFINE_SAMPLER(1)
DEFINE_SAMPLER(2)
DEFINE_SAMPLER(3)
DEFINE_SAMPLER(4)
DEFINE_SAMPLER(5)
DEFINE_SAMPLER(6)
DEFINE_SAMPLER(7)

/* ---- the session's own questions ---- */

/* kernel/locking/rwsem.c: a writer has it, or somebody waits. With PREEMPT_RT it has no such word. */
#define RWSEM_BUSY 7

static __always_inline bool mm_is_busy(struct task_struct *task) {
        struct mm_struct *mm;
        long count;

        return bpf_core_field_exists(((struct mm_struct *) 0)->mmap_lock.count.counter) && !READ_FAILS(mm, task->mm) && mm &&
               !READ_FAILS(count, mm->mmap_lock.count.counter) && (count & RWSEM_BUSY) != 0;
}

SEC("iter/task")
int describe(struct bpf_iter__task *ctx) {
        struct task_struct *task = ctx->task, *leader;
        struct rs_task_info info = {};
        struct user_namespace *ns;
        struct pid_namespace *pid_ns;
        struct pid *tgid, *tid;
        const struct cred *cred;
        struct upid *last;
        unsigned int level;
        __u64 numbers;

        if (!task)
                return 0;
        tgid = task_tgid(task, false);
        if (!tgid || READ_FAILS(tid, task->thread_pid) || !tid || READ_FAILS(cred, task->real_cred) || !cred ||
            READ_FAILS(info.identity.uid, cred->euid.val) || READ_FAILS(info.identity.gid, cred->egid.val) ||
            bpf_core_read(&info.identity.caps, sizeof(info.identity.caps), &cred->cap_effective) != 0 ||
            READ_FAILS(ns, cred->user_ns) || !ns || !namespace_read(&info.identity.user_ns, &ns->ns, false) ||
            READ_FAILS(info.identity.user_ns.level, ns->level) || READ_FAILS(level, tid->level) || level > 32)
                return 0;
        last = (void *) &tid->numbers[0] + (__u64) level * bpf_core_type_size(struct upid);
        if (READ_FAILS(pid_ns, last->ns) || !pid_ns || !namespace_read(&info.identity.pid_ns, &pid_ns->ns, false) ||
            READ_FAILS(info.start, task->start_boottime) || READ_FAILS(leader, task->group_leader) || !leader ||
            READ_FAILS(info.process_start, leader->start_boottime) || READ_FAILS(info.tgid_root, task->tgid) ||
            READ_FAILS(info.tid_root, task->pid))
                return 0;
        info.identity.pid_ns.level = level;
        info.tgid = pid_number(tgid, &helper_pid_ns, false);
        info.tid = pid_number(tid, &helper_pid_ns, false);
        numbers = rule_admits(address_of(task));
        info.admitted = numbers != 0;
        info.client_tid = numbers;
        info.watched = task_is_watched(task);
        info.ring_safe = bpf_core_field_exists(((struct bpf_ringbuf *) 0)->pending_pos);
        info.mm_busy = mm_is_busy(task);
        bpf_seq_write(ctx->meta->seq, &info, sizeof(info));
        return 0;
}
