/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ringside events: what can be sampled here, and why not the rest. */

#include <string.h>

#include "cli.h"
#include "json.h"
#include "output.h"
#include "text.h"

static const char help_text[] =
        "Usage: ringside events [OPTION...]\n"
        "\n"
        "Lists the events for 'ringside record -e'.\n"
        "\n"
        "      --helper=WHICH   bus, direct or auto (default)\n"
        "      --format=FORMAT  text (default) or json\n"
        "  -o, --output=FILE    Default: standard output, as with -\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_HELPER = 256, OPT_FORMAT };

static const struct option options[] = {
        { "helper", required_argument, NULL, OPT_HELPER },
        { "format", required_argument, NULL, OPT_FORMAT },
        { "output", required_argument, NULL, 'o' },
        { "help", no_argument, NULL, 'h' },
        {},
};

static int parse(enum RingsideHelper *ret_helper, bool *ret_json, const char **ret_output, int argc, char **argv) {
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
                if (c == OPT_HELPER && cli_parse_helper(optarg, ret_helper) < 0)
                        return cli_error_value(argv[0], "--helper", optarg, "auto, bus or direct");
                if (c == OPT_FORMAT && cli_parse_json(optarg, ret_json) < 0)
                        return cli_error_value(argv[0], "--format", optarg, "text or json");
        }
        if (optind < argc) {
                cli_error("'ringside events --help' shows the options", "%s is one too many", argv[optind]);
                return -EINVAL;
        }
        return 1;
}

static void print_cell(FILE *out, const char *s, size_t columns, const Style *style) {
        _cleanup_free_ char *fitted = text_fit(s, columns, style->ellipsis);
        size_t width = fitted ? text_width(fitted) : 0;

        fprintf(out, "%s%*s  ", fitted ? fitted : "", (int) (columns - width), "");
}

static void print_text(FILE *out, const RingsideEventInfo *events, size_t n) {
        Style style;

        style_init(&style, out == stdout ? STDOUT_FILENO : -1);
        fprintf(out, "%s%-18s  %-10s  %-8s  %s%s\n", style.bold, "event", "kind", "unit", "available", style.reset);
        for (size_t i = 0; i < n; i++) {
                const RingsideEventInfo *e = &events[i];
                _cleanup_free_ char *description = text_escape(e->description), *reason = text_escape(e->reason);

                print_cell(out, e->name, 18, &style);
                print_cell(out, e->category, 10, &style);
                print_cell(out, e->unit, 8, &style);
                fprintf(out, "%s%s%s\n", e->available ? style.good : style.note, e->available ? "yes" : "no", style.reset);
                if (description && *description)
                        text_wrap(out, description, 4, style.columns);
                if (!e->available && reason && *reason)
                        text_wrap(out, reason, 4, style.columns);
        }
}

static int add_event(struct json_object *array, const RingsideEventInfo *e) {
        struct json_object *o = json_object_new_object();
        int r;

        r = json_append(array, o);
        if (r >= 0)
                r = json_add_string(o, "name", e->name);
        if (r >= 0)
                r = json_add_string(o, "category", e->category);
        if (r >= 0)
                r = json_add_string(o, "unit", e->unit);
        if (r >= 0)
                r = json_add_string(o, "description", e->description);
        if (r >= 0)
                r = json_add_bool(o, "available", e->available);
        if (r >= 0)
                r = json_add_string(o, "reason", e->reason);
        return r;
}

static int print_json(FILE *out, const RingsideEventInfo *events, size_t n) {
        _cleanup_json_ struct json_object *object = json_object_new_object();
        struct json_object *array = json_object_new_array();
        int r;

        if (!object || !array) {
                json_object_put(array);
                return -ENOMEM;
        }
        r = json_add(object, "events", array);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_event(array, &events[i]);
        return r < 0 ? r : json_print(out, object);
}

static int print(const RingsideEventInfo *events, size_t n, bool json, const char *path) {
        Output output;
        int r;

        r = output_open(&output, path, NULL);
        if (r < 0)
                return r;
        if (json)
                r = print_json(output.file, events, n);
        else
                print_text(output.file, events, n);
        if (r < 0)
                cli_error(NULL, "Cannot print the events: %s", strerror(-r));
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

int command_events(int argc, char **argv) {
        _cleanup_free_ RingsideEventInfo *events = NULL;
        enum RingsideHelper helper = RINGSIDE_HELPER_AUTO;
        RingsideError error = {};
        const char *output = NULL;
        bool json = false;
        size_t n;
        int r;

        r = parse(&helper, &json, &output, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = ringside_list_events(helper, &events, &n, &error);
        if (r < 0) {
                cli_error_library(&error, r);
                return EXIT_FAILURE;
        }
        return print(events, n, json, output) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
