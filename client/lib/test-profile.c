/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "functions.h"
#include "test-recording-util.h"
#include "util.h"

/* A recording that is put together row by row, and read again. */
typedef struct Fixture {
        Place *place;
        Store *store;
        int64_t file, library;
        RingsideRecording *recording;
        RingsideProfile *profile;
} Fixture;

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(Fixture));
        RingsideEvent clock = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        RingsideEvent cycles = { .name = "cpu-cycles", .unit = "cycles", .by_period = true, .value = 5000 };

        if (!f || place_setup((void **) &f->place) < 0 || store_new(&f->store, f->place->file, NULL) < 0 ||
            store_put_event(f->store, 0, &clock) < 0 || store_put_event(f->store, 1, &cycles) < 0 ||
            store_add_file(f->store, "/bin/prog", 0, 1, 0, NULL, 0, &f->file) < 0 ||
            store_add_file(f->store, "/lib/libx.so", 0, 2, 0, NULL, 0, &f->library) < 0)
                return -1;
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        ringside_profile_free(f->profile);
        ringside_recording_free(f->recording);
        store_free(f->store);
        (void) place_teardown((void **) &f->place);
        free(f);
        return 0;
}

static int64_t thread(Fixture *f, uint32_t pid, const char *process, uint32_t tid, const char *comm) {
        int64_t process_id, id;

        assert_return_code(store_add_process(f->store, pid, 0, 0, 0, process, "", 0, &process_id), 0);
        assert_return_code(store_add_thread(f->store, process_id, tid, comm, &id), 0);
        return id;
}

/* names, outermost first, end with NULL; one that begins with a + is in the library. */
static int64_t stack(Fixture *f, const char *const *names) {
        int64_t id = 0, frame;

        for (size_t i = 0; names[i]; i++) {
                int64_t file = names[i][0] == '+' ? f->library : strcmp(names[i], "[truncated]") == 0 ? 0 : f->file;
                const char *name = names[i][0] == '?' ? NULL : names[i] + (names[i][0] == '+');

                assert_return_code(store_add_frame(f->store, file, 0x100 + i, name, 0, false, &frame), 0);
                assert_return_code(store_add_stack(f->store, id, frame, &id), 0);
        }
        return id;
}

#define STACK(f, ...) stack(f, (const char *const[]){ __VA_ARGS__, NULL })

static void samples(Fixture *f, int64_t thread_id, unsigned event, int64_t stack_id, unsigned n, uint64_t weight) {
        for (unsigned i = 0; i < n; i++)
                assert_return_code(store_add_sample(f->store, SAMPLE(.time = i, .thread_id = thread_id, .event = event,
                                                                     .stack_id = stack_id, .weight = weight)), 0);
}

static void read_again(Fixture *f, const RingsideFilter *filter) {
        RingsideError error;

        f->store = store_free(f->store);
        f->profile = ringside_profile_free(f->profile);
        if (!f->recording && ringside_recording_open(&f->recording, f->place->file, &error) < 0)
                fail_msg("%s", error.text);
        if (ringside_profile_new(&f->profile, f->recording, filter, &error) < 0)
                fail_msg("%s", error.text);
}

static const RingsideRow *find_row(Fixture *f, enum RingsideGroup group, const char *name) {
        const RingsideRow *rows;
        size_t n;

        assert_return_code(ringside_profile_get_rows(f->profile, group, &rows, &n), 0);
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, name) == 0)
                        return &rows[i];
        fail_msg("no row %s", name);
        return NULL;
}

static void expect_row(Fixture *f, enum RingsideGroup group, const char *name, uint64_t self, uint64_t total) {
        const RingsideRow *row = find_row(f, group, name);

        assert_int_equal(row->self_samples, self);
        assert_int_equal(row->total_samples, total);
        assert_int_equal(row->self_weight, self * 1000000);
        assert_int_equal(row->total_weight, total * 1000000);
}

