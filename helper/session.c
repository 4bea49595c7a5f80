/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "session.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "keeper.h"
#include "log.h"
#include "packet.h"
#include "privileges.h"
#include "sampler.h"
#include "sandbox.h"
#include "util.h"

enum SessionState {
        SESSION_NEW = 1 << 0,     /* nobody has said hello */
        SESSION_WELCOME = 1 << 1, /* knows its client */
        SESSION_RUNNING = 1 << 2, /* sampling */
};

typedef struct Session {
        int client_fd;
        int keeper_fd;
        struct rs_grant grant;
        enum SessionState state;
        unsigned n_cpus;
        unsigned n_targets;
        uint64_t checked, missed; /* CPU-wide events: when they were looked at last, and what was missed; ns */
        bool revoked;   /* the keeper has said so */
        uint64_t began; /* to serve its client, ns, CLOCK_MONOTONIC; to load the programs took clock_t loaded */
        clock_t loaded;
        bool paranoid;  /* kernel.perf_event_paranoid is above 2; not readable from the sandbox */
        enum rs_error load_error;
        int load_errno;
        uint64_t kernel_generation, kernel_size; /* 0: no ranges and names yet */
        int kernel_names_fd; /* -1: none, or the client has got it */
        Sampler *sampler;
} Session;

/* Every answer goes through here. A client that does not read its socket is broken off. */
static int session_send(Session *session, struct rs_message *m, size_t size, const int *fds, size_t n_fds) {
        m->len = size;
        return packet_send(session->client_fd, m, size, fds, n_fds, MSG_DONTWAIT);
}

static void answer_init(struct rs_message *answer, const struct rs_message *request, enum rs_error error, int detail) {
        answer->type = request->type + 1;
        answer->cookie = request->cookie;
        answer->error = error;
        answer->detail = detail < 0 ? -detail : detail;
}

static int session_answer(Session *session, const struct rs_message *request, enum rs_error error, int detail) {
        struct rs_request answer = {};

        answer_init(&answer.m, request, error, detail);
        return session_send(session, &answer.m, sizeof(answer), NULL, 0);
}

/* ---- HELLO ---- */

/*
 * Who the client is: the pid by the kernel's word (SCM_CREDENTIALS), the rest from the task behind the
 * pidfd it sent, which must be itself.
 */
static enum rs_error session_identify(Session *session, const Packet *packet, int *ret_detail) {
        _cleanup_free_ struct rs_task_info *tasks = NULL;
        size_t n = 0;
        int r;

        if (packet->credentials.pid <= 0 || packet->n_fds != 1)
                return RS_ERROR_IDENTITY;
        if (!(session->grant.grants & RS_GRANT_DIRECT) && packet->credentials.uid != session->grant.uid)
                return RS_ERROR_IDENTITY;
        r = sampler_describe(session->sampler, packet->fds[0], &tasks, &n);
        *ret_detail = r;
        if (r < 0)
                return RS_ERROR_IDENTITY;
        for (size_t i = 0; i < n; i++) {
                struct rs_identity identity = tasks[i].identity;

                if (tasks[i].tid != (uint32_t) packet->credentials.pid || tasks[i].tgid != tasks[i].tid)
                        continue;
                if (!(session->grant.grants & RS_GRANT_DIRECT)) {
                        /* The credentials are of when it spoke: since then it may have become a setgid program. */
                        if (identity.uid != session->grant.uid || identity.gid != packet->credentials.gid)
                                return RS_ERROR_IDENTITY;
                        /* Over the bus a client has no rights but those of its user. */
                        identity.caps = 0;
                }
                *ret_detail = sampler_set_identity(session->sampler, &identity, tasks[i].tgid_root, tasks[i].process_start);
                return *ret_detail < 0 ? RS_ERROR_INTERNAL : RS_OK;
        }
        return RS_ERROR_IDENTITY;
}

