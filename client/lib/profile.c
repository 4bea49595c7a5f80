/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows and trees, from a snapshot of a recording. All work is per distinct stack, not per sample.
 * What is asked for is computed once and kept.
 */

#include <string.h>

#include "call-tree.h"
#include "error.h"
#include "function-code.h"
#include "functions.h"
#include "ringside.h"
#include "snapshot.h"

#define N_GROUPS (RINGSIDE_BY_LINE + 1)
#define NO_TARGET "[no target]"

typedef struct Truncations {
        RingsideTruncation *items;
        size_t n;
        bool done;
} Truncations;

typedef struct Rows {
        RingsideRow *items;
        size_t n;
        bool done;
} Rows;

/* A line of a function's. */
typedef struct FunctionLine {
        uint32_t function, source, line;
} FunctionLine;

typedef struct FunctionLines {
        FunctionLine *items;
        size_t n, allocated;
        Table known; /* number + 1 */
} FunctionLines;

struct RingsideProfile {
        Snapshot snapshot;
        Functions functions;
        FunctionLines lines;
        Rows rows[N_GROUPS];
        Truncations truncations;
        CallTree callees, callers;
        const RingsideNode *callees_root, *callers_root;
        FunctionCode code; /* that was asked for last */
};

DEFINE_CLEANUP(RingsideProfile, ringside_profile_free)

int ringside_profile_new(RingsideProfile **ret, RingsideRecording *recording, const RingsideFilter *filter,
                         RingsideError *error) {
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = calloc(1, sizeof(RingsideProfile));
        int r;

        if (!profile)
                return error_set(error, -ENOMEM, NULL, "Out of memory");
        r = snapshot_load(&profile->snapshot, recording, filter, error);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(profile);
        return 0;
}

RingsideProfile *ringside_profile_free(RingsideProfile *profile) {
        if (!profile)
                return NULL;
        for (size_t i = 0; i < N_GROUPS; i++)
                free(profile->rows[i].items);
        free(profile->truncations.items);
        call_tree_done(&profile->callees);
        call_tree_done(&profile->callers);
        function_code_done(&profile->code);
        functions_done(&profile->functions);
        free(profile->lines.items);
        table_done(&profile->lines.known);
        snapshot_done(&profile->snapshot);
        free(profile);
        return NULL;
}

uint64_t ringside_profile_get_samples(RingsideProfile *profile) {
        return profile->snapshot.samples;
}

uint64_t ringside_profile_get_weight(RingsideProfile *profile) {
        return profile->snapshot.weight;
}

uint64_t ringside_profile_get_truncated(RingsideProfile *profile) {
        return profile->snapshot.truncated;
}

uint64_t ringside_profile_get_guessed(RingsideProfile *profile) {
        return profile->snapshot.guessed;
}

/* ---- rows ---- */

static void row_add_self(RingsideRow *row, const SnapshotSum *sum) {
        row->self_samples = add_saturated(row->self_samples, sum->samples);
        row->self_weight = add_saturated(row->self_weight, sum->weight);
}

static void row_add_total(RingsideRow *row, const SnapshotSum *sum) {
        row->total_samples = add_saturated(row->total_samples, sum->samples);
        row->total_weight = add_saturated(row->total_weight, sum->weight);
}

/* What a frame counts for: a number below the group's number of rows, or -1 for nothing. 0 or -ENOMEM. */
typedef int (*GroupFunc)(RingsideProfile *profile, uint32_t frame, int64_t *ret);

static int function_of_frame(RingsideProfile *profile, uint32_t frame, int64_t *ret) {
        uint32_t function;
        int r = functions_get(&profile->functions, &profile->snapshot, frame, &function);

        if (r >= 0)
                *ret = function;
        return r;
}

