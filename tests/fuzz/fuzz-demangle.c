/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One name. */

#include <string.h>

#include "fuzz.h"
#include "symbolizer.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *name = strndup((const char *) data, size), *result = NULL;

        if (!name || symbol_demangle(name, &result) < 0)
                return 0;
        if (strlen(result) > 32768 && strlen(result) > strlen(name))
                abort();
        return 0;
}
