/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "../bpf/kernel-version.h"
#include "event-type.h"
#include "keeper.h"
#include "kernel-types.h"
#include "kernel-version.h"
#include "map-list.h"
#include "sampler.skel.h"
#include "unwind-table.h"
#include "util.h"

/* How long reading a process's mappings may take, and how often it is looked whether it can be done. */
#define LIST_SEC 10
#define LIST_TRIES 5
/* Of the programs on process events: without the first of them the list of what is tracked is not kept. */
#define TRACKING 3

typedef struct SamplerEvent {
        int perf_fd;
        int link_fd; /* 0: there is no event, of a CPU that is offline */
        uint32_t event;
        bool on_exec;
        bool known;       /* there has been one */
        uint64_t enabled; /* ns, when it was looked at last */
} SamplerEvent;

struct Sampler {
        struct sampler_bpf *skeleton;
        int ring_fd;
        int counters_fd;
        int tables_fd; /* -1: none */
        struct bpf_link *process_links[4]; /* of the programs in sampler_attach(), in their order */
        struct bpf_link *modules_link;
        int list_fd; /* of mappings: -1, or where it has got to with this process; and up to which address that is, 0: unknown */
        struct rs_task_info listed;
        uint64_t listed_to;
        bool started_before;
        unsigned n_cpus;
        size_t n_events;
        SamplerEvent events[RS_TASK_EVENTS_MAX]; /* CPU-wide: event by event, with a place for each CPU */
};

static bool kernel_is_locked_down(void) {
        _cleanup_fclose_ FILE *f = fopen("/sys/kernel/security/lockdown", "re");
        char line[128] = "";

        return f && fgets(line, sizeof(line), f) && strstr(line, "[confidentiality]");
}

static enum rs_error error_of_load(int error) {
        if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
                return RS_ERROR_NO_BTF;
        if (kernel_is_locked_down())
                return RS_ERROR_LOCKDOWN;
        return error == -EPERM ? RS_ERROR_CAPABILITY : error == -ENOMEM ? RS_ERROR_MEMORY : RS_ERROR_KERNEL;
}

enum rs_error sampler_probe(void) {
        /* It came with the iterator over one process, which the programs need, and which only a process could show. */
        int r = libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_user_ringbuf_drain, NULL);
        enum rs_error error = error_of_load(0);

        return error == RS_ERROR_KERNEL && r != 0 ? RS_OK : error;
}

/* Made by hand rather than by libbpf, for the names by which the keeper finds them again. */
static int sampler_create_maps(Sampler *sampler, uint32_t id, const struct rs_grant *grant, unsigned n_cpus) {
        LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
        char name[RS_MAP_NAME_SIZE];
        int r;

        rs_map_name(name, 'r', id, grant->uid);
        sampler->ring_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, name, 0, 0, grant->ring_size, NULL);
        if (sampler->ring_fd < 0)
                return -errno;
        rs_map_name(name, 'c', id, grant->uid);
        sampler->counters_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), sizeof(struct rs_counters),
                                              n_cpus, &options);
        if (sampler->counters_fd < 0)
                return -errno;
        r = bpf_map__reuse_fd(sampler->skeleton->maps.rs_ring, sampler->ring_fd);
        if (r >= 0)
                r = bpf_map__reuse_fd(sampler->skeleton->maps.rs_counters, sampler->counters_fd);
        if (r >= 0 && grant->table_size == 0)
                return bpf_map__set_max_entries(sampler->skeleton->maps.rs_remembered, 1);
        if (r < 0)
                return r;
        rs_map_name(name, 't', id, grant->uid);
        sampler->tables_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), RS_TABLE_CHUNK,
                                            grant->table_size / RS_TABLE_CHUNK, &options);
        return sampler->tables_fd < 0 ? -errno : bpf_map__reuse_fd(sampler->skeleton->maps.rs_tables, sampler->tables_fd);
}

/* Whoever may not be traced by any other of the user's processes may be by one that started it (Yama's words). */
static bool kernel_restricts_tracing(void) {
        _cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
        int scope;

        if (f)
                return fscanf(f, "%d", &scope) != 1 || scope > 1;
        /* There is no Yama; or there is nothing at all to be seen there. */
        return errno != ENOENT || access("/proc/sys/kernel", F_OK) < 0;
}