static int line_of_frame(RingsideProfile *profile, uint32_t frame, int64_t *ret) {
        const SnapshotFrame *f = &profile->snapshot.frames[frame];
        FunctionLine line = { .source = f->source, .line = f->line };
        FunctionLines *lines = &profile->lines;
        TableKey key;
        uint64_t known;
        int r;

        r = functions_get(&profile->functions, &profile->snapshot, frame, &line.function);
        if (r < 0)
                return r;
        key = (TableKey){ line.function, line.source, line.line };
        known = table_get(&lines->known, key);
        if (known == 0) {
                if (lines->n == lines->allocated) {
                        size_t allocated = MAX(lines->allocated * 2, (size_t) 256);
                        FunctionLine *items = reallocarray(lines->items, allocated, sizeof(FunctionLine));

                        if (!items)
                                return -ENOMEM;
                        lines->items = items;
                        lines->allocated = allocated;
                }
                known = lines->n + 1;
                r = table_put(&lines->known, key, known);
                if (r < 0)
                        return r;
                lines->items[lines->n++] = line;
        }
        *ret = (int64_t) known - 1;
        return 0;
}

static int file_of_frame(RingsideProfile *profile, uint32_t frame, int64_t *ret) {
        uint32_t file = profile->snapshot.frames[frame].file;

        *ret = file > 0 ? (int64_t) file : -1;
        return 0;
}

/* Several: with one, its name is in the head of the recording and not wherever there is room. */
static bool has_targets(const Snapshot *s) {
        return s->n_targets > 2 && !s->merged;
}

static const char *target_name(const Snapshot *s, uint32_t target) {
        return target > 0 ? s->targets[target].name : NO_TARGET;
}

/* Of one target's samples. seen[i] is the last sum that counted for row i, so that recursion counts once. */
static int count_frames(RingsideProfile *profile, GroupFunc group, uint32_t target, RingsideRow *rows, size_t *seen) {
        const Snapshot *s = &profile->snapshot;
        int r;

        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];
                uint32_t stack = sum->stack;
                bool innermost = true;

                if (has_targets(s) && sum->target != target)
                        continue;
                do {
                        int64_t row;

                        r = group(profile, s->stacks[stack].frame, &row);
                        if (r < 0)
                                return r;
                        if (row >= 0 && innermost)
                                row_add_self(&rows[row], sum);
                        if (row >= 0 && seen[row] != i + 1) {
                                seen[row] = i + 1;
                                row_add_total(&rows[row], sum);
                        }
                        innermost = false;
                        stack = s->stacks[stack].parent;
                } while (stack > 0);
        }
        return 0;
}

/* The functions, or lines, of every stack are looked up first, so that their number is known. */
static int find_groups(RingsideProfile *profile, GroupFunc group) {
        const Snapshot *s = &profile->snapshot;
        _cleanup_free_ bool *done = calloc(s->n_stacks, sizeof(bool));
        int64_t number;
        int r;

        if (!done)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_sums; i++)
                for (uint32_t stack = s->sums[i].stack; !done[stack]; stack = s->stacks[stack].parent) {
                        r = group(profile, s->stacks[stack].frame, &number);
                        if (r < 0)
                                return r;
                        done[stack] = true;
                }
        return 0;
}

static void name_function(RingsideProfile *profile, size_t i, RingsideRow *row) {
        const Function *f = &profile->functions.items[i];

        row->name = f->name;
        row->file = f->file;
        row->kernel = f->kernel;
        row->inlined = f->inlined;
        row->source = "";
}

static void name_line(RingsideProfile *profile, size_t i, RingsideRow *row) {
        const FunctionLine *line = &profile->lines.items[i];

        name_function(profile, line->function, row);
        if (line->source > 0)
                row->source = profile->snapshot.sources[line->source];
        row->line = line->line;
}

static void name_file(RingsideProfile *profile, size_t i, RingsideRow *row) {
        row->name = profile->snapshot.files[i].path;
        row->file = row->source = "";
        row->kernel = strcmp(row->name, "[kernel]") == 0;
}

typedef void (*NameFunc)(RingsideProfile *profile, size_t i, RingsideRow *row);

