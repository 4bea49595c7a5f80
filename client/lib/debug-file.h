/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Finds the separate file that holds the symbols of a stripped one. A file that is found proves what it
 * is: by the build id, or by the CRC of the debug link where one of the two has no build id.
 */

#include "elf-file.h"

/*
 * root_fd: O_PATH, of the root in which path, the name of the stripped file, means something; -1:
 * our own. symbol_dir is looked up in our own root. -ENOENT: there is none that fits.
 */
int debug_file_open(ElfFile **ret, ElfFile *elf, const char *path, int root_fd, const char *symbol_dir);
/*
 * The file whose debug information elf's refers to, as dwz makes them of what several have in common. 0: *ret is NULL where
 * elf names none. -ENOENT: the one it names is not there, or another.
 */
int debug_file_open_alt(ElfFile **ret, ElfFile *elf, const char *symbol_dir);