/* "name(self/total)[child,child]", in the order of the tree. */
static void print_node(const RingsideNode *node, FILE *out) {
        (void) fprintf(out, "%s(%" PRIu64 "/%" PRIu64 ")", node->name, node->self_samples, node->total_samples);
        for (size_t i = 0; i < node->n_children; i++) {
                (void) fputs(i > 0 ? "," : "[", out);
                print_node(node->children[i], out);
        }
        if (node->n_children > 0)
                (void) fputc(']', out);
}

static void expect_tree(const RingsideNode *root, const char *expected) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        print_node(root, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, expected);
}

static void fill(Fixture *f) {
        int64_t a = thread(f, 10, "prog", 10, "prog"), b = thread(f, 20, "other", 21, "worker");

        samples(f, a, 0, STACK(f, "main", "work", "+leaf"), 5, 0);
        samples(f, a, 0, STACK(f, "main", "work"), 2, 0);
        samples(f, a, 0, STACK(f, "main", "rec", "rec", "rec"), 3, 0);
        samples(f, b, 0, STACK(f, "[truncated]", "work", "+leaf"), 4, 0);
        samples(f, b, 0, STACK(f, "?"), 1, 0);
        samples(f, b, 0, 0, 1, 0);
        samples(f, a, 1, STACK(f, "main"), 7, 0);
        samples(f, a, 1, STACK(f, "main"), 1, 123);
}

static void test_inner_ids(void **state) {
        Fixture *f = *state;
        int64_t process, id;

        assert_return_code(store_add_process(f->store, 4711, 2, 0, 0, "inner", "", 0, &process), 0);
        assert_return_code(store_add_thread(f->store, process, 4712, "worker", &id), 0);
        samples(f, id, 0, STACK(f, "main"), 1, 0);
        samples(f, thread(f, 10, "outer", 10, "outer"), 0, STACK(f, "main"), 1, 0);
        read_again(f, NULL);
        assert_int_equal(find_row(f, RINGSIDE_BY_PROCESS, "inner")->id, 4711);
        assert_int_equal(find_row(f, RINGSIDE_BY_PROCESS, "inner")->inner_id, 2);
        assert_int_equal(find_row(f, RINGSIDE_BY_PROCESS, "outer")->inner_id, 0);
        assert_int_equal(find_row(f, RINGSIDE_BY_THREAD, "worker")->inner_id, 0);
}

static void test_rows(void **state) {
        Fixture *f = *state;
        const RingsideRow *rows;
        size_t n;

        fill(f);
        read_again(f, NULL);
        assert_int_equal(ringside_profile_get_samples(f->profile), 16);
        assert_int_equal(ringside_profile_get_weight(f->profile), 16000000);
        assert_int_equal(ringside_profile_get_truncated(f->profile), 4);
        expect_row(f, RINGSIDE_BY_FUNCTION, "leaf", 9, 9);
        expect_row(f, RINGSIDE_BY_FUNCTION, "work", 2, 11);
        expect_row(f, RINGSIDE_BY_FUNCTION, "rec", 3, 3); /* three times in one stack */
        expect_row(f, RINGSIDE_BY_FUNCTION, "main", 0, 10);
        expect_row(f, RINGSIDE_BY_FUNCTION, "prog+0x100", 1, 1);
        expect_row(f, RINGSIDE_BY_FUNCTION, "[no stack]", 1, 1);
        assert_string_equal(find_row(f, RINGSIDE_BY_FUNCTION, "leaf")->file, "libx.so");
        expect_row(f, RINGSIDE_BY_FILE, "/lib/libx.so", 9, 9);
        expect_row(f, RINGSIDE_BY_FILE, "/bin/prog", 6, 15);
        expect_row(f, RINGSIDE_BY_PROCESS, "prog", 10, 10);
        expect_row(f, RINGSIDE_BY_PROCESS, "other", 6, 6);
        expect_row(f, RINGSIDE_BY_THREAD, "worker", 6, 6);
        assert_int_equal(find_row(f, RINGSIDE_BY_PROCESS, "other")->id, 20);
        assert_int_equal(find_row(f, RINGSIDE_BY_THREAD, "worker")->id, 21);

        assert_return_code(ringside_profile_get_rows(f->profile, RINGSIDE_BY_FUNCTION, &rows, &n), 0);
        assert_int_equal(n, 7);
        for (size_t i = 1; i < n; i++)
                assert_true(rows[i - 1].self_weight >= rows[i].self_weight);
        assert_int_equal(ringside_profile_get_rows(f->profile, 17, &rows, &n), RINGSIDE_E_INVALID);
}

