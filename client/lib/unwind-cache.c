/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-cache.h"

#include <string.h>
#include <zlib.h>

#include "cache-dir.h"
#include "unwind-identity.h"

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
/* Of tables that wait to be written, bytes. */
#define WAITING_MAX (UINT64_C(64) << 20)

/* On its way into the cache. */
typedef struct Kept Kept;
struct Kept {
        Kept *next;
        struct file_header header; /* without checksum */
        UnwindTable *table;
};

struct UnwindCache {
        CacheDir *dir;
        Kept *first, *last; /* to be written */
        uint64_t waiting;   /* bytes of their tables */
        size_t n_hits, n_stores;
};

/* Formats. */

static size_t file_size(const struct file_header *header) {
        return sizeof(*header) + header->n_pages * sizeof(uint64_t) + header->n_rows * sizeof(uint32_t) +
               header->n_rules * sizeof(struct rs_table_rule);
}

static uint64_t table_size(const UnwindTable *table) {
        return table->n_pages * sizeof(*table->pages) + table->n_rows * sizeof(*table->rows) +
               table->n_rules * sizeof(*table->rules);
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

/* Takes data over where it succeeds: the table is in it, since to copy it would take as long as all else. */
static int parse(const ElfFile *elf, uint8_t *data, size_t size, UnwindTable **ret) {
        _cleanup_free_ UnwindTable *table = NULL;
        struct file_header header;

        if (size < sizeof(header))
                return -EBADMSG;
        memcpy(&header, data, sizeof(header));
        if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0)
                return -EBADMSG;
        if (header.version != UNWIND_CACHE_VERSION)
                return -ESTALE;
        if (!fits_file(&header, elf) || size != file_size(&header) ||
            header.crc != checksum(&header, data + sizeof(header), size - sizeof(header)))
                return -EBADMSG;
        table = calloc(1, sizeof(*table));
        if (!table)
                return -ENOMEM;
        table->base = header.base;
        table->n_pages = header.n_pages;
        table->n_rows = header.n_rows;
        table->n_rules = header.n_rules;
        table->pages = (uint64_t *) (data + sizeof(header));
        table->rows = (uint32_t *) (table->pages + table->n_pages);
        table->rules = (struct rs_table_rule *) (table->rows + table->n_rows);
        if (!is_sound(table))
                return -EBADMSG;
        table->memory = data;
        *ret = TAKE_PTR(table);
        return 0;
}
_Static_assert(sizeof(struct file_header) % sizeof(uint64_t) == 0 && _Alignof(struct rs_table_rule) <= sizeof(uint32_t),
               "what follows is where it may be read from");

int unwind_cache_parse(const ElfFile *elf, const void *data, size_t size, UnwindTable **ret) {
        _cleanup_free_ uint8_t *own = malloc(MAX(size, (size_t) 1));
        int r;

        if (!own)
                return -ENOMEM;
        if (size > 0)
                memcpy(own, data, size);
        r = parse(elf, own, size, ret);
        if (r >= 0)
                TAKE_PTR(own);
        return r;
}

/* The cache. */

int unwind_cache_new(UnwindCache **ret, const char *path, uint64_t size_max) {
        _cleanup_(cache_dir_freep) CacheDir *dir = NULL;
        UnwindCache *cache;
        int r;

        r = cache_dir_new(&dir, &(CacheDirOptions){
                                        .path = path,
                                        .name = "unwind",
                                        .suffix = ".table",
                                        .size_max = size_max,
                                });
        if (r < 0)
                return r;
        cache = calloc(1, sizeof(*cache));
        if (!cache)
                return -ENOMEM;
        cache->dir = TAKE_PTR(dir);
        *ret = cache;
        return 0;
}

UnwindCache *unwind_cache_free(UnwindCache *cache) {
        if (!cache)
                return NULL;
        while (unwind_cache_write(cache))
                continue;
        cache_dir_free(cache->dir);
        free(cache);
        return NULL;
}

size_t unwind_cache_get_n_hits(const UnwindCache *cache) {
        return cache->n_hits;
}

size_t unwind_cache_get_n_stores(const UnwindCache *cache) {
        return cache->n_stores;
}

