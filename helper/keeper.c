/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "budget.h"
#include "event-type.h"
#include "log.h"
#include "map-list.h"
#include "packet.h"
#include "privileges.h"
#include "sampler.h"
#include "sandbox.h"
#include "util.h"

/* What a wait for a thread in an exec costs a session of its events. */
#define EVENTS_A_WAIT 64
/*
 * How often a session without targets may open its events on each CPU, anew whenever one has come back: so often at
 * once, and once more a minute, for as long as it lasts.
 */
#define WIDE_OPENS 16
#define WIDE_NSEC (60 * 1000000000ULL)

typedef struct Child {
        pid_t pid; /* 0: free */
        uint32_t id;
        int fd;    /* -1: the session has closed it */
        unsigned n_events, n_waits; /* of threads */
        uint64_t wide_due;          /* budget_take(), for those of CPUs */
        struct rs_grant grant;
        bool waits_for_kernel; /* it has none yet, and a build is under way */
        uint64_t kernel_began; /* the last build before it asked */
        uint64_t kernel_sent;  /* the generation: no descriptors twice, for a session that lets them lie */
        bool names_refused;    /* and logged */
} Child;

typedef struct Keeper {
        int front_fd; /* -1: direct */
        int signal_fd;
        int exe_fd;
        int map_list_fd; /* -1: nobody has asked yet */
        int types_fd;    /* -1: there has been no session, or it cannot be made */
        bool types_tried;
        struct kernel_types types;
        KernelBuild *build;
        Opener named[BUDGET_SESSIONS_MAX]; /* ns */
        Child children[BUDGET_SESSIONS_MAX];
} Keeper;

/* In the child: nothing but its two sockets, the kernel's types and standard error survives. */
static void session_exec(Keeper *keeper, int client_fd, int keeper_fd) {
        char *const argv[] = {(char *) "ringside-helper", (char *) "--session", NULL};
        char *const envp[] = {NULL, NULL};
        char *with_journal[] = {(char *) "JOURNAL_STREAM=1", NULL};
        sigset_t none;
        int exe, high[3];

        sigemptyset(&none);
        /* Out of the way first: either may be where the other has to go. */
        high[0] = fcntl(client_fd, F_DUPFD, 10);
        high[1] = fcntl(keeper_fd, F_DUPFD, 10);
        high[2] = fcntl(keeper->types_fd, F_DUPFD, 10);
        exe = fcntl(keeper->exe_fd, F_DUPFD_CLOEXEC, 10);
        if (high[0] < 0 || high[1] < 0 || exe < 0 || dup2(high[0], SESSION_CLIENT_FD) < 0 ||
            dup2(high[1], SESSION_KEEPER_FD) < 0 ||
            (keeper->types_fd >= 0 ? dup2(high[2], SESSION_TYPES_FD) < 0 : close_fd(SESSION_TYPES_FD) >= 0) ||
            dup2(exe, 6) < 0 || fcntl(6, F_SETFD, FD_CLOEXEC) < 0 || close_range(7, ~0U, 0) < 0 ||
            sigprocmask(SIG_SETMASK, &none, NULL) < 0 || privileges_keep_for_session() < 0)
                _exit(127);
        syscall(SYS_execveat, 6, "", argv, getenv("JOURNAL_STREAM") ? with_journal : envp, AT_EMPTY_PATH);
        _exit(127);
}

static int keeper_spawn(Keeper *keeper, uint32_t id, const struct rs_grant *grant, int client_fd) {
        struct keeper_setup setup = {.id = id, .grant = *grant};
        Child *child = NULL;
        int pair[2], r;
        pid_t pid;

        for (size_t i = 0; i < ELEMENTSOF(keeper->children) && !child; i++)
                if (keeper->children[i].pid == 0)
                        child = &keeper->children[i];
        if (!child)
                return -EUSERS;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        if (!keeper->types_tried)
                keeper->types_fd = sampler_pick_types(&keeper->types);
        keeper->types_tried = true;
        setup.types = keeper->types;
        /* A session reads each answer before it asks again: no other has room for more than a few descriptors. */
        (void) setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){0}, sizeof(int));
        r = packet_send(pair[0], &setup, sizeof(setup), NULL, 0, MSG_DONTWAIT);
        pid = r < 0 ? -1 : fork();
        if (pid == 0)
                session_exec(keeper, client_fd, pair[1]);
        if (pid < 0) {
                r = r < 0 ? r : -errno;
                close_fd(pair[0]);
        } else
                *child = (Child){.pid = pid, .id = id, .fd = pair[0], .grant = *grant};
        close_fd(pair[1]);
        /* It will ask once it has loaded. */
        if (grant->grants & RS_GRANT_KERNEL)
                kernel_build_refresh(keeper->build, 0, /* at_once= */ true);
        return r;
}

