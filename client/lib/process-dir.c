/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "process-dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#define MAPS_SIZE_MAX (256U << 20) /* two million lines */
#define STATUS_SIZE_MAX 16384U
#define READ_SIZE (64U << 10)
#define NAMESPACE_MAX 64
#define NSEC_PER_SEC INT64_C(1000000000)
#define OFFSET_MAX (INT64_C(1) << 32) /* seconds; about what the kernel allows, and two of them are ns that fit */

/* A file of /proc has no size: read until it ends. */
static int read_all(int fd, size_t max, char **ret, size_t *ret_size) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0, allocated = 0;

        for (;;) {
                ssize_t n;

                if (allocated - size < READ_SIZE / 2) {
                        char *bigger;

                        if (allocated >= max)
                                return -EFBIG;
                        allocated = MAX(READ_SIZE, allocated * 2);
                        bigger = realloc(text, allocated);
                        if (!bigger)
                                return -ENOMEM;
                        text = bigger;
                }
                n = RETRY_ON_EINTR(read(fd, text + size, allocated - size - 1));
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        text[size] = 0;
        *ret = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}

static int read_file_at(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_size) {
        _cleanup_close_ int fd = -1;

        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        return read_all(fd, max, ret, ret_size);
}

/* Takes the first thread that still has memory. */
static int open_living_thread(int *process_fd, pid_t *tid, size_t max, char **ret_maps, size_t *ret_size) {
        DIR *tasks;
        int fd, r = -ESRCH;

        fd = openat(*process_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        tasks = fdopendir(fd);
        if (!tasks) {
                close_fd(fd);
                return -ENOMEM;
        }
        for (const struct dirent *entry; (entry = readdir(tasks));) {
                _cleanup_free_ char *maps = NULL;
                _cleanup_close_ int thread_fd = -1;
                size_t size;

                if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                        continue;
                thread_fd = openat(dirfd(tasks), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (thread_fd < 0) {
                        r = errno == ENOENT ? r : -errno;
                        continue;
                }
                r = read_file_at(thread_fd, "maps", max, &maps, &size);
                if (r == 0 && size > 0) {
                        close_fd(*process_fd);
                        *process_fd = TAKE_FD(thread_fd);
                        *tid = (pid_t) strtol(entry->d_name, NULL, 10);
                        *ret_maps = TAKE_PTR(maps);
                        *ret_size = size;
                        break;
                }
                if (r == 0)
                        r = -ESRCH;
        }
        closedir(tasks);
        return r;
}

int process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, size_t max, char **ret_maps, size_t *ret_size) {
        _cleanup_free_ char *maps = NULL;
        _cleanup_close_ int fd = -1;
        char path[PATH_MAX];
        pid_t tid = pid;
        size_t size;
        int r;

        if (pid <= 0 || snprintf(path, sizeof(path), "%s/%d", proc, (int) pid) >= (int) sizeof(path))
                return -EINVAL;
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        max = max ?: MAPS_SIZE_MAX;
        r = read_file_at(fd, "maps", max, &maps, &size);
        if (r < 0)
                return r;
        if (size == 0) {
                r = open_living_thread(&fd, &tid, max, ret_maps, ret_size);
                if (r < 0)
                        return r;
        } else {
                *ret_maps = TAKE_PTR(maps);
                *ret_size = size;
        }
        *dir = (ProcessDir){ .fd = TAKE_FD(fd), .root_fd = -1, .tid = tid };
        return 0;
}

void process_dir_find(ProcessDir *dir, const char *proc, pid_t pid) {
        char path[PATH_MAX];

        *dir = (ProcessDir){ .fd = -1, .root_fd = -1, .tid = pid };
        if (pid > 0 && snprintf(path, sizeof(path), "%s/%d", proc, (int) pid) < (int) sizeof(path))
                dir->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void process_dir_done(ProcessDir *dir) {
        dir->fd = close_fd(dir->fd);
        dir->root_fd = close_fd(dir->root_fd);
}

/* The text behind "\nkey:", NULL: not there. */
static const char *find_key(const char *text, const char *key) {
        size_t len = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, len) == 0 && line[len] == ':')
                        return line + len + 1;
        }
        return NULL;
}

/* Value index of a line of numbers, or the last one; -1: there is none. */
static int64_t get_number(const char *line, size_t index) {
        int64_t value = -1;

        for (size_t i = 0; i <= index; i++) {
                line += strspn(line, " \t");
                if (*line < '0' || *line > '9')
                        break;
                value = strtoll(line, (char **) &line, 10);
        }
        return value;
}

pid_t process_status_get_inner_pid(const char *status) {
        const char *pids;
        int64_t pid;

        /* A thread's own number is in NSpid, the process's in NStgid. */
        pids = find_key(status, "NStgid");
        if (!pids)
                pids = find_key(status, "NSpid");
        if (!pids)
                return -1;
        pid = get_number(pids, /* the innermost */ SIZE_MAX - 1);
        return pid > 0 && pid <= INT_MAX ? (pid_t) pid : -1;
}

