/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Numbers of call frame information, out of bytes that may end anywhere. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Reads past the end yield 0 and are remembered. */
typedef struct Cursor {
        const uint8_t *next;
        size_t left;
        bool failed;
} Cursor;

static inline const uint8_t *cursor_take(Cursor *c, size_t n) {
        const uint8_t *p = c->next;

        if (c->failed || n > c->left) {
                c->failed = true;
                return NULL;
        }
        c->next += n;
        c->left -= n;
        return p;
}

static inline uint64_t cursor_take_unsigned(Cursor *c, size_t n) {
        const uint8_t *p = cursor_take(c, n);
        uint64_t value = 0;

        _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first bytes are the lowest");
        if (p)
                memcpy(&value, p, n);
        return value;
}

static inline int64_t cursor_take_signed(Cursor *c, size_t n) {
        unsigned shift = (unsigned) (64 - 8 * n);

        return (int64_t) (cursor_take_unsigned(c, n) << shift) >> shift;
}

static inline uint8_t cursor_take_byte(Cursor *c) {
        return (uint8_t) cursor_take_unsigned(c, 1);
}

/* Bits past the 64th are those of padding, or the number is no number. Nearly all have one byte. */
static inline uint64_t cursor_take_uleb(Cursor *c) {
        uint64_t value = 0;

        if (c->left > 0 && !c->failed && *c->next < 0x80) {
                c->left--;
                return *c->next++;
        }
        for (unsigned shift = 0; shift < 70; shift += 7) {
                uint8_t byte = cursor_take_byte(c);

                if (shift < 64)
                        value |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80))
                        return value;
        }
        c->failed = true;
        return 0;
}

static inline int64_t cursor_take_sleb(Cursor *c) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 70;) {
                uint8_t byte = cursor_take_byte(c);

                if (shift < 64)
                        value |= (uint64_t) (byte & 0x7f) << shift;
                shift += 7;
                if (byte & 0x80)
                        continue;
                if (shift < 64 && (byte & 0x40))
                        value |= ~UINT64_C(0) << shift;
                return (int64_t) value;
        }
        c->failed = true;
        return 0;
}

static inline Cursor cursor_take_block(Cursor *c) {
        uint64_t size = cursor_take_uleb(c);
        Cursor block = { .next = c->next, .left = size };

        if (!cursor_take(c, size))
                block = (Cursor){ .failed = true };
        return block;
}
