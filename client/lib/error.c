/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The text behind a failure. What is quoted in it may be a hostile name, and errors are printed on
 * terminals, so everything goes through ringside_escape().
 */

#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(RingsideError *error, int code, const char *hint, const char *format, ...) {
        char text[sizeof(error->text)];
        va_list ap;

        if (!error)
                return code;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);

        error->code = code;
        ringside_escape(error->text, sizeof(error->text), text);
        (void) snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
        return code;
}
