/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "regular-file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/vfs.h>

#include "util.h"

/* Of the kernel's own headers, which are not installed. */
#define CONFIGFS_MAGIC 0x62656570U
#define FUSECTL_MAGIC 0x65735543U

/* What the kernel makes up when it is asked. */
static bool is_made_up(int fd) {
        static const unsigned types[] = {
                PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, DEBUGFS_MAGIC, SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
                CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC, PSTOREFS_MAGIC, EFIVARFS_MAGIC,
                BINFMTFS_MAGIC, RDTGROUP_SUPER_MAGIC, BINDERFS_SUPER_MAGIC, NSFS_MAGIC, CONFIGFS_MAGIC, FUSECTL_MAGIC,
        };
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return true;
        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if ((unsigned) fs.f_type == types[i])
                        return true;
        return false;
}

int reopen_regular(int path_fd_, struct stat *ret_st) {
        _cleanup_close_ int path_fd = path_fd_;
        char self[64];
        int fd;

        if (path_fd < 0)
                return path_fd;
        if (fstat(path_fd, ret_st) < 0)
                return -errno;
        if (!S_ISREG(ret_st->st_mode) || is_made_up(path_fd))
                return -EBADF;
        snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
        fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}
