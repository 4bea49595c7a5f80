/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The front owns org.ringside.Helper1. It holds no capability, opens no file, and never blocks:
 * every question to the bus, to polkit and to the keeper is asynchronous.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "budget.h"
#include "keeper.h"

#define FRONT_NAME "org.ringside.Helper1"
#define FRONT_PATH "/org/ringside/Helper1"
#define FRONT_ERROR(name) FRONT_NAME ".Error." name
/* The documented enumeration (docs/dbus.md), beside org.freedesktop.DBus.Error.InvalidArgs. */
#define FRONT_ERROR_DENIED FRONT_ERROR("Denied")
#define FRONT_ERROR_NO_POLKIT FRONT_ERROR("NoPolkit")
#define FRONT_ERROR_BUDGET FRONT_ERROR("Budget")
#define FRONT_ERROR_LATER FRONT_ERROR("Later")
#define FRONT_ERROR_PENDING FRONT_ERROR("Pending")
#define FRONT_ERROR_NO_EVENT FRONT_ERROR("NoEvent")
#define FRONT_ERROR_FAILED FRONT_ERROR("Failed")
#define FRONT_ERROR_KERNEL FRONT_ERROR("Kernel")
#define FRONT_ERROR_NO_BTF FRONT_ERROR("NoBTF")
#define FRONT_ERROR_LOCKDOWN FRONT_ERROR("Lockdown")

#define FRONT_ACTION_OWN "org.ringside.helper1.profile-own"
#define FRONT_ACTION_KERNEL "org.ringside.helper1.profile-kernel"
#define FRONT_ACTION_SYSTEM "org.ringside.helper1.profile-system"

/* Calls waiting for an answer, of everybody together. */
#define FRONT_REQUESTS_MAX 64
/* Callers that are remembered, of everybody together; then the first is forgotten. */
#define FRONT_CALLERS_MAX 64

typedef struct Request Request;
typedef struct Seat Seat;

typedef struct FrontCaller {
        char name[256]; /* unique, the longest there is; "": none */
        uint32_t uid;
} FrontCaller;

typedef struct Front {
        const char *version; /* this and the next are properties on the bus */
        uint32_t protocol_version;
        sd_event *event;
        sd_bus *bus;
        int keeper_fd;
        Budget budget;
        uint32_t last_id;
        int32_t probe[RS_EVENTS_MAX]; /* errno for each EventType */
        const char *missing; /* the error that says why there can be no session at all, NULL: none is known */
        Request *requests[FRONT_REQUESTS_MAX];
        FrontCaller callers[FRONT_CALLERS_MAX];
        unsigned last_caller;
        Seat *seats; /* that are watched */
        sd_event_source *idle;
        bool named; /* kernel frames were granted: then it takes longer to be idle */
        sd_event_source *maps_timer;
        uint64_t maps_usec; /* what it was set to */
        bool maps_asked;
        bool maps_known; /* those of the helper before this one are charged */
        bool leaving; /* the name is being given back */
} Front;

/* keeper_fd is owned. Runs until idle, or the bus or the keeper is gone. Returns an exit status. */
int front_run(int keeper_fd);

/* request.c: OpenSession from the call to the reply. userdata: the front. */
int request_start(sd_bus_message *m, void *userdata, sd_bus_error *error);
Request *request_find(Front *front, uint32_t id);
void request_spawned(Request *request, int error);
/* seat.h: polkit may be asked now; and: it is refused, with this error. False: it has been answered already. */
void request_seated(Front *front, uint32_t id);
bool request_revoked(Front *front, uint32_t id, const char *name, const char *text);
void request_free_all(Front *front);
/* Called by requests when they are done. */
void front_touch(Front *front);
/*
 * m: a NameOwnerChanged. Returns who owns the name now, "": nobody; NULL where it is about another name,
 * or not from the bus: anybody may send a signal to us alone, and sd-bus does not look who has.
 */
const char *front_new_owner(sd_bus_message *m, const char *name);
/* NULL: it works here. Else why it does not. */
const char *front_event_problem(const Front *front, uint32_t event_id);
