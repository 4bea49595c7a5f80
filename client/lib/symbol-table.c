/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sealing sorts, keeps one symbol an address, copies the names that are left into a blob of their
 * own, and links each symbol to the one that was still open where it starts. Such a chain is
 * the stack of ranges around an address, so a lookup is one binary search and a short walk.
 */

#include "symbol-table.h"

#include <string.h>

#define NO_PARENT UINT32_MAX
#define WALK_MAX 64   /* ranges around one address; real files nest two or three deep */
#define TIE_LEN 256   /* how far names are compared by length */

typedef struct Symbol {
        uint64_t start;
        uint32_t size;
        uint32_t name;   /* offset into strings */
        uint32_t parent; /* index of the range around start, NO_PARENT: none */
        uint32_t rank;   /* layer << 2 | binding */
} Symbol;

struct SymbolTable {
        Symbol *symbols;
        size_t n, allocated;
        char *strings;
        size_t strings_size, strings_allocated;
};

int symbol_table_new(SymbolTable **ret) {
        SymbolTable *table = calloc(1, sizeof(*table));

        if (!table)
                return -ENOMEM;
        *ret = table;
        return 0;
}

SymbolTable *symbol_table_free(SymbolTable *table) {
        if (!table)
                return NULL;
        free(table->symbols);
        free(table->strings);
        free(table);
        return NULL;
}

int symbol_table_add_strings(SymbolTable *table, size_t size, char **ret_space, uint32_t *ret_base) {
        size_t used = table->strings_size;

        if (size >= SYMBOL_STRINGS_MAX - used)
                return -EFBIG;
        if (used + size + 1 > table->strings_allocated) {
                /* The first blob is often the only one: no slack for it. */
                size_t allocated = MAX(used + size + 1, table->strings_allocated * 3 / 2);
                char *strings = realloc(table->strings, allocated);

                if (!strings)
                        return -ENOMEM;
                table->strings = strings;
                table->strings_allocated = allocated;
        }
        table->strings[used + size] = 0;
        table->strings_size = used + size + 1;
        *ret_space = table->strings + used;
        *ret_base = (uint32_t) used;
        return 0;
}

int symbol_table_add(SymbolTable *table, uint64_t start, uint64_t size, uint32_t name, uint32_t layer,
                     enum SymbolBinding binding) {
        if (name >= table->strings_size || size == 0 || layer > SYMBOL_LAYER_MAX)
                return -EINVAL;
        if (table->n >= SYMBOL_COUNT_MAX)
                return -EFBIG;
        if (table->n == table->allocated) {
                size_t allocated = MAX(256, table->allocated * 2);
                Symbol *symbols = reallocarray(table->symbols, allocated, sizeof(*symbols));

                if (!symbols)
                        return -ENOMEM;
                table->symbols = symbols;
                table->allocated = allocated;
        }
        size = MIN(size, UINT64_MAX - start);
        table->symbols[table->n++] = (Symbol){
                .start = start,
                .size = (uint32_t) MIN(size, UINT32_MAX),
                .name = name,
                .parent = NO_PARENT,
                .rank = layer << 2 | (uint32_t) binding,
        };
        return 0;
}

static size_t count_underscores(const char *name) {
        return strspn(name, "_");
}

/* By address, and the one to keep first. Only called with names that end inside strings. */
static int compare_symbols(const void *pa, const void *pb, void *userdata) {
        const SymbolTable *table = userdata;
        const Symbol *a = pa, *b = pb;
        const char *name_a = table->strings + a->name, *name_b = table->strings + b->name;
        size_t x, y;

        if (a->start != b->start)
                return a->start < b->start ? -1 : 1;
        if (a->rank != b->rank)
                return a->rank > b->rank ? -1 : 1;
        x = MIN(count_underscores(name_a), TIE_LEN);
        y = MIN(count_underscores(name_b), TIE_LEN);
        if (x != y)
                return x < y ? -1 : 1;
        x = strnlen(name_a, TIE_LEN);
        y = strnlen(name_b, TIE_LEN);
        if (x != y)
                return x > y ? -1 : 1;
        /* Anything, as long as it is the same every time. */
        return a->name < b->name ? -1 : a->name > b->name;
}

