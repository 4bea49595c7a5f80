/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Three passes over the tree: list it, number its functions by sorting, keep the largest frames. All
 * walks are loops with a stack of their own, since the depth of a tree comes from a recording.
 */

#include "flamegraph-frames.h"

#include <string.h>


/* A reference into frames with what it is sorted by, so that qsort() needs no context. */
typedef struct FrameRef {
        const RingsideNode *node;
        uint64_t value;
        size_t index;
} FrameRef;

typedef struct Pending {
        const RingsideNode *node;
        uint64_t limit; /* the caller's value */
        uint32_t depth;
} Pending;

/* Makes room for n more elements behind the first `used` ones. */
static int grow(void **array, size_t *allocated, size_t used, size_t n, size_t element_size) {
        size_t want;
        void *p;

        if (__builtin_add_overflow(used, n, &want))
                return -ENOMEM;
        if (want <= *allocated)
                return 0;
        want = MAX(want, MAX(*allocated * 2, (size_t) 64));
        p = reallocarray(*array, want, element_size);
        if (!p)
                return -ENOMEM;
        *array = p;
        *allocated = want;
        return 0;
}

static int list_frames(FlamegraphFrames *frames, const RingsideNode *root) {
        _cleanup_free_ Pending *stack = NULL;
        size_t allocated = 0, stack_allocated = 0, n_stack = 0;

        if (grow((void **) &stack, &stack_allocated, 0, 1, sizeof(*stack)) < 0)
                return -ENOMEM;
        stack[n_stack++] = (Pending){.node = root, .limit = UINT64_MAX};

        while (n_stack > 0) {
                const Pending top = stack[--n_stack];
                const RingsideNode *node = top.node;
                /* Sums in a hostile recording may have wrapped. */
                const uint64_t value = MIN(frames->by_samples ? node->total_samples : node->total_weight, top.limit);

                if (frames->n_frames >= UINT32_MAX || top.depth == UINT32_MAX)
                        return -E2BIG;
                if (grow((void **) &frames->frames, &allocated, frames->n_frames, 1, sizeof(*frames->frames)) < 0 ||
                    grow((void **) &stack, &stack_allocated, n_stack, node->n_children, sizeof(*stack)) < 0)
                        return -ENOMEM;

                frames->frames[frames->n_frames++] = (FlamegraphFrame){.node = node, .value = value, .depth = top.depth};
                for (size_t i = node->n_children; i > 0; i--)
                        stack[n_stack++] = (Pending){.node = node->children[i - 1], .limit = value, .depth = top.depth + 1};
        }
        return 0;
}

static int compare_strings(const char *a, const char *b) {
        return a == b ? 0 : strcmp(a, b); /* a profile holds each name once, mostly */
}

static int compare_functions(const RingsideNode *a, const RingsideNode *b) {
        int r = (int) a->kernel - (int) b->kernel;

        if (r == 0)
                r = (int) a->inlined - (int) b->inlined;
        if (r == 0)
                r = compare_strings(a->file, b->file);
        if (r == 0)
                r = compare_strings(a->name, b->name);
        return r;
}

static int compare_by_function(const void *a, const void *b) {
        return compare_functions(((const FrameRef *) a)->node, ((const FrameRef *) b)->node);
}

/* Largest first; equals in preorder, so that a caller comes before what it calls. */
static int compare_by_value(const void *a, const void *b) {
        const FrameRef *x = a, *y = b;

        if (x->value != y->value)
                return x->value > y->value ? -1 : 1;
        return x->index < y->index ? -1 : x->index > y->index;
}

static FrameRef *make_refs(const FlamegraphFrames *frames) {
        FrameRef *refs = reallocarray(NULL, frames->n_frames, sizeof(*refs));

        if (!refs)
                return NULL;
        for (size_t i = 0; i < frames->n_frames; i++)
                refs[i] = (FrameRef){
                        .node = frames->frames[i].node,
                        .value = frames->frames[i].value,
                        .index = i,
                };
        return refs;
}

static int number_functions(FlamegraphFrames *frames) {
        _cleanup_free_ FrameRef *refs = make_refs(frames);

        if (!refs)
                return -ENOMEM;
        qsort(refs, frames->n_frames, sizeof(*refs), compare_by_function);
        for (size_t i = 0; i < frames->n_frames; i++) {
                if (i == 0 || compare_functions(refs[i - 1].node, refs[i].node) != 0)
                        frames->n_functions++;
                frames->frames[refs[i].index].function = frames->n_functions - 1;
        }
        return 0;
}

int flamegraph_frames_new(FlamegraphFrames **ret, const RingsideNode *root) {
        _cleanup_(flamegraph_frames_freep) FlamegraphFrames *frames = calloc(1, sizeof(*frames));
        int r;

        if (!frames)
                return -ENOMEM;
        frames->by_samples = root->total_weight == 0;
        r = list_frames(frames, root);
        if (r < 0)
                return r;
        r = number_functions(frames);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(frames);
        return 0;
}

FlamegraphFrames *flamegraph_frames_free(FlamegraphFrames *frames) {
        if (!frames)
                return NULL;
        free(frames->frames);
        free(frames);
        return NULL;
}

int flamegraph_frames_keep(FlamegraphFrames *frames, size_t max_frames, size_t max_bytes,
                           FlamegraphCostFunc frame_cost, FlamegraphCostFunc function_cost) {
        _cleanup_free_ FrameRef *refs = make_refs(frames);
        _cleanup_free_ bool *known = calloc(frames->n_functions, sizeof(*known));
        size_t bytes = 0;

        if (!refs || !known)
                return -ENOMEM;
        qsort(refs, frames->n_frames, sizeof(*refs), compare_by_value);

        for (size_t i = 0; i < frames->n_frames; i++) {
                FlamegraphFrame *frame = &frames->frames[refs[i].index];

                bytes += frame_cost(frame->node);
                if (!known[frame->function])
                        bytes += function_cost(frame->node);
                if (i > 0 && (bytes > max_bytes || frames->n_kept >= max_frames)) {
                        frames->largest_left_out = refs[i].value;
                        break;
                }
                known[frame->function] = true;
                frame->kept = true;
                frames->n_kept++;
        }
        return 0;
}
