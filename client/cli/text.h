/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Text in and out, without a file or a terminal behind it: the numbers people type, the names that
 * have to fit a column, the words a shell would read back. Pure, so that every rule has a unit test.
 */

#include <stdint.h>
#include <stdio.h>

/* Decimal digits and nothing else, min <= value <= max. 0, -EINVAL (no number) or -ERANGE. */
int parse_number(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
/* "5", "0.5", "250ms", "90s", "5m", "1h": nanoseconds, more than 0 and at most 366 days. */
int parse_duration(const char *s, uint64_t *ret_ns);
/* "65536", "64K", "8M", "1G": bytes, powers of 1024. */
int parse_size(const char *s, uint64_t *ret_bytes);
/* "0" to "100", with a fraction if need be. */
int parse_percent(const char *s, double *ret);

/* Columns that s, valid UTF-8, takes on a terminal; never too few. */
size_t text_width(const char *s);
/*
 * s escaped, and cut in the middle so that it takes at most that many columns: both ends of a name
 * tell it apart (namespace here, method there). NULL: no memory. The caller frees it.
 */
char *text_fit(const char *s, size_t columns, const char *ellipsis);
/* s escaped at its full length; the caller frees it. NULL: no memory. */
char *text_escape(const char *s);
/* As one word of a shell; the caller frees it. NULL: no memory. */
char *text_quote(const char *s);
/* The base name of path as part of a file name: letters, digits and "._+-", at most 64. */
char *text_file_part(const char *path, char ret[static 65]);

/*
 * s at spaces into lines of at most columns, each after indent spaces; \n in s breaks too.
 * Hanging: the first line is begun already, and stands at column indent.
 */
void text_wrap(FILE *out, const char *s, size_t indent, size_t columns);
void text_wrap_hanging(FILE *out, const char *s, size_t indent, size_t columns);
/* "1.5 s", "2 min 05 s": for people, at most 31 characters. */
char *text_duration(char *dst, size_t size, uint64_t ns);
/* "512 B", "1.5 MiB". */
char *text_bytes(char *dst, size_t size, uint64_t bytes);
/* part of whole in percent, 0 where there is no whole. */
double text_share(uint64_t part, uint64_t whole);
