/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One OpenSession call: options -> the caller's uid (from the bus) -> budgets -> polkit -> keeper -> reply.
 * Each step is a callback of the one before. A caller that vanishes takes its request along at any
 * point; every failure is a refusal.
 */

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "event-type.h"
#include "front.h"
#include "log.h"
#include "options.h"
#include "packet.h"
#include "seat.h"
#include "util.h"

struct Request {
        Front *front;
        size_t index; /* in front->requests */
        uint32_t id;  /* 0 until it is charged; and until then nobody gets to write the journal */
        char question[32]; /* polkit's name for it */
        bool asking;   /* polkit has our question */
        bool admitted; /* it said yes to the scope; what it is asked now is about the kernel */
        bool spawning; /* the keeper has it; the charge is the session's, whatever becomes of the caller */
        sd_bus_message *message;
        enum OptionsKernel kernel;
        struct rs_grant grant;
        sd_bus_slot *vanished;
        sd_bus_slot *call; /* the pending one, to the bus or to polkit */
        int client_fd;
};

static Request *request_free(Request *request) {
        Front *front;

        if (!request)
                return NULL;
        front = request->front;
        /* Nobody waits for the answer any more, so nobody is to be asked for a password. */
        if (request->asking)
                (void) sd_bus_call_method_async(front->bus, NULL, "org.freedesktop.PolicyKit1",
                                                "/org/freedesktop/PolicyKit1/Authority",
                                                "org.freedesktop.PolicyKit1.Authority", "CancelCheckAuthorization",
                                                NULL, NULL, "s", request->question);
        front->requests[request->index] = NULL;
        if (request->id != 0 && !request->spawning) {
                budget_release(&front->budget, request->id);
                seat_forget(front, request->id);
        }
        sd_bus_slot_unref(request->vanished);
        sd_bus_slot_unref(request->call);
        sd_bus_message_unref(request->message);
        close_fd(request->client_fd);
        free(request);
        front_touch(front);
        return NULL;
}

void request_free_all(Front *front) {
        for (size_t i = 0; i < FRONT_REQUESTS_MAX; i++)
                request_free(front->requests[i]);
}

Request *request_find(Front *front, uint32_t id) {
        for (size_t i = 0; i < FRONT_REQUESTS_MAX; i++)
                if (front->requests[i] && front->requests[i]->id == id)
                        return front->requests[i];
        return NULL;
}

static const char *request_action(const Request *request) {
        return request->grant.grants & RS_GRANT_SYSTEM ? FRONT_ACTION_SYSTEM : FRONT_ACTION_OWN;
}

/* One line for each request that polkit was asked about: whose, what, and what became of it. */
static void request_log(const Request *request, int priority, const char *outcome, const char *why) {
        const uint32_t grants = request->grant.grants;

        if (request->id != 0)
                log_line(priority, "%s: uid %" PRIu32 ", %s, scope %s%s%s%s", outcome, request->grant.uid,
                         request_action(request), grants & RS_GRANT_SYSTEM ? "system" : "own",
                         grants & RS_GRANT_TARGETS ? ", targets" : "", grants & RS_GRANT_KERNEL ? ", kernel frames" : "",
                         why);
}

static void request_refuse(Request *request, const char *name, const char *text) {
        char why[32];

        snprintf(why, sizeof(why), ": %s", strrchr(name, '.') + 1);
        request_log(request, LOG_NOTICE, "refused", why);
        (void) sd_bus_reply_method_errorf(request->message, name, "%s", text);
        request_free(request);
}

/* ---- keeper ---- */

void request_spawned(Request *request, int error) {
        char session[32];

        if (error != 0) {
                request_refuse(request, FRONT_ERROR_FAILED, "The session process cannot be started; the journal has more.");
                return;
        }
        snprintf(session, sizeof(session), ", session %" PRIu32, request->id);
        request_log(request, LOG_INFO, "granted", session);
        /* Should the reply not arrive, the session sees its end. */
        (void) sd_bus_reply_method_return(request->message, "h", request->client_fd);
        request_free(request);
}

static void request_spawn(Request *request) {
        struct keeper_request spawn = {.op = KEEPER_SPAWN, .id = request->id, .grant = request->grant};
        const int on = 1;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                request_refuse(request, FRONT_ERROR_FAILED, "No socket to be had; the journal has more.");
                return;
        }
        request->client_fd = pair[0];
        /* Before anybody can send, so that the kernel adds credentials to the very first packet. */
        r = setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ? -errno : 0;
        if (r >= 0)
                r = packet_send(request->front->keeper_fd, &spawn, sizeof(spawn), &pair[1], 1, MSG_DONTWAIT);
        close_fd(pair[1]);
        request->spawning = r >= 0;
        request->front->named |= request->grant.grants & RS_GRANT_KERNEL;
        if (r < 0)
                request_refuse(request, FRONT_ERROR_FAILED, "The keeper does not answer; the journal has more.");
}