static struct bpf_program *sampler_program(Sampler *sampler, uint32_t event) {
        char name[32];

        snprintf(name, sizeof(name), "on_sample_%" PRIu32, event);
        return bpf_object__find_program_by_name(sampler->skeleton->obj, name);
}

int sampler_pick_types(struct kernel_types *ret) {
        struct sampler_bpf *skeleton = sampler_bpf__open();
        int r = skeleton ? kernel_types_make(bpf_object__btf(skeleton->obj), ret) : -errno;

        sampler_bpf__destroy(skeleton);
        return r;
}

static int sampler_load(Sampler *sampler, uint32_t id, const struct rs_grant *grant, const struct kernel_types *types,
                        unsigned n_cpus) {
        LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types->picked ? SESSION_TYPES_PATH : NULL);
        int r = kernel_types_use(types);

        if (r < 0)
                return r;
        sampler->skeleton = sampler_bpf__open_opts(&options);
        if (!sampler->skeleton)
                return -errno;
        if (getrandom(sampler->skeleton->rodata->session_key, sizeof(sampler->skeleton->rodata->session_key), 0) !=
            sizeof(sampler->skeleton->rodata->session_key))
                return -EIO;
        sampler->skeleton->rodata->tells_kernel = grant->grants & RS_GRANT_KERNEL;
        sampler->skeleton->rodata->max_frames = grant->max_frames;
        sampler->skeleton->rodata->targeted = grant->grants & RS_GRANT_TARGETS;
        sampler->skeleton->rodata->sees_everybody = grant->grants & RS_GRANT_SYSTEM;
        sampler->skeleton->rodata->wakeup_mark = grant->ring_size / 4;
        sampler->skeleton->rodata->page_shift = __builtin_ctzl(sysconf(_SC_PAGESIZE));
        sampler->skeleton->rodata->has_tables = grant->table_size > 0;
        sampler->skeleton->rodata->table_mask = MAX(grant->table_size / RS_TABLE_CHUNK, 1U) - 1;
        sampler->skeleton->rodata->tables_of_children_only = kernel_restricts_tracing();
        /* Stacks are at the top of what a user has. */
        sampler->skeleton->rodata->user_address_bits = UINT64_MAX >> __builtin_clzll((uintptr_t) __builtin_frame_address(0));
        sampler->skeleton->rodata->reads_user_memory = kernel_reads_user_memory_safely(kernel_version_get());
        for (size_t i = 0; i < grant->nr_events; i++) {
                sampler->skeleton->rodata->weighted[i] = event_type_by_id(grant->events[i].id)->weighted;
                sampler->skeleton->rodata->granted_rate[i] = grant->events[i].value;
        }
        for (size_t i = 0; i < RS_EVENTS_MAX; i++)
                (void) bpf_program__set_autoload(sampler_program(sampler, i), i < grant->nr_events);
        (void) bpf_program__set_autoload(sampler->skeleton->progs.list_mappings, grant->grants & RS_GRANT_SYSTEM);
        /* Without modules there is nothing to attach it to. */
        (void) bpf_program__set_autoload(sampler->skeleton->progs.on_module_free,
                                        (grant->grants & RS_GRANT_KERNEL) && access("/proc/sys/kernel/modprobe", F_OK) == 0);
        /* Without targets it holds cgroups, and whether it is told. */
        if ((!(grant->grants & RS_GRANT_TARGETS) &&
             (r = bpf_map__set_max_entries(sampler->skeleton->maps.rs_tracked, RS_TARGETS_MAX + 3)) < 0) ||
            (r = sampler_create_maps(sampler, id, grant, n_cpus)) < 0 || (r = sampler_bpf__load(sampler->skeleton)) < 0)
                return r;
        for (size_t i = 0; i < grant->nr_events; i++) {
                struct bpf_prog_info info = {};
                uint32_t size = sizeof(info);

                if (bpf_obj_get_info_by_fd(bpf_program__fd(sampler_program(sampler, i)), &info, &size) < 0)
                        return -errno;
                sampler->skeleton->bss->sampler_ids[i] = info.id;
        }
        /* From here on only the programs write the counters, whoever holds the map. */
        return bpf_map_freeze(sampler->counters_fd) < 0 ? -errno : 0;
}

