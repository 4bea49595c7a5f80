/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * By what the table of a file, and the lines of one, are known again, in other processes and in other runs. A build id is
 * what a file says of itself: it counts where the file is root's or our own, nobody else may write to it, and it is on a
 * file system whose word for that the system takes too. Anybody else's file may say that it is the C library, and must not
 * decide on the C library's: it is known by what the kernel says of it, which nobody chooses.
 */

#include <stdbool.h>

#include "elf-file.h"

#define UNWIND_IDENTITY_SIZE (2 * ELF_BUILD_ID_MAX + 48)

/* A string of digits and dashes: build id, or device, inode, size and time of change. false: nothing tells it from others. */
bool unwind_identity_get_file(const ElfFile *elf, char identity[static UNWIND_IDENTITY_SIZE]);
/* The same, with machine and range of code, which tables depend on. */
bool unwind_identity_get(const ElfFile *elf, char identity[static UNWIND_IDENTITY_SIZE]);
