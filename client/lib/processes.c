/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Records drive this, but none of them can be relied upon: the ring may have been full. A sample of a
 * process nobody announced makes one up, and a pid that is announced again replaces the old one.
 */

#include "processes.h"

#include <string.h>

#include "late-names.h"
#include "proc-file.h"
#include "util.h"

/* Processes that have ended and are still known, for samples another CPU wrote late. */
#define ENDED_MAX 256
/* Where there is not much memory left for what JITs tell: those that are at work need it more. */
#define ENDED_FEW 16
/* At once, since their last names may take a while: so they become fewer. */
#define FORGET_ENDED 2

#define NSEC_PER_MSEC 1000000ULL
#define REFRESH_MIN (10 * NSEC_PER_MSEC)
#define REFRESH_MAX (1000 * NSEC_PER_MSEC)
/* Reading mappings may take a fiftieth of the time where it seems needed, else a hundredth. */
#define REFRESH_SHARE 50
/*
 * But a program that has just begun maps its libraries one after the other, and is short-lived for all we
 * know: so many readings are made as soon as a sample lies outside, at half of the time at most. Not where one
 * takes longer than this, ns: 100,000 mappings are no program that has just begun.
 */
#define REFRESH_EAGER 16
#define REFRESH_CHEAP (5 * NSEC_PER_MSEC)

/*
 * Whom samples of interrupts' work on an idle CPU are counted for, which has number 0. A timer's interrupt finds no
 * other at work, only softirqs; a counter's may be an NMI, which finds both, and nothing tells which.
 */
#define IDLE_COMM_TIMER "idle softirq"
#define IDLE_COMM_COUNTER "idle interrupt"

static Process *process_free(Process *process) {
        if (!process)
                return NULL;
        (void) address_space_free(process->space);
        (void) late_frames_free(process->late);
        free(process->cmdline);
        free(process);
        return NULL;
}
DEFINE_CLEANUP(Process, process_free)

static Process *find_process(Processes *processes, uint32_t pid) {
        return (Process *) (uintptr_t) table_get(&processes->by_pid, (TableKey){ .a = pid });
}

static Thread *find_thread(Processes *processes, uint32_t pid, uint32_t tid) {
        return (Thread *) (uintptr_t) table_get(&processes->threads, (TableKey){ .a = pid, .b = tid });
}

static void forget_threads(Processes *processes, Process *process) {
        processes->last_thread = NULL;
        while (process->threads) {
                Thread *thread = process->threads;

                process->threads = thread->next;
                (void) table_remove(&processes->threads, (TableKey){ .a = process->pid, .b = thread->tid });
                free(thread);
        }
}

static void unlink_ended(Processes *processes, Process *process) {
        Process **p = &processes->oldest_ended, *last = NULL;

        for (; *p && *p != process; p = &(*p)->next_ended)
                last = *p;
        if (!*p)
                return;
        *p = process->next_ended;
        if (processes->newest_ended == process)
                processes->newest_ended = last;
        processes->n_ended--;
}

static int process_leave(Processes *processes, Process *process) {
        return processes->leaving ? processes->leaving(process, processes->userdata) : 0;
}

static int forget_process(Processes *processes, Process *process) {
        int r = process_leave(processes, process);

        if (process->ended)
                unlink_ended(processes, process);
        forget_threads(processes, process);
        (void) table_remove(&processes->by_pid, (TableKey){ .a = process->pid });
        (void) process_free(process);
        return r;
}

void processes_init(Processes *processes, Store *store, Symbolizer *symbolizer, uint64_t start) {
        *processes = (Processes){ .store = store, .symbolizer = symbolizer, .start = start };
}

void processes_done(Processes *processes) {
        TableEntry entry;
        size_t pos = 0;

        while (table_next(&processes->by_pid, &pos, &entry))
                (void) process_free((Process *) (uintptr_t) entry.value);
        for (pos = 0; table_next(&processes->threads, &pos, &entry);)
                free((Thread *) (uintptr_t) entry.value);
        table_done(&processes->by_pid);
        table_done(&processes->threads);
        *processes = (Processes){};
}

static int64_t relative(const Processes *processes, uint64_t time) {
        return (int64_t) (time - processes->start);
}

static void process_read_cmdline(Process *process) {
        char buffer[STORE_CMDLINE_MAX];
        ssize_t n = proc_file_read(process->pid, "cmdline", buffer, sizeof(buffer));

        if (n <= 0)
                return;
        free(process->cmdline);
        process->cmdline_len = 0;
        process->cmdline = malloc(n);
        if (!process->cmdline)
                return;
        memcpy(process->cmdline, buffer, n);
        process->cmdline_len = n;
}