static void cut(Fixture *f, int64_t thread_id, int64_t stack_id, unsigned n, unsigned end) {
        for (unsigned i = 0; i < n; i++)
                assert_return_code(store_add_sample(f->store, SAMPLE(.time = i, .thread_id = thread_id, .stack_id = stack_id,
                                                                     .walk_end = (enum RingsideWalkEnd) end)), 0);
}

/* Whole or not; beside how the walk ended, which it leaves as it is. */
static void test_guessed(void **state) {
        Fixture *f = *state;
        int64_t a = thread(f, 10, "prog", 10, "main"), b = thread(f, 20, "other", 20, "other");
        int64_t whole = STACK(f, "main", "work"), half = STACK(f, "[truncated]", "work");
        const RingsideTruncation *t;
        size_t n;

        samples(f, a, 0, whole, 5, 0);
        cut(f, b, half, 4, RINGSIDE_WALK_NO_RULE);
        for (unsigned i = 0; i < 5; i++) {
                StoreSample sample = { .thread_id = a, .stack_id = whole, .guessed = true, .walk_end = RINGSIDE_WALK_COMPLETE };

                assert_return_code(store_add_sample(f->store, &sample), 0);
                if (i > 2)
                        continue;
                sample = (StoreSample){ .thread_id = b, .stack_id = half, .guessed = true, .walk_end = RINGSIDE_WALK_NO_RULE };
                assert_return_code(store_add_sample(f->store, &sample), 0);
        }
        read_again(f, NULL);
        assert_int_equal(ringside_profile_get_samples(f->profile), 17);
        assert_int_equal(ringside_profile_get_guessed(f->profile), 8);
        assert_return_code(ringside_profile_get_truncations(f->profile, &t, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(t->end, RINGSIDE_WALK_NO_RULE);
        assert_int_equal(t->samples, 7);
        read_again(f, &(RingsideFilter){ .size = sizeof(RingsideFilter), .process = "other", .event = -1 });
        assert_int_equal(ringside_profile_get_guessed(f->profile), 3);
        read_again(f, &(RingsideFilter){ .size = sizeof(RingsideFilter), .event = 1 });
        assert_int_equal(ringside_profile_get_guessed(f->profile), 0);
}

static void test_truncations(void **state) {
        Fixture *f = *state;
        static const struct {
                unsigned end;
                const char *file;
                unsigned samples;
        } expected[] = {
                { RINGSIDE_WALK_NO_RULE, "/lib/libx.so", 9 },
                { RINGSIDE_WALK_DEPTH, "/bin/prog", 4 },
                { RINGSIDE_WALK_END_MAX, "/lib/libx.so", 2 },
                { RINGSIDE_WALK_COMPLETE, "", 1 },
        };
        const RingsideTruncation *t;
        int64_t a = thread(f, 10, "prog", 10, "prog"), b = thread(f, 20, "other", 21, "worker");
        size_t n;

        cut(f, a, STACK(f, "[truncated]", "+far", "main", "work"), 5, RINGSIDE_WALK_NO_RULE);
        cut(f, b, STACK(f, "[truncated]", "+near"), 4, RINGSIDE_WALK_NO_RULE);
        cut(f, b, STACK(f, "[truncated]", "+near"), 2, 14); /* of a version to come */
        cut(f, b, STACK(f, "[truncated]", "deep", "+near"), 4, RINGSIDE_WALK_DEPTH);
        cut(f, b, STACK(f, "[truncated]"), 1, RINGSIDE_WALK_COMPLETE);
        cut(f, b, STACK(f, "main", "+near"), 100, RINGSIDE_WALK_BAD_FP); /* cut where it begins: nothing is missing */
        read_again(f, NULL);
        assert_return_code(ringside_profile_get_truncations(f->profile, &t, &n), 0);
        assert_int_equal(n, ELEMENTSOF(expected));
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(t[i].end, expected[i].end);
                assert_string_equal(t[i].file, expected[i].file);
                assert_int_equal(t[i].samples, expected[i].samples);
                assert_int_equal(t[i].weight, expected[i].samples * 1000000);
                assert_false(t[i].kernel);
        }
        assert_int_equal(ringside_profile_get_truncated(f->profile), 16);
        read_again(f, &(RingsideFilter){ .size = sizeof(RingsideFilter), .event = -1, .thread = "prog" });
        assert_return_code(ringside_profile_get_truncations(f->profile, &t, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(t[0].samples, 5);
}

static void test_trees(void **state) {
        Fixture *f = *state;
        const RingsideNode *root, *again;

        fill(f);
        read_again(f, NULL);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, "all(0/16)["
                          "prog(0/10)[main(0/10)[work(2/7)[leaf(5/5)],rec(0/3)[rec(0/3)[rec(3/3)]]]],"
                          "other(0/6)[[truncated](0/4)[work(0/4)[leaf(4/4)]],[no stack](1/1),prog+0x100(1/1)]]");
        assert_return_code(ringside_profile_get_callees(f->profile, &again), 0);
        assert_ptr_equal(root, again);
        assert_return_code(ringside_profile_get_callers(f->profile, &root), 0);
        expect_tree(root, "all(0/16)["
                          "leaf(9/9)[work(0/9)[main(0/5),[truncated](0/4)]],"
                          "rec(3/3)[rec(0/3)[rec(0/3)[main(0/3)]]],"
                          "work(2/2)[main(0/2)],"
                          "[no stack](1/1),prog+0x100(1/1)]");
}

static uint64_t count(Fixture *f, const char *process, const char *thread_name, int event) {
        RingsideFilter filter = { .size = sizeof(filter), .process = process, .thread = thread_name, .event = event };

        read_again(f, &filter);
        return ringside_profile_get_samples(f->profile);
}

static void test_filters(void **state) {
        Fixture *f = *state;
        RingsideFilter filter = { .size = sizeof(filter), .event = 2 };
        RingsideProfile *profile;
        RingsideError error;

        fill(f);
        assert_int_equal(count(f, NULL, NULL, -1), 16);
        assert_int_equal(count(f, "10", NULL, -1), 10);
        assert_int_equal(count(f, "prog", NULL, -1), 10);
        assert_int_equal(count(f, "oth*", NULL, -1), 6);
        assert_int_equal(count(f, "[op]*", NULL, 0), 16);
        assert_int_equal(count(f, "nobody", NULL, -1), 0);
        assert_int_equal(count(f, "1", NULL, -1), 0); /* a pid, not the beginning of one */
        assert_int_equal(count(f, NULL, "21", -1), 6);
        assert_int_equal(count(f, NULL, "work?r", -1), 6);
        assert_int_equal(count(f, "prog", "worker", -1), 0);
        assert_int_equal(count(f, NULL, NULL, 1), 8);
        assert_int_equal(ringside_profile_get_weight(f->profile), 7 * 5000 + 123);
        assert_int_equal(ringside_profile_new(&profile, f->recording, &filter, &error), RINGSIDE_E_INVALID);
}

static void read_function(Fixture *f, const char *function, const char *callees, const char *callers) {
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .function = function };
        const RingsideNode *root;

        read_again(f, &filter);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, callees);
        assert_return_code(ringside_profile_get_callers(f->profile, &root), 0);
        expect_tree(root, callers);
}

