/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The format of FlameGraph's stackcollapse tools: one line a stack, "a;b;c 42". Neither the separator
 * nor a line break may come from a name. Kernel frames end in _[k], as stackcollapse-perf.pl --kernel has
 * it, and inlined ones in _[i], as with --inline: by these flamegraph.pl gives them colours of their own.
 */

#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "ringside.h"
#include "table.h"

typedef struct Line {
        char *stack;
        uint64_t samples;
} Line;

typedef struct Lines {
        Line *items;
        size_t n, allocated;
} Lines;

/* The stack of names down to where the walk is, in one buffer. */
typedef struct Path {
        char *text;
        size_t len, allocated;
} Path;

static void lines_done(Lines *lines) {
        for (size_t i = 0; i < lines->n; i++)
                free(lines->items[i].stack);
        free(lines->items);
}

static void path_done(Path *path) {
        free(path->text);
}

static int path_append(Path *path, const RingsideNode *node) {
        const char *suffix = node->kernel ? "_[k]" : node->inlined ? "_[i]" : "";
        char safe[4096 + 4];
        size_t n;

        ringside_escape(safe, 4096, node->name[0] ? node->name : "[unknown]");
        for (char *p = safe; (p = strchr(p, ';'));)
                *p = ':';
        (void) strcat(safe, suffix);
        n = strlen(safe);
        if (path->len + n + 2 > path->allocated) {
                size_t allocated = MAX(path->allocated * 2, path->len + n + 2);
                char *text = realloc(path->text, allocated);

                if (!text)
                        return -ENOMEM;
                path->text = text;
                path->allocated = allocated;
        }
        if (path->len > 0)
                path->text[path->len++] = ';';
        memcpy(path->text + path->len, safe, n + 1);
        path->len += n;
        return 0;
}

static int lines_add(Lines *lines, const char *stack, uint64_t samples) {
        if (lines->n == lines->allocated) {
                size_t allocated = MAX(lines->allocated * 2, (size_t) 256);
                Line *items = reallocarray(lines->items, allocated, sizeof(Line));

                if (!items)
                        return -ENOMEM;
                lines->items = items;
                lines->allocated = allocated;
        }
        lines->items[lines->n].stack = strdup(stack);
        if (!lines->items[lines->n].stack)
                return -ENOMEM;
        lines->items[lines->n++].samples = samples;
        return 0;
}

/* Not deeper than a recording's stacks, which the reader bounds. */
static int collect(const RingsideNode *node, Path *path, Lines *lines) {
        size_t len = path->len;
        int r = 0;

        for (size_t i = 0; i < node->n_children && r >= 0; i++) {
                const RingsideNode *child = node->children[i];

                r = path_append(path, child);
                if (r >= 0 && child->self_samples > 0)
                        r = lines_add(lines, path->text, child->self_samples);
                if (r >= 0)
                        r = collect(child, path, lines);
                path->len = len;
        }
        return r;
}

static int compare_lines(const void *a, const void *b) {
        return strcmp(((const Line *) a)->stack, ((const Line *) b)->stack);
}

/* Functions of one name in two files read alike here, and are one line. */
static void print(const Lines *lines, FILE *out) {
        for (size_t i = 0, next; i < lines->n; i = next) {
                uint64_t samples = 0;

                for (next = i; next < lines->n && strcmp(lines->items[next].stack, lines->items[i].stack) == 0; next++)
                        samples += lines->items[next].samples;
                (void) fprintf(out, "%s %" PRIu64 "\n", lines->items[i].stack, samples);
        }
}

int ringside_export_collapsed(RingsideProfile *profile, FILE *out, RingsideError *error) {
        _cleanup_(lines_done) Lines lines = {};
        _cleanup_(path_done) Path path = {};
        const RingsideNode *root;
        int r;

        r = ringside_profile_get_callees(profile, &root);
        if (r >= 0)
                r = collect(root, &path, &lines);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot put the stacks together: %s", strerror(-r));
        if (lines.n > 1)
                qsort(lines.items, lines.n, sizeof(Line), compare_lines);
        print(&lines, out);
        if (fflush(out) != 0 || ferror(out))
                return error_set(error, -EIO, NULL, "Cannot write the stacks: %s", strerror(errno));
        return 0;
}
