/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "vdso.h"

#include <limits.h>
#include <string.h>
#include <sys/auxv.h>

#include "maps.h"

/* How much of it is mapped; the ELF header does not say. */
static int find_size(uintptr_t start, size_t *ret) {
        _cleanup_fclose_ FILE *maps = NULL;
        char line[PATH_MAX + 256];

        maps = fopen("/proc/self/maps", "re");
        if (!maps)
                return -errno;
        while (fgets(line, sizeof(line), maps)) {
                MapsCursor cursor = { .next = line, .left = strlen(line) };
                MapsLine mapping;

                if (maps_cursor_next(&cursor, &mapping) != 1 || mapping.start != start)
                        continue;
                *ret = (size_t) (mapping.end - mapping.start);
                return 0;
        }
        return -ENOENT;
}

int vdso_open(ElfFile **ret, size_t *ret_size) {
        uintptr_t start = getauxval(AT_SYSINFO_EHDR);
        size_t size;
        int r;

        if (start == 0)
                return -ENOENT;
        r = find_size(start, &size);
        if (r < 0)
                return r;
        r = elf_file_new_memory(ret, (const void *) start, size);
        if (r < 0)
                return r;
        *ret_size = size;
        return 0;
}

bool vdso_is_ours(uint64_t start, uint64_t end, size_t own_size) {
        bool low = end <= UINT64_C(1) << 32, own_low = sizeof(void *) == 4;

        return low == own_low && end - start == own_size;
}
