/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads the tables in the order in which they refer to each other, so that each reference can be
 * checked at once. Rows are numbered 1, 2, 3, ... (the store does so), which also means that no row is ever
 * read twice, whatever cycle a damaged file has. Samples are summed up here and not by SQL: one pass
 * over the table, and memory for what is distinct instead of a sort of everything.
 */

#include "snapshot.h"

#include <fnmatch.h>
#include <string.h>

#include "branch.h"
#include "dbfile.h"
#include "error.h"
#include "functions.h"
#include "schema.h"
#include "table.h"

/* A number fits 32 bits. The first to run out are those of stacks, in recordings of some four gigabytes. */
#define ID_MAX INT32_MAX

/* A function as it is in the file; its name is the symbol of the same number. */
typedef struct RecordedFunction {
        uint64_t start;
        uint32_t file;
        bool kernel, named;
} RecordedFunction;

/* Frames of a stack that may be inlined functions: a hostile recording has many that are in many. */
#define INLINED_DEPTH_MAX (SNAPSHOT_DEPTH_MAX - 256)
/* And of all stacks. */
#define INLINED_MAX (8U << 20)
/* Functions at one place; the worker tells of no more. */
#define CODE_DEPTH_MAX 64

typedef struct Loader {
        Snapshot *snapshot;
        RingsideRecording *recording;
        const RingsideFilter *filter;
        bool *threads_wanted, *targets_wanted;
        bool *stacks_wanted; /* by number in the snapshot; NULL: all */
        RecordedFunction *functions;
        size_t n_functions; /* element 0 included */
        uint32_t first_routine; /* the symbol of routine 0, if there were one */
        size_t n_routines;
        size_t n_places;   /* frames that the recording has; behind these are inlined ones */
        Table inlined;     /* file, code -> frame */
        size_t n_inlined;  /* stacks */
        uint32_t *stack_of; /* by number in the recording */
        size_t n_recorded;
        Table sums; /* thread, stack, target -> index + 1 */
        size_t n_sums_allocated;
        int64_t last_rowid;
        uint64_t period;
        uint64_t text_left; /* bytes, see take_text() */
        bool overdrawn;
} Loader;

/* Makes room for element *n, which is then part of the array and zero. The first element is "none". */
static int array_extend(void *array, size_t *n, size_t size) {
        void **p = array;
        size_t room = *n < 16 ? 16 : 1UL << (64 - __builtin_clzl(*n - 1)); /* the power of two it was grown to */

        if (!*p || *n == room) {
                void *bigger = reallocarray(*p, !*p ? 16 : room * 2, size);

                if (!bigger)
                        return -ENOMEM;
                *p = bigger;
        }
        memset((uint8_t *) *p + *n * size, 0, size);
        (*n)++;
        return 0;
}

/* Column i as a reference into a table of n rows; NULL is 0 where that is allowed. -1: neither. */
static int64_t row_reference(sqlite3_stmt *row, int i, size_t n, bool null_allowed) {
        int64_t value = row_integer(row, i, 1, (int64_t) n - 1);

        if (value >= 1)
                return value;
        return null_allowed && sqlite3_column_type(row, i) == SQLITE_NULL ? 0 : -1;
}

static bool row_is_next(sqlite3_stmt *row, size_t n) {
        return row_integer(row, 0, 1, ID_MAX) == (int64_t) n;
}

/*
 * Column i, whose bytes are kept. In a damaged file rows may have the same pages for their texts; but each byte is one
 * row's, so all of them are no more than there are in the file.
 */
static bool take_text(Loader *loader, sqlite3_stmt *row, int i) {
        int type = sqlite3_column_type(row, i);
        uint64_t n = type == SQLITE_TEXT || type == SQLITE_BLOB ? sqlite3_column_bytes(row, i) : 0;

        if (n > loader->text_left)
                loader->overdrawn = true;
        else
                loader->text_left -= n;
        return !loader->overdrawn;
}

/* For free(). NULL: see no_string(). */
static char *take_string(Loader *loader, sqlite3_stmt *row, int i) {
        return take_text(loader, row, i) ? row_string(row, i) : NULL;
}

static int no_string(const Loader *loader) {
        return loader->overdrawn ? RINGSIDE_E_RECORDING : -ENOMEM;
}