static void event_close(SamplerEvent *e) {
        if (e->link_fd == 0)
                return;
        close_fd(e->link_fd);
        close_fd(e->perf_fd);
        e->link_fd = 0;
}

/* The programs that follow are attached after STOP as well, and with targets before START. */
static int sampler_tell(Sampler *sampler, bool on) {
        const struct rs_tracked_key key = {.kind = RS_TRACKED_TELLING};
        const struct rs_tracked value = {.target = on};

        if (!sampler->skeleton)
                return 0;
        return bpf_map_update_elem(bpf_map__fd(sampler->skeleton->maps.rs_tracked), &key, &value, BPF_ANY);
}

DEFINE_CLEANUP(Sampler, sampler_free);

int sampler_new(Sampler **ret, uint32_t id, const struct rs_grant *grant, const struct kernel_types *types,
                unsigned n_cpus, enum rs_error *ret_error) {
        _cleanup_(sampler_freep) Sampler *sampler = calloc(1, sizeof(*sampler));
        _cleanup_free_ struct rs_task_info *self = NULL;
        struct bpf_map *map;
        _cleanup_close_ int pidfd = -1, null = -1;
        size_t n;
        int r;

        *ret_error = RS_ERROR_MEMORY;
        if (!sampler)
                return -ENOMEM;
        sampler->ring_fd = sampler->counters_fd = sampler->tables_fd = sampler->list_fd = -1;
        sampler->n_cpus = n_cpus;
        libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
        r = sampler_load(sampler, id, grant, types, n_cpus);
        if (r < 0) {
                *ret_error = error_of_load(r);
                return r;
        }

        /* The first question goes to ourselves: which pid namespace is ours, and is the ring safe here? */
        *ret_error = RS_ERROR_KERNEL;
        pidfd = syscall(SYS_pidfd_open, getpid(), 0);
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (pidfd < 0 || null < 0)
                return -errno;
        r = sampler_describe(sampler, pidfd, &self, &n);
        /* While there is room for it in the list. */
        if (r < 0 || (r = sampler_tell(sampler, false)) < 0)
                return r;
        sampler->skeleton->bss->helper_pid_ns = self[0].identity.pid_ns;
        /* What a session does not write any more it must not have, should it be taken over: raw frames, the identity. */
        bpf_object__for_each_map(map, sampler->skeleton->obj)
                if (map != sampler->skeleton->maps.rs_tracked && map != sampler->skeleton->maps.rs_kernel &&
                    map != sampler->skeleton->maps.rs_mapping_question && map != sampler->skeleton->maps.rs_rates &&
                    dup3(null, bpf_map__fd(map), O_CLOEXEC) < 0)
                        return -errno;
        *ret_error = self[0].ring_safe ? RS_OK : RS_ERROR_RING_UNSAFE;
        if (!self[0].ring_safe)
                return -EOPNOTSUPP;
        *ret = TAKE_PTR(sampler);
        return 0;
}

Sampler *sampler_free(Sampler *sampler) {
        if (!sampler)
                return NULL;
        sampler_stop(sampler);
        for (size_t i = 0; i < TRACKING; i++)
                bpf_link__destroy(sampler->process_links[i]);
        bpf_link__destroy(sampler->modules_link);
        for (size_t i = 0; i < sampler->n_events; i++)
                event_close(&sampler->events[i]);
        sampler_bpf__destroy(sampler->skeleton);
        close_fd(sampler->list_fd);
        close_fd(sampler->ring_fd);
        close_fd(sampler->counters_fd);
        close_fd(sampler->tables_fd);
        free(sampler);
        return NULL;
}

void sampler_get_fds(const Sampler *sampler, int ret[static 3]) {
        memcpy(ret, (int[]){sampler->ring_fd, sampler->counters_fd, sampler->tables_fd}, 3 * sizeof(*ret));
}

