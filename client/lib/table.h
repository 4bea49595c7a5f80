/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A hash table from three numbers to one. Interning, caching and looking up by pid are all this.
 * The hash is keyed by a random number per table, since the programs being profiled choose the
 * addresses that are looked up here, and could otherwise choose them to collide.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TableKey {
        uint64_t a, b, c;
} TableKey;

typedef struct TableEntry {
        TableKey key;
        uint64_t value; /* 0: the slot is free */
} TableEntry;

/* Embedded; all zero is an empty table. */
typedef struct Table {
        TableEntry *entries; /* in memory, from a cache line's beginning on */
        void *memory;
        size_t n_slots; /* a power of two, or 0 */
        size_t n;
        uint64_t seed;
} Table;

void table_done(Table *table);
/* Forgets everything and keeps the memory. */
void table_clear(Table *table);

/* Asks for the memory where key is or would be, for a look-up that comes soon. */
void table_prefetch(const Table *table, TableKey key);
/* 0: not there. */
uint64_t table_get(const Table *table, TableKey key);
/* value must not be 0. Replaces what was there. 0 or -ENOMEM. */
int table_put(Table *table, TableKey key, uint64_t value);
/* Returns what was there. */
uint64_t table_remove(Table *table, TableKey key);
/*
 * A key that stands for a string of n bytes: two hashes of 64 bits, keyed by the table, and the length.
 * Reserves the table's seed, so it can fail like table_put().
 */
int table_string_key(Table *table, const char *s, size_t n, TableKey *ret);
/* Starts with *pos = 0; false at the end. Nothing may be put or removed meanwhile. */
bool table_next(const Table *table, size_t *pos, TableEntry *ret);
