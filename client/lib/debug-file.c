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
        uint64_t deadline;
} Link;

typedef int (*NewFunc)(ElfFile **ret, int fd);

static int open_elf(ElfFile **ret, NewFunc new, int root_fd, const char *path) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        int r;

        fd = reopen_regular(find_file_in(root_fd, path, /* nofollow= */ false), &st);
        if (fd < 0)
                return fd;
        r = new(ret, fd);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        return 0;
}

/* SYMBOL_DIR/.build-id/xx/yyyy.debug */
static int open_by_build_id(ElfFile **ret, NewFunc new, const uint8_t *id, size_t len, int root_fd, const char *symbol_dir) {
        _cleanup_(elf_file_freep) ElfFile *debug = NULL;
        char hex[2 * ELF_BUILD_ID_MAX + 1], path[PATH_MAX];
        int r;

        if (len < 2)
                return -ENOENT;
        for (size_t i = 0; i < len; i++)
                snprintf(hex + 2 * i, 3, "%02x", id[i]);
        r = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", symbol_dir, hex, hex + 2);
        if (r >= (int) sizeof(path))
                return -ENOENT;
        r = open_elf(&debug, new, root_fd, path);
        if (r < 0)
                return r;
        if (!elf_file_has_build_id(debug, id, len))
                return -ENOENT;
        *ret = TAKE_PTR(debug);
        return 0;
}

/* 0; -ENOENT: it is another. */
static int check_link(ElfFile *debug, ElfFile *elf, const Link *link) {
        const uint8_t *ours, *theirs;
        size_t len = elf_file_get_build_id(elf, &ours);
        uint32_t actual;
        int r;

        if (len > 0 && elf_file_get_build_id(debug, &theirs) > 0)
                return elf_file_has_build_id(debug, ours, len) ? 0 : -ENOENT;
        r = elf_file_get_crc(debug, link->deadline, &actual);
        return r < 0 ? r : actual == link->crc ? 0 : -ENOENT;
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
        r = open_elf(&debug, elf_file_new_take_fd, root_fd, path);
        if (r < 0)
                return r;
        r = check_link(debug, elf, link);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(debug);
        return 0;
}

/* Not that there is none. */
static bool is_final(int r) {
        return r >= 0 || r == -ENOMEM || r == -ETIMEDOUT;
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
        if (!is_final(r))
                r = try_link(ret, elf, link, root_fd, "%.*s/.debug/%s", dir_len, path, link->name);
        if (!is_final(r))
                r = try_link(ret, elf, link, own_root_fd, "%s%.*s/%s", symbol_dir, dir_len, path, link->name);
        return r;
}

int debug_file_open(ElfFile **ret, ElfFile *elf, const DebugFileSearch *search) {
        _cleanup_close_ int own_root_fd = -1;
        _cleanup_free_ char *name = NULL;
        Link link = { .deadline = search->deadline };
        const uint8_t *id;
        size_t len;
        int r;

        own_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own_root_fd < 0)
                return -errno;
        len = elf_file_get_build_id(elf, &id);
        r = open_by_build_id(ret, elf_file_new_take_fd, id, len, own_root_fd, search->symbol_dir);
        if (r >= 0 || r == -ENOMEM)
                return r;
        r = elf_file_get_debuglink(elf, &name, &link.crc);
        if (r < 0)
                return r == -ENOMEM ? r : -ENOENT;
        link.name = name;
        r = open_by_link(ret, elf, &link, search->path, search->root_fd < 0 ? own_root_fd : search->root_fd, own_root_fd,
                         search->symbol_dir);
        return is_final(r) ? r : -ENOENT;
}

