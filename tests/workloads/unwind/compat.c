/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * unwind-compat: a 32-bit program, with frame pointers, for some three seconds. Without a C library, so that none for
 * 32 bits has to be there: it is built with -nostdlib and ends by itself.
 */

#define CHAINED __attribute__((noipa))
#define ROUNDS 3000

static CHAINED unsigned compat_leaf(unsigned x) {
        for (unsigned i = 0; i < 500000; i++)
                x = x * 1664525u + 1013904223u;
        __asm__ volatile("" : "+r"(x));
        return x;
}

static CHAINED unsigned compat_inner(unsigned x) {
        x = compat_leaf(x);
        __asm__ volatile("" : "+r"(x));
        return x + 1;
}

void _start(void);

void _start(void) {
        unsigned x = 1;

        for (unsigned i = 0; i < ROUNDS; i++)
                x = compat_inner(x);
        __asm__ volatile("int $0x80" : : "a"(1), "b"(x == 42 ? 3 : 0));
        for (;;)
                ;
}