static int process_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t pid = row_integer(row, 1, 0, UINT32_MAX), inner_pid = row_integer(row, 3, 1, UINT32_MAX);
        SnapshotProcess *process;

        if (!row_is_next(row, s->n_processes) || pid < 0 ||
            (inner_pid < 1 && sqlite3_column_type(row, 3) != SQLITE_NULL))
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->processes, &s->n_processes, sizeof(SnapshotProcess)) < 0)
                return -ENOMEM;
        process = &s->processes[s->n_processes - 1];
        process->pid = pid;
        process->inner_pid = inner_pid;
        process->comm = take_string(loader, row, 2);
        return process->comm ? 0 : no_string(loader);
}

static int thread_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t process = row_reference(row, 1, s->n_processes, false), tid = row_integer(row, 2, 0, UINT32_MAX);
        SnapshotThread *thread;

        if (!row_is_next(row, s->n_threads) || process < 0 || tid < 0)
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->threads, &s->n_threads, sizeof(SnapshotThread)) < 0)
                return -ENOMEM;
        thread = &s->threads[s->n_threads - 1];
        thread->process = process;
        thread->tid = tid;
        thread->comm = take_string(loader, row, 3);
        return thread->comm ? 0 : no_string(loader);
}

static int file_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        RecordedFile *file;

        if (!row_is_next(row, s->n_files))
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->files, &s->n_files, sizeof(RecordedFile)) < 0)
                return -ENOMEM;
        file = &s->files[s->n_files - 1];
        file->path = take_string(loader, row, 1);
        if (!file->path)
                return no_string(loader);
        file->size = MAX(row_integer(row, 2, 0, INT64_MAX), 0);
        file->device = (uint64_t) sqlite3_column_int64(row, 4);
        file->inode = (uint64_t) sqlite3_column_int64(row, 5);
        if (sqlite3_column_type(row, 3) == SQLITE_BLOB) {
                const void *id = sqlite3_column_blob(row, 3);
                size_t len = sqlite3_column_bytes(row, 3);

                if (len > sizeof(file->build_id))
                        return RINGSIDE_E_RECORDING;
                if (len > 0)
                        memcpy(file->build_id, id, len);
                file->build_id_len = len;
        }
        return 0;
}

static int symbol_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;

        if (!row_is_next(row, s->n_symbols))
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->symbols, &s->n_symbols, sizeof(char *)) < 0)
                return -ENOMEM;
        s->symbols[s->n_symbols - 1] = take_string(loader, row, 1);
        return s->symbols[s->n_symbols - 1] ? 0 : no_string(loader);
}

static int function_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t file = row_reference(row, 2, s->n_files, true), kernel = row_integer(row, 4, 0, 1);

        if (file < 0 || kernel < 0 || sqlite3_column_type(row, 3) != SQLITE_INTEGER)
                return RINGSIDE_E_RECORDING;
        if (array_extend(&loader->functions, &loader->n_functions, sizeof(RecordedFunction)) < 0)
                return -ENOMEM;
        loader->functions[loader->n_functions - 1] = (RecordedFunction){
                .start = (uint64_t) sqlite3_column_int64(row, 3),
                .file = file,
                .kernel = kernel,
                .named = sqlite3_column_type(row, 1) != SQLITE_NULL,
        };
        return symbol_row(row, userdata);
}

static int place_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t function = row_reference(row, 1, loader->n_functions, false);
        const RecordedFunction *f;

        if (!row_is_next(row, s->n_frames) || function < 0 || sqlite3_column_type(row, 2) != SQLITE_INTEGER)
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->frames, &s->n_frames, sizeof(SnapshotFrame)) < 0)
                return -ENOMEM;
        f = &loader->functions[function];
        s->frames[s->n_frames - 1] = (SnapshotFrame){
                .file = f->file,
                .symbol = f->named ? function : 0,
                .address = f->start + (uint64_t) sqlite3_column_int64(row, 2),
                .kernel = f->kernel,
        };
        return 0;
}

static int frame_row(sqlite3_stmt *row, void *userdata) {
        Snapshot *s = ((Loader *) userdata)->snapshot;
        int64_t file = row_reference(row, 1, s->n_files, true), symbol = row_reference(row, 3, s->n_symbols, true);
        int64_t kernel = row_integer(row, 4, 0, 1);

        if (!row_is_next(row, s->n_frames) || file < 0 || symbol < 0 || kernel < 0 ||
            sqlite3_column_type(row, 2) != SQLITE_INTEGER)
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->frames, &s->n_frames, sizeof(SnapshotFrame)) < 0)
                return -ENOMEM;
        s->frames[s->n_frames - 1] = (SnapshotFrame){
                .file = file,
                .symbol = symbol,
                .address = (uint64_t) sqlite3_column_int64(row, 2),
                .kernel = kernel,
        };
        return 0;
}

