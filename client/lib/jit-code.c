/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Pieces are an array in the order of time. Each page that one lies in has a chain from its newest piece to its oldest:
 * a look-up goes down the chain of its page, past what is newer than it asks for, to the first that holds the
 * address. Where code was moved away is a piece without a name. Nothing is ever sorted, as it comes a bit at a time.
 */

#include "jit-code.h"

#include <string.h>

#include "table.h"

#define PAGE_SHIFT 12
/* Pieces in one page that are looked at for an address, newest first, and before a new one is added. */
#define WALK_MAX 4096U
#define USED_WALK_MAX 64U
#define NO_NAME UINT32_MAX

typedef struct Piece {
        uint64_t time, start, index;
        uint32_t size;
        uint32_t name; /* NO_NAME: nothing is there any more */
        uint32_t first_line, n_lines;
} Piece;

/* One page of a piece. */
typedef struct Link {
        uint32_t piece;
        uint32_t older; /* number + 1, 0: none */
} Link;

struct JitCode {
        JitMemory *memory; /* NULL: nobody counts */
        size_t used;       /* of it */
        Piece *pieces;
        size_t n, allocated;
        Link *links;
        size_t n_links, links_allocated;
        Table pages;    /* number of a page -> link + 1 */
        Table by_index; /* the JIT's -> the newest piece of it + 1 */
        char *names;    /* each with a final 0 */
        size_t names_size, names_allocated;
        Table by_name; /* -> offset + 1 */
        JitLine *lines;
        size_t n_lines, lines_allocated;
        uint64_t *changes; /* times at which an address got another meaning, ascending */
        size_t n_changes, changes_allocated;
};

int jit_code_new(JitCode **ret, JitMemory *memory) {
        JitCode *code = calloc(1, sizeof(*code));

        if (!code)
                return -ENOMEM;
        code->memory = memory;
        *ret = code;
        return 0;
}

JitCode *jit_code_free(JitCode *code) {
        if (!code)
                return NULL;
        if (code->memory)
                code->memory->used -= code->used;
        table_done(&code->pages);
        table_done(&code->by_index);
        table_done(&code->by_name);
        free(code->pieces);
        free(code->links);
        free(code->names);
        free(code->lines);
        free(code->changes);
        free(code);
        return NULL;
}

static bool has_room(const JitCode *code, size_t bytes) {
        const JitMemory *memory = code->memory;

        return !memory || (memory->used <= memory->max && bytes <= memory->max - memory->used);
}

static void take_room(JitCode *code, size_t bytes) {
        if (!code->memory)
                return;
        code->memory->used += bytes;
        code->used += bytes;
}

/* How much it grows is known only afterwards. It may be too much once, and then nothing more is had. */
static int put(JitCode *code, Table *table, TableKey key, uint64_t value) {
        size_t before = table->n_slots;
        int r;

        if (!has_room(code, 0))
                return -EFBIG;
        r = table_put(table, key, value);
        take_room(code, (table->n_slots - before) * sizeof(TableEntry));
        return r;
}

/* Room for n elements. */
static int reserve(JitCode *code, void *array, size_t *allocated, size_t n, size_t size, size_t max) {
        void **p = array, *bigger;
        size_t room = MAX(*allocated, (size_t) 256);

        if (n <= *allocated)
                return 0;
        if (n > max)
                return -EFBIG;
        while (room < n)
                room *= 2;
        if (!has_room(code, (room - *allocated) * size))
                return -EFBIG;
        bigger = reallocarray(*p, room, size);
        if (!bigger)
                return -ENOMEM;
        take_room(code, (room - *allocated) * size);
        *p = bigger;
        *allocated = room;
        return 0;
}

