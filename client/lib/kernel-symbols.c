/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first file has nearly all names there will be, of which a recording needs few: it stays mapped, and only
 * what is looked up is looked at. Of later ones the modules that are new are copied, each into one block of
 * memory. Modules hang in an array by number, which is what a frame has, so that a look-up is a binary search in
 * one of them.
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

/* Names end with 0 within strings, which does so itself; what leads beyond is found when it is asked for. */
typedef struct Module {
        const char *name;
        const struct rs_kernel_symbol *symbols;
        uint32_t n_symbols;
        const char *strings;
        uint64_t strings_size;
        uint8_t bytes[]; /* what is pointed to, unless that is in the first file */
} Module;

struct KernelSymbols {
        void *first; /* file, mapped; NULL: none */
        uint64_t first_size;
        uint64_t bytes;
        Module *modules[RS_MODULE_MAX]; /* by number */
};

/* The parts of a file that has been checked. */
typedef struct Names {
        const struct rs_kernel_module *modules;
        const struct rs_kernel_symbol *symbols;
        const char *strings;
        uint32_t n_modules;
        uint64_t strings_size;
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
        if (symbols->first)
                (void) munmap(symbols->first, symbols->first_size);
        free(symbols);
        return NULL;
}

/* ---- checks ---- */

/* strings ends with 0, so a name that begins in it also ends in it. */
static bool module_is_sound(const Names *names, const struct rs_kernel_module *m) {
        uint32_t last = 0;

        for (uint32_t i = 0; i < m->nr_symbols; i++) {
                const struct rs_kernel_symbol *s = &names->symbols[m->first_symbol + i];

                if (s->offset < last || s->name >= names->strings_size)
                        return false;
                last = s->offset;
        }
        return true;
}

/* But the symbols. */
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
        names.strings_size = header->strings_size;
        if (header->strings_size > 0 && names.strings[header->strings_size - 1] != 0)
                return -EBADMSG;
        for (uint32_t i = 0; i < names.n_modules; i++) {
                const struct rs_kernel_module *m = &names.modules[i];

                if (m->number >= RS_MODULE_MAX || (i > 0 && m->number <= m[-1].number) || m->first_symbol != next ||
                    m->nr_symbols > header->nr_symbols - next || m->name >= header->strings_size)
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
        uint64_t size = sizeof(Module) + m->nr_symbols * sizeof(struct rs_kernel_symbol) +
                        name_size(names->strings + m->name);

        for (uint32_t i = 0; i < m->nr_symbols; i++)
                size += name_size(symbol_name(names, &names->symbols[m->first_symbol + i]));
        return size;
}

static int module_copy(const Names *names, const struct rs_kernel_module *m, uint64_t size, Module **ret) {
        Module *module = malloc(size);
        struct rs_kernel_symbol *symbols;
        char *p, *strings;

        if (!module)
                return -ENOMEM;
        symbols = (struct rs_kernel_symbol *) module->bytes;
        p = strings = (char *) (symbols + m->nr_symbols);
        p = append_name(p, names->strings + m->name);
        for (uint32_t i = 0; i < m->nr_symbols; i++) {
                const struct rs_kernel_symbol *s = &names->symbols[m->first_symbol + i];

                symbols[i] = (struct rs_kernel_symbol){ .offset = s->offset, .name = (uint32_t) (p - strings) };
                p = append_name(p, symbol_name(names, s));
        }
        module->name = strings;
        module->symbols = symbols;
        module->n_symbols = m->nr_symbols;
        module->strings = strings;
        module->strings_size = (uint64_t) (p - strings);
        *ret = module;
        return 0;
}

static int module_refer(const Names *names, const struct rs_kernel_module *m, Module **ret) {
        size_t size = name_size(names->strings + m->name);
        Module *module = malloc(sizeof(Module) + size);

        if (!module)
                return -ENOMEM;
        (void) append_name((char *) module->bytes, names->strings + m->name);
        module->name = (const char *) module->bytes;
        module->symbols = names->symbols + m->first_symbol;
        module->n_symbols = m->nr_symbols;
        module->strings = names->strings;
        module->strings_size = names->strings_size;
        *ret = module;
        return 0;
}

int kernel_symbols_refer(KernelSymbols *symbols, const void *bytes, uint64_t size) {
        int n_new = 0, r;
        Names names;

        r = names_check(bytes, size, &names);
        for (uint32_t i = 0; r >= 0 && i < names.n_modules; i++) {
                const struct rs_kernel_module *m = &names.modules[i];

                if (symbols->modules[m->number])
                        continue;
                r = module_refer(&names, m, &symbols->modules[m->number]);
                n_new++;
        }
        return r < 0 ? r : n_new;
}

int kernel_symbols_copy(KernelSymbols *symbols, const void *bytes, uint64_t size) {
        int n_new = 0, r;
        Names names;

        r = names_check(bytes, size, &names);
        if (r < 0)
                return r;
        /* A number is never given again. */
        for (uint32_t i = 0; i < names.n_modules; i++)
                if (!symbols->modules[names.modules[i].number] && !module_is_sound(&names, &names.modules[i]))
                        return -EBADMSG;
        for (uint32_t i = 0; i < names.n_modules; i++) {
                const struct rs_kernel_module *m = &names.modules[i];
                uint64_t module_bytes;

                if (symbols->modules[m->number])
                        continue;
                module_bytes = module_size(&names, m);
                if (module_bytes > TOTAL_BYTES_MAX - symbols->bytes)
                        return -EFBIG;
                r = module_copy(&names, m, module_bytes, &symbols->modules[m->number]);
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
        r = symbols->first ? kernel_symbols_copy(symbols, bytes, size) : kernel_symbols_refer(symbols, bytes, size);
        if (symbols->first || r == -EBADMSG || r == -EFBIG) {
                (void) munmap(bytes, size);
                return r;
        }
        symbols->first = bytes;
        symbols->first_size = size;
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
        if (low == 0 || m->symbols[low - 1].name >= m->strings_size)
                return -ENOENT;
        /* As long as no kernel's is: what was copied was cut before. */
        if (strnlen(m->strings + m->symbols[low - 1].name, NAME_MAX_BYTES) == NAME_MAX_BYTES)
                return -ENOENT;
        ret->name = m->strings + m->symbols[low - 1].name;
        ret->offset = offset - m->symbols[low - 1].offset;
        return 0;
}
