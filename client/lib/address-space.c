/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The executable mappings of one process, sorted. A refresh reads the text again, but looks for
 * files only where a line is new: two sorted lists are walked side by side. 100,000 mappings, most
 * of them not executable, cost a scan of the text and nothing else.
 */

#include <limits.h>
#include <string.h>
#include <time.h>

#include "perf-map.h"
#include "symbolizer-internal.h"

#define MAPPINGS_MAX (1U << 20)
/* A perf map is looked at again after this, ns, and after this many times what reading it took. */
#define PERF_MAP_INTERVAL UINT64_C(100000000)
#define PERF_MAP_PATIENCE 20

typedef struct Mapping {
        uint64_t start, end, offset;
        uint64_t inode; /* 0: no file */
        SymbolFile *file;
} Mapping;

typedef struct Mappings {
        Mapping *list;
        size_t n, allocated;
} Mappings;

struct AddressSpace {
        Symbolizer *symbolizer;
        pid_t pid;
        uint64_t generation;
        Mappings mappings;
        PerfMap *perf_map;        /* NULL: not looked for, or not there */
        uint64_t next_perf_check; /* ns, CLOCK_MONOTONIC */
};

int address_space_new(AddressSpace **ret, Symbolizer *symbolizer, pid_t pid) {
        AddressSpace *space = calloc(1, sizeof(*space));

        if (!space)
                return -ENOMEM;
        space->symbolizer = symbolizer;
        space->pid = pid;
        *ret = space;
        return 0;
}

DEFINE_CLEANUP(AddressSpace, address_space_free)

int address_space_fork(AddressSpace **ret, const AddressSpace *parent, pid_t pid) {
        _cleanup_(address_space_freep) AddressSpace *space = NULL;
        size_t n = parent->mappings.n;
        int r;

        r = address_space_new(&space, parent->symbolizer, pid);
        if (r < 0)
                return r;
        if (n > 0) {
                space->mappings.list = reallocarray(NULL, n, sizeof(Mapping));
                if (!space->mappings.list)
                        return -ENOMEM;
                memcpy(space->mappings.list, parent->mappings.list, n * sizeof(Mapping));
                space->mappings.n = space->mappings.allocated = n;
                space->generation = 1;
        }
        *ret = TAKE_PTR(space);
        return 0;
}

AddressSpace *address_space_free(AddressSpace *space) {
        if (!space)
                return NULL;
        perf_map_free(space->perf_map);
        free(space->mappings.list);
        free(space);
        return NULL;
}

static void mappings_done(Mappings *mappings) {
        free(mappings->list);
        *mappings = (Mappings){};
}

void address_space_clear(AddressSpace *space) {
        mappings_done(&space->mappings);
        space->perf_map = perf_map_free(space->perf_map);
        space->next_perf_check = 0;
        space->generation++;
}

uint64_t address_space_get_generation(const AddressSpace *space) {
        return space->generation;
}

static const Mapping *find_mapping(const AddressSpace *space, uint64_t address) {
        size_t low = 0, high = space->mappings.n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (space->mappings.list[middle].start <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0 || address >= space->mappings.list[low - 1].end)
                return NULL;
        return &space->mappings.list[low - 1];
}

bool address_space_contains(const AddressSpace *space, uint64_t address) {
        return find_mapping(space, address) != NULL;
}

size_t address_space_get_n_mappings(const AddressSpace *space) {
        return space->mappings.n;
}

void address_space_get_mapping(const AddressSpace *space, size_t index, uint64_t *ret_start,
                               uint64_t *ret_end, uint64_t *ret_offset, MappedFile **ret_file) {
        const Mapping *mapping = &space->mappings.list[index];

        *ret_start = mapping->start;
        *ret_end = mapping->end;
        *ret_offset = mapping->offset;
        *ret_file = &mapping->file->mapped;
}

