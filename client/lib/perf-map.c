/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "perf-map.h"

#include <string.h>
#include <sys/stat.h>

#include "symbol-table.h"

#define FILE_SIZE_MAX (UINT64_C(256) << 20)
#define CHUNK_SIZE (1U << 20)
#define LINE_MAX_ 4096U /* the longest line that is read */

/* A process may be forked often, and there are not so many descriptors. */
typedef struct MapFile {
        unsigned n_refs;
        int fd;
} MapFile;

struct PerfMap {
        unsigned n_refs;
        SymbolTable *symbols;
        uint32_t n_lines;
        MapFile *file; /* shared; NULL: none */
        uint64_t read; /* bytes that were parsed */
        uint64_t max;  /* bytes of the file that count, UINT64_MAX: all that there are */
        JitMemory *memory; /* NULL: nobody counts */
        size_t taken;      /* of it */
};

static MapFile *map_file_unref(MapFile *file) {
        if (file && --file->n_refs == 0) {
                close_fd(file->fd);
                free(file);
        }
        return NULL;
}

int perf_map_new(PerfMap **ret, JitMemory *memory) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        int r;

        map = calloc(1, sizeof(*map));
        if (!map)
                return -ENOMEM;
        map->n_refs = 1;
        map->max = UINT64_MAX;
        map->memory = memory;
        r = symbol_table_new(&map->symbols);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(map);
        return 0;
}

int perf_map_new_until_now(PerfMap **ret, const PerfMap *map) {
        _cleanup_(perf_map_freep) PerfMap *until = NULL;
        struct stat st;
        int r;

        if (fstat(map->file->fd, &st) < 0)
                return -errno;
        r = perf_map_new(&until, map->memory);
        if (r < 0)
                return r;
        until->file = map->file;
        until->file->n_refs++;
        until->max = (uint64_t) st.st_size;
        *ret = TAKE_PTR(until);
        return 0;
}

PerfMap *perf_map_ref(PerfMap *map) {
        map->n_refs++;
        return map;
}

PerfMap *perf_map_free(PerfMap *map) {
        if (!map || --map->n_refs > 0)
                return NULL;
        if (map->memory)
                map->memory->used -= map->taken;
        symbol_table_free(map->symbols);
        map_file_unref(map->file);
        free(map);
        return NULL;
}

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Some JITs write 0x. Returns what is behind the number and one space, NULL: that is not there. */
static const char *scan_hex(const char *p, const char *end, uint64_t *ret) {
        const char *start;
        uint64_t value = 0;

        if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
                p += 2;
        for (start = p; p < end && hex_value(*p) >= 0; p++)
                value = value << 4 | (unsigned) hex_value(*p);
        if (p == start || p - start > 16 || p == end || *p != ' ')
                return NULL;
        *ret = value;
        return p + 1;
}

static int parse_line(PerfMap *map, const char *line, size_t len) {
        const char *end = line + len, *name = line;
        uint64_t start, size;
        uint32_t base;
        char *space;
        int r;

        if (len > 0 && end[-1] == '\r')
                end--;
        name = scan_hex(name, end, &start);
        if (name)
                name = scan_hex(name, end, &size);
        if (!name || size == 0 || name == end || len > LINE_MAX_ || memchr(name, 0, (size_t) (end - name)))
                return 0;
        if (map->n_lines == SYMBOL_LAYER_MAX)
                return -EFBIG;
        r = symbol_table_add_strings(map->symbols, (size_t) (end - name), &space, &base);
        if (r < 0)
                return r;
        memcpy(space, name, (size_t) (end - name));
        return symbol_table_add(map->symbols, start, size, base, map->n_lines++, SYMBOL_GLOBAL);
}

int perf_map_parse(PerfMap *map, const char *text, size_t size, size_t *ret_used) {
        size_t used = 0;

        while (used < size) {
                const char *newline = memchr(text + used, '\n', size - used);
                size_t len;
                int r;

                if (!newline)
                        break;
                len = (size_t) (newline - text) - used;
                r = parse_line(map, text + used, len);
                if (r < 0)
                        return r;
                used += len + 1;
        }
        *ret_used = used;
        return 0;
}

int perf_map_seal(PerfMap *map) {
        return symbol_table_seal(map->symbols, /* ends_at_next= */ false);
}

const char *perf_map_find(const PerfMap *map, uint64_t address, uint64_t *ret_offset) {
        return symbol_table_find(map->symbols, address, ret_offset);
}

int perf_map_open(PerfMap *map, ProcessDir *dir) {
        _cleanup_close_ int fd = -1;
        ProcessIdentity identity;
        MapFile *file;
        struct stat st;
        char path[64];
        int r;

        r = process_dir_read_identity(dir, &identity);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int) identity.inner_pid);
        fd = reopen_regular(process_dir_find_file(dir, path, /* nofollow= */ true), &st);
        if (fd < 0)
                return fd;
        /* Anybody may put a file into /tmp, but not one that belongs to somebody else. */
        if (st.st_uid != identity.uid && st.st_uid != 0)
                return -EPERM;
        file = malloc(sizeof(*file));
        if (!file)
                return -ENOMEM;
        *file = (MapFile){ .n_refs = 1, .fd = TAKE_FD(fd) };
        map_file_unref(map->file);
        map->file = file;
        return 0;
}

bool perf_map_is_open(const PerfMap *map) {
        return map->file;
}

/* How much it grows is known only afterwards. It may be too much once, and then nothing more is had. */
static void count_memory(PerfMap *map) {
        size_t now = symbol_table_get_memory(map->symbols);

        if (!map->memory)
                return;
        map->memory->used = map->memory->used - map->taken + now;
        map->taken = now;
}

/* Parses one chunk from where the last one ended. Returns how many bytes it got on. */
static ssize_t read_chunk(PerfMap *map, char *buffer, uint64_t size) {
        size_t want = (size_t) MIN(size - map->read, CHUNK_SIZE), used;
        ssize_t n;
        int r;

        if (map->memory && map->memory->used >= map->memory->max)
                return -EFBIG;
        n = RETRY_ON_EINTR(pread(map->file->fd, buffer, want, (off_t) map->read));
        if (n <= 0)
                return n < 0 ? -errno : 0;
        r = perf_map_parse(map, buffer, (size_t) n, &used);
        count_memory(map);
        if (r < 0)
                return r;
        if (used == 0 && (size_t) n == CHUNK_SIZE)
                used = (size_t) n; /* a megabyte without a newline is no line */
        map->read += used;
        return (ssize_t) used;
}

int perf_map_update(PerfMap *map) {
        _cleanup_free_ char *buffer = NULL;
        uint64_t before = map->read, size;
        struct stat st;
        ssize_t n;
        int r;

        if (!map->file)
                return -EBADF;
        if (fstat(map->file->fd, &st) < 0)
                return -errno;
        if ((st.st_nlink == 0 && map->max == UINT64_MAX) || (uint64_t) st.st_size < map->read)
                return -ESTALE;
        size = MIN((uint64_t) st.st_size, map->max);
        if (size == map->read)
                return 0;
        if (size > FILE_SIZE_MAX)
                return -EFBIG;
        buffer = malloc(CHUNK_SIZE);
        if (!buffer)
                return -ENOMEM;
        do
                n = read_chunk(map, buffer, size);
        while (n > 0 && map->read < size);
        r = map->read > before ? perf_map_seal(map) : 0;
        if (n < 0 || r < 0)
                return n < 0 ? (int) n : r;
        return map->read > before;
}
