/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-images.h"

#include <string.h>

#include "symbol-file.h"
#include "table.h"
#include "unwind-code.h"
#include "unwind-identity.h"

/* A table that had no room is not made again before, ns; doubles. */
#define RETRY_MIN UINT64_C(1000000000)
#define RETRY_MAX (64 * RETRY_MIN)

typedef struct UnwindImage Image;

enum ImageState {
        IMAGE_NEW,
        IMAGE_READY,
        IMAGE_WAITING, /* is made, and has no room yet */
        IMAGE_LEFT,    /* was evicted, or there was no room */
        IMAGE_NONE,    /* there will be no table */
};

struct UnwindImage {
        Image *next, **previous; /* of all */
        enum ImageState state;
        size_t refs; /* by entries of lists */
        size_t files; /* it is of, as far as they are known */
        TableKey key; /* by identity; all 0: it has none */
        Image *older, *newer; /* among those without any; the one that was given up first is the oldest */
        UnwindExtent extent;
        UnwindTable *table; /* while it waits */
        uint64_t bytes; /* of the extent, once the table was made */
        uint64_t base;
        uint32_t n_pages;
        uint64_t n_rows;
        uint64_t retry; /* ns CLOCK_MONOTONIC, */
        uint64_t retry_interval;
};

struct UnwindImages {
        UnwindMemory *memory;
        UnwindCache *cache;
        const bool *stop;
        Image *all;
        Image *oldest, *newest; /* ready, and in no list */
        Table by_identity;
        uint32_t unknown; /* number of the rule that takes the place of those that there is no number for */
        size_t n_waiting;
        uint64_t generation;
        UnwindImagesStatistics statistics;
};

struct UnwindList {
        size_t refs;
        UnwindExtent extent;
        bool waiting;
        uint32_t n;
        Image **images; /* NULL: no file, or none that could be read */
        struct rs_table_mapping mappings[];
};

int unwind_images_new(UnwindImages **ret, UnwindMemory *memory, UnwindCache *cache, const bool *stop) {
        static const struct rs_table_rule unknown = { .cfa = RS_CFA_UNKNOWN };
        _cleanup_(unwind_images_freep) UnwindImages *images = calloc(1, sizeof(*images));
        int r;

        if (!images)
                return -ENOMEM;
        images->memory = memory;
        images->cache = cache;
        images->stop = stop;
        r = unwind_memory_add_rule(memory, &unknown, &images->unknown);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(images);
        return 0;
}

UnwindImages *unwind_images_free(UnwindImages *images) {
        if (!images)
                return NULL;
        for (Image *image = images->all, *next; image; image = next) {
                next = image->next;
                unwind_table_free(image->table);
                free(image);
        }
        table_done(&images->by_identity);
        free(images);
        return NULL;
}

/* ---- who is used ---- */

static void set_idle(UnwindImages *images, Image *image) {
        image->older = images->newest;
        image->newer = NULL;
        *(images->newest ? &images->newest->newer : &images->oldest) = image;
        images->newest = image;
        unwind_memory_set_idle(images->memory, &image->extent, true);
}

static void set_busy(UnwindImages *images, Image *image) {
        *(image->older ? &image->older->newer : &images->oldest) = image->newer;
        *(image->newer ? &image->newer->older : &images->newest) = image->older;
        image->older = image->newer = NULL;
        unwind_memory_set_idle(images->memory, &image->extent, false);
}

static void image_ref(UnwindImages *images, Image *image) {
        if (image->refs++ == 0 && image->state == IMAGE_READY)
                set_busy(images, image);
}

/* What is ready, or will be, may be of a file that is still to come. */
static void free_if_unused(UnwindImages *images, Image *image) {
        if (image->files > 0 || image->refs > 0 || image->state == IMAGE_READY || image->state == IMAGE_WAITING)
                return;
        *image->previous = image->next;
        if (image->next)
                image->next->previous = image->previous;
        if ((Image *) (uintptr_t) table_get(&images->by_identity, image->key) == image)
                (void) table_remove(&images->by_identity, image->key);
        free(image);
}

