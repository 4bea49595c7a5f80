/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stubs have no symbols. Each jumps through a slot of the global offset table, which a relocation fills with the
 * address of a function; so the instructions tell the slot, and the relocation for it the name, as binutils and gdb
 * find it out. To go by the order of both, as in the first years, is wrong where linkers sort one of them. What is
 * not understood has no name.
 *
 * Functions whose address is settled by code of the file itself (IFUNC) have a relocation without a symbol: these are
 * called by the name of that code.
 */

#include "elf-plt.h"

#include <string.h>

#include "elf-file-internal.h"

#define CODE_MAX (16U << 20)
#define RELOCATIONS_MAX (1U << 20) /* of those that matter */
#define RELOCATIONS_SIZE_MAX (UINT64_C(256) << 20)
#define STUBS_MAX (1U << 16)
#define DYNAMIC_MAX (1U << 12)     /* entries of .dynamic that are looked at */
#define NAMES_SIZE_MAX (64U << 20) /* bytes of all names together */
#define NAME_PIECE 256U            /* most names are no longer */
#define NO_NAME UINT32_MAX
#define CHUNK 1024U                /* relocations read at once */

typedef struct Relocation {
        uint64_t slot;
        uint64_t target; /* of IFUNC: where the code is that settles it */
        uint32_t symbol; /* 0: IFUNC */
} Relocation;

typedef struct Stub {
        uint64_t start, size;
        const Relocation *relocation;
        uint32_t name; /* offset into what is added to the table; NO_NAME: none */
} Stub;

struct ElfPlt {
        ElfFile *elf;
        Relocation *relocations; /* sorted by slot */
        size_t n, allocated;
        size_t n_jumps; /* of .rela.plt, in whose order they were */
        uint64_t *jumps; /* slots by number there */
        Stub *stubs;
        size_t n_stubs, stubs_allocated;
        const ElfSection *symbols, *strings; /* of the dynamic linker; NULL: a static program has none */
};

static int reserve(void *array, size_t *allocated, size_t n, size_t size) {
        void **p = array, *bigger;
        size_t room = MAX(*allocated, (size_t) 64);

        if (n <= *allocated)
                return 0;
        while (room < n)
                room *= 2;
        bigger = reallocarray(*p, room, size);
        if (!bigger)
                return -ENOMEM;
        *p = bigger;
        *allocated = room;
        return 0;
}

/* ---- relocations ---- */

static int add_relocation(ElfPlt *plt, const Elf64_Rela *rela) {
        bool x86 = plt->elf->header.e_machine == EM_X86_64;
        uint32_t type = ELF64_R_TYPE(rela->r_info);
        Relocation relocation = { .slot = rela->r_offset, .symbol = ELF64_R_SYM(rela->r_info) };
        int r;

        if (type == (x86 ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE)) {
                relocation.symbol = 0;
                relocation.target = (uint64_t) rela->r_addend;
        } else if ((type != (x86 ? R_X86_64_JUMP_SLOT : R_AARCH64_JUMP_SLOT) &&
                    type != (x86 ? R_X86_64_GLOB_DAT : R_AARCH64_GLOB_DAT)) || relocation.symbol == 0)
                return 0;
        if (plt->n == RELOCATIONS_MAX)
                return -EFBIG;
        r = reserve(&plt->relocations, &plt->allocated, plt->n + 1, sizeof(*plt->relocations));
        if (r >= 0)
                plt->relocations[plt->n++] = relocation;
        return r;
}

/*
 * Of a large library nearly all relocations are those without a symbol, which linkers put first and count. Should that
 * not be true there are no names.
 */
static uint64_t count_relative(const ElfFile *elf) {
        const ElfSection *section;
        Elf64_Dyn dynamic[64];

        if (elf_file_find_section(elf, ".dynamic", &section) < 0)
                return 0;
        for (uint64_t i = 0; i < MIN(section->size / sizeof(*dynamic), DYNAMIC_MAX); i++) {
                const Elf64_Dyn *d = &dynamic[i % ELEMENTSOF(dynamic)];

                if (i % ELEMENTSOF(dynamic) == 0 &&
                    elf_file_read_at(elf, section->offset + i * sizeof(*d), dynamic,
                                     MIN(sizeof(dynamic), (size_t) (section->size - i * sizeof(*d)))) < 0)
                        return 0;
                if (d->d_tag == DT_RELACOUNT)
                        return d->d_un.d_val;
                if (d->d_tag == DT_NULL)
                        return 0;
        }
        return 0;
}

