/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The schema of a recording, in its only place. The store creates these tables and no other, the
 * reader accepts these tables and no other, and docs/recording.md shows them (test-store.c compares).
 * The comments are part of the SQL, so that `.schema` explains itself.
 *
 * A change raises SCHEMA_VERSION. What a table was like in older versions stays here for the reader.
 */

#include <stdbool.h>

/* "Rngs": marks the file as ours to file(1) and to the reader. */
#define SCHEMA_APPLICATION_ID 0x526e6773
#define SCHEMA_VERSION 2

/* In sample.walk_end, beside the reason: some of the stack was found by frame pointer, where unwind tables had no rule. */
#define SCHEMA_WALK_GUESSED 16

typedef struct SchemaTable {
        const char *name;
        const char *sql;
        unsigned first, last; /* versions that have it, 0: the first there was, the last there is */
} SchemaTable;

static inline bool schema_table_is_in(const SchemaTable *table, unsigned version) {
        return version >= table->first && (table->last == 0 || version <= table->last);
}

static const SchemaTable schema_tables[] = {
        { "meta",
          "CREATE TABLE meta(\n"
          "  key TEXT NOT NULL PRIMARY KEY,\n"
          "  value TEXT NOT NULL\n"
          ") WITHOUT ROWID" },
        { "event",
          "CREATE TABLE event(\n"
          "  id INTEGER PRIMARY KEY,         -- 0, 1, ...\n"
          "  name TEXT NOT NULL,\n"
          "  unit TEXT NOT NULL,             -- of sample.weight\n"
          "  by_period INTEGER NOT NULL,     -- 0: value is in Hz; 1: in units\n"
          "  value INTEGER NOT NULL\n"
          ")" },
        { "process",
          "CREATE TABLE process(\n"
          "  id INTEGER PRIMARY KEY,         -- one for each program a pid has run\n"
          "  pid INTEGER NOT NULL,\n"
          "  parent INTEGER,                 -- process.id, NULL: not known\n"
          "  start INTEGER,                  -- of the pid, before 0 if older than the recording\n"
          "  end INTEGER,                    -- NULL: had not ended\n"
          "  comm BLOB NOT NULL,\n"
          "  cmdline BLOB NOT NULL,          -- arguments, a zero byte after each\n"
          "  inner_pid INTEGER               -- in its own pid namespace; NULL: the same\n"
          ")",
          .first = 2 },
        { "thread",
          "CREATE TABLE thread(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  process INTEGER NOT NULL,\n"
          "  tid INTEGER NOT NULL,\n"
          "  comm BLOB NOT NULL              -- the last it had\n"
          ")" },
        { "file",
          "CREATE TABLE file(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  path BLOB NOT NULL,             -- as the process saw it, or [vdso], [jit], [kernel], ...\n"
          "  device INTEGER NOT NULL,        -- major << 32 | minor\n"
          "  inode INTEGER NOT NULL,\n"
          "  size INTEGER NOT NULL,\n"
          "  build_id BLOB                   -- NULL: has none\n"
          ")" },
        { "mapping",
          "CREATE TABLE mapping(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  process INTEGER NOT NULL,\n"
          "  start INTEGER NOT NULL,\n"
          "  end INTEGER NOT NULL,\n"
          "  offset INTEGER NOT NULL,        -- in the file\n"
          "  file INTEGER NOT NULL,\n"
          "  time INTEGER NOT NULL           -- when it was first seen\n"
          ")" },
        { "symbol",
          "CREATE TABLE symbol(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  name BLOB NOT NULL              -- as in the file, not demangled\n"
          ")" },
        { "frame",
          "CREATE TABLE frame(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  file INTEGER,                   -- NULL: a marker such as [truncated]\n"
          "  address INTEGER NOT NULL,       -- ELF virtual address in the file\n"
          "  symbol INTEGER,                 -- NULL: no name is known\n"
          "  offset INTEGER NOT NULL,        -- of address from the start of the symbol\n"
          "  kernel INTEGER NOT NULL         -- 1: kernel code\n"
          ")" },
        { "stack",
          "CREATE TABLE stack(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  parent INTEGER,                 -- the caller's stack.id, lower than id; NULL: outermost\n"
          "  frame INTEGER NOT NULL\n"
          ")" },
        { "target",
          "CREATE TABLE target(               -- what was named to be recorded\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  kind TEXT NOT NULL,             -- process, thread, cgroup, unit, command\n"
          "  label BLOB NOT NULL             -- as it was named\n"
          ")",
          .first = 2 },
        { "sample",
          "CREATE TABLE sample(               -- in time order by rowid\n"
          "  time INTEGER NOT NULL,\n"
          "  thread INTEGER NOT NULL,\n"
          "  event INTEGER NOT NULL,\n"
          "  cpu INTEGER NOT NULL,\n"
          "  kernel INTEGER NOT NULL,        -- 1: the CPU was in the kernel\n"
          "  walk_end INTEGER NOT NULL,      -- how the walk over the user stack ended\n"
          "  stack INTEGER,                  -- the innermost frame's stack.id; NULL: no stack\n"
          "  weight INTEGER,                 -- NULL: one period of the event\n"
          "  target INTEGER                  -- target.id; NULL: of none that was named\n"
          ")",
          .first = 2 },
        { "counter",
          "CREATE TABLE counter(\n"
          "  name TEXT NOT NULL PRIMARY KEY,\n"
          "  value INTEGER NOT NULL\n"
          ") WITHOUT ROWID" },
        /* Older ones, which only the reader uses. */
        { "process",
          "CREATE TABLE process(\n"
          "  id INTEGER PRIMARY KEY,         -- one for each program a pid has run\n"
          "  pid INTEGER NOT NULL,\n"
          "  parent INTEGER,                 -- process.id, NULL: not known\n"
          "  start INTEGER,                  -- of the pid, before 0 if older than the recording\n"
          "  end INTEGER,                    -- NULL: had not ended\n"
          "  comm BLOB NOT NULL,\n"
          "  cmdline BLOB NOT NULL           -- arguments, a zero byte after each\n"
          ")",
          .last = 1 },
        { "sample",
          "CREATE TABLE sample(               -- in time order by rowid\n"
          "  time INTEGER NOT NULL,\n"
          "  thread INTEGER NOT NULL,\n"
          "  event INTEGER NOT NULL,\n"
          "  cpu INTEGER NOT NULL,\n"
          "  kernel INTEGER NOT NULL,        -- 1: the CPU was in the kernel\n"
          "  walk_end INTEGER NOT NULL,      -- how the walk over the user stack ended\n"
          "  stack INTEGER,                  -- the innermost frame's stack.id; NULL: no stack\n"
          "  weight INTEGER                  -- NULL: one period of the event\n"
          ")",
          .last = 1 },
};
