/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a person calls a function: a demangled name in a file. Many frames are one function, and the
 * same library seen under two inodes has each function once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot.h"
#include "table.h"

typedef struct Function {
        char *name;       /* demangled; "file+0x12" where there is none */
        const char *file; /* base name, "" where there is no file */
        bool kernel;
        bool inlined; /* where it is: the same one that is called is another */
} Function;

/* What samples are called that have no stack. */
#define FUNCTION_NO_STACK "[no stack]"

/* Where a frame is. */
typedef struct FunctionPlace {
        const char *symbol; /* as the file has it; NULL: none */
        const char *path;   /* "": no file */
        uint64_t address;
        bool kernel;
        bool inlined;
        bool folded; /* a part of a function is called by the function's name */
} FunctionPlace;

/* Embedded; all zero is empty. Numbers begin with 0. Strings live as long as it and the paths. */
typedef struct Functions {
        Function *items;
        size_t n, allocated;
        Table by_name;
        Table by_symbol; /* symbol and file -> number + 1: one demangling each */
        uint32_t *by_frame; /* number + 1, 0: not looked at yet */
} Functions;

/* The number of the function that a frame is in. Frame 0 is the function of samples without a stack. */
int functions_get(Functions *functions, const Snapshot *snapshot, uint32_t frame, uint32_t *ret);
/* The same without a snapshot. key: of the symbol in its file, as good as its name. */
int functions_find(Functions *functions, TableKey key, const FunctionPlace *place, uint32_t *ret);
void functions_done(Functions *functions);
/* How much of a raw name is left without what compilers put behind it: ".cold", ".part.0", ".constprop.0.isra.0". */
size_t function_name_fold(const char *name);
/* What a symbol is shown as; folded as in FunctionPlace. For free(). */
int function_name(const char *symbol, bool folded, char **ret);
/* What code without a symbol is shown as. For free(); NULL: no memory. */
char *function_unnamed(const char *path, uint64_t address);
/* The part of a path behind its last slash. */
const char *path_base_name(const char *path);
