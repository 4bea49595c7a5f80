/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "inside.h"

NOINLINE uint64_t inner_library(uint64_t x, unsigned int units) {
        return spin(x, units);
}
