/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cache-dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define SUFFIX_NEW ".new"
/* Where files cannot be locked: what has not been written to for so long was left behind by a client that ended, s. */
#define ABANDONED 3600
#define TRIES 8
/* A file that is used is marked so, but not at every use, s. */
#define MARK_INTERVAL 86400
#define FILES_MAX 65536U

struct CacheDir {
        int dir_fd;
        const char *suffix;
        uint64_t size_max;
        uint64_t size; /* of all, as far as we know */
        bool is_measured;
};

/* The directory. */

/* Nobody but the user can have put anything there. */
static int check_own(int fd, mode_t type, struct stat *ret) {
        if (fstat(fd, ret) < 0)
                return -errno;
        if ((ret->st_mode & S_IFMT) != type || ret->st_uid != geteuid() || (ret->st_mode & (S_IWGRP | S_IWOTH)))
                return -EPERM;
        return 0;
}

/* Below fd, which is given up; made where it is not there. */
static int enter(int fd, const char *name) {
        _cleanup_close_ int dir_fd = -1, parent = fd;
        struct stat st;
        int r;

        if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        dir_fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir_fd < 0)
                return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
        r = check_own(dir_fd, S_IFDIR, &st);
        if (r < 0)
                return r;
        /* Names tell what was profiled. */
        if ((st.st_mode & 07777) != 0700 && fchmod(dir_fd, 0700) < 0)
                return -errno;
        return TAKE_FD(dir_fd);
}

/*
 * Where caches are: that may be a link, and is the user's word. Root with the environment of somebody else (sudo -E) would
 * make directories there that this one could not use: there it has to be ours.
 */
static int open_own(int parent, const char *path) {
        _cleanup_close_ int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        return st.st_uid == geteuid() ? TAKE_FD(fd) : -EPERM;
}

