/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <systemd/sd-bus.h>

#include "error.h"
#include "event-type.h"
#include "helper.h"
#include "unwind-table.h"
#include "util.h"

#define NAME "org.ringside.Helper1"
#define PATH "/org/ringside/Helper1"
/* More than any helper lists; the bus bounds the message, this bounds the array. */
#define EVENTS_MAX 256
#define MIB 1048576.0
/* How often, and for how long each time, a budget is waited for that may only just have become free. */
#define BUDGET_TRIES 3
#define BUDGET_WAIT_USEC (200 * 1000)
/*
 * The same for those who open one session after the other, or many at once: they get the next one when it is due.
 * Not all at the same moment.
 */
#define LATER_TRIES 10
#define LATER_WAIT_USEC (350 * 1000)

/* Names of org.ringside.Helper1.Error and of the bus itself, and what they mean to a caller. */
static const struct {
        const char *name;
        int code;
        const char *text; /* NULL: the error's own */
        const char *hint;
} bus_errors[] = {
        {NAME ".Error.Denied", RINGSIDE_E_DENIED, NULL,
         "An administrator can grant it: see POLKIT in ringside-helper(8)."},
        {NAME ".Error.NoPolkit", RINGSIDE_E_DENIED, NULL, "'ringside doctor' looks at polkit."},
        {NAME ".Error.Budget", RINGSIDE_E_BUDGET, NULL,
         "Ask for less (-F), or end another session; 'ringside doctor' shows the budgets."},
        {NAME ".Error.Later", RINGSIDE_E_BUDGET, NULL, "Try again then; one recording can take many programs: -- sh -c."},
        {NAME ".Error.Pending", RINGSIDE_E_BUDGET, NULL, "Answer or cancel that one, then try again."},
        {NAME ".Error.NoEvent", RINGSIDE_E_NO_EVENT, NULL, "'ringside events' lists what works here."},
        {NAME ".Error.Failed", RINGSIDE_E_PROTOCOL, NULL, "The journal of ringside-helper.service has more."},
        {SD_BUS_ERROR_INVALID_ARGS, RINGSIDE_E_INVALID, NULL, "Ask for what fits; 'ringside doctor' shows the budgets."},
        {SD_BUS_ERROR_SERVICE_UNKNOWN, RINGSIDE_E_NO_HELPER, "the system bus does not know " NAME,
         "Install ringside for the system; 'ringside doctor' looks at the installation."},
        {SD_BUS_ERROR_NAME_HAS_NO_OWNER, RINGSIDE_E_NO_HELPER, "the system bus does not know " NAME,
         "Install ringside for the system; 'ringside doctor' looks at the installation."},
        {SD_BUS_ERROR_ACCESS_DENIED, RINGSIDE_E_DENIED, "the bus does not let you speak to " NAME,
         "Its policy (dbus-1/system.d/org.ringside.Helper1.conf) is missing or changed."},
        {"System.Error.ENOTCONN", RINGSIDE_E_NO_BUS, "the bus broke off the connection",
         "Flatpak's filter does not get along with sd-bus; --socket=system-bus avoids it."},
        {SD_BUS_ERROR_NO_REPLY, RINGSIDE_E_NO_HELPER, "the helper went away while it was asked",
         "The journal of ringside-helper.service has more."},
};

/* What a session would say, said before there is one. */
static const struct {
        const char *name;
        uint32_t error;
} kernel_errors[] = {
        {NAME ".Error.Kernel", RS_ERROR_KERNEL},
        {NAME ".Error.NoBTF", RS_ERROR_NO_BTF},
        {NAME ".Error.Lockdown", RS_ERROR_LOCKDOWN},
};

/* Nobody was asked: that, too, could help. */
static void hint_at_question(RingsideError *error, const HelperRequest *request) {
        size_t n = strlen(error->hint);

        if (error->code == RINGSIDE_E_DENIED && !request->interactive && strstr(error->hint, "POLKIT"))
                (void) snprintf(error->hint + n, sizeof(error->hint) - n, " On a terminal, without --no-ask, you are asked.");
}

