/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * The names of the maps that clients get. A map outlives helper and session while a client has it mapped, and its name
 * is all that tells whose it was: "rs", 'r' for a ring, 'c' for counters or 't' for unwind tables, then the session's
 * number and the user's, each as six digits to the base of 64, lowest first. That is all that fits: 15 characters.
 */

#ifndef RS_BPF
#include <linux/types.h>
#endif

#define RS_MAP_NAME_SIZE 16

/* One such map, as the iterator tells of it. */
struct rs_map_info {
        __u32 id;     /* of the session */
        __u32 uid;
        __u32 size;   /* bytes */
        __u32 in_use; /* by a program: that of a session, as no other can have it */
};

_Static_assert(sizeof(struct rs_map_info) == 16, "shared with the program");

/* The characters that the kernel allows: there are just 64. */
static inline char rs_map_digit(__u32 value) {
        value &= 63;
        return value < 10 ? '0' + value : value < 36 ? 'a' + value - 10 : value < 62 ? 'A' + value - 36 : value == 62 ? '_' : '.';
}

static inline __u32 rs_map_value(char digit) {
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (digit >= 'a' && digit <= 'z')
                return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'Z')
                return digit - 'A' + 36;
        return digit == '_' ? 62 : 63;
}

static inline void rs_map_name(char *name, char kind, __u32 id, __u32 uid) {
        name[0] = 'r';
        name[1] = 's';
        name[2] = kind;
        for (int i = 0; i < 6; i++) {
                name[3 + i] = rs_map_digit(id >> (6 * i));
                name[9 + i] = rs_map_digit(uid >> (6 * i));
        }
        name[15] = '\0';
}