/* ---- where code comes from ---- */

static int source_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;

        if (!row_is_next(row, s->n_sources))
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->sources, &s->n_sources, sizeof(char *)) < 0)
                return -ENOMEM;
        s->sources[s->n_sources - 1] = take_string(loader, row, 1);
        return s->sources[s->n_sources - 1] ? 0 : no_string(loader);
}

static int routine_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;

        if (!row_is_next(row, ++loader->n_routines))
                return RINGSIDE_E_RECORDING;
        if (loader->n_routines == 1)
                loader->first_routine = (uint32_t) s->n_symbols - 1;
        if (array_extend(&s->symbols, &s->n_symbols, sizeof(char *)) < 0)
                return -ENOMEM;
        s->symbols[s->n_symbols - 1] = take_string(loader, row, 1);
        return s->symbols[s->n_symbols - 1] ? 0 : no_string(loader);
}

static int code_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t caller = row_reference(row, 1, MAX(s->n_codes, (size_t) 1), true);
        int64_t routine = row_reference(row, 2, loader->n_routines + 1, true);
        int64_t source = row_reference(row, 3, s->n_sources, true), line = row_integer(row, 4, 0, INT32_MAX);
        SnapshotCode code;

        if (s->n_codes == 0 && array_extend(&s->codes, &s->n_codes, sizeof(SnapshotCode)) < 0)
                return -ENOMEM;
        if (!row_is_next(row, s->n_codes) || caller < 0 || routine < 0 || source < 0 || line < 0)
                return RINGSIDE_E_RECORDING;
        code = (SnapshotCode){
                .caller = caller,
                .symbol = routine > 0 ? loader->first_routine + routine : 0,
                .source = source,
                .line = line,
                .depth = 1 + s->codes[caller].depth,
        };
        if (code.depth > CODE_DEPTH_MAX)
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->codes, &s->n_codes, sizeof(SnapshotCode)) < 0)
                return -ENOMEM;
        s->codes[s->n_codes - 1] = code;
        return 0;
}

/* A place's own function is the last of those that are there: it has that line, and that name if it had none. */
static int place_code_row(sqlite3_stmt *row, void *userdata) {
        Snapshot *s = ((Loader *) userdata)->snapshot;
        int64_t frame = row_reference(row, 0, s->n_frames, false), code = row_reference(row, 1, s->n_codes, false);
        SnapshotFrame *f;
        const SnapshotCode *own;

        if (frame < 0 || code < 0)
                return RINGSIDE_E_RECORDING;
        if (!s->code_of)
                s->code_of = calloc(s->n_frames, sizeof(uint32_t));
        if (!s->code_of)
                return -ENOMEM;
        s->code_of[frame] = code;
        own = &s->codes[code];
        while (own->caller > 0)
                own = &s->codes[own->caller];
        f = &s->frames[frame];
        f->source = own->source;
        f->line = own->line;
        if (f->symbol == 0)
                f->symbol = own->symbol;
        return 0;
}

/* The frame of what is inlined in a file. */
static int inlined_frame(Loader *loader, uint32_t frame, uint32_t code, uint32_t *ret) {
        Snapshot *s = loader->snapshot;
        const SnapshotCode *c = &s->codes[code];
        const SnapshotFrame *place = &s->frames[frame];
        SnapshotFrame inlined = {
                .file = place->file,
                .symbol = c->symbol,
                .address = place->address,
                .source = c->source,
                .line = c->line,
                .kernel = place->kernel,
                .inlined = true,
        };
        TableKey key = { place->file, code, place->kernel };

        *ret = table_get(&loader->inlined, key);
        if (*ret > 0)
                return 0;
        if (array_extend(&s->frames, &s->n_frames, sizeof(SnapshotFrame)) < 0)
                return -ENOMEM;
        s->frames[s->n_frames - 1] = inlined;
        *ret = s->n_frames - 1;
        return table_put(&loader->inlined, key, *ret);
}

/* ---- stacks ---- */

/* The marker under which stacks hang whose beginning is not known. */
static bool frame_is_truncation(const Snapshot *snapshot, uint32_t frame) {
        const SnapshotFrame *f = &snapshot->frames[frame];

        return frame > 0 && f->file == 0 && f->symbol > 0 && strcmp(snapshot->symbols[f->symbol], "[truncated]") == 0;
}

