/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-table.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "record.h"
#include "util.h"

#define PAGE_SIZE 4096ULL
#define NO_NUMBER UINT32_MAX
/* Where the kernel puts code that it makes: on x86-64 in the two GiB of core and modules; elsewhere unknown. */
#if defined(__x86_64__)
#define JIT_END 0xffffffffff000000ULL
#else
#define JIT_END 0ULL
#endif

typedef struct Symbol {
        uint64_t address;
        const char *name; /* in the text, not terminated */
        uint32_t name_len;
        uint32_t rank; /* module << 1 | is local */
} Symbol;

typedef struct Module {
        const char *name;
        size_t name_len;
        uint64_t start, end;
        size_t first, n; /* symbols */
        uint32_t number;
        bool passing; /* it comes or goes */
} Module;

/* What was read: symbols in the order of the text, then of modules and addresses. The first module is the core. */
typedef struct Reader {
        const char *list; /* of modules, or NULL */
        Symbol *symbols;
        size_t n_symbols;
        Module *modules;
        size_t n_modules, capacity;
        size_t module; /* of the last symbol: the next is most likely of the same */
} Reader;

static void reader_done(Reader *r) {
        free(r->symbols);
        free(r->modules);
}

static bool starts_with(const char *s, size_t len, const char *prefix) {
        return len >= strlen(prefix) && memcmp(s, prefix, strlen(prefix)) == 0;
}

static bool is(const char *s, size_t len, const char *other) {
        return len == strlen(other) && memcmp(s, other, len) == 0;
}

/* ---- the text ---- */

/* "NAME SIZE USES USERS STATE ADDRESS" */
static bool list_has_live(const char *list, const char *name, size_t len) {
        for (const char *end; *list; list = end + (*end != 0)) {
                end = strchrnul(list, '\n');
                if (strncmp(list, name, len) == 0 && list[len] == ' ')
                        return memmem(list, end - list, " Live ", 6);
        }
        return false;
}

static int reader_add_module(Reader *r, const char *name, size_t len) {
        if (r->n_modules == r->capacity) {
                size_t capacity = r->capacity ? r->capacity * 2 : 64;
                Module *modules = reallocarray(r->modules, capacity, sizeof(*modules));

                if (!modules)
                        return -ENOMEM;
                r->modules = modules;
                r->capacity = capacity;
        }
        r->module = r->n_modules;
        r->modules[r->n_modules++] = (Module){.name = name, .name_len = len, .number = NO_NUMBER,
                                              .passing = r->module > 0 && r->list && !list_has_live(r->list, name, len)};
        return 0;
}

/* Makes the module of this name the last one seen. Its symbols stand together: this seldom has to search. */
static int reader_find_module(Reader *r, const char *name, size_t len) {
        if (len == 0) {
                r->module = 0;
                return 0;
        }
        for (size_t i = 0; i < r->n_modules; i++) {
                size_t at = i == 0 ? r->module : i;

                if (at > 0 && r->modules[at].name_len == len && memcmp(r->modules[at].name, name, len) == 0) {
                        r->module = at;
                        return 0;
                }
        }
        /* Twice as many as have names, so that a text of nothing but modules does not take for ever. */
        return r->n_modules > 2 * RS_KERNEL_RANGES_MAX ? -E2BIG : reader_add_module(r, name, len);
}

/* The compiler's and the linker's own labels, and the padding before functions. */
static bool name_is_noise(const char *name, size_t len) {
        return len == 0 || name[0] == '$' || name[0] == '.' || starts_with(name, len, "__pfx_") ||
               starts_with(name, len, "__cfi_");
}

static bool module_is_made_at_run_time(const char *name, size_t len) {
        return is(name, len, "bpf") || starts_with(name, len, "__builtin__");
}

static uint64_t take_hex(const char **p, const char *end) {
        uint64_t value = 0;

        for (; *p < end && isxdigit((unsigned char) **p); (*p)++)
                value = value << 4 | ((**p & 15) + (**p > '9' ? 9 : 0));
        return value;
}

/*
 * "ADDRESS TYPE NAME", and a tab and "[MODULE]" but for the core's. What is not like that, or not code, is
 * passed over.
 */
