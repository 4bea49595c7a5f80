/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * See report-tree.h. Only where a tree branches does it move to the right: a chain of single calls stays
 * in its column, so that a recursion a hundred deep still fits 80 columns. What does not fit even so
 * loses the left part of its lines, never its name.
 */

#include "report-tree.h"

#include <string.h>

#include "text.h"

#define NUMBER_COLUMNS 18 /* "100.0 %  100.0 %  " */
#define CELL_COLUMNS 3

enum Mark { MARK_NONE, MARK_TEE, MARK_LAST };

typedef struct Tree {
        FILE *out;
        const View *view;
        const ReportOptions *options;
        const Style *style;
        bool bar[REPORT_DEPTH_MAX]; /* for each column of lines: goes on further down */
        size_t n_bars;
        size_t depth;
        size_t left_out;
} Tree;

static const char *cell(const Tree *t, bool bar) {
        if (!bar)
                return "   ";
        return t->style->utf8 ? "│  " : "|  ";
}

static const char *mark_text(const Tree *t, enum Mark mark) {
        if (mark == MARK_NONE)
                return "";
        if (mark == MARK_TEE)
                return t->style->utf8 ? "├─ " : "|- ";
        return t->style->utf8 ? "└─ " : "`- ";
}

/* Returns the columns it took. */
static size_t print_lines(const Tree *t, enum Mark mark) {
        size_t room = (t->style->columns - NUMBER_COLUMNS) / 2 / CELL_COLUMNS;
        size_t cells = t->n_bars + (mark != MARK_NONE), skip = cells > room ? cells - room + 1 : 0;

        fputs(t->style->dim, t->out);
        if (skip > 0)
                fputs(t->style->utf8 ? "…  " : "...", t->out);
        for (size_t i = skip; i < t->n_bars; i++)
                fputs(cell(t, t->bar[i]), t->out);
        fprintf(t->out, "%s%s", mark_text(t, mark), t->style->reset);
        return (cells - skip + (skip > 0)) * CELL_COLUMNS;
}

static void print_node(const Tree *t, const RingsideNode *node, enum Mark mark) {
        _cleanup_free_ char *name = NULL, *marked = NULL;
        size_t used;

        fprintf(t->out, "%5.1f %%  %5.1f %%  ", report_share(t->view, node->total_samples, node->total_weight),
                report_share(t->view, node->self_samples, node->self_weight));
        used = print_lines(t, mark);
        if (node->inlined && asprintf(&marked, "%s" INLINED_MARK, node->name) < 0)
                marked = NULL;
        name = text_fit(marked ?: node->name, t->style->columns - NUMBER_COLUMNS - used, t->style->ellipsis);
        fprintf(t->out, "%s\n", name ? name : "");
}

/* Children are sorted, so that those which stay are the first ones. */
static size_t count_visible(const Tree *t, const RingsideNode *node) {
        size_t n = 0;

        while (n < node->n_children && n < t->options->limit &&
               report_share(t->view, node->children[n]->total_samples, node->children[n]->total_weight) >=
                       t->options->threshold)
                n++;
        return n;
}

static void walk(Tree *t, const RingsideNode *node, enum Mark mark);

static void walk_children(Tree *t, const RingsideNode *node) {
        size_t n = count_visible(t, node);

        if (t->depth >= REPORT_DEPTH_MAX) {
                t->left_out += node->n_children;
                return;
        }
        t->left_out += node->n_children - n;
        t->depth++;
        if (n == 1)
                walk(t, node->children[0], MARK_NONE);
        else
                for (size_t i = 0; i < n; i++)
                        walk(t, node->children[i], i + 1 < n ? MARK_TEE : MARK_LAST);
        t->depth--;
}

static void walk(Tree *t, const RingsideNode *node, enum Mark mark) {
        print_node(t, node, mark);
        if (mark != MARK_NONE)
                t->bar[t->n_bars++] = mark == MARK_TEE; /* never more than depth */
        walk_children(t, node);
        if (mark != MARK_NONE)
                t->n_bars--;
}

int report_tree(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        bool callees = options->by == REPORT_CALLEES;
        Tree t = { .out = out, .view = view, .options = options, .style = style };
        const RingsideNode *root;
        int r;

        r = callees ? ringside_profile_get_callees(view->profile, &root) :
                      ringside_profile_get_callers(view->profile, &root);
        if (r < 0)
                return r;
        fprintf(out, "%s  total     self  %s%s\n", style->bold, callees ? "function, then callees" : "function, then callers",
                style->reset);
        walk_children(&t, root);
        if (t.left_out > 0)
                fprintf(out, "%s%zu branch%s left out: --threshold=0 without --limit shows them%s\n", style->dim,
                        t.left_out, t.left_out == 1 ? "" : "es", style->reset);
        return 0;
}
