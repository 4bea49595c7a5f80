/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See cli.h. */

#include "cli.h"

#include <langinfo.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "text.h"

/* What the widest row needs: numbers, and a little of a name. */
#define COLUMNS_MIN 44
/* Sentences are read best no wider than this. */
#define ERROR_COLUMNS 80
/* Of a value that somebody typed: enough to find it again. */
#define VALUE_MAX 60

static size_t columns_of(int fd) {
        const char *e = getenv("COLUMNS");
        struct winsize size;
        uint64_t n;

        if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
                return size.ws_col;
        if (e && parse_number(e, 1, 10000, &n) == 0)
                return n;
        return 80;
}

void style_init(Style *ret, int fd) {
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
        bool colour = isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;

        *ret = (Style){ "", "", "", "", "", "" };
        if (colour)
                *ret = (Style){ "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[1;31m", "\033[0m" };
        ret->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        ret->ellipsis = ret->utf8 ? "…" : "...";
        ret->terminal_columns = columns_of(fd);
        ret->columns = MAX(ret->terminal_columns, (size_t) COLUMNS_MIN);
}

/* Behind a label of that many columns. Who reads a pipe or a file looks for whole lines. */
static void print_text(const char *escaped, size_t label, const Style *style) {
        if (isatty(STDERR_FILENO))
                text_wrap_hanging(stderr, escaped, label, MIN(style->terminal_columns, (size_t) ERROR_COLUMNS));
        else
                fprintf(stderr, "%s\n", escaped);
}

/* Line by line, because escaping would take the newlines for an attack. */
static void print_hint(const char *hint, const Style *style) {
        while (*hint) {
                size_t n = strcspn(hint, "\n");
                char line[1024], escaped[4096];

                snprintf(line, sizeof(line), "%.*s", (int) MIN(n, sizeof(line) - 1), hint);
                if (*line) {
                        fputs("hint: ", stderr);
                        print_text(ringside_escape(escaped, sizeof(escaped), line), strlen("hint: "), style);
                }
                hint += n;
                hint += *hint == '\n';
        }
}

void cli_error(const char *hint, const char *format, ...) {
        char text[2048], escaped[8192];
        Style style;
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);

        style_init(&style, STDERR_FILENO);
        fprintf(stderr, "%sringside:%s ", style.bad, style.reset);
        print_text(ringside_escape(escaped, sizeof(escaped), text), strlen("ringside: "), &style);
        if (hint)
                print_hint(hint, &style);
}

void cli_error_library(const RingsideError *error, int r) {
        if (error->code != 0 && error->text[0])
                cli_error(error->hint, "%s", error->text);
        else if (r > -4096)
                cli_error(NULL, "%s", strerror(-r));
        else
                cli_error(NULL, "The library failed with error %d and said no more", -r);
}

int cli_error_option(int c, char **argv, const struct option *options) {
        char hint[128];

        snprintf(hint, sizeof(hint), "'ringside %s --help' lists the options", argv[0]);
        if (optopt == 0) { /* of the long ones getopt does not tell which: it is the last word it took */
                cli_error(hint, "There is no option %s", argv[optind - 1]);
                return -EINVAL;
        }
        for (const struct option *o = options; o->name; o++)
                if (o->val == optopt) {
                        cli_error(hint, "Option --%s %s value", o->name, c == ':' ? "wants a" : "takes no");
                        return -EINVAL;
                }
        cli_error(hint, "There is no option -%c", optopt);
        return -EINVAL;
}

int cli_error_value(const char *command, const char *option, const char *value, const char *wanted) {
        bool is_long = strlen(value) > VALUE_MAX;
        char hint[128];

        snprintf(hint, sizeof(hint), "'ringside %s --help' explains it", command);
        cli_error(hint, "%s %.*s%s: this should be %s", option, VALUE_MAX, *value ? value : "''", is_long ? "..." : "", wanted);
        return -EINVAL;
}

int cli_parse_helper(const char *s, enum RingsideHelper *ret) {
        static const char *const names[] = {
                [RINGSIDE_HELPER_AUTO] = "auto",
                [RINGSIDE_HELPER_BUS] = "bus",
                [RINGSIDE_HELPER_DIRECT] = "direct",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strcmp(s, names[i]) == 0) {
                        *ret = (enum RingsideHelper) i;
                        return 0;
                }
        return -EINVAL;
}

int cli_parse_json(const char *s, bool *ret) {
        if (strcmp(s, "json") == 0)
                *ret = true;
        else if (strcmp(s, "text") == 0)
                *ret = false;
        else
                return -EINVAL;
        return 0;
}