static void keeper_list_maps(Keeper *keeper, struct keeper_report *report) {
        int r;

        if (keeper->map_list_fd < 0)
                keeper->map_list_fd = map_list_open();
        r = keeper->map_list_fd < 0 ? keeper->map_list_fd
                                    : map_list_read(keeper->map_list_fd, report->maps, ELEMENTSOF(report->maps));
        report->error = MIN(r, 0);
        report->n = MAX(r, 0);
}

/* A session whose socket is full has not listened for long, and hears of it by its end. */
static void keeper_revoke(Keeper *keeper, uint32_t id) {
        const struct session_answer revoked = {.op = SESSION_OP_REVOKED};

        for (size_t i = 0; i < ELEMENTSOF(keeper->children); i++) {
                Child *child = &keeper->children[i];

                if (child->pid != 0 && child->id == id &&
                    packet_send(child->fd, &revoked, sizeof(revoked), NULL, 0, MSG_DONTWAIT) < 0)
                        child->fd = close_fd(child->fd);
        }
}

static void keeper_report(Keeper *keeper, const struct keeper_report *report) {
        /* A front that does not read is gone, or as good as. */
        if (keeper->front_fd >= 0)
                (void) packet_send(keeper->front_fd, report, sizeof(*report), NULL, 0, 0);
}

/* Returns 0, or a negative number where the front is gone or makes no sense. */
static int keeper_answer_front(Keeper *keeper) {
        struct keeper_request request = {};
        struct keeper_report report = {};
        Packet packet;
        int r;

        r = packet_receive(keeper->front_fd, &request, sizeof(request), 1, MSG_DONTWAIT, &packet);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return -ECONNRESET;
        report.op = request.op;
        report.id = request.id;
        switch (packet.size == sizeof(request) ? request.op : 0) {
        case KEEPER_SPAWN:
                report.error = packet.n_fds == 1 && !grant_check(&request.grant)
                                       ? -keeper_spawn(keeper, request.id, &request.grant, packet.fds[0])
                                       : EINVAL;
                break;
        case KEEPER_PROBE:
                report.error = sampler_probe();
                for (size_t i = 0; i < event_type_count(); i++)
                        report.probe[i] = -perf_event_probe(event_type_get(i)->id);
                break;
        case KEEPER_MAPS:
                keeper_list_maps(keeper, &report);
                break;
        case KEEPER_REVOKE:
                keeper_revoke(keeper, request.id);
                packet_done(&packet);
                return 0;
        default:
                packet_done(&packet);
                return -EBADMSG;
        }
        packet_done(&packet);
        keeper_report(keeper, &report);
        return 0;
}

/* It has been granted these events; the rule is in its programs. */
static int keeper_open_event(Child *child, const struct perf_event_request *request) {
        const bool targets = child->grant.grants & RS_GRANT_TARGETS;
        const unsigned each = child->grant.nr_events * get_nprocs_conf();
        struct session_answer answer = {.op = SESSION_OP_EVENT};
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        _cleanup_close_ int fd = -1;

        if (request->event >= child->grant.nr_events)
                return -EBADMSG;
        if (targets ? request->tid < 1 || request->cpu != -1 : request->tid != -1 || request->cpu < 0)
                answer.error = EINVAL;
        else if (targets ? child->n_events >= RS_TASK_EVENTS_MAX
                         : budget_take(&child->wide_due, now, WIDE_OPENS * each, WIDE_NSEC / each, /* take= */ false) > 0)
                answer.error = EMFILE;
        else {
                fd = perf_event_open_one(&child->grant.events[request->event], request);
                if (fd < 0)
                        answer.error = -fd;
                /* Everybody has waited for it, so that a session cannot have many of these. */
                child->n_events += fd >= 0 ? 1 : fd == -EAGAIN ? EVENTS_A_WAIT : 0;
                child->n_waits += fd == -EAGAIN;
                if (fd >= 0 && !targets)
                        (void) budget_take(&child->wide_due, now, WIDE_OPENS * each, WIDE_NSEC / each, /* take= */ true);
        }
        return packet_send(child->fd, &answer, sizeof(answer), &fd, fd >= 0, MSG_DONTWAIT);
}