static int session_hello(Session *session, const union rs_any_message *any, Packet *packet) {
        struct rs_welcome welcome = {
                .version = RS_PROTOCOL_VERSION, .layout = RS_LAYOUT_VERSION,
                .grants = session->grant.grants, .clock = CLOCK_BOOTTIME,
                .nr_cpus = session->n_cpus, .counter_size = sizeof(struct rs_counters),
                .nr_events = session->grant.nr_events, .max_frames = session->grant.max_frames,
                .ring_size = session->grant.ring_size, .table_size = session->grant.table_size,
                .fd_kind = {RS_FD_RING, RS_FD_COUNTERS},
        };
        int fds[3], detail = session->load_errno;
        enum rs_error error = session->load_error;

        if (any->hello.version != RS_PROTOCOL_VERSION)
                error = RS_ERROR_VERSION;
        else if (error == RS_OK)
                error = session_identify(session, packet, &detail);
        answer_init(&welcome.m, &any->m, error, detail);
        if (error != RS_OK) {
                (void) session_send(session, &welcome.m, sizeof(welcome), NULL, 0);
                return -ECONNABORTED;
        }
        sampler_get_fds(session->sampler, fds);
        welcome.nr_fds = fds[2] < 0 ? 2 : 3;
        welcome.fd_kind[2] = fds[2] < 0 ? 0 : RS_FD_TABLES;
        memcpy(welcome.events, session->grant.events, sizeof(welcome.events));
        session->state = SESSION_WELCOME;
        return session_send(session, &welcome.m, sizeof(welcome), fds, welcome.nr_fds);
}

/* ---- the keeper ---- */

/* Waits for the answer; what the keeper says unasked meanwhile is remembered. Returns 0 or -errno. */
static int session_ask(Session *session, const struct session_request *request, struct session_answer *ret_answer,
                       Packet *ret_packet) {
        int r;

        r = packet_send(session->keeper_fd, request, sizeof(*request), NULL, 0, 0);
        if (r < 0)
                return r;
        for (;;) {
                r = packet_receive(session->keeper_fd, ret_answer, sizeof(*ret_answer), 2, 0, ret_packet);
                if (r <= 0)
                        return -ECONNRESET;
                if (ret_packet->size == sizeof(*ret_answer) && ret_answer->op == request->op)
                        break;
                packet_done(ret_packet);
                if (ret_packet->size != sizeof(*ret_answer) || ret_answer->op != SESSION_OP_REVOKED)
                        return -EBADMSG;
                session->revoked = true;
        }
        if (ret_answer->error != 0)
                packet_done(ret_packet);
        return -ret_answer->error;
}

static int session_open_event(Session *session, uint32_t event, int32_t tid, int32_t cpu, uint32_t flags) {
        const struct session_request request = {.op = SESSION_OP_EVENT, .event = {event, tid, cpu, flags}};
        struct session_answer answer;
        Packet packet;
        int r;

        r = session_ask(session, &request, &answer, &packet);
        if (r < 0)
                return r;
        r = packet.n_fds != 1 ? -EBADMSG
                              : sampler_add_event(session->sampler, packet.fds[0], event, cpu, flags & RS_TARGET_ON_EXEC);
        if (r < 0)
                packet_done(&packet);
        return r;
}

static enum rs_error error_of_open(Session *session, uint32_t event, int r) {
        if (session->grant.events[event].id == RS_EVENT_CPU_CYCLES && (r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV))
                return RS_ERROR_NO_PMU;
        if (r == -EACCES || r == -EPERM)
                return session->paranoid ? RS_ERROR_PARANOID : RS_ERROR_CAPABILITY;
        return r == -ENOMEM ? RS_ERROR_MEMORY : RS_ERROR_EVENTS;
}

/* Every event on one thread. -ESRCH where the thread is gone is no error: it was quick. */
static enum rs_error session_watch(Session *session, int32_t tid, uint32_t flags, int *ret_detail) {
        for (uint32_t i = 0; i < session->grant.nr_events; i++) {
                int r = session_open_event(session, i, tid, -1, flags);

                if (r < 0 && r != -ESRCH) {
                        *ret_detail = r;
                        return r == -EMFILE ? RS_ERROR_TARGET_LIMIT : error_of_open(session, i, r);
                }
        }
        return RS_OK;
}

/* Passes over the threads of a target until one finds nothing new: it may be starting threads meanwhile. */
#define TARGET_PASSES_MAX 16

static int session_track(Session *session, const struct rs_target *target, const struct rs_task_info *task) {
        const struct rs_tracked_key key = {
                .number = target->tid != 0 ? task->tid_root : task->tgid_root,
                .kind = target->tid != 0 ? RS_TRACKED_THREAD : RS_TRACKED_PROCESS,
        };
        const struct rs_tracked tracked = {
                .start = target->tid != 0 ? task->start : task->process_start,
                .target = session->n_targets + 1, .follow = !(target->flags & RS_TARGET_NO_INHERIT),
        };

        return sampler_track(session->sampler, &key, &tracked);
}