static void test_function(void **state) {
        Fixture *f = *state;
        int64_t t = thread(f, 1, "p", 1, "p"), jit, frame, made;

        fill(f);
        samples(f, t, 0, STACK(f, "main", "_ZN3foo3barB5cxx11Ei"), 1, 0);
        samples(f, t, 0, STACK(f, "main", "?"), 2, 0);
        assert_return_code(store_add_file(f->store, "[jit]", 0, 0, 0, NULL, 0, &jit), 0);
        assert_return_code(store_add_frame(f->store, jit, 0x7000, NULL, 0, false, &frame), 0);
        assert_return_code(store_add_stack(f->store, 0, frame, &made), 0);
        samples(f, t, 0, made, 3, 0);
        /* Also as the leaf; not the stack that it is not in. */
        read_function(f, "work", "all(0/11)[prog(0/7)[work(2/7)[leaf(5/5)]],other(0/4)[work(0/4)[leaf(4/4)]]]",
                      "all(0/11)[work(2/11)[main(0/7),[truncated](0/4)]]");
        expect_row(f, RINGSIDE_BY_FUNCTION, "main", 0, 7);
        expect_row(f, RINGSIDE_BY_FUNCTION, "leaf", 9, 9);
        /* From where it is called first, and from where it is called last. */
        read_function(f, "re?", "all(0/3)[prog(0/3)[rec(0/3)[rec(0/3)[rec(3/3)]]]]",
                      "all(0/3)[rec(3/3)[rec(0/3)[rec(0/3)[main(0/3)]]]]");
        read_function(f, "foo::bar[abi:cxx11]", "all(0/1)[p(0/1)[foo::bar[abi:cxx11](1/1)]]",
                      "all(0/1)[foo::bar[abi:cxx11](1/1)[main(0/1)]]");
        read_function(f, "leaf", "all(0/9)[prog(0/5)[leaf(5/5)],other(0/4)[leaf(4/4)]]",
                      "all(0/9)[leaf(9/9)[work(0/9)[main(0/5),[truncated](0/4)]]]");
        read_function(f, "nothing", "all(0/0)", "all(0/0)");
        /* Without a name, as reports show it. */
        read_function(f, "prog+0x101", "all(0/2)[p(0/2)[prog+0x101(2/2)]]", "all(0/2)[prog+0x101(2/2)[main(0/2)]]");
        read_function(f, "[[]jit]+0x*", "all(0/3)[p(0/3)[[jit]+0x7000(3/3)]]", "all(0/3)[[jit]+0x7000(3/3)]");
        read_function(f, "[jit]+0x7000", "all(0/3)[p(0/3)[[jit]+0x7000(3/3)]]", "all(0/3)[[jit]+0x7000(3/3)]");
}

