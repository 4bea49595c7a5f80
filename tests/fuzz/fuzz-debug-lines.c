/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the process that reads debug information says, of four addresses; the first byte tells in how many parts. */

#include <limits.h>
#include <string.h>

#include "debug-lines.h"
#include "fuzz.h"
#include "util.h"

#define N_ADDRESSES 4

static void check(const DebugLines *lines) {
        for (size_t i = 1; i < lines->n_codes; i++)
                if (lines->codes[i].caller >= i || lines->codes[i].routine >= lines->n_strings ||
                    lines->codes[i].source >= lines->n_strings || lines->codes[i].line > INT32_MAX)
                        abort();
        for (size_t i = 0; i < N_ADDRESSES; i++)
                if (lines->at[i] >= lines->n_codes)
                        abort();
        if (lines->n_wishes > DEBUG_LINES_WISHES_MAX)
                abort();
        for (size_t i = 0; i < lines->n_wishes; i++)
                if (lines->wishes[i][0] == 0 || strlen(lines->wishes[i]) >= PATH_MAX)
                        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        size_t part, used, end = 0;

        if (size == 0 || debug_lines_init(&lines, N_ADDRESSES) < 0)
                return 0;
        part = size / (1U + data[0]) + 1;
        data++;
        size--;
        while (end < size) {
                end += MIN(part, size - end);
                if (debug_lines_take(&lines, data, end, &used) < 0)
                        break;
                if (used > end)
                        abort();
                data += used;
                size -= used;
                end -= used;
        }
        check(&lines);
        return 0;
}
