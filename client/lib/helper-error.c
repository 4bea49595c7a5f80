/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The answers of a session in words, and what to do about each. */

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "error.h"
#include "helper.h"
#include "util.h"

/* The programs need what came with 6.1, the iterator over one process the last of it. */
#define KERNEL_MAJOR 6
#define KERNEL_MINOR 1

static const struct {
        int code;
        const char *text;
        const char *hint;
} errors[RS_ERROR_MAX] = {
        [RS_ERROR_INTERNAL] = {RINGSIDE_E_ENDED, "the helper failed", "Its journal has more."},
        [RS_ERROR_VERSION] = {RINGSIDE_E_PROTOCOL, "the helper speaks another version of the protocol",
                              "Install library and helper of one version."},
        [RS_ERROR_IDENTITY] = {RINGSIDE_E_DENIED, "the helper cannot tell that this process is yours",
                               "A session can be used only by the process that was granted it."},
        [RS_ERROR_NO_BTF] = {RINGSIDE_E_KERNEL, "this kernel has no type information (/sys/kernel/btf/vmlinux)",
                             "It needs CONFIG_DEBUG_INFO_BTF, as distributions' kernels have."},
        [RS_ERROR_LOCKDOWN] = {RINGSIDE_E_KERNEL, "this kernel is locked down (confidentiality): no BPF may read it",
                               "Boot with lockdown=integrity or without; Secure Boot alone does not do this."},
        [RS_ERROR_CAPABILITY] = {RINGSIDE_E_KERNEL, "the helper lacks CAP_BPF or CAP_PERFMON",
                                 "Start it as root, or see AmbientCapabilities in ringside-helper.service; "
                                 "a container needs both granted."},
        [RS_ERROR_PARANOID] = {RINGSIDE_E_KERNEL,
                               "kernel.perf_event_paranoid is above 2, and the helper lacks CAP_SYS_ADMIN",
                               "Let it keep the capability (see ringside-helper.service), or set the sysctl to 2."},
        [RS_ERROR_KERNEL] = {RINGSIDE_E_KERNEL, "the sampling programs are refused by this kernel",
                             "Linux 6.1 or newer is needed; 'ringside doctor' has more."},
        [RS_ERROR_RING_UNSAFE] = {RINGSIDE_E_KERNEL, "this kernel's ring buffer has a known hole (CVE-2024-41009)",
                                  "Update the kernel; 6.1.97, 6.6.37, 6.9.8 and 6.10 have the fix."},
        [RS_ERROR_NO_PMU] = {RINGSIDE_E_NO_EVENT,
                             "cpu-cycles: no hardware counters here, as in most virtual machines",
                             "-e cpu-clock works everywhere."},
        [RS_ERROR_MEMORY] = {RINGSIDE_E_KERNEL, "no memory for ring and tables", "Try a smaller --ring-size."},
        [RS_ERROR_TARGET_GONE] = {RINGSIDE_E_TARGET, "the process has ended", NULL},
        [RS_ERROR_TARGET_HIDDEN] = {RINGSIDE_E_TARGET, "that process is not yours to see",
                                    "It is somebody else's, a setuid program's, has capabilities or made itself "
                                    "undumpable; with -a (profile-system) an administrator can allow it."},
        [RS_ERROR_TARGET_LIMIT] = {RINGSIDE_E_BUDGET, "more processes or threads than one session may watch",
                                   "There is room for 63 targets and 1024 threads; name fewer, or none (all of yours)."},
        [RS_ERROR_STATE] = {RINGSIDE_E_PROTOCOL, "the session cannot do that now", NULL},
        [RS_ERROR_EVENTS] = {RINGSIDE_E_KERNEL, "the kernel refuses to count", "'ringside doctor' has more."},
        [RS_ERROR_HELPER_GONE] = {RINGSIDE_E_ENDED, "the helper has ended", "'ringside doctor' looks at the installation."},
        [RS_ERROR_REVOKED] = {RINGSIDE_E_ENDED, "the permission to profile was withdrawn: your seat is no longer active", NULL},
        [RS_ERROR_PROTOCOL] = {RINGSIDE_E_PROTOCOL, "the helper did not understand",
                               "Install library and helper of one version."},
        [RS_ERROR_NO_USER] = {RINGSIDE_E_NO_HELPER, "there is no system user \"ringside\" for the helper to run as",
                              "systemd-sysusers creates it, or: adduser --system --group --no-create-home ringside"},
        [RS_ERROR_NO_KERNEL_NAMES] = {RINGSIDE_E_KERNEL, "the kernel does not tell the names of its functions",
                                      "kernel.kptr_restrict is 2, or the kernel was built without CONFIG_KALLSYMS."},
        [RS_ERROR_RATE] = {RINGSIDE_E_INVALID, "the rate is not between 1 Hz and what was granted for the event",
                           "A session that is to be faster later has to ask for that when it is opened."},
};

bool helper_kernel_is_old(const char *release) {
        unsigned major, minor;

        return sscanf(release, "%u.%u", &major, &minor) != 2 || major < KERNEL_MAJOR ||
               (major == KERNEL_MAJOR && minor < KERNEL_MINOR);
}

int helper_error(RingsideError *ret, uint32_t error, int detail) {
        char kernel[sizeof(", Linux ") + sizeof(((struct utsname *) NULL)->release)] = "";
        struct utsname name;

        if (error == RS_OK || error >= RS_ERROR_MAX || !errors[error].text)
                return error_set(ret, RINGSIDE_E_PROTOCOL, NULL, "the helper reports an unknown error (%u)", error);
        if (uname(&name) < 0)
                name.release[0] = 0;
        /* Before 5.11 a limit of memory, which only services are spared, looks the same as no right to use BPF. */
        if (error == RS_ERROR_CAPABILITY && helper_kernel_is_old(name.release))
                error = RS_ERROR_KERNEL;
        /* The hint says which there should be. */
        if (error == RS_ERROR_KERNEL)
                (void) snprintf(kernel, sizeof(kernel), ", Linux %s", name.release);
        if (detail > 0 && error != RS_ERROR_TARGET_GONE && error != RS_ERROR_TARGET_HIDDEN && error != RS_ERROR_TARGET_LIMIT)
                return error_set(ret, errors[error].code, errors[error].hint, "%s%s: %s", errors[error].text,
                                 kernel, strerror(detail));
        return error_set(ret, errors[error].code, errors[error].hint, "%s%s", errors[error].text, kernel);
}
