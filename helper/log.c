/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(int level, const char *format, ...) {
        char line[512];
        int n;
        va_list args;

        /* sd-daemon(3): a number in angle brackets is the line's priority. */
        n = getenv("JOURNAL_STREAM") ? snprintf(line, sizeof(line), "<%d>", level)
                                     : snprintf(line, sizeof(line), "ringside-helper: ");
        va_start(args, format);
        n += vsnprintf(line + n, sizeof(line) - n - 1, format, args);
        va_end(args);
        n = MIN(n, (int) sizeof(line) - 2);
        line[n++] = '\n';
        /* One write, so that lines of several processes do not mix; nobody can be told if it fails. */
        if (write(STDERR_FILENO, line, n) < 0)
                return;
}