/* The same ones again cost nothing. */
static bool keeper_may_name(Keeper *keeper, Child *child) {
        const uint64_t now = now_ns(CLOCK_MONOTONIC), number = keeper->build->newest.number;
        Opener *o = budget_find_opener(keeper->named, child->grant.uid, now);

        if (o->last == number || budget_take(&o->due, now, NAMES_USER, NAMES_NSEC, /* take= */ true) == 0)
                o->last = number;
        else if (!child->names_refused)
                log_line(LOG_NOTICE, "session %u: kernel modules change too often: no newer names for its user", child->id);
        child->names_refused = o->last != number;
        return !child->names_refused;
}

/* Who gets no newer ones goes on with those it has: what came since has no names, and what went is seen to. */
static int keeper_tell_kernel(Keeper *keeper, Child *child) {
        const KernelBuild *build = keeper->build;
        /* Who has none has not seen either which modules went since the last were made. */
        const bool none = build->newest.number == 0 || (child->kernel_sent == 0 && build->modules_hash == 0);
        const int fds[] = {build->map_fd, build->newest.names_fd};
        const size_t n = !none && build->newest.number > child->kernel_sent && keeper_may_name(keeper, child) ? ELEMENTSOF(fds) : 0;
        const struct session_answer answer = {
                .op = SESSION_OP_KERNEL, .error = n == 0 && child->kernel_sent == 0 ? ENODATA : 0,
                .generation = build->newest.number, .size = build->size,
        };

        child->waits_for_kernel = false;
        if (n > 0)
                child->kernel_sent = build->newest.number;
        return packet_send(child->fd, &answer, sizeof(answer), fds, n, MSG_DONTWAIT);
}

/*
 * From its first question on a session sees itself which modules go, so that what it gets then is as things are, and
 * waits while that is made. Later nobody waits: the next question gets newer ones.
 */
static int keeper_ask_kernel(Keeper *keeper, Child *child, uint64_t changed) {
        KernelBuild *build = keeper->build;
        bool first = child->kernel_sent == 0;

        if (!(child->grant.grants & RS_GRANT_KERNEL))
                return -EBADMSG;
        /* It has waited. What had begun before it asked may be of modules that went before it could see that. */
        if (child->waits_for_kernel && (build->newest.number == 0 || build->began != child->kernel_began))
                return keeper_tell_kernel(keeper, child);
        if (!child->waits_for_kernel)
                child->kernel_began = build->began;
        kernel_build_refresh(build, changed, first && build->newest.number > 0);
        child->waits_for_kernel = first && build->child_fd >= 0;
        return child->waits_for_kernel ? 0 : keeper_tell_kernel(keeper, child);
}

static void keeper_take_kernel(Keeper *keeper) {
        kernel_build_take(keeper->build);
        for (size_t i = 0; i < ELEMENTSOF(keeper->children); i++)
                if (keeper->children[i].waits_for_kernel && keeper_ask_kernel(keeper, &keeper->children[i], 0) < 0)
                        keeper->children[i].fd = close_fd(keeper->children[i].fd);
}

static int keeper_answer_session(Keeper *keeper, Child *child) {
        struct session_request request;
        Packet packet;
        int r;

        r = packet_receive(child->fd, &request, sizeof(request), 0, MSG_DONTWAIT, &packet);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0 || packet.size != sizeof(request))
                return -EBADMSG;
        if (request.op == SESSION_OP_EVENT)
                return keeper_open_event(child, &request.event);
        return request.op == SESSION_OP_KERNEL ? keeper_ask_kernel(keeper, child, request.changed) : -EBADMSG;
}

