/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside export: recordings for other tools. */

#include <string.h>

#include "output.h"
#include "view.h"

static const char help_text[] =
        "Usage: ringside export --format=FORMAT [OPTION...] [RECORDING]\n"
        "\n"
        "Writes the newest recording here, or the one named, for other tools.\n"
        "\n"
        "      --format=FORMAT  collapsed: 'command;function;... count' lines, as the\n"
        "                       FlameGraph tools read them; pprof: gzipped profile.proto,\n"
        "                       for 'go tool pprof'\n" VIEW_HELP
        "  -o, --output=FILE    Default: standard output, as with -\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_FORMAT = OPT_VIEW_END };

enum Format { FORMAT_NONE, FORMAT_COLLAPSED, FORMAT_PPROF };

static const struct option options[] = {
        VIEW_OPTIONS,
        { "format", required_argument, NULL, OPT_FORMAT },
        { "help", no_argument, NULL, 'h' },
        {},
};

static int set_format(enum Format *ret, const char *s) {
        if (strcmp(s, "collapsed") == 0)
                *ret = FORMAT_COLLAPSED;
        else if (strcmp(s, "pprof") == 0)
                *ret = FORMAT_PPROF;
        else
                return cli_error_value("export", "--format", s, "collapsed or pprof");
        return 0;
}

static int parse(ViewOptions *ret, enum Format *ret_format, int argc, char **argv) {
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
                r = c == OPT_FORMAT ? set_format(ret_format, optarg) : view_options_set(ret, argv[0], c, optarg);
                if (r < 0)
                        return r;
        }
        if (*ret_format == FORMAT_NONE) {
                cli_error("add --format=collapsed or --format=pprof", "In which format?");
                return -EINVAL;
        }
        r = view_options_rest(ret, argc, argv);
        return r < 0 ? r : 1;
}

static int export(const View *view, const ViewOptions *o, enum Format format) {
        RingsideError error = {};
        Output output;
        int r;

        r = output_open(&output, o->output, view->path);
        if (r < 0)
                return r;
        if (format == FORMAT_PPROF)
                r = ringside_export_pprof(view->recording, &view->filter, output.file, &error);
        else
                r = ringside_export_collapsed(view->profile, output.file, &error);
        if (r < 0)
                cli_error_library(&error, r);
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

int command_export(int argc, char **argv) {
        ViewOptions o = { .event = -1 };
        enum Format format = FORMAT_NONE;
        View view;
        int r;

        r = parse(&o, &format, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        if (format == FORMAT_PPROF && (!o.output || strcmp(o.output, "-") == 0) && isatty(STDOUT_FILENO)) {
                cli_error("name a file with -o FILE", "pprof is binary and does not go to a terminal");
                return EXIT_FAILURE;
        }
        r = view_open(&view, &o);
        if (r < 0)
                return EXIT_FAILURE;
        r = export(&view, &o, format);
        view_done(&view);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
