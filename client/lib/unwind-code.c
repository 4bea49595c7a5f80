/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-code.h"

#include <string.h>

#include "process-pages.h"
#include "symbol-file.h"

/* Mappings of a process that are looked at; bytes of one that is read, and of all, before other processes have their turn. */
#define CODES_MAX 256U
#define CODE_SIZE_MAX (8U << 20)
#define CODE_SIZES_MAX (16U << 20)
/* Where the first piece begins, if any does. */
#define HEAD_SIZE 64U

void unwind_codes_done(UnwindCodes *codes, UnwindImages *images) {
        for (size_t i = 0; i < codes->n; i++)
                if (codes->items[i].image)
                        unwind_images_put_code(images, codes->items[i].image);
        free(codes->items);
        *codes = (UnwindCodes){};
}

/* *ret stays NULL where it is not known, or cannot be read. 0 or -ENOMEM. */
static int look_at(UnwindImages *images, pid_t pid, const UnwindCode *range, UnwindImage **ret) {
        uint64_t size = range->end - range->start;
        _cleanup_free_ uint8_t *code = NULL;
        uint8_t head[HEAD_SIZE];

        if (process_pages_read(pid, range->start, head, sizeof(head)) < 0 ||
            !unwind_table_knows_code(head, sizeof(head)))
                return 0;
        code = malloc(size);
        if (!code)
                return -ENOMEM;
        if (process_pages_read(pid, range->start, code, size) < 0)
                return 0;
        return unwind_images_get_code(images, code, size, ret);
}

static int compare_codes(const void *a, const void *b) {
        const UnwindCode *x = a, *y = b;

        return x->start < y->start ? -1 : x->start > y->start;
}

int unwind_codes_update(UnwindCodes *codes, UnwindImages *images, const AddressSpace *space, pid_t pid) {
        size_t n = address_space_get_n_mappings(space);
        uint64_t left = CODE_SIZES_MAX;
        UnwindCodes now = {};
        int r = 0;

        for (size_t i = 0; i < n && now.n < CODES_MAX && r >= 0; i++) {
                MappedRange range;
                UnwindCode code;
                const UnwindCode *old;

                address_space_get_mapping(space, i, &range);
                if (((const SymbolFile *) range.file)->kind != SYMBOL_FILE_JIT)
                        continue;
                if (!now.items)
                        now.items = calloc(CODES_MAX, sizeof(UnwindCode));
                if (!now.items)
                        return -ENOMEM;
                old = unwind_codes_find(codes, &range);
                code = (UnwindCode){ .start = range.start, .end = range.end };
                if (old && !(old->image && unwind_images_wants_code(images, old->image))) {
                        code.image = old->image;
                        if (code.image)
                                unwind_images_share_code(code.image);
                } else if (code.end - code.start <= MIN(left, (uint64_t) CODE_SIZE_MAX)) {
                        left -= code.end - code.start;
                        r = look_at(images, pid, &code, &code.image);
                } else
                        continue;
                now.items[now.n++] = code;
        }
        if (r < 0) {
                unwind_codes_done(&now, images);
                return r;
        }
        if (now.n > 1)
                qsort(now.items, now.n, sizeof(UnwindCode), compare_codes);
        unwind_codes_done(codes, images);
        *codes = now;
        return 0;
}
