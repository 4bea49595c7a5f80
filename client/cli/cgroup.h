/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * From the path of a cgroup to the number by which the kernel knows it. Errors are printed here.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Cgroup {
        uint64_t id;
        bool v1;         /* of the perf_event hierarchy of v1 */
        char *directory; /* where it was found; to be freed */
} Cgroup;

/*
 * path: as /proc/PID/cgroup shows it, or below where a hierarchy of cgroups is mounted. Of cgroup v2 where it is in
 * there, else of the perf_event hierarchy of v1. 0, or a negative errno that was printed.
 */
int cgroup_find(const char *path, Cgroup *ret);
/* Whether another cgroup is by now where this one was. */
bool cgroup_is_replaced(const Cgroup *cgroup);

/* Where the two are mounted, by a mountinfo file: empty where they are not. For tests. */
typedef struct CgroupMounts {
        char v2[4096];
        char perf_event[4096];
        bool other; /* some other hierarchy of v1 */
} CgroupMounts;
void cgroup_mounts_read(FILE *mountinfo, CgroupMounts *ret);
