/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file of the cache of unwind tables, given a checksum that fits, for the file that all in the corpus are of. Version 1
 * stands for whatever is the current one.
 */

#include <elf.h>
#include <string.h>
#include <zlib.h>

#include "fuzz.h"
#include "unwind-cache.h"

#define VERSION_AT 8
#define CRC_AT 12
#define CRC_FROM 16

/* 64 KiB of code, at 0. */
static const struct {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
} code = {
        .header = {
                .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                .e_type = ET_DYN, .e_machine = EM_X86_64,
                .e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
        },
        .segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 65536},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *copy = NULL;

        if (elf_file_new_memory(&elf, &code, sizeof(code)) < 0)
                abort();
        copy = malloc(size + 1);
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        if (size >= CRC_FROM) {
                uint32_t crc = (uint32_t) crc32(0, copy + CRC_FROM, (unsigned) (size - CRC_FROM)), version;

                memcpy(&version, copy + VERSION_AT, sizeof(version));
                if (version == 1)
                        version = UNWIND_CACHE_VERSION;
                memcpy(copy + VERSION_AT, &version, sizeof(version));
                memcpy(copy + CRC_AT, &crc, sizeof(crc));
        }
        if (unwind_cache_parse(elf, copy, size, &table) < 0)
                return 0;
        for (uint64_t address = 0; address < 65536 + 256; address += 7)
                if (unwind_table_find(table, address) >= table->rules + table->n_rules && address < 65536)
                        abort();
        return 0;
}
