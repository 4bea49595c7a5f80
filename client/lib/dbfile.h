/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The file below SQLite, as a VFS of its own. SQLite by itself opens files by name, again and again,
 * and keeps a rollback journal on disk for the whole of a transaction, so that after a kill -9 only
 * somebody who may write can open the database. Here:
 *
 * - every file is opened once, relative to a directory that is held open, never through a symlink;
 * - the journal of a writer stays in memory until the transaction is committed. It is on disk only while
 *   the pages are being written, a millisecond or so, in SQLite's own format and place;
 * - a reader that finds such a journal left behind lays the old pages in it over those of the file,
 *   in memory. It never writes, so neither a read-only file nor a read-only directory is in its way;
 * - who will write writes them back first, if what the reader sees is a recording.
 *
 * Locks are SQLite's own bytes, so sqlite3 and we can read what is just being recorded.
 * Nothing is ever synced: what was committed survives the death of any process, not of the machine.
 */

#include <sqlite3.h>
#include <stdint.h>

#include "ringside.h"
#include "util.h"

typedef struct DbFile DbFile;

/* O_EXCL|O_NOFOLLOW, 0600. -EEXIST also where a -journal, -wal or -shm lies beside the name. */
int dbfile_create(DbFile **ret, const char *path, RingsideError *error);
/* For reading. Anything but a regular file is refused with RINGSIDE_E_RECORDING. */
int dbfile_open(DbFile **ret, const char *path, RingsideError *error);
/*
 * The same for adding to what is there. -EEXIST where a -journal, -wal or -shm lies beside it. Whether somebody is writing it
 * just now is told by its lock.
 */
int dbfile_open_for_update(DbFile **ret, const char *path, RingsideError *error);
/* As dbfile_open(), and dbfile_roll_back() may follow. */
int dbfile_open_for_rollback(DbFile **ret, const char *path, RingsideError *error);
/* After sqlite3_close() only. */
DbFile *dbfile_free(DbFile *file);
DEFINE_CLEANUP(DbFile, dbfile_free)

/* The connection, for one thread at a time. Returns SQLite's result. */
int dbfile_connect(DbFile *file, sqlite3 **ret);
/*
 * Makes the file what was read of it, where a writer had left a journal, and removes that. No transaction may be open.
 * -EEXIST: what lies there is another's, or nothing that can be played back here. -EBUSY: somebody is at it just now.
 */
int dbfile_roll_back(DbFile *file, const char *path, RingsideError *error);
/* Whether something is called as its journal that was not read, since it is another user's, or no journal. */
bool dbfile_ignores_journal(const DbFile *file);
/* errno of the last system call that failed below SQLite, 0: none. */
int dbfile_get_errno(const DbFile *file);
/* Bytes on disk. */
uint64_t dbfile_get_size(const DbFile *file);
/* For reading bytes before SQLite does: at most size. Returns how many, or -errno. */
ssize_t dbfile_peek(const DbFile *file, void *buffer, size_t size);
/* Removes a file that was just created and came to nothing. */
void dbfile_unlink(DbFile *file);
