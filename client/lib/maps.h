/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The text of /proc/PID/maps, line by line. Pure and without memory of its own: a cursor walks over
 * text that the caller has read, and what a line says points into that text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MapsCursor {
        const char *next;
        size_t left;
} MapsCursor;

typedef struct MapsLine {
        uint64_t start, end; /* start < end */
        uint64_t offset;     /* in the file, bytes */
        uint32_t dev_major, dev_minor;
        uint64_t inode; /* 0: no file */
        bool readable, writable, executable;
        const char *path; /* as written, escapes and " (deleted)" included; not terminated */
        size_t path_len;  /* 0: anonymous memory */
} MapsLine;

/*
 * Returns 1 and the next line, 0 at the end, -EBADMSG for a line that is not one of the kernel's
 * (or has lost its end); the cursor is past it in any case, so that the caller may go on.
 */
int maps_cursor_next(MapsCursor *cursor, MapsLine *ret);

/*
 * Writes the path with the kernel's one escape (\012 for a newline) undone and a final 0. Returns
 * its length, or -ENAMETOOLONG. A backslash itself is not escaped by the kernel: a name that really
 * holds the four characters \012 cannot be told from one with a newline.
 */
int maps_line_get_path(const MapsLine *line, char *buffer, size_t size);

/* Cuts " (deleted)" off; returns whether it was there. */
bool maps_path_strip_deleted(char *path);
