/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sealing sorts by address, keeps one symbol of each, copies the names that are left into a blob of their
 * own, and links each symbol to the one that was still open where it starts. Such a chain is
 * the stack of ranges around an address, so a lookup is one binary search and a short walk.
 */

#include "symbol-table.h"

#include <string.h>

#define NO_PARENT UINT32_MAX
#define WALK_MAX 64   /* ranges around one address; real files nest two or three deep */
#define TIE_LEN 256   /* how far names are compared by length */
#define AHEAD 16      /* symbols */
#define DIGIT_BITS 11U
#define DIGIT_MASK ((1U << DIGIT_BITS) - 1)

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

/* Which of two with the same address is kept. Only called with names that end inside strings. */
static bool is_better(const SymbolTable *table, const Symbol *a, const Symbol *b) {
        const char *name_a = table->strings + a->name, *name_b = table->strings + b->name;
        size_t x, y;

        if (a->rank != b->rank)
                return a->rank > b->rank;
        x = MIN(count_underscores(name_a), TIE_LEN);
        y = MIN(count_underscores(name_b), TIE_LEN);
        if (x != y)
                return x < y;
        x = strnlen(name_a, TIE_LEN);
        y = strnlen(name_b, TIE_LEN);
        if (x != y)
                return x > y;
        /* Anything, as long as it is the same every time. */
        return a->name < b->name;
}

/* One pass over all for each digit in which any two differ: a comparison of each pair takes ten times as long. */
static int sort_by_address(SymbolTable *table) {
        _cleanup_free_ Symbol *other = reallocarray(NULL, table->n, sizeof(*other));
        uint64_t differs = 0;

        if (!other)
                return -ENOMEM;
        for (size_t i = 1; i < table->n; i++)
                differs |= table->symbols[i].start ^ table->symbols[0].start;
        for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
                size_t place[1U << DIGIT_BITS] = {}, next = 0;
                Symbol *sorted = other;

                if ((differs >> shift & DIGIT_MASK) == 0)
                        continue;
                for (size_t i = 0; i < table->n; i++)
                        place[table->symbols[i].start >> shift & DIGIT_MASK]++;
                for (size_t i = 0; i < ELEMENTSOF(place); i++) {
                        size_t n = place[i];

                        place[i] = next;
                        next += n;
                }
                for (size_t i = 0; i < table->n; i++)
                        sorted[place[table->symbols[i].start >> shift & DIGIT_MASK]++] = table->symbols[i];
                other = table->symbols;
                table->symbols = sorted;
                table->allocated = table->n;
        }
        return 0;
}

static void keep_one_per_address(SymbolTable *table) {
        size_t kept = 0;

        for (size_t i = 0; i < table->n; i++) {
                const Symbol *symbol = &table->symbols[i];

                if (kept == 0 || table->symbols[kept - 1].start != symbol->start)
                        table->symbols[kept++] = *symbol;
                else if (is_better(table, symbol, &table->symbols[kept - 1]))
                        table->symbols[kept - 1] = *symbol;
        }
        table->n = kept;
}

/*
 * Names of data, of aliases and of what was dropped are half of a string table. They lie anywhere in it: what takes
 * time is to wait for memory, so each is looked at once, and asked for some names ahead.
 */
static int compact_strings(SymbolTable *table) {
        _cleanup_free_ char *strings = NULL;
        size_t n = table->n, kept = 0, total = 0, allocated = table->strings_size;
        char *resized;

        table->n = 0; /* what names there are is not known any more, should it not come to the end */
        strings = malloc(MAX(allocated, 1));
        if (!strings)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                const char *name = table->strings + table->symbols[i].name;
                size_t len;

                __builtin_prefetch(table->strings + table->symbols[MIN(i + AHEAD, n - 1)].name);
                len = strnlen(name, SYMBOL_NAME_MAX + 1);
                if (len == 0 || len > SYMBOL_NAME_MAX)
                        continue;
                /* Linkers share tails of strings, a little; a hostile file would let every symbol
                 * share one long string. */
                if (len + 1 > 2 * table->strings_size - total)
                        return -EBADMSG;
                if (len + 1 > allocated - total) {
                        allocated = 2 * table->strings_size;
                        resized = realloc(strings, allocated);
                        if (!resized)
                                return -ENOMEM;
                        strings = resized;
                }
                memcpy(strings + total, name, len + 1);
                table->symbols[kept] = table->symbols[i];
                table->symbols[kept++].name = (uint32_t) total;
                total += len + 1;
        }
        resized = realloc(strings, MAX(total, 1));
        if (resized)
                strings = resized;
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
        r = sort_by_address(table);
        if (r < 0)
                return r;
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

static const Symbol *find(const SymbolTable *table, uint64_t address) {
        const Symbol *found = NULL;
        uint32_t i = search(table, address);

        for (unsigned steps = 0; i != NO_PARENT && steps < WALK_MAX; steps++) {
                const Symbol *symbol = &table->symbols[i];

                if (address < symbol_get_end(symbol) && (!found || symbol->rank >> 2 > found->rank >> 2))
                        found = symbol;
                i = symbol->parent;
        }
        return found;
}

const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *ret_offset) {
        const Symbol *found = find(table, address);

        if (!found)
                return NULL;
        *ret_offset = address - found->start;
        return table->strings + found->name;
}

const char *symbol_table_find_range(const SymbolTable *table, uint64_t address, uint64_t *ret_start, uint64_t *ret_end) {
        const Symbol *found = find(table, address);

        if (!found)
                return NULL;
        *ret_start = found->start;
        *ret_end = symbol_get_end(found);
        return table->strings + found->name;
}

size_t symbol_table_get_n(const SymbolTable *table) {
        return table->n;
}

size_t symbol_table_get_memory(const SymbolTable *table) {
        return table->allocated * sizeof(*table->symbols) + table->strings_allocated;
}
