/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The helper's journal: one line on standard error, which systemd or the bus passes on. Values are the
 * helper's own numbers and names, never bytes a client chose.
 */

#include <syslog.h>

#include "util.h"

void log_line(int level, const char *format, ...) _printf_(2, 3);