static int reader_take_line(Reader *r, const char *p, const char *end) {
        const char *name, *module = "", *tab;
        uint64_t address = take_hex(&p, end);
        size_t len, module_len = 0;
        bool local, undefined;
        int error;

        if (address == 0 || end - p < 4 || p[0] != ' ' || p[2] != ' ' || !memchr("tTwWuU", p[1], 6))
                return 0;
        local = p[1] == 't' || p[1] == 'w';
        undefined = p[1] == 'u' || p[1] == 'U';
        name = p + 3;
        tab = memchr(name, '\t', end - name);
        len = (tab ?: end) - name;
        if (tab) {
                module = tab + 2;
                if (end - tab < 4 || tab[1] != '[' || end[-1] != ']')
                        return 0;
                module_len = end - 1 - module;
        }
        if (name_is_noise(name, len) || memchr(p, 0, end - p) ||
            module_is_made_at_run_time(module, module_len))
                return 0;
        error = reader_find_module(r, module, module_len);
        /* Of what is "Live" that which initialized it may still be listed: then so are the symbols that it has from others. */
        if (error == 0 && module_len > 0)
                r->modules[r->module].passing |= undefined;
        if (error < 0 || undefined || r->modules[r->module].passing)
                return error == -E2BIG ? 0 : error;
        if (module_len == 0 && is(name, len, "_stext"))
                r->modules[0].start = address;
        if (module_len == 0 && is(name, len, "_etext"))
                r->modules[0].end = address;
        if (r->n_symbols >= RS_KERNEL_SYMBOLS_MAX)
                return -E2BIG;
        r->symbols[r->n_symbols++] = (Symbol){address, name, len, r->module << 1 | local};
        return 0;
}

static int reader_read(Reader *r, const char *text, size_t size) {
        const char *end = text + size;
        size_t lines = 1;
        int error;

        for (const char *p = text; (p = memchr(p, '\n', end - p)); p++)
                lines++;
        r->symbols = reallocarray(NULL, MIN(lines, RS_KERNEL_SYMBOLS_MAX), sizeof(*r->symbols));
        error = r->symbols ? reader_add_module(r, "kernel", strlen("kernel")) : -ENOMEM;
        while (error == 0 && text < end) {
                const char *line_end = memchr(text, '\n', end - text) ?: end;

                error = reader_take_line(r, text, line_end);
                text = line_end + 1;
        }
        if (error == 0 && (r->modules[0].start == 0 || r->modules[0].end <= r->modules[0].start ||
                           r->modules[0].end - r->modules[0].start > UINT32_MAX))
                error = -ENODATA;
        return error;
}

/* ---- what lies where ---- */

static int symbol_compare(const void *a, const void *b) {
        const Symbol *x = a, *y = b;

        if (x->rank >> 1 != y->rank >> 1)
                return x->rank >> 1 < y->rank >> 1 ? -1 : 1;
        if (x->address != y->address)
                return x->address < y->address ? -1 : 1;
        if (x->rank != y->rank)
                return x->rank < y->rank ? -1 : 1;
        /* Of several the one that stands last, as perf has it: then both say the same. */
        return x->name > y->name ? -1 : x->name < y->name;
}

static int module_compare_start(const void *a, const void *b) {
        const Module *x = a, *y = b;

        return x->start < y->start ? -1 : x->start > y->start;
}

static int module_compare_name(const void *a, const void *b) {
        const Module *x = a, *y = b;

        return memcmp(x->name, y->name, MIN(x->name_len, y->name_len)) ?: (int) x->name_len - (int) y->name_len;
}

static int module_compare_number(const void *a, const void *b) {
        const Module *x = a, *y = b;

        return x->number < y->number ? -1 : x->number > y->number;
}

/* One name for each place, and each module's symbols and extent. */
static void reader_lay_out(Reader *r) {
        size_t n = 0;

        qsort(r->symbols, r->n_symbols, sizeof(*r->symbols), symbol_compare);
        for (size_t i = 0; i < r->n_symbols; i++) {
                const Symbol s = r->symbols[i];
                Module *m = &r->modules[s.rank >> 1];
                bool core = m == r->modules;

                if (core ? s.address < m->start || s.address >= m->end
                         : m->passing || (m->n > 0 && s.address - m->start > UINT32_MAX - 2 * PAGE_SIZE))
                        continue;
                if (m->n > 0 && r->symbols[n - 1].address == s.address)
                        continue;
                if (m->n == 0)
                        m->first = n;
                if (m->n == 0 && !core)
                        m->start = s.address;
                if (!core)
                        m->end = MAX(s.address + 1, (s.address + PAGE_SIZE) & ~(PAGE_SIZE - 1));
                m->n++;
                r->symbols[n++] = s;
        }
        /* Modules that only had symbols too far away are left without any. */
        r->n_symbols = n;
}

/* ---- numbers ---- */

/* The same code at the same place under the same name. */
static bool module_is(const Reader *r, const Module *m, const struct rs_kernel_names *names,
                      const struct rs_kernel_module *old) {
        const struct rs_kernel_symbol *symbols =
                (const void *) ((const struct rs_kernel_module *) (names + 1) + names->nr_modules);
        const char *strings = (const char *) (symbols + names->nr_symbols);

        if (old->nr_symbols != m->n || !is(m->name, m->name_len, strings + old->name))
                return false;
        for (size_t i = 0; i < m->n; i++) {
                const Symbol *s = &r->symbols[m->first + i];
                const struct rs_kernel_symbol *o = &symbols[old->first_symbol + i];

                if (s->address - m->start != o->offset || !is(s->name, s->name_len, strings + o->name))
                        return false;
        }
        return true;
}