static int bus_error(RingsideError *error, const sd_bus_error *e, int r) {
        for (size_t i = 0; i < ELEMENTSOF(kernel_errors); i++)
                if (sd_bus_error_has_name(e, kernel_errors[i].name))
                        return helper_error(error, kernel_errors[i].error, 0);
        for (size_t i = 0; i < ELEMENTSOF(bus_errors); i++)
                if (sd_bus_error_has_name(e, bus_errors[i].name))
                        return error_set(error, bus_errors[i].code, bus_errors[i].hint, "%s",
                                         bus_errors[i].text ?: e->message);
        if (e->name && strstr(e->name, ".Spawn."))
                return error_set(error, RINGSIDE_E_NO_HELPER, "'ringside doctor' looks at the installation.",
                                 "the bus cannot start the helper: %s", e->message ?: e->name);
        if (e->name)
                return error_set(error, RINGSIDE_E_PROTOCOL, NULL, "the helper refuses: %s: %s", e->name,
                                 e->message ?: "");
        return error_set(error, r, NULL, "the system bus: %s", strerror(-r));
}

static int open_bus(sd_bus **ret, RingsideError *error) {
        int r = sd_bus_open_system(ret);

        if (r < 0)
                return error_set(error, RINGSIDE_E_NO_BUS,
                                 "Start dbus, or run as root with --helper=direct where there is none.",
                                 "no system bus: %s", strerror(-r));
        return 0;
}

static int append_options(sd_bus_message *m, const HelperRequest *request) {
        static const char *const kernel[] = {
                [RINGSIDE_KERNEL_QUIET] = "quiet",
                [RINGSIDE_KERNEL_ASK] = "ask",
                [RINGSIDE_KERNEL_NO] = "no",
        };
        const struct rs_grant *grant = &request->grant;
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "{sv}{sv}{sv}{sv}{sv}{sv}", "scope", "s",
                                  grant->grants & RS_GRANT_SYSTEM ? "system" : "own", "kernel", "s",
                                  kernel[request->kernel], "targets", "b", !!(grant->grants & RS_GRANT_TARGETS),
                                  "ring-size", "t", grant->ring_size, "table-size", "t", grant->table_size, "stack-depth", "u", grant->max_frames);
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "s", "events");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'v', "a(sbt)");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(sbt)");
        if (r < 0)
                return r;
        for (size_t i = 0; i < grant->nr_events; i++) {
                const EventType *type = event_type_by_id(grant->events[i].id);

                r = sd_bus_message_append(m, "(sbt)", type->name, grant->events[i].by_period, grant->events[i].value);
                if (r < 0)
                        return r;
        }
        /* array, variant, entry, dictionary */
        for (int i = 0; i < 4; i++) {
                r = sd_bus_message_close_container(m);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int call_open(sd_bus *bus, const HelperRequest *request, sd_bus_error *e, sd_bus_message **ret_reply) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_call(bus, &m, NAME, PATH, NAME, "OpenSession");
        if (r < 0)
                return r;
        r = sd_bus_message_set_allow_interactive_authorization(m, request->interactive);
        if (r < 0)
                return r;
        r = append_options(m, request);
        if (r < 0)
                return r;
        /* However long it takes to type a password. */
        return sd_bus_call(bus, m, UINT64_MAX, e, ret_reply);
}

/* What would fit, by the option that asks for it. The rest of a session's memory has none. */
static void memory_hint(char *dst, size_t size, const HelperRequest *request) {
        uint64_t ring = request->grant.ring_size, table = request->grant.table_size;
        uint64_t rest = request->memory_wanted - MIN(request->memory_wanted, ring + table);
        uint64_t room = request->memory_left - MIN(request->memory_left, rest);
        const char *fp = "--unwind=fp ";

        while (table > RS_TABLE_SIZE_MIN && ring + table > room)
                table /= 2;
        if (table > 0 && ring + table <= room) {
                (void) snprintf(dst, size, "--table-size=%" PRIu64 "M would fit, or end another session.", table >> 20);
                return;
        }
        if (ring <= room) {
                (void) snprintf(dst, size, "%swould fit, or end another session.", fp);
                return;
        }
        while (ring > RS_RING_SIZE_MIN && ring > room)
                ring /= 2;
        if (ring <= room)
                (void) snprintf(dst, size, "%s--ring-size=%" PRIu64 "%c would fit, or end another session.", fp,
                                ring >> (ring >> 20 ? 20 : 10), ring >> 20 ? 'M' : 'K');
        else
                (void) snprintf(dst, size, "No session fits, however small: end another one.");
}

