/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The helper's end of the protocol: the session process without its programs, fed any packets. */

#include <string.h>

#include "../../helper/session.c"
#include "fuzz.h"
#include "packets.h"

/* A sampler that has loaded, and knows one task: ourselves, of two threads. */
struct Sampler {
        size_t n_events;
};

void sampler_get_fds(_unused_ const Sampler *sampler, int ret[static 3]) {
        ret[0] = ret[1] = ret[2] = STDERR_FILENO;
}

int sampler_set_identity(_unused_ Sampler *sampler, _unused_ const struct rs_identity *identity, _unused_ uint32_t tgid_root,
                         _unused_ uint64_t process_start) {
        return 0;
}

int sampler_describe(_unused_ Sampler *sampler, int pidfd, struct rs_task_info **ret_tasks, size_t *ret_n) {
        struct rs_task_info *tasks;

        if (pidfd < 0)
                return -EBADF;
        tasks = calloc(2, sizeof(*tasks));
        if (!tasks)
                return -ENOMEM;
        for (unsigned i = 0; i < 2; i++) {
                tasks[i].identity.uid = getuid();
                tasks[i].tgid = tasks[i].tgid_root = getpid();
                tasks[i].tid = tasks[i].client_tid = getpid() + i;
                tasks[i].admitted = 1;
                tasks[i].watched = i;
        }
        *ret_tasks = tasks;
        *ret_n = 2;
        return 0;
}

int sampler_list_mappings(_unused_ Sampler *sampler, int pidfd, uint64_t from, struct rs_mappings *ret) {
        if (pidfd < 0)
                return -EBADF;
        ret->size = sizeof(ret->records);
        ret->next = from + 1;
        return 0;
}

int sampler_track(_unused_ Sampler *sampler, _unused_ const struct rs_tracked_key *key,
                  _unused_ const struct rs_tracked *tracked) {
        return 0;
}

int sampler_add_event(Sampler *sampler, int perf_fd, _unused_ uint32_t event, _unused_ int cpu, _unused_ bool on_exec) {
        if (sampler->n_events++ > 4)
                return -EMFILE;
        close_fd(perf_fd);
        return 0;
}

int sampler_watch_modules(_unused_ Sampler *sampler, _unused_ uint64_t *ret_changed) {
        return 0;
}

int sampler_set_kernel(_unused_ Sampler *sampler, _unused_ int map_fd) {
        return 0;
}

/* What reaches this has been checked. */
int sampler_set_rate(_unused_ Sampler *sampler, uint32_t event, uint32_t rate) {
        if (event > 1 || rate < 1 || rate > (event == 0 ? 99 : 49))
                abort();
        return 0;
}

bool sampler_has_event(_unused_ Sampler *sampler, _unused_ uint32_t event, _unused_ int cpu) {
        return false;
}

uint64_t sampler_check_cpus(_unused_ Sampler *sampler, uint64_t elapsed) {
        return elapsed;
}

int sampler_start(_unused_ Sampler *sampler) {
        return 0;
}

void sampler_stop(_unused_ Sampler *sampler) {
}

void sampler_read_counts(_unused_ Sampler *sampler, _unused_ struct rs_statistics *ret) {
}

int sampler_new(_unused_ Sampler **ret, _unused_ uint32_t id, _unused_ const struct rs_grant *grant,
                _unused_ const struct kernel_types *types, _unused_ unsigned n_cpus, _unused_ enum rs_error *ret_error) {
        return -ENOSYS;
}

int sampler_pick_types(_unused_ struct kernel_types *ret) {
        return -ENOSYS;
}

Sampler *sampler_free(_unused_ Sampler *sampler) {
        return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct timeval timeout = {.tv_usec = 1000};
        const struct session_answer answer = {.op = SESSION_OP_EVENT};
        const int on = 1;
        Sampler sampler = {};
        Session session = {
                .grant = {.uid = getuid(), .grants = RS_GRANT_TARGETS, .max_frames = 127, .nr_events = 2, .ring_size = 65536,
                          .events = {{.value = 99}, {.value = 49}}},
                .state = SESSION_NEW,
                .n_cpus = 2,
                .kernel_names_fd = -1,
                .sampler = &sampler,
        };
        int client[2], keeper[2];

        if (size < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, client) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keeper) < 0)
                return 0;
        if (data[0] & 1)
                session.grant.grants = 0;
        if (data[0] & 2)
                session.load_error = RS_ERROR_KERNEL;
        session.client_fd = client[0];
        session.keeper_fd = keeper[0];
        if (setsockopt(client[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
            setsockopt(keeper[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
                abort();
        /* What the keeper will have answered: an event each, until it has no more. */
        for (int i = 0; i < 8; i++)
                (void) packet_send(keeper[1], &answer, sizeof(answer), &(int){STDERR_FILENO}, 1, MSG_DONTWAIT);
        packets_send(client[1], data + 1, size - 1);
        shutdown(client[1], SHUT_WR);
        while (session_dispatch(&session) >= 0)
                ;
        for (int i = 0; i < 2; i++) {
                close_fd(client[i]);
                close_fd(keeper[i]);
        }
        return 0;
}
