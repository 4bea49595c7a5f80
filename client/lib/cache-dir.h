/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A directory of files that took long to make, kept from one run to the next: $XDG_CACHE_HOME/ringside/NAME. Everything
 * there may be deleted at any time. Several clients may use it at once: files appear whole, by renaming, and are never
 * changed. What one leaves that is killed while it writes the next one removes that writes. The directory and the files
 * must be the user's own, and written by nobody else.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util.h"

/* Bytes of a file's name and its end. */
#define CACHE_DIR_NAME_MAX 224U

typedef struct CacheDir CacheDir;

typedef struct CacheDirOptions {
        const char *path;   /* a directory that is made where its parent is there; NULL: name below the user's caches */
        const char *name;
        const char *suffix; /* of the files: what has another is not ours. Static, as name. */
        uint64_t size_max;  /* bytes of all files together; then those that were not used for longest go */
} CacheDirOptions;

/*
 * -ENOENT: there is no home for it; -EPERM: it or its home belongs to somebody else, or others may write there. Others may
 * not look into it, either.
 */
int cache_dir_new(CacheDir **ret, const CacheDirOptions *options);
CacheDir *cache_dir_free(CacheDir *cache);
DEFINE_CLEANUP(CacheDir, cache_dir_free)

/* All that the file has, for free(). -EBADMSG: that is more than size_max, or it became less meanwhile. */
int cache_dir_load(CacheDir *cache, const char *name, size_t size_max, uint8_t **ret, size_t *ret_size);
/*
 * Not written through to the disk: who reads it has to find out what a crash left, and what a full disk. -EFBIG: a quarter
 * of the cache is the most for one.
 */
int cache_dir_store(CacheDir *cache, const char *name, const struct iovec *parts, size_t n);
