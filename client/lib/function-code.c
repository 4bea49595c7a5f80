/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * First the symbols around the addresses that samples were at in functions of that name, file by file; then what each
 * of these pieces took; then the instructions of those that took most.
 */

#include "function-code.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

#include "call-tree.h"
#include "disassemble.h"
#include "error.h"
#include "symbol-file.h"

#define TIMEOUT (UINT64_C(20) * 1000000000)
/* Of all pieces together; bytes of text. */
#define INSTRUCTIONS_MAX (1U << 20)
#define TEXT_MAX (64U << 20)

/* Of one code, at the same index. */
typedef struct FunctionPiece {
        uint32_t file;
        Disassembly disassembly;
        RingsideInstruction *instructions;
} FunctionPiece;

typedef struct Counts {
        uint64_t self_samples, total_samples, self_weight, total_weight;
} Counts;

typedef struct Getter {
        const Snapshot *snapshot;
        Functions *functions;
        const char *pattern, *symbol_dir;
        uint64_t deadline; /* ns CLOCK_MONOTONIC */
        bool *sampled, *wanted; /* by frame; wanted: in a function of that name */
        bool *files_wanted; /* by file */
        uint32_t *of_frame; /* number + 1 of what it counts for, 0: nothing */
        FunctionCode code;
        size_t allocated;
        Table known; /* file and start, or file and function -> number + 1 */
} Getter;

void function_code_done(FunctionCode *code) {
        for (size_t i = 0; i < code->n; i++) {
                disassembly_done(&code->pieces[i].disassembly);
                free(code->pieces[i].instructions);
        }
        free(code->pieces);
        free(code->codes);
        *code = (FunctionCode){};
}

static void getter_done(Getter *g) {
        free(g->sampled);
        free(g->wanted);
        free(g->files_wanted);
        free(g->of_frame);
        function_code_done(&g->code);
        table_done(&g->known);
}

/* ---- which frames it is about ---- */

static void find_sampled(Getter *g) {
        const Snapshot *s = g->snapshot;

        for (size_t i = 0; i < s->n_sums; i++)
                for (uint32_t stack = s->sums[i].stack; stack > 0; stack = s->stacks[stack].parent)
                        g->sampled[s->stacks[stack].frame] = true;
}

static int find_wanted(Getter *g) {
        const Snapshot *s = g->snapshot;

        for (uint32_t i = 1; i < s->n_frames; i++) {
                uint32_t function;
                const char *name;
                int r;

                if (!g->sampled[i] || s->frames[i].inlined || s->frames[i].file == 0)
                        continue;
                r = functions_get(g->functions, s, i, &function);
                if (r < 0)
                        return r;
                name = g->functions->items[function].name;
                /* As it is, too: "name[abi:cxx11]" is no pattern. */
                g->wanted[i] = strcmp(name, g->pattern) == 0 || fnmatch(g->pattern, name, 0) == 0;
                if (g->wanted[i])
                        g->files_wanted[s->frames[i].file] = true;
        }
        return 0;
}

/* ---- pieces ---- */

/* Of the function that a frame is in. */
static int add_piece(Getter *g, uint32_t frame, uint64_t start, uint64_t end, uint32_t *ret) {
        uint32_t file = g->snapshot->frames[frame].file, function;
        FunctionCode *code = &g->code;
        int r;

        r = functions_get(g->functions, g->snapshot, frame, &function);
        if (r < 0)
                return r;
        if (code->n == g->allocated) {
                size_t allocated = MAX(2 * g->allocated, (size_t) 16);
                FunctionPiece *pieces = reallocarray(code->pieces, allocated, sizeof(*pieces));
                RingsideCode *codes;

                if (pieces)
                        code->pieces = pieces;
                codes = reallocarray(code->codes, allocated, sizeof(*codes));
                if (codes)
                        code->codes = codes;
                if (!pieces || !codes)
                        return -ENOMEM;
                g->allocated = allocated;
        }
        code->pieces[code->n] = (FunctionPiece){ .file = file };
        code->codes[code->n++] = (RingsideCode){
                .name = g->functions->items[function].name,
                .path = g->snapshot->files[file].path,
                .start = start,
                .end = end,
        };
        *ret = (uint32_t) code->n;
        return 0;
}

