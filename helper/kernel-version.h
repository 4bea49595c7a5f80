/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The version of the upstream kernel beneath a distribution's. Only for faults that no feature tells of
 * (bpf/kernel-version.h); everything else is probed.
 */

#include <stddef.h>

/*
 * From uname(2)'s release and version, and from Ubuntu's /proc/version_signature or "". As
 * RS_KERNEL_VERSION, 0: unknown.
 */
int kernel_version_parse(const char *release, const char *version, const char *signature);
/* Of the running kernel. */
int kernel_version_get(void);
