/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "debug-file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "process-dir.h"

typedef struct Link {
        char *name;
        uint32_t crc;
} Link;

static int open_elf(ElfFile **ret, int root_fd, const char *path) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        int r;

        fd = reopen_regular(find_file_in(root_fd, path, /* nofollow= */ false), &st);
        if (fd < 0)
                return fd;
        r = elf_file_new_take_fd(ret, fd);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        return 0;
}

/* SYMBOL_DIR/.build-id/xx/yyyy.debug */
static int open_by_build_id(ElfFile **ret, ElfFile *elf, int root_fd, const char *symbol_dir) {
        _cleanup_(elf_file_freep) ElfFile *debug = NULL;
        char hex[2 * ELF_BUILD_ID_MAX + 1], path[PATH_MAX];
        const uint8_t *id;
        size_t len = elf_file_get_build_id(elf, &id);
        int r;

        if (len < 2)
                return -ENOENT;
        for (size_t i = 0; i < len; i++)
                snprintf(hex + 2 * i, 3, "%02x", id[i]);
        r = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", symbol_dir, hex, hex + 2);
        if (r >= (int) sizeof(path))
                return -ENOENT;
        r = open_elf(&debug, root_fd, path);
        if (r < 0)
                return r;
        if (!elf_file_has_build_id(debug, id, len))
                return -ENOENT;
        *ret = TAKE_PTR(debug);
        return 0;
}

static bool debug_file_fits(ElfFile *debug, ElfFile *elf, uint32_t crc) {
        const uint8_t *ours, *theirs;
        size_t len = elf_file_get_build_id(elf, &ours);
        uint32_t actual;

        if (len > 0 && elf_file_get_build_id(debug, &theirs) > 0)
                return elf_file_has_build_id(debug, ours, len);
        return elf_file_get_crc(debug, &actual) == 0 && actual == crc;
}

_printf_(5, 6) static int try_link(ElfFile **ret, ElfFile *elf, const Link *link, int root_fd,
                                   const char *format, ...) {
        _cleanup_(elf_file_freep) ElfFile *debug = NULL;
        char path[PATH_MAX];
        va_list ap;
        int r;

        va_start(ap, format);
        r = vsnprintf(path, sizeof(path), format, ap);
        va_end(ap);
        if (r >= (int) sizeof(path))
                return -ENOENT;
        r = open_elf(&debug, root_fd, path);
        if (r < 0)
                return r;
        if (!debug_file_fits(debug, elf, link->crc))
                return -ENOENT;
        *ret = TAKE_PTR(debug);
        return 0;
}

/* The three directories where gdb looks too, the first two as the process sees them. */
static int open_by_link(ElfFile **ret, ElfFile *elf, const Link *link, const char *path, int root_fd,
                        int own_root_fd, const char *symbol_dir) {
        const char *slash = strrchr(path, '/');
        int dir_len, r;

        if (!slash)
                return -ENOENT;
        dir_len = (int) (slash - path);
        r = try_link(ret, elf, link, root_fd, "%.*s/%s", dir_len, path, link->name);
        if (r < 0 && r != -ENOMEM)
                r = try_link(ret, elf, link, root_fd, "%.*s/.debug/%s", dir_len, path, link->name);
        if (r < 0 && r != -ENOMEM)
                r = try_link(ret, elf, link, own_root_fd, "%s%.*s/%s", symbol_dir, dir_len, path, link->name);
        return r;
}

int debug_file_open(ElfFile **ret, ElfFile *elf, const char *path, int root_fd, const char *symbol_dir) {
        _cleanup_close_ int own_root_fd = -1;
        _cleanup_free_ char *name = NULL;
        Link link;
        int r;

        own_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own_root_fd < 0)
                return -errno;
        r = open_by_build_id(ret, elf, own_root_fd, symbol_dir);
        if (r >= 0 || r == -ENOMEM)
                return r;
        r = elf_file_get_debuglink(elf, &name, &link.crc);
        if (r < 0)
                return r == -ENOMEM ? r : -ENOENT;
        link.name = name;
        if (root_fd < 0)
                root_fd = own_root_fd;
        r = open_by_link(ret, elf, &link, path, root_fd, own_root_fd, symbol_dir);
        return r >= 0 || r == -ENOMEM ? r : -ENOENT;
}
