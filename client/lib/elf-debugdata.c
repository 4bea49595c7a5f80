/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long the result will be stands at the end of what is compressed, and nobody has to tell the truth there: so it is
 * believed only as it comes, and room for it is doubled up to a cap.
 */

#include "elf-debugdata.h"

#include <lzma.h>

#define PACKED_MAX (32U << 20)
#define ROOM_MIN (64U << 10)
/* xz -9 needs 65 MiB of it. */
#define MEMORY_MAX (UINT64_C(80) << 20)

static int make_room(lzma_stream *stream, uint8_t **plain, size_t *allocated) {
        size_t more = *allocated > 0 ? *allocated * 2 : ROOM_MIN;
        uint8_t *bigger;

        if (more > ELF_DEBUGDATA_SIZE_MAX)
                return -EFBIG;
        bigger = realloc(*plain, more);
        if (!bigger)
                return -ENOMEM;
        stream->next_out = bigger + *allocated;
        stream->avail_out = more - *allocated;
        *plain = bigger;
        *allocated = more;
        return 0;
}

static int unpack(const uint8_t *packed, size_t size, uint8_t **ret, size_t *ret_size) {
        _cleanup_(lzma_end) lzma_stream stream = LZMA_STREAM_INIT;
        _cleanup_free_ uint8_t *plain = NULL;
        size_t allocated = 0;
        lzma_ret result;
        int r;

        result = lzma_stream_decoder(&stream, MEMORY_MAX, /* flags= */ 0);
        stream.next_in = packed;
        stream.avail_in = size;
        while (result == LZMA_OK) {
                if (stream.avail_out == 0) {
                        r = make_room(&stream, &plain, &allocated);
                        if (r < 0)
                                return r;
                }
                result = lzma_code(&stream, LZMA_FINISH);
        }
        switch (result) {
        case LZMA_STREAM_END:
                *ret_size = allocated - stream.avail_out;
                *ret = TAKE_PTR(plain);
                return 0;
        case LZMA_MEM_ERROR:
                return -ENOMEM;
        case LZMA_MEMLIMIT_ERROR:
                return -EFBIG;
        default:
                return -EBADMSG;
        }
}

int elf_debugdata_read_symbols(ElfFile *elf, SymbolTable *table) {
        _cleanup_free_ uint8_t *packed = NULL, *plain = NULL;
        _cleanup_(elf_file_freep) ElfFile *inner = NULL;
        size_t packed_size, size;
        uint64_t address;
        int r;

        r = elf_file_read_section(elf, ".gnu_debugdata", PACKED_MAX, &packed, &packed_size, &address);
        if (r < 0)
                return r;
        r = unpack(packed, packed_size, &plain, &size);
        if (r < 0)
                return r;
        r = elf_file_new_memory(&inner, plain, size);
        return r < 0 ? r : elf_file_read_symbols(inner, ELF_SYMTAB, table);
}
