/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside doctor: is everything here that a recording needs, and if not, what to do. */

#include <string.h>

#include "cli.h"
#include "json.h"
#include "output.h"
#include "text.h"

#define NAME_COLUMNS 14
#define INDENT (6 + 2 + NAME_COLUMNS + 2)

static const char help_text[] =
        "Usage: ringside doctor [OPTION...]\n"
        "\n"
        "Checks this machine: kernel, BTF, bus, helper, polkit, settings, PMU, budgets.\n"
        "\n"
        "      --format=FORMAT  text (default) or json\n"
        "  -o, --output=FILE    Default: standard output, as with -\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 nothing failed, 1 a check failed, 2 wrong usage.\n";

enum { OPT_FORMAT = 256 };

static const struct option options[] = {
        { "format", required_argument, NULL, OPT_FORMAT },
        { "output", required_argument, NULL, 'o' },
        { "help", no_argument, NULL, 'h' },
        {},
};

static int parse(bool *ret_json, const char **ret_output, int argc, char **argv) {
        int c;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c == '?' || c == ':')
                        return cli_error_option(c, argv, options);
                if (c == 'o' && !*optarg)
                        return cli_error_value(argv[0], "--output", optarg, "the name of a file, or -");
                if (c == 'o')
                        *ret_output = optarg;
                else if (cli_parse_json(optarg, ret_json) < 0)
                        return cli_error_value(argv[0], "--format", optarg, "text or json");
        }
        if (optind < argc) {
                cli_error("'ringside doctor --help' shows the options", "%s is one too many", argv[optind]);
                return -EINVAL;
        }
        return 1;
}

/* Words first: colour only repeats what they say. */
static const char *result_word(enum RingsideCheckResult result) {
        return result == RINGSIDE_CHECK_OK ? "OK" : result == RINGSIDE_CHECK_NOTE ? "note" : "FAILED";
}

static const char *result_colour(const Style *style, enum RingsideCheckResult result) {
        return result == RINGSIDE_CHECK_OK ? style->good : result == RINGSIDE_CHECK_NOTE ? style->note : style->bad;
}

/* Escapes line by line, for \n is a break in these texts. */
static void print_hint(FILE *out, const char *s, const Style *style) {
        while (*s) {
                size_t n = strcspn(s, "\n");
                char line[sizeof(((RingsideCheck *) NULL)->hint)], escaped[4 * sizeof(line)];

                snprintf(line, sizeof(line), "%.*s", (int) MIN(n, sizeof(line) - 1), s);
                fprintf(out, "%*s", INDENT, "-> ");
                text_wrap_hanging(out, ringside_escape(escaped, sizeof(escaped), line), INDENT, style->columns);
                s += n;
                s += *s == '\n';
        }
}

static void print_check(FILE *out, const RingsideCheck *check, const Style *style) {
        _cleanup_free_ char *name = text_fit(check->name, NAME_COLUMNS, style->ellipsis);
        _cleanup_free_ char *text = text_escape(check->text);

        fprintf(out, "%s%-6s%s  %-*s  ", result_colour(style, check->result), result_word(check->result), style->reset,
               NAME_COLUMNS, name ? name : "");
        text_wrap_hanging(out, text ? text : "", INDENT, style->columns);
        print_hint(out, check->hint, style);
}

static void print_text(FILE *out, const RingsideCheck *checks, size_t n, size_t failed) {
        Style style;

        style_init(&style, out == stdout ? STDOUT_FILENO : -1);
        for (size_t i = 0; i < n; i++)
                print_check(out, &checks[i], &style);
        if (failed == 0)
                fprintf(out, "\nNothing failed: try 'ringside record -- PROGRAM'\n");
        else
                fprintf(out, "\n%zu of %zu checks failed\n", failed, n);
}

static int add_check(struct json_object *array, const RingsideCheck *check) {
        static const char *const results[] = { "ok", "note", "failed" };
        struct json_object *o = json_object_new_object();
        int r;

        r = json_append(array, o);
        if (r >= 0)
                r = json_add_string(o, "name", check->name);
        if (r >= 0)
                r = json_add_string(o, "result", results[MIN((unsigned) check->result, 2U)]);
        if (r >= 0)
                r = json_add_string(o, "text", check->text);
        if (r >= 0)
                r = json_add_string(o, "hint", check->hint);
        return r;
}

static int print_json(FILE *out, const RingsideCheck *checks, size_t n, size_t failed) {
        _cleanup_json_ struct json_object *object = json_object_new_object();
        struct json_object *array = json_object_new_array();
        int r;

        if (!object || !array) {
                json_object_put(array);
                return -ENOMEM;
        }
        r = json_add(object, "checks", array);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_check(array, &checks[i]);
        if (r >= 0)
                r = json_add_u64(object, "failed", failed);
        return r < 0 ? r : json_print(out, object);
}

static int print(const RingsideCheck *checks, size_t n, size_t failed, bool json, const char *path) {
        Output output;
        int r;

        r = output_open(&output, path, NULL);
        if (r < 0)
                return r;
        if (json)
                r = print_json(output.file, checks, n, failed);
        else
                print_text(output.file, checks, n, failed);
        if (r < 0)
                cli_error(NULL, "Cannot print the checks: %s", strerror(-r));
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

int command_doctor(int argc, char **argv) {
        _cleanup_free_ RingsideCheck *checks = NULL;
        size_t n, failed = 0;
        const char *output = NULL;
        bool json = false;
        int r;

        r = parse(&json, &output, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = ringside_check_system(&checks, &n);
        if (r < 0) {
                cli_error(NULL, "Cannot check this machine: %s", r > -4096 ? strerror(-r) : "the library failed");
                return EXIT_FAILURE;
        }
        for (size_t i = 0; i < n; i++)
                failed += checks[i].result == RINGSIDE_CHECK_FAILED;
        r = print(checks, n, failed, json, output);
        return failed > 0 || r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
