/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A memfd of kernel names, and what is found in it. */

#include <string.h>

#include "fuzz.h"
#include "kernel-symbols.h"
#include "record.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ uint8_t *copy = malloc(size); /* aligned, and of exactly this size */
        KernelSymbols *symbols;

        if (!copy || kernel_symbols_new(&symbols) < 0)
                return 0;
        memcpy(copy, data, size);
        (void) kernel_symbols_add_bytes(symbols, copy, size);
        if (kernel_symbols_add_bytes(symbols, copy, size) > 0)
                abort(); /* the second time nothing is new */
        for (unsigned module = 0; module < 16; module++)
                for (uint64_t offset = 0; offset < 0x400; offset += 0x33) {
                        KernelSymbol symbol;

                        if (kernel_symbols_find(symbols, module, offset, &symbol) >= 0 &&
                            (strlen(symbol.name) > 511 || strlen(symbol.module) > 511 || symbol.offset > offset))
                                abort();
                }
        kernel_symbols_free(symbols);
        return 0;
}