/* The kernel's own are shown as ps(1) does it. */
static int process_add_row(Processes *processes, Process *process) {
        char comm[COMM_SIZE + 2];
        int r;

        (void) snprintf(comm, sizeof(comm), process->kernel ? "[%s]" : "%s", process->comm);
        r = store_add_process(processes->store, process->pid, process->inner_pid, process->parent_id,
                              relative(processes, process->start), comm, process->cmdline, process->cmdline_len,
                              &process->id);
        return r >= 0 && process->ended ? store_end_process(processes->store, process->id, process->end) : r;
}

/* The parent as it was when it had this child; NULL: there is none that could get a row by now. */
static Process *find_parent(Processes *processes, const Process *process) {
        Process *parent = process->parent_pid != 0 ? find_process(processes, process->parent_pid) : NULL;

        return parent && parent->program == process->parent_program ? parent : NULL;
}

/* Parents first. A child's program is younger than its parent's, so that nobody is met twice on the way up. */
int process_need_row(Processes *processes, Process *process) {
        Process *next = process, *parent;

        if (process->id != 0)
                return 0;
        while ((parent = find_parent(processes, next)) && parent->id == 0) {
                parent->below = next;
                next = parent;
        }
        if (parent)
                next->parent_id = parent->id;
        for (;;) {
                int r = process_add_row(processes, next);

                if (r < 0 || next == process)
                        return r;
                next->below->parent_id = next->id;
                next = next->below;
        }
}

void process_invalidate(Processes *processes, Process *process) {
        process->version = ++processes->last_version;
        process->gave_up = false;
}

/* The kernel's start and what /proc tells of it differ by up to a tick. */
static bool same_start(uint64_t a, uint64_t b) {
        return a == 0 || b == 0 || (a > b ? a - b : b - a) < 100 * NSEC_PER_MSEC;
}

/* Records may be so old that the process has ended, and its number is another's by now. */
static int read_again(Process *process) {
        bool same = same_start(process->start, proc_file_read_start((pid_t) process->pid));
        int r = same ? address_space_refresh(process->space) : -ESRCH;

        process->reaped = r == -ESRCH;
        return r;
}

int process_refresh(Processes *processes, Process *process, RefreshReason reason) {
        uint64_t before = now_ns(CLOCK_MONOTONIC), after, cost;
        int r;

        if (process->gone || process->kernel)
                return 0;
        if ((reason == REFRESH_MISSING && before < process->refresh_next) ||
            (reason == REFRESH_ROUTINE && before < process->refresh_routine))
                return 0;

        /* What it takes is CPU time: to wait for a processor costs nobody anything. */
        cost = now_ns(CLOCK_THREAD_CPUTIME_ID);
        r = read_again(process);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                process->gone = true; /* what was known stays */
        if (r > 0)
                process_invalidate(processes, process);

        after = now_ns(CLOCK_MONOTONIC);
        cost = now_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
        if (r > 0 || reason == REFRESH_NOW)
                process->refresh_interval = REFRESH_MIN;
        else if (reason == REFRESH_MISSING)
                process->refresh_interval = MIN(process->refresh_interval * 2, REFRESH_MAX);
        if (cost > REFRESH_CHEAP)
                process->refresh_eager = 0;
        if (process->refresh_eager > 0) {
                process->refresh_eager -= reason == REFRESH_MISSING;
                process->refresh_next = after + cost;
        } else
                process->refresh_next = after + MAX(process->refresh_interval, cost * REFRESH_SHARE);
        process->refresh_routine = after + MAX(REFRESH_MAX, cost * REFRESH_SHARE * 2);
        return 1;
}

/* parent is the one it was forked from, or NULL. */
static int process_new(Processes *processes, uint32_t pid, uint64_t start, const char *comm, const Process *parent,
                       Process **ret) {
        _cleanup_(process_freep) Process *process = calloc(1, sizeof(Process));
        int r;

        if (!process)
                return -ENOMEM;
        process->pid = pid;
        process->start = start;
        process->version = ++processes->last_version;
        process->program = ++processes->last_program;
        process->refresh_interval = REFRESH_MIN;
        process->refresh_eager = REFRESH_EAGER;
        (void) snprintf(process->comm, sizeof(process->comm), "%s", comm);

        if (parent) {
                process->parent_id = parent->id;
                process->parent_pid = parent->pid;
                process->parent_program = parent->program;
                if (parent->cmdline_len > 0) {
                        process->cmdline = malloc(parent->cmdline_len);
                        if (!process->cmdline)
                                return -ENOMEM;
                        memcpy(process->cmdline, parent->cmdline, parent->cmdline_len);
                        process->cmdline_len = parent->cmdline_len;
                }
                r = address_space_fork(&process->space, parent->space, pid, start);
        } else
                r = address_space_new(&process->space, processes->symbolizer, pid);
        if (r < 0)
                return r;
        if (!parent)
                address_space_set_start(process->space, start);
        *ret = TAKE_PTR(process);
        return 0;
}

