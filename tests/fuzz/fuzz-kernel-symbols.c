/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A memfd of kernel names, and what is found in it. */

#include <string.h>

#include "fuzz.h"
#include "kernel-symbols.h"
#include "record.h"
#include "util.h"

static void try(const uint8_t *bytes, size_t size, int (*add)(KernelSymbols *, const void *, uint64_t)) {
        KernelSymbols *symbols;

        if (kernel_symbols_new(&symbols) < 0)
                return;
        (void) add(symbols, bytes, size);
        if (add(symbols, bytes, size) > 0)
                abort(); /* the second time nothing is new */
        for (unsigned module = 0; module < 16; module++)
                for (uint64_t offset = 0; offset < 0x400; offset += 0x33) {
                        KernelSymbol symbol;

                        if (kernel_symbols_find(symbols, module, offset, &symbol) >= 0 &&
                            (strlen(symbol.name) > 511 || strlen(symbol.module) > 511 || symbol.offset > offset))
                                abort();
                }
        kernel_symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ uint8_t *copy = malloc(size); /* aligned, and of exactly this size */

        if (!copy)
                return 0;
        memcpy(copy, data, size);
        try(copy, size, kernel_symbols_copy);
        try(copy, size, kernel_symbols_refer);
        return 0;
}