/* *ret: its number in the snapshot. */
static int add_node(Snapshot *s, uint32_t parent, uint32_t frame, uint32_t *ret) {
        SnapshotStack stack = {
                .parent = parent,
                .frame = frame,
                .depth = 1,
                .truncated = frame_is_truncation(s, frame),
        };

        if (parent > 0) {
                stack.truncated = s->stacks[parent].truncated;
                stack.depth = s->stacks[parent].depth + 1;
        }
        if (stack.depth > SNAPSHOT_DEPTH_MAX)
                return RINGSIDE_E_RECORDING;
        if (s->n_stacks > ID_MAX)
                return -EOVERFLOW;
        if (array_extend(&s->stacks, &s->n_stacks, sizeof(SnapshotStack)) < 0)
                return -ENOMEM;
        s->stacks[s->n_stacks - 1] = stack;
        *ret = s->n_stacks - 1;
        return 0;
}

/* What is inlined at a frame calls each other below it; what has no name there is left to its caller. */
static int add_inlined(Loader *loader, uint32_t frame, uint32_t *node) {
        Snapshot *s = loader->snapshot;
        uint32_t chain[CODE_DEPTH_MAX], n = 0;
        int r = 0;

        for (uint32_t code = s->code_of[frame]; s->codes[code].caller > 0; code = s->codes[code].caller)
                if (s->codes[code].symbol > 0)
                        chain[n++] = code;
        if (s->stacks[*node].depth + n > INLINED_DEPTH_MAX || loader->n_inlined + n > INLINED_MAX)
                return 0;
        loader->n_inlined += n;
        while (n-- > 0 && r >= 0) {
                uint32_t inlined;

                r = inlined_frame(loader, frame, chain[n], &inlined);
                if (r >= 0)
                        r = add_node(s, *node, inlined, node);
        }
        return r;
}

/* Both as they are numbered in the recording. */
static int stack_add(Loader *loader, uint32_t parent, uint32_t frame) {
        const Snapshot *s = loader->snapshot;
        uint32_t node;
        int r;

        r = add_node(loader->snapshot, loader->stack_of[parent], frame, &node);
        if (r >= 0 && s->code_of && s->code_of[frame] > 0 && !loader->filter->no_inline)
                r = add_inlined(loader, frame, &node);
        if (r < 0)
                return r;
        if (array_extend(&loader->stack_of, &loader->n_recorded, sizeof(uint32_t)) < 0)
                return -ENOMEM;
        loader->stack_of[loader->n_recorded - 1] = node;
        return 0;
}

/* Rows of frames have been read. */
static int stacks_begin(Loader *loader) {
        if (loader->n_recorded > 0)
                return 0;
        loader->n_places = loader->snapshot->n_frames;
        return array_extend(&loader->stack_of, &loader->n_recorded, sizeof(uint32_t));
}

static int stack_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        int64_t parent, frame;

        if (stacks_begin(loader) < 0)
                return -ENOMEM;
        parent = row_reference(row, 1, loader->n_recorded, true);
        frame = row_reference(row, 2, loader->n_places, false);
        if (!row_is_next(row, loader->n_recorded) || parent < 0 || frame < 0)
                return RINGSIDE_E_RECORDING;
        return stack_add(loader, parent, frame);
}

static int branch_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        int64_t parent, base = row_integer(row, 2, 0, ID_MAX);
        const char *text;
        size_t left;

        if (stacks_begin(loader) < 0)
                return -ENOMEM;
        parent = row_reference(row, 1, loader->n_recorded, true);
        if (!row_is_next(row, loader->n_recorded) || parent < 0 || base < 0 || sqlite3_column_type(row, 3) != SQLITE_TEXT)
                return RINGSIDE_E_RECORDING;
        text = (const char *) sqlite3_column_text(row, 3);
        if (!text)
                return -ENOMEM;
        left = sqlite3_column_bytes(row, 3);
        if (left == 0 || !take_text(loader, row, 3))
                return RINGSIDE_E_RECORDING;
        while (left > 0) {
                uint32_t number;
                size_t n = branch_get(text, left, &number);
                int r;

                if (n == 0 || base + number >= (int64_t) loader->n_places)
                        return RINGSIDE_E_RECORDING;
                r = stack_add(loader, parent, base + number);
                if (r < 0)
                        return r;
                parent = loader->n_recorded - 1;
                text += n;
                left -= n;
        }
        return 0;
}

