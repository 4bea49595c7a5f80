/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-version.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "../bpf/kernel-version.h"
#include "util.h"

/* Three numbers at text, the last may be missing; false: none are there. */
static bool scan(const char *text, int *ret) {
        unsigned major, minor, patch = 0;

        if (sscanf(text, "%u.%u.%u", &major, &minor, &patch) < 2 || major > 1000 || minor > 255)
                return false;
        *ret = RS_KERNEL_VERSION((int) major, (int) minor, (int) patch);
        return true;
}

int kernel_version_parse(const char *release, const char *version, const char *signature) {
        const char *debian = strstr(version, "Debian ");
        int r = 0;

        /* Debian's release says 6.1.0 of every 6.1; the patch level stands in the version. */
        if (debian && scan(debian + strlen("Debian "), &r))
                return r;
        /* "Ubuntu 5.15.0-91.101-generic 5.15.131": upstream's comes last. */
        if (strncmp(signature, "Ubuntu ", 7) == 0 && scan(strrchr(signature, ' ') + 1, &r))
                return r;
        (void) scan(release, &r);
        return r;
}

int kernel_version_get(void) {
        _cleanup_fclose_ FILE *f = fopen("/proc/version_signature", "re");
        char signature[256] = "";
        struct utsname name;

        if (uname(&name) < 0)
                return 0;
        if (f && !fgets(signature, sizeof(signature), f))
                signature[0] = 0;
        return kernel_version_parse(name.release, name.version, signature);
}
