/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a session needs, looked at piece by piece, without opening one. Each check reads the real thing;
 * the directory in front of /proc, /sys and /usr paths is empty but in tests.
 */

#include "check.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <systemd/sd-bus.h>

#include "error.h"
#include "helper.h"
#include "util.h"

#define HELPER_NAME "org.ringside.Helper1"

static void check_set(RingsideCheck *check, enum RingsideCheckResult result, const char *hint, const char *format, ...)
        _printf_(4, 5);

static void check_set(RingsideCheck *check, enum RingsideCheckResult result, const char *hint, const char *format,
                      ...) {
        char text[sizeof(check->text)];
        va_list args;

        va_start(args, format);
        (void) vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        check->result = result;
        ringside_escape(check->text, sizeof(check->text), text);
        (void) snprintf(check->hint, sizeof(check->hint), "%s", hint ?: "");
}

static int open_below(const char *root, const char *path) {
        char full[512];

        (void) snprintf(full, sizeof(full), "%s%s", root, path);
        return open(full, O_RDONLY | O_CLOEXEC);
}

/* -1: unreadable. */
static ssize_t read_below(const char *root, const char *path, char *text, size_t size) {
        _cleanup_close_ int fd = open_below(root, path);
        ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

        text[MAX(n, 0)] = 0;
        return n;
}

static void check_kernel(RingsideCheck *check, const char *root) {
        char lockdown[128], release[128] = "";
        struct utsname name;

        if (read_below(root, "/proc/sys/kernel/osrelease", release, sizeof(release)) <= 0 && uname(&name) == 0)
                (void) snprintf(release, sizeof(release), "%s", name.release);
        release[strcspn(release, "\n")] = 0;
        if (helper_kernel_is_old(release))
                check_set(check, RINGSIDE_CHECK_FAILED,
                          "Linux 6.1 or newer is needed, or a distribution's that has the BPF of one.", "Linux %s", release);
        else if (read_below(root, "/sys/kernel/security/lockdown", lockdown, sizeof(lockdown)) > 0 &&
                 strstr(lockdown, "[confidentiality]"))
                check_set(check, RINGSIDE_CHECK_FAILED, "Boot with lockdown=integrity or without.",
                          "Linux %s, locked down (confidentiality): no BPF may read it", release);
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "Linux %s", release);
}

static void check_btf(RingsideCheck *check, const char *root) {
        _cleanup_close_ int fd = open_below(root, "/sys/kernel/btf/vmlinux");

        if (fd < 0)
                check_set(check, RINGSIDE_CHECK_FAILED, "The kernel needs CONFIG_DEBUG_INFO_BTF, as distributions' have.",
                          "no type information: /sys/kernel/btf/vmlinux: %s", strerror(errno));
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "type information in /sys/kernel/btf/vmlinux");
}

static const RingsideEventInfo *find_event(const RingsideEventInfo *events, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(events[i].name, name) == 0)
                        return &events[i];
        return NULL;
}

/* Whether the kernel forbids the helper even cpu-clock, which every machine has. */
static bool events_are_forbidden(const RingsideEventInfo *events, size_t n) {
        const RingsideEventInfo *clock = find_event(events, n, "cpu-clock");

        return clock && !clock->available && strstr(clock->reason, "perf_event_paranoid");
}

void check_paranoid(RingsideCheck *check, const char *root, const RingsideEventInfo *events, size_t n) {
        char text[32];
        long value;

        if (read_below(root, "/proc/sys/kernel/perf_event_paranoid", text, sizeof(text)) <= 0) {
                check_set(check, RINGSIDE_CHECK_FAILED, "The kernel needs CONFIG_PERF_EVENTS.",
                          "no /proc/sys/kernel/perf_event_paranoid");
                return;
        }
        value = strtol(text, NULL, 10);
        if (value > 2 && events_are_forbidden(events, n))
                check_set(check, RINGSIDE_CHECK_FAILED,
                          "Give the helper CAP_SYS_ADMIN, as its unit does: this kernel wants it for perf_event_open.",
                          "kernel.perf_event_paranoid is %ld, and the helper may open no event", value);
        else if (value > 2)
                check_set(check, RINGSIDE_CHECK_NOTE,
                          "The helper needs CAP_SYS_ADMIN for perf_event_open here, and its unit gives it.",
                          "kernel.perf_event_paranoid is %ld", value);
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "kernel.perf_event_paranoid is %ld", value);
}

