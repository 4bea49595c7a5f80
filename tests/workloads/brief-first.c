/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "brief.h"

NOINLINE uint64_t brief_first(uint64_t x, unsigned int units) {
        return spin(x, units);
}
