/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the reader of headers and the reader of symbols share. */

#include <elf.h>

#include "elf-file.h"

typedef struct ElfSegment {
        uint64_t offset, size, address;
        bool executable;
} ElfSegment;

typedef struct ElfSection {
        uint32_t name, type, link;
        bool executable, compressed;
        uint64_t address, offset, size, entry_size;
} ElfSection;

struct ElfFile {
        int fd;              /* -1: memory, or closed */
        const uint8_t *data; /* NULL: file */
        uint64_t size;
        bool is64;
        Elf64_Ehdr header;
        ElfSegment *segments;
        size_t n_segments;
        uint64_t eh_frame_hdr; /* address, 0: none */
        const bool *stop;      /* NULL: nobody stops who reads it */
        ElfSection *sections;
        size_t n_sections;
        bool has_sections; /* they were read */
        uint8_t build_id[ELF_BUILD_ID_MAX];
        size_t build_id_len;
        bool build_id_is_gnu;
        size_t notes_read; /* bytes so far: they may overlap and be many */
};

/* All of it, or -EBADMSG where the file is shorter. */
int elf_file_read_at(const ElfFile *elf, uint64_t offset, void *buffer, size_t size);
/* Does nothing where they are known. */
int elf_file_read_sections(ElfFile *elf);
/* By its name. -ENOENT: there is none. Sections must have been read. */
int elf_file_find_section(const ElfFile *elf, const char *name, const ElfSection **ret);
