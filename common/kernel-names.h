/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The names of the kernel's functions, without their addresses: what the sealed memfd holds that a session
 * with profile-kernel hands out. Made by the keeper's child, read by the client, who must still check
 * every number in it.
 *
 *      struct rs_kernel_names
 *      struct rs_kernel_module[nr_modules]    sorted by number
 *      struct rs_kernel_symbol[nr_symbols]    each module's together, sorted by offset
 *      char strings[strings_size]             each ends with 0
 *
 * A module's number is of one module as it was loaded once: after an unload, a load at another address or of
 * other code it has another. So a frame's number tells for ever which names are its own, whatever has been
 * loaded since; a later memfd has the numbers of modules that are still there and new ones.
 */

#include <linux/types.h>

#define RS_KERNEL_NAMES_MAGIC 0x6e6b7372 /* "rskn" */
#define RS_KERNEL_NAMES_VERSION 1
/* What a reader may refuse: more than any kernel has. */
#define RS_KERNEL_SYMBOLS_MAX (1U << 21)
#define RS_KERNEL_NAMES_SIZE_MAX (128U << 20)

struct rs_kernel_names {
        __u32 magic;
        __u32 version;
        __u64 generation; /* rises whenever modules changed */
        __u32 nr_modules;
        __u32 nr_symbols;
        __u64 strings_size; /* bytes */
};

struct rs_kernel_module {
        __u32 number; /* RS_MODULE_CORE: the kernel itself */
        __u32 name;   /* where it stands in strings: "kernel", or the module's */
        __u32 first_symbol;
        __u32 nr_symbols;
};

struct rs_kernel_symbol {
        __u32 offset; /* from the beginning of the module's text, bytes; it ends where the next begins */
        __u32 name;   /* where it stands in strings */
};

_Static_assert(sizeof(struct rs_kernel_names) == 32, "file format");
_Static_assert(sizeof(struct rs_kernel_module) == 16, "file format");
_Static_assert(sizeof(struct rs_kernel_symbol) == 8, "file format");