/*
 * Whether an owner is nobody this process knows: in a user namespace that is how the kernel shows every user without a
 * number there, and root may be one of these.
 */
static bool is_unmapped(const char *root, uid_t uid) {
        unsigned long long first, outside, n, overflow = 65534;
        char text[4096];

        if (read_below(root, "/proc/sys/kernel/overflowuid", text, sizeof(text)) > 0)
                overflow = strtoull(text, NULL, 10);
        if (uid != overflow || read_below(root, "/proc/self/uid_map", text, sizeof(text)) < 0)
                return false;
        /* A namespace that has a number for everybody is the machine's own, or as good: then it is a user of this number. */
        for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
                if (sscanf(line, "%llu %llu %llu", &first, &outside, &n) == 3 && first <= uid && uid - first < n)
                        return false;
        return true;
}

static void check_installation(RingsideCheck *check, const char *root) {
        static const char *const files[] = {
                "/usr/share/dbus-1/system-services/" HELPER_NAME ".service",
                "/usr/share/dbus-1/system.d/" HELPER_NAME ".conf",
                "/usr/share/polkit-1/actions/org.ringside.helper1.policy",
        };
        char path[512];
        struct stat st;

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                (void) snprintf(path, sizeof(path), "%s%s", root, files[i]);
                if (stat(path, &st) < 0) {
                        check_set(check, RINGSIDE_CHECK_FAILED,
                                  "Install with meson install --prefix=/usr: bus and polkit look nowhere else.",
                                  "%s: %s", files[i], strerror(errno));
                        return;
                }
        }
        (void) snprintf(path, sizeof(path), "%s%s", root, helper_path());
        if (stat(path, &st) < 0)
                check_set(check, RINGSIDE_CHECK_FAILED, "Install ringside completely.", "%s: %s", helper_path(),
                          strerror(errno));
        else if ((st.st_mode & 07777) == 0711 && is_unmapped(root, st.st_uid))
                check_set(check, RINGSIDE_CHECK_NOTE, NULL,
                          "all files are there; whose they are cannot be judged in this user namespace");
        else if (st.st_uid != 0 || (st.st_mode & 07777) != 0711)
                check_set(check, RINGSIDE_CHECK_FAILED,
                          "chown root:root and chmod 0711: a helper that its own user can read can be traced.",
                          "%s has mode %04o, owner %u", helper_path(), st.st_mode & 07777, st.st_uid);
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "helper, bus and polkit files are in place");
}

/* ---- over the bus ---- */

static void check_bus(RingsideCheck *check, sd_bus **ret) {
        int r = sd_bus_open_system(ret);

        if (r < 0)
                check_set(check, geteuid() == 0 ? RINGSIDE_CHECK_NOTE : RINGSIDE_CHECK_FAILED,
                          "Start dbus; without it only root (or a process with CAP_BPF and CAP_PERFMON) can record.",
                          "no system bus: %s", strerror(-r));
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "the system bus answers");
}

static void no_bus(RingsideCheck *check) {
        check_set(check, geteuid() == 0 ? RINGSIDE_CHECK_NOTE : RINGSIDE_CHECK_FAILED, NULL,
                  "cannot be looked at without the bus");
}

