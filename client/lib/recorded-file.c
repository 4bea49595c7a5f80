/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "recorded-file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "process-dir.h"
#include "regular-file.h"

#define NSEC_PER_SEC 1000000000

static bool is_later(const struct timespec *t, __int128 ns) {
        return (__int128) t->tv_sec * NSEC_PER_SEC + t->tv_nsec > ns;
}

static bool is_recorded(const RecordedFile *file, __int128 until, const ElfFile *elf, const struct stat *st) {
        if (file->build_id_len > 0)
                return elf_file_has_build_id(elf, file->build_id, file->build_id_len);
        return !is_later(&st->st_mtim, until) && !is_later(&st->st_ctim, until) &&
               file->inode == st->st_ino && file->size == (uint64_t) st->st_size &&
               file->device == ((uint64_t) major(st->st_dev) << 32 | minor(st->st_dev));
}

int recorded_file_open(const RecordedFile *file, __int128 until, ElfFile **ret) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_close_ int root_fd = -1, fd = -1;
        struct stat st;
        int r;

        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        fd = reopen_regular(find_file_in(root_fd, file->path, /* nofollow= */ false), &st);
        if (fd < 0)
                return fd;
        r = elf_file_new_take_fd(&elf, fd);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        if (!is_recorded(file, until, elf, &st))
                return -ESTALE;
        *ret = TAKE_PTR(elf);
        return 0;
}
