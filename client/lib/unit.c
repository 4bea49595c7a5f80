/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the processes of a systemd unit are: its manager is asked for the unit's cgroup. Asked once: a unit that is
 * started again is in a cgroup of the same name, but it is another one; `ringside record` tells of that.
 */

#include <string.h>
#include <systemd/sd-bus.h>

#include "error.h"
#include "util.h"

#define MANAGER "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
/* Longest name of a unit, as systemd has it. */
#define NAME_MAX_LEN 255

/* Kinds of units, and the interface that tells the cgroup of those that have processes. */
static const struct {
        const char *suffix;
        const char *interface;
} kinds[] = {
        {".service", MANAGER ".Service"}, {".scope", MANAGER ".Scope"},   {".slice", MANAGER ".Slice"},
        {".socket", MANAGER ".Socket"},   {".mount", MANAGER ".Mount"},   {".swap", MANAGER ".Swap"},
        {".target", NULL},                {".timer", NULL},               {".path", NULL},
        {".device", NULL},                {".automount", NULL},
};

static bool find_kind(const char *name, const char **ret_interface) {
        const char *suffix = strrchr(name, '.');

        for (size_t i = 0; suffix && i < ELEMENTSOF(kinds); i++)
                if (strcmp(suffix, kinds[i].suffix) == 0) {
                        *ret_interface = kinds[i].interface;
                        return true;
                }
        return false;
}

static int open_bus(sd_bus **ret, bool user, RingsideError *error) {
        int r = user ? sd_bus_open_user(ret) : sd_bus_open_system(ret);

        if (r < 0)
                return error_set(error, RINGSIDE_E_NO_BUS,
                                 user ? "It belongs to a login: $XDG_RUNTIME_DIR or $DBUS_SESSION_BUS_ADDRESS says where it is." :
                                        "Name the cgroup itself with --cgroup.",
                                 "no %s bus to ask systemd on: %s", user ? "user" : "system", strerror(-r));
        return 0;
}

static int manager_error(const sd_bus_error *e, int r, const char *name, bool user, RingsideError *error) {
        static const char *const absent[] = {SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER};
        const char *option = user ? " --user" : "";
        bool no_systemd;
        char hint[512];

        if (sd_bus_error_has_name(e, MANAGER ".NoSuchUnit")) {
                snprintf(hint, sizeof(hint), "'systemctl%s status %s' says what there is; 'systemctl%s list-units' lists those that are loaded.",
                         option, name, option);
                return error_set(error, RINGSIDE_E_TARGET, hint, "the unit %s is not loaded", name);
        }
        /* Where another init runs, the bus has a stand-in that fails to start. */
        no_systemd = e->name && strstr(e->name, ".Spawn.");
        for (size_t i = 0; i < ELEMENTSOF(absent); i++)
                no_systemd |= sd_bus_error_has_name(e, absent[i]);
        if (no_systemd)
                return error_set(error, RINGSIDE_E_TARGET, "Name the cgroup itself with --cgroup.",
                                 "no systemd answers on the %s bus", user ? "user" : "system");
        return error_set(error, RINGSIDE_E_TARGET, NULL, "systemd does not tell of %s: %s", name,
                         e->message ? e->message : strerror(-r));
}

/* Nothing is in it: it does not run. */
static int not_running(sd_bus *bus, const char *path, const char *name, bool user, RingsideError *error) {
        _cleanup_free_ char *state = NULL;
        char hint[512];

        if (sd_bus_get_property_string(bus, MANAGER, path, MANAGER ".Unit", "ActiveState", NULL, &state) < 0)
                state = NULL;
        snprintf(hint, sizeof(hint), "Start it first: systemctl%s start %s", user ? " --user" : "", name);
        return error_set(error, RINGSIDE_E_TARGET, hint, "the unit %s is not running%s%s", name, state ? ": it is " : "",
                         state ? state : "");
}

static int ask(sd_bus *bus, const char *name, const char *interface, bool user, char **ret_cgroup, RingsideError *error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *cgroup = NULL;
        const char *path;
        int r;

        r = sd_bus_call_method(bus, MANAGER, MANAGER_PATH, MANAGER ".Manager", "GetUnit", &e, &reply, "s", name);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &path);
        if (r >= 0)
                r = sd_bus_get_property_string(bus, MANAGER, path, interface, "ControlGroup", &e, &cgroup);
        if (r < 0)
                return manager_error(&e, r, name, user, error);
        if (cgroup[0] != '/')
                return not_running(bus, path, name, user, error);
        *ret_cgroup = TAKE_PTR(cgroup);
        return 0;
}

int ringside_find_unit(const char *unit, bool user, char **ret_name, char **ret_cgroup, RingsideError *error) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *name = NULL;
        const char *interface = kinds[0].interface;
        int r;

        if (asprintf(&name, "%s%s", unit, find_kind(unit, &interface) ? "" : kinds[0].suffix) < 0) {
                name = NULL;
                return error_set(error, -ENOMEM, NULL, "out of memory");
        }
        if (!unit[0] || strlen(name) > NAME_MAX_LEN || strchr(unit, '/'))
                return error_set(error, RINGSIDE_E_INVALID, "'systemctl list-units' lists them.", "no unit is called '%s'", unit);
        if (!interface)
                return error_set(error, RINGSIDE_E_TARGET, "Name a service, scope or slice.",
                                 "the unit %s has no processes of its own", name);
        r = open_bus(&bus, user, error);
        if (r >= 0)
                r = ask(bus, name, interface, user, ret_cgroup, error);
        if (r < 0)
                return r;
        *ret_name = TAKE_PTR(name);
        return 0;
}