static int add_mapping(Mappings *mappings, const MapsLine *line, SymbolFile *file) {
        if (mappings->n == MAPPINGS_MAX)
                return -EFBIG;
        if (mappings->n == mappings->allocated) {
                size_t allocated = MAX(32, mappings->allocated * 2);
                Mapping *list = reallocarray(mappings->list, allocated, sizeof(*list));

                if (!list)
                        return -ENOMEM;
                mappings->list = list;
                mappings->allocated = allocated;
        }
        mappings->list[mappings->n++] = (Mapping){
                .start = line->start,
                .end = line->end,
                .offset = line->offset,
                .inode = line->inode,
                .file = file,
        };
        return 0;
}

static bool is_unchanged(const Mapping *mapping, const MapsLine *line) {
        char path[PATH_MAX + 32];
        const MappedFile *file = &mapping->file->mapped;

        if (mapping->start != line->start || mapping->end != line->end || mapping->offset != line->offset ||
            mapping->inode != line->inode)
                return false;
        if (line->inode == 0)
                return line->path_len == 0 && mapping->file->kind == SYMBOL_FILE_JIT;
        if (file->dev_major != line->dev_major || file->dev_minor != line->dev_minor ||
            maps_line_get_path(line, path, sizeof(path)) < 0)
                return false;
        if (strcmp(path, file->path) == 0)
                return true;
        return maps_path_strip_deleted(path) && strcmp(path, file->path) == 0;
}

/* The file of a mapping that was there before, else the symbolizer's for the line. */
static int get_file(AddressSpace *space, Refresh *refresh, const MapsLine *line, size_t *old,
                    SymbolFile **ret) {
        while (*old < space->mappings.n && space->mappings.list[*old].start < line->start)
                (*old)++;
        if (*old < space->mappings.n && is_unchanged(&space->mappings.list[*old], line)) {
                *ret = space->mappings.list[*old].file;
                return 0;
        }
        return symbolizer_get_file(space->symbolizer, refresh, line, ret);
}

