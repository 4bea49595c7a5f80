/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The executable mappings of one process, from two sources. What was read is all that there was at that
 * moment, which may be later than what is looked up. What was told is single mappings, each as it was
 * when a sample lay in it. So what was told comes first, until the stream has come to where was read.
 *
 * A refresh reads the text again, but looks for files only where a line is new: two sorted lists are walked side by
 * side. 100,000 mappings, most of them not executable, cost a scan of the text and nothing else.
 */

#include <limits.h>
#include <string.h>

#include "jit-inherited.h"
#include "jitdump.h"
#include "mapping-list.h"
#include "perf-map.h"
#include "symbolizer-internal.h"

/* A JIT's files are looked for again after this, ns, and read again after this many times what reading them took. */
#define JIT_INTERVAL UINT64_C(100000000)
#define JIT_PATIENCE 20
/* ns that reading them once may take. */
#define JIT_READING_MAX UINT64_C(100000000)
/* ns: what a JIT has not told of yet is told apart by such windows of time, longer ones the longer it is silent. */
#define LATE_WINDOW UINT64_C(1000000000)
#define LATE_WINDOW_SHARE 4

/* More that were told, or are there no more, are not kept beside those that were read. */
#define TOLD_MAX 16384

struct AddressSpace {
        FileUser user; /* first, so that one is the other */
        Symbolizer *symbolizer;
        pid_t pid;
        uint64_t generation;
        Mappings mappings; /* as they were read */
        Mappings told;     /* take precedence */
        uint64_t read_at;  /* ns CLOCK_BOOTTIME, 0: never */
        bool passed;       /* what is told from now on is newer than what was read */
        PerfMap *perf_map;       /* NULL: not looked for, or not there */
        JitDump *jitdump;        /* likewise */
        bool jitdump_refused;    /* no more of it is read, which was counted */
        bool map_refused;        /* likewise */
        uint64_t dumps_generation; /* what dumps told up to then, which others read as well, was noted */
        MapsLine jitdump_line;   /* where it is mapped, without its path */
        InheritedNames *inherited; /* NULL: none */
        uint64_t start;          /* when it was forked, ns CLOCK_BOOTTIME, 0: not known */
        uint64_t next_map_look;  /* ns CLOCK_MONOTONIC: not before */
        uint64_t next_jit_read;  /* likewise */
        uint64_t jit_read_at;    /* ns CLOCK_BOOTTIME: what was sampled before needs no other reading */
        uint64_t jitdump_opened; /* when it was, likewise */
        uint64_t newest;         /* likewise: of all that was looked up */
        uint64_t late_end;       /* likewise: address_space_get_late_end() */
        bool names_changed;      /* since that was last told */
        bool told_more;          /* likewise, by a dump */
        uint64_t time;           /* of what is looked up, ns CLOCK_BOOTTIME */
        uint64_t names_from, names_until; /* around time: what is looked up in the JIT's dump is the same all that time */
};

static void hold_files(const FileUser *user, uint64_t serial) {
        const AddressSpace *space = (const AddressSpace *) user;

        for (size_t i = 0; i < space->mappings.n; i++)
                space->mappings.list[i].file->held = serial;
        for (size_t i = 0; i < space->told.n; i++)
                space->told.list[i].file->held = serial;
}

int address_space_new(AddressSpace **ret, Symbolizer *symbolizer, pid_t pid) {
        AddressSpace *space = calloc(1, sizeof(*space));

        if (!space)
                return -ENOMEM;
        space->symbolizer = symbolizer;
        space->pid = pid;
        space->time = space->late_end = UINT64_MAX;
        space->user.hold = hold_files;
        symbolizer_add_user(symbolizer, &space->user);
        *ret = space;
        return 0;
}

DEFINE_CLEANUP(AddressSpace, address_space_free)

void address_space_set_start(AddressSpace *space, uint64_t start) {
        space->start = start;
}

/* Without what cannot be had. 0 or -ENOMEM. */
static int inherit_names(AddressSpace *space, const AddressSpace *parent) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        InheritedSource source = { .dump = parent->jitdump, .mapped = &parent->jitdump_line, .until = space->start };

        if (parent->perf_map && perf_map_new_until_now(&map, parent->perf_map) == -ENOMEM)
                return -ENOMEM;
        source.map = map;
        if (source.dump || source.map)
                return inherited_names_new(&space->inherited, &source, parent->inherited);
        space->inherited = parent->inherited ? inherited_names_ref(parent->inherited) : NULL;
        return 0;
}

