/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Since parents come before their children, one pass from the back sums up and one from the front links. */

#include "call-tree.h"

#include <string.h>

static int append(CallTree *tree, const CallNode *node, uint32_t *ret) {
        if (tree->n >= CALL_TREE_NODES_MAX)
                return -E2BIG;
        if (tree->n == tree->allocated) {
                size_t allocated = MAX(tree->allocated * 2, (size_t) 256);
                CallNode *nodes = reallocarray(tree->nodes, allocated, sizeof(CallNode));

                if (!nodes)
                        return -ENOMEM;
                tree->nodes = nodes;
                tree->allocated = allocated;
        }
        tree->nodes[tree->n] = *node;
        *ret = tree->n++;
        return 0;
}

int call_tree_init(CallTree *tree, const char *root_name) {
        uint32_t root;

        *tree = (CallTree){};
        return append(tree, &(CallNode){ .name = root_name, .file = "" }, &root);
}

void call_tree_done(CallTree *tree) {
        free(tree->nodes);
        free(tree->frozen);
        free(tree->frozen_children);
        table_done(&tree->children);
        *tree = (CallTree){};
}

int call_tree_child(CallTree *tree, uint32_t parent, uint64_t key, const char *name, const char *file, bool kernel,
                    uint32_t *ret) {
        TableKey k = { parent, key, 0 };
        uint32_t child = table_get(&tree->children, k);
        int r;

        if (child == 0) {
                r = append(tree, &(CallNode){ .parent = parent, .name = name, .file = file, .kernel = kernel }, &child);
                if (r < 0)
                        return r;
                r = table_put(&tree->children, k, child);
                if (r < 0)
                        return r;
                tree->nodes[parent].n_children++;
        }
        *ret = child;
        return 0;
}

void call_tree_sum_up(CallTree *tree) {
        for (size_t i = tree->n; i-- > 0;) {
                CallNode *node = &tree->nodes[i];

                node->total_samples = add_saturated(node->total_samples, node->self_samples);
                node->total_weight = add_saturated(node->total_weight, node->self_weight);
                if (i > 0) {
                        CallNode *parent = &tree->nodes[node->parent];

                        parent->total_samples = add_saturated(parent->total_samples, node->total_samples);
                        parent->total_weight = add_saturated(parent->total_weight, node->total_weight);
                }
        }
}

static int heavier_first(const void *a, const void *b) {
        const RingsideNode *x = *(RingsideNode *const *) a, *y = *(RingsideNode *const *) b;
        int c;

        if (x->total_weight != y->total_weight)
                return x->total_weight > y->total_weight ? -1 : 1;
        c = strcmp(x->name, y->name);
        if (c == 0)
                c = strcmp(x->file, y->file);
        return c != 0 ? c : x->inlined - y->inlined;
}

int call_tree_freeze(CallTree *tree, const RingsideNode **ret_root) {
        RingsideNode *frozen = calloc(tree->n, sizeof(RingsideNode));
        RingsideNode **children = calloc(tree->n, sizeof(RingsideNode *)), **next = children;

        tree->frozen = frozen;
        tree->frozen_children = children;
        if (!frozen || !children)
                return -ENOMEM;

        for (size_t i = 0; i < tree->n; i++) {
                const CallNode *node = &tree->nodes[i];

                frozen[i] = (RingsideNode){
                        .name = node->name,
                        .file = node->file,
                        .kernel = node->kernel,
                        .inlined = node->inlined,
                        .self_samples = node->self_samples,
                        .total_samples = node->total_samples,
                        .self_weight = node->self_weight,
                        .total_weight = node->total_weight,
                        .children = next,
                };
                next += node->n_children;
                if (i > 0) {
                        RingsideNode *parent = &frozen[node->parent];

                        ((RingsideNode **) parent->children)[parent->n_children++] = &frozen[i];
                }
        }
        for (size_t i = 0; i < tree->n; i++)
                if (frozen[i].n_children > 1)
                        qsort((void *) frozen[i].children, frozen[i].n_children, sizeof(RingsideNode *), heavier_first);

        /* What it grew from is not needed any more. */
        free(tree->nodes);
        tree->nodes = NULL;
        table_done(&tree->children);
        *ret_root = frozen;
        return 0;
}