/* Those of n that one target's samples counted for, behind what rows has. */
static int add_rows_of_target(RingsideProfile *profile, GroupFunc group, NameFunc name, size_t n, uint32_t target,
                              Rows *rows) {
        _cleanup_free_ RingsideRow *counted = calloc(MAX(n, (size_t) 1), sizeof(RingsideRow));
        _cleanup_free_ size_t *seen = calloc(MAX(n, (size_t) 1), sizeof(size_t));
        RingsideRow *all;
        size_t kept = 0;
        int r;

        if (!counted || !seen)
                return -ENOMEM;
        r = count_frames(profile, group, target, counted, seen);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (counted[i].total_samples == 0)
                        continue;
                name(profile, i, &counted[i]);
                counted[i].target = has_targets(&profile->snapshot) ? target_name(&profile->snapshot, target) : "";
                counted[i].id = -1;
                counted[kept++] = counted[i];
        }
        if (kept == 0)
                return 0;
        all = reallocarray(rows->items, rows->n + kept, sizeof(RingsideRow));
        if (!all)
                return -ENOMEM;
        memcpy(all + rows->n, counted, kept * sizeof(RingsideRow));
        rows->items = all;
        rows->n += kept;
        return 0;
}

/* A row for each function or file, and target where there are several. */
static int rows_by_frame(RingsideProfile *profile, GroupFunc group, NameFunc name, size_t n, Rows *ret) {
        const Snapshot *s = &profile->snapshot;
        _cleanup_free_ bool *sampled = calloc(s->n_targets, sizeof(bool));
        int r = 0;

        if (!sampled)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_sums; i++)
                sampled[has_targets(s) ? s->sums[i].target : 0] = true;
        for (size_t i = 0; i < s->n_targets && r >= 0; i++)
                if (sampled[i])
                        r = add_rows_of_target(profile, group, name, n, i, ret);
        return r;
}

static int rows_by_function(RingsideProfile *profile, Rows *ret) {
        int r = find_groups(profile, function_of_frame);

        return r < 0 ? r : rows_by_frame(profile, function_of_frame, name_function, profile->functions.n, ret);
}

static int rows_by_line(RingsideProfile *profile, Rows *ret) {
        int r = find_groups(profile, line_of_frame);

        return r < 0 ? r : rows_by_frame(profile, line_of_frame, name_line, profile->lines.n, ret);
}

static int rows_by_file(RingsideProfile *profile, Rows *ret) {
        return rows_by_frame(profile, file_of_frame, name_file, profile->snapshot.n_files, ret);
}

/* A row for each process or thread, and target: what moves from one to another is in both. */
static int rows_by_process_or_thread(RingsideProfile *profile, bool by_thread, Rows *ret) {
        const Snapshot *s = &profile->snapshot;
        _cleanup_free_ RingsideRow *rows = calloc(MAX(s->n_sums, (size_t) 1), sizeof(RingsideRow));
        _cleanup_(table_done) Table known = {};
        size_t n = 0;

        if (!rows)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];
                const SnapshotThread *thread = &s->threads[sum->thread];
                const SnapshotProcess *process = &s->processes[thread->process];
                TableKey key = { by_thread ? sum->thread : thread->process, has_targets(s) ? sum->target : 0, 0 };
                uint64_t row = table_get(&known, key);

                if (row == 0) {
                        rows[n++] = (RingsideRow){
                                .name = by_thread ? thread->comm : process->comm,
                                .file = "",
                                .source = "",
                                .target = has_targets(s) ? target_name(s, sum->target) : "",
                                .id = by_thread ? thread->tid : process->pid,
                                .inner_id = by_thread ? 0 : process->inner_pid,
                        };
                        row = n;
                        if (table_put(&known, key, row) < 0)
                                return -ENOMEM;
                }
                row_add_self(&rows[row - 1], sum);
                row_add_total(&rows[row - 1], sum);
        }
        ret->items = TAKE_PTR(rows);
        ret->n = n;
        return 0;
}

static int rows_by_target(RingsideProfile *profile, Rows *ret) {
        const Snapshot *s = &profile->snapshot;
        RingsideRow *rows = calloc(s->n_targets, sizeof(RingsideRow));

        if (!rows)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_targets; i++)
                rows[i] = (RingsideRow){ .name = target_name(s, i), .file = "", .source = "", .target = "", .id = -1 };
        for (size_t i = 0; i < s->n_sums; i++) {
                row_add_self(&rows[s->sums[i].target], &s->sums[i]);
                row_add_total(&rows[s->sums[i].target], &s->sums[i]);
        }
        ret->items = rows;
        ret->n = s->n_targets;
        return 0;
}

