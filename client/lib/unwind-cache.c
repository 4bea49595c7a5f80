/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <zlib.h>

#include "unwind-identity.h"

#define SUFFIX ".table"
#define NAME_SIZE (UNWIND_IDENTITY_SIZE + sizeof(SUFFIX))
#define SUFFIX_NEW ".new"
/* What a client left behind that ended while it wrote, s. */
#define ABANDONED 3600
/* A file that is used is marked so, but not at every use, s. */
#define MARK_INTERVAL 86400
#define FILES_MAX 65536U

/* In front of pages, rows and rules, which follow without gaps. In the byte order of the machine. */
struct file_header {
        char magic[8];
        uint32_t version;
        uint32_t crc; /* of all that follows in the header, and of the rest */
        uint32_t machine;
        uint32_t n_pages, n_rows, n_rules;
        uint64_t base;
        uint64_t end; /* of the file's code */
};
#define MAGIC "RSUNWIND"
#define CRC_FROM offsetof(struct file_header, machine)

struct UnwindCache {
        int dir_fd;
        uint64_t size_max;
        uint64_t size; /* of all, as far as we know */
        bool is_measured;
        size_t n_hits, n_stores;
};

/* Formats. */

static size_t file_size(const struct file_header *header) {
        return sizeof(*header) + header->n_pages * sizeof(uint64_t) + header->n_rows * sizeof(uint32_t) +
               header->n_rules * sizeof(struct rs_table_rule);
}

/* What unwind_table_new() promises. */
static bool is_sound(const UnwindTable *table) {
        size_t next = 1;

        if ((table->rows[0] & RS_TABLE_ROW_RULE) != 0 || table->rules[0].cfa != RS_CFA_NONE)
                return false;
        for (size_t i = 0; i < table->n_rows; i++)
                if ((table->rows[i] & RS_TABLE_ROW_RULE) >= table->n_rules)
                        return false;
        for (size_t i = 0; i < table->n_pages; i++) {
                size_t first = table->pages[i] >> 32, n = (uint32_t) table->pages[i];

                if (first < next || n > RS_TABLE_PAGE || first > table->n_rows || n > table->n_rows - first)
                        return false;
                if (n > 0 && first * sizeof(uint32_t) / RS_TABLE_CHUNK !=
                                     (first + n - 1) * sizeof(uint32_t) / RS_TABLE_CHUNK)
                        return false;
                next = first + n;
        }
        return true;
}

static bool fits_file(const struct file_header *header, const ElfFile *elf) {
        uint64_t start, end;

        if (header->machine != elf_file_get_machine(elf) || !elf_file_is_64(elf) ||
            !elf_file_get_code(elf, &start, &end) || header->base != (start & ~(uint64_t) (RS_TABLE_PAGE - 1)) ||
            header->end != end)
                return false;
        return header->n_pages > 0 && header->n_pages <= UNWIND_PAGES_MAX &&
               header->n_pages <= (end - header->base + RS_TABLE_PAGE - 1) / RS_TABLE_PAGE && header->n_rows > 0 &&
               header->n_rows <= UNWIND_ROWS_MAX && header->n_rules > 0 && header->n_rules <= UNWIND_RULES_MAX;
}

static uint32_t checksum(const struct file_header *header, const void *rest, size_t size) {
        unsigned long crc = crc32(0, (const uint8_t *) header + CRC_FROM, sizeof(*header) - CRC_FROM);

        return (uint32_t) crc32_z(crc, rest, size);
}

static int copy(void *ret, const uint8_t **from, size_t size) {
        void **p = ret;

        *p = malloc(size);
        if (!*p)
                return -ENOMEM;
        memcpy(*p, *from, size);
        *from += size;
        return 0;
}

