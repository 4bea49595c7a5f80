/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two texts of /proc/kallsyms, the later one after a line of "=": the tables of each, and what of the first
 * is in the second.
 */

#include <string.h>

#include "fuzz.h"
#include "kernel-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static KernelTable first, second;
        const uint8_t *at = memmem(data, size, "=\n", 2);
        size_t n = at ? (size_t) (at - data) : size;

        if (kernel_table_build(NULL, NULL, (const char *) data, n, &first) < 0)
                return 0;
        if (at && kernel_table_build(&first, NULL, (const char *) at + 2, size - n - 2, &second) == 0) {
                for (size_t i = 0; i < second.ranges.nr; i++)
                        if (second.ranges.ranges[i].start >= second.ranges.ranges[i].end)
                                abort();
                kernel_table_done(&second);
        }
        kernel_table_done(&first);
        return 0;
}
