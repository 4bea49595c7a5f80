/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A perf map that grows: read in two parts, sealed after each. */

#include <string.h>

#include "fuzz.h"
#include "perf-map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        const char *text = (const char *) data;
        size_t first, second;
        uint64_t offset;

        if (perf_map_new(&map, NULL) < 0)
                return 0;
        if (perf_map_parse(map, text, size / 2, &first) < 0 || first > size / 2 || perf_map_seal(map) < 0)
                return 0;
        if (perf_map_parse(map, text + first, size - first, &second) < 0)
                return 0;
        if (second > size - first)
                abort();
        if (perf_map_seal(map) < 0)
                return 0;
        for (uint64_t address = 0; address < 0x10000; address += 0x100) {
                const char *name = perf_map_find(map, address, &offset);

                if (name && (strchr(name, '\n') || offset > address))
                        abort();
        }
        return 0;
}