/*
 * "memory of one user's sessions: 11514096 bytes wanted, 9485920 of 100663296 left", in units for people. Of any other text
 * it is only known that it speaks of memory.
 */
static int budget_error(HelperRequest *request, const sd_bus_error *e, RingsideError *error) {
        const char *colon = e->message ? strchr(e->message, ':') : NULL;
        char hint[sizeof(error->hint)];
        uint64_t limit;

        request->waited = true;
        request->short_of_memory = e->message && strncmp(e->message, "memory ", strlen("memory ")) == 0;
        if (!request->short_of_memory || !colon ||
            sscanf(colon, ": %" SCNu64 " bytes wanted, %" SCNu64 " of %" SCNu64 " left", &request->memory_wanted,
                   &request->memory_left, &limit) != 3) {
                request->memory_wanted = request->memory_left = 0;
                return bus_error(error, e, -EDQUOT);
        }
        memory_hint(hint, sizeof(hint), request);
        return error_set(error, RINGSIDE_E_BUDGET, hint, "%.*s: %.1f MiB wanted, %.1f of %.1f MiB left",
                         (int) (colon - e->message), e->message, request->memory_wanted / MIB, request->memory_left / MIB,
                         limit / MIB);
}

int helper_open_bus(HelperRequest *request, int *ret_fd, RingsideError *error) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        int fd, r;

        r = open_bus(&bus, error);
        if (r < 0)
                return r;
        for (unsigned budget = 0, later = 0;;) {
                r = call_open(bus, request, &e, &reply);
                /* The kernel takes its time to free the ring of a session that has just ended. */
                if (r < 0 && sd_bus_error_has_name(&e, NAME ".Error.Budget") && !request->waited && budget++ < BUDGET_TRIES)
                        (void) usleep(BUDGET_WAIT_USEC);
                else if (r < 0 && later++ < LATER_TRIES &&
                         (sd_bus_error_has_name(&e, NAME ".Error.Later") ||
                          sd_bus_error_has_name(&e, NAME ".Error.Pending")))
                        (void) usleep(LATER_WAIT_USEC + (getpid() & 15) * (LATER_WAIT_USEC / 16));
                else
                        break;
                sd_bus_error_free(&e);
        }
        if (r < 0 && sd_bus_error_has_name(&e, NAME ".Error.Budget"))
                return budget_error(request, &e, error);
        if (r < 0) {
                r = bus_error(error, &e, r);
                hint_at_question(error, request);
                return r;
        }
        r = sd_bus_message_read(reply, "h", &fd);
        if (r < 0)
                return error_set(error, RINGSIDE_E_PROTOCOL, NULL, "the helper's reply holds no socket");
        /* The message closes its own. */
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return error_set(error, -errno, NULL, "no file descriptor left: %s", strerror(errno));
        *ret_fd = fd;
        return 0;
}

int helper_list_events_bus(RingsideEventInfo **ret_events, size_t *ret_n, RingsideError *error) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_free_ RingsideEventInfo *events = NULL;
        const char *name, *unit, *category, *description, *reason;
        int available, r;
        size_t n = 0;

        r = open_bus(&bus, error);
        if (r < 0)
                return r;
        r = sd_bus_call_method(bus, NAME, PATH, NAME, "ListEvents", &e, &reply, NULL);
        if (r < 0)
                return bus_error(error, &e, r);
        events = calloc(EVENTS_MAX, sizeof(*events));
        if (!events)
                return error_set(error, -ENOMEM, NULL, "out of memory");
        r = sd_bus_message_enter_container(reply, 'a', "(ssssbs)");
        while (r >= 0 && n < EVENTS_MAX &&
               (r = sd_bus_message_read(reply, "(ssssbs)", &name, &unit, &category, &description, &available,
                                        &reason)) > 0) {
                RingsideEventInfo *info = &events[n++];

                ringside_escape(info->name, sizeof(info->name), name);
                ringside_escape(info->unit, sizeof(info->unit), unit);
                ringside_escape(info->category, sizeof(info->category), category);
                ringside_escape(info->description, sizeof(info->description), description);
                ringside_escape(info->reason, sizeof(info->reason), reason);
                info->available = available;
        }
        if (r < 0)
                return error_set(error, RINGSIDE_E_PROTOCOL, NULL, "the helper's list of events makes no sense");
        *ret_events = TAKE_PTR(events);
        *ret_n = n;
        return 0;
}
