/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "lines-cache.h"

#include <elfutils/version.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "cache-dir.h"
#include "unwind-identity.h"

#define FILE_SIZE_MAX (64U << 20)
#define NAME_SIZE (UNWIND_IDENTITY_SIZE + 24)

/* In front of the addresses and of a stream as debug_lines_take() reads it. In the byte order of the machine. */
struct file_header {
        char magic[8];
        uint32_t version;
        uint32_t crc;    /* of all that follows in the header, and of the rest */
        uint32_t reader; /* elfutils' version: a later one may read more */
        uint32_t n_addresses;
        LinesFile file; /* as it was before it was read */
};
#define MAGIC "RSLINES"
#define CRC_FROM offsetof(struct file_header, reader)

struct LinesCache {
        CacheDir *dir;
};

int lines_cache_new(LinesCache **ret, const char *path, uint64_t size_max) {
        LinesCache *cache;
        int r;

        cache = calloc(1, sizeof(*cache));
        if (!cache)
                return -ENOMEM;
        r = cache_dir_new(&cache->dir, &(CacheDirOptions){
                                               .path = path,
                                               .name = "lines",
                                               .suffix = ".lines",
                                               .size_max = size_max,
                                       });
        if (r < 0) {
                lines_cache_free(cache);
                return r;
        }
        *ret = cache;
        return 0;
}

LinesCache *lines_cache_free(LinesCache *cache) {
        if (!cache)
                return NULL;
        cache_dir_free(cache->dir);
        free(cache);
        return NULL;
}

void known_lines_done(KnownLines *known) {
        free(known->addresses);
        debug_lines_done(&known->lines);
        *known = (KnownLines){};
}

static int known_lines_init(KnownLines *known, size_t n) {
        *known = (KnownLines){ .addresses = calloc(MAX(n, (size_t) 1), sizeof(uint64_t)) };
        return known->addresses ? debug_lines_init(&known->lines, n) : -ENOMEM;
}

/* ---- files ---- */

static uint32_t checksum(const struct file_header *header, const uint8_t *addresses, size_t size, const uint8_t *stream,
                         size_t stream_size) {
        unsigned long crc = crc32(0, (const uint8_t *) header + CRC_FROM, sizeof(*header) - CRC_FROM);

        crc = crc32_z(crc, addresses, size);
        return (uint32_t) crc32_z(crc, stream, stream_size);
}

static bool is_ascending(const uint64_t *addresses, size_t n) {
        for (size_t i = 1; i < n; i++)
                if (addresses[i - 1] >= addresses[i])
                        return false;
        return true;
}

int lines_cache_parse(const uint8_t *data, size_t size, const LinesFile *file, KnownLines *ret) {
        _cleanup_(known_lines_done) KnownLines known = {};
        size_t addresses_size, stream_size, used;
        struct file_header header;
        int r;

        if (size < sizeof(header))
                return -EBADMSG;
        memcpy(&header, data, sizeof(header));
        if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0)
                return -EBADMSG;
        if (header.version != LINES_CACHE_VERSION || header.reader != _ELFUTILS_VERSION)
                return -ESTALE;
        if (file && memcmp(file, &header.file, sizeof(*file)) != 0)
                return -ESTALE;
        addresses_size = header.n_addresses * sizeof(uint64_t);
        if (size - sizeof(header) < addresses_size)
                return -EBADMSG;
        data += sizeof(header);
        stream_size = size - sizeof(header) - addresses_size;
        if (header.crc != checksum(&header, data, addresses_size, data + addresses_size, stream_size))
                return -EBADMSG;
        r = known_lines_init(&known, header.n_addresses);
        if (r < 0)
                return r;
        memcpy(known.addresses, data, addresses_size);
        if (!is_ascending(known.addresses, header.n_addresses))
                return -EBADMSG;
        r = debug_lines_take(&known.lines, data + addresses_size, stream_size, &used);
        if (r < 0)
                return r;
        if (used != stream_size || !known.lines.ended)
                return -EBADMSG;
        *ret = known;
        known = (KnownLines){};
        return 0;
}

static uint64_t to_ns(const struct timespec *t) {
        return (uint64_t) t->tv_sec * 1000000000 + (uint64_t) t->tv_nsec;
}

static int get_file(const ElfFile *debug, LinesFile *ret) {
        struct stat st;
        int r;

        r = elf_file_stat(debug, &st);
        if (r < 0)
                return r;
        *ret = (LinesFile){
                .device = st.st_dev,
                .inode = st.st_ino,
                .size = (uint64_t) st.st_size,
                .mtime = to_ns(&st.st_mtim),
                .ctime = to_ns(&st.st_ctim),
        };
        return 0;
}

/* false: nothing tells this file from others. */
static bool make_name(const ElfFile *debug, const LinesFile *file, char name[static NAME_SIZE]) {
        if (!unwind_identity_get_file(debug, name))
                return false;
        /* A stripped file has the build id of the one that was not. */
        sprintf(name + strlen(name), "-%jx", (uintmax_t) file->size);
        return true;
}

static int load(LinesCache *cache, const char *name, const LinesFile *file, KnownLines *ret) {
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;
        int r;

        r = cache_dir_load(cache->dir, name, FILE_SIZE_MAX, &data, &size);
        return r < 0 ? r : lines_cache_parse(data, size, file, ret);
}

