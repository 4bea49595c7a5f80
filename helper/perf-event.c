/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "perf-event.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "event-type.h"
#include "privileges.h"
#include "util.h"

/* Enough for any exec that nobody holds up. */
#define WAIT_USEC (50 * 1000)

static void on_alarm(_unused_ int signal) {
}

/*
 * The kernel makes the caller wait while the thread is in the middle of an exec, and an exec can be made to last
 * for ever: by a read that its owner's own file system never answers, for one. The timer ends the wait; it
 * repeats, for it may also fire before the wait begins.
 */
static int open_in_time(struct perf_event_attr *attr, int32_t tid, int32_t cpu) {
        const struct itimerval off = {}, on = {.it_value.tv_usec = WAIT_USEC, .it_interval.tv_usec = WAIT_USEC};
        const struct sigaction interrupt = {.sa_handler = on_alarm};
        int fd;

        if (sigaction(SIGALRM, &interrupt, NULL) < 0 || setitimer(ITIMER_REAL, &on, NULL) < 0)
                return -errno;
        fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (fd < 0)
                fd = errno == EINTR ? -EAGAIN : -errno;
        (void) setitimer(ITIMER_REAL, &off, NULL);
        return fd;
}

int perf_event_open_one(const struct rs_event *event, const struct perf_event_request *request) {
        const EventType *type = event_type_by_id(event->id);
        struct perf_event_attr attr = {
                .size = sizeof(attr), .disabled = 1, .freq = 1,
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
        fd = open_in_time(&attr, request->tid, request->cpu);
        r = privileges_raise_sys_admin(false);
        if (r >= 0)
                return fd;
        close_fd(fd);
        return r;
}

int perf_event_probe(uint32_t event_id) {
        const struct rs_event event = {.id = event_id, .value = 1};
        const struct perf_event_request request = {.tid = 0, .cpu = -1};
        int fd = perf_event_open_one(&event, &request);

        close_fd(fd);
        return MIN(fd, 0);
}
