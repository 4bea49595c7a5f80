/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Builds RingsideNodes. While it grows, a tree is an array in which a parent stands before its
 * children; a frozen tree is what the public header describes.
 */

#include <stddef.h>
#include <stdint.h>

#include "ringside.h"
#include "table.h"
#include "util.h"

typedef struct CallNode {
        uint32_t parent;
        uint32_t n_children;
        const char *name, *file;
        bool kernel, inlined;
        uint64_t self_samples, total_samples, self_weight, total_weight;
} CallNode;

/* Embedded. Node 0 is the root. */
typedef struct CallTree {
        CallNode *nodes;
        size_t n, allocated;
        Table children; /* parent, key -> index */

        RingsideNode *frozen;
        RingsideNode **frozen_children;
} CallTree;

/* -E2BIG beyond this. A hostile recording is small and its inverted tree need not be. */
#define CALL_TREE_NODES_MAX (16U << 20)

int call_tree_init(CallTree *tree, const char *root_name);
void call_tree_done(CallTree *tree);
/* The child of parent that key tells from its siblings; name and file are borrowed for good. */
int call_tree_child(CallTree *tree, uint32_t parent, uint64_t key, const char *name, const char *file, bool kernel, uint32_t *ret);
/* Adds to the totals of what is above what each node has itself, if it has not been counted on the way. */
void call_tree_sum_up(CallTree *tree);
/* Sorts and links. The nodes that are returned belong to the tree. */
int call_tree_freeze(CallTree *tree, const RingsideNode **ret_root);

/* Sums that stay at the largest number rather than overflow. */
static inline uint64_t add_saturated(uint64_t a, uint64_t b) {
        uint64_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