/*
 * One pass. *ret_watched: threads that have our events by now, *ret_opened: of these, since this pass.
 * Refuses the target where it is gone or hidden.
 */
static enum rs_error session_target_pass(Session *session, int pidfd, const struct rs_target *target,
                                         uint32_t *ret_watched, uint32_t *ret_opened, int *ret_detail) {
        _cleanup_free_ struct rs_task_info *tasks = NULL;
        size_t n = 0;
        int r;

        *ret_watched = *ret_opened = 0;
        r = sampler_describe(session->sampler, pidfd, &tasks, &n);
        *ret_detail = r;
        if (r < 0)
                return r == -ESRCH ? RS_ERROR_TARGET_GONE : r == -E2BIG ? RS_ERROR_TARGET_LIMIT : RS_ERROR_TARGET_HIDDEN;
        for (size_t i = 0; i < n; i++) {
                const struct rs_task_info *task = &tasks[i];
                enum rs_error error;

                if (!task->admitted || task->tid == 0 || (target->tid != 0 && task->client_tid != target->tid))
                        continue;
                if (*ret_watched == 0 && session_track(session, target, task) < 0)
                        return RS_ERROR_TARGET_LIMIT;
                (*ret_watched)++;
                if (task->watched)
                        continue;
                (*ret_opened)++;
                error = session_watch(session, task->tid, target->flags, ret_detail);
                if (error != RS_OK)
                        return error;
        }
        return *ret_watched > 0 ? RS_OK : RS_ERROR_TARGET_HIDDEN;
}

/* Nothing about a cgroup is looked at: a filter only narrows what the client sees anyway. */
static enum rs_error session_target_cgroup(Session *session, const struct rs_target *target, int *ret_detail) {
        const struct rs_tracked tracked = {.target = session->n_targets + 1};
        bool v1 = target->flags & RS_TARGET_CGROUP_V1;
        struct rs_tracked_key key = {.kind = v1 ? RS_TRACKED_CGROUP_V1 : RS_TRACKED_CGROUP};

        *ret_detail = sampler_track(session->sampler, &key, &tracked);
        key.number = target->cgroup;
        if (*ret_detail >= 0)
                *ret_detail = sampler_track(session->sampler, &key, &tracked);
        return *ret_detail < 0 ? RS_ERROR_INTERNAL : RS_OK;
}

static int session_target(Session *session, const union rs_any_message *any, Packet *packet) {
        const struct rs_target *target = &any->target;
        bool tasks = session->grant.grants & RS_GRANT_TARGETS;
        struct rs_targeted answer = {};
        enum rs_error error = RS_OK;
        uint32_t opened = tasks;
        int detail = 0;

        if (packet->n_fds != tasks ||
            (tasks ? (target->flags & ~(RS_TARGET_ON_EXEC | RS_TARGET_NO_INHERIT)) || target->cgroup != 0
                   : (target->flags | RS_TARGET_CGROUP_V1) != (RS_TARGET_CGROUP | RS_TARGET_CGROUP_V1) ||
                             target->tid != 0 || target->cgroup == 0))
                error = RS_ERROR_STATE;
        else if (session->n_targets >= RS_TARGETS_MAX)
                error = RS_ERROR_TARGET_LIMIT;
        else if (!tasks)
                error = session_target_cgroup(session, target, &detail);
        for (int i = 0; error == RS_OK && opened > 0 && i < TARGET_PASSES_MAX; i++)
                error = session_target_pass(session, packet->fds[0], target, &answer.threads, &opened, &detail);
        /* What is watched keeps its number, and nothing else gets it. */
        session->n_targets += error == RS_OK || answer.threads > 0;
        answer_init(&answer.m, &any->m, error, detail);
        return session_send(session, &answer.m, sizeof(answer), NULL, 0);
}

/*
 * Gets what is newer than what we have. Its addresses are not for us: the map goes where the programs find it, and
 * is closed. Without any the programs tell "the kernel", and nothing else is different.
 */
