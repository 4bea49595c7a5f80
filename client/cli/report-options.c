/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See report.h: the command line of `ringside report`. */

#include <string.h>

#include "report.h"
#include "text.h"

static const char help_text[] =
        "Usage: ringside report [OPTION...] [RECORDING]\n"
        "\n"
        "Shows where the time of a recording went; the newest here if none is named.\n"
        "\n"
        "      --by=WHAT        function, line, file, process, thread or target: a table;\n"
        "                       callees or callers: a tree; default function\n" VIEW_HELP
        "      --unwind         Instead: why stacks did not reach their start, and where\n"
        "      --sort=KEY       Tables: self (default) or total\n"
        "      --limit=N        At most N rows, or children of a node\n"
        "      --threshold=P    Leave out what has less than P percent; default 0.5 for\n"
        "                       text, 0 for json\n"
        "      --format=FORMAT  text (default) or json\n"
        "  -o, --output=FILE    Write to FILE, - for standard output\n"
        "      --no-pager       Do not show it through $PAGER\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_BY = OPT_VIEW_END, OPT_UNWIND, OPT_SORT, OPT_LIMIT, OPT_THRESHOLD, OPT_FORMAT, OPT_NO_PAGER };

static const struct option options[] = {
        VIEW_OPTIONS,
        { "by", required_argument, NULL, OPT_BY },
        { "unwind", no_argument, NULL, OPT_UNWIND },
        { "sort", required_argument, NULL, OPT_SORT },
        { "limit", required_argument, NULL, OPT_LIMIT },
        { "threshold", required_argument, NULL, OPT_THRESHOLD },
        { "format", required_argument, NULL, OPT_FORMAT },
        { "no-pager", no_argument, NULL, OPT_NO_PAGER },
        { "help", no_argument, NULL, 'h' },
        {},
};

static const char *const view_names[REPORT_VIEW_MAX] = {
        [REPORT_FUNCTION] = "function", [REPORT_FILE] = "file",       [REPORT_PROCESS] = "process",
        [REPORT_THREAD] = "thread",     [REPORT_TARGET] = "target",   [REPORT_LINE] = "line", [REPORT_CALLEES] = "callees", [REPORT_CALLERS] = "callers",
        [REPORT_UNWIND] = "unwind",
};

const char *report_view_name(enum ReportView view) {
        return view_names[view];
}

static int wrong(const char *option, const char *value, const char *wanted) {
        return cli_error_value("report", option, value, wanted);
}

/* What was given, to be compared. */
typedef struct Given {
        bool by, unwind, sort;
} Given;

static int set_by(ReportOptions *o, const char *s, Given *given) {
        given->by = true;
        for (size_t i = 0; i < REPORT_UNWIND; i++)
                if (strcmp(s, view_names[i]) == 0) {
                        o->by = (enum ReportView) i;
                        return 0;
                }
        return wrong("--by", s, "function, line, file, process, thread, target, callees or callers");
}

static int set_sort(ReportOptions *o, const char *s, Given *given) {
        given->sort = true;
        if (strcmp(s, "self") == 0)
                o->by_total = false;
        else if (strcmp(s, "total") == 0)
                o->by_total = true;
        else
                return wrong("--sort", s, "self or total");
        return 0;
}

static int set_limit(ReportOptions *o, const char *s) {
        uint64_t n;

        if (parse_number(s, 1, INT32_MAX, &n) < 0)
                return wrong("--limit", s, "a number from 1");
        o->limit = n;
        return 0;
}

static int set_option(ReportOptions *o, int c, const char *value, Given *given) {
        int r = view_options_set(&o->view, "report", c, value);

        if (r != 0)
                return r;
        switch (c) {
        case OPT_BY:
                return set_by(o, value, given);
        case OPT_UNWIND:
                given->unwind = true;
                return 0;
        case OPT_SORT:
                return set_sort(o, value, given);
        case OPT_LIMIT:
                return set_limit(o, value);
        case OPT_THRESHOLD:
                return parse_percent(value, &o->threshold) < 0 ? wrong("--threshold", value, "a percentage, as in 0.5") : 0;
        case OPT_FORMAT:
                return cli_parse_json(value, &o->json) < 0 ? wrong("--format", value, "text or json") : 0;
        default:
                o->no_pager = true;
                return 0;
        }
}

static int check_combination(const ReportOptions *o, const Given *given) {
        if (given->unwind && (given->by || given->sort)) {
                cli_error("it is a table of its own, by share", "--unwind does not go with --%s", given->by ? "by" : "sort");
                return -EINVAL;
        }
        if (o->view.merge_targets && o->by == REPORT_TARGET) {
                cli_error("leave one of them out", "--merge-targets leaves nothing for --by=target to tell apart");
                return -EINVAL;
        }
        if (given->sort && o->by >= REPORT_CALLEES) {
                cli_error("leave --sort out, or choose a table with --by", "--sort goes with tables: a tree is sorted by total");
                return -EINVAL;
        }
        return 0;
}

int report_options_parse(ReportOptions *ret, int argc, char **argv) {
        ReportOptions o = { .view.event = -1, .limit = SIZE_MAX, .threshold = -1 };
        Given given = {};
        int c, r;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c == '?' || c == ':')
                        return cli_error_option(c, argv, options);
                r = set_option(&o, c, optarg, &given);
                if (r < 0)
                        return r;
        }
        r = check_combination(&o, &given);
        if (r < 0)
                return r;
        if (given.unwind)
                o.by = REPORT_UNWIND;
        r = view_options_rest(&o.view, argc, argv);
        if (r < 0)
                return r;
        if (o.threshold < 0)
                o.threshold = o.json ? 0 : 0.5;
        *ret = o;
        return 1;
}