static int compare_rows(const void *a, const void *b) {
        const RingsideRow *x = a, *y = b;
        int c;

        if (x->self_weight != y->self_weight)
                return x->self_weight > y->self_weight ? -1 : 1;
        if (x->total_weight != y->total_weight)
                return x->total_weight > y->total_weight ? -1 : 1;
        c = strcmp(x->name, y->name);
        if (c == 0)
                c = strcmp(x->file, y->file);
        if (c == 0)
                c = strcmp(x->target, y->target);
        if (c == 0)
                c = strcmp(x->source, y->source);
        if (c == 0)
                c = x->line < y->line ? -1 : x->line > y->line;
        if (c == 0)
                c = x->inlined - y->inlined;
        return c != 0 ? c : x->id < y->id ? -1 : x->id > y->id;
}

/* Rows nothing counted for are not shown. */
static size_t drop_empty(RingsideRow *rows, size_t n) {
        size_t kept = 0;

        for (size_t i = 0; i < n; i++)
                if (rows[i].total_samples > 0)
                        rows[kept++] = rows[i];
        return kept;
}

int ringside_profile_get_rows(RingsideProfile *profile, enum RingsideGroup group, const RingsideRow **ret_rows,
                              size_t *ret_n) {
        Rows *rows;
        int r;

        if ((unsigned) group >= N_GROUPS)
                return RINGSIDE_E_INVALID;
        rows = &profile->rows[group];
        if (!rows->done) {
                if (group == RINGSIDE_BY_FUNCTION)
                        r = rows_by_function(profile, rows);
                else if (group == RINGSIDE_BY_FILE)
                        r = rows_by_file(profile, rows);
                else if (group == RINGSIDE_BY_LINE)
                        r = rows_by_line(profile, rows);
                else if (group == RINGSIDE_BY_TARGET)
                        r = rows_by_target(profile, rows);
                else
                        r = rows_by_process_or_thread(profile, group == RINGSIDE_BY_THREAD, rows);
                if (r < 0) {
                        free(rows->items);
                        *rows = (Rows){};
                        return r;
                }
                rows->n = drop_empty(rows->items, rows->n);
                if (rows->n > 1)
                        qsort(rows->items, rows->n, sizeof(RingsideRow), compare_rows);
                rows->done = true;
        }
        *ret_rows = rows->items;
        *ret_n = rows->n;
        return 0;
}

/* ---- what was cut short ---- */

/* The outermost frame below [truncated]; 0: there is none. */
static uint32_t outermost_frame(const Snapshot *s, uint32_t stack) {
        uint32_t frame = 0;

        for (; s->stacks[stack].parent > 0; stack = s->stacks[stack].parent)
                frame = s->stacks[stack].frame;
        return frame;
}

static int compare_truncations(const void *a, const void *b) {
        const RingsideTruncation *x = a, *y = b;
        int c;

        if (x->weight != y->weight)
                return x->weight > y->weight ? -1 : 1;
        c = strcmp(x->file, y->file);
        return c != 0 ? c : (int) x->end - (int) y->end;
}

static int find_truncations(RingsideProfile *profile, Truncations *ret) {
        const Snapshot *s = &profile->snapshot;
        _cleanup_free_ RingsideTruncation *items = calloc(MAX(s->n_sums, (size_t) 1), sizeof(*items));
        _cleanup_(table_done) Table known = {};
        size_t n = 0;

        if (!items)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];
                const SnapshotFrame *frame;
                RingsideTruncation *t;
                uint64_t index;

                if (!s->stacks[sum->stack].truncated)
                        continue;
                frame = &s->frames[outermost_frame(s, sum->stack)];
                index = table_get(&known, (TableKey){ frame->file, sum->walk_end, 0 });
                if (index == 0) {
                        index = ++n;
                        items[index - 1] = (RingsideTruncation){
                                .end = (enum RingsideWalkEnd) sum->walk_end,
                                .file = frame->file > 0 ? s->files[frame->file].path : "",
                                .kernel = frame->kernel,
                        };
                        if (table_put(&known, (TableKey){ frame->file, sum->walk_end, 0 }, index) < 0)
                                return -ENOMEM;
                }
                t = &items[index - 1];
                t->samples = add_saturated(t->samples, sum->samples);
                t->weight = add_saturated(t->weight, sum->weight);
        }
        if (n > 1)
                qsort(items, n, sizeof(*items), compare_truncations);
        *ret = (Truncations){ .items = TAKE_PTR(items), .n = n, .done = true };
        return 0;
}

