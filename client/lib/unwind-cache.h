/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Unwind tables that took long to make, kept from one run to the next in $XDG_CACHE_HOME/ringside/unwind (cache-dir.h), one
 * file for each identity (unwind-identity.h).
 *
 * What is read there is checked as what comes from anywhere: a table is one only if all its numbers fit together. Whoever
 * could write a wrong but well-formed table there could also start other programs in the user's name; it would lead the
 * user's own stacks astray, and the programs in the kernel trust no table.
 */

#include <stddef.h>
#include <stdint.h>

#include "unwind-table-builder.h"

/* Bytes of all files together; then those that were not used for longest go. */
#define UNWIND_CACHE_SIZE_MAX (UINT64_C(512) << 20)
/*
 * Rows and pages of a table that is worth a file: it takes about 1 ms to make, where to find, read and check one takes
 * a tenth or two of that. Most files that are mapped are smaller; the few above are nearly all of the rows.
 */
#define UNWIND_CACHE_WORTH 20000

/*
 * What files are of another version by: tables, a checksum of those that are made of the fixtures and of a file that has
 * one, which a test compares, so that none is used that would be made otherwise now; and a number that is raised for what
 * no fixture shows.
 */
#define UNWIND_CACHE_TABLES 0x34b279bfU
#define UNWIND_CACHE_VERSION (UNWIND_CACHE_TABLES ^ 3U)

typedef struct UnwindCache UnwindCache;

/*
 * path: a directory that is made where its parent is there; NULL: as above. -ENOENT: there is no home for it; -EPERM: it
 * or its home belongs to somebody else, or others may write there. Others may not look into it, either.
 */
int unwind_cache_new(UnwindCache **ret, const char *path, uint64_t size_max);
UnwindCache *unwind_cache_free(UnwindCache *cache);
DEFINE_CLEANUP(UnwindCache, unwind_cache_free)

/* The file's table, from the cache, or made now; errors are those of unwind_table_new(). cache: NULL is none. */
int unwind_cache_get(UnwindCache *cache, ElfFile *elf, UnwindTable **ret);
/*
 * Takes over what unwind_cache_get() gave for elf. What was made, and is worth it, is to be kept: that takes a third of the
 * time that it took to make, so it waits for unwind_cache_write(), while other files have no tables. NULL is allowed.
 */
void unwind_cache_take(UnwindCache *cache, const ElfFile *elf, UnwindTable *table);
/* The same at once, and the table stays the caller's. Neither keeps what was made without the cache. */
void unwind_cache_put(UnwindCache *cache, const ElfFile *elf, UnwindTable *table);
/* Writes one of those that were taken over. false: there is none. The others are written when the cache is freed. */
bool unwind_cache_write(UnwindCache *cache);
bool unwind_cache_is_waiting(const UnwindCache *cache); /* there is one */

/* How many were there, and how many were written. */
size_t unwind_cache_get_n_hits(const UnwindCache *cache);
size_t unwind_cache_get_n_stores(const UnwindCache *cache);

/* A table as a file has it: for tests. -EBADMSG: it is none, -ESTALE: of another version. elf: the file it must fit. */
int unwind_cache_parse(const ElfFile *elf, const void *data, size_t size, UnwindTable **ret);
