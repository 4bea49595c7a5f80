/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A helper in a small world: a session with targets follows FEW processes, and of the rest a file tells the keeper:
 * "OFFLINE SLEEPER MODULES AHEAD". The CPU of the first number is offline, all are with -2. Where the second is not 0, an event
 * for a CPU counts that process alone: one that sleeps has it stand still, as it does on a CPU that has gone. Another
 * third number means other kernel modules; and by so many seconds its clock is ahead. Linked in place of these functions.
 */

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdio.h>

#include "control.h"
#include "kernel-builder.h"
#include "perf-event.h"
#include "util.h"

#define FEW 64

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __real_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request);
int __wrap_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request);

uint64_t __wrap_kernel_modules_hash(int fd);

typedef struct World {
        int offline, sleeper, modules, ahead;
} World;

static bool world_read(World *ret) {
        _cleanup_fclose_ FILE *f = fopen("/run/world", "re");

        return f && fscanf(f, "%d %d %d %d", &ret->offline, &ret->sleeper, &ret->modules, &ret->ahead) == 4;
}

uint64_t __wrap_kernel_modules_hash(_unused_ int fd) {
        World world;

        return world_read(&world) ? world.modules + 1 : 1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        int r = __real_clock_gettime(clock, ret);
        World world;

        /* Sessions open no files. */
        if (clock == CLOCK_MONOTONIC && world_read(&world))
                ret->tv_sec += world.ahead;
        return r;
}

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s) {
        struct bpf_map *tracked = bpf_object__find_map_by_name(*s->obj, "rs_tracked");

        if (tracked && bpf_map__max_entries(tracked) == RS_TRACKED_MAX && bpf_map__set_max_entries(tracked, FEW) < 0)
                return -EINVAL;
        return __real_bpf_object__load_skeleton(s);
}

int __wrap_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request) {
        struct perf_event_request changed = *request;
        World world;

        if (request->cpu < 0)
                return __real_perf_event_open_one(event, request);
        if (!world_read(&world))
                return -EIO;
        if (world.offline == -2 || request->cpu == world.offline)
                return -ENODEV;
        changed.tid = world.sleeper > 0 ? world.sleeper : request->tid;
        return __real_perf_event_open_one(event, &changed);
}
