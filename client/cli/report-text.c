/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reports for people: a header, then a table that fits the terminal. Every name is cut in the middle
 * rather than let a line wrap; report-tree.c has the trees.
 */

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "report-tree.h"
#include "report-unwind.h"
#include "summary.h"
#include "text.h"

#define LABEL_COLUMNS 11
#define NUMBER_COLUMNS 28 /* "100.0 %  100.0 %   1234567  " */
#define FILE_COLUMNS 20
#define ID_COLUMNS 9
#define TARGET_COLUMNS 24U /* at most */
#define NAME_COLUMNS 12U   /* what a name has at least, or there are no columns beside it; twice that beside a target's */
#define TARGETS_SHOWN 8U
#define LABELS_SHOWN 32U /* that is all, where `ringside record` has made them */

static void header_line(FILE *out, const Style *style, const char *label, const char *value) {
        _cleanup_free_ char *fitted = text_fit(value, style->columns - LABEL_COLUMNS, style->ellipsis);

        fprintf(out, "%s%-*s%s%s\n", style->bold, LABEL_COLUMNS, label, style->reset, fitted ? fitted : "");
}

static void header_when(FILE *out, const View *view, const Style *style) {
        time_t seconds = (time_t) (view->info->start_realtime / INT64_C(1000000000));
        char line[160], date[40] = "at an unknown time", length[32];
        struct tm tm;

        if (localtime_r(&seconds, &tm))
                (void) strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
        snprintf(line, sizeof(line), "%s, for %s", date, text_duration(length, sizeof(length), view->info->duration));
        header_line(out, style, "Recorded", line);
        /* A line of its own, and short: of a long one the middle would be cut out. */
        if (!view->info->finished)
                header_line(out, style, "", "not finished: cut off, or goes on");
}

/* Why stacks were cut short: as many reasons as two lines hold. */
static void header_truncated(FILE *out, const View *view, const Style *style) {
        size_t room = style->columns - LABEL_COLUMNS;
        char text[512], *second = NULL;

        if (report_truncated_text(view, text, sizeof(text)) < 0 || !text[0])
                return;
        if (strlen(text) > room) {
                for (char *p = text; (p = strchr(p, ',')) && (size_t) (p + 1 - text) <= room; p++)
                        second = p + 1;
                if (second)
                        *second++ = 0;
        }
        header_line(out, style, "Truncated", text);
        if (second)
                header_line(out, style, "", second);
}

static void header_stacks(FILE *out, const View *view, const Style *style) {
        char line[160], guessed[128];

        if (strcmp(view->info->unwind, "table") != 0)
                snprintf(line, sizeof(line), "by frame pointers");
        else if (report_guessed_text(view, guessed, sizeof(guessed)))
                snprintf(line, sizeof(line), "by unwind tables; %s", guessed);
        else
                snprintf(line, sizeof(line), "by unwind tables");
        header_line(out, style, "Stacks", line);
}

static void header_samples(FILE *out, const View *view, const Style *style) {
        uint64_t samples = ringside_profile_get_samples(view->profile);
        uint64_t truncated = ringside_profile_get_truncated(view->profile);
        char line[200];

        snprintf(line, sizeof(line), "%" PRIu64 ", %" PRIu64 " lost, %" PRIu64 " truncated (%.1f %%)", samples,
                 summary_lost(view->info), truncated, text_share(truncated, samples));
        header_line(out, style, "Samples", line);
        header_truncated(out, view, style);
}

static void header_time(FILE *out, const RingsideFilter *filter, const Style *style) {
        char since[32], until[32], line[80];

        text_duration(since, sizeof(since), filter->since);
        text_duration(until, sizeof(until), filter->until);
        if (filter->until > 0)
                snprintf(line, sizeof(line), "%s to %s", since, until);
        else
                snprintf(line, sizeof(line), "from %s on", since);
        header_line(out, style, "Time", line);
}

static void header_filter(FILE *out, const View *view, const Style *style) {
        if (view->filter.process)
                header_line(out, style, "Process", view->filter.process);
        if (view->filter.thread)
                header_line(out, style, "Thread", view->filter.thread);
        if (view->filter.target)
                header_line(out, style, "Target", view->filter.target);
        if (view->filter.function)
                header_line(out, style, "Function", view->filter.function);
        if (view->filter.since > 0 || view->filter.until > 0)
                header_time(out, &view->filter, style);
        if (view->filter.mode != RINGSIDE_MODE_ANY)
                header_line(out, style, "Mode", view->filter.mode == RINGSIDE_MODE_USER ? "user" : "kernel");
}

static bool has_targets(const View *view) {
        return view->info->n_targets > 1 && !view->filter.merge_targets;
}