static int target_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        _cleanup_free_ char *kind = take_string(loader, row, 1);
        SnapshotTarget *target;

        if (!kind)
                return no_string(loader);
        if (!row_is_next(row, s->n_targets))
                return RINGSIDE_E_RECORDING;
        if (array_extend(&s->targets, &s->n_targets, sizeof(SnapshotTarget)) < 0)
                return -ENOMEM;
        target = &s->targets[s->n_targets - 1];
        target->label = take_string(loader, row, 2);
        if (target->label)
                target->name = recording_target_name(kind, target->label);
        return target->name ? 0 : no_string(loader);
}

static uint64_t add(uint64_t a, uint64_t b) {
        uint64_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static int sum_for(Loader *loader, const SnapshotSum *like, SnapshotSum **ret) {
        Snapshot *s = loader->snapshot;
        TableKey key = { like->thread, like->stack, (uint64_t) like->walk_end << 32 | like->target };
        uint64_t index = table_get(&loader->sums, key);
        int r;

        if (index == 0) {
                if (s->n_sums == loader->n_sums_allocated) {
                        size_t allocated = MAX(loader->n_sums_allocated * 2, (size_t) 1024);
                        SnapshotSum *sums = reallocarray(s->sums, allocated, sizeof(SnapshotSum));

                        if (!sums)
                                return -ENOMEM;
                        s->sums = sums;
                        loader->n_sums_allocated = allocated;
                }
                s->sums[s->n_sums++] = *like;
                index = s->n_sums;
                r = table_put(&loader->sums, key, index);
                if (r < 0)
                        return r;
        }
        *ret = &s->sums[index - 1];
        return 0;
}

/* By when it was, and where the CPU was. */
static bool is_wanted(const RingsideFilter *filter, sqlite3_stmt *row, bool kernel) {
        int64_t time = sqlite3_column_int64(row, 7);

        if (filter->mode != RINGSIDE_MODE_ANY && kernel != (filter->mode == RINGSIDE_MODE_KERNEL))
                return false;
        if (filter->since > 0 && (time < 0 || (uint64_t) time < filter->since))
                return false;
        return filter->until == 0 || time < 0 || (uint64_t) time < filter->until;
}

static int sample_row(sqlite3_stmt *row, void *userdata) {
        Loader *loader = userdata;
        Snapshot *s = loader->snapshot;
        int64_t rowid = sqlite3_column_int64(row, 0);
        int64_t thread = row_reference(row, 1, s->n_threads, false), stack = row_reference(row, 3, loader->n_recorded, true);
        int64_t event = row_integer(row, 2, 0, (int64_t) loader->recording->info.n_events - 1);
        int64_t kernel = row_integer(row, 8, 0, 1);
        int64_t target = row_reference(row, 5, s->n_targets, true), walk_end = row_integer(row, 6, 0, INT64_MAX);
        int64_t end = walk_end & ~(int64_t) SCHEMA_WALK_GUESSED;
        uint64_t weight = loader->period;
        SnapshotSum *sum;
        int r;

        if (rowid <= loader->last_rowid || thread < 0 || stack < 0 || event < 0 || target < 0 ||
            walk_end < 0 || kernel < 0)
                return RINGSIDE_E_RECORDING;
        loader->last_rowid = rowid;
        stack = loader->stack_of[stack];
        if (event != s->event || !loader->threads_wanted[thread] || !loader->targets_wanted[target] ||
            (loader->stacks_wanted && !loader->stacks_wanted[stack]) || !is_wanted(loader->filter, row, kernel))
                return 0;
        if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
                if (row_integer(row, 4, 0, INT64_MAX) < 0)
                        return RINGSIDE_E_RECORDING;
                weight = (uint64_t) sqlite3_column_int64(row, 4);
        }
        r = sum_for(loader, &(SnapshotSum){
                                    .thread = thread,
                                    .stack = stack,
                                    .target = s->merged ? 0 : target,
                                    .walk_end = s->stacks[stack].truncated ? MIN(end, RINGSIDE_WALK_END_MAX) : 0,
                            }, &sum);
        if (r < 0)
                return r;
        s->guessed += (walk_end & SCHEMA_WALK_GUESSED) != 0;
        sum->samples++;
        sum->weight = add(sum->weight, weight);
        return 0;
}

/* ---- filters ---- */

