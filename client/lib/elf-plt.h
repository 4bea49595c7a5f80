/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The stubs through which an ELF file for x86-64 or aarch64 calls functions of others, which get the names "function@plt". */

#include <stdbool.h>

#include "elf-file.h"

typedef struct ElfPlt ElfPlt;

/* elf must outlive it. -ENOENT: there are none. */
int elf_plt_new(ElfPlt **ret, ElfFile *elf);
ElfPlt *elf_plt_free(ElfPlt *plt);
DEFINE_CLEANUP(ElfPlt, elf_plt_free)

/*
 * Adds them to a table, which is not sealed here. ifuncs: only those of functions whose address is settled by code of the
 * file itself, for which the table must have been sealed with all other symbols; else only the rest. Returns 1 if there
 * were any, 0 if not.
 */
int elf_plt_add_symbols(ElfPlt *plt, SymbolTable *table, bool ifuncs);
