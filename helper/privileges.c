/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "util.h"

static inline void cap_freep(cap_t *caps) {
        if (*caps)
                cap_free(*caps);
}

int privileges_seal(void) {
        const struct rlimit none = {};

        /* The unit does the same, and then does not let us. */
        if (setrlimit(RLIMIT_CORE, &none) < 0 && errno != EPERM)
                return -errno;
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

bool privileges_need_sys_admin(void) {
        _cleanup_close_ int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
        char text[16] = "";

        /* Unreadable: no such knob, or hidden from us; then the kernel will tell. */
        return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strtol(text, NULL, 10) > 2;
}

/* Exactly these. */
static int set_caps(const cap_value_t *permitted, int n_permitted, const cap_value_t *effective, int n_effective,
                    const cap_value_t *inheritable, int n_inheritable) {
        _cleanup_(cap_freep) cap_t caps = cap_init();

        if (!caps)
                return -ENOMEM;
        /* libcap takes an empty list for a mistake. */
        return (n_permitted > 0 && cap_set_flag(caps, CAP_PERMITTED, n_permitted, permitted, CAP_SET) < 0) ||
                               (n_effective > 0 && cap_set_flag(caps, CAP_EFFECTIVE, n_effective, effective, CAP_SET) < 0) ||
                               (n_inheritable > 0 && cap_set_flag(caps, CAP_INHERITABLE, n_inheritable, inheritable, CAP_SET) < 0) ||
                               cap_set_proc(caps) < 0
                       ? -errno : 0;
}

static bool have_permitted(cap_value_t value) {
        _cleanup_(cap_freep) cap_t caps = cap_get_proc();
        cap_flag_value_t on = CAP_CLEAR;

        return caps && cap_get_flag(caps, value, CAP_PERMITTED, &on) == 0 && on == CAP_SET;
}

/* Only where CAP_SETPCAP is there: root has it, a unit's own bounding set has done it already. */
static int drop_bounding(bool keep_sys_admin) {
        if (!have_permitted(CAP_SETPCAP))
                return 0;
        for (cap_value_t c = 0; c <= cap_max_bits() - 1; c++)
                if (c != CAP_BPF && c != CAP_PERFMON && (c != CAP_SYS_ADMIN || !keep_sys_admin) &&
                    cap_get_bound(c) == 1 && cap_drop_bound(c) < 0)
                        return -errno;
        return 0;
}

static int leave_root(void) {
        struct passwd *user = getpwnam(PRIVILEGES_USER);

        if (!user || user->pw_uid == 0 || user->pw_gid == 0)
                return PRIVILEGES_NO_USER;
        return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
                               setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
                               setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0
                       ? -errno : 0;
}

int privileges_become_keeper(bool direct) {
        const cap_value_t wanted[] = {CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};
        bool sys_admin = privileges_need_sys_admin() && have_permitted(CAP_SYS_ADMIN);
        int r;

        if (!have_permitted(CAP_BPF) || !have_permitted(CAP_PERFMON))
                return PRIVILEGES_NO_CAPABILITY;
        r = drop_bounding(sys_admin);
        if (r == 0 && geteuid() == 0)
                r = leave_root();
        else if (r == 0 && !direct) {
                struct passwd *user = getpwnam(PRIVILEGES_USER);

                /* Over the bus only the system user may own the name; anybody else is a wrong set-up. */
                r = user && user->pw_uid == geteuid() ? 0 : PRIVILEGES_NO_USER;
        }
        if (r != 0)
                return r;
        if (cap_reset_ambient() < 0 && errno != EINVAL)
                return -errno;
        r = set_caps(wanted, sys_admin ? 3 : 2, wanted, 2, NULL, 0);
        if (r < 0)
                return r;
        /* setresuid() has reset what privileges_seal() set. */
        return privileges_seal();
}

int privileges_raise_sys_admin(bool on) {
        const cap_value_t wanted[] = {CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

        return have_permitted(CAP_SYS_ADMIN) ? set_caps(wanted, 3, wanted, on ? 3 : 2, NULL, 0) : 0;
}

int privileges_keep_for_session(void) {
        const cap_value_t kept[] = {CAP_BPF, CAP_PERFMON};
        int r = set_caps(kept, 2, NULL, 0, kept, 2);

        for (int i = 0; r == 0 && i < 2; i++)
                r = cap_set_ambient(kept[i], CAP_SET) < 0 ? -errno : 0;
        return r;
}

int privileges_become_session(void) {
        const cap_value_t kept[] = {CAP_BPF, CAP_PERFMON};

        if (!have_permitted(CAP_BPF) || !have_permitted(CAP_PERFMON))
                return PRIVILEGES_NO_CAPABILITY;
        return cap_reset_ambient() < 0 ? -errno : set_caps(kept, 2, kept, 2, NULL, 0);
}

int privileges_drop(void) {
        return cap_reset_ambient() < 0 && errno != EINVAL ? -errno : set_caps(NULL, 0, NULL, 0, NULL, 0);
}