/* ---- polkit ---- */

static int request_ask(Request *request);

/* Kernel frames are a wish: without a yes to them there is a session all the same, which tells its client so. */
static void request_go_on(Request *request) {
        request->admitted = true;
        if (request->kernel == OPTIONS_KERNEL_NO || request_ask(request) < 0)
                request_spawn(request);
}

static int on_polkit(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        Request *request = userdata;
        int authorized = false, challenge = false, r;
        char text[160];

        request->asking = false;
        request->call = sd_bus_slot_unref(request->call);
        r = sd_bus_message_is_method_error(reply, NULL) ? -EIO : sd_bus_message_enter_container(reply, 'r', "bba{ss}");
        if (r >= 0)
                r = sd_bus_message_read(reply, "bb", &authorized, &challenge);
        if (request->admitted) {
                if (r >= 0 && authorized)
                        request->grant.grants |= RS_GRANT_KERNEL;
                request_spawn(request);
        } else if (sd_bus_message_is_method_error(reply, NULL)) {
                log_line(LOG_WARNING, "polkit: %s", sd_bus_message_get_error(reply)->name);
                request_refuse(request, FRONT_ERROR_NO_POLKIT,
                               "polkit does not answer, so nobody can be asked. Is polkitd installed and able to start?");
        } else if (r >= 0 && authorized)
                request_go_on(request);
        else {
                snprintf(text, sizeof(text), "polkit action %s %s", request_action(request),
                         r >= 0 && challenge ? "needs authentication, and nobody could be asked." : "is not granted to you.");
                request_refuse(request, FRONT_ERROR_DENIED, text);
        }
        return 1;
}

/* No timeout while a person types; the request's end cancels it. Where nobody does, the bus library's (25 s). */
static int request_ask(Request *request) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        bool interactive = sd_bus_message_get_allow_interactive_authorization(request->message) > 0 &&
                           (!request->admitted || request->kernel == OPTIONS_KERNEL_ASK);
        int r;

        r = sd_bus_message_new_method_call(request->front->bus, &m, "org.freedesktop.PolicyKit1",
                                           "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s",
                                  sd_bus_message_get_sender(request->message),
                                  request->admitted ? FRONT_ACTION_KERNEL : request_action(request), 0,
                                  interactive ? 1U : 0U, request->question);
        if (r < 0)
                return r;
        r = sd_bus_call_async(request->front->bus, &request->call, m, on_polkit, request,
                              interactive ? UINT64_MAX : 0);
        request->asking = r >= 0;
        return r;
}

void request_seated(Front *front, uint32_t id) {
        Request *request = request_find(front, id);

        if (request && request_ask(request) < 0)
                request_refuse(request, FRONT_ERROR_NO_POLKIT, "polkit cannot be asked.");
}

bool request_revoked(Front *front, uint32_t id, const char *name, const char *text) {
        Request *request = request_find(front, id);

        if (!request || request->spawning)
                return false;
        request_refuse(request, name, text);
        return true;
}

static int on_vanished(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        Request *request = userdata;
        const char *owner = front_new_owner(m, sd_bus_message_get_sender(request->message));

        if (!owner || *owner)
                return 0;
        request_log(request, LOG_NOTICE, "refused", ": the caller has gone");
        request_free(request);
        return 0;
}

/* ---- the caller ---- */

static const char another_pending[] = "Another request of yours is not answered yet; ask again after it.";

/*
 * Whoever the bus has told of: a unique name is given to nobody else while the bus lives, and we go with it. Good for
 * refusals alone, which then cost the bus nothing more; it is asked again about whoever is not refused.
 */
static FrontCaller *request_find_caller(Front *front, const char *sender) {
        for (size_t i = 0; i < FRONT_CALLERS_MAX; i++)
                if (strcmp(front->callers[i].name, sender) == 0)
                        return &front->callers[i];
        return NULL;
}

/* NULL: it is charged under this id; 0: it could be. Else the error's name, and its text. */
static const char *request_charge(Front *front, uint32_t id, const struct rs_grant *grant, uint64_t now,
                                  char text[static 160]) {
        uint64_t wait;

        /* Nobody is asked twice at once. */
        for (size_t i = 0; i < FRONT_REQUESTS_MAX; i++)
                if (front->requests[i] && front->requests[i]->id != 0 && front->requests[i]->grant.uid == grant->uid) {
                        snprintf(text, 160, "%s", another_pending);
                        return FRONT_ERROR_PENDING;
                }
        if (budget_charge(&front->budget, id, grant, text, 160) < 0)
                return FRONT_ERROR_BUDGET;
        wait = budget_open(&front->budget, grant->uid, now, /* take= */ id != 0);
        if (wait == 0)
                return NULL;
        budget_release(&front->budget, id);
        snprintf(text, 160, "sessions opened by one user: %u at once, then %u a minute; the next in %" PRIu64 " s",
                 BUDGET_OPENS_USER, BUDGET_OPENS_MINUTE, wait / 1000000 + 1);
        return FRONT_ERROR_LATER;
}

