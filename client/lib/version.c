/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "config.h"
#include "ringside.h"

const char *ringside_version(void) {
        return RINGSIDE_VERSION;
}