int address_space_fork(AddressSpace **ret, const AddressSpace *parent, pid_t pid, uint64_t start) {
        _cleanup_(address_space_freep) AddressSpace *space = NULL;
        int r;

        r = address_space_new(&space, parent->symbolizer, pid);
        if (r < 0)
                return r;
        r = mappings_copy(&space->mappings, &parent->mappings);
        if (r >= 0)
                r = mappings_copy(&space->told, &parent->told);
        space->start = start;
        if (r >= 0)
                r = inherit_names(space, parent);
        if (r < 0)
                return r;
        space->generation = space->mappings.n + space->told.n > 0;
        space->read_at = parent->read_at;
        space->passed = parent->passed;
        *ret = TAKE_PTR(space);
        return 0;
}

AddressSpace *address_space_free(AddressSpace *space) {
        if (!space)
                return NULL;
        symbolizer_remove_user(&space->user);
        perf_map_free(space->perf_map);
        jitdump_free(space->jitdump);
        inherited_names_unref(space->inherited);
        mappings_done(&space->mappings);
        mappings_done(&space->told);
        free(space);
        return NULL;
}

void address_space_clear(AddressSpace *space) {
        mappings_done(&space->mappings);
        mappings_done(&space->told);
        space->read_at = 0;
        space->passed = false;
        space->names_changed = space->told_more = false;
        space->perf_map = perf_map_free(space->perf_map);
        space->jitdump = jitdump_free(space->jitdump);
        space->inherited = inherited_names_unref(space->inherited);
        space->map_refused = false;
        space->start = space->dumps_generation = 0;
        space->next_map_look = space->next_jit_read = space->jit_read_at = space->newest = 0;
        space->late_end = UINT64_MAX;
        space->names_from = space->names_until = 0;
        space->generation++;
}

uint64_t address_space_get_generation(const AddressSpace *space) {
        return space->generation;
}

static const Mapping *find_mapping(const AddressSpace *space, uint64_t address) {
        const Mapping *mapping = mappings_find(&space->told, address);

        return mapping ? mapping : mappings_find(&space->mappings, address);
}

bool address_space_contains(const AddressSpace *space, uint64_t address) {
        return find_mapping(space, address) != NULL;
}

size_t address_space_get_n_mappings(const AddressSpace *space) {
        return space->mappings.n + space->told.n;
}

static MappedRange mapping_range(const Mapping *mapping) {
        return (MappedRange){ mapping->start, mapping->end, mapping->offset, &mapping->file->mapped };
}

void address_space_get_mapping(const AddressSpace *space, size_t index, MappedRange *ret) {
        *ret = mapping_range(index < space->mappings.n ? &space->mappings.list[index]
                                                       : &space->told.list[index - space->mappings.n]);
}