static uint64_t count_between(Fixture *f, uint64_t since, uint64_t until, enum RingsideMode mode) {
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .since = since, .until = until, .mode = mode };

        read_again(f, &filter);
        return ringside_profile_get_samples(f->profile);
}

static void test_times(void **state) {
        Fixture *f = *state;
        int64_t t = thread(f, 1, "p", 1, "p"), main_stack = STACK(f, "main");

        for (int i = 0; i < 10; i++)
                assert_return_code(store_add_sample(f->store, SAMPLE(.time = 100 + i, .thread_id = t, .stack_id = main_stack,
                                                                     .kernel_mode = i % 3 == 0)), 0);
        assert_int_equal(count_between(f, 0, 0, RINGSIDE_MODE_ANY), 10);
        assert_int_equal(count_between(f, 103, 0, RINGSIDE_MODE_ANY), 7);
        assert_int_equal(count_between(f, 0, 103, RINGSIDE_MODE_ANY), 3);
        assert_int_equal(count_between(f, 103, 105, RINGSIDE_MODE_ANY), 2);
        assert_int_equal(count_between(f, 0, 0, RINGSIDE_MODE_KERNEL), 4);
        assert_int_equal(count_between(f, 0, 0, RINGSIDE_MODE_USER), 6);
        assert_int_equal(count_between(f, 101, 104, RINGSIDE_MODE_KERNEL), 1);
}

