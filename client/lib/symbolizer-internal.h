/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What address spaces use of their symbolizer. */

#include "jit-clock.h"
#include "jit-code.h"
#include "maps.h"
#include "process-dir.h"
#include "symbol-file.h"
#include "symbolizer.h"

const char *symbolizer_get_proc(const Symbolizer *symbolizer);
size_t symbolizer_get_maps_max(const Symbolizer *symbolizer);
bool symbolizer_wants_names(const Symbolizer *symbolizer);
/* As of now. */
const JitClock *symbolizer_get_jit_clock(Symbolizer *symbolizer);
/* Of all its processes' code. */
JitMemory *symbolizer_get_jit_memory(Symbolizer *symbolizer);
/* A file that was given up on, in whole or in part: symbolizer_get_n_refused(). */
void symbolizer_note_refused(Symbolizer *symbolizer);

/* Once over the mappings of one process. */
typedef struct Refresh {
        ProcessDir dir;
        pid_t pid;
        uint64_t told_at; /* ns CLOCK_BOOTTIME: what is younger is another file; 0: the process has it now */
        bool gone;        /* there is no process to be asked */
        uint64_t serial; /* no other refresh has it; marks in files are compared with it */
} Refresh;

uint64_t symbolizer_get_serial(Symbolizer *symbolizer);

/* The file of a line of maps, opened where it is new. Never NULL after success; fails with -ENOMEM only. */
int symbolizer_get_file(Symbolizer *symbolizer, Refresh *refresh, const MapsLine *line, SymbolFile **ret);
/*
 * Whether it is the same file by its numbers, and another by size or time, or was when it was told of, as far
 * as can be known. Not looked at more often than file systems tell the time, for that is done for what is known.
 * Or it was not opened, as one that is written too often, and may be now.
 */
bool symbolizer_forget_rewritten(Symbolizer *symbolizer, SymbolFile *file, Refresh *refresh);
/* An fd to read what a line of maps is of, whatever it is. */
int symbolizer_open(Symbolizer *symbolizer, Refresh *refresh, const MapsLine *line);
int symbolizer_get_unknown(Symbolizer *symbolizer, SymbolFile **ret);

/* The name of address, an ELF address, in file: NULL where there is none. Fails with -ENOMEM only. */
int symbolizer_find_name(Symbolizer *symbolizer, SymbolFile *file, uint64_t address, const char **ret_name,
                         uint64_t *ret_offset);

/* Whoever has files mapped, embedded; all that is known of it keeps them. */
typedef struct FileUser FileUser;
struct FileUser {
        FileUser *next, **previous;
        void (*hold)(const FileUser *user, uint64_t serial); /* sets SymbolFile.held of its files */
};

void symbolizer_add_user(Symbolizer *symbolizer, FileUser *user);
void symbolizer_remove_user(FileUser *user);
