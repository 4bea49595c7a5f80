/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * "START-END PERM OFFSET MAJOR:MINOR INODE      PATH", numbers in hex but for the inode. Written by
 * fs/proc/task_mmu.c:show_map_vma() and seq_file_path().
 */

#include "maps.h"

#include <errno.h>
#include <string.h>

typedef struct Scanner {
        const char *p;
        const char *end;
        bool bad;
} Scanner;

static int digit_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

/* At least one digit, no sign, no overflow; after a failure everything reads as 0. */
static uint64_t scan_number(Scanner *s, unsigned base, uint64_t max) {
        const char *start = s->p;
        uint64_t value = 0;

        for (; !s->bad && s->p < s->end; s->p++) {
                int digit = digit_value(*s->p);

                if (digit < 0 || (unsigned) digit >= base)
                        break;
                if (value > (max - (unsigned) digit) / base) {
                        s->bad = true;
                        return 0;
                }
                value = value * base + (unsigned) digit;
        }
        if (s->p == start)
                s->bad = true;
        return s->bad ? 0 : value;
}

static void scan_char(Scanner *s, char c) {
        if (!s->bad && s->p < s->end && *s->p == c)
                s->p++;
        else
                s->bad = true;
}

static void scan_permissions(Scanner *s, MapsLine *line) {
        const char *p = s->p;

        if (s->bad || s->end - p < 4 || (p[0] != 'r' && p[0] != '-') || (p[1] != 'w' && p[1] != '-') ||
            (p[2] != 'x' && p[2] != '-') || (p[3] != 'p' && p[3] != 's')) {
                s->bad = true;
                return;
        }
        s->p += 4;
        line->readable = p[0] == 'r';
        line->writable = p[1] == 'w';
        line->executable = p[2] == 'x';
}

static int parse_line(const char *text, size_t len, MapsLine *ret) {
        Scanner s = { .p = text, .end = text + len };
        MapsLine line = {};

        line.start = scan_number(&s, 16, UINT64_MAX);
        scan_char(&s, '-');
        line.end = scan_number(&s, 16, UINT64_MAX);
        scan_char(&s, ' ');
        scan_permissions(&s, &line);
        scan_char(&s, ' ');
        line.offset = scan_number(&s, 16, UINT64_MAX);
        scan_char(&s, ' ');
        line.dev_major = (uint32_t) scan_number(&s, 16, UINT32_MAX);
        scan_char(&s, ':');
        line.dev_minor = (uint32_t) scan_number(&s, 16, UINT32_MAX);
        scan_char(&s, ' ');
        line.inode = scan_number(&s, 10, UINT64_MAX);
        if (!s.bad && s.p < s.end)
                scan_char(&s, ' ');
        if (s.bad || line.start >= line.end || memchr(text, 0, len))
                return -EBADMSG;

        while (s.p < s.end && *s.p == ' ')
                s.p++;
        line.path = s.p;
        line.path_len = (size_t) (s.end - s.p);
        *ret = line;
        return 1;
}

int maps_cursor_next(MapsCursor *cursor, MapsLine *ret) {
        const char *text = cursor->next, *newline;
        size_t len = cursor->left;

        if (len == 0)
                return 0;
        newline = memchr(text, '\n', len);
        if (!newline) {
                cursor->next += len;
                cursor->left = 0;
                return -EBADMSG;
        }
        len = (size_t) (newline - text);
        cursor->next += len + 1;
        cursor->left -= len + 1;
        return parse_line(text, len, ret);
}

int maps_line_get_path(const MapsLine *line, char *buffer, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < line->path_len; n++) {
                if (n + 1 >= size)
                        return -ENAMETOOLONG;
                if (line->path_len - i >= 4 && memcmp(line->path + i, "\\012", 4) == 0) {
                        buffer[n] = '\n';
                        i += 4;
                } else
                        buffer[n] = line->path[i++];
        }
        if (n >= size)
                return -ENAMETOOLONG;
        buffer[n] = 0;
        return (int) n;
}

bool maps_path_strip_deleted(char *path) {
        static const char suffix[] = " (deleted)";
        size_t len = strlen(path);

        if (len < sizeof(suffix) || strcmp(path + len - (sizeof(suffix) - 1), suffix) != 0)
                return false;
        path[len - (sizeof(suffix) - 1)] = 0;
        return true;
}