/*
 * The sandbox lets nobody make the memory writable again, and sampler_new() has closed the map: a session that
 * is taken over goes on seeing what its client may see, and nothing else.
 */
int sampler_set_identity(Sampler *sampler, const struct rs_identity *identity, uint32_t tgid_root, uint64_t process_start) {
        size_t page = sysconf(_SC_PAGESIZE), size = bpf_map__value_size(sampler->skeleton->maps.bss);

        sampler->skeleton->bss->identity = *identity;
        sampler->skeleton->bss->client_tgid = tgid_root;
        sampler->skeleton->bss->client_start = process_start;
        return mprotect(sampler->skeleton->bss, (size + page - 1) / page * page, PROT_READ) < 0 ? -errno : 0;
}

/* The iterator knows the process by number while it runs; alive afterwards means it was the right one. */
static bool pidfd_is_alive(int pidfd) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        return poll(&p, 1, 0) == 0;
}

/* The output of one of the programs about a process: an fd, or -errno. */
static int sampler_iterate(const struct bpf_program *program, int pidfd) {
        union bpf_iter_link_info info = {.task.pid_fd = pidfd};
        LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info, .iter_info_len = sizeof(info));
        _cleanup_close_ int link = bpf_link_create(bpf_program__fd(program), 0, BPF_TRACE_ITER, &options);
        int fd;

        if (link < 0)
                return -errno;
        fd = bpf_iter_create(link);
        return fd < 0 ? -errno : fd;
}

int sampler_describe(Sampler *sampler, int pidfd, struct rs_task_info **ret_tasks, size_t *ret_n) {
        _cleanup_close_ int fd = sampler_iterate(sampler->skeleton->progs.describe, pidfd);
        _cleanup_free_ struct rs_task_info *tasks = NULL;
        size_t size = 0, capacity = 64 * sizeof(*tasks);
        ssize_t n;

        if (fd < 0)
                return fd;
        for (;;) {
                void *grown = realloc(tasks, capacity);

                if (!grown)
                        return -ENOMEM;
                tasks = grown;
                n = RETRY_ON_EINTR(read(fd, (char *) tasks + size, capacity - size));
                if (n <= 0)
                        break;
                size += n;
                if (size == capacity)
                        capacity *= 2;
                if (size / sizeof(*tasks) > RS_TASK_EVENTS_MAX)
                        return -E2BIG;
        }
        if (n < 0)
                return -errno;
        if (!pidfd_is_alive(pidfd))
                return -ESRCH;
        if (size < sizeof(*tasks))
                return -EACCES;
        *ret_n = size / sizeof(*tasks);
        *ret_tasks = TAKE_PTR(tasks);
        return 0;
}

/*
 * Reading waits for the lock of the process's address space, which its owner can keep for ever by a file system of his
 * own. So it is not tried where somebody waits already; and if that comes about meanwhile, the session ends,
 * which is better than one that can neither be told to stop nor be stopped.
 */
static int wait_while_busy(Sampler *sampler, int pidfd, struct rs_task_info *ret) {
        for (int i = 0; i < LIST_TRIES; i++) {
                _cleanup_free_ struct rs_task_info *tasks = NULL;
                size_t n;

                /* Where it is not known, as with too many threads, reading says what is wrong. */
                if (sampler_describe(sampler, pidfd, &tasks, &n) < 0)
                        return 0;
                *ret = tasks[0];
                if (!ret->mm_busy)
                        return 0;
                (void) poll(NULL, 0, /* timeout= */ 1);
        }
        return -EBUSY;
}

static ssize_t list_read(Sampler *sampler, struct rs_mappings *ret) {
        static const struct itimerval off, on = {.it_value.tv_sec = LIST_SEC};
        ssize_t n;

        (void) setitimer(ITIMER_REAL, &on, NULL);
        n = RETRY_ON_EINTR(read(sampler->list_fd, ret->records, sizeof(ret->records)));
        n = n < 0 ? -errno : n;
        (void) setitimer(ITIMER_REAL, &off, NULL);
        return n;
}