int ringside_profile_get_truncations(RingsideProfile *profile, const RingsideTruncation **ret, size_t *ret_n) {
        int r;

        if (!profile->truncations.done) {
                r = find_truncations(profile, &profile->truncations);
                if (r < 0)
                        return r;
        }
        *ret = profile->truncations.items;
        *ret_n = profile->truncations.n;
        return 0;
}

/* ---- trees ---- */

static int add_child(RingsideProfile *profile, CallTree *tree, uint32_t parent, uint32_t frame, uint32_t *ret) {
        const Function *f;
        uint32_t function;
        int r;

        r = functions_get(&profile->functions, &profile->snapshot, frame, &function);
        if (r < 0)
                return r;
        f = &profile->functions.items[function];
        r = call_tree_child(tree, parent, function, f->name, f->file, f->kernel, ret);
        if (r >= 0)
                tree->nodes[*ret].inlined = f->inlined;
        return r;
}

/* A number for each command, so that processes of one name are one node. */
static int command_key(Table *commands, const char *comm, uint64_t *ret) {
        TableKey key;
        int r;

        r = table_string_key(commands, comm, strlen(comm), &key);
        if (r < 0)
                return r;
        *ret = table_get(commands, key);
        if (*ret == 0) {
                *ret = commands->n + 1;
                r = table_put(commands, key, *ret);
        }
        return r;
}

/* The first level of trees, where there are several. */
static int node_of_target(RingsideProfile *profile, CallTree *tree, const SnapshotSum *sum, uint32_t *ret) {
        const char *name = target_name(&profile->snapshot, sum->target);

        return call_tree_child(tree, 0, sum->target, name, "", false, ret);
}

/* The node of a process: below its target, where there are several. */
static int node_of_process(RingsideProfile *profile, Table *commands, const SnapshotSum *sum, uint32_t *ret) {
        const Snapshot *s = &profile->snapshot;
        const char *comm = s->processes[s->threads[sum->thread].process].comm;
        uint32_t parent = 0;
        uint64_t key;
        int r = 0;

        if (has_targets(s))
                r = node_of_target(profile, &profile->callees, sum, &parent);
        if (r >= 0)
                r = command_key(commands, comm, &key);
        if (r >= 0)
                r = call_tree_child(&profile->callees, parent, key, comm, "", false, ret);
        return r;
}

/*
 * The node of a stack below a process's node. nodes remembers those of stacks that were seen, so that
 * each step of the way is taken once.
 */
static int node_of_stack(RingsideProfile *profile, Table *nodes, uint32_t process_node, uint32_t stack, uint32_t *ret) {
        const Snapshot *s = &profile->snapshot;
        uint32_t path[SNAPSHOT_DEPTH_MAX], n = 0, node = process_node;
        int r;

        if (stack == 0)
                return add_child(profile, &profile->callees, process_node, 0, ret);
        for (; stack > 0; stack = s->stacks[stack].parent) {
                uint64_t known = table_get(nodes, (TableKey){ process_node, stack, 0 });

                if (known > 0) {
                        node = known;
                        break;
                }
                path[n++] = stack;
        }
        /* What calls the function that was asked for, where it is called first; a known node is not above that. */
        while (s->chosen && stack == 0 && n > 0 && !s->chosen[s->stacks[path[n - 1]].frame])
                n--;
        while (n-- > 0) {
                r = add_child(profile, &profile->callees, node, s->stacks[path[n]].frame, &node);
                if (r >= 0)
                        r = table_put(nodes, (TableKey){ process_node, path[n], 0 }, node);
                if (r < 0)
                        return r;
        }
        *ret = node;
        return 0;
}

