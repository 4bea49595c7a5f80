/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How stacks go on through code in memory that is no file's, where that code is known by its bytes: it is what Python puts
 * between its functions for perf (-X perf, -X perf_jit). Such memory is full of it before it can be executed, and
 * is not written again; so it is read once, and equal ones share a table. Python also tells of each piece in its dump, but
 * through a buffer, and when a stack is walked it is too late for that.
 */

#include <sys/types.h>

#include "symbolizer.h"
#include "unwind-images.h"

typedef struct UnwindCode {
        uint64_t start, end;
        UnwindImage *image; /* NULL: it is not known */
} UnwindCode;

/* Of one process. Embedded; all zero is empty. */
struct UnwindCodes {
        UnwindCode *items; /* by address */
        size_t n;
};

/* NULL: none. */
static inline const UnwindCode *unwind_codes_find(const UnwindCodes *codes, const MappedRange *range) {
        size_t low = 0, high = codes->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (codes->items[middle].start < range->start)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < codes->n && codes->items[low].start == range->start && codes->items[low].end == range->end
                       ? &codes->items[low]
                       : NULL;
}

/* As space has it by now; what cannot be read is not known. 0 or -ENOMEM: then what is known stays. */
int unwind_codes_update(UnwindCodes *codes, UnwindImages *images, const AddressSpace *space, pid_t pid);
void unwind_codes_done(UnwindCodes *codes, UnwindImages *images);
