/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "plt.h"

CHAINED uint64_t plt_function(uint64_t x) {
        return x * 3 + 1;
}
