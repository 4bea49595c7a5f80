/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* Whether a build id is worth something. Where set-user-id programs would not count, owners may be anybody's invention. */
static bool is_trusted(const ElfFile *elf, const struct stat *st) {
        struct statvfs system;

        return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH)) &&
               elf_file_statvfs(elf, &system) >= 0 && !(system.f_flag & ST_NOSUID);
}

bool unwind_identity_get_file(const ElfFile *elf, char identity[static UNWIND_IDENTITY_SIZE]) {
        const uint8_t *id;
        size_t len = elf_file_get_build_id(elf, &id);
        struct stat st;
        char *p = identity;
        int r;

        r = elf_file_stat(elf, &st);
        if (r < 0 && r != -EBADF) /* that one is in memory, as the kernel gave it to us */
                return false;
        if (len > 0 && (r == -EBADF || is_trusted(elf, &st))) {
                for (size_t i = 0; i < len; i++)
                        p += sprintf(p, "%02x", id[i]);
        } else if (r >= 0) {
                sprintf(p, "%jx-%jx-%jx-%jx-%lx", (uintmax_t) st.st_dev, (uintmax_t) st.st_ino, (uintmax_t) st.st_size,
                        (uintmax_t) st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
        } else
                return false;
        return true;
}

bool unwind_identity_get(const ElfFile *elf, char identity[static UNWIND_IDENTITY_SIZE]) {
        uint64_t start, end;

        if (!elf_file_get_code(elf, &start, &end) || !unwind_identity_get_file(elf, identity))
                return false;
        sprintf(identity + strlen(identity), "-%x-%" PRIx64 "-%" PRIx64, elf_file_get_machine(elf), start, end);
        return true;
}
