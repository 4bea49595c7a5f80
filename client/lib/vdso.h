/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The vDSO is no file, but the same kernel maps the same image into every process of one kind: so
 * our own, read from our own memory, names everybody's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf-file.h"

/* -ENOENT: we have none. size: of its mapping. */
int vdso_open(ElfFile **ret, size_t *ret_size);

/*
 * Is a mapping of this size that ends here of our kind? 32-bit processes on a 64-bit kernel
 * have an image of their own, and live below 4 GiB.
 */
bool vdso_is_ours(uint64_t start, uint64_t end, size_t own_size);
