/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The unwind table of one file: pages, rows and rules as unwind-table.h has them, with numbers that count from
 * the table's own first row and rule. Made from .eh_frame, and from .debug_frame for what that leaves out, in the
 * user's own process.
 *
 * A table is never changed after it was made, and can be read by any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf-file.h"
#include "unwind-identity.h"
#include "unwind-table.h"

/* 1 GiB of code; 32 MiB of rows. */
#define UNWIND_PAGES_MAX (1U << 22)
#define UNWIND_ROWS_MAX (1U << 23)
/* Of one file, as all together have RS_TABLE_RULES for as long as a session lasts. The largest programs have some 800. */
#define UNWIND_RULES_MAX 8192U

typedef struct UnwindTable {
        /* The lowest address of the file's code, as the file counts them, rounded down to RS_TABLE_PAGE. */
        uint64_t base;
        /*
         * One for each RS_TABLE_PAGE bytes from base on, to the end of what has rules: index of its first row << 32, and
         * how many there are.
         */
        uint64_t *pages;
        size_t n_pages;
        /*
         * Low byte of the address << RS_TABLE_ROW_SHIFT, and index into rules. Row 0 has no rule. No page's rows cross
         * a multiple of RS_TABLE_CHUNK bytes from the first row on.
         */
        uint32_t *rows;
        size_t n_rows;
        struct rs_table_rule *rules; /* no two are the same; 0 is none */
        size_t n_rules;              /* at most UNWIND_RULES_MAX */
        void *memory; /* of all three, NULL: each has its own */
        char name[UNWIND_IDENTITY_SIZE]; /* of the file before it was read, by which the cache is to keep this; "": it is not */
        /* Not kept by the cache: */
        size_t n_entries; /* functions, roughly */
        size_t n_unknown; /* rows of RS_CFA_UNKNOWN */
        size_t n_skipped; /* entries that say nothing we can use */
} UnwindTable;

/*
 * Reads the file. -ENOENT: there is nothing to make a table from, as in a 32-bit file; -EBADMSG: malformed; -EFBIG: over
 * a cap. Such a file has no table. -ECANCELED: see elf_file_set_stop().
 */
int unwind_table_new(UnwindTable **ret, ElfFile *elf);
/*
 * Of code in memory, from address 0 on: of the pieces in it that are known by their bytes. -ENOENT: there is none, or they are
 * another machine's.
 */
int unwind_table_new_of_code(UnwindTable **ret, const uint8_t *code, size_t size);
/* Whether there may be one where this is the beginning. */
bool unwind_table_knows_code(const uint8_t *head, size_t size);
UnwindTable *unwind_table_free(UnwindTable *table);
DEFINE_CLEANUP(UnwindTable, unwind_table_free)

/* The rule of an address, as the programs find it; never NULL, rule 0 where there is none. */
const struct rs_table_rule *unwind_table_find(const UnwindTable *table, uint64_t address);
