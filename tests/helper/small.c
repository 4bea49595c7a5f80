/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A helper in a small world: a session with targets follows FEW processes, an hour of its clock is a minute, and what
 * CPUs there are stands in a file: "OFFLINE SLEEPER". The CPU of the first number is offline, all are with -2. Where
 * the second is not 0, an event for a CPU counts that process alone: one that sleeps has it stand still, as it does on a CPU
 * that has gone. Linked in place of these functions.
 */

#include <bpf/libbpf.h>
#include <stdio.h>

#include "control.h"
#include "perf-event.h"
#include "util.h"

#define FEW 64
#define FASTER 60

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __real_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request);
int __wrap_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        int r = __real_clock_gettime(clock, ret);
        const int64_t nsec = (int64_t) ret->tv_nsec * FASTER;

        if (clock == CLOCK_MONOTONIC)
                *ret = (struct timespec){ret->tv_sec * FASTER + nsec / 1000000000, nsec % 1000000000};
        return r;
}

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s) {
        struct bpf_map *tracked = bpf_object__find_map_by_name(*s->obj, "rs_tracked");

        if (tracked && bpf_map__max_entries(tracked) == RS_TRACKED_MAX && bpf_map__set_max_entries(tracked, FEW) < 0)
                return -EINVAL;
        return __real_bpf_object__load_skeleton(s);
}

int __wrap_perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request) {
        _cleanup_fclose_ FILE *f = fopen("/run/cpus", "re");
        struct perf_event_request changed = *request;
        int offline = -1, sleeper = 0;

        if (request->cpu < 0)
                return __real_perf_event_open_one(event, request);
        if (!f || fscanf(f, "%d %d", &offline, &sleeper) != 2)
                return -EIO;
        if (offline == -2 || request->cpu == offline)
                return -ENODEV;
        changed.tid = sleeper > 0 ? sleeper : request->tid;
        return __real_perf_event_open_one(event, &changed);
}
