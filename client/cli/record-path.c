/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See record-path.h. */

#include "record-path.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli.h"
#include "text.h"

#define TRIES 1000

static bool exists(const char *path) {
        struct stat st;

        return lstat(path, &st) == 0;
}

static void describe(char *dst, size_t size, const RecordOptions *options) {
        const RecordTarget *target = options->n_targets > 0 ? &options->targets[0] : NULL;
        char part[65];

        if (options->command)
                snprintf(dst, size, "%s", text_file_part(options->command[0], part));
        else if (target && target->name)
                snprintf(dst, size, "%s", text_file_part(target->name, part));
        else if (target)
                snprintf(dst, size, "%s-%d", target->kind == RECORD_THREAD ? "tid" : "pid", (int) target->id);
        else
                snprintf(dst, size, "all");
}

static int make_name(char **ret, const RecordOptions *options) {
        time_t now = time(NULL);
        struct tm tm;
        char what[80], date[32], suffix[16] = "";
        char *path;

        describe(what, sizeof(what), options);
        if (!localtime_r(&now, &tm) || strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm) == 0)
                return -EINVAL;
        for (unsigned i = 2; i < TRIES; i++) {
                if (asprintf(&path, "ringside-%s-%s%s.ringside", what, date, suffix) < 0)
                        return -ENOMEM;
                if (!exists(path)) {
                        *ret = path;
                        return 0;
                }
                free(path);
                snprintf(suffix, sizeof(suffix), "-%u", i);
        }
        return -EEXIST;
}

static int check_directory(const char *path) {
        const char *slash = strrchr(path, '/');
        char directory[PATH_MAX] = ".";

        if (slash) {
                size_t n = MAX((size_t) (slash - path), (size_t) 1);

                if (n >= sizeof(directory))
                        return -ENAMETOOLONG;
                memcpy(directory, path, n);
                directory[n] = 0;
        }
        /* Not access(): that asks for the real user. */
        return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int record_path_choose(char **ret, const RecordOptions *options) {
        _cleanup_free_ char *path = NULL;
        int r;

        if (options->output) {
                path = strdup(options->output);
                r = path ? 0 : -ENOMEM;
                if (path && exists(path)) {
                        cli_error("choose another name with -o, or remove it first", "%s exists already", path);
                        return -EEXIST;
                }
        } else
                r = make_name(&path, options);
        if (r >= 0)
                r = check_directory(path);
        if (r < 0) {
                cli_error("name a file where you may write with -o FILE", "Cannot write the recording %s: %s",
                          path ? path : "", strerror(-r));
                return r;
        }
        *ret = TAKE_PTR(path);
        return 0;
}

int record_path_pin(const char *path) {
        int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int record_path_check(const char *path, int fd) {
        _cleanup_free_ char *proc = NULL, *now = NULL;
        char hint[PATH_MAX + 32] = "";
        struct stat ours, there;

        if (fstat(fd, &ours) < 0 || ours.st_nlink == 0) {
                cli_error("leave a recording where it is until it has ended",
                          "%s was removed while it was written, and is lost", path);
                return -ENOENT;
        }
        if (lstat(path, &there) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
                return 0;
        if (asprintf(&proc, "/proc/self/fd/%d", fd) < 0)
                proc = NULL;
        now = proc ? realpath(proc, NULL) : NULL;
        if (now)
                snprintf(hint, sizeof(hint), "it is %s now", now);
        cli_error(hint, "%s was moved away while it was written", path);
        return -ENOENT;
}

void record_path_remove(const char *path) {
        static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                char name[PATH_MAX];

                if (snprintf(name, sizeof(name), "%s%s", path, suffixes[i]) < (int) sizeof(name))
                        (void) unlink(name);
        }
}
