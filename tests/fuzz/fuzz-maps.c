/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The text of /proc/PID/maps. */

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fuzz.h"
#include "maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        MapsCursor cursor = { .next = (const char *) data, .left = size };
        char path[PATH_MAX];
        MapsLine line;
        int r;

        while ((r = maps_cursor_next(&cursor, &line)) != 0) {
                if (r < 0)
                        continue;
                if (line.start >= line.end)
                        abort();
                r = maps_line_get_path(&line, path, sizeof(path));
                if (r != -ENAMETOOLONG && strlen(path) != (size_t) r)
                        abort();
                if (r >= 0)
                        (void) maps_path_strip_deleted(path);
        }
        return 0;
}
