/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "spin.h"

__attribute__((visibility("default"))) uint64_t SWAPPED(uint64_t x, uint64_t (*back)(uint64_t, unsigned int));

/* Not a tail call, or the library would not be in the stack. */
NOINLINE uint64_t SWAPPED(uint64_t x, uint64_t (*back)(uint64_t, unsigned int)) {
        if (SWAPPED_UNITS > 0)
                x = spin(x, SWAPPED_UNITS);
        return back(x, 5) + 1;
}