static void image_unref(UnwindImages *images, Image *image) {
        if (--image->refs == 0 && image->state == IMAGE_READY)
                set_idle(images, image);
        free_if_unused(images, image);
}

static void evict(UnwindImages *images, Image *image, uint64_t now) {
        set_busy(images, image);
        unwind_memory_give_back(images->memory, &image->extent, now);
        image->state = IMAGE_LEFT;
        image->retry = 0;
        images->statistics.images--;
        images->statistics.rows -= image->n_rows;
        images->statistics.evictions++;
        free_if_unused(images, image);
}

/* What no process has mapped makes room where that helps, as much as is needed. -ENOBUFS: not at once, or never. */
static int take_room(UnwindImages *images, uint64_t bytes, uint64_t now, UnwindExtent *ret) {
        int r = unwind_memory_take(images->memory, bytes, now, ret);

        if (r != -ENOBUFS || !unwind_memory_could_have(images->memory, bytes))
                return r;
        while (images->oldest && !unwind_memory_will_have(images->memory, bytes))
                evict(images, images->oldest, now);
        return r;
}

/* ---- images ---- */

static uint64_t page_bytes(const UnwindTable *table) {
        return (table->n_pages * sizeof(uint64_t) + RS_TABLE_CHUNK - 1) / RS_TABLE_CHUNK * RS_TABLE_CHUNK;
}

/* The rules of the file get the numbers they have for all. */
static int number_rules(UnwindImages *images, const UnwindTable *table, uint32_t *numbers) {
        for (size_t i = 0; i < table->n_rules; i++) {
                int r = unwind_memory_add_rule(images->memory, &table->rules[i], &numbers[i]);

                if (r == -ENOBUFS) { /* rules stay: there never will be one */
                        numbers[i] = images->unknown;
                        images->statistics.unknown_rules++;
                } else if (r < 0)
                        return r;
        }
        return 0;
}

static void copy_table(UnwindImages *images, Image *image, const UnwindTable *table, const uint32_t *numbers) {
        uint64_t *pages = unwind_memory_at(images->memory, &image->extent);
        uint32_t *rows = (uint32_t *) ((uint8_t *) pages + page_bytes(table));
        uint64_t first = (unwind_memory_offset(&image->extent) + page_bytes(table)) / sizeof(*rows);

        for (size_t i = 0; i < table->n_rows; i++) {
                uint32_t rule = table->rows[i] & RS_TABLE_ROW_RULE;

                rows[i] = (table->rows[i] & ~(uint32_t) RS_TABLE_ROW_RULE) | (rule < table->n_rules ? numbers[rule] : 0);
        }
        for (size_t i = 0; i < table->n_pages; i++)
                pages[i] = table->pages[i] + (first << 32);
}

/* -ENOBUFS: there is no room; -E2BIG: there never will be. */
static int image_place(UnwindImages *images, Image *image, const UnwindTable *table, uint64_t now) {
        _cleanup_free_ uint32_t *numbers = calloc(MAX(table->n_rules, (size_t) 1), sizeof(*numbers));
        int r;

        if (!numbers)
                return -ENOMEM;
        image->bytes = page_bytes(table) + table->n_rows * sizeof(uint32_t);
        if (image->bytes > unwind_memory_get_size(images->memory))
                return -E2BIG;
        r = take_room(images, image->bytes, now, &image->extent);
        if (r < 0)
                return r;
        r = number_rules(images, table, numbers); /* what has no room takes no numbers either */
        if (r < 0) {
                unwind_memory_give_back(images->memory, &image->extent, now);
                return r;
        }
        copy_table(images, image, table, numbers);
        image->base = table->base;
        image->n_pages = (uint32_t) table->n_pages;
        image->n_rows = table->n_rows;
        image->state = IMAGE_READY;
        image->retry_interval = 0;
        if (image->refs == 0)
                set_idle(images, image);
        images->generation++;
        images->statistics.images++;
        images->statistics.rows += image->n_rows;
        return 0;
}

