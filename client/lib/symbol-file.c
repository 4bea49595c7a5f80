/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "symbol-file.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "debug-file.h"
#include "elf-debugdata.h"
#include "elf-plt.h"

int symbol_file_new(SymbolFile **ret, enum SymbolFileKind kind, const char *path) {
        _cleanup_(symbol_file_freep) SymbolFile *file = NULL;

        file = calloc(1, sizeof(*file));
        if (!file)
                return -ENOMEM;
        file->kind = kind;
        file->mapped.path = strdup(path);
        if (!file->mapped.path)
                return -ENOMEM;
        *ret = TAKE_PTR(file);
        return 0;
}

SymbolFile *symbol_file_free(SymbolFile *file) {
        if (!file)
                return NULL;
        elf_file_free(file->elf);
        symbol_table_free(file->symbols);
        free(file->mapped.path);
        free(file);
        return NULL;
}

void symbol_file_take_elf(SymbolFile *file, ElfFile *elf) {
        const uint8_t *id;

        _Static_assert(BUILD_ID_MAX >= ELF_BUILD_ID_MAX, "room for every build id");
        file->elf = elf;
        file->mapped.build_id_len = elf_file_get_build_id(elf, &id);
        memcpy(file->mapped.build_id, id, file->mapped.build_id_len);
}

/* The root of a process that still has the file mapped, most likely; what is found there proves itself. */
static int open_root(const char *proc, pid_t pid) {
        char path[PATH_MAX];

        if (pid <= 0 || snprintf(path, sizeof(path), "%s/%d/root", proc, (int) pid) >= (int) sizeof(path))
                return -1;
        return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int read_debug_file(SymbolFile *file, const char *proc, const char *symbol_dir, SymbolTable *table) {
        _cleanup_(elf_file_freep) ElfFile *debug = NULL;
        _cleanup_close_ int root_fd = -1;
        int r;

        root_fd = open_root(proc, file->pid);
        r = debug_file_open(&debug, file->elf, &(DebugFileSearch){
                                                       .path = file->mapped.path,
                                                       .root_fd = root_fd,
                                                       .symbol_dir = symbol_dir,
                                               });
        if (r < 0)
                return r;
        return elf_file_read_symbols(debug, ELF_SYMTAB, table);
}

/* Stubs have names from what the table has, so it is sealed once more where there are such. Their trouble is not the file's. */
static int read_stubs(SymbolFile *file, SymbolTable *table) {
        _cleanup_(elf_plt_freep) ElfPlt *plt = NULL;
        int added = 0, r;

        r = elf_plt_new(&plt, file->elf);
        if (r >= 0)
                r = elf_plt_add_symbols(plt, table, /* ifuncs= */ false);
        if (r == -ENOMEM)
                return r;
        r = symbol_table_seal(table, /* ends_at_next= */ true);
        if (r >= 0 && plt)
                added = elf_plt_add_symbols(plt, table, /* ifuncs= */ true);
        if (r < 0 || added == -ENOMEM || added == 0)
                return MIN(r, added);
        return symbol_table_seal(table, /* ends_at_next= */ true);
}

static int read_symbols(SymbolFile *file, const char *proc, const char *symbol_dir, SymbolTable *table) {
        int r;

        r = elf_file_read_symbols(file->elf, ELF_SYMTAB, table);
        if (r == -ENOENT && file->kind == SYMBOL_FILE_ELF) {
                r = read_debug_file(file, proc, symbol_dir, table);
                if (r != -ENOMEM && symbol_table_get_n(table) == 0)
                        r = elf_debugdata_read_symbols(file->elf, table);
                /* Their trouble is not the file's own, which may still have names for the dynamic linker. */
                if (r != -ENOMEM && symbol_table_get_n(table) == 0)
                        r = 0;
        }
        if (r < 0 && r != -ENOENT)
                return r;
        r = elf_file_read_symbols(file->elf, ELF_DYNSYM, table);
        if (r < 0 && r != -ENOENT)
                return r;
        return read_stubs(file, table);
}

int symbol_file_load(SymbolFile *file, const char *proc, const char *symbol_dir) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        int r;

        if (file->loaded || !file->elf)
                return 0;
        r = symbol_table_new(&table);
        if (r < 0)
                return r;
        r = read_symbols(file, proc, symbol_dir, table);
        if (r == -ENOMEM)
                return r;
        file->loaded = true;
        elf_file_close(file->elf);
        if (r < 0)
                return r;
        if (symbol_table_get_n(table) > 0)
                file->symbols = TAKE_PTR(table);
        return 0;
}
