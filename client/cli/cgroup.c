/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See cgroup.h. */

#include "cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "cli.h"

#define MOUNTINFO "/proc/self/mountinfo"

/* "\040" and the like, in place: how mountinfo writes what would break its lines. */
static void unescape(char *s) {
        char *to = s;

        for (; *s; s++, to++) {
                unsigned c;

                *to = *s;
                if (s[0] == '\\' && s[1] && s[2] && s[3] && sscanf(s + 1, "%3o", &c) == 1 && c > 0 && c < 256) {
                        *to = (char) c;
                        s += 3;
                }
        }
        *to = 0;
}

static bool has_option(const char *options, const char *wanted) {
        size_t n = strlen(wanted);

        for (const char *p = options; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
                if (strncmp(p, wanted, n) == 0 && (p[n] == 0 || p[n] == ',' || p[n] == '\n'))
                        return true;
        return false;
}

/* Only mounts of a hierarchy's own root: a part of one, as a container may have, has other paths in it. */
static void read_mount(char *line, CgroupMounts *m) {
        char *separator = strstr(line, " - ");
        char root[PATH_MAX], point[PATH_MAX], type[64], options[1024];
        char *into = NULL;

        if (!separator || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(separator, " - %63s %*s %1023s", type, options) != 2 || strcmp(root, "/") != 0)
                return;
        if (strcmp(type, "cgroup2") == 0)
                into = m->v2;
        else if (strcmp(type, "cgroup") == 0 && has_option(options, "perf_event"))
                into = m->perf_event;
        else if (strcmp(type, "cgroup") == 0)
                m->other = true;
        if (!into || *into)
                return;
        unescape(point);
        memcpy(into, point, strlen(point) + 1);
}

void cgroup_mounts_read(FILE *mountinfo, CgroupMounts *ret) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;

        *ret = (CgroupMounts){};
        while (getline(&line, &size, mountinfo) > 0)
                read_mount(line, ret);
}

static bool is_below(const char *path, const char *directory) {
        size_t n = strlen(directory);

        return n > 0 && strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int open_below(const char *mount, const char *path) {
        char full[2 * PATH_MAX];
        int fd;

        if (!*mount)
                return -ENOENT;
        snprintf(full, sizeof(full), "%s/%s", mount, path);
        fd = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* -ENOENT, -ENOTDIR, ...: as open() has it. */
static int open_cgroup(const char *path, const CgroupMounts *m) {
        int fd;

        if (is_below(path, "/sys/fs/cgroup") || is_below(path, m->v2) || is_below(path, m->perf_event)) {
                fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
                return fd < 0 ? -errno : fd;
        }
        fd = open_below(m->v2, path);
        return fd != -ENOENT ? fd : open_below(m->perf_event, path);
}

static int not_opened(const char *path, const CgroupMounts *m, int r) {
        if (!*m->v2 && !*m->perf_event)
                cli_error(m->other ? "either cgroup v2 or the perf_event hierarchy of v1 is needed: mount -t cgroup -o perf_event" :
                                     "cgroup v2 is needed: mount -t cgroup2",
                          "%s: no hierarchy of cgroups is mounted in which this can be looked up", path);
        else if (r == -ENOENT)
                cli_error("/proc/PID/cgroup shows the cgroup of a process, 'systemd-cgls' all of them",
                          "%s: there is no such cgroup", path);
        else if (r == -ENOTDIR)
                cli_error("a cgroup is a directory", "%s is not a cgroup", path);
        else
                cli_error(NULL, "The cgroup %s: %s", path, strerror(-r));
        return r;
}

static bool is_in_perf_event(int fd, const CgroupMounts *m) {
        struct stat st, root;

        return *m->perf_event && fstat(fd, &st) == 0 && stat(m->perf_event, &root) == 0 && st.st_dev == root.st_dev;
}

static int check(int fd, const char *path, const CgroupMounts *m, bool *ret_v1) {
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return not_opened(path, m, -errno);
        if (fs.f_type == CGROUP2_SUPER_MAGIC)
                *ret_v1 = false;
        else if (fs.f_type != CGROUP_SUPER_MAGIC) {
                cli_error("name it as /proc/PID/cgroup does, or below /sys/fs/cgroup", "%s is not a cgroup", path);
                return -EINVAL;
        } else if (is_in_perf_event(fd, m))
                *ret_v1 = true;
        else {
                cli_error(*m->perf_event ? "name it in the perf_event hierarchy" :
                                           "the perf_event hierarchy is not mounted here: mount -t cgroup -o perf_event",
                          "%s is a cgroup of another controller, by which processes cannot be told", path);
                return -EINVAL;
        }
        return 0;
}

/* NULL: no memory, or nobody tells. */
static char *directory_of(int fd) {
        char path[64], directory[PATH_MAX];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, directory, sizeof(directory));
        return n > 0 && n < (ssize_t) sizeof(directory) ? strndup(directory, (size_t) n) : NULL;
}

int cgroup_find(const char *path, Cgroup *ret) {
        _cleanup_fclose_ FILE *f = fopen(MOUNTINFO, "re");
        _cleanup_close_ int fd = -1;
        CgroupMounts m = {};
        struct stat st;
        bool v1 = false;
        int r;

        if (f)
                cgroup_mounts_read(f, &m);
        fd = open_cgroup(path, &m);
        if (fd < 0)
                return not_opened(path, &m, fd);
        r = check(fd, path, &m, &v1);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return not_opened(path, &m, -errno);
        /* The kernel's number of a cgroup is that of its directory. */
        *ret = (Cgroup){ .id = st.st_ino, .v1 = v1, .directory = directory_of(fd) };
        return 0;
}

bool cgroup_is_replaced(const Cgroup *cgroup) {
        struct stat st;

        return cgroup->directory && stat(cgroup->directory, &st) == 0 && st.st_ino != cgroup->id;
}