/* With its share of what is shown, where that is of several. */
static void header_target(FILE *out, const View *view, unsigned i, const Style *style) {
        const char *name = view->info->targets[i], *label = i == 0 ? "Of" : "";
        _cleanup_free_ char *line = NULL;
        const RingsideRow *rows;
        double share = 0;
        size_t n;

        if (!has_targets(view) || view->filter.target ||
            ringside_profile_get_rows(view->profile, RINGSIDE_BY_TARGET, &rows, &n) < 0) {
                header_line(out, style, label, name);
                return;
        }
        for (size_t k = 0; k < n; k++)
                if (strcmp(rows[k].name, name) == 0)
                        share = report_share(view, rows[k].self_samples, rows[k].self_weight);
        if (asprintf(&line, "%5.1f %%  %s", share, name) < 0)
                line = NULL;
        header_line(out, style, label, line ?: name);
}

static void header_command(FILE *out, const View *view, const Style *style) {
        const RingsideRecordingInfo *info = view->info;

        if (info->command[0] || info->n_targets == 0) {
                header_line(out, style, "Command", info->command[0] ? info->command : "all processes of mine, or by PID");
                return;
        }
        for (unsigned i = 0; i < MIN(info->n_targets, TARGETS_SHOWN); i++)
                header_target(out, view, i, style);
        if (info->n_targets > TARGETS_SHOWN)
                header_line(out, style, "", "and more: --by=target shows all of them");
}

static void header_labels(FILE *out, const RingsideRecordingInfo *info, const Style *style) {
        for (unsigned i = 0; i < MIN(info->n_labels, LABELS_SHOWN); i++)
                header_line(out, style, i == 0 ? "Labels" : "", info->labels[i]);
}

static void print_header(FILE *out, const View *view, const Style *style) {
        const RingsideRecordingInfo *info = view->info;
        const RingsideEvent *event = report_event(view);
        const char *advice = summary_frame_pointer_advice(info);
        char line[512], ended[384], never[256], missed[128], untracked[256], hidden[256], names[256];

        header_line(out, style, "Recording", view->path);
        header_command(out, view, style);
        header_labels(out, info, style);
        snprintf(line, sizeof(line), "%s, %u CPUs, %s", info->hostname, info->n_cpus, info->kernel);
        header_line(out, style, "Host", line);
        header_when(out, view, style);
        if (strcmp(info->scope, "system") == 0)
                header_line(out, style, "Scope", "every process, and the kernel's own");
        if (summary_kernel(info))
                header_line(out, style, "Kernel", summary_kernel(info));
        header_stacks(out, view, style);
        header_line(out, style, "Event", event ? summary_event(line, sizeof(line), event) : "none");
        header_filter(out, view, style);
        header_samples(out, view, style);
        fputc('\n', out);
        if (summary_ended_text(ended, sizeof(ended), info)) {
                text_wrap(out, ended, 0, style->columns);
                fputc('\n', out);
        }
        if (summary_never_taken_text(never, sizeof(never), info)) {
                text_wrap(out, never, 0, style->columns);
                fputc('\n', out);
        }
        if (summary_missed_text(missed, sizeof(missed), info)) {
                text_wrap(out, missed, 0, style->columns);
                fputc('\n', out);
        }
        if (summary_untracked_text(untracked, sizeof(untracked), info)) {
                text_wrap(out, untracked, 0, style->columns);
                fputc('\n', out);
        }
        if (summary_hidden_text(hidden, sizeof(hidden), info)) {
                text_wrap(out, hidden, 0, style->columns);
                fputc('\n', out);
        }
        if (summary_names_text(names, sizeof(names), info)) {
                text_wrap(out, names, 0, style->columns);
                fputc('\n', out);
        }
        if (advice) {
                text_wrap(out, advice, 0, style->columns);
                fputc('\n', out);
        }
}

static void print_name(FILE *out, const char *name, size_t columns, bool pad, const Style *style) {
        _cleanup_free_ char *fitted = text_fit(name, columns, style->ellipsis);
        size_t width = fitted ? text_width(fitted) : 0;

        fputs(fitted ? fitted : "", out);
        if (pad && width < columns)
                fprintf(out, "%*s", (int) (columns - width), "");
}

/* Columns that only some tables have. */
typedef struct Columns {
        bool inner;    /* there are processes of containers: the number they have there */
        size_t name;   /* what there is for it */
        size_t file;   /* how wide; 0: there is none */
        size_t target; /* likewise: rows are told apart by target, too */
} Columns;

static void print_inner_id(FILE *out, int64_t id) {
        if (id > 0)
                fprintf(out, "%7" PRIi64 "  ", id);
        else
                fprintf(out, "%*s", ID_COLUMNS, "");
}

static bool is_by_task(const ReportOptions *options) {
        return options->by == REPORT_PROCESS || options->by == REPORT_THREAD;
}

/* Where it is a line of a function's, that stands before; for free(). NULL: no memory. */
static char *row_label(const ReportOptions *options, const RingsideRow *row) {
        const char *mark = row->inlined ? INLINED_MARK : "", *slash = strrchr(row->source, '/');
        char *label;
        int n;

        if (options->by == REPORT_LINE && row->line > 0)
                n = asprintf(&label, "%s:%u  %s%s", *row->source ? slash ? slash + 1 : row->source : "?", row->line, row->name, mark);
        else
                n = asprintf(&label, "%s%s", row->name, mark);
        return n < 0 ? NULL : label;
}

