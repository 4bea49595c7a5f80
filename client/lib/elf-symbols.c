/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Function symbols of an ELF file, read in pieces: a table may be larger than what is kept of it. */

#include <string.h>

#include "elf-file-internal.h"

#define STRINGS_MAX (256U << 20)
#define CHUNK 1024U /* symbols read at once */

static const ElfSection *find_section(const ElfFile *elf, uint32_t type) {
        for (size_t i = 0; i < elf->n_sections; i++)
                if (elf->sections[i].type == type)
                        return &elf->sections[i];
        return NULL;
}

static enum SymbolBinding symbol_get_binding(const Elf64_Sym *symbol) {
        switch (ELF64_ST_BIND(symbol->st_info)) {
        case STB_GLOBAL:
        case STB_GNU_UNIQUE:
                return SYMBOL_GLOBAL;
        case STB_WEAK:
                return SYMBOL_WEAK;
        default:
                return SYMBOL_LOCAL;
        }
}

/*
 * Functions, and labels in code: assembly often forgets its types. A label counts only in a section
 * that is executable, which also leaves out _end and the like.
 */
static int add_symbol(const ElfFile *elf, const Elf64_Sym *symbol, uint32_t base, uint32_t strings_size,
                      SymbolTable *table) {
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        bool function = type == STT_FUNC || type == STT_GNU_IFUNC, sized = symbol->st_size > 0;
        const ElfSection *section = NULL;
        uint64_t start = symbol->st_value, size = symbol->st_size;
        uint32_t layer;

        if (symbol->st_name == 0 || symbol->st_name >= strings_size || symbol->st_shndx == SHN_UNDEF)
                return 0;
        if (!function && type != STT_NOTYPE)
                return 0;
        if (elf->header.e_machine == EM_ARM && function)
                start &= ~UINT64_C(1); /* marks Thumb code */
        if (symbol->st_shndx < elf->n_sections)
                section = &elf->sections[symbol->st_shndx];
        if (!section && (!function || !sized))
                return 0;
        if (!function && !section->executable)
                return 0;
        if (!sized) {
                if (start < section->address || start - section->address >= section->size)
                        return 0;
                size = section->size - (start - section->address);
        }
        layer = (sized ? SYMBOL_SIZED_LABEL : SYMBOL_LABEL) + (function ? 1 : 0);
        return symbol_table_add(table, start, size, base + symbol->st_name, layer,
                                symbol_get_binding(symbol));
}

static void widen_symbol(const Elf32_Sym *s32, Elf64_Sym *ret) {
        *ret = (Elf64_Sym){
                .st_name = s32->st_name,
                .st_info = s32->st_info,
                .st_shndx = s32->st_shndx,
                .st_value = s32->st_value,
                .st_size = s32->st_size,
        };
}

/* A table of symbols on its way through memory. */
typedef struct Symbols {
        ElfFile *elf;
        const ElfSection *section, *strings;
        size_t entry;
        uint64_t n;
        uint8_t *buffer; /* CHUNK of them */
} Symbols;

static void symbols_done(Symbols *symbols) {
        free(symbols->buffer);
}

/* *ret is to be freed by symbols_done() also where this fails. */
static int symbols_open(Symbols *ret, ElfFile *elf, enum ElfSymbols which) {
        const ElfSection *section, *strings;
        size_t entry = elf->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
        int r;

        *ret = (Symbols){};
        r = elf_file_read_sections(elf);
        if (r < 0)
                return r;
        section = find_section(elf, which == ELF_SYMTAB ? SHT_SYMTAB : SHT_DYNSYM);
        if (!section || section->size == 0)
                return -ENOENT;
        if (section->entry_size != entry || section->offset > elf->size || section->size > elf->size - section->offset ||
            section->link >= elf->n_sections)
                return -EBADMSG;
        strings = &elf->sections[section->link];
        if (strings->type != SHT_STRTAB || strings->offset > elf->size ||
            strings->size > elf->size - strings->offset)
                return -EBADMSG;
        if (strings->size > STRINGS_MAX)
                return -EFBIG;
        *ret = (Symbols){
                .elf = elf,
                .section = section,
                .strings = strings,
                .entry = entry,
                .n = section->size / entry,
                .buffer = malloc(CHUNK * entry),
        };
        return ret->buffer ? 0 : -ENOMEM;
}