static int make_own(const char *parent, const char *name) {
        _cleanup_close_ int fd = open_own(AT_FDCWD, parent);

        if (fd < 0)
                return TAKE_FD(fd);
        if (mkdirat(fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        return open_own(fd, name);
}

static int open_cache_home(void) {
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        _cleanup_free_ char *parent = NULL, *name = NULL;
        int fd;

        if (!cache || cache[0] != '/')
                return home && home[0] == '/' ? make_own(home, ".cache") : -ENOENT;
        fd = open_own(AT_FDCWD, cache);
        if (fd != -ENOENT)
                return fd;
        parent = strdup(cache);
        name = strdup(cache);
        return parent && name ? make_own(dirname(parent), basename(name)) : -ENOMEM;
}

static int open_directory(const CacheDirOptions *options) {
        int fd;

        if (options->path) {
                fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                return fd < 0 ? -errno : enter(fd, options->path);
        }
        fd = open_cache_home();
        if (fd < 0)
                return fd;
        fd = enter(fd, "ringside");
        return fd < 0 ? fd : enter(fd, options->name);
}

int cache_dir_new(CacheDir **ret, const CacheDirOptions *options) {
        CacheDir *cache;
        int fd;

        fd = open_directory(options);
        if (fd < 0)
                return fd;
        cache = calloc(1, sizeof(*cache));
        if (!cache) {
                close_fd(fd);
                return -ENOMEM;
        }
        cache->dir_fd = fd;
        cache->suffix = options->suffix;
        cache->size_max = options->size_max;
        *ret = cache;
        return 0;
}

CacheDir *cache_dir_free(CacheDir *cache) {
        if (!cache)
                return NULL;
        close_fd(cache->dir_fd);
        free(cache);
        return NULL;
}

/* Files. */

typedef struct FileName {
        char text[CACHE_DIR_NAME_MAX];
} FileName;

static bool make_name(const CacheDir *cache, const char *name, FileName *ret) {
        return snprintf(ret->text, sizeof(ret->text), "%s%s", name, cache->suffix) < (int) sizeof(ret->text);
}

/* That it was used; whoever cleans up asks for that. */
static void mark_used(int fd, const struct stat *st) {
        if (time(NULL) - st->st_mtim.tv_sec > MARK_INTERVAL)
                (void) futimens(fd, NULL);
}

static int read_all(int fd, uint8_t *buffer, size_t size) {
        for (size_t done = 0; done < size;) {
                ssize_t n = RETRY_ON_EINTR(pread(fd, buffer + done, size - done, (off_t) done));

                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EBADMSG;
                done += (size_t) n;
        }
        return 0;
}

int cache_dir_load(CacheDir *cache, const char *name, size_t size_max, uint8_t **ret, size_t *ret_size) {
        _cleanup_free_ uint8_t *data = NULL;
        _cleanup_close_ int fd = -1;
        FileName file;
        struct stat st;
        int r;

        if (!make_name(cache, name, &file))
                return -ENOENT;
        fd = openat(cache->dir_fd, file.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = check_own(fd, S_IFREG, &st);
        if (r < 0)
                return r;
        if ((uint64_t) st.st_size > size_max)
                return -EBADMSG;
        data = malloc(MAX((size_t) st.st_size, 1));
        if (!data)
                return -ENOMEM;
        r = read_all(fd, data, (size_t) st.st_size);
        if (r < 0)
                return r;
        mark_used(fd, &st);
        *ret = TAKE_PTR(data);
        *ret_size = (size_t) st.st_size;
        return 0;
}

static int write_all(int fd, const void *data, size_t size) {
        for (size_t done = 0; done < size;) {
                ssize_t n = RETRY_ON_EINTR(write(fd, (const uint8_t *) data + done, size - done));

                if (n < 0)
                        return -errno;
                done += (size_t) n;
        }
        return 0;
}

/* What is being written is locked, so what is not was left behind: by a client that was killed. */
static bool is_abandoned(int fd, const struct stat *st) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                return true;
        return errno != EWOULDBLOCK && time(NULL) - st->st_mtim.tv_sec > ABANDONED;
}

/* A file that nobody else removes. -EAGAIN: somebody has, or is about to, since it had no lock yet. */
static int create_locked(const CacheDir *cache, char temporary[static 64]) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        uint64_t random;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return -EIO;
        snprintf(temporary, 64, "%016" PRIx64 SUFFIX_NEW, random);
        fd = openat(cache->dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return -EAGAIN;
        if (fstat(fd, &st) < 0)
                return -errno;
        return st.st_nlink > 0 ? TAKE_FD(fd) : -EAGAIN;
}

static int write_file(const CacheDir *cache, const char *name, const struct iovec *parts, size_t n) {
        _cleanup_close_ int fd = -EAGAIN;
        char temporary[64];
        int r = 0;

        for (unsigned i = 0; i < TRIES && fd == -EAGAIN; i++)
                fd = create_locked(cache, temporary);
        if (fd < 0)
                return fd;
        for (size_t i = 0; i < n && r >= 0; i++)
                r = write_all(fd, parts[i].iov_base, parts[i].iov_len);
        if (r >= 0 && renameat(cache->dir_fd, temporary, cache->dir_fd, name) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(cache->dir_fd, temporary, 0);
        return r;
}

/* What there is too much of. */

typedef struct Kept {
        FileName name;
        uint64_t size;
        struct timespec used;
} Kept;

typedef struct Listing {
        Kept *files;
        size_t n, allocated;
} Listing;

static void listing_done(Listing *listing) {
        free(listing->files);
}

static int compare_kept(const void *pa, const void *pb) {
        const Kept *a = pa, *b = pb;

        if (a->used.tv_sec != b->used.tv_sec)
                return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
        return a->used.tv_nsec < b->used.tv_nsec ? -1 : a->used.tv_nsec > b->used.tv_nsec;
}

static bool ends_with(const char *name, const char *suffix) {
        size_t len = strlen(name), n = strlen(suffix);

        return len > n && len < CACHE_DIR_NAME_MAX && strcmp(name + len - n, suffix) == 0;
}

static int add_kept(Listing *listing, const char *name, const struct stat *st) {
        if (listing->n == listing->allocated) {
                size_t want = MAX(2 * listing->allocated, 64);
                Kept *larger = reallocarray(listing->files, want, sizeof(*larger));

                if (!larger)
                        return -ENOMEM;
                listing->files = larger;
                listing->allocated = want;
        }
        listing->files[listing->n] = (Kept){ .size = (uint64_t) st->st_size, .used = st->st_mtim };
        strcpy(listing->files[listing->n++].name.text, name);
        return 0;
}

static void remove_abandoned(const CacheDir *cache, const char *name, const struct stat *st) {
        _cleanup_close_ int fd = openat(cache->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd >= 0 && is_abandoned(fd, st))
                (void) unlinkat(cache->dir_fd, name, 0);
}

/* Only what has our names is ours. */
static int list_files(const CacheDir *cache, Listing *listing) {
        struct dirent *entry;
        DIR *dir;
        int fd, r = 0;

        fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        dir = fdopendir(fd);
        if (!dir) {
                close_fd(fd);
                return -ENOMEM;
        }
        while (r >= 0 && listing->n < FILES_MAX && (entry = readdir(dir))) {
                struct stat st;

                if (fstatat(cache->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                        continue;
                if (ends_with(entry->d_name, cache->suffix))
                        r = add_kept(listing, entry->d_name, &st);
                else if (ends_with(entry->d_name, SUFFIX_NEW))
                        remove_abandoned(cache, entry->d_name, &st);
        }
        (void) closedir(dir);
        return r;
}

/* To three quarters, so that it is not done for each file more. Others may do the same at the same time. */
static void clean_up(CacheDir *cache) {
        _cleanup_(listing_done) Listing listing = {};

        if (cache->is_measured && cache->size <= cache->size_max)
                return;
        if (list_files(cache, &listing) < 0)
                return;
        cache->size = 0;
        cache->is_measured = true;
        for (size_t i = 0; i < listing.n; i++)
                cache->size += listing.files[i].size;
        if (cache->size <= cache->size_max)
                return;
        qsort(listing.files, listing.n, sizeof(*listing.files), compare_kept);
        for (size_t i = 0; i < listing.n && cache->size > cache->size_max / 4 * 3; i++) {
                (void) unlinkat(cache->dir_fd, listing.files[i].name.text, 0);
                cache->size -= listing.files[i].size;
        }
}

int cache_dir_store(CacheDir *cache, const char *name, const struct iovec *parts, size_t n) {
        uint64_t size = 0;
        FileName file;
        int r;

        if (!make_name(cache, name, &file))
                return -ENOENT;
        for (size_t i = 0; i < n; i++)
                size += parts[i].iov_len;
        if (size > cache->size_max / 4)
                return -EFBIG;
        r = write_file(cache, file.text, parts, n);
        if (r < 0)
                return r;
        cache->size += size;
        clean_up(cache);
        return 0;
}
