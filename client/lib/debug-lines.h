/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Where the code at some addresses comes from: for each a chain of functions, one inlined into the next, with the line
 * that each is at. The process that reads debug information makes it and sends it through a pipe; ours takes it from
 * there, and believes nothing of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "table.h"
#include "util.h"

/* Functions at one address. */
#define DEBUG_LINES_DEPTH_MAX 64U
/* Longer names and paths are cut, as in a recording. */
#define DEBUG_LINES_STRING_MAX 8192U
/* All that one file may come to; and no more than its addresses can have, each of which has one chain. */
#define DEBUG_LINES_BYTES_MAX (256U << 20)
#define DEBUG_LINES_CODES_MAX (8U << 20)
#define DEBUG_LINES_WISHES_MAX 8192U

/* A line of a function, as it was inlined somewhere or not at all. */
typedef struct DebugCode {
        uint32_t caller;  /* the code that it is inlined into, of a lower number; 0: none */
        uint32_t routine; /* string: the function's name as it is linked by; 0: not known */
        uint32_t source;  /* string: path of the source file; 0: not known */
        uint32_t line;    /* up to INT32_MAX; 0: not known */
} DebugCode;

/* Embedded. Element 0 of strings and codes stands for "none". */
typedef struct DebugLines {
        char **strings;
        size_t n_strings, strings_allocated, n_bytes;
        DebugCode *codes;
        uint8_t *depths; /* by code: how many functions its chain has */
        size_t n_codes, codes_allocated;
        uint32_t *at; /* by address: the innermost code, 0: nothing is known */
        size_t n_at;
        bool lacks_files; /* more would be known if others were there */
        char **wishes;    /* paths of others that have more, from where the file is, if not from the root */
        size_t n_wishes, wishes_allocated;
        bool ended;   /* all was said that could be, and */
        int result;   /* 0, or the -errno that it came to */

        Table known_strings, known_codes;
        size_t n_strings_sent, n_codes_sent, n_wishes_sent;
        bool lack_sent;
        uint32_t *unsent; /* addresses, by number */
        size_t n_unsent;
} DebugLines;

/* n: how many addresses there are, and so how much they may have. */
int debug_lines_init(DebugLines *lines, size_t n);
void debug_lines_done(DebugLines *lines);

/* NULL and "" are 0. -EFBIG: over a cap, as below. */
int debug_lines_add_string(DebugLines *lines, const char *string, uint32_t *ret);
/* What was added before has the number it had. */
int debug_lines_add_code(DebugLines *lines, const DebugCode *code, uint32_t *ret);
/* Of each address once. */
void debug_lines_set(DebugLines *lines, size_t address, uint32_t code);
/* What is over the cap, or too long for a path, is not noted. */
int debug_lines_add_wish(DebugLines *lines, const char *path);

/*
 * From one to the other, where what both have is there once. The numbers that codes and strings have become are kept for
 * the next address; all but the first two members begin as zero.
 */
typedef struct DebugLinesCopy {
        DebugLines *to;
        const DebugLines *from;
        uint32_t *codes, *strings;
} DebugLinesCopy;

/* Sets for address what is said of from_address. */
int debug_lines_copy(DebugLinesCopy *copy, size_t address, size_t from_address);
void debug_lines_copy_done(DebugLinesCopy *copy);

/* What was added since the last time. The stream ends with debug_lines_send_end(). */
int debug_lines_send(DebugLines *lines, FILE *out);
int debug_lines_send_end(int result, FILE *out);
/* Adds what the first of n bytes say. *ret_used: how many are whole messages. -EBADMSG: they make no sense. */
int debug_lines_take(DebugLines *lines, const uint8_t *data, size_t n, size_t *ret_used);