static int session_update_kernel(Session *session) {
        struct session_request request = {.op = SESSION_OP_KERNEL};
        struct session_answer answer;
        Packet packet;
        int r;

        r = sampler_watch_modules(session->sampler, &request.changed) ?: session_ask(session, &request, &answer, &packet);
        if (r < 0 || packet.n_fds == 0)
                return r;
        r = packet.n_fds != 2 ? -EBADMSG : sampler_set_kernel(session->sampler, packet.fds[0]);
        if (r == 0) {
                close_fd(session->kernel_names_fd);
                session->kernel_names_fd = TAKE_FD(packet.fds[1]);
                session->kernel_generation = answer.generation;
                session->kernel_size = answer.size;
        }
        packet_done(&packet);
        return r;
}

/* Each memfd goes out once: those in a socket that nobody reads count against our user, even when we are gone. */
static int session_symbols(Session *session, const union rs_any_message *any, _unused_ Packet *packet) {
        struct rs_symbols answer = {};
        enum rs_error error = RS_OK;
        int detail = 0;

        if (!(session->grant.grants & RS_GRANT_KERNEL))
                error = RS_ERROR_STATE;
        else if ((detail = session_update_kernel(session)) < 0)
                error = detail == -ENODATA ? RS_ERROR_NO_KERNEL_NAMES : RS_ERROR_INTERNAL;
        answer_init(&answer.m, &any->m, error, detail);
        if (error != RS_OK)
                return session_send(session, &answer.m, sizeof(answer), NULL, 0);
        answer.generation = session->kernel_generation;
        answer.size = session->kernel_size;
        detail = session_send(session, &answer.m, sizeof(answer), &session->kernel_names_fd, session->kernel_names_fd >= 0);
        session->kernel_names_fd = close_fd(session->kernel_names_fd);
        return detail;
}

/* ---- START, STOP, STATS ---- */

/* Those that are not there yet, or no more. */
static enum rs_error session_open_wide(Session *session, int *ret_detail) {
        unsigned there = 0;

        for (unsigned i = 0; i < session->grant.nr_events * session->n_cpus; i++) {
                uint32_t event = i / session->n_cpus;
                unsigned cpu = i % session->n_cpus;
                int r = sampler_has_event(session->sampler, event, cpu) ? 0 : session_open_event(session, event, -1, cpu, 0);

                there = (cpu > 0 ? there : 0) + (r >= 0);
                /* A CPU that is possible, but not there now, whichever it is; unless that is said of them all. */
                if (r < 0 && (r != -ENODEV || (there == 0 && cpu + 1 == session->n_cpus))) {
                        *ret_detail = r;
                        return error_of_open(session, event, r);
                }
        }
        return RS_OK;
}

/* CPU-wide events are looked at whenever the client asks for something, which most do once a second; and if none does. */
#define CHECK_MSEC 2000
/* More often would prove nothing. */
#define CHECK_NSEC_MIN (100 * 1000000ULL)

static bool session_checks_cpus(const Session *session) {
        return session->state == SESSION_RUNNING && !(session->grant.grants & RS_GRANT_TARGETS);
}

/* CPUs that went offline and came back have lost their events. */
static void session_check_cpus(Session *session) {
        uint64_t now = now_ns(CLOCK_BOOTTIME);
        int ignored;

        if (!session_checks_cpus(session) || now - session->checked < CHECK_NSEC_MIN)
                return;
        session->missed += sampler_check_cpus(session->sampler, now - session->checked);
        session->checked = now;
        (void) session_open_wide(session, &ignored);
}

static int session_start(Session *session, const union rs_any_message *any, _unused_ Packet *packet) {
        enum rs_error error = RS_OK;
        int detail = 0;

        if (session->grant.grants & RS_GRANT_TARGETS) {
                if (session->n_targets == 0)
                        error = RS_ERROR_STATE;
        } else
                error = session_open_wide(session, &detail);
        if (error == RS_OK && (session->grant.grants & RS_GRANT_KERNEL))
                (void) session_update_kernel(session);
        if (error == RS_OK && (detail = sampler_start(session->sampler)) < 0)
                error = RS_ERROR_KERNEL;
        if (error == RS_OK) {
                session->state = SESSION_RUNNING;
                session->checked = now_ns(CLOCK_BOOTTIME);
        }
        return session_answer(session, &any->m, error, detail);
}