static bool is_unchanged(const Mapping *mapping, const MapsLine *line) {
        char path[PATH_MAX + 32];
        const MappedFile *file = &mapping->file->mapped;

        if (mapping->file->forgotten || mapping->start != line->start || mapping->end != line->end ||
            mapping->offset != line->offset || mapping->inode != line->inode)
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

static bool is_same_mapping(const MapsLine *a, const MapsLine *b) {
        return a->start == b->start && a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* Whoever has read it. */
static void note_told(AddressSpace *space) {
        uint64_t generation = inherited_names_get_generation(space->inherited);

        if (space->jitdump)
                generation += jitdump_get_generation(space->jitdump);
        if (generation != space->dumps_generation)
                space->names_changed = space->told_more = true;
        space->dumps_generation = generation;
}

/* Another one is found where it is mapped. 0 or -ENOMEM. */
static int update_jitdump(AddressSpace *space, uint64_t deadline) {
        int r;

        if (!space->jitdump)
                return 0;
        r = jitdump_update(space->jitdump, symbolizer_get_jit_clock(space->symbolizer), deadline);
        if ((r == -EBADMSG || r == -EFBIG) && !space->jitdump_refused) {
                symbolizer_note_refused(space->symbolizer);
                space->jitdump_refused = true;
        }
        if (r == -ESTALE) {
                space->jitdump = jitdump_free(space->jitdump);
                space->names_changed = space->told_more = true;
        }
        note_told(space);
        return r == -ENOMEM ? r : 0;
}

/* 0 or -ENOMEM. */
static int update_inherited(AddressSpace *space, uint64_t deadline) {
        unsigned refused;
        int r = inherited_names_update(space->inherited, symbolizer_get_jit_clock(space->symbolizer), deadline, &refused);

        for (; refused > 0; refused--)
                symbolizer_note_refused(space->symbolizer);
        note_told(space);
        return r;
}

static int take_inherited(AddressSpace *space, JitDump *dump, const MapsLine *line) {
        InheritedSource source = { .dump = dump, .mapped = line, .until = space->start };
        InheritedNames *names;
        int r;

        r = inherited_names_new(&names, &source, space->inherited);
        if (r < 0)
                return r;
        inherited_names_unref(space->inherited);
        space->inherited = names;
        return update_inherited(space, now_ns(CLOCK_MONOTONIC) + JIT_READING_MAX);
}

/*
 * A JIT's dump has the number of its process. Whoever has inherited the mapping has not inherited what comes, and has all
 * that was.
 */
static int open_jitdump(AddressSpace *space, Refresh *refresh, const MapsLine *line) {
        _cleanup_(jitdump_freep) JitDump *dump = NULL;
        ProcessIdentity identity;
        int64_t ahead;
        bool own;
        int fd, r;

        r = process_dir_read_identity(&refresh->dir, &identity);
        if (r < 0)
                return r;
        own = jitdump_path_get_pid(line->path, line->path_len) == identity.inner_pid;
        if (!own && (space->start == 0 || inherited_names_has(space->inherited, line)))
                return -ENOENT;
        r = process_dir_read_ahead(&refresh->dir, &ahead);
        if (r < 0)
                return r;
        fd = symbolizer_open(space->symbolizer, refresh, line);
        if (fd < 0)
                return fd;
        r = jitdump_new_take_fd(&dump, fd, ahead, symbolizer_get_jit_memory(space->symbolizer));
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        if (!own)
                return take_inherited(space, dump, line);
        jitdump_free(space->jitdump);
        space->jitdump = TAKE_PTR(dump);
        space->jitdump_line = *line;
        space->jitdump_line.path = NULL;
        space->jitdump_opened = now_ns(CLOCK_BOOTTIME);
        space->jitdump_refused = false;
        space->dumps_generation = UINT64_MAX; /* whatever that is of the new one */
        return update_jitdump(space, now_ns(CLOCK_MONOTONIC) + JIT_READING_MAX);
}

/* Having no names is no error. */
static int look_for_jitdump(AddressSpace *space, Refresh *refresh, const MapsLine *line) {
        int r;

        if (!symbolizer_wants_names(space->symbolizer) || jitdump_path_get_pid(line->path, line->path_len) <= 0 ||
            (space->jitdump && is_same_mapping(&space->jitdump_line, line)))
                return 0;
        r = open_jitdump(space, refresh, line);
        return r == -ENOMEM ? r : 0;
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
                r = mappings_append(ret, &(Mapping){
                                                 .start = line.start,
                                                 .end = line.end,
                                                 .offset = line.offset,
                                                 .inode = line.inode,
                                                 .time = space->read_at,
                                                 .file = file,
                                         });
                if (r >= 0)
                        r = look_for_jitdump(space, refresh, &line);
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

static int open_perf_map(AddressSpace *space, ProcessDir *dir) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        int r;

        r = perf_map_new(&map, symbolizer_get_jit_memory(space->symbolizer));
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

        r = process_dir_open(&dir, symbolizer_get_proc(space->symbolizer), space->pid, /* max= */ 0, &maps, &size);
        if (r < 0)
                return r;
        r = open_perf_map(space, &dir);
        process_dir_done(&dir);
        return r;
}

/* As of now. -ESTALE: it is another file, which is found by its name. */
static int update_perf_map(AddressSpace *space) {
        int r = space->perf_map ? perf_map_update(space->perf_map) : 0;

        space->names_changed |= r > 0;
        if (r == -EFBIG && !space->map_refused) {
                symbolizer_note_refused(space->symbolizer);
                space->map_refused = true;
        }
        return r;
}

typedef struct Spent {
        uint64_t start, cpu; /* ns CLOCK_MONOTONIC, and of this thread's CPU time */
} Spent;

static Spent spent_begin(void) {
        return (Spent){ now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_THREAD_CPUTIME_ID) };
}

/* To wait for a processor costs nobody anything; but who waits for long waits for a file. ns */
static uint64_t spent_get(const Spent *spent) {
        uint64_t time = now_ns(CLOCK_MONOTONIC) - spent->start;

        return time < JIT_INTERVAL ? now_ns(CLOCK_THREAD_CPUTIME_ID) - spent->cpu : time;
}

/* dir NULL: to be opened where it is needed. To look for a file takes longer than to look at one. 0 or -ENOMEM. */
static int look_for_perf_map(AddressSpace *space, ProcessDir *dir) {
        uint64_t spent;
        Spent begin;
        int r;

        if (now_ns(CLOCK_MONOTONIC) < space->next_map_look)
                return 0;
        begin = spent_begin();
        r = update_perf_map(space);
        if (!space->perf_map || r == -ESTALE) {
                r = dir ? open_perf_map(space, dir) : open_perf_map_by_pid(space);
                if (r >= 0)
                        r = update_perf_map(space);
        }
        spent = spent_get(&begin);
        space->next_map_look = now_ns(CLOCK_MONOTONIC) + MAX(JIT_INTERVAL, spent * JIT_PATIENCE);
        return r == -ENOMEM ? r : 0;
}

/* What was written since may be what was sampled. 0 or -ENOMEM. */
static int read_on(AddressSpace *space) {
        int dump, map, inherited;
        Spent begin;

        if (now_ns(CLOCK_MONOTONIC) < space->next_jit_read)
                return 0;
        begin = spent_begin();
        space->jit_read_at = now_ns(CLOCK_BOOTTIME);
        dump = update_jitdump(space, begin.start + JIT_READING_MAX);
        map = update_perf_map(space);
        inherited = update_inherited(space, begin.start + JIT_READING_MAX);
        space->next_jit_read = now_ns(CLOCK_MONOTONIC) + spent_get(&begin) * JIT_PATIENCE;
        return dump == -ENOMEM || map == -ENOMEM || inherited == -ENOMEM ? -ENOMEM : 0;
}

int address_space_update_names(AddressSpace *space, uint64_t time) {
        bool changed;
        int r;

        space->time = time;
        r = (space->jitdump || space->perf_map || space->inherited) && time >= space->jit_read_at ? read_on(space) : 0;
        if (r < 0)
                return r;
        changed = space->names_changed;
        space->late_end = space->told_more ? space->newest : UINT64_MAX;
        space->names_changed = space->told_more = false;
        space->newest = MAX(space->newest, time);
        if (space->jitdump && (changed || time < space->names_from || time >= space->names_until)) {
                jit_code_get_span(jitdump_get_code(space->jitdump), time, &space->names_from, &space->names_until);
                changed = true;
        }
        return changed;
}

void address_space_note_names_cost(AddressSpace *space, uint64_t spent) {
        space->next_jit_read = MAX(space->next_jit_read, now_ns(CLOCK_MONOTONIC)) + spent * JIT_PATIENCE;
}

int address_space_read_last_names(AddressSpace *space, uint64_t deadline) {
        bool more;
        int r;

        do {
                r = update_jitdump(space, deadline);
                if (r >= 0)
                        r = update_inherited(space, deadline);
                more = r >= 0 && ((space->jitdump && jitdump_has_more(space->jitdump)) ||
                                  inherited_names_have_more(space->inherited));
        } while (more && now_ns(CLOCK_MONOTONIC) < deadline);
        if (more)
                symbolizer_note_refused(space->symbolizer);
        space->late_end = space->newest;
        return r;
}

uint64_t address_space_get_late_end(const AddressSpace *space) {
        return space->late_end;
}

int address_space_find_late_name(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until, bool final,
                                 const char **ret_name, uint64_t *ret_offset) {
        const JitCode *code = space->jitdump ? jitdump_get_code(space->jitdump) : NULL;
        const char *name = NULL;
        int r = 0;

        if (!final && !(code ? jit_code_get_last_time(code) >= until : inherited_names_are_told(space->inherited)))
                return -EAGAIN;
        if (code && jit_code_is_same(code, address, first, until))
                name = jit_code_find(code, address, until, ret_offset);
        else if (!code || !jit_code_find(code, address, until, ret_offset)) {
                if (space->perf_map && code)
                        name = perf_map_find(space->perf_map, address, ret_offset); /* which has no times */
                if (!name)
                        r = inherited_names_find(space->inherited, address, &name, ret_offset);
        }
        if (r < 0)
                return r;
        if (!name || !name[0])
                return !code && !final ? -EAGAIN : 0; /* it may still write one of its own */
        r = symbolizer_intern(space->symbolizer, name, ret_name);
        return r < 0 ? r : 1;
}

int address_space_find_late_line(AddressSpace *space, uint64_t address, uint64_t first, uint64_t until,
                                 const char **ret_source, uint32_t *ret_line) {
        const JitCode *code = space->jitdump ? jitdump_get_code(space->jitdump) : NULL;
        const char *source = NULL;
        int r;

        if (code && jit_code_is_same(code, address, first, until))
                source = jit_code_find_line(code, address, until, ret_line);
        if (!source || !source[0])
                return 0;
        r = symbolizer_intern(space->symbolizer, source, ret_source);
        return r < 0 ? r : 1;
}

static bool has_jit(const Mappings *mappings) {
        for (size_t i = 0; i < mappings->n; i++)
                if (mappings->list[i].file->kind == SYMBOL_FILE_JIT)
                        return true;
        return false;
}

/* Files that this process has had all the time, wherever their paths lead by now. */
static void hold_own_files(AddressSpace *space, Refresh *refresh) {
        refresh->serial = symbolizer_get_serial(space->symbolizer);
        hold_files(&space->user, refresh->serial);
}

/* What is there no more may have been there at the time of a sample that is still to come. */
static int keep_gone(AddressSpace *space, const Mappings *now) {
        for (size_t i = 0; i < space->mappings.n && space->told.n < TOLD_MAX; i++) {
                const Mapping *m = &space->mappings.list[i], *same = mappings_find(now, m->start);
                int r;

                if ((same && mapping_continues(m, same) && same->end >= m->end) ||
                    mappings_overlap(&space->told, m->start, m->end))
                        continue;
                r = mappings_put(&space->told, m);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int refresh_from(AddressSpace *space, Refresh *refresh, const char *text, size_t size) {
        Mappings mappings = {};
        int r;

        hold_own_files(space, refresh);
        r = read_mappings(space, refresh, text, size, &mappings);
        /* Names of a process that will be gone soon are read while it is there. */
        if (r == 0 && symbolizer_wants_names(space->symbolizer) && has_jit(&mappings))
                r = look_for_perf_map(space, &refresh->dir);
        if (r < 0 || mappings_equal(&space->mappings, &mappings)) {
                mappings_done(&mappings);
                return r;
        }
        if (symbolizer_wants_names(space->symbolizer))
                r = keep_gone(space, &mappings);
        mappings_done(&space->mappings);
        space->mappings = mappings;
        space->generation++;
        return r < 0 ? r : 1;
}

int address_space_refresh(AddressSpace *space) {
        Refresh refresh = { .dir = PROCESS_DIR_INIT, .pid = space->pid };
        _cleanup_free_ char *text = NULL;
        size_t size;
        uint64_t time = now_ns(CLOCK_BOOTTIME);
        int r;

        r = process_dir_open(&refresh.dir, symbolizer_get_proc(space->symbolizer), space->pid,
                             symbolizer_get_maps_max(space->symbolizer), &text, &size);
        if (r < 0)
                return r;
        space->read_at = time;
        space->passed = false;
        r = refresh_from(space, &refresh, text, size);
        process_dir_done(&refresh.dir);
        return r;
}

/* ---- what is told ---- */

/* Is it what is known of these addresses, or a part of it? Files are compared as maps tells them. */
static bool is_known_as(const Mapping *mapping, const ToldMapping *told) {
        const MappedFile *file = &mapping->file->mapped;

        if (mapping->inode != told->inode)
                return false;
        if (told->inode == 0)
                return (mapping->file->kind == SYMBOL_FILE_JIT) == (told->path[0] == 0);
        return mapping->start - mapping->offset == told->start - told->offset && file->dev_major == told->dev_major &&
               file->dev_minor == told->dev_minor;
}

bool address_space_contradicts(const AddressSpace *space, const ToldMapping *told) {
        for (uint64_t at = told->start; at < told->end;) {
                const Mapping *a = mappings_overlap(&space->told, at, told->end);
                const Mapping *b = mappings_overlap(&space->mappings, at, told->end);
                const Mapping *m = a && (!b || a->start <= MAX(b->start, at)) ? a : b;

                if (!m)
                        return false;
                if (!is_known_as(m, told))
                        return true;
                at = m->end;
        }
        return false;
}

static bool is_known(const AddressSpace *space, const ToldMapping *told) {
        const Mapping *m = find_mapping(space, told->start);

        return m && m->end >= told->end && is_known_as(m, told) && !address_space_contradicts(space, told);
}

/* As a line of maps would show it. */
static int find_told_file(AddressSpace *space, const ToldMapping *told, SymbolFile **ret) {
        Refresh refresh = { .dir = PROCESS_DIR_INIT, .pid = space->pid, .told_at = told->time, .gone = told->gone };
        char text[PATH_MAX + 32];
        MapsLine line = {
                .start = told->start,
                .end = told->end,
                .offset = told->offset,
                .dev_major = told->dev_major,
                .dev_minor = told->dev_minor,
                .inode = told->inode,
                .executable = true,
                .path = text,
        };
        int r;

        r = snprintf(text, sizeof(text), "%s%s", told->path, told->deleted ? " (deleted)" : "");
        if (r < 0 || r >= (int) sizeof(text))
                return symbolizer_get_unknown(space->symbolizer, ret);
        line.path_len = (size_t) r;
        hold_own_files(space, &refresh);
        if (!told->gone)
                process_dir_find(&refresh.dir, symbolizer_get_proc(space->symbolizer), space->pid);
        r = symbolizer_get_file(space->symbolizer, &refresh, &line, ret);
        process_dir_done(&refresh.dir);
        return r;
}

bool address_space_forget_rewritten(AddressSpace *space, const ToldMapping *told) {
        const Mapping *mapping = find_mapping(space, told->start);
        Refresh refresh = { .dir = PROCESS_DIR_INIT, .pid = space->pid, .told_at = told->time, .gone = told->gone };
        bool rewritten;

        if (!mapping || mapping->inode == 0 || address_space_contradicts(space, told))
                return false;
        rewritten = symbolizer_forget_rewritten(space->symbolizer, mapping->file, &refresh);
        process_dir_done(&refresh.dir);
        return rewritten;
}

int address_space_tell(AddressSpace *space, const ToldMapping *told) {
        Mapping mapping = {
                .start = told->start,
                .end = told->end,
                .offset = told->offset,
                .inode = told->inode,
                .time = told->time,
        };
        bool rewritten, other;
        int r;

        rewritten = address_space_forget_rewritten(space, told);
        if (!rewritten && is_known(space, told))
                return TOLD_KNOWN;
        /* Too many at once to be those of samples: only the place of another may still be taken. */
        if (space->told.n >= TOLD_MAX && !mappings_overlap(&space->told, told->start, told->end))
                return TOLD_KNOWN;
        other = rewritten || address_space_contradicts(space, told);
        r = find_told_file(space, told, &mapping.file);
        if (r >= 0)
                r = mappings_put(&space->told, &mapping);
        if (r < 0)
                return r;
        space->generation++;
        return other ? TOLD_OTHER : TOLD_NEW;
}

bool address_space_pass(AddressSpace *space, uint64_t time) {
        if (space->passed || space->read_at == 0 || time < space->read_at)
                return false;
        space->passed = true;
        if (mappings_remove_covered(&space->told, space->read_at, &space->mappings) == 0)
                return false;
        space->generation++;
        return true;
}

/* ---- names ---- */

/*
 * Where the JIT has not told of the time of what is looked up: until when that is taken for one with what is looked up
 * next. 0: it has told of it, which holds for no longer than it has told of.
 */
static uint64_t find_late_window(AddressSpace *space) {
        uint64_t told = jit_code_get_last_time(jitdump_get_code(space->jitdump));
        uint64_t base = MAX(told, space->jitdump_opened), start = told + 1, end = base + LATE_WINDOW;

        if (space->time <= told) {
                if (told < space->names_until)
                        space->names_until = told + 1;
                return 0;
        }
        while (end <= space->time) {
                start = end;
                end += MAX(LATE_WINDOW, (end - base) / LATE_WINDOW_SHARE);
        }
        space->names_from = MAX(space->names_from, start);
        space->names_until = MIN(space->names_until, end);
        return end;
}

static int resolve_jit(AddressSpace *space, uint64_t address, Resolved *resolved) {
        const char *name = NULL, *source = NULL;
        const JitCode *code;
        bool settled = true;
        int r;

        r = look_for_perf_map(space, NULL);
        if (r < 0)
                return r;
        if (space->jitdump) {
                code = jitdump_get_code(space->jitdump);
                name = jit_code_find(code, address, space->time, &resolved->name_offset);
                source = jit_code_find_line(code, address, space->time, &resolved->line);
        }
        if (!name && space->perf_map)
                name = perf_map_find(space->perf_map, address, &resolved->name_offset);
        if (!name) {
                settled = inherited_names_are_told(space->inherited);
                r = inherited_names_find(space->inherited, address, &name, &resolved->name_offset);
                if (r < 0)
                        return r;
        }
        if (space->jitdump && space->time != UINT64_MAX)
                resolved->late_until = find_late_window(space);
        else if (!(name && settled) && space->time != UINT64_MAX)
                resolved->late_until = UINT64_MAX; /* there may be a dump that was not found yet */
        r = name && name[0] ? symbolizer_intern(space->symbolizer, name, &resolved->name) : 0;
        return source && source[0] && r >= 0 ? symbolizer_intern(space->symbolizer, source, &resolved->source) : r;
}

/* false: it is none of an ELF file, or in no segment of it; then there is no name either. */
static bool find_elf_address(const Mapping *mapping, uint64_t address, uint64_t *ret) {
        const SymbolFile *file = mapping->file;

        if (file->kind != SYMBOL_FILE_ELF && file->kind != SYMBOL_FILE_VDSO)
                return false;
        *ret = address - mapping->start + mapping->offset;
        return file->elf && elf_file_get_address(file->elf, *ret, ret);
}

/* *ret_mapping: NULL where it is in none. */
static int locate(AddressSpace *space, uint64_t address, const Mapping **ret_mapping, Resolved *ret) {
        const Mapping *mapping = find_mapping(space, address);
        SymbolFile *file;
        int r;

        *ret = (Resolved){ .address = address };
        *ret_mapping = mapping;
        if (mapping) {
                file = mapping->file;
                ret->mapped = mapping_range(mapping);
                (void) find_elf_address(mapping, address, &ret->address);
                /* Names of a JIT's code may be still to come, and what could not be opened may be another time. */
                ret->final = file->kind != SYMBOL_FILE_JIT && !file->forgotten;
        } else {
                r = symbolizer_get_unknown(space->symbolizer, &file);
                if (r < 0)
                        return r;
        }
        ret->file = &file->mapped;
        return 0;
}

static uint64_t lookup_address(uint64_t address, bool return_address) {
        return return_address && address > 0 ? address - 1 : address;
}

int address_space_locate(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret) {
        const Mapping *mapping;

        return locate(space, lookup_address(address, return_address), &mapping, ret);
}

int address_space_resolve(AddressSpace *space, uint64_t address, bool return_address, Resolved *ret) {
        const Mapping *mapping;
        Resolved resolved;
        int r;

        address = lookup_address(address, return_address);
        r = locate(space, address, &mapping, &resolved);
        if (r < 0)
                return r;
        if (mapping && mapping->file->kind == SYMBOL_FILE_JIT)
                r = resolve_jit(space, address, &resolved);
        else if (mapping && find_elf_address(mapping, address, &resolved.address))
                r = symbolizer_find_name(space->symbolizer, mapping->file, resolved.address, &resolved.name,
                                         &resolved.name_offset);
        if (r < 0)
                return r;
        *ret = resolved;
        return 0;
}
