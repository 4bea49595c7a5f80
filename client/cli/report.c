/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside report: what both formats share, and the command itself. */

#include "report.h"

#include <string.h>

#include "output.h"
#include "text.h"

const RingsideEvent *report_event(const View *view) {
        unsigned i = view->filter.event < 0 ? 0 : (unsigned) view->filter.event;

        return i < view->info->n_events ? &view->info->events[i] : NULL;
}

double report_share(const View *view, uint64_t samples, uint64_t weight) {
        uint64_t whole = ringside_profile_get_weight(view->profile);

        return whole > 0 ? text_share(weight, whole) : text_share(samples, ringside_profile_get_samples(view->profile));
}

static int compare_u64(uint64_t a, uint64_t b) {
        return a > b ? -1 : a < b; /* the larger one first */
}

static int compare_rows(const void *a, const void *b, void *by_total) {
        const RingsideRow *x = *(const RingsideRow *const *) a, *y = *(const RingsideRow *const *) b;
        int self = compare_u64(x->self_weight, y->self_weight), total = compare_u64(x->total_weight, y->total_weight);
        int first = by_total ? total : self, second = by_total ? self : total;

        if (first != 0)
                return first;
        if (second != 0)
                return second;
        first = strcmp(x->name, y->name);
        if (first != 0)
                return first;
        if (x->id != y->id)
                return x->id < y->id ? -1 : 1;
        first = strcmp(x->target, y->target);
        if (first == 0)
                first = strcmp(x->source, y->source);
        if (first == 0)
                first = x->line < y->line ? -1 : x->line > y->line;
        return first != 0 ? first : x->inlined - y->inlined;
}

int report_select_rows(const View *view, const ReportOptions *options, const RingsideRow ***ret, size_t *ret_n,
                       size_t *ret_left_out) {
        _cleanup_free_ const RingsideRow **selected = NULL;
        const RingsideRow *rows;
        size_t n, kept = 0;
        int r;

        r = ringside_profile_get_rows(view->profile, (enum RingsideGroup) options->by, &rows, &n);
        if (r < 0)
                return r;
        selected = calloc(MAX(n, (size_t) 1), sizeof(*selected));
        if (!selected)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (report_share(view, rows[i].total_samples, rows[i].total_weight) >= options->threshold)
                        selected[kept++] = &rows[i];
        qsort_r(selected, kept, sizeof(*selected), compare_rows, options->by_total ? (void *) options : NULL);
        kept = MIN(kept, options->limit);
        *ret = TAKE_PTR(selected);
        *ret_n = kept;
        *ret_left_out = n - kept;
        return 0;
}

static int report(const View *view, const ReportOptions *options) {
        const char *path = options->view.output;
        bool to_stdout = !path || strcmp(path, "-") == 0;
        Output output;
        Style style;
        int r;

        /* Before a pager takes the terminal's place. A file gets no colours and 80 columns. */
        style_init(&style, to_stdout ? STDOUT_FILENO : -1);
        if (to_stdout && !path && !options->json)
                r = output_open_paged(&output, !options->no_pager);
        else
                r = output_open(&output, path, view->path);
        if (r < 0)
                return r;
        r = options->json ? report_json(output.file, view, options) : report_text(output.file, view, options, &style);
        if (r < 0)
                cli_error(NULL, "Cannot make the report: %s", r > -4096 ? strerror(-r) : "the recording is damaged");
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

int command_report(int argc, char **argv) {
        ReportOptions options;
        View view;
        int r;

        r = report_options_parse(&options, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = view_open(&view, &options.view);
        if (r < 0)
                return EXIT_FAILURE;
        r = report(&view, &options);
        view_done(&view);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