static int load(UnwindCache *cache, const ElfFile *elf, const char *name, UnwindTable **ret) {
        const struct file_header largest = { .n_pages = UNWIND_PAGES_MAX, .n_rows = UNWIND_ROWS_MAX,
                                             .n_rules = UNWIND_RULES_MAX };
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;
        int r;

        r = cache_dir_load(cache->dir, name, file_size(&largest), &data, &size);
        if (r >= 0)
                r = parse(elf, data, size, ret);
        if (r >= 0)
                TAKE_PTR(data);
        return r;
}

static Kept *kept_free(Kept *kept) {
        if (!kept)
                return NULL;
        unwind_table_free(kept->table);
        free(kept);
        return NULL;
}

/* Takes the table over where it succeeds. */
static int kept_new(Kept **ret, const ElfFile *elf, UnwindTable *table) {
        Kept *kept = calloc(1, sizeof(*kept));
        uint64_t start;

        if (!kept)
                return -ENOMEM;
        kept->header = (struct file_header){
                .magic = MAGIC,
                .version = UNWIND_CACHE_VERSION,
                .machine = elf_file_get_machine(elf),
                .n_pages = (uint32_t) table->n_pages,
                .n_rows = (uint32_t) table->n_rows,
                .n_rules = (uint32_t) table->n_rules,
                .base = table->base,
        };
        if (!elf_file_get_code(elf, &start, &kept->header.end)) {
                free(kept);
                return -ENOENT;
        }
        kept->table = table;
        *ret = kept;
        return 0;
}

/*
 * A file as it is written: header, pages, rows and rules from where they are, since they are megabytes. A table that cannot
 * be kept is as good as any.
 */
static void keep(UnwindCache *cache, const Kept *kept) {
        const UnwindTable *table = kept->table;
        struct file_header header = kept->header;
        const struct iovec parts[] = {
                { &header, sizeof(header) },
                { table->pages, table->n_pages * sizeof(*table->pages) },
                { table->rows, table->n_rows * sizeof(*table->rows) },
                { table->rules, table->n_rules * sizeof(*table->rules) },
        };
        unsigned long crc;

        crc = crc32(0, (const uint8_t *) &header + CRC_FROM, sizeof(header) - CRC_FROM);
        for (size_t i = 1; i < ELEMENTSOF(parts); i++)
                crc = crc32_z(crc, parts[i].iov_base, parts[i].iov_len);
        header.crc = (uint32_t) crc;
        if (cache_dir_store(cache->dir, table->name, parts, ELEMENTSOF(parts)) >= 0)
                cache->n_stores++;
}

int unwind_cache_get(UnwindCache *cache, ElfFile *elf, UnwindTable **ret) {
        char name[UNWIND_IDENTITY_SIZE] = ""; /* nothing tells it from others */
        int r;

        if (cache && unwind_identity_get(elf, name)) {
                r = load(cache, elf, name, ret);
                if (r >= 0)
                        cache->n_hits++;
                if (r >= 0 || r == -ENOMEM)
                        return r;
        }
        r = unwind_table_new(ret, elf);
        /* This name and no later one: a file that is written meanwhile has another by then, of which the table is not. */
        if (r >= 0)
                strcpy((*ret)->name, name);
        return r;
}

static bool is_worth_it(const UnwindCache *cache, const UnwindTable *table) {
        return cache && table && table->name[0] && table->n_rows + table->n_pages >= UNWIND_CACHE_WORTH;
}

void unwind_cache_put(UnwindCache *cache, const ElfFile *elf, UnwindTable *table) {
        Kept *kept;

        if (!is_worth_it(cache, table) || kept_new(&kept, elf, table) < 0)
                return;
        keep(cache, kept);
        kept->table = NULL;
        kept_free(kept);
}

void unwind_cache_take(UnwindCache *cache, const ElfFile *elf, UnwindTable *table) {
        Kept *kept;

        if (!is_worth_it(cache, table) || kept_new(&kept, elf, table) < 0) {
                unwind_table_free(table);
                return;
        }
        *(cache->last ? &cache->last->next : &cache->first) = kept;
        cache->last = kept;
        cache->waiting += table_size(table);
        while (cache->waiting > WAITING_MAX)
                unwind_cache_write(cache);
}

bool unwind_cache_is_waiting(const UnwindCache *cache) {
        return cache && cache->first;
}

bool unwind_cache_write(UnwindCache *cache) {
        Kept *kept = cache ? cache->first : NULL;

        if (!kept)
                return false;
        cache->first = kept->next;
        if (!cache->first)
                cache->last = NULL;
        cache->waiting -= table_size(kept->table);
        keep(cache, kept);
        kept_free(kept);
        return true;
}