/* Takes process in any case. */
static int process_insert(Processes *processes, Process *process) {
        Process *old = find_process(processes, process->pid);
        int r;

        r = old ? forget_process(processes, old) : 0;
        if (r >= 0)
                r = table_put(&processes->by_pid, (TableKey){ .a = process->pid }, (uintptr_t) process);
        if (r < 0) {
                (void) process_free(process);
                return r;
        }
        processes->n++;
        return 0;
}

static void process_take_kind(Process *process, const RingsideRecord *told) {
        process->kernel = told->process.kernel;
        process->inner_pid = told->process.inner_pid;
}

/*
 * What is told is the thread's name; the process is called by its leader's. A kernel thread is its only one, and
 * /proc adds to its name what it is working on.
 */
static const char *find_comm(const Processes *processes, uint32_t pid, const RingsideRecord *told, char buffer[COMM_SIZE]) {
        const char *comm = told && told->process.comm[0] != 0 ? told->process.comm : NULL;

        if (pid == 0)
                return processes->by_counter ? IDLE_COMM_COUNTER : IDLE_COMM_TIMER;
        if (!(comm && (told->tid == pid || told->process.kernel)) && proc_file_read_comm(pid, 0, buffer, COMM_SIZE) >= 0)
                return buffer;
        return comm ?: "[unknown]";
}

/* One that was there before anybody told of it: by SEEN, or by a record that comes late, if by any. */
static int process_discover(Processes *processes, uint32_t pid, uint64_t start, const RingsideRecord *told, Process **ret) {
        char comm[COMM_SIZE];
        Process *process;
        int r;

        if (start == 0 && pid != 0)
                start = proc_file_read_start(pid);
        r = process_new(processes, pid, start, find_comm(processes, pid, told, comm), NULL, &process);
        if (r < 0)
                return r;
        if (told)
                process_take_kind(process, told);
        else {
                process->kernel = pid == 0 || proc_file_is_kernel_thread(pid);
                process->inner_pid = pid == 0 ? 0 : proc_file_read_inner_pid(pid);
        }
        r = process_insert(processes, process);
        if (r < 0)
                return r;
        r = process_refresh(processes, process, REFRESH_NOW);
        if (r < 0)
                return r;
        if (!process->kernel && !process->reaped)
                process_read_cmdline(process);
        *ret = process;
        return 0;
}

static int thread_new(Processes *processes, Process *process, uint32_t tid, const char *comm, Thread **ret) {
        Thread *thread = find_thread(processes, process->pid, tid);
        int r;

        if (!thread) {
                thread = calloc(1, sizeof(Thread));
                if (!thread)
                        return -ENOMEM;
                r = table_put(&processes->threads, (TableKey){ .a = process->pid, .b = tid }, (uintptr_t) thread);
                if (r < 0) {
                        free(thread);
                        return r;
                }
                thread->process = process;
                thread->tid = tid;
                thread->next = process->threads;
                process->threads = thread;
        }
        thread->id = 0; /* a tid that is used again is another thread */
        (void) snprintf(thread->comm, sizeof(thread->comm), "%s", comm);
        if (ret)
                *ret = thread;
        return 0;
}

static int handle_seen(Processes *processes, const RingsideRecord *record) {
        Process *process = find_process(processes, record->pid);

        /* Its end was told, and the rest of it is sampled: to give its memory back is most of what a short one does. */
        if (process && process->exited && process->start == record->process.start)
                return 0;
        /* A sample may have come first. */
        if (process && !process->ended && same_start(process->start, record->process.start))
                return 0;
        return process_discover(processes, record->pid, record->process.start, record, &process);
}

static int handle_fork(Processes *processes, const RingsideRecord *record) {
        Process *process, *parent;
        int r;

        if (record->tid != record->pid) {
                process = find_process(processes, record->pid);
                return process ? thread_new(processes, process, record->tid, record->process.comm, NULL) : 0;
        }

        parent = record->process.ppid != 0 ? find_process(processes, record->process.ppid) : NULL;
        if (!parent)
                return process_discover(processes, record->pid, record->process.start, record, &process);
        r = process_new(processes, record->pid, record->process.start, record->process.comm, parent, &process);
        if (r < 0)
                return r;
        process_take_kind(process, record);
        return process_insert(processes, process);
}