static void leave(UnwindImages *images, Image *image, uint64_t now) {
        image->state = IMAGE_LEFT;
        image->retry_interval = MIN(MAX(image->retry_interval * 2, RETRY_MIN), RETRY_MAX);
        image->retry = now + image->retry_interval;
        images->statistics.no_room++;
}

static int image_fill(UnwindImages *images, Image *image, ElfFile *elf) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        UnwindTable *table;
        int r;

        elf_file_set_stop(elf, images->stop);
        r = unwind_cache_get(images->cache, elf, &table);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                image->state = IMAGE_NONE;
                if (r == -ENOENT) /* the file has none, and nothing is wrong with it */
                        return 0;
                images->statistics.refused++;
                return r;
        }
        r = image_place(images, image, table, now);
        if (r == -ENOBUFS && unwind_memory_will_have(images->memory, image->bytes)) {
                image->state = IMAGE_WAITING;
                image->retry = now + 2 * UNWIND_MEMORY_GRACE;
                unwind_cache_put(images->cache, elf, table);
                image->table = TAKE_PTR(table);
                images->n_waiting++;
        } else if (r == -ENOBUFS)
                leave(images, image, now);
        else if (r == -E2BIG) {
                image->state = IMAGE_NONE;
                images->statistics.refused++;
        }
        unwind_cache_take(images->cache, elf, table);
        return r == -ENOMEM ? r : 0;
}

static int image_new(UnwindImages *images, Image **ret) {
        Image *image = calloc(1, sizeof(*image));

        if (!image)
                return -ENOMEM;
        image->next = images->all;
        image->previous = &images->all;
        if (image->next)
                image->next->previous = &image->next;
        images->all = image;
        *ret = image;
        return 0;
}

/* The image of all files that are the same. */
static int get_image(UnwindImages *images, const ElfFile *elf, Image **ret) {
        char identity[UNWIND_IDENTITY_SIZE];
        TableKey key;
        int r;

        if (!unwind_identity_get(elf, identity))
                return image_new(images, ret);
        r = table_string_key(&images->by_identity, identity, strlen(identity), &key);
        if (r < 0)
                return r;
        *ret = (Image *) (uintptr_t) table_get(&images->by_identity, key);
        if (*ret && (*ret)->state != IMAGE_NONE)
                return 0;
        /* One that is malformed has not the last word on others of its name. */
        r = image_new(images, ret);
        if (r < 0)
                return r;
        (*ret)->key = key;
        return table_put(&images->by_identity, key, (uintptr_t) *ret);
}

int unwind_images_read(MappedFile *file, ElfFile *elf, void *userdata) {
        UnwindImages *images = userdata;
        Image *image = file->userdata;
        int r;

        if (!image) {
                r = get_image(images, elf, &image);
                if (r < 0)
                        return r;
                file->userdata = image;
                image->files++;
        }
        return image->state == IMAGE_NEW || image->state == IMAGE_LEFT ? image_fill(images, image, elf) : 0;
}

void unwind_images_forget(MappedFile *file, void *userdata) {
        Image *image = file->userdata;

        if (!image)
                return;
        image->files--;
        free_if_unused(userdata, image);
}

/* ---- of code in memory ---- */

/* There is no cache for it, and none that waits: it is found again sooner than a file. */
static int fill_of_code(UnwindImages *images, Image *image, const uint8_t *code, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        int r;

        r = unwind_table_new_of_code(&table, code, size);
        if (r >= 0)
                r = image_place(images, image, table, now);
        if (r == -ENOBUFS)
                leave(images, image, now);
        else if (r < 0 && r != -ENOMEM)
                image->state = IMAGE_NONE;
        return r == -ENOMEM ? r : 0;
}