static void keep_one_per_address(SymbolTable *table) {
        size_t kept = 0;

        for (size_t i = 0; i < table->n; i++)
                if (kept == 0 || table->symbols[kept - 1].start != table->symbols[i].start)
                        table->symbols[kept++] = table->symbols[i];
        table->n = kept;
}

/* Names of data, of aliases and of what was dropped are half of a string table. */
static int compact_strings(SymbolTable *table) {
        _cleanup_free_ char *strings = NULL;
        size_t kept = 0, total = 0;

        for (size_t i = 0; i < table->n; i++) {
                size_t len = strnlen(table->strings + table->symbols[i].name, SYMBOL_NAME_MAX + 1);

                if (len == 0 || len > SYMBOL_NAME_MAX)
                        continue;
                /* Linkers share tails of strings, a little; a hostile file would let every symbol
                 * share one long string. */
                total += len + 1;
                if (total > 2 * table->strings_size)
                        return -EBADMSG;
                table->symbols[kept++] = table->symbols[i];
        }
        strings = malloc(MAX(total, 1));
        if (!strings)
                return -ENOMEM;

        total = 0;
        for (size_t i = 0; i < kept; i++) {
                const char *name = table->strings + table->symbols[i].name;
                size_t size = strlen(name) + 1;

                memcpy(strings + total, name, size);
                table->symbols[i].name = (uint32_t) total;
                total += size;
        }
        free(table->strings);
        table->strings = TAKE_PTR(strings);
        table->strings_size = table->strings_allocated = total;
        table->n = kept;
        return 0;
}

static uint64_t symbol_get_end(const Symbol *symbol) {
        return symbol->start + symbol->size;
}

static void end_at_next(SymbolTable *table) {
        for (size_t i = 0; i + 1 < table->n; i++) {
                Symbol *symbol = &table->symbols[i];
                uint64_t gap = table->symbols[i + 1].start - symbol->start;

                if (symbol->rank >> 2 <= SYMBOL_FUNCTION && gap < symbol->size)
                        symbol->size = (uint32_t) gap;
        }
}

static void link_parents(SymbolTable *table) {
        for (size_t i = 0; i < table->n; i++) {
                uint32_t parent = i == 0 ? NO_PARENT : (uint32_t) (i - 1);

                while (parent != NO_PARENT &&
                       symbol_get_end(&table->symbols[parent]) <= table->symbols[i].start)
                        parent = table->symbols[parent].parent;
                table->symbols[i].parent = parent;
        }
}

static void shrink(SymbolTable *table) {
        Symbol *symbols = table->n > 0 ? reallocarray(table->symbols, table->n, sizeof(*symbols)) : NULL;

        if (!symbols)
                return;
        table->symbols = symbols;
        table->allocated = table->n;
}

int symbol_table_seal(SymbolTable *table, bool ends_at_next) {
        int r;

        if (table->n == 0)
                return 0;
        qsort_r(table->symbols, table->n, sizeof(Symbol), compare_symbols, table);
        keep_one_per_address(table);
        r = compact_strings(table);
        if (r < 0)
                return r;
        if (ends_at_next)
                end_at_next(table);
        link_parents(table);
        shrink(table);
        return 0;
}

/* Index of the last symbol that starts at or before address, NO_PARENT: none. */
static uint32_t search(const SymbolTable *table, uint64_t address) {
        size_t low = 0, high = table->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (table->symbols[middle].start <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low == 0 ? NO_PARENT : (uint32_t) (low - 1);
}

const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *ret_offset) {
        const Symbol *found = NULL;
        uint32_t i = search(table, address);

        for (unsigned steps = 0; i != NO_PARENT && steps < WALK_MAX; steps++) {
                const Symbol *symbol = &table->symbols[i];

                if (address < symbol_get_end(symbol) && (!found || symbol->rank >> 2 > found->rank >> 2))
                        found = symbol;
                i = symbol->parent;
        }
        if (!found)
                return NULL;
        *ret_offset = address - found->start;
        return table->strings + found->name;
}

size_t symbol_table_get_n(const SymbolTable *table) {
        return table->n;
}