int process_dir_read_identity(const ProcessDir *dir, ProcessIdentity *ret) {
        _cleanup_free_ char *status = NULL;
        const char *uids;
        int64_t uid;
        pid_t pid;
        size_t size;
        int r;

        r = read_file_at(dir->fd, "status", STATUS_SIZE_MAX, &status, &size);
        if (r < 0)
                return r;
        uids = find_key(status, "Uid");
        if (!uids)
                return -EBADMSG;
        uid = get_number(uids, /* real, effective, saved, file system */ 3);
        pid = process_status_get_inner_pid(status);
        if (uid < 0 || uid > UINT32_MAX || pid < 0)
                return -EBADMSG;
        ret->uid = (uid_t) uid;
        ret->inner_pid = pid;
        return 0;
}

/* Of one of the namespaces, as NAME:[INODE]. */
static int read_namespace(int dir_fd, const char *name, char ret[static NAMESPACE_MAX]) {
        ssize_t n = readlinkat(dir_fd, name, ret, NAMESPACE_MAX);

        if (n < 0)
                return -errno;
        if (n == NAMESPACE_MAX)
                return -EBADMSG;
        ret[n] = 0;
        return 0;
}

/* "monotonic SECONDS NANOSECONDS" is the first line, the nanoseconds never negative. */
static int parse_offset(const char *text, int64_t *ret) {
        static const char key[] = "monotonic ";
        int64_t seconds, ns;
        char *end;

        if (strncmp(text, key, sizeof(key) - 1) != 0)
                return -EBADMSG;
        seconds = strtoll(text + sizeof(key) - 1, &end, 10);
        if (*end != ' ')
                return -EBADMSG;
        ns = strtoll(end, &end, 10);
        if (*end != '\n' || seconds < -OFFSET_MAX || seconds > OFFSET_MAX || ns < 0 || ns >= NSEC_PER_SEC)
                return -EBADMSG;
        *ret = seconds * NSEC_PER_SEC + ns;
        return 0;
}

/* What is told is that of the namespace its children will live in. */
static int read_offset(int dir_fd, int64_t *ret) {
        char own[NAMESPACE_MAX], children[NAMESPACE_MAX];
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r;

        r = read_namespace(dir_fd, "ns/time", own);
        if (r >= 0)
                r = read_namespace(dir_fd, "ns/time_for_children", children);
        if (r < 0)
                return r;
        if (strcmp(own, children) != 0)
                return -EOPNOTSUPP;
        r = read_file_at(dir_fd, "timens_offsets", STATUS_SIZE_MAX, &text, &size);
        return r < 0 ? r : parse_offset(text, ret);
}

int process_dir_read_ahead(const ProcessDir *dir, int64_t *ret) {
        char ours[NAMESPACE_MAX], theirs[NAMESPACE_MAX];
        _cleanup_close_ int self_fd = -1;
        int64_t offset, own_offset;
        int r;

        *ret = 0;
        self_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (self_fd < 0)
                return -errno;
        r = read_namespace(self_fd, "ns/time", ours);
        if (r == -ENOENT) /* before 5.6 there is but one */
                return 0;
        if (r >= 0)
                r = read_namespace(dir->fd, "ns/time", theirs);
        if (r < 0 || strcmp(ours, theirs) == 0)
                return r;
        r = read_offset(dir->fd, &offset);
        if (r >= 0)
                r = read_offset(self_fd, &own_offset);
        if (r >= 0)
                *ret = offset - own_offset;
        return r;
}

int find_file_in(int root_fd, const char *path, bool nofollow) {
        struct open_how how = {
                .flags = (uint64_t) (O_PATH | O_CLOEXEC | (nofollow ? O_NOFOLLOW : 0)),
                .resolve = RESOLVE_IN_ROOT,
        };
        long fd;

        fd = RETRY_ON_EINTR(syscall(SYS_openat2, root_fd, path, &how, sizeof(how)));
        if (fd >= 0)
                return (int) fd;
        if (errno != ENOSYS && errno != EPERM)
                return -errno;
        /* Before 5.6, or forbidden in a container: links then lead out of the root, and whoever asked
         * compares what came of it with what it should be. */
        path += strspn(path, "/");
        fd = openat(root_fd, path, (int) how.flags);
        return fd < 0 ? -errno : (int) fd;
}

int process_dir_find_file(ProcessDir *dir, const char *path, bool nofollow) {
        if (path[0] != '/' || dir->fd < 0)
                return -ENOENT;
        if (dir->root_fd < 0) {
                dir->root_fd = openat(dir->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (dir->root_fd < 0)
                        return -errno;
        }
        return find_file_in(dir->root_fd, path, nofollow);
}