int debug_file_open_kernel(ElfFile **ret, const uint8_t *id, size_t len, const char *release, const char *symbol_dir) {
        _cleanup_(elf_file_freep) ElfFile *debug = NULL;
        _cleanup_close_ int root_fd = -1;
        char path[PATH_MAX];
        int r;

        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        r = open_by_build_id(ret, elf_file_new_take_fd, id, len, root_fd, symbol_dir);
        if (r >= 0 || r == -ENOMEM)
                return r;
        if (strchr(release, '/') || snprintf(path, sizeof(path), "%s/lib/modules/%s/vmlinux", symbol_dir, release) >= (int) sizeof(path))
                return -ENOENT;
        r = open_elf(&debug, elf_file_new_take_fd, root_fd, path);
        if (r == -ENOMEM)
                return r;
        if (r < 0 || !elf_file_has_build_id(debug, id, len))
                return -ENOENT;
        *ret = TAKE_PTR(debug);
        return 0;
}

int debug_file_open_module(ElfFile **ret, const uint8_t *id, size_t len, const char *symbol_dir) {
        _cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return root_fd < 0 ? -errno : open_by_build_id(ret, elf_file_new_alt_take_fd, id, len, root_fd, symbol_dir);
}

int debug_file_open_by_id(ElfFile **ret, const uint8_t *id, size_t len, const char *symbol_dir) {
        _cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return root_fd < 0 ? -errno : open_by_build_id(ret, elf_file_new_take_fd, id, len, root_fd, symbol_dir);
}

/* A name, relative to the directory of the file that has it, and a build id behind its final 0. */
typedef struct AltLink {
        char *name;
        const uint8_t *id;
        size_t id_len;
} AltLink;

static int read_alt_link(ElfFile *elf, AltLink *ret) {
        _cleanup_free_ uint8_t *data = NULL;
        uint64_t address;
        size_t size, len;
        int r;

        r = elf_file_read_section(elf, ".gnu_debugaltlink", PATH_MAX + ELF_BUILD_ID_MAX, &data, &size, &address);
        if (r < 0)
                return r;
        len = strnlen((char *) data, size);
        if (len == 0 || len == size || size - len - 1 > ELF_BUILD_ID_MAX)
                return -EBADMSG;
        ret->id = data + len + 1;
        ret->id_len = size - len - 1;
        ret->name = (char *) TAKE_PTR(data);
        return 0;
}

static int open_alt_by_name(ElfFile **ret, ElfFile *elf, const AltLink *link, int root_fd) {
        _cleanup_(elf_file_freep) ElfFile *alt = NULL;
        char fd_path[64], file[PATH_MAX], path[2 * PATH_MAX];
        ssize_t n = 0;
        int r;

        if (link->name[0] != '/') {
                (void) snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", elf_file_get_fd(elf));
                n = readlink(fd_path, file, sizeof(file));
                if (n < 0 || n == sizeof(file))
                        return -ENOENT;
                while (n > 0 && file[n - 1] != '/')
                        n--;
        }
        (void) snprintf(path, sizeof(path), "%.*s%s", (int) n, file, link->name);
        r = open_elf(&alt, elf_file_new_alt_take_fd, root_fd, path);
        if (r < 0)
                return r;
        if (!elf_file_has_build_id(alt, link->id, link->id_len))
                return -ENOENT;
        *ret = TAKE_PTR(alt);
        return 0;
}

int debug_file_open_alt(ElfFile **ret, ElfFile *elf, const char *symbol_dir, DebugFileId *ret_id) {
        _cleanup_close_ int root_fd = -1;
        AltLink link = {};
        int r;

        r = elf_file_has_section(elf, ".gnu_debugaltlink");
        ret_id->len = 0;
        if (r <= 0) {
                *ret = NULL;
                return r;
        }
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        r = read_alt_link(elf, &link);
        if (r < 0)
                return r;
        memcpy(ret_id->id, link.id, link.id_len);
        ret_id->len = link.id_len;
        r = open_by_build_id(ret, elf_file_new_alt_take_fd, link.id, link.id_len, root_fd, symbol_dir);
        if (r < 0 && r != -ENOMEM)
                r = open_alt_by_name(ret, elf, &link, root_fd);
        free(link.name);
        return r >= 0 || r == -ENOMEM ? r : -ENOENT;
}