int jit_code_add_name(JitCode *code, const char *name, size_t len, uint32_t *ret) {
        size_t before = code->by_name.n_slots;
        TableKey key;
        uint64_t known;
        int r;

        r = table_string_key(&code->by_name, name, len, &key);
        take_room(code, (code->by_name.n_slots - before) * sizeof(TableEntry)); /* at first */
        if (r < 0)
                return r;
        known = table_get(&code->by_name, key);
        if (known == 0) {
                if (len >= JIT_CODE_NAMES_MAX)
                        return -EFBIG;
                r = reserve(code, &code->names, &code->names_allocated, code->names_size + len + 1, 1, JIT_CODE_NAMES_MAX);
                if (r < 0)
                        return r;
                known = code->names_size + 1;
                r = put(code, &code->by_name, key, known);
                if (r < 0)
                        return r;
                memcpy(code->names + code->names_size, name, len);
                code->names[code->names_size + len] = 0;
                code->names_size += len + 1;
        }
        *ret = (uint32_t) (known - 1);
        return 0;
}

static bool piece_holds(const Piece *piece, uint64_t address) {
        return address >= piece->start && address - piece->start < piece->size;
}

/* The newest that is not newer than time; NULL: none. */
static const Piece *find(const JitCode *code, uint64_t address, uint64_t time) {
        uint32_t link = (uint32_t) table_get(&code->pages, (TableKey){ .a = address >> PAGE_SHIFT });

        for (unsigned steps = 0; link != 0 && steps < WALK_MAX; steps++) {
                const Link *l = &code->links[link - 1];
                const Piece *piece = &code->pieces[l->piece];

                if (piece->time <= time && piece_holds(piece, address))
                        return piece;
                link = l->older;
        }
        return NULL;
}

static bool pieces_overlap(const Piece *piece, uint64_t start, uint64_t size) {
        return piece->start - start < size || start - piece->start < piece->size;
}

/* Whether something of the range may have had a name. Where there is too much to look at it may. */
static bool is_used(const JitCode *code, uint64_t start, uint64_t size) {
        for (uint64_t page = start >> PAGE_SHIFT; page <= (start + size - 1) >> PAGE_SHIFT; page++) {
                uint32_t link = (uint32_t) table_get(&code->pages, (TableKey){ .a = page });

                for (unsigned steps = 0; link != 0; steps++) {
                        const Piece *piece = &code->pieces[code->links[link - 1].piece];

                        if (steps == USED_WALK_MAX || (piece->name != NO_NAME && pieces_overlap(piece, start, size)))
                                return true;
                        link = code->links[link - 1].older;
                }
        }
        return false;
}

static int note_change(JitCode *code, uint64_t time) {
        int r;

        if (code->n_changes > 0 && code->changes[code->n_changes - 1] == time)
                return 0;
        r = reserve(code, &code->changes, &code->changes_allocated, code->n_changes + 1, sizeof(*code->changes), SIZE_MAX);
        if (r < 0)
                return r;
        code->changes[code->n_changes++] = time;
        return 0;
}