/* C++ is shown demangled; names that differ only in their file are two. */
static void test_names(void **state) {
        Fixture *f = *state;
        const RingsideRow *rows;
        size_t n;

        samples(f, thread(f, 1, "p", 1, "p"), 0, STACK(f, "_ZN3foo3barEi", "same", "+same"), 2, 0);
        read_again(f, NULL);
        assert_return_code(ringside_profile_get_rows(f->profile, RINGSIDE_BY_FUNCTION, &rows, &n), 0);
        assert_int_equal(n, 3);
        expect_row(f, RINGSIDE_BY_FUNCTION, "foo::bar", 0, 2);
}

/* Sums stay at the top rather than begin again at zero. */
static void test_overflow(void **state) {
        Fixture *f = *state;
        const RingsideNode *root;

        samples(f, thread(f, 1, "p", 1, "p"), 0, STACK(f, "main"), 4, INT64_MAX);
        read_again(f, NULL);
        assert_int_equal(ringside_profile_get_weight(f->profile), UINT64_MAX);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        assert_int_equal(root->total_weight, UINT64_MAX);
        assert_int_equal(find_row(f, RINGSIDE_BY_FUNCTION, "main")->total_weight, UINT64_MAX);
}

static void target_samples(Fixture *f, int64_t thread_id, int64_t stack_id, unsigned target, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                assert_return_code(store_add_sample(f->store, SAMPLE(.time = i, .thread_id = thread_id,
                                                                     .stack_id = stack_id, .target = target)), 0);
}

/* A process in two cgroups in turn, and one in none; the same in two of them. */
static void fill_targets(Fixture *f) {
        int64_t a = thread(f, 10, "prog", 10, "prog"), b = thread(f, 20, "other", 20, "other");

        assert_return_code(store_add_target(f->store, 1, "cgroup", "/a [x]"), 0);
        assert_return_code(store_add_target(f->store, 2, "unit", "b.service"), 0);
        assert_return_code(store_add_target(f->store, 3, "unit", "c.service"), 0);
        target_samples(f, a, STACK(f, "main"), 1, 5);
        target_samples(f, a, STACK(f, "main"), 2, 2);
        target_samples(f, b, STACK(f, "main"), 2, 4);
        target_samples(f, b, STACK(f, "main"), 0, 1);
}