int unwind_cache_parse(const ElfFile *elf, const void *data, size_t size, UnwindTable **ret) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        const uint8_t *rest = (const uint8_t *) data + sizeof(struct file_header);
        struct file_header header;
        int r;

        if (size < sizeof(header))
                return -EBADMSG;
        memcpy(&header, data, sizeof(header));
        if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0)
                return -EBADMSG;
        if (header.version != UNWIND_CACHE_VERSION)
                return -ESTALE;
        if (!fits_file(&header, elf) || size != file_size(&header) ||
            header.crc != checksum(&header, rest, size - sizeof(header)))
                return -EBADMSG;
        table = calloc(1, sizeof(*table));
        if (!table)
                return -ENOMEM;
        table->base = header.base;
        table->n_pages = header.n_pages;
        table->n_rows = header.n_rows;
        table->n_rules = header.n_rules;
        r = copy(&table->pages, &rest, table->n_pages * sizeof(*table->pages));
        if (r >= 0)
                r = copy(&table->rows, &rest, table->n_rows * sizeof(*table->rows));
        if (r >= 0)
                r = copy(&table->rules, &rest, table->n_rules * sizeof(*table->rules));
        if (r < 0)
                return r;
        if (!is_sound(table))
                return -EBADMSG;
        *ret = TAKE_PTR(table);
        return 0;
}

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

static int open_directory(const char *path) {
        int fd;

        if (path) {
                fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                return fd < 0 ? -errno : enter(fd, path);
        }
        fd = open_cache_home();
        if (fd < 0)
                return fd;
        fd = enter(fd, "ringside");
        return fd < 0 ? fd : enter(fd, "unwind");
}

int unwind_cache_new(UnwindCache **ret, const char *path, uint64_t size_max) {
        UnwindCache *cache;
        int fd;

        fd = open_directory(path);
        if (fd < 0)
                return fd;
        cache = calloc(1, sizeof(*cache));
        if (!cache) {
                close_fd(fd);
                return -ENOMEM;
        }
        cache->dir_fd = fd;
        cache->size_max = size_max;
        *ret = cache;
        return 0;
}

UnwindCache *unwind_cache_free(UnwindCache *cache) {
        if (!cache)
                return NULL;
        close_fd(cache->dir_fd);
        free(cache);
        return NULL;
}

size_t unwind_cache_get_n_hits(const UnwindCache *cache) {
        return cache->n_hits;
}

size_t unwind_cache_get_n_stores(const UnwindCache *cache) {
        return cache->n_stores;
}

/* Files. */