static void check_helper(RingsideCheck *check, sd_bus *bus) {
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *version = NULL;
        int r;

        r = sd_bus_get_property_string(bus, HELPER_NAME, "/org/ringside/Helper1", HELPER_NAME, "Version", &e, &version);
        if (r < 0)
                check_set(check, RINGSIDE_CHECK_FAILED,
                          "systemctl status ringside-helper, or the bus's log, has more.",
                          HELPER_NAME " does not start: %s", e.message ?: strerror(-r));
        else if (strcmp(version, ringside_version()) != 0)
                check_set(check, RINGSIDE_CHECK_NOTE, "Restart it (systemctl restart ringside-helper).",
                          "helper %s, library %s", version, ringside_version());
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "helper %s answers", version);
}

static void check_budget(RingsideCheck *check, sd_bus *bus) {
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        uint64_t value, sessions = 0, targets = 0, wide = 0, memory = 0;
        const char *key;
        int r;

        r = sd_bus_get_property(bus, HELPER_NAME, "/org/ringside/Helper1", HELPER_NAME, "Limits", &e, &reply, "a{st}");
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'a', "{st}");
        while (r >= 0 && (r = sd_bus_message_read(reply, "{st}", &key, &value)) > 0) {
                if (strcmp(key, "sessions") == 0)
                        sessions = value;
                else if (strcmp(key, "rate-targets") == 0)
                        targets = value;
                else if (strcmp(key, "rate-wide") == 0)
                        wide = value;
                else if (strcmp(key, "memory") == 0)
                        memory = value;
        }
        if (r < 0)
                check_set(check, RINGSIDE_CHECK_FAILED, NULL, "the helper does not tell its budgets: %s",
                          e.message ?: strerror(-r));
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL,
                          "a user has %lu sessions, %lu Hz with targets, %lu Hz without, %lu MiB", (long) sessions,
                          (long) targets, (long) wide, (long) (memory >> 20));
}

/* Without profile-own there is nothing to have; what the others open, one can do without. */
static const struct {
        const char *action;
        enum RingsideCheckResult denied;
        const char *asked; /* what to do where a question has to be answered */
} actions[] = {
        { "profile-own", RINGSIDE_CHECK_FAILED,
          "You are asked on a terminal or a desktop; see POLKIT in ringside-helper(8) for a rule." },
        { "profile-kernel", RINGSIDE_CHECK_NOTE, "'ringside record --kernel' asks; without, time in the kernel is [kernel]." },
        { "profile-system", RINGSIDE_CHECK_NOTE, "'ringside record -a' asks, for an administrator." },
};

/* Asks about ourselves, without a dialog, as anybody may. */
static void check_action(RingsideCheck *check, sd_bus *bus, size_t i) {
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        const char *name = NULL, *action = actions[i].action;
        int authorized = 0, challenge = 0, r;
        char id[64];

        (void) snprintf(id, sizeof(id), "org.ringside.helper1.%s", action);
        r = sd_bus_get_unique_name(bus, &name);
        if (r >= 0)
                r = sd_bus_call_method(bus, "org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority",
                                       "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization", &e, &reply,
                                       "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s", name, id, 0, 0U, "");
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'r', "bba{ss}");
        if (r >= 0)
                r = sd_bus_message_read(reply, "bb", &authorized, &challenge);
        if (r < 0)
                check_set(check, RINGSIDE_CHECK_FAILED,
                          "Install polkitd, and the policy file org.ringside.helper1.policy.",
                          "polkit does not answer: %s", e.message ?: strerror(-r));
        else if (authorized)
                check_set(check, RINGSIDE_CHECK_OK, NULL, "%s is granted to you", action);
        else if (challenge)
                check_set(check, RINGSIDE_CHECK_NOTE, actions[i].asked, "%s needs a password each time", action);
        else
                check_set(check, actions[i].denied, "An administrator can grant it: see POLKIT in ringside-helper(8).",
                          "%s is denied to you", action);
}

