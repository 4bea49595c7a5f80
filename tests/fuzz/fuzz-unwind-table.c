/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The unwind table of an ELF file: it keeps its promises, and every address has a rule. */

#include "fuzz.h"
#include "unwind-table-builder.h"

static void check(const UnwindTable *table) {
        size_t next = 1;

        if (table->n_pages == 0 || table->n_rows == 0 || table->n_rules == 0 || table->n_rules > UNWIND_RULES_MAX ||
            table->rows[0] != 0 || table->rules[0].cfa != RS_CFA_NONE)
                abort();
        for (size_t i = 0; i < table->n_rows; i++)
                if ((table->rows[i] & RS_TABLE_ROW_RULE) >= table->n_rules)
                        abort();
        for (size_t i = 0; i < table->n_pages; i++) {
                size_t first = table->pages[i] >> 32, n = (uint32_t) table->pages[i];

                if (first < next || n > RS_TABLE_PAGE || n > table->n_rows - first)
                        abort();
                if (n > 0 && first * 4 / RS_TABLE_CHUNK != (first + n - 1) * 4 / RS_TABLE_CHUNK)
                        abort();
                next = first + n;
                if (i < 64)
                        (void) unwind_table_find(table, table->base + i * RS_TABLE_PAGE + i);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;

        if (elf_file_new_memory(&elf, data, size) < 0)
                return 0;
        if (unwind_table_new(&table, elf) == 0)
                check(table);
        return 0;
}
