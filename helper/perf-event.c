/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "perf-event.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "event-type.h"
#include "privileges.h"
#include "util.h"

int perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request) {
        const EventType *type = event_type_by_id(event->id);
        struct perf_event_attr attr = {
                .size = sizeof(attr),
                .disabled = 1,
                .freq = 1,
                .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        };
        int fd, r;

        if (!type || event->by_period)
                return -EINVAL;
        attr.type = type->perf_type;
        attr.config = type->perf_config;
        attr.sample_freq = event->value;
        if (request->tid >= 0) {
                attr.inherit = !(request->flags & RS_TARGET_NO_INHERIT);
                attr.enable_on_exec = !!(request->flags & RS_TARGET_ON_EXEC);
        }
        /* Safe, because all of the call's arguments but the target are ours, and the fd alone tells a count. */
        r = privileges_raise_sys_admin(true);
        if (r < 0)
                return r;
        fd = syscall(SYS_perf_event_open, &attr, request->tid, request->cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (fd < 0)
                fd = -errno;
        r = privileges_raise_sys_admin(false);
        if (r < 0) {
                if (fd >= 0)
                        close_fd(fd);
                return r;
        }
        return fd;
}

int perf_event_probe(uint32_t event_id) {
        const struct rs_event event = {.id = event_id, .value = 1};
        const struct perf_event_request request = {.tid = 0, .cpu = -1};
        int fd = perf_event_open_one(&event, &request);

        if (fd < 0)
                return fd;
        close_fd(fd);
        return 0;
}
