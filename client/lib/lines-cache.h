/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What debug information said of addresses, kept from one run to the next in $XDG_CACHE_HOME/ringside/lines: one file for
 * each identity (unwind-identity.h) and size of a file with debug information, of use for the one that was read alone.
 * Everything there may be deleted at any time, and several clients may use it at once (cache-dir.h).
 *
 * What is read there is checked like what the process says that reads debug information: it can claim a wrong line, and
 * nothing else.
 */

#include "debug-lines.h"
#include "elf-file.h"

/* Bytes of all files together. */
#define LINES_CACHE_SIZE_MAX (UINT64_C(256) << 20)
/* Addresses in one file; where they would be more, only those that were asked for last are kept. */
#define LINES_CACHE_ADDRESSES_MAX (1U << 18)
/* To be raised where the same debug information is read in another way. */
#define LINES_CACHE_VERSION 4U

typedef struct LinesCache LinesCache;

/* path: a directory that is made where its parent is there; NULL: as above. Errors: those of cache_dir_new(). */
int lines_cache_new(LinesCache **ret, const char *path, uint64_t size_max);
LinesCache *lines_cache_free(LinesCache *cache);
DEFINE_CLEANUP(LinesCache, lines_cache_free)

/* Sets in lines what is known of addresses, ascending, as many as it has. What it has set is kept where this fails, too. */
typedef int (*LinesMakeFunc)(const uint64_t *addresses, DebugLines *lines, void *userdata);

/*
 * Sets in lines what the cache knows of addresses, and has the rest made, and keeps it; lines get nothing that is no address's.
 * cache: NULL is none. debug: the file
 * with the debug information. What make() returns, or -ENOMEM, or -EFBIG: over a cap of debug-lines.h.
 */
int lines_cache_get(LinesCache *cache, const ElfFile *debug, const uint64_t *addresses, DebugLines *lines,
                    LinesMakeFunc make, void *userdata);

/* Addresses, ascending, and lines of them; 0 in lines.at: there is nothing to be known. Embedded. */
typedef struct KnownLines {
        uint64_t *addresses;
        DebugLines lines;
} KnownLines;

void known_lines_done(KnownLines *known);

/* What was read, and when it was changed last: build id and size are what whoever made a file wanted them to be. */
typedef struct LinesFile {
        uint64_t device, inode, size, mtime, ctime; /* times in ns */
} LinesFile;

/* One as a file has it: for tests. file: NULL is any. -EBADMSG: it is none, -ESTALE: of another version, or file. */
int lines_cache_parse(const uint8_t *data, size_t size, const LinesFile *file, KnownLines *ret);
