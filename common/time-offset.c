/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "time-offset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

int64_t time_offset(const char *clock) {
        _cleanup_fclose_ FILE *f = fopen("/proc/self/timens_offsets", "re");
        int64_t seconds, ns;
        char name[16];

        while (f && fscanf(f, "%15s %" SCNd64 " %" SCNd64, name, &seconds, &ns) == 3)
                if (strcmp(name, clock) == 0)
                        return seconds * 1000000000 + ns;
        return 0;
}
