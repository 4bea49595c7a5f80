/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ringside annotate: the lines of one function with what each took, and the source beside them where it is here. A source
 * is what the recording says it is, so nothing is opened but a regular file of a bounded size, and that is never trusted with
 * the terminal. Where there is none, its instructions.
 */

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "annotate-code.h"
#include "json.h"
#include "output.h"
#include "regular-file.h"
#include "report.h"
#include "text.h"

#define FORMAT_VERSION 1
#define SOURCE_SIZE_MAX (16 << 20)
/* Lines of the source around each that took something. */
#define CONTEXT 3U
/* Bytes of a line that are shown. */
#define LINE_MAX_ 4096U
#define TAB 8U
#define NUMBER_COLUMNS 26U /* " 70.0 %  100.0 %      123  " */

static const char help_text[] =
        "Usage: ringside annotate [OPTION...] FUNCTION [RECORDING]\n"
        "\n"
        "Shows what each line of a function took, with its source where that is here,\n"
        "and else with its instructions; of the newest recording here if none is named.\n"
        "FUNCTION is its name, as in reports, or a pattern.\n"
        "\n" VIEW_HELP
        "      --disassemble    Instructions instead of lines\n"
        "      --format=FORMAT  text (default) or json\n"
        "  -o, --output=FILE    Write to FILE, - for standard output\n"
        "      --no-pager       Do not show it through $PAGER\n"
        "  -h, --help           Show this help\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { OPT_FORMAT = OPT_VIEW_END, OPT_NO_PAGER, OPT_DISASSEMBLE };

static const struct option options[] = {
        VIEW_OPTIONS,
        { "disassemble", no_argument, NULL, OPT_DISASSEMBLE },
        { "format", required_argument, NULL, OPT_FORMAT },
        { "no-pager", no_argument, NULL, OPT_NO_PAGER },
        { "help", no_argument, NULL, 'h' },
        {},
};

typedef struct Annotate {
        ViewOptions view;
        const char *function;
        bool json, no_pager, disassemble;
} Annotate;

/* 1: go on; 0: --help was printed; -EINVAL: the error was printed. */
static int parse(Annotate *ret, int argc, char **argv) {
        int c, r;

        *ret = (Annotate){ .view.event = -1 };
        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        while ((c = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c == '?' || c == ':')
                        return cli_error_option(c, argv, options);
                r = view_options_set(&ret->view, "annotate", c, optarg);
                if (r == 0 && c == OPT_NO_PAGER)
                        ret->no_pager = true;
                else if (r == 0 && c == OPT_DISASSEMBLE)
                        ret->disassemble = true;
                else if (r == 0)
                        r = cli_parse_json(optarg, &ret->json) < 0 ?
                                    cli_error_value("annotate", "--format", optarg, "text or json") : 0;
                if (r < 0)
                        return r;
        }
        if (optind == argc || !argv[optind][0]) {
                cli_error("'ringside report' shows which there are", "annotate needs the name of a function");
                return -EINVAL;
        }
        ret->function = argv[optind++];
        r = view_options_rest(&ret->view, argc, argv);
        return r < 0 ? r : 1;
}

/* ---- the lines of the function ---- */

/* By function and source, then line. */
static int compare_rows(const void *a, const void *b) {
        const RingsideRow *x = *(const RingsideRow *const *) a, *y = *(const RingsideRow *const *) b;
        int c = strcmp(x->name, y->name);

        if (c == 0)
                c = strcmp(x->file, y->file);
        if (c == 0)
                c = x->inlined - y->inlined;
        if (c == 0)
                c = strcmp(x->target, y->target);
        if (c == 0)
                c = strcmp(x->source, y->source);
        return c != 0 ? c : x->line < y->line ? -1 : x->line > y->line;
}

static bool is_same_section(const RingsideRow *x, const RingsideRow *y) {
        return strcmp(x->name, y->name) == 0 && strcmp(x->file, y->file) == 0 && x->inlined == y->inlined &&
               strcmp(x->target, y->target) == 0 && strcmp(x->source, y->source) == 0;
}

static int find_rows(const View *view, const char *function, const RingsideRow ***ret, size_t *ret_n) {
        const RingsideRow *rows, **found;
        size_t n, kept = 0;
        int r;

        r = ringside_profile_get_rows(view->profile, RINGSIDE_BY_LINE, &rows, &n);
        if (r < 0)
                return r;
        found = calloc(MAX(n, (size_t) 1), sizeof(*found));
        if (!found)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, function) == 0 || fnmatch(function, rows[i].name, 0) == 0)
                        found[kept++] = &rows[i];
        if (kept > 1)
                qsort(found, kept, sizeof(*found), compare_rows);
        *ret = found;
        *ret_n = kept;
        return 0;
}

