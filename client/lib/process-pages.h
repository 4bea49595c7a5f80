/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A walk looks at stacks, and at the code before each return address, and cannot wait for a page of either. The code of a
 * process that was just forked is in memory, but not its own yet, until it runs it, or somebody reads it there; so is what a
 * stack in shared memory once had; and others are swapped out. Who reads a byte of a page brings it back, and stops nobody.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind-table.h"

/* What is kept of a process between the calls for its stacks, from zeros on until it becomes another program. */
typedef struct StackPages {
        uint64_t next;     /* the next call begins with the mapping from there on, for the last one ended below */
        unsigned n_shared; /* pages of shared memory that were read */
} StackPages;

/*
 * Reads a little of the code that has tables, in a process of the caller's own: small mappings first, and not the whole
 * of a very large program. Some pages are left out, as the kernel does where it maps several with the one that is
 * asked for; not with every_page, which takes four times as long. After 20 ms it begins no more, with the rest left as it is.
 * maps_max: bytes of /proc/PID/maps, of which more are not looked at. -EPERM: it is not ours to read; -ESRCH: it is gone;
 * -ENOMEM; where its leader has exited, those of process_dir_open(), too.
 */
int process_pages_touch_code(pid_t pid, size_t maps_max, const struct rs_table_mapping *mappings, size_t n, bool every_page);
/* All of it, of a process of the caller's own, or -EPERM, -ESRCH, -EFAULT. */
int process_pages_read(pid_t pid, uint64_t start, void *buffer, size_t size);
/*
 * Reads a byte of each page that is missing where a stack of the process may have its callers: of the main thread's first,
 * then of memory above what nobody may touch. At most 128 pages of each mapping and 1,024 of all, and it begins no more after
 * 20 ms; what is left is found by the next calls.
 *
 * Of shared memory nobody tells a page that was lost from one that never was, which reading makes: so at most 256 of such
 * pages are read in all calls with the same StackPages, and none of mappings larger than 8 MiB. Errors are those of
 * process_dir_open(), and -EPERM as above.
 */
int process_pages_touch_stacks(pid_t pid, size_t maps_max, StackPages *pages);