static void node_add_self(CallNode *node, const SnapshotSum *sum) {
        node->self_samples = add_saturated(node->self_samples, sum->samples);
        node->self_weight = add_saturated(node->self_weight, sum->weight);
}

static int build_callees(RingsideProfile *profile, Table *commands, Table *nodes) {
        const Snapshot *s = &profile->snapshot;
        CallTree *tree = &profile->callees;
        int r;

        r = call_tree_init(tree, "all");
        for (size_t i = 0; i < s->n_sums && r >= 0; i++) {
                const SnapshotSum *sum = &s->sums[i];
                uint32_t process_node, node;

                r = node_of_process(profile, commands, sum, &process_node);
                if (r >= 0)
                        r = node_of_stack(profile, nodes, process_node, sum->stack, &node);
                if (r < 0)
                        return r;
                node_add_self(&tree->nodes[node], sum);
        }
        if (r < 0)
                return r;
        call_tree_sum_up(tree);
        return call_tree_freeze(tree, &profile->callees_root);
}

int ringside_profile_get_callees(RingsideProfile *profile, const RingsideNode **ret_root) {
        _cleanup_(table_done) Table commands = {}, nodes = {};
        int r;

        if (!profile->callees_root) {
                r = build_callees(profile, &commands, &nodes);
                if (r < 0) {
                        call_tree_done(&profile->callees);
                        return r;
                }
        }
        *ret_root = profile->callees_root;
        return 0;
}

static void node_add_total(CallNode *node, const SnapshotSum *sum) {
        node->total_samples = add_saturated(node->total_samples, sum->samples);
        node->total_weight = add_saturated(node->total_weight, sum->weight);
}

/* Totals are added on the way up: a caller has no samples of its own here, only the leaf has. */
static int build_callers(RingsideProfile *profile) {
        const Snapshot *s = &profile->snapshot;
        CallTree *tree = &profile->callers;
        int r;

        r = call_tree_init(tree, "all");
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->n_sums; i++) {
                const SnapshotSum *sum = &s->sums[i];
                uint32_t stack = sum->stack, node = 0;
                bool leaf = true;

                node_add_total(&tree->nodes[0], sum);
                /* What the function that was asked for calls, where it is called last. */
                while (s->chosen && !s->chosen[s->stacks[stack].frame]) {
                        leaf = false;
                        stack = s->stacks[stack].parent;
                }
                if (has_targets(s)) {
                        r = node_of_target(profile, tree, sum, &node);
                        if (r < 0)
                                return r;
                        node_add_total(&tree->nodes[node], sum);
                }
                do {
                        r = add_child(profile, tree, node, s->stacks[stack].frame, &node);
                        if (r < 0)
                                return r;
                        node_add_total(&tree->nodes[node], sum);
                        if (leaf)
                                node_add_self(&tree->nodes[node], sum);
                        leaf = false;
                        stack = s->stacks[stack].parent;
                } while (stack > 0);
        }
        return call_tree_freeze(tree, &profile->callers_root);
}

int ringside_profile_get_callers(RingsideProfile *profile, const RingsideNode **ret_root) {
        int r;

        if (!profile->callers_root) {
                r = build_callers(profile);
                if (r < 0) {
                        call_tree_done(&profile->callers);
                        return r;
                }
        }
        *ret_root = profile->callers_root;
        return 0;
}

/* ---- instructions ---- */

int ringside_profile_get_code(RingsideProfile *profile, const char *function, const RingsideCodeOptions *options,
                              const RingsideCode **ret, size_t *ret_n) {
        int r;

        function_code_done(&profile->code);
        r = function_code_get(&profile->code, &profile->snapshot, &profile->functions, function, options);
        if (r < 0)
                return r;
        *ret = profile->code.codes;
        *ret_n = profile->code.n;
        return 0;
}