static int session_stop(Session *session, const union rs_any_message *any, _unused_ Packet *packet) {
        sampler_stop(session->sampler);
        session->state = SESSION_WELCOME;
        return session_answer(session, &any->m, RS_OK, 0);
}

static int session_stats(Session *session, const union rs_any_message *any, _unused_ Packet *packet) {
        struct rs_statistics answer = {};

        answer_init(&answer.m, &any->m, RS_OK, 0);
        /* CPU-wide counts are everybody's, not this user's. */
        if (session->grant.grants & RS_GRANT_TARGETS)
                sampler_read_counts(session->sampler, &answer);
        answer.missed = session->missed;
        return session_send(session, &answer.m, sizeof(answer), NULL, 0);
}

static int session_set_rate(Session *session, const union rs_any_message *any, _unused_ Packet *packet) {
        const struct rs_set_rate *request = &any->set_rate;
        enum rs_error error = RS_ERROR_RATE;
        int detail = 0;

        /* Never more than its budgets were charged for. */
        if (request->event < session->grant.nr_events && request->rate >= 1 &&
            request->rate <= session->grant.events[request->event].value) {
                detail = sampler_set_rate(session->sampler, request->event, request->rate);
                error = detail < 0 ? RS_ERROR_INTERNAL : RS_OK;
        }
        return session_answer(session, &any->m, error, detail);
}

static int session_maps(Session *session, const union rs_any_message *any, Packet *packet) {
        struct rs_mappings answer = {};
        enum rs_error error = RS_ERROR_STATE;
        int r = 0;

        if ((session->grant.grants & RS_GRANT_SYSTEM) && packet->n_fds == 1) {
                r = sampler_list_mappings(session->sampler, packet->fds[0], any->maps.from, &answer);
                error = r == -ESRCH ? RS_ERROR_TARGET_GONE : r == -EBUSY ? RS_ERROR_STATE : r < 0 ? RS_ERROR_TARGET_HIDDEN : RS_OK;
        }
        answer_init(&answer.m, &any->m, error, r);
        return session_send(session, &answer.m, sizeof(answer), NULL, 0);
}

/* ---- the policy ---- */

/* What is not in this table, in this state, of this size, with these fds, ends the session. */
static const struct {
        uint32_t type;
        unsigned states;
        size_t size;
        size_t max_fds;
        int (*func)(Session *session, const union rs_any_message *any, Packet *packet);
} requests[] = {
        {RS_HELLO, SESSION_NEW, sizeof(struct rs_hello), 1, session_hello},
        {RS_TARGET, SESSION_WELCOME, sizeof(struct rs_target), 1, session_target},
        {RS_START, SESSION_WELCOME, sizeof(struct rs_request), 0, session_start},
        {RS_STOP, SESSION_RUNNING, sizeof(struct rs_request), 0, session_stop},
        {RS_SYMBOLS, SESSION_WELCOME | SESSION_RUNNING, sizeof(struct rs_request), 0, session_symbols},
        {RS_MAPS, SESSION_WELCOME | SESSION_RUNNING, sizeof(struct rs_maps), 1, session_maps},
        {RS_STATS, SESSION_WELCOME | SESSION_RUNNING, sizeof(struct rs_request), 0, session_stats},
        {RS_SET_RATE, SESSION_WELCOME | SESSION_RUNNING, sizeof(struct rs_set_rate), 0, session_set_rate},
};

static int session_dispatch(Session *session) {
        union rs_any_message any = {};
        Packet packet;
        int r;

        r = packet_receive(session->client_fd, &any, sizeof(any), 1, MSG_DONTWAIT, &packet);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return r == 0 ? -ECONNRESET : -EBADMSG;
        r = -EBADMSG;
        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                if (requests[i].type != any.m.type)
                        continue;
                if ((requests[i].states & session->state) && packet.size == requests[i].size &&
                    any.m.len == requests[i].size && packet.n_fds <= requests[i].max_fds && any.m.error == 0 &&
                    any.m.detail == 0)
                        r = requests[i].func(session, &any, &packet);
                break;
        }
        packet_done(&packet);
        return r;
}

static void session_end(Session *session, enum rs_error error) {
        struct rs_message end = {.type = RS_END, .error = error};

        /* Nothing was loaded: HELLO's answer says so. */
        if (!session->sampler)
                return;
        sampler_stop(session->sampler);
        (void) session_send(session, &end, sizeof(end), NULL, 0);
}