static void test_targets(void **state) {
        Fixture *f = *state;
        const RingsideRecordingInfo *info;
        const RingsideNode *root;
        const RingsideRow *rows;
        size_t n;

        fill_targets(f);
        read_again(f, NULL);
        expect_row(f, RINGSIDE_BY_TARGET, "cgroup /a [x]", 5, 5);
        expect_row(f, RINGSIDE_BY_TARGET, "unit b.service", 6, 6);
        expect_row(f, RINGSIDE_BY_TARGET, "[no target]", 1, 1);
        for (unsigned group = RINGSIDE_BY_FUNCTION; group <= RINGSIDE_BY_FILE; group++) {
                assert_return_code(ringside_profile_get_rows(f->profile, group, &rows, &n), 0);
                assert_int_equal(n, 3);
                assert_true(strcmp(rows[0].name, rows[1].name) == 0 && strcmp(rows[0].name, rows[2].name) == 0);
                assert_string_equal(rows[0].target, "unit b.service");
                assert_string_equal(rows[1].target, "cgroup /a [x]");
                assert_string_equal(rows[2].target, "[no target]");
                assert_true(rows[0].self_samples == 6 && rows[0].total_samples == 6 && rows[1].self_samples == 5 &&
                            rows[2].self_samples == 1);
        }
        for (unsigned group = RINGSIDE_BY_PROCESS; group <= RINGSIDE_BY_THREAD; group++) {
                assert_return_code(ringside_profile_get_rows(f->profile, group, &rows, &n), 0);
                assert_int_equal(n, 4);
                assert_string_equal(rows[0].target, "cgroup /a [x]");
                assert_string_equal(rows[1].target, "unit b.service");
                assert_true(rows[0].id == 10 && rows[0].self_samples == 5 && rows[1].id == 20 && rows[2].id == 10 &&
                            rows[2].self_samples == 2);
        }
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, "all(0/12)[unit b.service(0/6)[other(0/4)[main(4/4)],prog(0/2)[main(2/2)]],"
                          "cgroup /a [x](0/5)[prog(0/5)[main(5/5)]],[no target](0/1)[other(0/1)[main(1/1)]]]");
        assert_return_code(ringside_profile_get_callers(f->profile, &root), 0);
        expect_tree(root, "all(0/12)[unit b.service(0/6)[main(6/6)],cgroup /a [x](0/5)[main(5/5)],"
                          "[no target](0/1)[main(1/1)]]");
        info = ringside_recording_get_info(f->recording);
        assert_int_equal(info->n_targets, 3);
        assert_string_equal(info->targets[0], "cgroup /a [x]");
        assert_string_equal(info->targets[2], "unit c.service");
}

static void test_folded_names(_unused_ void **state) {
        static const char *const names[][2] = {
                { "f.cold", "f" },
                { "f.part.0", "f" },
                { "f.constprop.0.isra.12.cold", "f" },
                { "f.part", "f" },
                { "_ZN3foo3barEv.constprop.0", "_ZN3foo3barEv" },
                { "a.b.cold", "a.b" },
                { "f", "f" },
                { "f.0", "f.0" },
                { "f.colder", "f.colder" },
                { "f.cold.x", "f.cold.x" },
                { "f.part.0x", "f.part.0x" },
                { "f.cold.", "f.cold." },
                { ".cold", ".cold" },
                { "", "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                assert_int_equal(function_name_fold(names[i][0]), strlen(names[i][1]));
}

/* Parts are functions of their own, unless they are asked for as what they are parts of. */
static void test_folded(void **state) {
        Fixture *f = *state;
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .fold_parts = true };
        int64_t id = thread(f, 10, "prog", 10, "prog");
        const RingsideNode *root;

        samples(f, id, 0, STACK(f, "main", "_ZN3foo3barEv.constprop.0", "_ZN3foo3barEv.constprop.0.cold"), 3, 1000000);
        samples(f, id, 0, STACK(f, "main", "_ZN3foo3barEv"), 2, 1000000);
        read_again(f, NULL);
        expect_row(f, RINGSIDE_BY_FUNCTION, "foo::bar.constprop.0.cold", 3, 3);
        read_again(f, &filter);
        expect_row(f, RINGSIDE_BY_FUNCTION, "foo::bar", 5, 5);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, "all(0/5)[prog(0/5)[main(0/5)[foo::bar(2/5)[foo::bar(3/3)]]]]");
        filter.function = "foo::bar";
        read_again(f, &filter);
        assert_int_equal(ringside_profile_get_samples(f->profile), 5);
        filter.fold_parts = false;
        read_again(f, &filter);
        assert_int_equal(ringside_profile_get_samples(f->profile), 2);
}

