/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hostile text on its way out. Names of processes, symbols and files may hold any byte: terminal
 * escapes, newlines that break line-based formats, overrides of the writing direction that make a
 * name look like another. What is not plain printable UTF-8 is shown as \xNN, byte by byte; a
 * backslash stays what it is, since nobody decodes this again.
 */

#include <string.h>

#include "escape.h"
#include "ringside.h"

/* Length of the well-formed UTF-8 sequence at s (no overlong forms, no surrogates), 0: none. */
size_t utf8_decode(const char *s, uint32_t *ret) {
        const unsigned char *p = (const unsigned char *) s;
        size_t n;
        uint32_t c, min;

        if (p[0] < 0x80) {
                *ret = p[0];
                return p[0] ? 1 : 0;
        }
        if ((p[0] & 0xe0) == 0xc0)
                n = 2, c = p[0] & 0x1f, min = 0x80;
        else if ((p[0] & 0xf0) == 0xe0)
                n = 3, c = p[0] & 0x0f, min = 0x800;
        else if ((p[0] & 0xf8) == 0xf0)
                n = 4, c = p[0] & 0x07, min = 0x10000;
        else
                return 0;

        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80) /* the final 0 ends here as well */
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return 0;
        *ret = c;
        return n;
}

/* Controls (C0, DEL, C1), line and paragraph separators, invisible and direction-changing marks, noncharacters. */
static bool character_is_harmless(uint32_t c) {
        static const struct {
                uint32_t first, last;
        } harmful[] = {
                { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0xad, 0xad },     { 0x61c, 0x61c },
                { 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
                { 0xfdd0, 0xfdef }, { 0xfeff, 0xfeff }, { 0xfff0, 0xfffb }, { 0xe0000, 0xe007f },
        };

        for (size_t i = 0; i < ELEMENTSOF(harmful); i++)
                if (c >= harmful[i].first && c <= harmful[i].last)
                        return false;
        return (c & 0xfffe) != 0xfffe;
}

char *ringside_escape(char *dst, size_t size, const char *s) {
        static const char digits[] = "0123456789abcdef";
        size_t used = 0;

        if (size == 0)
                return dst;

        while (*s) {
                uint32_t c;
                size_t n = utf8_decode(s, &c);

                if (n > 0 && character_is_harmless(c)) {
                        if (used + n >= size)
                                break;
                        memcpy(dst + used, s, n);
                        used += n;
                        s += n;
                        continue;
                }

                /* A character that is valid but harmful goes byte by byte: its tail bytes are no start of one. */
                if (used + 4 >= size)
                        break;
                dst[used++] = '\\';
                dst[used++] = 'x';
                dst[used++] = digits[(unsigned char) *s >> 4];
                dst[used++] = digits[(unsigned char) *s & 15];
                s++;
        }
        dst[used] = 0;
        return dst;
}