/* A client that asks too much has to wait, whatever it asks for: most of it only once, for its many processes. */
static bool session_has_overspent(const Session *session) {
        const double share = 1e9 * (session->grant.grants & RS_GRANT_SYSTEM ? SESSION_CPU_SHARE_SYSTEM : SESSION_CPU_SHARE);

        return clock() - session->loaded > (SESSION_CPU_AT_FIRST + (now_ns(CLOCK_MONOTONIC) - session->began) / share) * CLOCKS_PER_SEC;
}

static void session_loop(Session *session) {
        session->began = now_ns(CLOCK_MONOTONIC);
        session->loaded = clock();
        for (;;) {
                bool wait = session_has_overspent(session);
                struct pollfd fds[] = {
                        {.fd = session->client_fd, .events = wait ? 0 : POLLIN},
                        {.fd = session->keeper_fd, .events = POLLIN},
                };
                int r, timeout = wait ? SESSION_WAIT_MSEC : session_checks_cpus(session) ? CHECK_MSEC : -1;
                struct session_answer said;
                Packet packet;

                /* Said while something else was asked. */
                if (!session->revoked && poll(fds, ELEMENTSOF(fds), timeout) < 0 && errno != EINTR)
                        return;
                /* All it says unasked is that this is the end: of the grant, or of itself. */
                if (fds[1].revents)
                        session->revoked = packet_receive(session->keeper_fd, &said, sizeof(said), 0, MSG_DONTWAIT,
                                                          &packet) > 0;
                if (session->revoked)
                        return session_end(session, RS_ERROR_REVOKED);
                if (fds[1].revents)
                        return session_end(session, RS_ERROR_HELPER_GONE);
                session_check_cpus(session);
                if (!fds[0].revents)
                        continue;
                r = session_dispatch(session);
                if (r == -EBADMSG)
                        session_end(session, RS_ERROR_PROTOCOL);
                if (r < 0)
                        return;
        }
}

/* Names that lie in the socket unread count against our user: until they are taken, the client's has a session less. */
static void session_linger(const Session *session) {
        struct pollfd keeper = {.fd = session->keeper_fd};
        int unread = session->kernel_size > 0 && !session->revoked, wait = SESSION_WAIT_MSEC;

        while (unread > 0 && ioctl(session->client_fd, TIOCOUTQ, &unread) == 0 && unread > 0 && poll(&keeper, 1, wait) == 0)
                wait = MIN(2 * wait, 1000);
}

static int session_setup(Session *session) {
        struct keeper_setup setup;
        const int on = 1;
        Packet packet;
        int r;

        /* Whatever becomes of us later: not longer than the keeper. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        r = privileges_become_session();
        if (r != 0)
                return r < 0 ? r : -EPERM;
        r = packet_receive(session->keeper_fd, &setup, sizeof(setup), 0, 0, &packet);
        if (r <= 0 || packet.size != sizeof(setup) || grant_check(&setup.grant))
                return -EBADMSG;
        session->grant = setup.grant;
        session->n_cpus = get_nprocs_conf();
        session->paranoid = privileges_need_sys_admin();
        session->load_errno = sampler_new(&session->sampler, setup.id, &setup.grant, &setup.types, session->n_cpus,
                                          &session->load_error);
        close_fd(setup.types.picked ? SESSION_TYPES_FD : -1);
        if (session->load_errno < 0)
                log_line(LOG_WARNING, "session %u: cannot load: error %d, %s", setup.id, session->load_error,
                         strerror(-session->load_errno));
        /* The kernel attaches them to every message from here on, whether the client sends them or not. */
        if (setsockopt(session->client_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return -errno;
        r = privileges_drop();
        return r < 0 ? r : sandbox_enter(SANDBOX_SESSION);
}

int session_run(void) {
        Session session = {
                .client_fd = SESSION_CLIENT_FD, .keeper_fd = SESSION_KEEPER_FD,
                .state = SESSION_NEW, .kernel_names_fd = -1,
        };
        int r;

        r = session_setup(&session);
        if (r < 0) {
                log_line(LOG_ERR, "session: cannot start: %s", strerror(-r));
                return EXIT_FAILURE;
        }
        session_loop(&session);
        sampler_free(session.sampler);
        session_linger(&session);
        return EXIT_SUCCESS;
}