static int read_mappings(AddressSpace *space, Refresh *refresh, const char *text, size_t size,
                         Mappings *ret) {
        MapsCursor cursor = { .next = text, .left = size };
        MapsLine line;
        size_t old = 0;
        uint64_t last_end = 0;
        int r;

        while ((r = maps_cursor_next(&cursor, &line)) != 0) {
                SymbolFile *file;

                /* Lines come sorted, but one that changes while it is read could be told twice. */
                if (r < 0 || !line.executable || line.start < last_end)
                        continue;
                last_end = line.end;
                r = get_file(space, refresh, &line, &old, &file);
                if (r < 0)
                        return r;
                r = add_mapping(ret, &line, file);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool mappings_equal(const Mappings *a, const Mappings *b) {
        if (a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n; i++)
                if (a->list[i].start != b->list[i].start || a->list[i].end != b->list[i].end ||
                    a->list[i].offset != b->list[i].offset || a->list[i].file != b->list[i].file)
                        return false;
        return true;
}

static uint64_t now(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * UINT64_C(1000000000) + (uint64_t) ts.tv_nsec;
}

static int open_perf_map(AddressSpace *space, ProcessDir *dir) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        int r;

        r = perf_map_new(&map);
        if (r < 0)
                return r;
        r = perf_map_open(map, dir);
        if (r < 0)
                return r;
        perf_map_free(space->perf_map);
        space->perf_map = TAKE_PTR(map);
        return 0;
}

static int open_perf_map_by_pid(AddressSpace *space) {
        ProcessDir dir = PROCESS_DIR_INIT;
        _cleanup_free_ char *maps = NULL;
        size_t size;
        int r;

        r = process_dir_open(&dir, symbolizer_get_proc(space->symbolizer), space->pid, &maps, &size);
        if (r < 0)
                return r;
        r = open_perf_map(space, &dir);
        process_dir_done(&dir);
        return r;
}

/* dir NULL: to be opened where it is needed. Returns 0 or -ENOMEM: having no names is no error. */
static int update_perf_map(AddressSpace *space, ProcessDir *dir) {
        uint64_t start = now(), spent;
        int r = 0;

        if (start < space->next_perf_check)
                return 0;
        if (space->perf_map)
                r = perf_map_update(space->perf_map);
        if (!space->perf_map || r == -ESTALE) {
                r = dir ? open_perf_map(space, dir) : open_perf_map_by_pid(space);
                if (r >= 0)
                        r = perf_map_update(space->perf_map);
        }
        spent = now() - start;
        space->next_perf_check = start + spent + MAX(PERF_MAP_INTERVAL, spent * PERF_MAP_PATIENCE);
        return r == -ENOMEM ? r : 0;
}

static bool has_jit(const Mappings *mappings) {
        for (size_t i = 0; i < mappings->n; i++)
                if (mappings->list[i].file->kind == SYMBOL_FILE_JIT)
                        return true;
        return false;
}

static int refresh_from(AddressSpace *space, Refresh *refresh, const char *text, size_t size) {
        Mappings mappings = {};
        int r;

        refresh->serial = symbolizer_get_serial(space->symbolizer);
        for (size_t i = 0; i < space->mappings.n; i++)
                space->mappings.list[i].file->held = refresh->serial;
        r = read_mappings(space, refresh, text, size, &mappings);
        /* Names of a process that will be gone soon are read while it is there. */
        if (r == 0 && has_jit(&mappings))
                r = update_perf_map(space, &refresh->dir);
        if (r < 0 || mappings_equal(&space->mappings, &mappings)) {
                mappings_done(&mappings);
                return r;
        }
        mappings_done(&space->mappings);
        space->mappings = mappings;
        space->generation++;
        return 1;
}

int address_space_refresh(AddressSpace *space) {
        Refresh refresh = { .dir = PROCESS_DIR_INIT, .pid = space->pid };
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r;

        r = process_dir_open(&refresh.dir, symbolizer_get_proc(space->symbolizer), space->pid, &text, &size);
        if (r < 0)
                return r;
        r = refresh_from(space, &refresh, text, size);
        process_dir_done(&refresh.dir);
        return r;
}

static int resolve_jit(AddressSpace *space, uint64_t address, Resolved *resolved) {
        const char *name;
        int r;

        r = update_perf_map(space, NULL);
        if (r < 0 || !space->perf_map)
                return r;
        name = perf_map_find(space->perf_map, address, &resolved->name_offset);
        return name ? symbolizer_intern(space->symbolizer, name, &resolved->name) : 0;
}

static int resolve_elf(AddressSpace *space, const Mapping *mapping, uint64_t address, Resolved *resolved) {
        uint64_t offset = address - mapping->start + mapping->offset;

        resolved->address = offset;
        if (!mapping->file->elf || !elf_file_get_address(mapping->file->elf, offset, &resolved->address))
                return 0;
        return symbolizer_find_name(space->symbolizer, mapping->file, resolved->address, &resolved->name,
                                    &resolved->name_offset);
}

int address_space_resolve(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret) {
        const Mapping *mapping;
        Resolved resolved = {};
        SymbolFile *file;
        int r;

        if (return_address && address > 0)
                address--;
        resolved.address = address;
        mapping = find_mapping(space, address);
        if (mapping) {
                file = mapping->file;
                if (file->kind == SYMBOL_FILE_JIT)
                        r = resolve_jit(space, address, &resolved);
                else if (file->kind == SYMBOL_FILE_OTHER)
                        r = 0;
                else
                        r = resolve_elf(space, mapping, address, &resolved);
        } else
                r = symbolizer_get_unknown(space->symbolizer, &file);
        if (r < 0)
                return r;
        resolved.file = &file->mapped;
        *ret = resolved;
        return 0;
}
