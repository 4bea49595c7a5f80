/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which frames of a call tree go into a flame graph's page: a preorder list of the whole tree, its
 * functions numbered, and the largest frames marked until a budget of bytes or frames is spent.
 * A frame's value is never larger than its caller's, so whatever is marked hangs together.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringside.h"
#include "util.h"

typedef struct FlamegraphFrame {
        const RingsideNode *node;
        uint64_t value;    /* its width: weight or samples, never more than its caller's */
        uint32_t depth;    /* 0: the root */
        uint32_t function; /* frames of one function (name, file, kernel) share a number below n_functions */
        bool kept;
} FlamegraphFrame;

typedef struct FlamegraphFrames {
        FlamegraphFrame *frames; /* preorder */
        size_t n_frames;
        size_t n_functions;
        size_t n_kept;
        uint64_t largest_left_out; /* value of the largest frame that is not kept */
        bool by_samples;           /* the tree has no weights, so frames are as wide as their samples */
} FlamegraphFrames;

/* How many bytes a frame takes in the page, and how many each function takes once. */
typedef size_t (*FlamegraphCostFunc)(const RingsideNode *node);

int flamegraph_frames_new(FlamegraphFrames **ret, const RingsideNode *root);
FlamegraphFrames *flamegraph_frames_free(FlamegraphFrames *frames);
DEFINE_CLEANUP(FlamegraphFrames, flamegraph_frames_free)

/* The root is always kept. Costs of functions are only asked for until the budget is spent. */
int flamegraph_frames_keep(FlamegraphFrames *frames, size_t max_frames, size_t max_bytes,
                           FlamegraphCostFunc frame_cost, FlamegraphCostFunc function_cost);
