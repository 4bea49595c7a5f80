/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Filling in a RingsideError where something fails, so that the caller can pass it on in one line. */

#include "ringside.h"
#include "util.h"

/*
 * Returns code, which is -errno or RINGSIDE_E_*. error may be NULL, hint too. Control characters that
 * came in with an argument (a file name) are replaced.
 */
int error_set(RingsideError *error, int code, const char *hint, const char *format, ...) _printf_(4, 5);