/* As if nothing had been named; with a filter, too. */
static void test_merged_targets(void **state) {
        Fixture *f = *state;
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .merge_targets = true };
        const RingsideNode *root;
        const RingsideRow *rows;
        size_t n;

        fill_targets(f);
        read_again(f, &filter);
        for (unsigned group = 0; group < RINGSIDE_BY_TARGET; group++) {
                assert_return_code(ringside_profile_get_rows(f->profile, group, &rows, &n), 0);
                assert_int_equal(n, group == RINGSIDE_BY_PROCESS || group == RINGSIDE_BY_THREAD ? 2 : 1);
                for (size_t i = 0; i < n; i++)
                        assert_string_equal(rows[i].target, "");
        }
        expect_row(f, RINGSIDE_BY_FUNCTION, "main", 12, 12);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, "all(0/12)[prog(0/7)[main(7/7)],other(0/5)[main(5/5)]]");
        assert_return_code(ringside_profile_get_callers(f->profile, &root), 0);
        expect_tree(root, "all(0/12)[main(12/12)]");
        expect_row(f, RINGSIDE_BY_TARGET, "[no target]", 12, 12);
        filter.target = "unit *";
        read_again(f, &filter);
        expect_row(f, RINGSIDE_BY_FUNCTION, "main", 6, 6);
}

static void expect_filtered(Fixture *f, const char *target, uint64_t samples) {
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .target = target };

        read_again(f, &filter);
        assert_int_equal(ringside_profile_get_samples(f->profile), samples);
}

static void test_target_filter(void **state) {
        Fixture *f = *state;
        RingsideFilter older = { .size = offsetof(RingsideFilter, target), .event = -1, .target = "/a [x]" };

        fill_targets(f);
        expect_filtered(f, NULL, 12);
        expect_filtered(f, "/a [x]", 5); /* which no glob of the same text is */
        expect_filtered(f, "cgroup /a [x]", 5);
        expect_filtered(f, "/a*", 5);
        expect_filtered(f, "unit *", 6);
        expect_filtered(f, "*.service", 6);
        expect_filtered(f, "c.service", 0);
        expect_filtered(f, "b", 0);
        expect_filtered(f, "", 0);
        read_again(f, &older);
        assert_int_equal(ringside_profile_get_samples(f->profile), 12);
}

/* One target is what the whole recording is of: its name is in the head, not in every stack. */
static void test_one_target(void **state) {
        Fixture *f = *state;
        const RingsideNode *root;

        assert_return_code(store_add_target(f->store, 1, "command", "prog"), 0);
        target_samples(f, thread(f, 10, "prog", 10, "prog"), STACK(f, "main"), 1, 5);
        read_again(f, NULL);
        expect_row(f, RINGSIDE_BY_TARGET, "command prog", 5, 5);
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        expect_tree(root, "all(0/5)[prog(0/5)[main(5/5)]]");
}

static void test_nothing(void **state) {
        Fixture *f = *state;
        const RingsideNode *root;
        const RingsideRow *rows;
        size_t n;

        read_again(f, NULL);
        assert_int_equal(ringside_profile_get_samples(f->profile), 0);
        for (unsigned group = 0; group <= RINGSIDE_BY_TARGET; group++) {
                assert_return_code(ringside_profile_get_rows(f->profile, group, &rows, &n), 0);
                assert_int_equal(n, 0);
        }
        assert_return_code(ringside_profile_get_callees(f->profile, &root), 0);
        assert_int_equal(root->n_children, 0);
        assert_return_code(ringside_profile_get_callers(f->profile, &root), 0);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_rows),  TEST(test_guessed), TEST(test_truncations), TEST(test_trees),    TEST(test_filters),
                TEST(test_function), TEST(test_overflow), TEST(test_nothing),
                TEST(test_times), TEST(test_overflow), TEST(test_nothing),
                TEST(test_names), TEST(test_overflow), TEST(test_nothing),
                TEST(test_targets), TEST(test_merged_targets), TEST(test_folded_names), TEST(test_folded), TEST(test_target_filter), TEST(test_one_target), TEST(test_inner_ids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