/* All memory is had before anything is linked. */
static int add_piece(JitCode *code, const Piece *piece) {
        uint64_t first = piece->start >> PAGE_SHIFT, last = (piece->start + piece->size - 1) >> PAGE_SHIFT;
        int r;

        r = reserve(code, &code->pieces, &code->allocated, code->n + 1, sizeof(*code->pieces), 2 * JIT_CODE_COUNT_MAX);
        if (r >= 0)
                r = reserve(code, &code->links, &code->links_allocated, code->n_links + (last - first + 1),
                            sizeof(*code->links), JIT_CODE_PAGES_MAX);
        if (r >= 0 && is_used(code, piece->start, piece->size))
                r = note_change(code, piece->time);
        if (r < 0)
                return r;
        code->pieces[code->n++] = *piece;
        for (uint64_t page = first; page <= last; page++) {
                TableKey key = { .a = page };

                code->links[code->n_links] = (Link){ (uint32_t) (code->n - 1), (uint32_t) table_get(&code->pages, key) };
                r = put(code, &code->pages, key, ++code->n_links);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Code cannot be known before what was told of before it. */
static uint64_t in_order(const JitCode *code, uint64_t time) {
        return MAX(time, jit_code_get_last_time(code));
}

static bool is_sane(uint64_t start, uint64_t size) {
        return size > 0 && size <= JIT_CODE_SIZE_MAX && start <= UINT64_MAX - size;
}

int jit_code_load(JitCode *code, const JitLoad *load) {
        Piece piece = {
                .time = in_order(code, load->time),
                .start = load->start,
                .index = load->index,
                .size = (uint32_t) load->size,
                .name = load->name,
        };
        int r;

        if (!is_sane(load->start, load->size))
                return 0;
        if (load->n_lines > 0) {
                r = reserve(code, &code->lines, &code->lines_allocated, code->n_lines + load->n_lines, sizeof(*code->lines),
                            JIT_CODE_LINES_MAX);
                if (r < 0)
                        return r;
                memcpy(code->lines + code->n_lines, load->lines, load->n_lines * sizeof(*load->lines));
                piece.first_line = (uint32_t) code->n_lines;
                piece.n_lines = (uint32_t) load->n_lines;
                code->n_lines += load->n_lines;
        }
        r = add_piece(code, &piece);
        if (r < 0)
                return r;
        return put(code, &code->by_index, (TableKey){ .a = load->index }, code->n);
}

int jit_code_move(JitCode *code, uint64_t time, uint64_t from, uint64_t to, uint64_t size, uint64_t index) {
        uint64_t known = table_get(&code->by_index, (TableKey){ .a = index });
        Piece gone = { .time = in_order(code, time), .start = from, .size = (uint32_t) size, .name = NO_NAME };
        Piece moved;
        int r;

        if (!is_sane(from, size) || !is_sane(to, size))
                return 0;
        moved = gone;
        moved.start = to;
        if (known != 0 && code->pieces[known - 1].start == from) {
                moved = code->pieces[known - 1];
                moved.time = gone.time;
                moved.start = to;
                moved.size = (uint32_t) size;
        }
        r = add_piece(code, &gone);
        if (r >= 0)
                r = add_piece(code, &moved);
        if (r < 0 || moved.name == NO_NAME)
                return r;
        return put(code, &code->by_index, (TableKey){ .a = index }, code->n);
}

const char *jit_code_find(const JitCode *code, uint64_t address, uint64_t time, uint64_t *ret_offset) {
        const Piece *piece = find(code, address, time);

        if (!piece || piece->name == NO_NAME)
                return NULL;
        *ret_offset = address - piece->start;
        return code->names + piece->name;
}

bool jit_code_is_same(const JitCode *code, uint64_t address, uint64_t first, uint64_t last) {
        const Piece *piece = find(code, address, last);

        return piece && piece->name != NO_NAME && piece->time <= first;
}

const char *jit_code_find_line(const JitCode *code, uint64_t address, uint64_t time, uint32_t *ret_line) {
        const Piece *piece = code->n_lines > 0 ? find(code, address, time) : NULL; /* few JITs tell any */
        const JitLine *lines;
        size_t low = 0, high;

        if (!piece || piece->n_lines == 0)
                return NULL;
        lines = code->lines + piece->first_line;
        high = piece->n_lines;
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (lines[middle].offset <= address - piece->start)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0)
                return NULL;
        *ret_line = lines[low - 1].line;
        return code->names + lines[low - 1].file;
}

void jit_code_get_span(const JitCode *code, uint64_t time, uint64_t *ret_from, uint64_t *ret_until) {
        size_t low = 0, high = code->n_changes;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (code->changes[middle] <= time)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret_from = low == 0 ? 0 : code->changes[low - 1];
        *ret_until = low == code->n_changes ? UINT64_MAX : code->changes[low];
}

uint64_t jit_code_get_last_time(const JitCode *code) {
        return code->n > 0 ? code->pieces[code->n - 1].time : 0;
}