/* ---- its source ---- */

typedef struct Source {
        char *text; /* lines end with 0; NULL: it is not here */
        size_t size;
        bool newer; /* than the recording */
        /* The line that was asked for last. */
        unsigned line;
        const char *at;
} Source;

static void source_open(Source *ret, const char *path, const RingsideRecordingInfo *info) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        *ret = (Source){};
        fd = path[0] == '/' ? reopen_regular(open(path, O_PATH | O_CLOEXEC), &st) : -1;
        if (fd < 0 || st.st_size > SOURCE_SIZE_MAX)
                return;
        text = malloc((size_t) st.st_size + 1);
        if (!text)
                return;
        n = RETRY_ON_EINTR(read(fd, text, (size_t) st.st_size));
        if (n < 0)
                return;
        text[n] = 0;
        for (ssize_t i = 0; i < n; i++)
                text[i] = text[i] == '\n' ? 0 : text[i] ?: '?';
        *ret = (Source){
                .size = (size_t) n,
                .newer = st.st_mtim.tv_sec > info->start_realtime / 1000000000,
                .line = 1,
                .at = text,
        };
        ret->text = TAKE_PTR(text);
}

static void source_done(Source *source) {
        free(source->text);
}

/* Tabs are no text that a terminal may be given; for free(). */
static char *expand_tabs(const char *text) {
        size_t n = MIN(strlen(text), (size_t) LINE_MAX_), k = 0;
        char *line = malloc(n * TAB + 1);

        for (size_t i = 0; i < n && line; i++) {
                size_t to = text[i] == '\t' ? k / TAB * TAB + TAB : k + 1;

                memset(line + k, text[i] == '\t' ? ' ' : text[i], to - k);
                k = to;
        }
        if (line)
                line[k] = 0;
        return line;
}

/* line: from 1, not below the one before. For free(). NULL: it has no such line. */
static char *source_line(Source *source, unsigned line) {
        const char *end = source->text + source->size;

        if (!source->text || line == 0)
                return NULL;
        for (; source->line < line && source->at < end; source->line++)
                source->at += strlen(source->at) + 1;
        return source->at < end ? expand_tabs(source->at) : NULL;
}

/* ---- for people ---- */

/* Whether there is such a line in the source. */
static bool print_line(FILE *out, const View *view, const Style *style, const RingsideRow *row, unsigned line,
                       Source *source) {
        _cleanup_free_ char *text = source_line(source, line);
        _cleanup_free_ char *fitted = text ? text_fit(text, style->columns - NUMBER_COLUMNS, style->ellipsis) : NULL;

        if (!row && !text)
                return false;
        if (row)
                fprintf(out, "%5.1f %%  %5.1f %%", report_share(view, row->self_samples, row->self_weight),
                        report_share(view, row->total_samples, row->total_weight));
        else
                fprintf(out, "%16s", "");
        if (line > 0)
                fprintf(out, "%8u", line);
        else
                fprintf(out, "%8s", "?");
        fprintf(out, "%s%s\n", fitted && *fitted ? "  " : "", fitted ?: "");
        return text;
}

static void print_section_head(FILE *out, const RingsideRow *row, const Source *source, const Style *style) {
        _cleanup_free_ char *line = NULL, *fitted = NULL, *path = NULL;

        if (asprintf(&line, "%s%s%s%s%s%s", row->name, row->inlined ? INLINED_MARK : "", *row->file ? "  " : "", row->file,
                     *row->target ? "  " : "", row->target) < 0)
                line = NULL;
        fitted = text_fit(line ?: row->name, style->columns, style->ellipsis);
        path = text_fit(*row->source ? row->source : "no line is known", style->columns, style->ellipsis);
        fprintf(out, "%s%s%s\n%s\n", style->bold, fitted ?: "", style->reset, path ?: "");
        if (*row->source && !source->text)
                fputs("(the source is not here)\n", out);
        else if (source->newer)
                fputs("(the source is newer than the recording)\n", out);
        fprintf(out, "%s   self    total    line%s\n", style->dim, style->reset);
}

