/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What processes share of the unwind tables: an image is the table of one file, once for all that have it mapped; a
 * list is the mappings of a process, and those it was forked from or to. An image that is in no list any more stays
 * until its room is needed; and what there is no table for, until no file is left that it is of. Both are counted, not locked: they are one thread's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf-file.h"
#include "symbolizer.h"
#include "unwind-cache.h"
#include "unwind-memory.h"

typedef struct UnwindImages UnwindImages;
typedef struct UnwindList UnwindList;
typedef struct UnwindImage UnwindImage;
typedef struct UnwindCodes UnwindCodes;

typedef struct UnwindImagesStatistics {
        uint64_t images;    /* with a table in the memory now */
        uint64_t rows;      /* of these */
        uint64_t refused;   /* files without a table: malformed, or too much */
        uint64_t no_room;   /* tables that there was no room for when they were made */
        uint64_t unknown_rules; /* of files; there was no number for them */
        uint64_t evictions;
} UnwindImagesStatistics;

/* cache: where tables are kept from one run to the next, NULL: nowhere. All must outlive it. *stop, NULL: see elf_file_set_stop(). */
int unwind_images_new(UnwindImages **ret, UnwindMemory *memory, UnwindCache *cache, const bool *stop);
UnwindImages *unwind_images_free(UnwindImages *images);
DEFINE_CLEANUP(UnwindImages, unwind_images_free)

/* Makes the table of file, unless there is one for the same identity; a SymbolizerReadFunc. */
int unwind_images_read(MappedFile *file, ElfFile *elf, void *images);
/* The file goes: nothing is kept for it but a table that others may still have, or get. */
void unwind_images_forget(MappedFile *file, void *images);
/*
 * The image of code in memory, unwind_table_new_of_code(), once for all that is equal. *ret NULL: it has none. Whoever gets
 * it puts it back; what shares it, too.
 */
int unwind_images_get_code(UnwindImages *images, const uint8_t *code, size_t size, UnwindImage **ret);
void unwind_images_share_code(UnwindImage *image);
void unwind_images_put_code(UnwindImages *images, UnwindImage *image);
/* As unwind_images_wants_file(). */
bool unwind_images_wants_code(const UnwindImages *images, const UnwindImage *image);
/*
 * Once in a while: tables that had to wait for room that was given back. Returns when to come again, ns CLOCK_MONOTONIC,
 * 0: no table waits.
 */
uint64_t unwind_images_tick(UnwindImages *images);
/* Changes whenever an image has got its table. */
uint64_t unwind_images_get_generation(const UnwindImages *images);
/* The file's table was given up, or never had room, and there may be some now: it is worth to read the file again. */
bool unwind_images_wants_file(const UnwindImages *images, const MappedFile *file);
void unwind_images_get_statistics(const UnwindImages *images, UnwindImagesStatistics *ret);

/*
 * The list of what is mapped; one that says the same as old (NULL: none) is old itself. NULL where nothing is
 * mapped. codes: of what is no file's, NULL: none. -ENOBUFS: there is no room for it.
 */
int unwind_list_new(UnwindList **ret, UnwindImages *images, const AddressSpace *space, const UnwindCodes *codes, UnwindList *old);
UnwindList *unwind_list_ref(UnwindList *list);
/* Gives it up where that was the last reference. NULL is allowed. */
UnwindList *unwind_list_unref(UnwindList *list, UnwindImages *images);
/* What is published. */
uint64_t unwind_list_get_value(const UnwindList *list);
/* As it was published; belongs to the list. */
const struct rs_table_mapping *unwind_list_get_mappings(const UnwindList *list, size_t *ret_n);
/* Some of its files may still get a table. */
bool unwind_list_is_waiting(const UnwindList *list);