/* *ret: number + 1; only a frame that is wanted makes a new one. */
static int find_piece(Getter *g, uint32_t frame, const SymbolTable *symbols, uint32_t *ret) {
        const SnapshotFrame *f = &g->snapshot->frames[frame];
        TableKey key = { .a = f->file };
        uint64_t start = 0, end = 0;
        uint32_t function;
        int r;

        if (symbols && symbol_table_find_range(symbols, f->address, &start, &end)) {
                key.b = start;
                key.c = 1;
        } else {
                r = functions_get(g->functions, g->snapshot, frame, &function);
                if (r < 0)
                        return r;
                key.b = function;
        }
        *ret = (uint32_t) table_get(&g->known, key);
        if (*ret > 0 || !g->wanted[frame])
                return 0;
        r = add_piece(g, frame, start, end, ret);
        return r < 0 ? r : table_put(&g->known, key, *ret);
}

/* r: why there are no instructions. */
static void fail(RingsideCode *code, int r) {
        if (r == -ESTALE)
                (void) error_set(&code->error, r, "Its build id, or its size and inode, are others.",
                                 "%s is not the file that was recorded", code->path);
        else if (r == -ENXIO)
                (void) error_set(&code->error, r, NULL, "What is in %s is in no file, and was not recorded", code->path);
        else if (r == -ENOPKG)
                (void) error_set(&code->error, r, "It is in the package binutils.", "objdump is not installed");
        else if (r == -ENODATA)
                (void) error_set(&code->error, r, NULL, "There is no code that objdump could show in %s", code->path);
        else if (r == -ETIMEDOUT)
                (void) error_set(&code->error, r, NULL, "There was no time to disassemble %s", code->path);
        else if (r == -EFBIG)
                (void) error_set(&code->error, r, NULL, "It is too much code to be shown");
        else if (r == -EBADMSG)
                (void) error_set(&code->error, r, NULL, "%s cannot be made out: it is damaged, or objdump is", code->path);
        else
                (void) error_set(&code->error, r, NULL, "Cannot read %s: %s", code->path, strerror(-r));
}

/* NULL: *ret_why says why. */
static SymbolFile *load_symbols(const Getter *g, uint32_t file, int *ret_why) {
        const RecordedFile *recorded = &g->snapshot->files[file];
        _cleanup_(symbol_file_freep) SymbolFile *symbols = NULL;
        ElfFile *elf;
        int r;

        r = recorded->path[0] != '/' ? -ENXIO : now_ns(CLOCK_MONOTONIC) >= g->deadline ? -ETIMEDOUT : 0;
        if (r >= 0)
                r = symbol_file_new(&symbols, SYMBOL_FILE_ELF, recorded->path);
        if (r >= 0)
                r = recorded_file_open(recorded, g->snapshot->recorded, &elf);
        if (r >= 0) {
                symbol_file_take_elf(symbols, elf);
                r = symbol_file_load(symbols, "/proc", g->symbol_dir);
        }
        *ret_why = r;
        return r < 0 ? NULL : TAKE_PTR(symbols);
}

/* next: of each frame the next one of the same file, 0: none */
static int find_pieces_of_file(Getter *g, uint32_t file, uint32_t first_frame, const uint32_t *next) {
        const Snapshot *s = g->snapshot;
        _cleanup_(symbol_file_freep) SymbolFile *symbols = NULL;
        size_t first = g->code.n;
        int why, r = 0;

        symbols = load_symbols(g, file, &why);
        if (why == -ENOMEM)
                return why;
        /* Whatever else is within them is counted, too, by whichever name it was recorded. */
        for (unsigned round = 0; round < 2; round++)
                for (uint32_t i = first_frame; i > 0 && r >= 0; i = next[i])
                        if (g->sampled[i] && !s->frames[i].inlined &&
                            g->wanted[i] == (round == 0))
                                r = find_piece(g, i, symbols ? symbols->symbols : NULL, &g->of_frame[i]);
        for (size_t i = first; i < g->code.n && r >= 0; i++)
                if (why < 0)
                        fail(&g->code.codes[i], why);
                else if (g->code.codes[i].end == 0)
                        (void) error_set(&g->code.codes[i].error, -ENODATA, NULL, "No symbol of %s says where it begins and ends",
                                         g->code.codes[i].path);
        return r;
}

