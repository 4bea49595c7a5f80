/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * From the text of /proc/kallsyms to where the kernel's code lies, and to its names without that
 * (kernel-names.h). Text in, tables out: what asks the kernel and who may have the tables is elsewhere.
 *
 * Only code counts: in the core what lies from _stext to _etext, in a module from its first to its last
 * symbol, that one to the end of its page. Of several names for one place one is kept, a global one where
 * there is one, and else the last. BPF programs and trampolines have no names: theirs are other people's.
 */

#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "kernel-names.h"

typedef struct KernelTable {
        struct rs_kernel_ranges ranges;
        struct rs_kernel_names *names;
        size_t size;          /* bytes of names */
        uint32_t next_module; /* the number of the next module that was not there before; 0: as 1 */
} KernelTable;

/*
 * The generation after `old` (NULL: the first). Of modules it has those that are "Live" in what /proc/modules
 * has said before (a string; NULL: all): others, or the code they begin with, go without a word. A module
 * that is in `old` by the same name, at the same address and with the same symbols keeps its number; any
 * other gets a new one, in the order of their names, and none once they are used up. *ret is set on success
 * only, and owns its names. Returns 0, -ENODATA: the text has no addresses, as kernel.kptr_restrict demands,
 * or is not what it should be; -E2BIG: more than any kernel has; or -ENOMEM.
 */
int kernel_table_build(const KernelTable *old, const char *modules, const char *text, size_t size,
                       KernelTable *ret);
void kernel_table_done(KernelTable *table);
