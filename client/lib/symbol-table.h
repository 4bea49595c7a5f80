/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sorted symbols of one file or one JIT, 24 bytes each and one blob of names. Filled, sealed, then
 * searched; may be filled again and sealed again.
 *
 * Of several symbols at one address one is kept: the higher layer, then the stronger binding (global
 * before weak before local), then fewer leading underscores, then the longer name. perf chooses the
 * same way, except that it takes a local name before a weak one, which turns write() into
 * __GI___libc_write. Where ranges overlap, the higher layer covers the lower, and within a
 * layer the one that starts last is the innermost. docs/symbols.md tells users.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util.h"

typedef struct SymbolTable SymbolTable;

#define SYMBOL_NAME_MAX 32768U         /* a longer name is no name */
#define SYMBOL_STRINGS_MAX (512U << 20) /* bytes of names in one table */
#define SYMBOL_COUNT_MAX (4U << 20)    /* symbols in one table */
#define SYMBOL_LAYER_MAX (UINT32_MAX >> 2)

enum SymbolBinding {
        SYMBOL_LOCAL = 0,
        SYMBOL_WEAK = 1,
        SYMBOL_GLOBAL = 2,
};

/* Layers of ELF symbols; perf maps use the line number, so that a newer line covers an older one. */
enum SymbolLayer {
        SYMBOL_LABEL = 0,          /* without type and size */
        SYMBOL_FUNCTION = 1,       /* without size */
        SYMBOL_SIZED_LABEL = 2,
        SYMBOL_SIZED_FUNCTION = 3,
};

int symbol_table_new(SymbolTable **ret);
SymbolTable *symbol_table_free(SymbolTable *table);
DEFINE_CLEANUP(SymbolTable, symbol_table_free)

/*
 * Makes room for size bytes of names, to be written to *ret_space before the next call; a final 0 is
 * added behind. The base is what to add to an offset into them. -EFBIG: more than a table may hold.
 */
int symbol_table_add_strings(SymbolTable *table, size_t size, char **ret_space, uint32_t *ret_base);

/*
 * name: offset into the strings. For the layers without a size, size is the most it can be, and the
 * next symbol ends it. -EFBIG: more than a table may hold.
 */
int symbol_table_add(SymbolTable *table, uint64_t start, uint64_t size, uint32_t name, uint32_t layer,
                     enum SymbolBinding binding);

/* ends_at_next: layers 0 and 1 have no size. -EBADMSG: names that overlap beyond reason. */
int symbol_table_seal(SymbolTable *table, bool ends_at_next);

/* NULL: no symbol holds address. The name lives until the table is changed. */
const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *ret_offset);

/* The same, and all that the symbol holds, *ret_end past its last byte. */
const char *symbol_table_find_range(const SymbolTable *table, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);

size_t symbol_table_get_n(const SymbolTable *table);
/* What it takes of memory, bytes. */
size_t symbol_table_get_memory(const SymbolTable *table);