/* Whether the kernel tells the helper the names of its functions. */
static void check_kernel_names(RingsideCheck *check, const char *root) {
        char text[32];

        if (read_below(root, "/proc/sys/kernel/kptr_restrict", text, sizeof(text)) <= 0)
                check_set(check, RINGSIDE_CHECK_NOTE, NULL, "not known: no /proc/sys/kernel/kptr_restrict");
        else if (strtol(text, NULL, 10) >= 2)
                check_set(check, RINGSIDE_CHECK_NOTE,
                          "'sysctl kernel.kptr_restrict=1' as root lets the helper read them; nobody else sees them then.",
                          "kernel.kptr_restrict is %ld: kernel frames have no names", strtol(text, NULL, 10));
        else
                check_set(check, RINGSIDE_CHECK_OK, NULL, "kernel.kptr_restrict is %ld: kernel frames can have names",
                          strtol(text, NULL, 10));
}

static void check_pmu(RingsideCheck *check, const RingsideEventInfo *events, size_t n, const RingsideError *error) {
        const RingsideEventInfo *cycles = find_event(events, n, "cpu-cycles");

        if (!events)
                check_set(check, RINGSIDE_CHECK_NOTE, NULL, "not known: %s", error->text);
        else if (cycles && cycles->available)
                check_set(check, RINGSIDE_CHECK_OK, NULL, "hardware counters work");
        else
                check_set(check, RINGSIDE_CHECK_NOTE, "cpu-clock is used instead, a timer that works everywhere.",
                          "no hardware counters (cpu-cycles)");
}

/* ---- all of them ---- */

enum {
        KERNEL,
        BTF,
        PARANOID,
        KERNEL_NAMES,
        INSTALLATION,
        BUS,
        HELPER,
        POLKIT,
        PROFILE_KERNEL,
        PROFILE_SYSTEM,
        PMU,
        BUDGET,
        CHECK_MAX
};

static void check_over_bus(RingsideCheck *checks) {
        static const unsigned needs_bus[] = { HELPER, POLKIT, PROFILE_KERNEL, PROFILE_SYSTEM, BUDGET };
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;

        check_bus(&checks[BUS], &bus);
        for (size_t i = 0; !bus && i < ELEMENTSOF(needs_bus); i++)
                no_bus(&checks[needs_bus[i]]);
        if (!bus)
                return;
        check_helper(&checks[HELPER], bus);
        for (size_t i = 0; i < ELEMENTSOF(actions); i++)
                check_action(&checks[POLKIT + i], bus, i);
        check_budget(&checks[BUDGET], bus);
}

int check_all(const char *root, RingsideCheck **ret_checks, size_t *ret_n) {
        static const char *const names[CHECK_MAX] = {
                [KERNEL] = "kernel",
                [BTF] = "btf",
                [PARANOID] = "paranoid",
                [KERNEL_NAMES] = "kernel-names",
                [INSTALLATION] = "installation",
                [BUS] = "bus",
                [HELPER] = "helper",
                [POLKIT] = "polkit",
                [PROFILE_KERNEL] = "profile-kernel",
                [PROFILE_SYSTEM] = "profile-system",
                [PMU] = "pmu",
                [BUDGET] = "budget",
        };
        RingsideCheck *checks = calloc(CHECK_MAX, sizeof(*checks));
        _cleanup_free_ RingsideEventInfo *events = NULL;
        RingsideError error = {};
        size_t n_events = 0;

        if (!checks)
                return -ENOMEM;
        /* Where this fails the checks of what it needs say why. */
        (void) ringside_list_events(RINGSIDE_HELPER_AUTO, &events, &n_events, &error);
        for (size_t i = 0; i < CHECK_MAX; i++)
                (void) snprintf(checks[i].name, sizeof(checks[i].name), "%s", names[i]);
        check_kernel(&checks[KERNEL], root);
        check_btf(&checks[BTF], root);
        check_paranoid(&checks[PARANOID], root, events, n_events);
        check_kernel_names(&checks[KERNEL_NAMES], root);
        check_installation(&checks[INSTALLATION], root);
        check_over_bus(checks);
        check_pmu(&checks[PMU], events, n_events, &error);
        *ret_checks = checks;
        *ret_n = CHECK_MAX;
        return 0;
}

int ringside_check_system(RingsideCheck **ret_checks, size_t *ret_n) {
        return check_all("", ret_checks, ret_n);
}
