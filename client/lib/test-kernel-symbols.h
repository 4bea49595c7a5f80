/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A file of kernel names, put together module by module. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel-names.h"
#include "util.h"

typedef struct NamesFile {
        struct rs_kernel_names header;
        struct rs_kernel_module modules[16];
        struct rs_kernel_symbol symbols[256];
        char strings[8192];
} NamesFile;

static inline uint32_t names_string(NamesFile *file, const char *s) {
        uint32_t at = file->header.strings_size;

        strcpy(file->strings + at, s);
        file->header.strings_size += strlen(s) + 1;
        return at;
}

static inline void names_init(NamesFile *file, uint64_t generation) {
        *file = (NamesFile){
                .header = {
                        .magic = RS_KERNEL_NAMES_MAGIC,
                        .version = RS_KERNEL_NAMES_VERSION,
                        .generation = generation,
                },
        };
}

static inline void names_module(NamesFile *file, uint32_t number, const char *name) {
        file->modules[file->header.nr_modules++] = (struct rs_kernel_module){
                .number = number,
                .name = names_string(file, name),
                .first_symbol = file->header.nr_symbols,
        };
}

/* Of the module that was begun last. */
static inline void names_symbol(NamesFile *file, uint32_t offset, const char *name) {
        file->symbols[file->header.nr_symbols++] = (struct rs_kernel_symbol){
                .offset = offset,
                .name = names_string(file, name),
        };
        file->modules[file->header.nr_modules - 1].nr_symbols++;
}

/* The bytes as they stand in the memfd, for free(). */
static inline uint8_t *names_pack(const NamesFile *file, size_t *ret_size) {
        size_t modules = file->header.nr_modules * sizeof(file->modules[0]),
               symbols = file->header.nr_symbols * sizeof(file->symbols[0]);
        uint8_t *bytes = malloc(sizeof(file->header) + modules + symbols + file->header.strings_size), *p = bytes;

        p = (uint8_t *) memcpy(p, &file->header, sizeof(file->header)) + sizeof(file->header);
        p = (uint8_t *) memcpy(p, file->modules, modules) + modules;
        p = (uint8_t *) memcpy(p, file->symbols, symbols) + symbols;
        memcpy(p, file->strings, file->header.strings_size);
        *ret_size = p + file->header.strings_size - bytes;
        return bytes;
}

static inline int names_memfd(const NamesFile *file, int seals, size_t *ret_size) {
        _cleanup_free_ uint8_t *bytes = names_pack(file, ret_size);
        int fd = memfd_create("names", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || write(fd, bytes, *ret_size) != (ssize_t) *ret_size || fcntl(fd, F_ADD_SEALS, seals) < 0)
                abort();
        return fd;
}
