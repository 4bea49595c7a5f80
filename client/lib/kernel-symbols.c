/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A module is one block of memory: its symbols sorted by offset, and the names behind them. Blocks hang in
 * an array by number, which is what a frame has, so that a look-up is a binary search in one module.
 */

#include "kernel-symbols.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kernel-names.h"
#include "record.h"
#include "util.h"

/* As the kernel's KSYM_NAME_LEN has it; longer ones are cut. */
#define NAME_MAX_BYTES 512
/* Of all that is kept, modules that are gone included. */
#define TOTAL_BYTES_MAX (256ULL << 20)

typedef struct Symbol {
        uint32_t offset;
        uint32_t name; /* in names */
} Symbol;

typedef struct Module {
        uint32_t n_symbols;
        char *name;  /* these two point behind the symbols */
        char *names;
        Symbol symbols[];
} Module;

struct KernelSymbols {
        uint64_t bytes;
        Module *modules[RS_MODULE_MAX]; /* by number */
};

/* The parts of a file that has been checked. */
typedef struct Names {
        const struct rs_kernel_module *modules;
        const struct rs_kernel_symbol *symbols;
        const char *strings;
        uint32_t n_modules;
} Names;

int kernel_symbols_new(KernelSymbols **ret) {
        KernelSymbols *symbols = calloc(1, sizeof(KernelSymbols));

        if (!symbols)
                return -ENOMEM;
        *ret = symbols;
        return 0;
}

KernelSymbols *kernel_symbols_free(KernelSymbols *symbols) {
        if (!symbols)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(symbols->modules); i++)
                free(symbols->modules[i]);
        free(symbols);
        return NULL;
}

/* ---- checks ---- */

/* strings ends with 0, so a name that begins in it also ends in it. */
static bool module_is_sound(const Names *names, const struct rs_kernel_module *m, uint64_t strings_size) {
        uint32_t last = 0;

        if (m->name >= strings_size)
                return false;
        for (uint32_t i = 0; i < m->nr_symbols; i++) {
                const struct rs_kernel_symbol *s = &names->symbols[m->first_symbol + i];

                if (s->offset < last || s->name >= strings_size)
                        return false;
                last = s->offset;
        }
        return true;
}

static int names_check(const struct rs_kernel_names *header, uint64_t size, Names *ret) {
        const uint8_t *p = (const uint8_t *) (header + 1);
        uint64_t expected, next = 0;
        Names names;

        if (size < sizeof(*header) || header->magic != RS_KERNEL_NAMES_MAGIC ||
            header->version != RS_KERNEL_NAMES_VERSION)
                return -EBADMSG;
        if (size > RS_KERNEL_NAMES_SIZE_MAX || header->nr_symbols > RS_KERNEL_SYMBOLS_MAX ||
            header->nr_modules > RS_MODULE_MAX || header->strings_size > RS_KERNEL_NAMES_SIZE_MAX)
                return -EFBIG;
        expected = sizeof(*header) + (uint64_t) header->nr_modules * sizeof(*names.modules) +
                   (uint64_t) header->nr_symbols * sizeof(*names.symbols) + header->strings_size;
        if (size != expected)
                return -EBADMSG;

        names.n_modules = header->nr_modules;
        names.modules = (const struct rs_kernel_module *) p;
        names.symbols = (const struct rs_kernel_symbol *) (names.modules + header->nr_modules);
        names.strings = (const char *) (names.symbols + header->nr_symbols);
        if (header->strings_size > 0 && names.strings[header->strings_size - 1] != 0)
                return -EBADMSG;
        for (uint32_t i = 0; i < names.n_modules; i++) {
                const struct rs_kernel_module *m = &names.modules[i];

                if (m->number >= RS_MODULE_MAX || (i > 0 && m->number <= m[-1].number) || m->first_symbol != next ||
                    m->nr_symbols > header->nr_symbols - next || !module_is_sound(&names, m, header->strings_size))
                        return -EBADMSG;
                next += m->nr_symbols;
        }
        if (next != header->nr_symbols)
                return -EBADMSG;
        *ret = names;
        return 0;
}

