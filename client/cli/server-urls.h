/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Which debuginfod servers the system names: the lines of *.urls, from which login shells make DEBUGINFOD_URLS. */

/* Separated by spaces, "" where there are none; freed with free(). directory: "/etc/debuginfod". -ENOMEM. */
int server_urls_read(const char *directory, char **ret);
