/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * get-stack HZ COMMAND...: runs a command with a program on its CPU clock that takes the user stack with bpf_get_stack()
 * and does nothing else, and says what that took, in one line of JSON. Root's, for tests/bench/unwind.py.
 */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "get-stack.skel.h"

static int fail(const char *what) {
        perror(what);
        return EXIT_FAILURE;
}

/* The command waits for a byte, so that the event is there from its first instruction on. */
static pid_t start(char **command, int *ret_go) {
        int ends[2];
        pid_t pid;
        char byte;

        if (pipe(ends) < 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                close(ends[1]);
                if (read(ends[0], &byte, 1) == 1)
                        execvp(command[0], command);
                perror(command[0]);
                _exit(127);
        }
        close(ends[0]);
        *ret_go = ends[1];
        return pid;
}

int main(int argc, char **argv) {
        struct perf_event_attr attr = {
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(attr),
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .freq = 1,
                .inherit = 1,
                .disabled = 1,
                .enable_on_exec = 1,
        };
        struct get_stack_bpf *skeleton = argc > 2 ? get_stack_bpf__open_and_load() : NULL;
        struct bpf_prog_info info = {};
        __u32 size = sizeof(info);
        int status, go, event, statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
        pid_t pid;

        if (!skeleton || statistics < 0)
                return fail("get-stack");
        attr.sample_freq = strtoul(argv[1], NULL, 10);
        pid = start(argv + 2, &go);
        event = pid < 0 ? -1 : (int) syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
        if (event < 0 || !bpf_program__attach_perf_event(skeleton->progs.get_stack, event))
                return fail("get-stack: event");
        if (write(go, "", 1) != 1 || waitpid(pid, &status, 0) != pid || status != 0)
                return fail(argv[2]);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(skeleton->progs.get_stack), &info, &size) < 0)
                return fail("get-stack: info");
        printf("{\"runs\": %" PRIu64 ", \"ns\": %" PRIu64 ", \"frames\": %" PRIu64 "}\n", (uint64_t) info.run_cnt,
               (uint64_t) info.run_time_ns, (uint64_t) skeleton->bss->n_frames);
        return EXIT_SUCCESS;
}