static ssize_t list_begin(Sampler *sampler, int pidfd, uint64_t from, struct rs_mappings *ret) {
        const struct rs_mapping_question question = {.from = from};
        const uint32_t zero = 0;

        close_fd(sampler->list_fd);
        sampler->listed_to = 0;
        sampler->list_fd = sampler_iterate(sampler->skeleton->progs.list_mappings, pidfd);
        if (sampler->list_fd < 0)
                return sampler->list_fd;
        if (bpf_map_update_elem(bpf_map__fd(sampler->skeleton->maps.rs_mapping_question), &zero, &question, BPF_ANY) < 0)
                return -errno;
        return list_read(sampler, ret);
}

int sampler_list_mappings(Sampler *sampler, int pidfd, uint64_t from, struct rs_mappings *ret) {
        struct rs_task_info process = {};
        ssize_t n = wait_while_busy(sampler, pidfd, &process);

        if (n < 0)
                return n;
        /* The kernel goes on where it was: from the beginning it comes by all that was told before. */
        if (from != 0 && from == sampler->listed_to && process.tgid_root != 0 &&
            process.tgid_root == sampler->listed.tgid_root && process.process_start == sampler->listed.process_start)
                n = list_read(sampler, ret);
        /* Or the thread has gone by which it was, and another has the same memory. */
        if (n <= 0)
                n = list_begin(sampler, pidfd, from, ret);
        /* The program says by an error that there is nothing more. */
        if (n < 0 && n != -EAGAIN)
                return n;
        if (!pidfd_is_alive(pidfd))
                return -ESRCH;
        /* The last may be cut off, where pages are large: it comes again. */
        while (n - (ssize_t) ret->size >= (ssize_t) sizeof(struct rs_mapping)) {
                const struct rs_mapping *m = (const void *) (ret->records + ret->size);

                if (m->r.len > n - ret->size)
                        break;
                ret->size += m->r.len;
                ret->next = m->end;
        }
        sampler->listed = process;
        sampler->listed_to = n == ret->size ? ret->next : 0;
        return 0;
}

static int sampler_attach(Sampler *sampler, size_t n) {
        const struct bpf_program *programs[] = {
                sampler->skeleton->progs.on_fork, sampler->skeleton->progs.on_exec,
                sampler->skeleton->progs.on_exit, sampler->skeleton->progs.on_rename,
        };

        for (size_t i = 0; i < n; i++) {
                if (!sampler->process_links[i])
                        sampler->process_links[i] = bpf_program__attach_trace(programs[i]);
                if (!sampler->process_links[i])
                        return -errno;
        }
        return 0;
}

int sampler_track(Sampler *sampler, const struct rs_tracked_key *key, const struct rs_tracked *tracked) {
        /* What it starts is followed from here on, and forgotten when it ends, whether events are running or not. */
        int r = sampler->skeleton->rodata->targeted ? sampler_attach(sampler, TRACKING) : 0;

        if (r == 0 && bpf_map_update_elem(bpf_map__fd(sampler->skeleton->maps.rs_tracked), key, tracked, BPF_ANY) < 0)
                r = -errno;
        return r;
}

int sampler_add_event(Sampler *sampler, int perf_fd, uint32_t event, int cpu, bool on_exec) {
        size_t i = cpu < 0 ? sampler->n_events : event * sampler->n_cpus + cpu;
        int link;

        if (i >= RS_TASK_EVENTS_MAX)
                return -EMFILE;
        link = bpf_link_create(bpf_program__fd(sampler_program(sampler, event)), perf_fd, BPF_PERF_EVENT, NULL);
        if (link < 0)
                return -errno;
        sampler->events[i] = (SamplerEvent){perf_fd, link, event, on_exec, .known = true};
        sampler->n_events = MAX(sampler->n_events, i + 1);
        /* In the middle of sampling: of a CPU that has come back. */
        if (cpu >= 0 && sampler->process_links[3])
                (void) ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0);
        return 0;
}

bool sampler_has_event(Sampler *sampler, uint32_t event, int cpu) {
        size_t i = event * sampler->n_cpus + cpu;

        return i < RS_TASK_EVENTS_MAX && sampler->events[i].link_fd != 0;
}

