/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reports for programs. The keys are documented in ringside-report(1) and only ever added to: "version"
 * grows when one changes its meaning. Times are nanoseconds, weights in units of the event.
 */

#include <string.h>

#include "json.h"
#include "report-tree.h"
#include "report-unwind.h"
#include "summary.h"

#define FORMAT_VERSION 1

#define TRY(expression)                                                                                                \
        do {                                                                                                           \
                int try_result_ = (expression);                                                                        \
                if (try_result_ < 0)                                                                                   \
                        return try_result_;                                                                            \
        } while (false)

static int add_strings(struct json_object *object, const char *key, const char *const *strings, unsigned n) {
        struct json_object *array = json_object_new_array();

        TRY(json_add(object, key, array));
        for (unsigned i = 0; i < n; i++)
                TRY(json_append_string(array, strings[i]));
        return 0;
}

static int add_recording(struct json_object *object, const View *view) {
        const RingsideRecordingInfo *info = view->info;
        struct json_object *recording = json_object_new_object();
        char ended[384];

        TRY(json_add(object, "recording", recording));
        TRY(json_add_string(recording, "path", view->path));
        TRY(json_add_string(recording, "command", info->command));
        TRY(add_strings(recording, "targets", info->targets, info->n_targets));
        TRY(add_strings(recording, "labels", info->labels, info->n_labels));
        TRY(json_add_string(recording, "hostname", info->hostname));
        TRY(json_add_string(recording, "kernel", info->kernel));
        TRY(json_add_string(recording, "grant", info->grant));
        TRY(json_add_string(recording, "scope", info->scope));
        TRY(json_add_string(recording, "kernel_frames", info->kernel_frames));
        TRY(json_add_string(recording, "unwind", info->unwind));
        TRY(json_add_u64(recording, "cpus", info->n_cpus));
        TRY(json_add(recording, "start_realtime_ns", json_object_new_int64(info->start_realtime)));
        TRY(json_add_u64(recording, "duration_ns", info->duration));
        TRY(json_add_bool(recording, "finished", info->finished));
        TRY(json_add_string(recording, "ended", summary_ended_text(ended, sizeof(ended), info) ? ended : ""));
        TRY(json_add(recording, "exit_status", json_object_new_int(info->exit_status)));
        TRY(json_add_u64(recording, "samples", info->samples));
        TRY(json_add_u64(recording, "lost", summary_lost(info)));
        TRY(json_add_u64(recording, "never_taken", summary_never_taken(info)));
        TRY(json_add_u64(recording, "missed_ns", info->statistics.missed));
        TRY(json_add_u64(recording, "tables_refused", info->statistics.tables_refused));
        TRY(json_add_u64(recording, "tables_no_room", info->statistics.tables_no_room));
        TRY(json_add_u64(recording, "rules_no_room", info->statistics.rules_no_room));
        TRY(json_add_u64(recording, "processes_no_room", info->statistics.processes_no_room));
        TRY(json_add_u64(recording, "tables_lost", info->statistics.tables_lost));
        TRY(json_add_u64(recording, "untracked", info->statistics.untracked));
        TRY(json_add_u64(recording, "names_refused", info->names_refused));
        return json_add_u64(recording, "truncated", info->truncated);
}

static int add_event(struct json_object *object, const View *view) {
        const RingsideEvent *e = report_event(view);
        struct json_object *event;

        if (!e)
                return 0;
        event = json_object_new_object();
        TRY(json_add(object, "event", event));
        TRY(json_add_string(event, "name", e->name));
        TRY(json_add_string(event, "unit", e->unit));
        return json_add_u64(event, e->by_period ? "period" : "frequency_hz", e->value);
}

static int add_filter(struct json_object *object, const View *view) {
        struct json_object *filter = json_object_new_object();

        TRY(json_add(object, "filter", filter));
        if (view->filter.process)
                TRY(json_add_string(filter, "process", view->filter.process));
        if (view->filter.thread)
                TRY(json_add_string(filter, "thread", view->filter.thread));
        if (view->filter.target)
                TRY(json_add_string(filter, "target", view->filter.target));
        if (view->filter.merge_targets)
                TRY(json_add_bool(filter, "merge_targets", true));
        if (view->filter.no_inline)
                TRY(json_add_bool(filter, "no_inline", true));
        if (view->filter.fold_parts)
                TRY(json_add_bool(filter, "fold_parts", true));
        if (view->filter.function)
                TRY(json_add_string(filter, "function", view->filter.function));
        if (view->filter.since > 0)
                TRY(json_add_u64(filter, "since_ns", view->filter.since));
        if (view->filter.until > 0)
                TRY(json_add_u64(filter, "until_ns", view->filter.until));
        if (view->filter.mode != RINGSIDE_MODE_ANY)
                TRY(json_add_string(filter, "mode", view->filter.mode == RINGSIDE_MODE_USER ? "user" : "kernel"));
        return 0;
}

static int add_values(struct json_object *o, uint64_t self_samples, uint64_t total_samples, uint64_t self_weight,
                      uint64_t total_weight) {
        TRY(json_add_u64(o, "self_samples", self_samples));
        TRY(json_add_u64(o, "total_samples", total_samples));
        TRY(json_add_u64(o, "self_weight", self_weight));
        return json_add_u64(o, "total_weight", total_weight);
}