static int on_uid(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        Request *request = userdata;
        const char *sender = sd_bus_message_get_sender(request->message), *problem;
        Front *front = request->front;
        FrontCaller *caller;
        char text[160];
        uint64_t now;

        request->call = sd_bus_slot_unref(request->call);
        if (sd_event_now(front->event, CLOCK_MONOTONIC, &now) < 0 || sd_bus_message_is_method_error(reply, NULL) ||
            sd_bus_message_read(reply, "u", &request->grant.uid) < 0) {
                request_refuse(request, FRONT_ERROR_FAILED, "The bus does not tell who you are.");
                return 1;
        }
        caller = request_find_caller(front, sender) ?: &front->callers[front->last_caller++ % FRONT_CALLERS_MAX];
        caller->uid = request->grant.uid;
        snprintf(caller->name, sizeof(caller->name), "%s", sender);
        problem = request_charge(front, front->last_id + 1, &request->grant, now, text);
        if (problem) {
                request_refuse(request, problem, text);
                return 1;
        }
        request->id = ++front->last_id;
        snprintf(request->question, sizeof(request->question), "ringside-%" PRIu32, request->id);
        if (!(request->grant.grants & RS_GRANT_SYSTEM))
                request_seated(front, request->id);
        else if (seat_watch(front, request->id, request->grant.uid, sender) < 0)
                request_refuse(request, FRONT_ERROR_FAILED, "The bus does not tell where you are.");
        return 1;
}

/* Watches the caller first, and then asks about it: one that is gone in between is unknown to the bus. */
static int request_look_up(Request *request) {
        const char *sender = sd_bus_message_get_sender(request->message);
        char match[512];
        int r;

        snprintf(match, sizeof(match),
                 "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
                 "member='NameOwnerChanged',arg0='%s',arg2=''",
                 sender);
        r = sd_bus_add_match_async(request->front->bus, &request->vanished, match, on_vanished, NULL, request);
        if (r < 0)
                return r;
        return sd_bus_call_method_async(request->front->bus, &request->call, "org.freedesktop.DBus",
                                        "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixUser",
                                        on_uid, request, "s", sender);
}

int request_start(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *sender = sd_bus_message_get_sender(m), *problem;
        size_t free_index = FRONT_REQUESTS_MAX;
        const FrontCaller *caller;
        Front *front = userdata;
        Options options;
        Request *request;
        char text[160];
        uint64_t now;
        int r;

        r = sender ? options_read(m, &options, error) : -EBADMSG;
        if (r < 0 || (r = sd_event_now(front->event, CLOCK_MONOTONIC, &now)) < 0)
                return r;
        for (size_t e = 0; e < options.grant.nr_events; e++) {
                problem = front_event_problem(front, options.grant.events[e].id);
                if (problem)
                        return sd_bus_error_setf(error, FRONT_ERROR_NO_EVENT, "%s: %s",
                                                 event_type_by_id(options.grant.events[e].id)->name, problem);
        }
        /* Before anybody is asked for a password. */
        if (front->missing)
                return sd_bus_error_set(error, front->missing, "The programs of a session cannot be loaded into this kernel.");
        for (size_t i = 0; i < FRONT_REQUESTS_MAX; i++)
                if (!front->requests[i])
                        free_index = i;
                /* Before the bus has told whose it is, so that one connection cannot take every place. */
                else if (strcmp(sd_bus_message_get_sender(front->requests[i]->message), sender) == 0)
                        return sd_bus_error_setf(error, FRONT_ERROR_PENDING, "%s", another_pending);
        if (free_index == FRONT_REQUESTS_MAX)
                return sd_bus_error_setf(error, FRONT_ERROR_PENDING, "Too many requests are not answered yet.");
        front_touch(front);
        caller = request_find_caller(front, sender);
        if (caller) {
                options.grant.uid = caller->uid;
                problem = request_charge(front, 0, &options.grant, now, text);
                if (problem)
                        return sd_bus_error_setf(error, problem, "%s", text);
        }
        /* Until the bus has told: nobody. */
        options.grant.uid = UINT32_MAX;
        request = calloc(1, sizeof(*request));
        if (!request)
                return -ENOMEM;
        *request = (Request){
                .front = front, .index = free_index, .message = sd_bus_message_ref(m),
                .kernel = options.kernel, .grant = options.grant, .client_fd = -1,
        };
        front->requests[free_index] = request;
        r = request_look_up(request);
        if (r < 0)
                request_free(request);
        return r < 0 ? r : 1;
}