/* Functions have a column for their file, processes and threads one for their number. */
static void print_row(FILE *out, const View *view, const ReportOptions *options, const RingsideRow *row,
                      const Columns *columns, const Style *style) {
        bool with_file = columns->file > 0 && (row->file[0] || columns->target > 0);
        _cleanup_free_ char *label = row_label(options, row);

        fprintf(out, "%5.1f %%  %5.1f %%  %8" PRIu64 "  ", report_share(view, row->self_samples, row->self_weight),
                report_share(view, row->total_samples, row->total_weight),
                options->by_total ? row->total_samples : row->self_samples);
        if (is_by_task(options))
                fprintf(out, "%7" PRIi64 "  ", row->id);
        if (columns->inner)
                print_inner_id(out, row->inner_id);
        print_name(out, label ?: row->name, columns->name, with_file || columns->target > 0, style);
        if (with_file) {
                fputs("  ", out);
                print_name(out, row->file, columns->file, columns->target > 0, style);
        }
        if (columns->target > 0) {
                fputs("  ", out);
                print_name(out, row->target, columns->target, false, style);
        }
        fputc('\n', out);
}

static void print_table_head(FILE *out, const ReportOptions *options, const Columns *columns, const Style *style) {
        fprintf(out, "%s   self    total   samples  ", style->bold);
        if (is_by_task(options))
                fprintf(out, "    %s  %s", options->by == REPORT_PROCESS ? "PID" : "TID", columns->inner ? "  inside  " : "");
        fprintf(out, "%-*s", columns->file > 0 || columns->target > 0 ? (int) columns->name : 0,
                is_by_task(options) ? "name" : report_view_name(options->by));
        if (columns->file > 0)
                fprintf(out, "  %-*s", columns->target > 0 ? (int) columns->file : 0, "file");
        fprintf(out, "%s%s\n", columns->target > 0 ? "  target" : "", style->reset);
}

static bool any_inner_id(const RingsideRow *const *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (rows[i]->inner_id > 0)
                        return true;
        return false;
}

static size_t widest_target(const RingsideRow *const *rows, size_t n) {
        size_t widest = strlen("target");

        for (size_t i = 0; i < n && widest < TARGET_COLUMNS; i++) {
                _cleanup_free_ char *fitted = text_fit(rows[i]->target, TARGET_COLUMNS, "");

                widest = MAX(widest, fitted ? text_width(fitted) : 0);
        }
        return widest;
}

static Columns choose_columns(const View *view, const ReportOptions *options, const RingsideRow *const *rows, size_t n,
                              const Style *style) {
        size_t room = style->columns - NUMBER_COLUMNS - (is_by_task(options) ? ID_COLUMNS : 0), name = NAME_COLUMNS;
        Columns columns = {};

        if (room >= ID_COLUMNS + name && any_inner_id(rows, n)) {
                columns.inner = true;
                room -= ID_COLUMNS;
        }
        /* Whose a row is goes before the file. */
        if (room >= 2 * name && has_targets(view) && options->by != REPORT_TARGET) {
                columns.target = MIN(widest_target(rows, n), room / 2 - 2);
                room -= columns.target + 2;
                name *= 2;
        }
        if (room > FILE_COLUMNS + name && options->by == REPORT_FUNCTION) {
                columns.file = FILE_COLUMNS;
                room -= FILE_COLUMNS + 2;
        }
        columns.name = room;
        return columns;
}

static int print_table(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        _cleanup_free_ const RingsideRow **rows = NULL;
        size_t n, left_out;
        Columns columns;
        int r;

        r = report_select_rows(view, options, &rows, &n, &left_out);
        if (r < 0)
                return r;
        columns = choose_columns(view, options, rows, n, style);
        print_table_head(out, options, &columns, style);
        for (size_t i = 0; i < n; i++)
                print_row(out, view, options, rows[i], &columns, style);
        if (left_out > 0)
                fprintf(out, "%s%zu more left out: --threshold=0 without --limit shows them%s\n", style->dim, left_out,
                        style->reset);
        return 0;
}

int report_text(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        print_header(out, view, style);
        if (ringside_profile_get_samples(view->profile) == 0) {
                text_wrap(out,
                          view->filter.process || view->filter.thread || view->filter.target ?
                                  "No sample passes the filter. 'ringside report --by=thread' shows what there is, and "
                                  "'--by=target' what was named." :
                                  summary_empty(view->info),
                          0, style->columns);
                return 0;
        }
        if (options->by == REPORT_UNWIND)
                return report_unwind(out, view, options, style);
        if (options->by >= REPORT_CALLEES)
                return report_tree(out, view, options, style);
        return print_table(out, view, options, style);
}