/* ---- taking in ---- */

static const char *symbol_name(const Names *names, const struct rs_kernel_symbol *s) {
        return names->strings + s->name;
}

static size_t name_size(const char *name) {
        return strnlen(name, NAME_MAX_BYTES - 1) + 1;
}

static char *append_name(char *p, const char *name) {
        size_t n = name_size(name);

        memcpy(p, name, n - 1);
        p[n - 1] = 0;
        return p + n;
}

/* Names may share their bytes in the file, but not here: what they come to is counted first. */
static uint64_t module_size(const Names *names, const struct rs_kernel_module *m) {
        uint64_t size = sizeof(Module) + m->nr_symbols * sizeof(Symbol) + name_size(names->strings + m->name);

        for (uint32_t i = 0; i < m->nr_symbols; i++)
                size += name_size(symbol_name(names, &names->symbols[m->first_symbol + i]));
        return size;
}

static int module_new(const Names *names, const struct rs_kernel_module *m, uint64_t size, Module **ret) {
        Module *module = malloc(size);
        char *p;

        if (!module)
                return -ENOMEM;
        module->n_symbols = m->nr_symbols;
        module->name = (char *) (module->symbols + module->n_symbols);
        p = module->names = append_name(module->name, names->strings + m->name);
        for (uint32_t i = 0; i < m->nr_symbols; i++) {
                const struct rs_kernel_symbol *s = &names->symbols[m->first_symbol + i];

                module->symbols[i] = (Symbol){ .offset = s->offset, .name = p - module->names };
                p = append_name(p, symbol_name(names, s));
        }
        *ret = module;
        return 0;
}

int kernel_symbols_add_bytes(KernelSymbols *symbols, const void *bytes, uint64_t size) {
        int n_new = 0, r;
        Names names;

        r = names_check(bytes, size, &names);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < names.n_modules; i++) {
                const struct rs_kernel_module *m = &names.modules[i];
                uint64_t module_bytes;

                /* A number is never given again. */
                if (symbols->modules[m->number])
                        continue;
                module_bytes = module_size(&names, m);
                if (module_bytes > TOTAL_BYTES_MAX - symbols->bytes)
                        return -EFBIG;
                r = module_new(&names, m, module_bytes, &symbols->modules[m->number]);
                if (r < 0)
                        return r;
                symbols->bytes += module_bytes;
                n_new++;
        }
        return n_new;
}

int kernel_symbols_add(KernelSymbols *symbols, int fd, uint64_t size) {
        int seals = fcntl(fd, F_GET_SEALS), r;
        struct stat st;
        void *bytes;

        if (seals < 0)
                return errno == EINVAL ? -EPERM : -errno;
        /* Else it could change between check and use, or end under us. */
        if ((seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK))
                return -EPERM;
        if (size < sizeof(struct rs_kernel_names))
                return -EBADMSG;
        if (size > RS_KERNEL_NAMES_SIZE_MAX)
                return -EFBIG;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size < 0 || (uint64_t) st.st_size < size)
                return -EBADMSG;
        bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
                return -errno;
        r = kernel_symbols_add_bytes(symbols, bytes, size);
        (void) munmap(bytes, size);
        return r;
}

/* ---- looking up ---- */

/* Of several that begin at one place, the last. */
int kernel_symbols_find(const KernelSymbols *symbols, unsigned module, uint64_t offset, KernelSymbol *ret) {
        const Module *m = module < RS_MODULE_MAX ? symbols->modules[module] : NULL;
        size_t low = 0, high = m ? m->n_symbols : 0;

        *ret = (KernelSymbol){ .module = m ? m->name : NULL };
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (m->symbols[middle].offset <= offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0)
                return -ENOENT;
        ret->name = m->names + m->symbols[low - 1].name;
        ret->offset = offset - m->symbols[low - 1].offset;
        return 0;
}