static int find_pieces(Getter *g) {
        const Snapshot *s = g->snapshot;
        _cleanup_free_ uint32_t *first = calloc(MAX(s->n_files, 1U), sizeof(uint32_t));
        _cleanup_free_ uint32_t *next = calloc(MAX(s->n_frames, 1U), sizeof(uint32_t));
        int r = 0;

        if (!first || !next)
                return -ENOMEM;
        for (uint32_t i = s->n_frames; i-- > 1;) {
                next[i] = first[s->frames[i].file];
                first[s->frames[i].file] = i;
        }
        for (uint32_t i = 1; i < s->n_files && r >= 0; i++)
                if (g->files_wanted[i])
                        r = find_pieces_of_file(g, i, first[i], next);
        return r;
}

/* ---- what they took ---- */

/* By what of_frame numbers. What is inlined is where it is inlined. */
static int count(const Snapshot *s, const uint32_t *of_frame, size_t n, Counts **ret) {
        _cleanup_free_ Counts *counts = calloc(MAX(n, (size_t) 1), sizeof(Counts));
        _cleanup_free_ size_t *seen = calloc(MAX(n, (size_t) 1), sizeof(size_t));

        if (!counts || !seen)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];
                bool innermost = true;

                for (uint32_t stack = sum->stack; stack > 0; stack = s->stacks[stack].parent) {
                        uint32_t frame = s->stacks[stack].frame, number = of_frame[frame];
                        Counts *c = number > 0 ? &counts[number - 1] : NULL;

                        if (s->frames[frame].inlined)
                                continue;
                        if (c && innermost) {
                                c->self_samples = add_saturated(c->self_samples, sum->samples);
                                c->self_weight = add_saturated(c->self_weight, sum->weight);
                        }
                        innermost = false;
                        if (!c || seen[number - 1] == i + 1)
                                continue;
                        seen[number - 1] = i + 1;
                        c->total_samples = add_saturated(c->total_samples, sum->samples);
                        c->total_weight = add_saturated(c->total_weight, sum->weight);
                }
        }
        *ret = TAKE_PTR(counts);
        return 0;
}

typedef struct Ranked {
        RingsideCode code;
        FunctionPiece piece;
        size_t number;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
        const Ranked *x = a, *y = b;

        if (x->code.total_weight != y->code.total_weight)
                return x->code.total_weight > y->code.total_weight ? -1 : 1;
        if (x->code.total_samples != y->code.total_samples)
                return x->code.total_samples > y->code.total_samples ? -1 : 1;
        return x->number < y->number ? -1 : x->number > y->number;
}

/* Sorts them and keeps the first; frames follow. */
static int rank_pieces(Getter *g) {
        FunctionCode *code = &g->code;
        _cleanup_free_ Ranked *ranked = calloc(code->n, sizeof(Ranked));
        _cleanup_free_ uint32_t *now = calloc(code->n, sizeof(uint32_t));
        _cleanup_free_ Counts *counts = NULL;
        int r;

        if (!ranked || !now)
                return -ENOMEM;
        r = count(g->snapshot, g->of_frame, code->n, &counts);
        if (r < 0)
                return r;
        for (size_t i = 0; i < code->n; i++) {
                ranked[i] = (Ranked){ code->codes[i], code->pieces[i], i };
                ranked[i].code.total_samples = counts[i].total_samples;
                ranked[i].code.total_weight = counts[i].total_weight;
        }
        qsort(ranked, code->n, sizeof(*ranked), compare_ranked);
        code->n = MIN(code->n, (size_t) RINGSIDE_CODE_MAX);
        for (size_t i = 0; i < code->n; i++) {
                code->codes[i] = ranked[i].code;
                code->pieces[i] = ranked[i].piece;
                now[ranked[i].number] = (uint32_t) i + 1;
        }
        for (size_t i = 0; i < g->snapshot->n_frames; i++)
                if (g->of_frame[i] > 0)
                        g->of_frame[i] = now[g->of_frame[i] - 1];
        return 0;
}

/* ---- instructions ---- */

static int disassemble_piece(const Getter *g, const RingsideCode *code, FunctionPiece *piece) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        int r;

        r = now_ns(CLOCK_MONOTONIC) >= g->deadline ? -ETIMEDOUT : 0;
        if (r >= 0)
                r = recorded_file_open(&g->snapshot->files[piece->file], g->snapshot->recorded, &elf);
        if (r >= 0)
                r = disassemble(&piece->disassembly, elf_file_get_fd(elf), code->start, code->end, g->deadline);
        return r;
}

