/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reports for people: a header, then a table that fits the terminal. Every name is cut in the middle
 * rather than let a line wrap; report-tree.c has the trees.
 */

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "report-tree.h"
#include "summary.h"
#include "text.h"

#define LABEL_COLUMNS 11
#define NUMBER_COLUMNS 28 /* "100.0 %  100.0 %   1234567  " */
#define FILE_COLUMNS 20
#define ID_COLUMNS 9

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
        snprintf(line, sizeof(line), "%s, for %s%s", date, text_duration(length, sizeof(length), view->info->duration),
                 view->info->finished ? "" : ", not finished: cut off or still going on");
        header_line(out, style, "Recorded", line);
}

static void header_samples(FILE *out, const View *view, const Style *style) {
        uint64_t samples = ringside_profile_get_samples(view->profile);
        uint64_t truncated = ringside_profile_get_truncated(view->profile);
        char line[200];

        snprintf(line, sizeof(line), "%" PRIu64 ", %" PRIu64 " lost, %" PRIu64 " truncated (%.1f %%)", samples,
                 summary_lost(view->info), truncated, text_share(truncated, samples));
        header_line(out, style, "Samples", line);
}

static void header_filter(FILE *out, const View *view, const Style *style) {
        if (view->filter.process)
                header_line(out, style, "Process", view->filter.process);
        if (view->filter.thread)
                header_line(out, style, "Thread", view->filter.thread);
}

static void print_header(FILE *out, const View *view, const Style *style) {
        const RingsideRecordingInfo *info = view->info;
        const RingsideEvent *event = report_event(view);
        const char *advice = summary_frame_pointer_advice(info);
        char line[512], never[256];

        header_line(out, style, "Recording", view->path);
        header_line(out, style, "Command", info->command[0] ? info->command : "all processes of mine, or by PID");
        snprintf(line, sizeof(line), "%s, %u CPUs, %s", info->hostname, info->n_cpus, info->kernel);
        header_line(out, style, "Host", line);
        header_when(out, view, style);
        header_line(out, style, "Event", event ? summary_event(line, sizeof(line), event) : "none");
        header_filter(out, view, style);
        header_samples(out, view, style);
        fputc('\n', out);
        if (summary_never_taken_text(never, sizeof(never), info)) {
                text_wrap(out, never, 0, style->columns);
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

static void print_inner_id(FILE *out, int64_t id) {
        if (id > 0)
                fprintf(out, "%7" PRIi64 "  ", id);
        else
                fprintf(out, "%*s", ID_COLUMNS, "");
}

/*
 * Functions have a column for their file, processes and threads one for their number; and where there are
 * processes of containers, one for the number they have there.
 */
static void print_row(FILE *out, const View *view, const ReportOptions *options, const RingsideRow *row, bool inner,
                      const Style *style) {
        size_t room = style->columns - NUMBER_COLUMNS;

        fprintf(out, "%5.1f %%  %5.1f %%  %8" PRIu64 "  ", report_share(view, row->self_samples, row->self_weight),
                report_share(view, row->total_samples, row->total_weight),
                options->by_total ? row->total_samples : row->self_samples);
        if (options->by == REPORT_PROCESS || options->by == REPORT_THREAD) {
                fprintf(out, "%7" PRIi64 "  ", row->id);
                if (inner)
                        print_inner_id(out, row->inner_id);
                print_name(out, row->name, room - ID_COLUMNS - (inner ? ID_COLUMNS : 0), false, style);
        } else if (options->by == REPORT_FUNCTION && row->file[0] && room > FILE_COLUMNS + 12) {
                print_name(out, row->name, room - FILE_COLUMNS - 2, true, style);
                fputs("  ", out);
                print_name(out, row->file, FILE_COLUMNS, false, style);
        } else
                print_name(out, row->name, room, false, style);
        fputc('\n', out);
}

static void print_table_head(FILE *out, const ReportOptions *options, bool inner, const Style *style) {
        size_t room = style->columns - NUMBER_COLUMNS;

        fprintf(out, "%s   self    total   samples  ", style->bold);
        if (options->by == REPORT_PROCESS || options->by == REPORT_THREAD)
                fprintf(out, "    %s  %s%s", options->by == REPORT_PROCESS ? "PID" : "TID", inner ? "  inside  " : "",
                        "name");
        else if (options->by == REPORT_FUNCTION && room > FILE_COLUMNS + 12)
                fprintf(out, "%-*s  file", (int) (room - FILE_COLUMNS - 2), "function");
        else
                fputs(report_view_name(options->by), out);
        fprintf(out, "%s\n", style->reset);
}

static bool any_inner_id(const RingsideRow *const *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (rows[i]->inner_id > 0)
                        return true;
        return false;
}

static int print_table(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        _cleanup_free_ const RingsideRow **rows = NULL;
        size_t n, left_out;
        bool inner;
        int r;

        r = report_select_rows(view, options, &rows, &n, &left_out);
        if (r < 0)
                return r;
        inner = any_inner_id(rows, n);
        print_table_head(out, options, inner, style);
        for (size_t i = 0; i < n; i++)
                print_row(out, view, options, rows[i], inner, style);
        if (left_out > 0)
                fprintf(out, "%s%zu more left out: --threshold=0 without --limit shows them%s\n", style->dim, left_out,
                        style->reset);
        return 0;
}

int report_text(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        print_header(out, view, style);
        if (ringside_profile_get_samples(view->profile) == 0) {
                text_wrap(out,
                          view->filter.process || view->filter.thread ?
                                  "No sample passes the filter. 'ringside report --by=thread' shows what there is." :
                                  "There are no samples in it: what was recorded used hardly any CPU time meanwhile.",
                          0, style->columns);
                return 0;
        }
        if (options->by >= REPORT_CALLEES)
                return report_tree(out, view, options, style);
        return print_table(out, view, options, style);
}