static uint32_t module_old_number(const Reader *r, const Module *m, const KernelTable *old) {
        const struct rs_kernel_module *modules = old ? (const void *) (old->names + 1) : NULL;

        for (size_t i = 0; old && i < old->ranges.nr; i++)
                for (size_t j = 0; old->ranges.ranges[i].start == m->start && j < old->names->nr_modules; j++)
                        if (modules[j].number == old->ranges.ranges[i].module &&
                            module_is(r, m, old->names, &modules[j]))
                                return modules[j].number;
        return NO_NUMBER;
}

static void reader_number(Reader *r, const KernelTable *old, KernelTable *table) {
        table->next_module = old && old->next_module > 0 ? old->next_module : 1;
        table->ranges.core_start = r->modules[0].start;
        table->ranges.core_end = r->modules[0].end;
        table->ranges.jit_start = JIT_END ? r->modules[0].end : 0;
        table->ranges.jit_end = JIT_END;
        r->modules[0].number = RS_MODULE_CORE;
        /* New numbers go by name: in what order modules lie is nobody's business. */
        qsort(r->modules + 1, r->n_modules - 1, sizeof(*r->modules), module_compare_name);
        for (size_t i = 1, n = 0; i < r->n_modules && n < RS_KERNEL_RANGES_MAX; i++) {
                Module *m = &r->modules[i];

                if (m->n == 0)
                        continue;
                m->number = module_old_number(r, m, old);
                if (m->number == NO_NUMBER && table->next_module <= RS_MODULE_MAX)
                        m->number = table->next_module++;
                n += m->number != NO_NUMBER;
        }
        qsort(r->modules + 1, r->n_modules - 1, sizeof(*r->modules), module_compare_start);
        for (size_t i = 1; i < r->n_modules; i++) {
                Module *m = &r->modules[i];

                m->end = MIN(m->end, i + 1 < r->n_modules ? m[1].start : UINT64_MAX);
                if (m->end <= m->start)
                        m->number = NO_NUMBER;
                if (m->number != NO_NUMBER)
                        table->ranges.ranges[table->ranges.nr++] =
                                (struct rs_kernel_range){m->start, m->end, m->number};
        }
}

/* ---- the names ---- */

static uint32_t put_string(char *strings, size_t *at, const char *s, size_t len) {
        uint32_t start = *at;

        memcpy(strings + start, s, len);
        strings[start + len] = 0;
        *at += len + 1;
        return start;
}

static int reader_write(Reader *r, KernelTable *table) {
        struct rs_kernel_names header = {
                .magic = RS_KERNEL_NAMES_MAGIC, .version = RS_KERNEL_NAMES_VERSION,
                .generation = table->ranges.generation, .nr_modules = table->ranges.nr + 1,
        };
        struct rs_kernel_module *modules;
        struct rs_kernel_symbol *symbols;
        char *strings;
        size_t at = 0;

        qsort(r->modules + 1, r->n_modules - 1, sizeof(*r->modules), module_compare_number);
        for (size_t i = 0; i < header.nr_modules; i++) {
                const Module *m = &r->modules[i];

                header.nr_symbols += m->n;
                header.strings_size += m->name_len + 1;
                for (size_t j = 0; j < m->n; j++)
                        header.strings_size += r->symbols[m->first + j].name_len + 1;
        }
        table->size = sizeof(header) + header.nr_modules * sizeof(*modules) +
                      header.nr_symbols * sizeof(*symbols) + header.strings_size;
        if (table->size > RS_KERNEL_NAMES_SIZE_MAX)
                return -E2BIG;
        table->names = malloc(table->size);
        if (!table->names)
                return -ENOMEM;
        *table->names = header;
        modules = (void *) (table->names + 1);
        symbols = (void *) (modules + header.nr_modules);
        strings = (char *) (symbols + header.nr_symbols);
        header.nr_symbols = 0;
        for (size_t i = 0; i < header.nr_modules; i++) {
                const Module *m = &r->modules[i];

                modules[i] = (struct rs_kernel_module){
                        m->number, put_string(strings, &at, m->name, m->name_len), header.nr_symbols, m->n};
                for (size_t j = 0; j < m->n; j++) {
                        const Symbol *s = &r->symbols[m->first + j];

                        symbols[header.nr_symbols++] = (struct rs_kernel_symbol){
                                s->address - m->start, put_string(strings, &at, s->name, s->name_len)};
                }
        }
        return 0;
}

int kernel_table_build(const KernelTable *old, const char *modules, const char *text, size_t size,
                       KernelTable *ret) {
        KernelTable table = {.ranges.generation = old ? old->ranges.generation + 1 : 1};
        Reader reader = {.list = modules};
        int r;

        r = reader_read(&reader, text, size);
        if (r == 0) {
                reader_lay_out(&reader);
                reader_number(&reader, old, &table);
                r = reader_write(&reader, &table);
        }
        reader_done(&reader);
        if (r == 0)
                *ret = table;
        return r;
}

void kernel_table_done(KernelTable *table) {
        free(table->names);
        *table = (KernelTable){};
}
