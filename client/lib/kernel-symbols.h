/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Names for kernel frames, from the memfds that a session hands out (common/kernel-names.h), which nobody can
 * write to any more. A module that is gone keeps its names.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct KernelSymbols KernelSymbols;

typedef struct KernelSymbol {
        const char *module; /* "kernel", or the module's. Both live as long as the KernelSymbols */
        const char *name;
        uint64_t offset; /* from the start of the function */
} KernelSymbol;

int kernel_symbols_new(KernelSymbols **ret);
KernelSymbols *kernel_symbols_free(KernelSymbols *symbols);

/*
 * Takes in the modules that are new in a memfd: the first stays mapped, of others they are copied. fd is
 * borrowed; size: bytes. Returns how many were new; -EPERM: it is not sealed against writing and shrinking,
 * -EBADMSG: it is not well-formed, -EFBIG: it is more than any kernel has, or another errno. What was there
 * before stays in any case.
 */
int kernel_symbols_add(KernelSymbols *symbols, int fd, uint64_t size);
/* The same from memory: with every symbol checked and copied, and without, where the bytes stay as they are. */
int kernel_symbols_copy(KernelSymbols *symbols, const void *bytes, uint64_t size);
int kernel_symbols_refer(KernelSymbols *symbols, const void *bytes, uint64_t size);

/* The function in which an offset into the text of a module lies. -ENOENT: not known, ret->module may be. */
int kernel_symbols_find(const KernelSymbols *symbols, unsigned module, uint64_t offset, KernelSymbol *ret);
