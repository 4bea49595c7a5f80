/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The schema of a recording, in its only place. The store creates these tables and views and no other, the
 * reader accepts these and no other, and docs/recording.md shows them (test-store.c compares).
 * The comments are part of the SQL, so that `.schema` explains itself.
 *
 * Most of a recording is stacks that came once, so frames and stacks are kept in the fewest bytes and rows that
 * SQL alone can still read: views show them one by one. The reader goes by the tables, and runs no view.
 *
 * A change raises SCHEMA_VERSION. What a table was like in older versions stays here for the reader.
 *
 * A recorder makes what is in SCHEMA_VERSION_RECORDED. The tables of the version after that are added, by it or later, where
 * there are lines to be kept in them, of which most recordings have none: each table takes a page.
 */

#include <stdbool.h>

/* "Rngs": marks the file as ours to file(1) and to the reader. */
#define SCHEMA_APPLICATION_ID 0x526e6773
#define SCHEMA_VERSION 4
#define SCHEMA_VERSION_RECORDED 3

/* In sample.walk_end, beside the reason: some of the stack was found by frame pointer, where unwind tables had no rule. */
#define SCHEMA_WALK_GUESSED 16

typedef struct SchemaTable {
        const char *name;
        const char *sql;
        unsigned first, last; /* versions that have it, 0: the first there was, the last there is */
        bool view;
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
        { "function",
          "CREATE TABLE function(\n"
          "  id INTEGER PRIMARY KEY,         -- symbol.id, where it has a name\n"
          "  file INTEGER,                   -- NULL: a marker such as [truncated]\n"
          "  start INTEGER NOT NULL,         -- ELF virtual address in the file\n"
          "  kernel INTEGER NOT NULL,        -- 1: kernel code\n"
          "  name BLOB                       -- NULL: all of the file that has none, start is 0\n"
          ")",
          .first = 3 },
        { "place",
          "CREATE TABLE place(\n"
          "  id INTEGER PRIMARY KEY,         -- frame.id\n"
          "  function INTEGER NOT NULL,\n"
          "  offset INTEGER NOT NULL         -- from its start\n"
          ")",
          .first = 3 },
        { "branch",
          "CREATE TABLE branch(               -- frames, each called from the one before\n"
          "  id INTEGER PRIMARY KEY,         -- stack.id of the first; that of the next is one more\n"
          "  parent INTEGER,                 -- the first one's caller, lower than id; NULL: outermost\n"
          "  base INTEGER NOT NULL,          -- is added to each of frames\n"
          "  frames TEXT NOT NULL            -- one character each, see the view stack\n"
          ")",
          .first = 3 },
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
        { "symbol",
          "CREATE VIEW symbol(\n"
          "  id,\n"
          "  name                            -- as in the file, not demangled\n"
          ") AS SELECT id, name FROM function WHERE name IS NOT NULL",
          .first = 3,
          .view = true },
        { "frame",
          "CREATE VIEW frame(\n"
          "  id,\n"
          "  file,                           -- NULL: a marker such as [truncated]\n"
          "  address,                        -- ELF virtual address in the file\n"
          "  symbol,                         -- NULL: no name is known\n"
          "  offset,                         -- of address from the start of the symbol\n"
          "  kernel                          -- 1: kernel code\n"
          ") AS SELECT place.id, file, start + offset, CASE WHEN name IS NULL THEN NULL ELSE function.id END,\n"
          "  CASE WHEN name IS NULL THEN 0 ELSE offset END, kernel\n"
          "  FROM place JOIN function ON function.id = place.function",
          .first = 3,
          .view = true },
        { "stack",
          "CREATE VIEW stack(\n"
          "  id,\n"
          "  parent,                         -- the caller's stack.id, lower than id; NULL: outermost\n"
          "  frame\n"
          ") AS WITH RECURSIVE node(id, parent, base, frames) AS (\n"
          "  SELECT id, parent, base, frames FROM branch UNION ALL\n"
          "  SELECT id + 1, id, base, substr(frames, 2) FROM node WHERE length(frames) > 1\n"
          ") SELECT id, parent, base + unicode(frames) - 10240 * (unicode(frames) > 65535) FROM node",
          .first = 3,
          .view = true },
        /* Where code comes from. */
        { "source",
          "CREATE TABLE source(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  path BLOB NOT NULL              -- as the compiler was told\n"
          ")",
          .first = 4 },
        { "routine",
          "CREATE TABLE routine(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  name BLOB NOT NULL              -- of a function, as in the file, not demangled\n"
          ")",
          .first = 4 },
        { "code",
          "CREATE TABLE code(                 -- a line of a function, inlined somewhere or not\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  caller INTEGER,                 -- code.id it is inlined into, lower than id; NULL: not inlined\n"
          "  routine INTEGER,                -- NULL: not known\n"
          "  source INTEGER,                 -- NULL: not known\n"
          "  line INTEGER NOT NULL           -- 0: not known\n"
          ")",
          .first = 4 },
        { "place_code",
          "CREATE TABLE place_code(\n"
          "  place INTEGER PRIMARY KEY,      -- frame.id\n"
          "  code INTEGER NOT NULL           -- of the innermost function there\n"
          ")",
          .first = 4 },
        { "line",
          "CREATE VIEW line(\n"
          "  frame,                          -- frame.id\n"
          "  depth,                          -- 0: the innermost; the highest: the function that is not inlined\n"
          "  name,                           -- of the function, not demangled; NULL: not known\n"
          "  path,                           -- of its source; NULL: not known\n"
          "  line                            -- 0: not known\n"
          ") AS WITH RECURSIVE walk(frame, depth, code) AS (\n"
          "  SELECT place, 0, code FROM place_code UNION ALL\n"
          "  SELECT frame, depth + 1, caller FROM walk JOIN code ON code.id = walk.code WHERE caller IS NOT NULL\n"
          ") SELECT frame, depth, name, path, line FROM walk JOIN code ON code.id = walk.code\n"
          "  LEFT JOIN routine ON routine.id = code.routine LEFT JOIN source ON source.id = code.source",
          .first = 4,
          .view = true },
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
        { "symbol",
          "CREATE TABLE symbol(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  name BLOB NOT NULL              -- as in the file, not demangled\n"
          ")",
          .last = 2 },
        { "frame",
          "CREATE TABLE frame(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  file INTEGER,                   -- NULL: a marker such as [truncated]\n"
          "  address INTEGER NOT NULL,       -- ELF virtual address in the file\n"
          "  symbol INTEGER,                 -- NULL: no name is known\n"
          "  offset INTEGER NOT NULL,        -- of address from the start of the symbol\n"
          "  kernel INTEGER NOT NULL         -- 1: kernel code\n"
          ")",
          .last = 2 },
        { "stack",
          "CREATE TABLE stack(\n"
          "  id INTEGER PRIMARY KEY,\n"
          "  parent INTEGER,                 -- the caller's stack.id, lower than id; NULL: outermost\n"
          "  frame INTEGER NOT NULL\n"
          ")",
          .last = 2 },
};