/* n rows of one function and source; whether that is here. */
static bool print_section(FILE *out, const View *view, const RingsideRow **rows, size_t n, const Style *style) {
        _cleanup_(source_done) Source source;
        unsigned printed = 0;

        source_open(&source, rows[0]->source, view->info);
        print_section_head(out, rows[0], &source, style);
        for (size_t i = 0; i < n; i++) {
                unsigned line = rows[i]->line, first = line > CONTEXT ? line - CONTEXT : 1;
                unsigned last = line + CONTEXT;

                if (i + 1 < n && rows[i + 1]->line <= last)
                        last = rows[i + 1]->line - 1; /* that one comes next */
                if (line == 0 || !source.text) {
                        print_line(out, view, style, rows[i], line, &source);
                        continue;
                }
                if (printed > 0 && first > printed + 1)
                        fprintf(out, "%24s\n", "...");
                for (unsigned k = MAX(first, printed + 1); k < line && print_line(out, view, style, NULL, k, &source);)
                        k++;
                print_line(out, view, style, rows[i], line, &source);
                for (unsigned k = line + 1; k <= last && print_line(out, view, style, NULL, k, &source);)
                        k++;
                printed = last;
        }
        return source.text;
}

/* What is inlined has no code of its own. */
static bool is_of(const RingsideCode *code, const RingsideRow *row) {
        const char *slash = strrchr(code->path, '/');

        return !row->inlined && strcmp(code->name, row->name) == 0 &&
               strcmp(slash && slash[1] ? slash + 1 : code->path, row->file) == 0;
}

/* Of the functions whose source is not here: of some, missing says so by the first row of a section. */
static int print_missing(FILE *out, const View *view, const char *function, const RingsideRow **rows, const bool *missing,
                         size_t n, const Style *style) {
        const RingsideCode *codes;
        size_t n_codes, k;
        int r;

        r = ringside_profile_get_code(view->profile, function, NULL, &codes, &n_codes);
        for (size_t i = 0; r >= 0 && i < n_codes; i++) {
                for (k = 0; k < n && !(missing[k] && is_of(&codes[i], rows[k]));)
                        k++;
                if (k == n)
                        continue;
                fputc('\n', out);
                annotate_code_text(out, view, &codes[i], style);
        }
        return r;
}

static int print_text(FILE *out, const View *view, const char *function, const RingsideRow **rows, size_t n,
                      const Style *style) {
        _cleanup_free_ bool *missing = calloc(n, sizeof(bool));
        bool any = false;

        if (!missing)
                return -ENOMEM;
        for (size_t i = 0, k; i < n; i += k) {
                for (k = 1; i + k < n && is_same_section(rows[i], rows[i + k]);)
                        k++;
                if (i > 0)
                        fputc('\n', out);
                missing[i] = !print_section(out, view, rows + i, k, style);
                any = any || (missing[i] && !rows[i]->inlined);
        }
        return any ? print_missing(out, view, function, rows, missing, n, style) : 0;
}

static int print_codes(FILE *out, const View *view, const RingsideCode *codes, size_t n, const Style *style) {
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        fputc('\n', out);
                annotate_code_text(out, view, &codes[i], style);
        }
        return 0;
}

/* ---- for programs ---- */

#define TRY(expression)                                                                                                \
        do {                                                                                                           \
                int try_result_ = (expression);                                                                        \
                if (try_result_ < 0)                                                                                   \
                        return try_result_;                                                                            \
        } while (false)

static int add_line(struct json_object *array, const RingsideRow *row, Source *source) {
        _cleanup_free_ char *text = source_line(source, row->line);
        struct json_object *o = json_object_new_object();

        TRY(json_append(array, o));
        TRY(json_add_string(o, "name", row->name));
        TRY(json_add_string(o, "file", row->file));
        if (*row->target)
                TRY(json_add_string(o, "target", row->target));
        TRY(json_add_bool(o, "inlined", row->inlined));
        if (*row->source)
                TRY(json_add_string(o, "source", row->source));
        if (row->line > 0)
                TRY(json_add_u64(o, "line", row->line));
        if (text)
                TRY(json_add_string(o, "text", text));
        TRY(json_add_u64(o, "self_samples", row->self_samples));
        TRY(json_add_u64(o, "total_samples", row->total_samples));
        TRY(json_add_u64(o, "self_weight", row->self_weight));
        return json_add_u64(o, "total_weight", row->total_weight);
}

/* *missing is set where the source of a function that is not inlined is not here. */
static int add_section(struct json_object *array, const View *view, const RingsideRow **rows, size_t n, bool *missing) {
        _cleanup_(source_done) Source source;

        source_open(&source, rows[0]->source, view->info);
        if (!source.text && !rows[0]->inlined)
                *missing = true;
        for (size_t i = 0; i < n; i++)
                TRY(add_line(array, rows[i], &source));
        return 0;
}