int unwind_images_get_code(UnwindImages *images, const uint8_t *code, size_t size, UnwindImage **ret) {
        Image *image;
        TableKey key;
        int r;

        r = table_string_key(&images->by_identity, (const char *) code, size, &key);
        if (r < 0)
                return r;
        key.c |= UINT64_C(1) << 63; /* no identity of a file is as long */
        image = (Image *) (uintptr_t) table_get(&images->by_identity, key);
        if (!image) {
                r = image_new(images, &image);
                if (r < 0)
                        return r;
                image->key = key;
                r = table_put(&images->by_identity, key, (uintptr_t) image);
        }
        image->files++;
        if (r >= 0 && (image->state == IMAGE_NEW || image->state == IMAGE_LEFT))
                r = fill_of_code(images, image, code, size);
        if (r < 0) {
                unwind_images_put_code(images, image);
                return r;
        }
        *ret = image;
        return 0;
}

void unwind_images_share_code(UnwindImage *image) {
        image->files++;
}

void unwind_images_put_code(UnwindImages *images, UnwindImage *image) {
        image->files--;
        free_if_unused(images, image);
}

bool unwind_images_wants_code(const UnwindImages *images, const UnwindImage *image) {
        return image->state == IMAGE_LEFT && now_ns(CLOCK_MONOTONIC) >= image->retry &&
               unwind_memory_could_have(images->memory, image->bytes);
}

uint64_t unwind_images_tick(UnwindImages *images) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);

        for (Image *image = images->all, *next; image && images->n_waiting > 0; image = next) {
                int r = image->state == IMAGE_WAITING ? image_place(images, image, image->table, now) : -ENOMEM;

                next = image->next; /* to make room others may have gone */
                if (r == -ENOMEM || (r == -ENOBUFS && now < image->retry))
                        continue;
                if (r < 0)
                        leave(images, image, now);
                image->table = unwind_table_free(image->table);
                images->n_waiting--;
                free_if_unused(images, image);
        }
        return images->n_waiting > 0 ? now + UNWIND_MEMORY_GRACE : 0;
}

uint64_t unwind_images_get_generation(const UnwindImages *images) {
        return images->generation;
}

bool unwind_images_wants_file(const UnwindImages *images, const MappedFile *file) {
        const Image *image = file->userdata;

        return image && unwind_images_wants_code(images, image);
}

void unwind_images_get_statistics(const UnwindImages *images, UnwindImagesStatistics *ret) {
        *ret = images->statistics;
}

/* ---- lists ---- */

static void list_add(UnwindList *list, const struct rs_table_mapping *mapping, Image *image) {
        struct rs_table_mapping *last = list->n > 0 ? &list->mappings[list->n - 1] : NULL;

        /* As one, where a file has several parts that are executable, or none of them has a table. */
        if (last && last->end == mapping->start && list->images[list->n - 1] == image && last->pages == mapping->pages &&
            last->n_pages == mapping->n_pages && (last->bias == mapping->bias || mapping->n_pages == 0)) {
                last->end = mapping->end;
                return;
        }
        list->images[list->n] = image;
        list->mappings[list->n++] = *mapping;
}

/* By where it is mapped, in the process and as the file counts. */
static void list_add_range(UnwindList *list, const MappedRange *range, Image *code) {
        const SymbolFile *file = (const SymbolFile *) range->file;
        Image *image = code ?: range->file->userdata;
        struct rs_table_mapping m = { .start = range->start, .end = range->end };
        uint64_t address = 0, bias;

        m.bias = m.start / RS_TABLE_PAGE * RS_TABLE_PAGE;
        if (image)
                list->waiting |= image->state != IMAGE_READY && image->state != IMAGE_NONE;
        else
                list->waiting |= file->forgotten || (file->elf && !file->loaded);
        if (!image || image->state != IMAGE_READY ||
            (!code && !elf_file_get_code_address(file->elf, range->offset, range->end - range->start, &address))) {
                list_add(list, &m, image);
                return;
        }
        bias = m.start - address + image->base;
        if (bias % RS_TABLE_PAGE != 0 || bias >= m.end) {
                list_add(list, &m, image);
                return;
        }
        /* What lies before the first page has no rules. */
        if (bias > m.start) {
                m.end = bias;
                list_add(list, &m, image);
                m.start = bias;
                m.end = range->end;
        }
        m.bias = bias;
        m.pages = (uint32_t) (unwind_memory_offset(&image->extent) / sizeof(uint64_t));
        m.n_pages = image->n_pages;
        list_add(list, &m, image);
}

