/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "front.h"

#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "config.h"
#include "event-type.h"
#include "log.h"
#include "packet.h"
#include "privileges.h"
#include "sandbox.h"
#include "seat.h"
#include "util.h"

/*
 * Rings that a client still has mapped after its session are looked for: soon, since the kernel frees
 * the others within moments and the next session may need their budget, then ever more seldom.
 */
#define MAPS_USEC_MIN (50ULL * 1000)
#define MAPS_USEC_MAX (5ULL * 1000000)

/* ---- events ---- */

const char *front_event_problem(const Front *front, uint32_t event_id) {
        for (size_t i = 0; i < event_type_count(); i++)
                if (event_type_get(i)->id == event_id)
                        return event_type_problem(front->probe[i]);
        return "unknown event";
}

static int method_list_events(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        Front *front = userdata;
        int r;

        if ((r = sd_bus_message_new_method_return(m, &reply)) < 0 ||
            (r = sd_bus_message_open_container(reply, 'a', "(ssssbs)")) < 0)
                return r;
        for (size_t i = 0; i < event_type_count(); i++) {
                const EventType *type = event_type_get(i);
                const char *problem = front_event_problem(front, type->id);

                r = sd_bus_message_append(reply, "(ssssbs)", type->name, type->unit, type->category, type->description,
                                          !problem, problem ?: "");
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_send(front->bus, reply, NULL);
}

/* ---- the object ---- */

static int get_limits(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface,
                      _unused_ const char *property, sd_bus_message *reply, void *userdata,
                      _unused_ sd_bus_error *error) {
        const Front *front = userdata;

        return sd_bus_message_append(
                reply, "a{st}", 12, "sessions", (uint64_t) BUDGET_SESSIONS_USER, "sessions-machine", (uint64_t) BUDGET_SESSIONS_MAX,
                "rings", (uint64_t) BUDGET_RINGS_USER, "opens", (uint64_t) BUDGET_OPENS_USER, "opens-minute",
                (uint64_t) BUDGET_OPENS_MINUTE, "rate-targets", (uint64_t) BUDGET_TASK_RATE_USER, "rate-wide",
                (uint64_t) BUDGET_WIDE_RATE_USER, "rate-wide-machine", (uint64_t) BUDGET_WIDE_RATE, "rate-system",
                (uint64_t) BUDGET_SYSTEM_RATE, "rate-session", front->budget.rate_max, "memory",
                (uint64_t) BUDGET_MEMORY_USER, "memory-machine", front->budget.memory_max);
}

static const sd_bus_vtable vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD_WITH_ARGS("OpenSession", SD_BUS_ARGS("a{sv}", options), SD_BUS_RESULT("h", socket),
                                request_start, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListEvents", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ssssbs)", events), method_list_events,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_PROPERTY("Version", "s", NULL, offsetof(Front, version), SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("ProtocolVersion", "u", NULL, offsetof(Front, protocol_version), SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Limits", "a{st}", get_limits, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_VTABLE_END,
};

const char *front_new_owner(sd_bus_message *m, const char *name) {
        const char *sender = sd_bus_message_get_sender(m), *of, *owner;

        if (!sender || strcmp(sender, "org.freedesktop.DBus") != 0 ||
            sd_bus_message_read(m, "sss", &of, NULL, &owner) < 0 || strcmp(of, name) != 0)
                return NULL;
        return owner;
}

/* ---- idle ---- */

static bool front_is_idle(const Front *front) {
        for (size_t i = 0; i < FRONT_REQUESTS_MAX; i++)
                if (front->requests[i])
                        return false;
        /* Memory of ended sessions is remembered by nobody but us. */
        return budget_count(&front->budget) == 0 && !budget_has_ended(&front->budget);
}

void front_touch(Front *front) {
        if (front->idle)
                (void) sd_event_source_set_time_relative(front->idle, front->named ? IDLE_USEC_NAMES : IDLE_USEC);
}

/* Calls that came before the name was gone are all here now; later ones start a new helper. */
static int on_released(_unused_ sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        Front *front = userdata;

        front->leaving = false;
        if (front_is_idle(front))
                return sd_event_exit(front->event, 0);
        return sd_bus_request_name_async(front->bus, NULL, FRONT_NAME, 0, NULL, NULL);
}

static int on_idle(sd_event_source *source, _unused_ uint64_t usec, void *userdata) {
        Front *front = userdata;
        int r;

        if (front_is_idle(front) && !front->leaving) {
                front->leaving = true;
                r = sd_bus_release_name_async(front->bus, NULL, FRONT_NAME, on_released, front);
                if (r < 0)
                        return r;
        }
        r = sd_event_source_set_time_relative(source, front->named ? IDLE_USEC_NAMES : IDLE_USEC);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- keeper ---- */

static int front_watch_maps(Front *front, uint64_t usec) {
        front->maps_usec = usec;
        return sd_event_source_set_time_relative(front->maps_timer, usec) ?:
               sd_event_source_set_enabled(front->maps_timer, SD_EVENT_ONESHOT);
}

static int on_maps_timer(_unused_ sd_event_source *source, _unused_ uint64_t usec, void *userdata) {
        const struct keeper_request request = {.op = KEEPER_MAPS};
        Front *front = userdata;

        /* The next end of a session sets it again. */
        if (!budget_has_ended(&front->budget))
                return 0;
        if (!front->maps_asked)
                front->maps_asked = packet_send(front->keeper_fd, &request, sizeof(request), NULL, 0, MSG_DONTWAIT) >= 0;
        return front_watch_maps(front, MIN(front->maps_usec * 2, MAPS_USEC_MAX));
}

static void front_take_report(Front *front, const struct keeper_report *report) {
        Request *request;
        uint64_t now;

        switch (report->op) {
        case KEEPER_SPAWN:
                if (report->error != 0) {
                        budget_release(&front->budget, report->id);
                        seat_forget(front, report->id);
                }
                request = request_find(front, report->id);
                if (request)
                        request_spawned(request, report->error);
                break;
        case KEEPER_ENDED:
                if (sd_event_now(front->event, CLOCK_MONOTONIC, &now) >= 0)
                        budget_end(&front->budget, report->id, report->n, now);
                seat_forget(front, report->id);
                log_line(LOG_INFO, "ended: session %u", report->id);
                /* Not put off by each of many. */
                if (front->maps_usec > MAPS_USEC_MIN || sd_event_source_get_enabled(front->maps_timer, NULL) <= 0)
                        (void) front_watch_maps(front, MAPS_USEC_MIN);
                break;
        case KEEPER_MAPS:
                front->maps_asked = false;
                if (report->error < 0)
                        break;
                budget_take_maps(&front->budget, report->maps, MIN(report->n, KEEPER_MAPS_MAX), !front->maps_known);
                front->maps_known = true;
                break;
        default:
                break;
        }
        front_touch(front);
}

static int on_keeper(_unused_ sd_event_source *source, int fd, _unused_ uint32_t events, void *userdata) {
        struct keeper_report report;
        Front *front = userdata;
        Packet packet;
        int r;

        r = packet_receive(fd, &report, sizeof(report), 0, MSG_DONTWAIT, &packet);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0 || packet.size != sizeof(report)) {
                log_line(LOG_ERR, "the keeper has gone");
                return sd_event_exit(front->event, EXIT_FAILURE);
        }
        front_take_report(front, &report);
        return 0;
}

/* Before there is a bus, so it may wait. */
static int front_probe(Front *front) {
        const struct keeper_request request = {.op = KEEPER_PROBE};
        struct keeper_report report;
        Packet packet;
        int r;

        r = packet_send(front->keeper_fd, &request, sizeof(request), NULL, 0, 0);
        if (r < 0)
                return r;
        r = packet_receive(front->keeper_fd, &report, sizeof(report), 0, 0, &packet);
        if (r <= 0 || packet.size != sizeof(report) || report.op != KEEPER_PROBE)
                return -ECONNRESET;
        memcpy(front->probe, report.probe, sizeof(front->probe));
        front->missing = report.error == RS_ERROR_NO_BTF     ? FRONT_ERROR_NO_BTF
                         : report.error == RS_ERROR_LOCKDOWN ? FRONT_ERROR_LOCKDOWN
                         : report.error == RS_ERROR_KERNEL   ? FRONT_ERROR_KERNEL
                                                             : NULL;
        if (front->missing)
                log_line(LOG_WARNING, "there can be no session on this kernel: %s", front->missing);
        return 0;
}

/* ---- start ---- */

static int front_init(Front *front) {
        int r;

        budget_init(&front->budget);
        /* Maps are found by their session's number: it must not be that of another helper, or of the one before. */
        if (getrandom(&front->last_id, sizeof(front->last_id), 0) != sizeof(front->last_id))
                return -EIO;
        front->last_id &= 0x7fff0000;
        if ((r = front_probe(front)) < 0 || (r = sd_event_new(&front->event)) < 0 ||
            (r = sd_event_add_io(front->event, NULL, front->keeper_fd, EPOLLIN, on_keeper, front)) < 0 ||
            (r = sd_event_add_time_relative(front->event, &front->idle, CLOCK_MONOTONIC, IDLE_USEC, 0, on_idle,
                                            front)) < 0 ||
            (r = sd_event_add_time_relative(front->event, &front->maps_timer, CLOCK_MONOTONIC, MAPS_USEC_MIN, 0,
                                            on_maps_timer, front)) < 0 ||
            (r = sd_bus_open_system(&front->bus)) < 0 || (r = sandbox_enter(SANDBOX_FRONT)) < 0 ||
            /* The bus is gone, and with it whoever could be asked: so are we, and the sessions after us. */
            (r = sd_bus_set_exit_on_disconnect(front->bus, true)) < 0 ||
            (r = sd_bus_add_object_vtable(front->bus, NULL, FRONT_PATH, FRONT_NAME, vtable, front)) < 0 ||
            (r = sd_bus_attach_event(front->bus, front->event, 0)) < 0)
                return r;
        return sd_bus_request_name_async(front->bus, NULL, FRONT_NAME, 0, NULL, NULL);
}

int front_run(int keeper_fd) {
        Front front = {.keeper_fd = keeper_fd, .maps_usec = MAPS_USEC_MIN, .version = RINGSIDE_VERSION, .protocol_version = RS_PROTOCOL_VERSION};
        int r;

        r = privileges_drop();
        if (r >= 0)
                r = front_init(&front);
        if (r < 0)
                log_line(LOG_ERR, "cannot start: %s", strerror(-r));
        else
                r = sd_event_loop(front.event);
        request_free_all(&front);
        seat_forget(&front, 0);
        sd_event_source_unref(front.idle);
        sd_event_source_unref(front.maps_timer);
        sd_bus_flush_close_unref(front.bus);
        sd_event_unref(front.event);
        close_fd(front.keeper_fd);
        return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