static void keeper_reap(Keeper *keeper) {
        struct signalfd_siginfo ignored;
        pid_t pid;

        while (read(keeper->signal_fd, &ignored, sizeof(ignored)) > 0)
                ;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
                for (size_t i = 0; i < ELEMENTSOF(keeper->children); i++) {
                        Child *child = &keeper->children[i];
                        const struct keeper_report report = {.op = KEEPER_ENDED, .id = child->id, .n = child->n_waits};

                        if (child->pid != pid)
                                continue;
                        close_fd(child->fd);
                        *child = (Child){};
                        keeper_report(keeper, &report);
                }
}

static bool keeper_has_children(const Keeper *keeper) {
        for (size_t i = 0; i < ELEMENTSOF(keeper->children); i++)
                if (keeper->children[i].pid != 0)
                        return true;
        return false;
}

static int keeper_loop(Keeper *keeper) {
        while (keeper->front_fd >= 0 || keeper_has_children(keeper)) {
                struct pollfd fds[3 + BUDGET_SESSIONS_MAX] = {
                        {.fd = keeper->signal_fd, .events = POLLIN},
                        {.fd = keeper->front_fd, .events = POLLIN},
                        {.fd = keeper->build->child_fd, .events = POLLIN},
                };

                for (size_t i = 0; i < BUDGET_SESSIONS_MAX; i++)
                        fds[3 + i] = (struct pollfd){
                                .fd = keeper->children[i].pid != 0 ? keeper->children[i].fd : -1,
                                .events = POLLIN,
                        };
                if (poll(fds, ELEMENTSOF(fds), -1) < 0 && errno != EINTR)
                        return EXIT_FAILURE;
                for (size_t i = 0; i < BUDGET_SESSIONS_MAX; i++)
                        if (fds[3 + i].revents && keeper_answer_session(keeper, &keeper->children[i]) < 0)
                                keeper->children[i].fd = close_fd(keeper->children[i].fd);
                if (fds[2].revents)
                        keeper_take_kernel(keeper);
                if (fds[0].revents)
                        keeper_reap(keeper);
                if (fds[1].revents && keeper_answer_front(keeper) < 0)
                        return EXIT_SUCCESS;
        }
        return EXIT_SUCCESS;
}

/* The children's sockets close with us, and so they end. False where it cannot start, which it has logged. */
static bool keeper_init(Keeper *keeper, int front_fd, int exe_fd, KernelBuild *build) {
        sigset_t mask;

        *keeper = (Keeper){.front_fd = front_fd, .exe_fd = exe_fd, .map_list_fd = -1, .types_fd = -1, .build = build};
        sigemptyset(&mask);
        sigaddset(&mask, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) >= 0 &&
            (keeper->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)) >= 0 && sandbox_enter(SANDBOX_KEEPER) >= 0)
                return true;
        log_line(LOG_ERR, "keeper: cannot start: %m");
        return false;
}

int keeper_run(int front_fd, int exe_fd, KernelBuild *build) {
        Keeper keeper;

        return keeper_init(&keeper, front_fd, exe_fd, build) ? keeper_loop(&keeper) : EXIT_FAILURE;
}

int keeper_run_direct(int client_fd, int exe_fd, KernelBuild *build) {
        struct rs_message end = {.type = RS_END, .len = sizeof(end)};
        struct rs_open open;
        uint32_t id;
        Keeper keeper;
        Packet packet;
        int r;

        /* A number of no other helper's sessions (front.c), which have this bit clear. */
        if (getrandom(&id, sizeof(id), 0) != sizeof(id) || !keeper_init(&keeper, -1, exe_fd, build))
                return EXIT_FAILURE;
        id |= 0x80000000;
        r = packet_receive(client_fd, &open, sizeof(open), 0, 0, &packet);
        if (r == 0)
                return EXIT_SUCCESS;
        open.grant.grants |= RS_GRANT_DIRECT;
        if (r < 0 || packet.size != sizeof(open) || open.m.type != RS_OPEN || grant_check(&open.grant))
                end.error = RS_ERROR_PROTOCOL;
        else if (keeper_spawn(&keeper, id, &open.grant, client_fd) < 0)
                end.error = RS_ERROR_INTERNAL;
        if (end.error != 0) {
                (void) packet_send(client_fd, &end, sizeof(end), NULL, 0, MSG_DONTWAIT);
                return EXIT_FAILURE;
        }
        close_fd(client_fd);
        return keeper_loop(&keeper);
}