/* With its CPU an event goes for good, and its time stands still: sums of what was and what is tell how long. */
uint64_t sampler_check_cpus(Sampler *sampler, uint64_t elapsed) {
        uint64_t missed = 0;

        for (size_t i = 0; i < sampler->n_events; i++) {
                SamplerEvent *e = &sampler->events[i];
                struct perf_event_count count = {.enabled = e->enabled};

                if (e->link_fd != 0 && (read(e->perf_fd, &count, sizeof(count)) != sizeof(count) ||
                                        count.enabled == e->enabled))
                        event_close(e);
                /* The clocks differ by less than that, and we are kept from reading for less, mostly. */
                if (e->known && e->event == 0 && count.enabled - e->enabled + MAX(elapsed / 64, MISSED_NSEC_MIN) < elapsed)
                        missed += elapsed - (count.enabled - e->enabled);
                e->enabled = count.enabled;
        }
        return missed;
}

int sampler_watch_modules(Sampler *sampler, uint64_t *ret_changed) {
        if (!sampler->modules_link && bpf_program__autoload(sampler->skeleton->progs.on_module_free))
                sampler->modules_link = bpf_program__attach_trace(sampler->skeleton->progs.on_module_free);
        *ret_changed = sampler->skeleton->bss->modules_changed;
        return sampler->modules_link || !bpf_program__autoload(sampler->skeleton->progs.on_module_free) ? 0 : -errno;
}

int sampler_set_kernel(Sampler *sampler, int map_fd) {
        const uint32_t zero = 0;

        return bpf_map_update_elem(bpf_map__fd(sampler->skeleton->maps.rs_kernel), &zero, &map_fd, BPF_ANY) < 0 ? -errno : 0;
}

int sampler_set_rate(Sampler *sampler, uint32_t event, uint32_t rate) {
        return bpf_map_update_elem(bpf_map__fd(sampler->skeleton->maps.rs_rates), &event, &rate, BPF_ANY) < 0 ? -errno : 0;
}

int sampler_start(Sampler *sampler) {
        int r;

        if (sampler_attach(sampler, ELEMENTSOF(sampler->process_links)) < 0 || sampler_tell(sampler, true) < 0)
                goto fail;
        for (size_t i = 0; i < sampler->n_events; i++) {
                SamplerEvent *e = &sampler->events[i];

                /* The kernel switches those on itself, at the first exec. */
                if (e->link_fd != 0 && (!e->on_exec || sampler->started_before) &&
                    ioctl(e->perf_fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
                        goto fail;
        }
        sampler->started_before = true;
        return 0;
fail:
        r = -errno;
        sampler_stop(sampler);
        return r;
}

void sampler_stop(Sampler *sampler) {
        (void) sampler_tell(sampler, false);
        for (size_t i = 0; i < sampler->n_events; i++)
                if (sampler->events[i].link_fd != 0)
                        (void) ioctl(sampler->events[i].perf_fd, PERF_EVENT_IOC_DISABLE, 0);
        for (size_t i = TRACKING; i < ELEMENTSOF(sampler->process_links); i++) {
                bpf_link__destroy(sampler->process_links[i]);
                sampler->process_links[i] = NULL;
        }
}

void sampler_read_counts(Sampler *sampler, struct rs_statistics *ret) {
        uint64_t hidden[RS_EVENTS_MAX];

        /* First, so that the counts have all of it. */
        memcpy(hidden, sampler->skeleton->bss->hidden_count, sizeof(hidden));
        for (size_t i = 0; i < sampler->n_events; i++) {
                const uint32_t event = sampler->events[i].event;
                struct perf_event_count count;

                if (read(sampler->events[i].perf_fd, &count, sizeof(count)) != sizeof(count))
                        continue;
                ret->count[event] += count.count;
                ret->enabled[event] += count.enabled;
                ret->running[event] += count.running;
        }
        for (size_t i = 0; i < RS_EVENTS_MAX; i++) {
                const double told = 1 - (hidden[i] > 0 ? MIN((double) hidden[i] / ret->count[i], 1) : 0);

                ret->count[i] -= MIN(ret->count[i], hidden[i]);
                ret->enabled[i] *= told;
                ret->running[i] *= told;
        }
}
