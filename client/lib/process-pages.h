/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A walk looks at stacks, and at the code before each return address, and cannot wait for a page of either. The code of a
 * process that was just forked is in memory, but not its own yet, until it runs it, or somebody reads it there; so is what a
 * stack in shared memory once had; and others are swapped out. Who reads a byte of a page brings it back, and stops nobody.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "unwind-table.h"

/*
 * Reads a little of the code that has tables, in a process of the caller's own: small mappings first, and not the whole
 * of a very large program. Some pages are left out, as the kernel does where it maps several with the one that is
 * asked for; not with every_page, which takes four times as long. It ends after 20 ms, with the rest left as it is.
 * -EPERM: it is not ours to read; -ESRCH: it is gone; -ENOMEM.
 */
int process_pages_touch_code(pid_t pid, const struct rs_table_mapping *mappings, size_t n, bool every_page);
/*
 * Reads a byte of each page that is missing where a stack of the process may have its callers: of the main thread's, and of
 * memory above what nobody may touch. At most 1,024 pages, and for 20 ms; what is left is found by the next call. maps_max:
 * bytes of /proc/PID/maps, of which more are not looked at. Errors as above, and those of process_dir_open().
 */
int process_pages_touch_stacks(pid_t pid, size_t maps_max);