static bool matches(const char *pattern, int64_t id, const char *comm) {
        if (!pattern)
                return true;
        if (pattern[0] != 0 && pattern[strspn(pattern, "0123456789")] == 0)
                return strtoll(pattern, NULL, 10) == id;
        return fnmatch(pattern, comm, 0) == 0;
}

static int choose_threads(Loader *loader) {
        const Snapshot *s = loader->snapshot;
        const RingsideFilter *filter = loader->filter;

        loader->threads_wanted = calloc(s->n_threads, sizeof(bool));
        if (!loader->threads_wanted)
                return -ENOMEM;
        for (size_t i = 1; i < s->n_threads; i++) {
                const SnapshotThread *thread = &s->threads[i];
                const SnapshotProcess *process = &s->processes[thread->process];

                loader->threads_wanted[i] = matches(filter->process, process->pid, process->comm) &&
                                            matches(filter->thread, thread->tid, thread->comm);
        }
        return 0;
}

static int choose_targets(Loader *loader) {
        const char *pattern = loader->filter->target;
        const Snapshot *s = loader->snapshot;

        loader->targets_wanted = calloc(s->n_targets, sizeof(bool));
        if (!loader->targets_wanted)
                return -ENOMEM;
        loader->targets_wanted[0] = !pattern;
        for (size_t i = 1; i < s->n_targets; i++) {
                const SnapshotTarget *t = &s->targets[i];

                /* As it is, too: a path or the name of a unit may have brackets and backslashes. */
                loader->targets_wanted[i] = !pattern || strcmp(pattern, t->label) == 0 || strcmp(pattern, t->name) == 0 ||
                                            fnmatch(pattern, t->label, 0) == 0 || fnmatch(pattern, t->name, 0) == 0;
        }
        return 0;
}

/* As it is, too: "name[abi:cxx11]" is no pattern. */
static bool is_name(const char *pattern, const char *name) {
        return strcmp(name, pattern) == 0 || fnmatch(pattern, name, 0) == 0;
}

/* 1: it is the one; 0: another. */
static int is_function(const char *pattern, const char *symbol, bool folded) {
        _cleanup_free_ char *name = NULL;
        int r;

        r = function_name(symbol, folded, &name);
        return r < 0 ? r : is_name(pattern, name);
}

/* The same for code whose function is not known. */
static int is_unnamed(const char *pattern, const Snapshot *s, size_t frame) {
        const SnapshotFrame *f = &s->frames[frame];
        _cleanup_free_ char *name = NULL;

        if (f->symbol > 0 && s->symbols[f->symbol][0] != 0)
                return 0;
        name = function_unnamed(f->file > 0 ? s->files[f->file].path : "", f->address);
        return name ? is_name(pattern, name) : -ENOMEM;
}

/* Of functions that are inlined there and shown as part of it, too. */
static bool is_chosen(const Snapshot *s, const RingsideFilter *filter, size_t frame, const bool *symbols) {
        if (symbols[s->frames[frame].symbol])
                return true;
        if (!filter->no_inline || !s->code_of || s->frames[frame].inlined)
                return false;
        for (uint32_t code = s->code_of[frame]; s->codes[code].caller > 0; code = s->codes[code].caller)
                if (symbols[s->codes[code].symbol])
                        return true;
        return false;
}

static int choose_stacks(Loader *loader) {
        Snapshot *s = loader->snapshot;
        _cleanup_free_ bool *symbols = NULL;

        if (!loader->filter->function)
                return 0;
        symbols = calloc(s->n_symbols, sizeof(bool));
        s->chosen = calloc(s->n_frames, sizeof(bool));
        loader->stacks_wanted = calloc(s->n_stacks, sizeof(bool));
        if (!symbols || !s->chosen || !loader->stacks_wanted)
                return -ENOMEM;
        for (size_t i = 1; i < s->n_symbols; i++) {
                int r = is_function(loader->filter->function, s->symbols[i], s->folded);

                if (r < 0)
                        return r;
                symbols[i] = r > 0;
        }
        for (size_t i = 1; i < s->n_frames; i++) {
                int r = is_unnamed(loader->filter->function, s, i);

                if (r < 0)
                        return r;
                s->chosen[i] = r > 0 || is_chosen(s, loader->filter, i, symbols);
        }
        /* Callers have lower numbers. */
        for (size_t i = 1; i < s->n_stacks; i++)
                loader->stacks_wanted[i] = loader->stacks_wanted[s->stacks[i].parent] || s->chosen[s->stacks[i].frame];
        return 0;
}

