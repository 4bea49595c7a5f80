/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "seat.h"

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "log.h"
#include "packet.h"
#include "util.h"

#define LOGIND "org.freedesktop.login1"
#define LOGIND_PATH "/org/freedesktop/login1"

struct Seat {
        Seat *next;
        Front *front;
        uint32_t id, uid;
        bool watched;
        bool again;       /* something has changed since `call` asked */
        char logind[256]; /* its unique name, the longest there is: who has answered last */
        char *session;    /* its object path */
        sd_bus_slot *call, *signals, *owner;
};

void seat_forget(Front *front, uint32_t id) {
        for (Seat **at = &front->seats, *seat; (seat = *at);) {
                if (id != 0 && seat->id != id) {
                        at = &seat->next;
                        continue;
                }
                *at = seat->next;
                sd_bus_slot_unref(seat->call);
                sd_bus_slot_unref(seat->signals);
                sd_bus_slot_unref(seat->owner);
                free(seat->session);
                free(seat);
        }
}

/* There is nothing to watch, or no more. Returns 1, for the bus. */
static int seat_lost(Seat *seat) {
        const struct keeper_request revoke = {.op = KEEPER_REVOKE, .id = seat->id};
        Front *front = seat->front;
        bool watched = seat->watched;

        seat_forget(front, revoke.id);
        if (!watched) {
                request_seated(front, revoke.id);
                return 1;
        }
        log_line(LOG_NOTICE, "revoked: session %u: its user's seat is no longer active", revoke.id);
        /* If it cannot be said to the keeper, the end of all sessions is the one way to end this one. */
        if (!request_revoked(front, revoke.id, FRONT_ERROR_DENIED, "Your session is no longer the active one of its seat.") &&
            packet_send(front->keeper_fd, &revoke, sizeof(revoke), NULL, 0, MSG_DONTWAIT) < 0)
                (void) sd_event_exit(front->event, EXIT_FAILURE);
        return 1;
}

/* What was asked cannot be told: whoever may be at a seat gets nothing that could not be withdrawn. */
static int seat_failed(Seat *seat, sd_bus_message *reply) {
        const sd_bus_error *error = reply ? sd_bus_message_get_error(reply) : NULL;
        const uint32_t id = seat->id;
        Front *front = seat->front;
        char text[160];

        if (seat->watched)
                return seat_lost(seat);
        snprintf(text, sizeof(text), "logind does not tell whether you are at a seat: %.80s.", error ? error->name : "it makes no sense");
        log_line(LOG_WARNING, "%s", text);
        seat_forget(front, id);
        (void) request_revoked(front, id, FRONT_ERROR_FAILED, text);
        return 1;
}

static bool seat_answered(Seat *seat, sd_bus_message *reply) {
        seat->call = sd_bus_slot_unref(seat->call);
        return !sd_bus_message_is_method_error(reply, NULL);
}

static int seat_get(Seat *seat, const char *path, const char *interface, const char *property,
                    sd_bus_message_handler_t handler) {
        return sd_bus_call_method_async(seat->front->bus, &seat->call, LOGIND, path, "org.freedesktop.DBus.Properties",
                                        "Get", handler, seat, "ss", interface, property);
}

static int on_active(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        Seat *seat = userdata;
        int active;

        if (!seat_answered(seat, reply) || sd_bus_message_read(reply, "v", "b", &active) < 0)
                return seat_failed(seat, reply);
        if (!active)
                return seat_lost(seat);
        snprintf(seat->logind, sizeof(seat->logind), "%s", sd_bus_message_get_sender(reply));
        if (seat->again && seat_get(seat, seat->session, LOGIND ".Session", "Active", on_active) < 0)
                return seat_failed(seat, NULL);
        seat->again = false;
        if (!seat->watched) {
                seat->watched = true;
                request_seated(seat->front, seat->id);
        }
        return 1;
}

/*
 * Whatever logind has to say: of a session's end it does not say that it is no longer active. And another logind in its
 * place. One question at a time, and each answer counts: who makes it say much does not keep us from hearing the end.
 */
