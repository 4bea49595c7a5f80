/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One mapped file with what is known of it: the inside of a MappedFile. Headers are read when it is
 * first seen, symbols when the first address in it is looked up; then its fd is closed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "elf-file.h"
#include "symbol-table.h"
#include "symbolizer.h"

/* What else than a file may be mapped and hold code. */
enum SymbolFileKind {
        SYMBOL_FILE_ELF,   /* a file; elf is NULL where it could not be opened, or is none */
        SYMBOL_FILE_VDSO,  /* the kernel's, read from our own memory */
        SYMBOL_FILE_JIT,   /* anonymous memory: perf maps have the names */
        SYMBOL_FILE_OTHER, /* no names: "[vsyscall]", "[unknown]" */
};

typedef struct SymbolFile SymbolFile;

struct SymbolFile {
        MappedFile mapped; /* first, so that one is the other */
        enum SymbolFileKind kind;
        ElfFile *elf;
        SymbolTable *symbols; /* NULL: none, or not yet */
        bool loaded;          /* symbols were looked for */
        bool forgotten;       /* to be opened again, where it is met and can be */
        bool written_over;    /* another one stands in it, even if its time and size should be set back */
        bool opened;          /* the next four are known */
        dev_t st_dev;
        ino_t st_ino;
        struct timespec mtime;
        uint64_t birth;   /* ns CLOCK_REALTIME, 0: the file system does not say */
        uint64_t made;    /* ns CLOCK_MONOTONIC, as the next one */
        uint64_t checked; /* when it still was what had been opened */
        uint64_t same;    /* likewise, ns CLOCK_BOOTTIME */
        uint64_t refused_until; /* likewise: not opened for then, as one that is written too often; 0: not so */
        bool own_path;    /* its path led to it from our own root */
        uint64_t proven;  /* ns CLOCK_BOOTTIME: what was told then, or since, may have been it */
        struct HeldFile *hold; /* NULL: it is not held open but to be read */
        pid_t pid;        /* where its path means something */
        uint64_t seen;    /* the last refresh that met it */
        uint64_t held;    /* the last refresh whose process had it before; or sweep that found that some process has */
        size_t index;     /* among all */
        SymbolFile *next; /* of the same bucket */
};

int symbol_file_new(SymbolFile **ret, enum SymbolFileKind kind, const char *path);
SymbolFile *symbol_file_free(SymbolFile *file);
DEFINE_CLEANUP(SymbolFile, symbol_file_free)

/* Makes elf the file's own, build id included. */
void symbol_file_take_elf(SymbolFile *file, ElfFile *elf);

/*
 * Symbols of its own, of a separate debug file or of what it has compressed of one, and those of the dynamic linker, merged, and the
 * fd closed. Returns 0, -ENOMEM (to be tried again), or another error where the file is malformed or
 * too big: it has no names then.
 */
int symbol_file_load(SymbolFile *file, const char *proc, const char *symbol_dir);