/* ---- all of it ---- */

/* "None" in front of every table. */
static int reserve_none(Snapshot *s) {
        if (array_extend(&s->processes, &s->n_processes, sizeof(SnapshotProcess)) < 0 ||
            array_extend(&s->threads, &s->n_threads, sizeof(SnapshotThread)) < 0 ||
            array_extend(&s->files, &s->n_files, sizeof(RecordedFile)) < 0 ||
            array_extend(&s->frames, &s->n_frames, sizeof(SnapshotFrame)) < 0 ||
            array_extend(&s->stacks, &s->n_stacks, sizeof(SnapshotStack)) < 0 ||
            array_extend(&s->targets, &s->n_targets, sizeof(SnapshotTarget)) < 0 ||
            array_extend(&s->sources, &s->n_sources, sizeof(char *)) < 0 ||
            array_extend(&s->symbols, &s->n_symbols, sizeof(char *)) < 0)
                return -ENOMEM;
        return 0;
}

static int main_file_row(sqlite3_stmt *row, void *userdata) {
        Snapshot *s = userdata;

        if (s->main_file == 0)
                s->main_file = MAX(row_reference(row, 0, s->n_files, false), 0);
        return 0;
}

/* What is mapped lowest is the program; negative starts are above user space (vsyscall). */
static int find_main_file(Loader *loader, RingsideError *error) {
        Snapshot *s = loader->snapshot;
        _cleanup_free_ uint64_t *weights = calloc(s->n_processes, sizeof(uint64_t));
        size_t heaviest = 0;
        char sql[128];

        if (!weights)
                return error_set(error, -ENOMEM, NULL, "Out of memory");
        for (size_t i = 0; i < s->n_sums; i++) {
                uint32_t process = s->threads[s->sums[i].thread].process;

                weights[process] = add(weights[process], s->sums[i].weight);
                if (heaviest == 0 || weights[process] > weights[heaviest])
                        heaviest = process;
        }
        (void) snprintf(sql, sizeof(sql), "SELECT file FROM mapping WHERE process=%zu AND start>0 ORDER BY start LIMIT 1", heaviest);
        return recording_query(loader->recording, sql, main_file_row, s, error);
}

static int compare_sums(const void *a, const void *b) {
        const SnapshotSum *x = a, *y = b;

        if (x->thread != y->thread)
                return x->thread < y->thread ? -1 : 1;
        if (x->stack != y->stack)
                return x->stack < y->stack ? -1 : 1;
        if (x->target != y->target)
                return x->target < y->target ? -1 : 1;
        return x->walk_end < y->walk_end ? -1 : x->walk_end > y->walk_end;
}

static void add_up(Snapshot *s) {
        if (s->n_sums > 1)
                qsort(s->sums, s->n_sums, sizeof(SnapshotSum), compare_sums);
        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];

                s->samples += sum->samples;
                s->weight = add(s->weight, sum->weight);
                if (s->stacks[sum->stack].truncated)
                        s->truncated += sum->samples;
        }
}

