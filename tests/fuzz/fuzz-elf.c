/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An ELF file from memory, and everything that is ever asked of one. */

#include <string.h>

#include "elf-debugdata.h"
#include "elf-file.h"
#include "elf-plt.h"
#include "fuzz.h"

static void look_up(SymbolTable *table) {
        static const uint64_t addresses[] = { 0, 1, 0x1000, 0x401000, UINT64_MAX };

        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                uint64_t offset;
                const char *name = symbol_table_find(table, addresses[i], &offset);

                if (name && (strlen(name) > SYMBOL_NAME_MAX || offset > addresses[i]))
                        abort();
        }
}

static void read_symbols(ElfFile *elf, enum ElfSymbols which) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        if (symbol_table_new(&table) < 0)
                return;
        if (elf_file_read_symbols(elf, which, table) == 0 && symbol_table_seal(table, true) == 0)
                look_up(table);
}

static void read_debugdata(ElfFile *elf) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        if (symbol_table_new(&table) < 0)
                return;
        if (elf_debugdata_read_symbols(elf, table) == 0 && symbol_table_seal(table, true) == 0)
                look_up(table);
}

static void read_stubs(ElfFile *elf) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_plt_freep) ElfPlt *plt = NULL;

        if (symbol_table_new(&table) < 0 || elf_file_read_symbols(elf, ELF_DYNSYM, table) < 0 || elf_plt_new(&plt, elf) < 0)
                return;
        (void) elf_plt_add_symbols(plt, table, /* ifuncs= */ false);
        if (symbol_table_seal(table, true) < 0)
                return;
        (void) elf_plt_add_symbols(plt, table, /* ifuncs= */ true);
        if (symbol_table_seal(table, true) == 0)
                look_up(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ char *name = NULL;
        const uint8_t *id;
        uint64_t address;
        uint32_t crc;

        if (elf_file_new_memory(&elf, data, size) < 0)
                return 0;
        if (elf_file_get_build_id(elf, &id) > ELF_BUILD_ID_MAX)
                abort();
        elf_file_get_address(elf, size / 2, &address);
        if (elf_file_get_debuglink(elf, &name, &crc) == 0 && strchr(name, '/'))
                abort();
        (void) elf_file_find_symbol(elf, "_stext", &address, NULL);
        read_symbols(elf, ELF_SYMTAB);
        read_symbols(elf, ELF_DYNSYM);
        read_debugdata(elf);
        read_stubs(elf);
        return 0;
}
