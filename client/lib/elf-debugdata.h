/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * MiniDebugInfo, as Fedora puts it into its stripped programs: section .gnu_debugdata is a whole ELF file, compressed by xz,
 * with the functions that .dynsym lacks.
 */

#include "elf-file.h"

/* What is in it may be so long, uncompressed. */
#define ELF_DEBUGDATA_SIZE_MAX (64U << 20)

/*
 * Adds the functions in it to table. -ENOENT: there is no such section, or no symbol table in it; it is not looked into for
 * another such section. -EBADMSG, -EFBIG: as elf_file_read_symbols(), and when it asks for more memory than any xz does.
 */
int elf_debugdata_read_symbols(ElfFile *elf, SymbolTable *table);
