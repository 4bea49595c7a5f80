/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A file as a recording has it, and the one that is there now, if it is the same. */

#include "elf-file.h"

typedef struct RecordedFile {
        char *path;
        uint64_t device, inode, size; /* device as in the recording */
        uint8_t build_id[ELF_BUILD_ID_MAX];
        size_t build_id_len; /* 0: it has none */
} RecordedFile;

/*
 * until: when the recording ended, ns CLOCK_REALTIME. -ESTALE: what is there is another file. -EBADF: nothing to be read. Else
 * as open(2) and elf_file_new_take_fd().
 *
 * Without a build id a file that was linked anew in its place would be taken for what was recorded, if it has its size; so it
 * must not have changed since. The device is that of maps. Some file systems call theirs otherwise in stat(2); there a file
 * without a build id is taken for another.
 */
int recorded_file_open(const RecordedFile *file, __int128 until, ElfFile **ret);
