/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A jitdump file that grows: read when half of it is there, and again when all of it is. */

#include <string.h>

#include "fuzz.h"
#include "jitdump.h"

static void look_up(const JitCode *code, uint64_t time) {
        uint64_t from, until;

        jit_code_get_span(code, time, &from, &until);
        if (from > time || until <= time)
                abort();
        for (uint64_t address = 0; address < 0x10000; address += 0x100) {
                uint64_t offset = UINT64_MAX;
                uint32_t line = 0;
                const char *name = jit_code_find(code, address, time, &offset);

                if (name && (strlen(name) > 8192 || offset > address))
                        abort();
                if (jit_code_is_same(code, address, time, time) != (name != NULL))
                        abort();
                if (jit_code_find_line(code, address, time, &line) && line == 0)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const JitClock clock = { .first = { 1, 1, 1 }, .last = { 2000001, 2000001, 2000001 } };
        _cleanup_(jitdump_freep) JitDump *dump = NULL;

        if (jitdump_new(&dump) < 0)
                return 0;
        (void) jitdump_parse(dump, &clock, data, size / 2);
        look_up(jitdump_get_code(dump), 250);
        (void) jitdump_parse(dump, &clock, data, size);
        look_up(jitdump_get_code(dump), 250);
        look_up(jitdump_get_code(dump), UINT64_MAX - 1);
        return 0;
}