static int load(Loader *loader, RingsideError *error) {
        static const struct {
                unsigned first, last; /* versions of the format, as in schema.h */
                const char *sql;
                RecordingRowFunc func;
        } tables[] = {
                { 2, 0, "SELECT id,pid,comm,inner_pid FROM process ORDER BY id", process_row },
                { 1, 1, "SELECT id,pid,comm,NULL FROM process ORDER BY id", process_row },
                { 1, 0, "SELECT id,process,tid,comm FROM thread ORDER BY id", thread_row },
                { 1, 0, "SELECT id,path,size,build_id,device,inode FROM file ORDER BY id", file_row },
                { 3, 0, "SELECT id,name,file,start,kernel FROM function ORDER BY id", function_row },
                { 3, 0, "SELECT id,function,offset FROM place ORDER BY id", place_row },
                { 4, 0, "SELECT id,path FROM source ORDER BY id", source_row },
                { 4, 0, "SELECT id,name FROM routine ORDER BY id", routine_row },
                { 4, 0, "SELECT id,caller,routine,source,line FROM code ORDER BY id", code_row },
                { 4, 0, "SELECT place,code FROM place_code", place_code_row },
                { 3, 0, "SELECT id,parent,base,frames FROM branch ORDER BY id", branch_row },
                { 1, 2, "SELECT id,name FROM symbol ORDER BY id", symbol_row },
                { 1, 2, "SELECT id,file,address,symbol,kernel FROM frame ORDER BY id", frame_row },
                { 1, 2, "SELECT id,parent,frame FROM stack ORDER BY id", stack_row },
                { 2, 0, "SELECT id,kind,label FROM target ORDER BY id", target_row },
        };
        unsigned format = loader->recording->info.format;
        int r;

        if (array_extend(&loader->functions, &loader->n_functions, sizeof(RecordedFunction)) < 0)
                return error_set(error, -ENOMEM, NULL, "Out of memory");
        for (size_t i = 0; i < ELEMENTSOF(tables); i++) {
                if (format < tables[i].first || (tables[i].last > 0 && format > tables[i].last))
                        continue;
                r = recording_query(loader->recording, tables[i].sql, tables[i].func, loader, error);
                if (r < 0)
                        return r;
        }
        r = stacks_begin(loader);
        if (r >= 0)
                r = choose_threads(loader);
        if (r >= 0)
                r = choose_targets(loader);
        if (r >= 0)
                r = choose_stacks(loader);
        if (r < 0)
                return error_set(error, r, NULL, "Out of memory");
        r = recording_query(loader->recording,
                            format < 2
                                ? "SELECT rowid,thread,event,stack,weight,NULL,walk_end,time,kernel FROM sample ORDER BY rowid"
                                : "SELECT rowid,thread,event,stack,weight,target,walk_end,time,kernel FROM sample ORDER BY rowid",
                            sample_row, loader, error);
        if (r < 0)
                return r;
        add_up(loader->snapshot);
        return find_main_file(loader, error);
}

int snapshot_load(Snapshot *ret, RingsideRecording *recording, const RingsideFilter *filter, RingsideError *error) {
        _cleanup_(snapshot_done) Snapshot snapshot = {};
        RingsideFilter f = { .event = -1 };
        Loader loader = { .snapshot = &snapshot, .recording = recording, .filter = &f };
        int r;

        if (filter)
                memcpy(&f, filter, MIN(filter->size, sizeof(f)));
        if (f.event >= (int) recording->info.n_events)
                return error_set(error, RINGSIDE_E_INVALID, NULL, "%s has %u events, and no number %d", recording->path,
                                 recording->info.n_events, f.event);
        snapshot.event = f.event < 0 ? 0 : f.event;
        snapshot.recorded = (__int128) recording->info.start_realtime + recording->info.duration;
        snapshot.merged = f.merge_targets;
        snapshot.folded = f.fold_parts;
        loader.period = recording_get_period(recording, snapshot.event);

        r = reserve_none(&snapshot);
        if (r < 0)
                return error_set(error, r, NULL, "Out of memory");
        r = recording_begin(recording, error);
        if (r < 0)
                return r;
        loader.text_left = dbfile_get_size(recording->file);
        r = load(&loader, error);
        recording_end(recording);
        free(loader.functions);
        free(loader.stack_of);
        table_done(&loader.inlined);
        free(loader.threads_wanted);
        free(loader.targets_wanted);
        free(loader.stacks_wanted);
        table_done(&loader.sums);
        if (r < 0)
                return r;
        *ret = snapshot;
        snapshot = (Snapshot){};
        return 0;
}

void snapshot_done(Snapshot *snapshot) {
        for (size_t i = 0; i < snapshot->n_processes; i++)
                free(snapshot->processes[i].comm);
        for (size_t i = 0; i < snapshot->n_threads; i++)
                free(snapshot->threads[i].comm);
        for (size_t i = 0; i < snapshot->n_files; i++)
                free(snapshot->files[i].path);
        for (size_t i = 0; i < snapshot->n_targets; i++) {
                free(snapshot->targets[i].name);
                free(snapshot->targets[i].label);
        }
        for (size_t i = 0; i < snapshot->n_symbols; i++)
                free(snapshot->symbols[i]);
        for (size_t i = 0; i < snapshot->n_sources; i++)
                free(snapshot->sources[i]);
        free(snapshot->processes);
        free(snapshot->threads);
        free(snapshot->files);
        free(snapshot->frames);
        free(snapshot->stacks);
        free(snapshot->targets);
        free(snapshot->symbols);
        free(snapshot->sources);
        free(snapshot->codes);
        free(snapshot->code_of);
        free(snapshot->chosen);
        free(snapshot->sums);
        *snapshot = (Snapshot){};
}
