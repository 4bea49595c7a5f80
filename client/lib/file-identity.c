/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * btrfs and overlayfs show files a device of their own, for each subvolume or layer, where maps shows the file
 * system's. That is also shown for each mount. Without this a number would do: those of two tmpfs begin alike.
 */

#include "file-identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "util.h"

/* Whoever has a namespace of its own may fill it with mounts, for each of its files to be looked for among. */
#define MOUNTS_MAX 4096U
#define KNOWN_NS UINT64_C(1000000000)
/* A fiftieth of the time, and no more than this at once. */
#define SHARE 50
#define CREDIT_MAX (200 * INT64_C(1000000))

/* "MOUNT PARENT MAJOR:MINOR ROOT ..." */
static bool mount_is_of_device(int proc_fd, const char *name, uint64_t mount, const MapsLine *line) {
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);

        f = fd < 0 ? NULL : fdopen(fd, "re");
        if (!f) {
                close_fd(fd);
                return false;
        }
        for (unsigned i = 0; i < MOUNTS_MAX && getline(&text, &size, f) > 0; i++) {
                unsigned dev_major, dev_minor;
                uint64_t number;

                if (sscanf(text, "%" SCNu64 " %*u %u:%u", &number, &dev_major, &dev_minor) == 3 && number == mount)
                        return dev_major == line->dev_major && dev_minor == line->dev_minor;
        }
        return false;
}

/* What is not looked up for want of time does not fit, until there is some. */
static bool may_look(FileIdentities *identities, uint64_t now) {
        identities->credit = identities->credited == 0
                                     ? CREDIT_MAX
                                     : MIN(identities->credit + (int64_t) ((now - identities->credited) / SHARE), CREDIT_MAX);
        identities->credited = now;
        return identities->credit > 0;
}

static bool is_on_mount_of_device(FileIdentities *identities, int fd, const struct stat *st, const MapsLine *line,
                                  const ProcessDir *dir) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        MountVerdict *v = identities->known;
        struct statx stx;

        if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) < 0 || !(stx.stx_mask & STATX_MNT_ID))
                return false;
        for (; v < identities->known + ELEMENTSOF(identities->known); v++)
                if (now < v->until && v->mount == stx.stx_mnt_id && v->shown == st->st_dev &&
                    v->dev_major == line->dev_major && v->dev_minor == line->dev_minor)
                        return v->fits;
        if (!may_look(identities, now))
                return false;
        /* A mount in the namespace of the process, or in ours. */
        v = &identities->known[identities->next++ % ELEMENTSOF(identities->known)];
        *v = (MountVerdict){
                .mount = stx.stx_mnt_id,
                .shown = st->st_dev,
                .dev_major = line->dev_major,
                .dev_minor = line->dev_minor,
                .fits = mount_is_of_device(AT_FDCWD, "/proc/self/mountinfo", stx.stx_mnt_id, line) ||
                        (dir->fd >= 0 && mount_is_of_device(dir->fd, "mountinfo", stx.stx_mnt_id, line)),
                .until = now + KNOWN_NS,
        };
        identities->credit -= (int64_t) (now_ns(CLOCK_MONOTONIC) - now);
        return v->fits;
}

/* Before Linux 6.8 maps shows the device, and inode, of the file below. */
static bool may_be_upper(int fd, const MapsLine *line) {
        struct statfs fs;

        return line->dev_major != 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

bool file_identity_fits(FileIdentities *identities, int fd, const struct stat *st, const MapsLine *line,
                        const ProcessDir *dir) {
        if (st->st_ino != line->inode)
                return false;
        if (major(st->st_dev) == line->dev_major && minor(st->st_dev) == line->dev_minor)
                return true;
        return major(st->st_dev) == 0 && (is_on_mount_of_device(identities, fd, st, line, dir) || may_be_upper(fd, line));
}
