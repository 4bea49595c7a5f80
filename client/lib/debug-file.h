/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Finds the separate file that holds the symbols of a stripped one. A file that is found proves what it
 * is: by the build id, or by the CRC of the debug link where one of the two has no build id.
 */

#include "elf-file.h"

typedef struct DebugFileSearch {
        const char *path;       /* of the stripped file, */
        int root_fd;            /* and the root in which that means something, O_PATH; -1: our own */
        const char *symbol_dir; /* in our own root */
        uint64_t deadline;      /* of a CRC, ns CLOCK_MONOTONIC; 0: as long as it takes */
} DebugFileSearch;

/* -ENOENT: there is none that fits. -ETIMEDOUT: there may be one. */
int debug_file_open(ElfFile **ret, ElfFile *elf, const DebugFileSearch *search);
/* Of a file that is not there: by its build id alone. */
int debug_file_open_by_id(ElfFile **ret, const uint8_t *id, size_t len, const char *symbol_dir);

/* A build id that is referred to, as the caller's. */
typedef struct DebugFileId {
        uint8_t id[ELF_BUILD_ID_MAX];
        size_t len; /* 0: none is */
} DebugFileId;

/*
 * What a kernel was made of, vmlinux: by its build id, or below lib/modules/RELEASE in symbol_dir, where that has this build
 * id. -ENOENT: there is none.
 */
int debug_file_open_kernel(ElfFile **ret, const uint8_t *id, size_t len, const char *release, const char *symbol_dir);
/* The same of a kernel's module, which is relocatable; by its build id alone. */
int debug_file_open_module(ElfFile **ret, const uint8_t *id, size_t len, const char *symbol_dir);
/*
 * The file whose debug information elf's refers to, as dwz makes them of what several have in common. 0: *ret is NULL where
 * elf names none. -ENOENT: the one it names is not there, or another: it is to have the build id of ret_id.
 */
int debug_file_open_alt(ElfFile **ret, ElfFile *elf, const char *symbol_dir, DebugFileId *ret_id);