static int on_signal(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        Seat *seat = userdata;
        const char *sender = sd_bus_message_get_sender(m), *owner = front_new_owner(m, LOGIND);

        /* What it has said before its first answer is in that answer. */
        if (!(sender && strcmp(sender, seat->logind) == 0) && !(owner && *owner))
                return 0;
        seat->again = seat->call;
        if (!seat->call && seat_get(seat, seat->session, LOGIND ".Session", "Active", on_active) < 0)
                return seat_failed(seat, NULL);
        return 0;
}

/* Signals first, so that no change is missed. */
static int on_seat(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        static const char signals[] = "type='signal',sender='" LOGIND "',path_namespace='" LOGIND_PATH "'";
        static const char owner[] = "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
                                    "member='NameOwnerChanged',arg0='" LOGIND "'";
        const char *name, *path;
        Seat *seat = userdata;

        if (!seat_answered(seat, reply) || sd_bus_message_read(reply, "v", "(so)", &name, &path) < 0)
                return seat_failed(seat, reply);
        if (!*name)
                return seat_lost(seat);
        if (sd_bus_add_match_async(seat->front->bus, &seat->signals, signals, on_signal, NULL, seat) < 0 ||
            sd_bus_add_match_async(seat->front->bus, &seat->owner, owner, on_signal, NULL, seat) < 0 ||
            seat_get(seat, seat->session, LOGIND ".Session", "Active", on_active) < 0)
                return seat_failed(seat, NULL);
        return 1;
}

static int seat_found(Seat *seat, const char *path) {
        seat->session = strdup(path);
        if (!seat->session || seat_get(seat, path, LOGIND ".Session", "Seat", on_seat) < 0)
                return seat_failed(seat, NULL);
        return 1;
}

static int on_display(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const char *name, *path;

        if (!seat_answered(userdata, reply) || sd_bus_message_read(reply, "v", "(so)", &name, &path) < 0)
                /* So logind says of a user who is not there at all. */
                return sd_bus_message_is_method_error(reply, SD_BUS_ERROR_UNKNOWN_OBJECT) ? seat_lost(userdata)
                                                                                          : seat_failed(userdata, reply);
        return *name ? seat_found(userdata, path) : seat_lost(userdata);
}

static int on_session(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        Seat *seat = userdata;
        char user[64];
        const char *path;

        if (seat_answered(seat, reply) && sd_bus_message_read(reply, "o", &path) >= 0)
                return seat_found(seat, path);
        /* There is no logind; or one that is installed where init is not systemd, which alone starts it. */
        if (sd_bus_message_is_method_error(reply, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
            sd_bus_message_is_method_error(reply, "org.freedesktop.DBus.Error.Spawn.ChildExited"))
                return seat_lost(seat);
        snprintf(user, sizeof(user), LOGIND_PATH "/user/_%" PRIu32, seat->uid);
        return !sd_bus_message_is_method_error(reply, LOGIND ".NoSessionForPID") ||
                               seat_get(seat, user, LOGIND ".User", "Display", on_display) < 0
                       ? seat_failed(seat, reply) : 1;
}

static int on_pid(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        Seat *seat = userdata;
        uint32_t pid;

        if (!seat_answered(seat, reply) || sd_bus_message_read(reply, "u", &pid) < 0 ||
            sd_bus_call_method_async(seat->front->bus, &seat->call, LOGIND, LOGIND_PATH, LOGIND ".Manager",
                                     "GetSessionByPID", on_session, seat, "u", pid) < 0)
                return seat_failed(seat, reply);
        return 1;
}

int seat_watch(Front *front, uint32_t id, uint32_t uid, const char *sender) {
        Seat *seat = calloc(1, sizeof(*seat));

        if (!seat)
                return -ENOMEM;
        *seat = (Seat){.front = front, .id = id, .uid = uid, .next = front->seats};
        front->seats = seat;
        return sd_bus_call_method_async(front->bus, &seat->call, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "GetConnectionUnixProcessID", on_pid, seat, "s", sender);
}