static int read_relocations(ElfPlt *plt, const char *name, uint64_t skipped) {
        _cleanup_free_ Elf64_Rela *buffer = NULL;
        ElfFile *elf = plt->elf;
        const ElfSection *section;
        uint64_t n;
        int r;

        r = elf_file_find_section(elf, name, &section);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (section->type != SHT_RELA)
                return 0;
        if (section->size > RELOCATIONS_SIZE_MAX)
                return -EFBIG;
        buffer = reallocarray(NULL, CHUNK, sizeof(*buffer));
        if (!buffer)
                return -ENOMEM;
        n = section->size / sizeof(*buffer);
        for (uint64_t i = MIN(skipped, n), k = 0; i < n; i++, k++) {
                if (k % CHUNK == 0) {
                        r = elf_file_read_at(elf, section->offset + i * sizeof(*buffer), buffer,
                                             (size_t) MIN(CHUNK, n - i) * sizeof(*buffer));
                        if (r < 0)
                                return r;
                }
                r = add_relocation(plt, &buffer[k % CHUNK]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_slots(const void *a, const void *b) {
        const Relocation *x = a, *y = b;

        return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static const Relocation *find_relocation(const ElfPlt *plt, uint64_t slot) {
        const Relocation key = { .slot = slot };

        return plt->n > 0 ? bsearch(&key, plt->relocations, plt->n, sizeof(key), compare_slots) : NULL;
}

static int read_all_relocations(ElfPlt *plt) {
        int r;

        r = read_relocations(plt, ".rela.plt", 0);
        if (r < 0)
                return r;
        /* The n-th of these is what the lazy stub that pushes n is for. */
        plt->n_jumps = plt->n;
        plt->jumps = reallocarray(NULL, MAX(plt->n, (size_t) 1), sizeof(*plt->jumps));
        if (!plt->jumps)
                return -ENOMEM;
        for (size_t i = 0; i < plt->n; i++)
                plt->jumps[i] = plt->relocations[i].slot;
        /* lld and static programs have IFUNCs by themselves, and what is bound at once is in .rela.dyn. */
        r = read_relocations(plt, ".rela.iplt", 0);
        if (r >= 0)
                r = read_relocations(plt, ".rela.dyn", count_relative(plt->elf));
        if (r >= 0 && plt->n > 0)
                qsort(plt->relocations, plt->n, sizeof(*plt->relocations), compare_slots);
        return r;
}

/* ---- instructions ---- */

static int add_stub(ElfPlt *plt, uint64_t start, uint64_t size, const Relocation *relocation) {
        int r;

        if (!relocation)
                return 0;
        if (plt->n_stubs == STUBS_MAX)
                return -EFBIG;
        r = reserve(&plt->stubs, &plt->stubs_allocated, plt->n_stubs + 1, sizeof(*plt->stubs));
        if (r >= 0)
                plt->stubs[plt->n_stubs++] = (Stub){ start, size, relocation, NO_NAME };
        return r;
}

static uint32_t get_u32(const uint8_t *p) {
        uint32_t value;

        memcpy(&value, p, sizeof(value));
        return value;
}

/*
 * [endbr64] [bnd] jmp *slot(%rip), with a mov $number, %r11d before it where mold has linked; or endbr64, push $number,
 * [bnd] jmp to the resolver.
 */
static const Relocation *decode_x86_stub(const ElfPlt *plt, const uint8_t *code, size_t size, uint64_t address) {
        size_t at = 0;

        if (size >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0)
                at = 4;
        if (at == 4 && size >= 10 && code[4] == 0x41 && code[5] == 0xbb)
                at = 10;
        if (at < size && code[at] == 0xf2)
                at++;
        if (size - at >= 6 && code[at] == 0xff && code[at + 1] == 0x25)
                return find_relocation(plt, address + at + 6 + (uint64_t) (int64_t) (int32_t) get_u32(code + at + 2));
        if (at == 4 && size - at >= 5 && code[at] == 0x68 && get_u32(code + at + 1) < plt->n_jumps)
                return find_relocation(plt, plt->jumps[get_u32(code + at + 1)]);
        return NULL;
}

/* Of 16 bytes each, or 8 where nothing is lazy; that is what the first tells. */
static int read_x86_stubs(ElfPlt *plt, const uint8_t *code, size_t size, uint64_t address, size_t entry) {
        for (size_t at = 0; at < size; at += entry) {
                size_t n = MIN(entry, size - at);
                int r;

                r = add_stub(plt, address + at, n, decode_x86_stub(plt, code + at, n, address + at));
                if (r < 0)
                        return r;
        }
        return 0;
}

#define AARCH64_BTI_C 0xd503245fU
#define AARCH64_STUB_SIZE 16U

/* adrp x16, page; ldr x17, [x16, #offset]. */
static bool decode_aarch64_slot(const uint8_t *code, uint64_t address, uint64_t *ret) {
        uint32_t adrp = get_u32(code), ldr = get_u32(code + 4);
        uint64_t pages;

        if ((adrp & 0x9f00001fU) != 0x90000010U || (ldr & 0xffc003ffU) != 0xf9400211U)
                return false;
        pages = (uint64_t) (adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
        pages = (pages ^ 1U << 20) - (1U << 20); /* 21 bits with a sign */
        *ret = (address & ~UINT64_C(0xfff)) + (pages << 12) + (uint64_t) (ldr >> 10 & 0xfff) * 8;
        return true;
}

static int read_aarch64_stubs(ElfPlt *plt, const uint8_t *code, size_t size, uint64_t address) {
        for (size_t at = 0; at + 8 <= size; at += 4) {
                bool marked = at >= 4 && get_u32(code + at - 4) == AARCH64_BTI_C;
                size_t start = marked ? at - 4 : at;
                uint64_t slot;
                int r;

                if (!decode_aarch64_slot(code + at, address + at, &slot))
                        continue;
                r = add_stub(plt, address + start, MIN(AARCH64_STUB_SIZE + (marked ? 8 : 0), size - start),
                             find_relocation(plt, slot));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_stubs(ElfPlt *plt, const char *name) {
        _cleanup_free_ uint8_t *code = NULL;
        size_t size, entry = 16;
        uint64_t address;
        int r;

        r = elf_file_read_section(plt->elf, name, CODE_MAX, &code, &size, &address);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (plt->elf->header.e_machine == EM_AARCH64)
                return read_aarch64_stubs(plt, code, size, address);
        if (size >= 8 && memcmp(code, "\xff\x25", 2) == 0 && memcmp(code + 6, "\x66\x90", 2) == 0)
                entry = 8;
        return read_x86_stubs(plt, code, size, address, entry);
}

/* ---- names ---- */

/* A static program has none. */
static void find_symbols(ElfPlt *plt) {
        if (elf_file_find_section(plt->elf, ".dynsym", &plt->symbols) < 0 ||
            elf_file_find_section(plt->elf, ".dynstr", &plt->strings) < 0)
                plt->symbols = plt->strings = NULL;
}

/* Up to its final 0; more than SYMBOL_NAME_MAX is no name. name: room for that. Returns whether there is one. */
static bool read_name(const ElfPlt *plt, uint32_t symbol_number, char *name, size_t *ret_len) {
        Elf64_Sym symbol;
        uint64_t left;

        if (!plt->symbols || symbol_number >= plt->symbols->size / sizeof(symbol) ||
            elf_file_read_at(plt->elf, plt->symbols->offset + symbol_number * sizeof(symbol), &symbol, sizeof(symbol)) < 0 ||
            symbol.st_name == 0 || symbol.st_name >= plt->strings->size)
                return false;
        left = plt->strings->size - symbol.st_name;
        for (size_t size = 0, more = NAME_PIECE; size < MIN(left, (uint64_t) SYMBOL_NAME_MAX); size += more) {
                const char *end;

                more = (size_t) MIN(more, MIN(left, (uint64_t) SYMBOL_NAME_MAX) - size);
                if (elf_file_read_at(plt->elf, plt->strings->offset + symbol.st_name + size, name + size, more) < 0)
                        return false;
                end = memchr(name + size, 0, more);
                if (end) {
                        *ret_len = (size_t) (end - name);
                        return *ret_len > 0;
                }
        }
        return false;
}

/* Of the function that a stub leads to. */
static bool find_name(const ElfPlt *plt, const SymbolTable *table, const Relocation *relocation, char *name, size_t *ret_len) {
        const char *found;
        uint64_t offset;

        if (relocation->symbol != 0)
                return read_name(plt, relocation->symbol, name, ret_len);
        found = symbol_table_find(table, relocation->target, &offset);
        if (!found || offset != 0)
                return false;
        *ret_len = strnlen(found, SYMBOL_NAME_MAX);
        memcpy(name, found, *ret_len);
        return true;
}

static int append_name(char **names, size_t *size, size_t *allocated, const char *name, size_t len) {
        static const char suffix[] = "@plt";
        int r;

        if (len + sizeof(suffix) > NAMES_SIZE_MAX - *size)
                return -EFBIG;
        r = reserve(names, allocated, *size + len + sizeof(suffix), 1);
        if (r < 0)
                return r;
        memcpy(*names + *size, name, len);
        memcpy(*names + *size + len, suffix, sizeof(suffix));
        *size += len + sizeof(suffix);
        return 0;
}

/* Before any is added: with the first symbol that is new nothing can be looked up in the table any more. */
static int collect_names(ElfPlt *plt, const SymbolTable *table, bool ifuncs, char **names, size_t *ret_size) {
        _cleanup_free_ char *name = malloc(SYMBOL_NAME_MAX);
        size_t allocated = 0;

        if (!name)
                return -ENOMEM;
        for (size_t i = 0; i < plt->n_stubs; i++) {
                Stub *stub = &plt->stubs[i];
                size_t len;
                int r;

                stub->name = NO_NAME;
                if ((stub->relocation->symbol == 0) != ifuncs || !find_name(plt, table, stub->relocation, name, &len))
                        continue;
                stub->name = (uint32_t) *ret_size;
                r = append_name(names, ret_size, &allocated, name, len);
                if (r < 0)
                        return r;
        }
        return 0;
}

int elf_plt_add_symbols(ElfPlt *plt, SymbolTable *table, bool ifuncs) {
        _cleanup_free_ char *names = NULL;
        size_t size = 0;
        uint32_t base;
        char *space;
        int r;

        r = collect_names(plt, table, ifuncs, &names, &size);
        if (r < 0 || size == 0)
                return r;
        r = symbol_table_add_strings(table, size, &space, &base);
        if (r < 0)
                return r;
        memcpy(space, names, size);
        for (size_t i = 0; i < plt->n_stubs; i++) {
                const Stub *stub = &plt->stubs[i];

                if (stub->name == NO_NAME)
                        continue;
                r = symbol_table_add(table, stub->start, stub->size, base + stub->name, SYMBOL_SIZED_FUNCTION, SYMBOL_LOCAL);
                if (r < 0)
                        return r;
        }
        return 1;
}

int elf_plt_new(ElfPlt **ret, ElfFile *elf) {
        static const char *const sections[] = { ".plt", ".plt.sec", ".plt.got", ".iplt" };
        _cleanup_(elf_plt_freep) ElfPlt *plt = NULL;
        int r;

        if (!elf->is64 || (elf->header.e_machine != EM_X86_64 && elf->header.e_machine != EM_AARCH64))
                return -ENOENT;
        plt = calloc(1, sizeof(*plt));
        if (!plt)
                return -ENOMEM;
        plt->elf = elf;
        r = elf_file_read_sections(elf);
        if (r >= 0)
                r = read_all_relocations(plt);
        for (size_t i = 0; i < ELEMENTSOF(sections) && r >= 0 && plt->n > 0; i++)
                r = read_stubs(plt, sections[i]);
        if (r >= 0 && plt->n_stubs == 0)
                r = -ENOENT;
        if (r < 0)
                return r;
        find_symbols(plt);
        *ret = TAKE_PTR(plt);
        return 0;
}

ElfPlt *elf_plt_free(ElfPlt *plt) {
        if (!plt)
                return NULL;
        free(plt->relocations);
        free(plt->jumps);
        free(plt->stubs);
        free(plt);
        return NULL;
}
