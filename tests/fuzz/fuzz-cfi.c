/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Call frame information alone. The first byte says what it is of: bit 0 aarch64, bit 1 .debug_frame, bit 2 that
 * there is something for pointers to count from; the second is its address in pages.
 */

#include <elf.h>
#include <errno.h>

#include "fuzz.h"
#include "unwind-cfi.h"
#include "util.h"

typedef struct Emitted {
        uint64_t next;
        uint64_t left; /* how often there may be something */
        const CfiEntry *entry;
        const CfiMachine *machine;
} Emitted;

/* Without gaps, only rules that there are, and not without end. */
static int emit(void *userdata, uint64_t start, uint64_t end, CfiRule *given) {
        const struct rs_table_rule *rule = &given->rule;
        Emitted *e = userdata;

        if (start != e->next || start >= end || end > e->entry->end)
                abort();
        if (e->left-- == 0)
                abort();
        e->next = end;
        if (rule->cfa == RS_CFA_NONE || rule->cfa > RS_CFA_UNKNOWN || rule->fp > RS_REG_UNDEFINED)
                abort();
        if (rule->cfa != RS_CFA_UNKNOWN && rule->reg >= e->machine->n_regs)
                abort();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ CfiReader *reader = NULL;
        CfiEntry entry;
        uint64_t left;

        if (size < 2)
                return 0;
        reader = malloc(sizeof(*reader));
        if (!reader)
                return 0;
        cfi_reader_init(reader, cfi_machine(data[0] & 1 ? EM_AARCH64 : EM_X86_64), !(data[0] & 2), data + 2, size - 2,
                        data[1] * UINT64_C(4096), data[0] & 4 ? 0x2000 : 0);
        /* Addresses too are paid for: whatever entries say of their size, it is the section's that counts. */
        left = reader->work;
        while (cfi_next(reader, &entry) > 0) {
                Emitted e = { .next = entry.start, .left = left, .entry = &entry, .machine = reader->machine };

                if (entry.start >= entry.end)
                        abort();
                if (cfi_run(reader, &entry, emit, &e) == 0 && e.next != entry.end)
                        abort();
                left = e.left;
        }
        return 0;
}
