/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a killed writer's rollback journal says the database looked like before: the pages that have to
 * be taken from the journal instead of the file, and how big the file was.
 * The format is that of "SQLite database file format", section 3. The journal is hostile.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "table.h"

/* Embedded; all zero: there is nothing to roll back. */
typedef struct Rollback {
        int fd; /* owned, valid where page_size is not 0 */
        uint32_t page_size;
        uint64_t n_pages; /* of the database before the transaction */
        bool is_unsynced; /* as our writers leave it: its records go on to its end, and there is no second segment */
        Table pages;      /* page number -> offset of its old content in the journal */
} Rollback;

/* fd is taken in any case. A journal without a valid header leaves nothing to roll back. 0 or -errno. */
int rollback_load(Rollback *ret, int fd, uint64_t size);
void rollback_done(Rollback *rollback);
/* Replaces what n bytes of the database at offset hold by what they held before. 0 or -errno. */
int rollback_apply(const Rollback *rollback, void *buffer, size_t n, uint64_t offset);