/* To be called for 0, 1, 2, ..., n - 1. Inlined, since a call for each of a hundred thousand is a tenth of what they take. */
static inline __attribute__((always_inline)) int symbols_read(Symbols *symbols, uint64_t i, Elf64_Sym *ret) {
        const uint8_t *p = symbols->buffer + i % CHUNK * symbols->entry;
        Elf32_Sym s32;
        int r;

        if (i % CHUNK == 0) {
                r = elf_file_read_at(symbols->elf, symbols->section->offset + i * symbols->entry, symbols->buffer,
                                     (size_t) MIN(CHUNK, symbols->n - i) * symbols->entry);
                if (r < 0)
                        return r;
        }
        if (symbols->elf->is64) {
                memcpy(ret, p, sizeof(*ret));
                return 0;
        }
        memcpy(&s32, p, sizeof(s32));
        widen_symbol(&s32, ret);
        return 0;
}

/* A symbol table that was not stripped has clock_gettime@@GLIBC_2.17: the function's name ends before. */
static void cut_versions(char *strings, size_t size) {
        char *end = strings + size, *at = strings;

        while (at < end && (at = memchr(at, '@', end - at))) {
                if (at > strings && at[-1] != 0)
                        *at = 0;
                at++;
        }
}

int elf_file_read_symbols(ElfFile *elf, enum ElfSymbols which, SymbolTable *table) {
        _cleanup_(symbols_done) Symbols symbols;
        Elf64_Sym symbol;
        uint32_t base;
        char *space;
        int r;

        r = symbols_open(&symbols, elf, which);
        if (r < 0)
                return r;
        r = symbol_table_add_strings(table, symbols.strings->size, &space, &base);
        if (r < 0)
                return r;
        r = elf_file_read_at(elf, symbols.strings->offset, space, symbols.strings->size);
        if (r < 0)
                return r;
        cut_versions(space, symbols.strings->size);
        for (uint64_t i = 0; i < symbols.n && r >= 0; i++) {
                r = symbols_read(&symbols, i, &symbol);
                if (r >= 0)
                        r = add_symbol(elf, &symbol, base, (uint32_t) symbols.strings->size, table);
        }
        return r;
}

int elf_file_find_symbol(ElfFile *elf, const char *name, uint64_t *ret, unsigned *ret_section) {
        _cleanup_(symbols_done) Symbols symbols;
        _cleanup_free_ char *strings = NULL;
        Elf64_Sym symbol, found = { .st_shndx = SHN_UNDEF };
        size_t size;
        int r;

        r = symbols_open(&symbols, elf, ELF_SYMTAB);
        if (r < 0)
                return r;
        size = symbols.strings->size;
        strings = malloc(size + 1);
        if (!strings)
                return -ENOMEM;
        r = elf_file_read_at(elf, symbols.strings->offset, strings, size);
        strings[size] = 0;
        for (uint64_t i = 0; i < symbols.n && r >= 0; i++) {
                r = symbols_read(&symbols, i, &symbol);
                if (r < 0 || symbol.st_name >= size || symbol.st_shndx == SHN_UNDEF ||
                    strcmp(strings + symbol.st_name, name) != 0)
                        continue;
                if (found.st_shndx != SHN_UNDEF &&
                    (found.st_value != symbol.st_value || found.st_shndx != symbol.st_shndx))
                        return -ENOENT;
                found = symbol;
        }
        if (r < 0)
                return r;
        if (found.st_shndx == SHN_UNDEF)
                return -ENOENT;
        *ret = found.st_value;
        if (ret_section)
                *ret_section = found.st_shndx;
        return 0;
}