/* How many there are before address, or at it. */
static size_t count_until(const Disassembly *d, uint64_t address) {
        size_t low = 0, high = d->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (d->items[middle].address <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static int give_instructions(Getter *g, const size_t *firsts, size_t n) {
        _cleanup_free_ Counts *counts = NULL;
        const Snapshot *s = g->snapshot;
        int r;

        for (size_t i = 0; i < s->n_frames; i++) {
                uint32_t piece = g->of_frame[i];
                size_t before = piece > 0 ? count_until(&g->code.pieces[piece - 1].disassembly, s->frames[i].address) : 0;

                g->of_frame[i] = before > 0 ? (uint32_t) (firsts[piece - 1] + before) : 0;
        }
        r = count(s, g->of_frame, n, &counts);
        if (r < 0)
                return r;
        for (size_t i = 0; i < g->code.n; i++) {
                FunctionPiece *piece = &g->code.pieces[i];
                const Disassembly *d = &piece->disassembly;

                piece->instructions = calloc(MAX(d->n, (size_t) 1), sizeof(RingsideInstruction));
                if (!piece->instructions)
                        return -ENOMEM;
                for (size_t k = 0; k < d->n; k++) {
                        const Counts *c = &counts[firsts[i] + k];

                        piece->instructions[k] = (RingsideInstruction){
                                .address = d->items[k].address,
                                .text = d->text + d->items[k].text,
                                .self_samples = c->self_samples,
                                .total_samples = c->total_samples,
                                .self_weight = c->self_weight,
                                .total_weight = c->total_weight,
                        };
                }
                g->code.codes[i].instructions = piece->instructions;
                g->code.codes[i].n_instructions = d->n;
        }
        return 0;
}

static int find_instructions(Getter *g) {
        size_t firsts[RINGSIDE_CODE_MAX], n = 0, text = 0;

        for (size_t i = 0; i < g->code.n; i++) {
                RingsideCode *code = &g->code.codes[i];
                FunctionPiece *piece = &g->code.pieces[i];
                int r = code->error.code != 0 ? 0 : disassemble_piece(g, code, piece);

                if (r == -ENOMEM)
                        return r;
                if (r >= 0 && (n + piece->disassembly.n > INSTRUCTIONS_MAX || text + piece->disassembly.text_size > TEXT_MAX)) {
                        disassembly_done(&piece->disassembly);
                        r = -EFBIG;
                }
                if (r < 0)
                        fail(code, r);
                firsts[i] = n;
                n += piece->disassembly.n;
                text += piece->disassembly.text_size;
        }
        return give_instructions(g, firsts, n);
}

static int get(Getter *g) {
        const Snapshot *s = g->snapshot;
        int r;

        g->sampled = calloc(s->n_frames, sizeof(bool));
        g->wanted = calloc(s->n_frames, sizeof(bool));
        g->of_frame = calloc(s->n_frames, sizeof(uint32_t));
        g->files_wanted = calloc(s->n_files, sizeof(bool));
        if (!g->sampled || !g->wanted || !g->of_frame || !g->files_wanted)
                return -ENOMEM;
        find_sampled(g);
        r = find_wanted(g);
        if (r >= 0)
                r = find_pieces(g);
        if (r >= 0 && g->code.n > 0)
                r = rank_pieces(g);
        if (r >= 0 && g->code.n > 0)
                r = find_instructions(g);
        return r;
}

int function_code_get(FunctionCode *ret, const Snapshot *snapshot, Functions *functions, const char *function,
                      const RingsideCodeOptions *options) {
        _cleanup_(getter_done) Getter g = { .snapshot = snapshot, .functions = functions, .pattern = function };
        RingsideCodeOptions o = {};
        int r;

        if (options)
                memcpy(&o, options, MIN(options->size, sizeof(o)));
        g.symbol_dir = o.symbol_dir ?: "/usr/lib/debug";
        g.deadline = now_ns(CLOCK_MONOTONIC) + (o.timeout ?: TIMEOUT);
        r = get(&g);
        if (r < 0)
                return r;
        *ret = g.code;
        g.code = (FunctionCode){};
        return 0;
}
