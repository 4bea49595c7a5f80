/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A bounded reader of ELF files, for what a profiler wants of them: segments, build id, debug link
 * and function symbols. 32 and 64 bit, in the byte order of the machine.
 *
 * The file is somebody else's and may change while it is read, so it is read piece by piece with
 * pread() and never mapped; every size is checked against the file's and against a cap. -EBADMSG:
 * malformed. -EFBIG: over a cap. -ENOENT: well-formed, and has no such thing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "symbol-table.h"
#include "util.h"

typedef struct ElfFile ElfFile;

#define ELF_FILE_SIZE_MAX (UINT64_C(16) << 30)
#define ELF_BUILD_ID_MAX 64

enum ElfSymbols {
        ELF_SYMTAB,
        ELF_DYNSYM,
};

/* Reads headers, segments and build id. fd stays the caller's where this fails. */
int elf_file_new_take_fd(ElfFile **ret, int fd);
/* The same of what dwz makes of the debug information of several files, which may be of a type that nobody maps. */
int elf_file_new_alt_take_fd(ElfFile **ret, int fd);
/* data must outlive the file. */
int elf_file_new_memory(ElfFile **ret, const void *data, size_t size);
ElfFile *elf_file_free(ElfFile *elf);
DEFINE_CLEANUP(ElfFile, elf_file_free)

/* Gives the fd back; segments and build id stay known, the rest cannot be read any more. */
void elf_file_close(ElfFile *elf);

/* GNU's; Go's where there is no other, cut to ELF_BUILD_ID_MAX. Returns its length, 0: none. */
size_t elf_file_get_build_id(const ElfFile *elf, const uint8_t **ret);
/* The same of notes that are in no file. */
size_t elf_notes_get_build_id(const uint8_t *notes, size_t size, uint8_t ret[static ELF_BUILD_ID_MAX]);
bool elf_file_has_build_id(const ElfFile *elf, const uint8_t *id, size_t len);

/*
 * The virtual address, as the file counts them, of what is at offset in the file. false: no
 * loaded segment holds it.
 */
bool elf_file_get_address(const ElfFile *elf, uint64_t offset, uint64_t *ret);

/*
 * The same for the first byte of a mapping with code. That byte may be another segment's: mappings begin and end with pages, and
 * segments anywhere. false: there is no code in it.
 */
bool elf_file_get_code_address(const ElfFile *elf, uint64_t offset, uint64_t size, uint64_t *ret);

/* What fstat() says of it. -EBADF: it is in memory, or closed. */
int elf_file_stat(const ElfFile *elf, struct stat *ret);
/* The same for the file system that it is on. */
int elf_file_statvfs(const ElfFile *elf, struct statvfs *ret);
/*
 * Whoever needs long for the file ends with -ECANCELED soon after *stop was set, by any thread: it is looked at by
 * elf_file_is_stopped(). NULL: never.
 */
void elf_file_set_stop(ElfFile *elf, const bool *stop);
bool elf_file_is_stopped(const ElfFile *elf);
/* EM_X86_64 and the like. */
unsigned elf_file_get_machine(const ElfFile *elf);
/* Of the type that nobody maps. */
bool elf_file_is_relocatable(const ElfFile *elf);
bool elf_file_is_64(const ElfFile *elf);
/* From the lowest to the highest address of executable segments, end past the last byte. false: there is none. */
bool elf_file_get_code(const ElfFile *elf, uint64_t *ret_start, uint64_t *ret_end);
/* Where the kernel begins, of a 64-bit file. */
uint64_t elf_file_get_entry(const ElfFile *elf);
/* Where PT_GNU_EH_FRAME says the index of .eh_frame is; 0: it says nothing. */
uint64_t elf_file_get_eh_frame_hdr(const ElfFile *elf);

/* -1: it is in memory, or closed. The file's. */
int elf_file_get_fd(const ElfFile *elf);
/* Whether there is a section of that name that has bytes in the file. -EBADMSG and the like: the file is malformed. */
int elf_file_has_section(ElfFile *elf, const char *name);
/* Whether it is there and compressed by zstd, which no reader here can undo. False also where the file is malformed. */
bool elf_file_is_zstd(ElfFile *elf, const char *name);
/* The bytes of a section, uncompressed, freed with free(); -EFBIG: more than max. */
int elf_file_read_section(ElfFile *elf, const char *name, size_t max, uint8_t **ret, size_t *ret_size,
                          uint64_t *ret_address);
/* How many bytes the file has from this address on, to the end of a segment; 0: none. */
uint64_t elf_file_get_bytes_at(const ElfFile *elf, uint64_t address);
/* All of size, or -EBADMSG. */
int elf_file_read_address(const ElfFile *elf, uint64_t address, void *buffer, size_t size);

/* Of the separate debug file: a plain file name, freed with free(), and its CRC-32. */
int elf_file_get_debuglink(ElfFile *elf, char **ret_name, uint32_t *ret_crc);
/* CRC-32 over the whole file. deadline: ns CLOCK_MONOTONIC, 0: as long as it takes; -ETIMEDOUT: it was over. */
int elf_file_get_crc(ElfFile *elf, uint64_t deadline, uint32_t *ret);

/* Adds the functions to table, which is not sealed here. */
int elf_file_read_symbols(ElfFile *elf, enum ElfSymbols which, SymbolTable *table);
/*
 * The value of a symbol in .symtab, of whatever type, and its section, as st_shndx has it (NULL: not asked for). -ENOENT: there
 * is none of that name, or several that differ.
 */
int elf_file_find_symbol(ElfFile *elf, const char *name, uint64_t *ret, unsigned *ret_section);