static int add_row(struct json_object *array, const RingsideRow *row) {
        struct json_object *o = json_object_new_object();

        TRY(json_append(array, o));
        TRY(json_add_string(o, "name", row->name));
        TRY(json_add_string(o, "file", row->file));
        if (row->id >= 0)
                TRY(json_add_u64(o, "id", (uint64_t) row->id));
        if (row->inner_id > 0)
                TRY(json_add_u64(o, "inner_id", (uint64_t) row->inner_id));
        if (row->target[0])
                TRY(json_add_string(o, "target", row->target));
        TRY(json_add_bool(o, "kernel", row->kernel));
        if (row->inlined)
                TRY(json_add_bool(o, "inlined", true));
        if (row->line > 0) {
                TRY(json_add_string(o, "source", row->source));
                TRY(json_add_u64(o, "line", row->line));
        }
        return add_values(o, row->self_samples, row->total_samples, row->self_weight, row->total_weight);
}

static int add_rows(struct json_object *object, const View *view, const ReportOptions *options) {
        _cleanup_free_ const RingsideRow **rows = NULL;
        struct json_object *array = json_object_new_array();
        size_t n, left_out;

        TRY(json_add(object, "rows", array));
        TRY(report_select_rows(view, options, &rows, &n, &left_out));
        for (size_t i = 0; i < n; i++)
                TRY(add_row(array, rows[i]));
        return json_add_u64(object, "left_out", left_out);
}

/* Node by node: a tree can have millions of them, of which each takes a kilobyte as an object. One line each. */
static int print_node(FILE *out, const RingsideNode *node, const View *view, const ReportOptions *options,
                      size_t depth) {
        {
                _cleanup_json_ struct json_object *o = json_object_new_object();

                if (!o)
                        return -ENOMEM;
                TRY(json_add_string(o, "name", node->name));
                TRY(json_add_string(o, "file", node->file));
                TRY(json_add_bool(o, "kernel", node->kernel));
                if (node->inlined)
                        TRY(json_add_bool(o, "inlined", true));
                TRY(add_values(o, node->self_samples, node->total_samples, node->self_weight, node->total_weight));
                TRY(json_print_begin(out, o, "children", false));
        }
        putc('[', out);
        for (size_t i = 0; i < node->n_children && i < options->limit && depth < REPORT_DEPTH_MAX; i++) {
                const RingsideNode *child = node->children[i];

                if (report_share(view, child->total_samples, child->total_weight) < options->threshold)
                        break; /* they are sorted */
                fputs(i == 0 ? "\n" : ",\n", out);
                TRY(print_node(out, child, view, options, depth + 1));
        }
        fputs("]}", out);
        return 0;
}

static int print_tree(FILE *out, struct json_object *object, const View *view, const ReportOptions *options) {
        const RingsideNode *root;

        TRY(options->by == REPORT_CALLEES ? ringside_profile_get_callees(view->profile, &root) :
                                            ringside_profile_get_callers(view->profile, &root));
        TRY(json_print_begin(out, object, "tree", true));
        putc('\n', out);
        TRY(print_node(out, root, view, options, 0));
        fputs("\n}\n", out);
        return 0;
}

static int add_truncated_by(struct json_object *object, const View *view) {
        struct json_object *by = json_object_new_object();
        TruncatedBy n;

        TRY(json_add(object, "truncated_by", by));
        TRY(report_count_truncated(view, n));
        for (size_t i = 0; i < ELEMENTSOF(n); i++)
                if (n[i] > 0)
                        TRY(json_add_u64(by, walk_end_key((enum RingsideWalkEnd) i), n[i]));
        return 0;
}

static int add_truncations(struct json_object *object, const View *view, const ReportOptions *options) {
        struct json_object *array = json_object_new_array();
        const RingsideTruncation *t;
        size_t n, added = 0;

        TRY(json_add(object, "truncations", array));
        TRY(ringside_profile_get_truncations(view->profile, &t, &n));
        for (size_t i = 0; i < n && added < options->limit; i++) {
                struct json_object *o;

                if (report_share(view, t[i].samples, t[i].weight) < options->threshold)
                        continue;
                o = json_object_new_object();
                TRY(json_append(array, o));
                TRY(json_add_string(o, "reason", walk_end_key(t[i].end)));
                TRY(json_add_string(o, "file", t[i].file));
                TRY(json_add_bool(o, "kernel", t[i].kernel));
                TRY(json_add_u64(o, "samples", t[i].samples));
                TRY(json_add_u64(o, "weight", t[i].weight));
                added++;
        }
        return json_add_u64(object, "left_out", n - added);
}

int report_json(FILE *out, const View *view, const ReportOptions *options) {
        _cleanup_json_ struct json_object *object = json_object_new_object();

        if (!object)
                return -ENOMEM;
        TRY(json_add_u64(object, "version", FORMAT_VERSION));
        TRY(json_add_string(object, "by", report_view_name(options->by)));
        TRY(add_recording(object, view));
        TRY(add_event(object, view));
        TRY(add_filter(object, view));
        TRY(json_add_u64(object, "samples", ringside_profile_get_samples(view->profile)));
        TRY(json_add_u64(object, "weight", ringside_profile_get_weight(view->profile)));
        TRY(json_add_u64(object, "truncated", ringside_profile_get_truncated(view->profile)));
        TRY(json_add_u64(object, "guessed", ringside_profile_get_guessed(view->profile)));
        TRY(add_truncated_by(object, view));
        if (options->by >= REPORT_CALLEES && options->by != REPORT_UNWIND)
                return print_tree(out, object, view, options);
        TRY(options->by == REPORT_UNWIND ? add_truncations(object, view, options) : add_rows(object, view, options));
        return json_print(out, object);
}