static int add_codes(struct json_object *object, const RingsideCode *codes, size_t n) {
        struct json_object *array = json_object_new_array();

        TRY(json_add(object, "code", array));
        for (size_t i = 0; i < n; i++)
                TRY(annotate_code_json(array, &codes[i]));
        return 0;
}

/* codes: NULL where they are only for want of a source. */
static int print_json(FILE *out, const View *view, const char *function, const RingsideRow **rows, size_t n,
                      const RingsideCode *codes, size_t n_codes) {
        _cleanup_json_ struct json_object *object = json_object_new_object();
        struct json_object *array = json_object_new_array();
        bool missing = false;

        if (!object) {
                json_object_put(array);
                return -ENOMEM;
        }
        TRY(json_add(object, "lines", array));
        TRY(json_add_u64(object, "version", FORMAT_VERSION));
        TRY(json_add_string(object, "function", function));
        TRY(json_add_u64(object, "samples", ringside_profile_get_samples(view->profile)));
        TRY(json_add_u64(object, "weight", ringside_profile_get_weight(view->profile)));
        for (size_t i = 0, k; i < n; i += k) {
                for (k = 1; i + k < n && is_same_section(rows[i], rows[i + k]);)
                        k++;
                TRY(add_section(array, view, rows + i, k, &missing));
        }
        if (!codes && missing)
                TRY(ringside_profile_get_code(view->profile, function, NULL, &codes, &n_codes));
        if (codes)
                TRY(add_codes(object, codes, n_codes));
        return json_print(out, object);
}

/* ---- the command ---- */

/* codes: with --disassemble. */
static int print(const View *view, const Annotate *a, const RingsideRow **rows, size_t n, const RingsideCode *codes,
                 size_t n_codes) {
        const char *path = a->view.output;
        bool to_stdout = !path || strcmp(path, "-") == 0;
        Output output;
        Style style;
        int r;

        /* Before a pager takes the terminal's place. */
        style_init(&style, to_stdout ? STDOUT_FILENO : -1);
        r = to_stdout && !path && !a->json ? output_open_paged(&output, !a->no_pager) :
                                             output_open(&output, path, view->path);
        if (r < 0)
                return r;
        if (a->json)
                r = print_json(output.file, view, a->function, rows, n, codes, n_codes);
        else if (codes)
                r = print_codes(output.file, view, codes, n_codes, &style);
        else
                r = print_text(output.file, view, a->function, rows, n, &style);
        if (r < 0)
                cli_error(NULL, "Cannot show the function: %s", strerror(-r));
        else
                r = output_finish(&output);
        output_done(&output);
        return r;
}

/* That there are instructions at all: with --disassemble they are what was asked for. */
static int find_codes(const View *view, const char *function, const RingsideCode **ret, size_t *ret_n) {
        const RingsideCode *codes;
        size_t n, i = 0;
        int r;

        r = ringside_profile_get_code(view->profile, function, NULL, &codes, &n);
        if (r < 0) {
                cli_error(NULL, "Cannot show the function: %s", strerror(-r));
                return r;
        }
        while (i < n && codes[i].error.code != 0)
                i++;
        if (n == 0)
                cli_error("without --disassemble its lines are shown",
                          "%s is only inlined, and has no instructions of its own", function);
        else if (i == n)
                cli_error_library(&codes[0].error, codes[0].error.code);
        *ret = codes;
        *ret_n = n;
        return i == n ? -ENOENT : 0;
}

static int annotate(const View *view, const Annotate *a) {
        _cleanup_free_ const RingsideRow **rows = NULL;
        const RingsideCode *codes = NULL;
        size_t n, n_codes = 0;
        int r;

        r = find_rows(view, a->function, &rows, &n);
        if (r < 0) {
                cli_error(NULL, "Cannot show the function: %s", r > -4096 ? strerror(-r) : "the recording is damaged");
                return r;
        }
        if (n == 0) {
                cli_error("'ringside report' shows which there are", "No sample is in %s", a->function);
                return -ENOENT;
        }
        if (a->disassemble) {
                r = find_codes(view, a->function, &codes, &n_codes);
                if (r < 0)
                        return r;
        }
        return print(view, a, rows, n, codes, n_codes);
}

int command_annotate(int argc, char **argv) {
        Annotate a;
        View view;
        int r;

        r = parse(&a, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        r = view_open(&view, &a.view);
        if (r < 0)
                return EXIT_FAILURE;
        r = annotate(&view, &a);
        view_done(&view);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
