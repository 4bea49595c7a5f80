/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records with a weight, on a machine that may have no PMU: a session of cpu-cycles, whose samples carry their
 * period, with a clock's event put where the counter's would be. Each weight must be the clock's period, and their
 * sum the CPU time.
 */

#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>

#include "decode.h"
#include "perf-event.h"
#include "ring.h"
#include "sampler.h"
#include "util.h"

#define HZ 999
#define BURN_NSEC 500000000U

static uint64_t cpu_time(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* The session's client is this very process; its target is one of this number that began so much earlier. */
static bool set_up(Sampler *sampler, uint64_t later) {
        const struct rs_event clock = {.id = RS_EVENT_CPU_CLOCK, .value = HZ};
        const struct perf_event_request request = {.tid = 0, .cpu = -1};
        _cleanup_close_ int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
        _cleanup_free_ struct rs_task_info *self = NULL;
        struct rs_tracked_key key = {.kind = RS_TRACKED_PROCESS};
        struct rs_tracked tracked = {.target = 1};
        size_t n;
        int fd;

        if (pidfd < 0 || sampler_describe(sampler, pidfd, &self, &n) < 0 ||
            sampler_set_identity(sampler, &self[0].identity, self[0].tgid_root, self[0].process_start) < 0)
                return false;
        key.number = self[0].tgid_root;
        tracked.start = self[0].process_start - later;
        if (sampler_track(sampler, &key, &tracked) < 0)
                return false;
        fd = perf_event_open_one(&clock, &request);
        return fd >= 0 && sampler_add_event(sampler, fd, 0, -1, false) >= 0 && sampler_start(sampler) >= 0;
}

static bool count(Sampler *sampler, uint64_t ring_size, uint64_t *ret_n, uint64_t *ret_weight) {
        _Alignas(8) uint8_t bytes[DECODE_RECORD_MAX];
        bool good = true;
        int size, fds[3];
        Ring *ring;

        *ret_n = *ret_weight = 0;
        sampler_get_fds(sampler, fds);
        if (ring_new(&ring, fds[0], ring_size) < 0)
                return false;
        while ((size = ring_read(ring, bytes, sizeof(bytes))) > 0) {
                RingsideRecord record;

                if (decode_record(bytes, size, 1, &record) != DECODE_OK)
                        good = false;
                else if (record.type == RINGSIDE_SAMPLE) {
                        (*ret_n)++;
                        *ret_weight += record.sample.weight;
                        if (record.sample.weight != 1000000000ULL / HZ)
                                good = false;
                }
        }
        ring_free(ring);
        return good && size == 0;
}

/* What there is of BURN_NSEC of our CPU time; *ret_spent: how much it was. */
static bool measure(uint64_t later, uint64_t *ret_spent, uint64_t *ret_n, uint64_t *ret_weight) {
        const struct rs_grant grant = {
                .grants = RS_GRANT_TARGETS | RS_GRANT_DIRECT,
                .max_frames = 127,
                .nr_events = 1,
                .ring_size = 1024 * 1024,
                .events = {{.id = RS_EVENT_CPU_CYCLES, .value = HZ}},
        };
        enum rs_error error;
        Sampler *sampler;
        uint64_t begin;
        bool good;

        if (sampler_new(&sampler, 1, &grant, &(struct kernel_types){}, get_nprocs_conf(), &error) < 0) {
                printf("not ok - the programs do not load: error %d\n", error);
                return false;
        }
        good = set_up(sampler, later);
        if (!good)
                printf("not ok - no session: %m\n");
        begin = cpu_time();
        while (good && cpu_time() - begin < BURN_NSEC)
                ;
        sampler_stop(sampler);
        *ret_spent = cpu_time() - begin;
        good = good && count(sampler, grant.ring_size, ret_n, ret_weight);
        sampler_free(sampler);
        return good;
}

/* In a process of its own: opening an event gives rights away, without which it would not even see itself. */
static bool stranger_is_nobody(void) {
        uint64_t spent, n = 0, weight;
        pid_t child = fork();
        int status;

        if (child == 0)
                _exit(measure(1, &spent, &n, &weight) && n == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
        return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
        uint64_t spent, n, weight;
        bool good, none;

        if (geteuid() != 0) {
                printf("loading programs needs root\n");
                return getenv("RINGSIDE_MUST_RUN") ? EXIT_FAILURE : 77;
        }
        /* The number is right, but the target was somebody before: not one sample. */
        none = stranger_is_nobody();
        printf("%s - whoever has a target's number later is not the target\n", none ? "ok" : "not ok");
        (void) fflush(stdout);

        good = measure(0, &spent, &n, &weight);
        if (good)
                printf("%lu samples of %lu ns each, %lu ns in all; %lu ns of CPU time\n", n, n ? weight / n : 0, weight,
                       spent);
        /* A virtual machine may miss a tick now and then. */
        good = good && weight <= spent + spent / 20 && weight >= spent - spent / 5;
        printf("%s - weights are periods, and their sum is the CPU time\n", good ? "ok" : "not ok");
        return good && none ? EXIT_SUCCESS : EXIT_FAILURE;
}