/* false: nothing tells this file from others. */
static bool make_name(const ElfFile *elf, char name[static NAME_SIZE]) {
        if (!unwind_identity_get(elf, name))
                return false;
        strcat(name, SUFFIX);
        return true;
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

static int load(UnwindCache *cache, const ElfFile *elf, const char *name, UnwindTable **ret) {
        const struct file_header largest = { .n_pages = UNWIND_PAGES_MAX, .n_rows = UNWIND_ROWS_MAX,
                                             .n_rules = UNWIND_RULES_MAX };
        _cleanup_close_ int fd = -1;
        _cleanup_free_ uint8_t *data = NULL;
        struct stat st;
        int r;

        fd = openat(cache->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = check_own(fd, S_IFREG, &st);
        if (r < 0)
                return r;
        if ((uint64_t) st.st_size > file_size(&largest))
                return -EBADMSG;
        data = malloc(MAX((size_t) st.st_size, 1));
        if (!data)
                return -ENOMEM;
        r = read_all(fd, data, (size_t) st.st_size);
        if (r >= 0)
                r = unwind_cache_parse(elf, data, (size_t) st.st_size, ret);
        if (r >= 0)
                mark_used(fd, &st);
        return r;
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

/* A file as it is written: header, pages, rows and rules from where they are, since they are megabytes. */
typedef struct Parts {
        struct file_header header;
        struct iovec parts[4];
        size_t size;
} Parts;

static bool parts_init(Parts *parts, const UnwindTable *table, const ElfFile *elf) {
        struct file_header *header = &parts->header;
        unsigned long crc;
        uint64_t start;

        *parts = (Parts){
                .header = {
                        .magic = MAGIC,
                        .version = UNWIND_CACHE_VERSION,
                        .machine = elf_file_get_machine(elf),
                        .n_pages = (uint32_t) table->n_pages,
                        .n_rows = (uint32_t) table->n_rows,
                        .n_rules = (uint32_t) table->n_rules,
                        .base = table->base,
                },
                .parts = {
                        { header, sizeof(*header) },
                        { table->pages, table->n_pages * sizeof(*table->pages) },
                        { table->rows, table->n_rows * sizeof(*table->rows) },
                        { table->rules, table->n_rules * sizeof(*table->rules) },
                },
        };
        if (!elf_file_get_code(elf, &start, &header->end))
                return false;
        parts->size = file_size(header);
        crc = crc32(0, (const uint8_t *) header + CRC_FROM, sizeof(*header) - CRC_FROM);
        for (size_t i = 1; i < ELEMENTSOF(parts->parts); i++)
                crc = crc32_z(crc, parts->parts[i].iov_base, parts->parts[i].iov_len);
        header->crc = (uint32_t) crc;
        return true;
}

/* Not written through to the disk: what a crash leaves is not a table by its checksum. */
static int store(UnwindCache *cache, const char *name, const Parts *parts) {
        _cleanup_close_ int fd = -1;
        char temporary[64];
        uint64_t random;
        int r = 0;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return -EIO;
        snprintf(temporary, sizeof(temporary), "%016" PRIx64 SUFFIX_NEW, random);
        fd = openat(cache->dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(parts->parts) && r >= 0; i++)
                r = write_all(fd, parts->parts[i].iov_base, parts->parts[i].iov_len);
        if (r >= 0 && renameat(cache->dir_fd, temporary, cache->dir_fd, name) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(cache->dir_fd, temporary, 0);
        return r;
}

/* What there is too much of. */

typedef struct Kept {
        char name[NAME_SIZE];
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

        return len > n && len < NAME_SIZE && strcmp(name + len - n, suffix) == 0;
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
        strcpy(listing->files[listing->n++].name, name);
        return 0;
}

/* Only what has our names is ours. */
static int list_files(const UnwindCache *cache, Listing *listing) {
        const time_t now = time(NULL);
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
                if (ends_with(entry->d_name, SUFFIX))
                        r = add_kept(listing, entry->d_name, &st);
                else if (ends_with(entry->d_name, SUFFIX_NEW) && now - st.st_mtim.tv_sec > ABANDONED)
                        (void) unlinkat(cache->dir_fd, entry->d_name, 0);
        }
        (void) closedir(dir);
        return r;
}

/* To three quarters, so that it is not done for each file more. Others may do the same at the same time. */
static void clean_up(UnwindCache *cache) {
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
                (void) unlinkat(cache->dir_fd, listing.files[i].name, 0);
                cache->size -= listing.files[i].size;
        }
}

/* A table that cannot be kept is as good as any. */
static void keep(UnwindCache *cache, const ElfFile *elf, const char *name, const UnwindTable *table) {
        Parts parts;

        if (!parts_init(&parts, table, elf) || parts.size > cache->size_max / 4 || store(cache, name, &parts) < 0)
                return;
        cache->n_stores++;
        cache->size += parts.size;
        clean_up(cache);
}

int unwind_cache_get(UnwindCache *cache, ElfFile *elf, UnwindTable **ret) {
        char name[NAME_SIZE];
        bool has_name;
        int r;

        has_name = cache && make_name(elf, name);
        if (has_name) {
                r = load(cache, elf, name, ret);
                if (r >= 0)
                        cache->n_hits++;
                if (r >= 0 || r == -ENOMEM)
                        return r;
        }
        r = unwind_table_new(ret, elf);
        if (r >= 0 && has_name && (*ret)->n_rows + (*ret)->n_pages >= UNWIND_CACHE_WORTH)
                keep(cache, elf, name, *ret);
        return r;
}
