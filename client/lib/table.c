/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open addressing with linear probing, at most three quarters full; removal moves the followers up. */

#include "table.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "util.h"

#define CACHE_LINE 64U
#define SMALL (1U << 15)
/* From here on in large pages, where the kernel has some: an entry may be anywhere, on a page not looked at for long. */
#define LARGE_BYTES (2U << 20)

static uint64_t mix(uint64_t h, uint64_t v) {
        /* The 128-bit product folded, as wyhash and others do: one multiplication a word. */
        unsigned __int128 p = (unsigned __int128) (h ^ 0x9e3779b97f4a7c15ULL) * (v ^ 0xd6e8feb86659fd93ULL ^ h);

        return (uint64_t) p ^ (uint64_t) (p >> 64);
}

static size_t table_slot(const Table *table, TableKey key) {
        return mix(mix(mix(table->seed, key.a), key.b), key.c) & (table->n_slots - 1);
}

static bool key_equal(TableKey x, TableKey y) {
        return x.a == y.a && x.b == y.b && x.c == y.c;
}

/* Where key is, or the free slot where it would be. */
static TableEntry *table_find(const Table *table, TableKey key) {
        for (size_t i = table_slot(table, key);; i = (i + 1) & (table->n_slots - 1))
                if (table->entries[i].value == 0 || key_equal(table->entries[i].key, key))
                        return &table->entries[i];
}

/* While it is small it need not be gone through again so soon. */
static size_t bigger_size(size_t n_slots) {
        return n_slots == 0 ? 64 : n_slots < SMALL ? n_slots * 4 : n_slots * 2;
}

static void ask_for_large_pages(void *memory, size_t size) {
        uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), start = ((uintptr_t) memory + page - 1) & ~(page - 1);

        (void) madvise((void *) start, ((uintptr_t) memory + size - start) & ~(page - 1), MADV_HUGEPAGE);
}

static int table_grow(Table *table) {
        Table bigger = { .n_slots = bigger_size(table->n_slots), .n = table->n, .seed = table->seed };

        if (!table->seed) {
                if (getrandom(&bigger.seed, sizeof(bigger.seed), GRND_NONBLOCK) != sizeof(bigger.seed))
                        bigger.seed = (uintptr_t) table; /* early boot: better than not to work */
                bigger.seed |= 1;
        }

        /* No entry lies across two lines. */
        bigger.memory = calloc(1, bigger.n_slots * sizeof(TableEntry) + CACHE_LINE);
        if (!bigger.memory)
                return -ENOMEM;
        if (bigger.n_slots * sizeof(TableEntry) >= LARGE_BYTES)
                ask_for_large_pages(bigger.memory, bigger.n_slots * sizeof(TableEntry));
        bigger.entries = (TableEntry *) (((uintptr_t) bigger.memory + CACHE_LINE - 1) & ~(uintptr_t) (CACHE_LINE - 1));
        for (size_t i = 0; i < table->n_slots; i++)
                if (table->entries[i].value != 0)
                        *table_find(&bigger, table->entries[i].key) = table->entries[i];
        free(table->memory);
        *table = bigger;
        return 0;
}

void table_done(Table *table) {
        free(table->memory);
        *table = (Table){};
}

void table_clear(Table *table) {
        if (table->n_slots > 0)
                memset(table->entries, 0, table->n_slots * sizeof(TableEntry));
        table->n = 0;
}

void table_prefetch(const Table *table, TableKey key) {
        if (table->n > 0)
                __builtin_prefetch(&table->entries[table_slot(table, key)]);
}

uint64_t table_get(const Table *table, TableKey key) {
        return table->n > 0 ? table_find(table, key)->value : 0;
}

int table_put(Table *table, TableKey key, uint64_t value) {
        TableEntry *e;
        int r;

        if (table->n + 1 > table->n_slots / 4 * 3) {
                r = table_grow(table);
                if (r < 0)
                        return r;
        }
        e = table_find(table, key);
        if (e->value == 0)
                table->n++;
        *e = (TableEntry){ .key = key, .value = value };
        return 0;
}

uint64_t table_remove(Table *table, TableKey key) {
        size_t mask = table->n_slots - 1, hole;
        TableEntry *e;
        uint64_t value;

        if (table->n == 0)
                return 0;
        e = table_find(table, key);
        value = e->value;
        if (value == 0)
                return 0;

        hole = e - table->entries;
        for (size_t i = (hole + 1) & mask; table->entries[i].value != 0; i = (i + 1) & mask) {
                size_t home = table_slot(table, table->entries[i].key);

                /* It may move into the hole if the hole is not before its home, going round. */
                if (((i - home) & mask) >= ((i - hole) & mask)) {
                        table->entries[hole] = table->entries[i];
                        hole = i;
                }
        }
        table->entries[hole] = (TableEntry){};
        table->n--;
        return value;
}

int table_string_key(Table *table, const char *s, size_t n, TableKey *ret) {
        uint64_t a, b;
        int r;

        if (!table->seed) {
                r = table_grow(table);
                if (r < 0)
                        return r;
        }
        a = mix(table->seed, 1);
        b = mix(table->seed, 2);
        for (size_t i = 0; i < n; i += 8) {
                uint64_t word = 0;

                memcpy(&word, s + i, MIN(n - i, 8));
                a = mix(a, word);
                b = mix(b, ~word);
        }
        *ret = (TableKey){ a, b, n };
        return 0;
}

bool table_next(const Table *table, size_t *pos, TableEntry *ret) {
        while (*pos < table->n_slots) {
                const TableEntry *e = &table->entries[(*pos)++];

                if (e->value != 0) {
                        *ret = *e;
                        return true;
                }
        }
        return false;
}
