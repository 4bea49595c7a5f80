/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside symbolize: lines and inlined functions for a recording that has none yet, or not all. */

#include <inttypes.h>
#include <string.h>

#include "summary.h"
#include "view.h"

static const char help_text[] =
        "Usage: ringside symbolize [OPTION...] [RECORDING]\n"
        "\n"
        "Looks up source lines and inlined functions for the newest recording here, or\n"
        "the one named, in debug information that is there now, and adds them to it.\n"
        "\n"
        "      --symbol-dir=DIR  Where .build-id/XX/YYYY.debug are; default\n"
        "                        /usr/lib/debug\n"
        "  -h, --help            Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_SYMBOL_DIR = 256 };

static const struct option options[] = {
        { "symbol-dir", required_argument, NULL, OPT_SYMBOL_DIR },
        { "help", no_argument, NULL, 'h' },
        {},
};

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. */
static int parse(const char **ret_symbol_dir, const char **ret_recording, int argc, char **argv) {
        int c;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c != OPT_SYMBOL_DIR)
                        return cli_error_option(c, argv, options);
                if (!*optarg)
                        return cli_error_value("symbolize", "--symbol-dir", optarg, "a directory");
                *ret_symbol_dir = optarg;
        }
        if (optind + 1 < argc) {
                cli_error("name one recording, behind the options", "%s is one too many", argv[optind + 1]);
                return -EINVAL;
        }
        *ret_recording = argv[optind];
        return 1;
}

static void print_files(uint64_t n, const char *one, const char *several) {
        if (n > 0)
                printf("  %" PRIu64 " %s\n", n, n == 1 ? one : several);
}

static void print(const RingsideSymbolizeStatistics *s) {
        printf("%" PRIu64 " of %" PRIu64 " places have a line now\n", s->found, s->places);
        print_files(s->missing, "file is not there, or not what was recorded",
                    "files are not there, or not what was recorded");
        print_files(s->without, "file has no debug information", "files have no debug information");
        print_files(s->refused, "file has debug information that cannot be read",
                    "files have debug information that cannot be read");
        print_files(s->zstd, SUMMARY_ZSTD("file"), SUMMARY_ZSTD("files"));
        print_files(s->dwp, SUMMARY_DWP("file"), SUMMARY_DWP("files"));
        print_files(s->late, "file took too long", "files took too long");
}

int command_symbolize(int argc, char **argv) {
        RingsideSymbolizeOptions o = { .size = sizeof(o) };
        RingsideSymbolizeStatistics statistics;
        _cleanup_free_ char *path = NULL;
        const char *recording = NULL;
        RingsideError error = {};
        int r;

        r = parse(&o.symbol_dir, &recording, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = view_find_path(&path, recording);
        if (r < 0)
                return EXIT_FAILURE;
        r = ringside_symbolize(path, &o, &statistics, &error);
        if (r < 0) {
                cli_error_library(&error, r);
                return EXIT_FAILURE;
        }
        print(&statistics);
        return EXIT_SUCCESS;
}
