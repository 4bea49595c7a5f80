/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Frames of a branch as a recording has them: text in which each character is one, so that SQL's unicode() and
 * substr() read it. Most take two bytes. A frame is what the row's base says and a number from 1 to
 * BRANCH_SPAN; that is the character's own, but for those that are no characters and what follows them up
 * to the last of two and three bytes, which are left out.
 */

#include <stddef.h>
#include <stdint.h>

#define BRANCH_SPAN 1000000
/* Frames of one row; more are several rows. */
#define BRANCH_FRAMES_MAX 256
#define BRANCH_BYTES_MAX 4

#define BRANCH_GAP_START 0xd800
#define BRANCH_GAP_END 0x10000

static inline int64_t branch_base(int64_t frame) {
        return (frame - 1) / BRANCH_SPAN * BRANCH_SPAN;
}

/* number: 1 to BRANCH_SPAN. Returns the bytes it took, at most BRANCH_BYTES_MAX. */
static inline size_t branch_put(char *p, uint32_t number) {
        uint32_t c = number < BRANCH_GAP_START ? number : number + (BRANCH_GAP_END - BRANCH_GAP_START);
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

        for (size_t i = n - 1; i > 0; i--, c >>= 6)
                p[i] = (char) (0x80 | (c & 0x3f));
        p[0] = (char) (first[n] | c);
        return n;
}

/* The number at p, of which size bytes are there. Returns the bytes it takes; 0: none that branch_put() writes. */
static inline size_t branch_get(const char *p, size_t size, uint32_t *ret) {
        const uint8_t *b = (const uint8_t *) p;
        size_t n = size == 0 ? 0 : b[0] < 0x80 ? 1 : b[0] < 0xc0 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf8 ? 4 : 0;
        static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
        uint32_t c;

        if (n == 0 || n > size)
                return 0;
        c = n == 1 ? b[0] : b[0] & (0x7fU >> n);
        for (size_t i = 1; i < n; i++) {
                if ((b[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (b[i] & 0x3f);
        }
        if (c < least[n] || (c >= BRANCH_GAP_START && c < BRANCH_GAP_END))
                return 0;
        if (c >= BRANCH_GAP_END)
                c -= BRANCH_GAP_END - BRANCH_GAP_START;
        if (c > BRANCH_SPAN)
                return 0;
        *ret = c;
        return n;
}
