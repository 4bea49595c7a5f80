/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The capability budget, all of it:
 *
 *   keeper   permitted CAP_BPF, CAP_PERFMON, and CAP_SYS_ADMIN where kernel.perf_event_paranoid is above 2;
 *            the last effective only around perf_event_open
 *   session  CAP_BPF and CAP_PERFMON until its programs are loaded, then none
 *   front    none
 *   build    none: the keeper's child that makes the kernel's names
 *
 * CAP_SYSLOG is for opening /proc/kallsyms and /proc/modules in main(), and is gone before there is a keeper;
 * without it the kernel's frames have no names.
 *
 * and no_new_privs, not dumpable, everywhere. A keeper that is started as root becomes the system
 * user first; one started as that user, or with ambient capabilities, has nothing to change.
 */

#include <stdbool.h>
#include <sys/types.h>

#define PRIVILEGES_USER "ringside"

enum {
        PRIVILEGES_OK = 0,
        PRIVILEGES_NO_USER = 1,       /* the system user does not exist */
        PRIVILEGES_NO_CAPABILITY = 2, /* started with less than CAP_BPF and CAP_PERFMON */
};

/* First thing in main(): neither ptrace nor core dumps, whatever comes. Returns 0 or -errno. */
int privileges_seal(void);
/*
 * Leaves uid 0 for the system user and drops all but the keeper's capabilities, from the bounding
 * set too. direct: a caller that is not root may stay who it is. Returns PRIVILEGES_* or -errno.
 */
int privileges_become_keeper(bool direct);
/* kernel.perf_event_paranoid is above 2, where CAP_PERFMON does not suffice on distributions' kernels. */
bool privileges_need_sys_admin(void);
/* CAP_SYS_ADMIN on or off in the effective set, where it is permitted. */
int privileges_raise_sys_admin(bool on);
/* In the child before it execs a session: CAP_BPF and CAP_PERFMON survive the exec, nothing else. */
int privileges_keep_for_session(void);
/* In the session's main: only those two, and not inheritable. Returns PRIVILEGES_* or -errno. */
int privileges_become_session(void);
/* None, for good. */
int privileges_drop(void);
