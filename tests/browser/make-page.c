/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * make-page fixed|big|empty FILE: flame graph pages of known trees, for test-flamegraph.py, which
 * expects the names and numbers below.
 */

#include <stdbool.h>
#include <string.h>

#include "export-flamegraph.h"
#include "util.h"

#define SAMPLE_NS 10000000ULL /* 100 Hz */
#define BIG_FRAMES 200000

/* A node that is being built: children is one of its own, and so writable. */
typedef struct Builder {
        RingsideNode node;
        struct RingsideNode **children;
        char name[64];
} Builder;

static Builder *builder_of(const RingsideNode *node) {
        return (Builder *) node;
}

static Builder *add(Builder *parent, const char *name, const char *file, bool kernel, uint64_t self) {
        Builder *b = calloc(1, sizeof(*b));

        if (!b)
                abort();
        snprintf(b->name, sizeof(b->name), "%s", name);
        b->node = (RingsideNode){.name = b->name, .file = file, .kernel = kernel, .self_samples = self};
        if (!parent)
                return b;
        parent->children = reallocarray(parent->children, parent->node.n_children + 1, sizeof(*parent->children));
        if (!parent->children)
                abort();
        parent->children[parent->node.n_children++] = &b->node;
        parent->node.children = parent->children;
        return b;
}

static int compare(const void *a, const void *b) {
        const RingsideNode *x = *(const RingsideNode *const *) a, *y = *(const RingsideNode *const *) b;

        if (x->total_weight != y->total_weight)
                return x->total_weight > y->total_weight ? -1 : 1;
        return strcmp(x->name, y->name);
}

static void sum_up(Builder *b) {
        RingsideNode *node = &b->node;

        node->total_samples = node->self_samples;
        for (size_t i = 0; i < node->n_children; i++) {
                sum_up(builder_of(node->children[i]));
                node->total_samples += node->children[i]->total_samples;
        }
        node->self_weight = node->self_samples * SAMPLE_NS;
        node->total_weight = node->total_samples * SAMPLE_NS;
        if (node->n_children > 0)
                qsort(b->children, node->n_children, sizeof(*b->children), compare);
}

static Builder *builder_free(Builder *b) {
        if (!b)
                return NULL;
        for (size_t i = 0; i < b->node.n_children; i++)
                builder_free(builder_of(b->children[i]));
        free(b->children);
        free(b);
        return NULL;
}
DEFINE_CLEANUP(Builder, builder_free)

/* 1000 samples: 700 demo, 200 evil, 100 deep. */
static Builder *make_fixed(void) {
        static const struct {
                const char *name, *file;
        } evil[] = {
                {"</script><script>window.pwned=1</script>", "</style>.so"},
                {"<img src=x onerror=window.pwned=1>", "<b>lib.so</b>"},
                {"\"quotes\" 'single' `back` &amp;", "a\"b.so"},
                {"escape \033[31mred\007 bell", "c\nd.so"},
                {"two\nlines\r\tand a tab", "e.so"},
                {"override \342\200\256txt.exe", "f.so"},
                {"bad utf-8 \377\376", "g.so"},
                {"separators \342\200\250 \342\200\251", "h.so"},
                {"${window.pwned=1} javascript:window.pwned=1", "i.so"},
                {"std::vector<std::pair<int, \320\226> >::operator[](unsigned)", "\320\226.so"},
        };
        Builder *root = add(NULL, "all", "", false, 0), *p, *q;

        p = add(add(root, "demo", "", false, 0), "main", "demo", false, 50);
        q = add(p, "compute", "demo", false, 100);
        add(q, "inner", "libm.so.6", false, 300);
        add(p, "compute_other", "demo", false, 100);
        q = add(add(p, "read_all", "demo", false, 0), "read", "libc.so.6", false, 30);
        q = add(q, "[kernel]", "", true, 60);
        add(q, "vfs_read", "", true, 60);

        p = add(root, "evil", "", false, 0);
        for (size_t i = 0; i < ELEMENTSOF(evil); i++)
                add(p, evil[i].name, evil[i].file, false, 20);

        p = add(root, "deep", "", false, 0);
        for (int i = 0; i < 255; i++)
                p = add(p, "recurse", "deep", false, i == 254 ? 100 : 0);
        return root;
}

/* Like a large C++ program: random paths, a few of them hot, names of some length. */
static Builder *make_big(void) {
        Builder *root = add(NULL, "all", "", false, 0), *process = add(root, "big", "", false, 0);
        size_t n = 2;
        uint32_t seed = 1;

        while (n < BIG_FRAMES) {
                Builder *b = process;
                unsigned levels = 20 + (seed >> 16) % 40;

                for (unsigned i = 0; i < levels && n < BIG_FRAMES; i++) {
                        char name[64];
                        uint32_t which;

                        seed = seed * 1664525 + 1013904223;
                        which = __builtin_ctz(seed >> 8 | 0x1000) % 7; /* half the paths go one way */
                        if (which < b->node.n_children) {
                                b = builder_of(b->children[which]);
                                continue;
                        }
                        snprintf(name, sizeof(name), "ns%u::Component<Part%u>::step_%zu(int)", i, seed >> 20, n++);
                        b = add(b, name, i % 3 ? "big" : "libstdc++.so.6", false, 0);
                }
                b->node.self_samples++;
        }
        return root;
}

static int make(const char *what, const char *path) {
        static const RingsideEvent event = {.name = "cpu-clock", .unit = "ns", .value = 100};
        RingsideRecordingInfo info = {
                .finished = true,
                .start_realtime = 1750000000000000000,
                .duration = 10500000000,
                .statistics = {.taken = 1010, .lost = 10, .walk_end[RINGSIDE_WALK_BAD_FP] = 400},
                .command = "./demo --size 10 '</script><script>window.pwned=1</script>'",
                .hostname = "host<b>",
                .kernel = "6.1.0 x86_64",
                .grant = "own",
                .n_cpus = 2,
                .n_events = 1,
                .events = &event,
        };
        _cleanup_(builder_freep) Builder *root = NULL;
        _cleanup_fclose_ FILE *out = NULL;
        RingsideError error = {0};

        if (strcmp(what, "fixed") == 0)
                root = make_fixed();
        else if (strcmp(what, "big") == 0)
                root = make_big();
        else if (strcmp(what, "empty") == 0)
                root = add(NULL, "all", "", false, 0);
        else
                return -EINVAL;
        sum_up(root);
        info.samples = root->node.total_samples;
        info.statistics.emitted = info.samples;

        out = fopen(path, "we");
        if (!out)
                return -errno;
        if (flamegraph_write(&root->node, &info, info.samples / 5, out, &error) < 0) {
                fprintf(stderr, "%s\n", error.text);
                return error.code;
        }
        return 0;
}

int main(int argc, char *argv[]) {
        if (argc != 3 || make(argv[1], argv[2]) < 0) {
                fprintf(stderr, "make-page fixed|big|empty FILE\n");
                return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}
