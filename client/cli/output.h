/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Where a report or an export goes: a file that appears whole or not at all, standard output, or a
 * pager. Errors are printed here.
 */

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct Output {
        FILE *file;
        char *path;      /* what is replaced at the end; NULL: file is written as it goes */
        char *temporary; /* beside path */
        pid_t pager;     /* 0: none */
} Output;

/*
 * path NULL or "-": standard output. recording, if not NULL, is a file that must not be overwritten by
 * mistake. 0 or a negative errno.
 */
int output_open(Output *ret, const char *path, const char *recording);
/*
 * For a name that nobody gave, and that others can foresee: only a regular file of the caller's own is
 * replaced, and what is made has the mode of a new file. 0 or a negative errno.
 */
int output_open_default(Output *ret, const char *path);
/* Standard output through $PAGER where it is a terminal and wanted; standard output where that fails. */
int output_open_paged(Output *ret, bool pager);
/* Writes out, puts the file in its place, waits for the pager. */
int output_finish(Output *output);
/* Without output_finish(): takes the temporary file away. */
void output_done(Output *output);
