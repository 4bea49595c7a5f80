/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A report: what was asked for, and the two ways to print it. */

#include "view.h"

enum ReportView {
        REPORT_FUNCTION, /* the first six as enum RingsideGroup */
        REPORT_FILE,
        REPORT_PROCESS,
        REPORT_THREAD,
        REPORT_TARGET,
        REPORT_LINE,
        REPORT_CALLEES,
        REPORT_CALLERS,
        REPORT_UNWIND, /* not of --by */
        REPORT_VIEW_MAX
};

typedef struct ReportOptions {
        ViewOptions view;
        enum ReportView by;
        bool by_total;    /* sort by total, not self */
        size_t limit;     /* rows, or children of a node; SIZE_MAX: all */
        double threshold; /* percent; less is left out; < 0: not given */
        bool json;
        bool no_pager;
} ReportOptions;

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. Strings point into argv. */
int report_options_parse(ReportOptions *ret, int argc, char **argv);
const char *report_view_name(enum ReportView view);
/* Behind the name of a function, where it is inlined. */
#define INLINED_MARK " (inlined)"
/* Of the event that is shown; NULL: the recording has none. */
const RingsideEvent *report_event(const View *view);

/* The weight of part within the whole, in percent; by samples where nothing was weighed. */
double report_share(const View *view, uint64_t samples, uint64_t weight);

/* rows that the options let through, sorted as they ask; the array is freed by the caller. */
int report_select_rows(const View *view, const ReportOptions *options, const RingsideRow ***ret, size_t *ret_n,
                       size_t *ret_left_out);

/* 0, or a negative errno that was printed. style is that of the terminal behind out. */
int report_text(FILE *out, const View *view, const ReportOptions *options, const Style *style);
int report_json(FILE *out, const View *view, const ReportOptions *options);