static int store(LinesCache *cache, const char *name, const LinesFile *file, KnownLines *known) {
        struct file_header header = {
                .magic = MAGIC,
                .version = LINES_CACHE_VERSION,
                .reader = _ELFUTILS_VERSION,
                .n_addresses = (uint32_t) known->lines.n_at,
                .file = *file,
        };
        size_t addresses_size = known->lines.n_at * sizeof(uint64_t), size = 0;
        _cleanup_free_ char *stream = NULL;
        FILE *out = open_memstream(&stream, &size);
        int r;

        if (!out)
                return -ENOMEM;
        r = debug_lines_send(&known->lines, out);
        if (r >= 0)
                r = debug_lines_send_end(0, out);
        if (fclose(out) != 0 && r >= 0)
                r = -ENOMEM;
        if (r < 0)
                return r;
        if (sizeof(header) + addresses_size + size > FILE_SIZE_MAX)
                return -EFBIG;
        header.crc = checksum(&header, (uint8_t *) known->addresses, addresses_size, (uint8_t *) stream, size);
        return cache_dir_store(cache->dir, name,
                               (struct iovec[]){
                                       { &header, sizeof(header) },
                                       { known->addresses, addresses_size },
                                       { stream, size },
                               },
                               3);
}

/* ---- what is known and what is not ---- */

typedef struct Query {
        const uint64_t *addresses;
        DebugLines *lines;
        KnownLines known; /* empty where the cache has nothing */
        KnownLines made;  /* of the addresses that are not there */
        size_t *made_at;  /* numbers of these in addresses */
        int result;       /* of their making */
} Query;

static void query_done(Query *query) {
        known_lines_done(&query->known);
        known_lines_done(&query->made);
        free(query->made_at);
}

/* Takes from the cache what it has, and lists the rest. */
static int take_known(Query *query) {
        const KnownLines *known = &query->known;
        _cleanup_(debug_lines_copy_done) DebugLinesCopy copy = { query->lines, &known->lines };
        size_t n = query->lines->n_at, k = 0, n_made = 0;

        if (known_lines_init(&query->made, n) < 0)
                return -ENOMEM;
        query->made_at = calloc(MAX(n, (size_t) 1), sizeof(size_t));
        if (!query->made_at)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                while (k < known->lines.n_at && known->addresses[k] < query->addresses[i])
                        k++;
                if (k < known->lines.n_at && known->addresses[k] == query->addresses[i]) {
                        int r = debug_lines_copy(&copy, i, k);

                        if (r < 0)
                                return r;
                } else {
                        query->made_at[n_made] = i;
                        query->made.addresses[n_made++] = query->addresses[i];
                }
        }
        query->made.lines.n_at = n_made;
        return 0;
}

static int take_made(Query *query) {
        const DebugLines *made = &query->made.lines;
        _cleanup_(debug_lines_copy_done) DebugLinesCopy copy = { query->lines, made };
        int r = 0;

        query->lines->lacks_files |= made->lacks_files;
        for (size_t i = 0; i < made->n_at && r >= 0; i++)
                r = debug_lines_copy(&copy, query->made_at[i], i);
        return r;
}

/* Of what was made: all, unless it ended early, when there may be more to be known of an address. */
static bool is_certain(const Query *query, size_t i) {
        return query->result >= 0 || query->made.lines.at[i] > 0;
}

/* What was known, if it is not too much, and what was made. */
static int merge(const Query *query, KnownLines *ret) {
        const KnownLines *known = &query->known, *made = &query->made;
        _cleanup_(debug_lines_copy_done) DebugLinesCopy from_known = { &ret->lines, &known->lines };
        _cleanup_(debug_lines_copy_done) DebugLinesCopy from_made = { &ret->lines, &made->lines };
        size_t n_known = known->lines.n_at, n_made = made->lines.n_at, k = 0, m = 0, n = 0;
        int r;

        if (n_known + n_made > LINES_CACHE_ADDRESSES_MAX)
                n_known = 0;
        r = known_lines_init(ret, n_known + n_made);
        while ((k < n_known || m < n_made) && r >= 0) {
                if (m == n_made || (k < n_known && known->addresses[k] < made->addresses[m])) {
                        ret->addresses[n] = known->addresses[k];
                        r = debug_lines_copy(&from_known, n++, k++);
                } else if (is_certain(query, m)) {
                        ret->addresses[n] = made->addresses[m];
                        r = debug_lines_copy(&from_made, n++, m++);
                } else
                        m++;
        }
        ret->lines.n_at = n;
        return r;
}

/* What cannot be kept is as good as any. file: as it was before it was read; if it was written to since, it is another. */
static void keep(LinesCache *cache, const char *name, const LinesFile *file, const Query *query) {
        _cleanup_(known_lines_done) KnownLines all = {};

        if (query->made.lines.lacks_files || query->made.lines.n_at > LINES_CACHE_ADDRESSES_MAX)
                return;
        if (merge(query, &all) >= 0)
                (void) store(cache, name, file, &all);
}

int lines_cache_get(LinesCache *cache, const ElfFile *debug, const uint64_t *addresses, DebugLines *lines,
                    LinesMakeFunc make, void *userdata) {
        _cleanup_(query_done) Query query = { .addresses = addresses, .lines = lines };
        char name[NAME_SIZE];
        LinesFile file;
        bool has_name;
        int r;

        has_name = cache && get_file(debug, &file) >= 0 && make_name(debug, &file, name);
        if (has_name && load(cache, name, &file, &query.known) == -ENOMEM)
                return -ENOMEM;
        r = take_known(&query);
        if (r < 0 || query.made.lines.n_at == 0)
                return r;
        query.result = make(query.made.addresses, &query.made.lines, userdata);
        r = take_made(&query);
        if (r < 0)
                return r;
        if (has_name)
                keep(cache, name, &file, &query);
        return query.result;
}