/* The same pid with another program: a row of its own, and nothing of what was mapped is left. */
static int handle_exec(Processes *processes, const RingsideRecord *record) {
        Process *process = find_process(processes, record->pid);
        char comm[COMM_SIZE];
        int r;

        if (!process || process->ended || !same_start(process->start, record->process.start))
                return process_discover(processes, record->pid, record->process.start, record, &process);

        r = process_leave(processes, process);
        if (r < 0)
                return r;
        if (process->id != 0)
                r = store_end_process(processes->store, process->id, relative(processes, record->time));
        if (r < 0)
                return r;
        process->id = 0;
        process->program = ++processes->last_program;
        forget_threads(processes, process);
        address_space_clear(process->space);
        process->start = record->process.start;
        process_invalidate(processes, process);
        process->lowest_written = false;
        process->gone = false;
        process->refresh_eager = REFRESH_EAGER;
        process->cmdline_len = 0;
        process_take_kind(process, record); /* the kernel starts helpers, by what had been a thread of its own */
        (void) snprintf(process->comm, sizeof(process->comm), "%s", find_comm(processes, process->pid, record, comm));
        r = process_refresh(processes, process, REFRESH_NOW); /* first: it may be short-lived */
        if (r < 0)
                return r;
        if (!process->reaped)
                process_read_cmdline(process);
        return 0;
}

static int handle_comm(Processes *processes, const RingsideRecord *record) {
        Process *process = find_process(processes, record->pid);
        Thread *thread = find_thread(processes, record->pid, record->tid);

        if (!process)
                return 0;
        if (!thread)
                return thread_new(processes, process, record->tid, record->process.comm, NULL);
        (void) snprintf(thread->comm, sizeof(thread->comm), "%s", record->process.comm);
        return thread->id > 0 ? store_rename_thread(processes->store, thread->id, thread->comm) : 0;
}

static int forget_oldest(Processes *processes) {
        int r = 0;

        for (unsigned i = 0; i < FORGET_ENDED && r >= 0; i++) {
                bool few = processes->n_ended > ENDED_FEW && symbolizer_is_jit_memory_short(processes->symbolizer);

                if (processes->n_ended <= ENDED_MAX && !few)
                        break;
                r = forget_process(processes, processes->oldest_ended);
        }
        return r;
}

static int handle_exit(Processes *processes, const RingsideRecord *record) {
        Process *process = find_process(processes, record->pid);
        int r;

        if (!process || process->ended)
                return 0;
        process->ended = process->gone = true;
        process->exited = record->process.kind == RINGSIDE_PROCESS_EXIT;
        process->end = relative(processes, record->time);
        process->next_ended = NULL;
        if (processes->newest_ended)
                processes->newest_ended->next_ended = process;
        else
                processes->oldest_ended = process;
        processes->newest_ended = process;
        processes->n_ended++;
        r = forget_oldest(processes);
        if (r < 0)
                return r;
        return process->id != 0 ? store_end_process(processes->store, process->id, process->end) : 0;
}

int processes_handle(Processes *processes, const RingsideRecord *record) {
        switch (record->process.kind) {
        case RINGSIDE_PROCESS_SEEN:
                return handle_seen(processes, record);
        case RINGSIDE_PROCESS_FORK:
                return handle_fork(processes, record);
        case RINGSIDE_PROCESS_EXEC:
                return handle_exec(processes, record);
        case RINGSIDE_PROCESS_COMM:
                return handle_comm(processes, record);
        case RINGSIDE_PROCESS_EXIT:
        case RINGSIDE_PROCESS_GONE:
                return handle_exit(processes, record);
        }
        return 0;
}

int processes_get(Processes *processes, uint32_t pid, uint64_t start, Process **ret) {
        Process *process = find_process(processes, pid);

        if (!process || !same_start(process->start, start))
                return process_discover(processes, pid, start, NULL, ret);
        *ret = process;
        return 0;
}

int processes_get_thread(Processes *processes, uint32_t pid, uint32_t tid, Thread **ret) {
        Thread *thread = processes->last_thread;
        Process *process;
        int r;

        if (thread && thread->tid == tid && thread->process->pid == pid && thread->id > 0) {
                *ret = thread;
                return 0;
        }

        thread = find_thread(processes, pid, tid);
        if (!thread) {
                char comm[COMM_SIZE];

                process = find_process(processes, pid);
                if (!process) {
                        r = process_discover(processes, pid, 0, NULL, &process);
                        if (r < 0)
                                return r;
                }
                if (pid == 0)
                        (void) snprintf(comm, sizeof(comm), "swapper");
                else if (tid == pid || process->ended || proc_file_read_comm(pid, tid, comm, sizeof(comm)) < 0)
                        (void) snprintf(comm, sizeof(comm), "%s", process->comm);
                r = thread_new(processes, process, tid, comm, &thread);
                if (r < 0)
                        return r;
        }
        if (thread->id == 0) {
                r = process_need_row(processes, thread->process);
                if (r < 0)
                        return r;
                r = store_add_thread(processes->store, thread->process->id, tid, thread->comm, &thread->id);
                if (r < 0)
                        return r;
        }
        processes->last_thread = thread;
        *ret = thread;
        return 0;
}