/* Each may become two; but what has no file goes where it gets too much. Above user space is the kernel's [vsyscall]. */
static void list_fill(UnwindList *list, const AddressSpace *space, const UnwindCodes *codes, size_t n) {
        bool many = n > RS_TABLE_MAPPINGS_MAX / 2;

        for (size_t i = 0; i < n && list->n + 2 <= RS_TABLE_MAPPINGS_MAX; i++) {
                MappedRange range;
                const UnwindCode *code;
                Image *image;

                address_space_get_mapping(space, i, &range);
                code = codes ? unwind_codes_find(codes, &range) : NULL;
                image = code ? code->image : NULL;
                if (range.end >> 63 == 0 && (!many || image || range.file->userdata))
                        list_add_range(list, &range, image);
        }
}

static void list_free(UnwindList *list) {
        free(list->images);
        free(list);
}

static UnwindList *list_allocate(size_t n) {
        UnwindList *list;

        n = MIN(2 * n, (size_t) RS_TABLE_MAPPINGS_MAX);
        list = calloc(1, sizeof(*list) + n * sizeof(list->mappings[0]));
        if (!list)
                return NULL;
        list->refs = 1;
        list->images = calloc(n, sizeof(*list->images));
        if (!list->images) {
                free(list);
                return NULL;
        }
        return list;
}

static bool list_says(const UnwindList *a, const UnwindList *b) {
        return a->n == b->n && memcmp(a->mappings, b->mappings, a->n * sizeof(a->mappings[0])) == 0 &&
               memcmp(a->images, b->images, a->n * sizeof(a->images[0])) == 0;
}

int unwind_list_new(UnwindList **ret, UnwindImages *images, const AddressSpace *space, const UnwindCodes *codes, UnwindList *old) {
        size_t n = address_space_get_n_mappings(space), bytes;
        UnwindList *list;
        int r;

        if (n == 0) {
                *ret = NULL;
                return 0;
        }
        list = list_allocate(n);
        if (!list)
                return -ENOMEM;
        list_fill(list, space, codes, n);
        if (old && list_says(old, list)) {
                old->waiting = list->waiting;
                list_free(list);
                *ret = old;
                return 0;
        }
        bytes = list->n * sizeof(list->mappings[0]);
        r = take_room(images, bytes, now_ns(CLOCK_MONOTONIC), &list->extent);
        if (r < 0) {
                list_free(list);
                return r;
        }
        memcpy(unwind_memory_at(images->memory, &list->extent), list->mappings, bytes);
        for (uint32_t i = 0; i < list->n; i++)
                if (list->images[i])
                        image_ref(images, list->images[i]);
        *ret = list;
        return 0;
}

UnwindList *unwind_list_ref(UnwindList *list) {
        if (list)
                list->refs++;
        return list;
}

UnwindList *unwind_list_unref(UnwindList *list, UnwindImages *images) {
        if (!list || --list->refs > 0)
                return NULL;
        for (uint32_t i = 0; i < list->n; i++)
                if (list->images[i])
                        image_unref(images, list->images[i]);
        unwind_memory_give_back(images->memory, &list->extent, now_ns(CLOCK_MONOTONIC));
        list_free(list);
        return NULL;
}

uint64_t unwind_list_get_value(const UnwindList *list) {
        return unwind_memory_offset(&list->extent) / sizeof(struct rs_table_mapping) << 32 | list->n;
}

const struct rs_table_mapping *unwind_list_get_mappings(const UnwindList *list, size_t *ret_n) {
        *ret_n = list->n;
        return list->mappings;
}

bool unwind_list_is_waiting(const UnwindList *list) {
        return list && list->waiting;
}
