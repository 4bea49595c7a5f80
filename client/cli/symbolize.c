/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside symbolize: lines and inlined functions for a recording that has none yet, or not all. */

#include <inttypes.h>
#include <string.h>

#include "live.h"
#include "server-urls.h"
#include "summary.h"
#include "text.h"
#include "view.h"

#define SERVERS_DIRECTORY "/etc/debuginfod"

static const char help_text[] =
        "Usage: ringside symbolize [OPTION...] [RECORDING]\n"
        "\n"
        "Looks up source lines and inlined functions for the newest recording here, or\n"
        "the one named, in debug information that is there now, and adds them to it.\n"
        "\n"
        "      --symbol-dir=DIR  Where .build-id/XX/YYYY.debug are; default\n"
        "                        /usr/lib/debug\n"
        "      --debuginfod[=URLS]\n"
        "                        Ask debuginfod servers for what is not here: these,\n"
        "                        those of DEBUGINFOD_URLS, or those that /etc/debuginfod\n"
        "                        names; default where DEBUGINFOD_URLS is set\n"
        "      --no-debuginfod   Ask no servers\n"
        "      --debuginfod-timeout=TIME\n"
        "                        How long a server may take for one file; default 60s\n"
        "  -h, --help            Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

typedef struct SymbolizeOptions {
        const char *symbol_dir, *recording;
        const char *urls;   /* NULL: none were named */
        bool ask, dont_ask; /* whichever came last is set */
        uint64_t timeout;   /* ns, 0: default */
} SymbolizeOptions;

enum { OPT_SYMBOL_DIR = 256, OPT_DEBUGINFOD, OPT_NO_DEBUGINFOD, OPT_TIMEOUT };

static const struct option options[] = {
        { "symbol-dir", required_argument, NULL, OPT_SYMBOL_DIR },
        { "debuginfod", optional_argument, NULL, OPT_DEBUGINFOD },
        { "no-debuginfod", no_argument, NULL, OPT_NO_DEBUGINFOD },
        { "debuginfod-timeout", required_argument, NULL, OPT_TIMEOUT },
        { "help", no_argument, NULL, 'h' },
        {},
};

static bool is_blank(const char *urls) {
        return !urls || !urls[strspn(urls, " \t\n")];
}

/* -EINVAL: the error was printed. */
static int take_option(SymbolizeOptions *o, int c, char **argv) {
        switch (c) {
        case OPT_SYMBOL_DIR:
                if (!*optarg)
                        return cli_error_value("symbolize", "--symbol-dir", optarg, "a directory");
                o->symbol_dir = optarg;
                return 0;
        case OPT_DEBUGINFOD:
                if (optarg && is_blank(optarg))
                        return cli_error_value("symbolize", "--debuginfod", optarg, "URLs, separated by spaces");
                o->urls = optarg;
                o->ask = true;
                o->dont_ask = false;
                return 0;
        case OPT_NO_DEBUGINFOD:
                o->dont_ask = true;
                o->ask = false;
                return 0;
        case OPT_TIMEOUT:
                if (parse_duration(optarg, &o->timeout) < 0)
                        return cli_error_value("symbolize", "--debuginfod-timeout", optarg, "a time, such as 90s or 5m");
                return 0;
        default:
                return cli_error_option(c, argv, options);
        }
}

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. */
static int parse(SymbolizeOptions *ret, int argc, char **argv) {
        int c, r;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                r = take_option(ret, c, argv);
                if (r < 0)
                        return r;
        }
        if (optind + 1 < argc) {
                cli_error("name one recording, behind the options", "%s is one too many", argv[optind + 1]);
                return -EINVAL;
        }
        ret->recording = argv[optind];
        return 1;
}

/* Whom to ask: NULL is nobody. *memory: to be freed. */
static int choose_servers(const SymbolizeOptions *o, const char **ret, char **memory) {
        const char *urls = o->urls ?: getenv("DEBUGINFOD_URLS");

        *ret = NULL;
        if (o->dont_ask)
                return 0;
        if (!is_blank(urls) || !o->ask) {
                *ret = is_blank(urls) ? "" : urls; /* what was fetched before is used, whoever fetched it */
                return 0;
        }
        if (server_urls_read(SERVERS_DIRECTORY, memory) < 0) {
                cli_error(NULL, "Out of memory");
                return -ENOMEM;
        }
        if (!**memory) {
                cli_error("name one, as in --debuginfod=https://debuginfod.elfutils.org/",
                          "Neither DEBUGINFOD_URLS nor " SERVERS_DIRECTORY " names a server to ask");
                return -ENOENT;
        }
        *ret = *memory;
        return 0;
}

static void print_files(uint64_t n, const char *one, const char *several) {
        if (n > 0)
                printf("  %" PRIu64 " %s\n", n, n == 1 ? one : several);
}

static void print_servers(const RingsideSymbolizeStatistics *s) {
        if (s->no_debuginfod)
                cli_error("it has to be there when Ringside is built, and when it runs; or give --no-debuginfod",
                          "Servers cannot be asked without libdebuginfod");
        if (s->asked == 0)
                return;
        printf("debuginfod servers were asked for %" PRIu64 " file%s\n", s->asked, s->asked == 1 ? "" : "s");
        print_files(s->fetched, "was fetched", "were fetched");
        print_files(s->unknown, "is on no server", "are on no server");
        print_files(s->failed, "failed: no answer, or not what was asked for",
                    "failed: no answer, or not what was asked for");
        print_files(s->given_up, "was given up on: it took too long", "were given up on: they took too long");
        print_files(s->not_asked, "more was not asked for, after that", "more were not asked for, after that");
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
        print_servers(s);
}

static void show_progress(const char *path, uint64_t done, uint64_t total, void *userdata) {
        live_fetch(userdata, path, done, total);
}

static int run(const SymbolizeOptions *asked) {
        Live live;
        RingsideSymbolizeOptions o = {
                .size = sizeof(o),
                .symbol_dir = asked->symbol_dir,
                .fetch_timeout = asked->timeout,
                .fetch_progress = show_progress,
                .userdata = &live,
        };
        RingsideSymbolizeStatistics statistics;
        _cleanup_free_ char *path = NULL, *urls = NULL;
        RingsideError error = {};
        int r;

        r = view_find_path(&path, asked->recording);
        if (r >= 0)
                r = choose_servers(asked, &o.debuginfod_urls, &urls);
        if (r < 0)
                return EXIT_FAILURE;
        live_init(&live, /* quiet= */ false);
        r = ringside_symbolize(path, &o, &statistics, &error);
        live_clear(&live);
        if (r < 0) {
                cli_error_library(&error, r);
                return EXIT_FAILURE;
        }
        print(&statistics);
        return EXIT_SUCCESS;
}

int command_symbolize(int argc, char **argv) {
        SymbolizeOptions o = {};
        int r = parse(&o, argc, argv);

        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        return run(&o);
}
