/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A walk looks at the code before each return address, and cannot wait for a page of it. Those of a process that was just
 * forked are in memory, but not its own yet, until it runs them, or somebody reads them there.
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
