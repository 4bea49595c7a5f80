/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Source lines and inlined functions for a recording that has just become whole. Files are opened for that which others may
 * have put where they are, on file systems that may not answer; so it is done by a process of its own, which can be given up
 * on, by time or by a signal.
 */

#include <signal.h>
#include <stdbool.h>

/* signal_fd: any signal that is read from it ends it. mask: what was blocked when we began. Prints what there is to be said. */
void record_lines_look_up(const char *path, int signal_fd, const sigset_t *mask, bool quiet);
