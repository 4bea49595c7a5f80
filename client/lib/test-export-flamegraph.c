/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The flame graph's page as bytes: what names may hold, which frames are left out, how large it gets.
 * What the page does in a browser is tested in tests/browser.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <json.h>

#include "export-flamegraph.h"
#include "flamegraph-frames.h"
#include "util.h"

#define MANY_FRAMES 300000

static const RingsideEvent event = {.name = "cpu-clock", .unit = "ns", .value = 99};

static const RingsideRecordingInfo plain_info = {
        .command = "./demo",
        .hostname = "host",
        .kernel = "6.1",
        .samples = 10,
        .n_events = 1,
        .events = &event,
};

static inline void json_object_putp(json_object **object) {
        json_object_put(*object);
}

static char *make_page(const RingsideNode *root, const RingsideRecordingInfo *info, size_t *ret_size) {
        RingsideError error = {0};
        char *page = NULL;
        FILE *out = open_memstream(&page, ret_size);

        assert_non_null(out);
        assert_int_equal(flamegraph_write(root, info, 1, out, &error), 0);
        fclose(out);
        return page;
}

static json_object *parse_data(const char *page) {
        static const char begin[] = "<script type=\"application/json\" id=\"data\">";
        _cleanup_free_ char *json = NULL;
        const char *start = strstr(page, begin), *end;
        json_object *data;

        assert_non_null(start);
        start += strlen(begin);
        end = strstr(start, "</script>");
        assert_non_null(end);
        json = strndup(start, end - start);
        data = json_tokener_parse(json);
        assert_non_null(data);
        return data;
}

static json_object *get(json_object *object, const char *key) {
        json_object *value = json_object_object_get(object, key);

        assert_non_null(value);
        return value;
}

static const char *function_name(json_object *data, size_t i) {
        json_object *function = json_object_array_get_idx(get(data, "functions"), i);

        return json_object_get_string(json_object_array_get_idx(function, 0));
}

static int64_t frame_number(json_object *data, size_t i) {
        return json_object_get_int64(json_object_array_get_idx(get(data, "frames"), i));
}

static unsigned count(const char *text, const char *what) {
        unsigned n = 0;

        for (const char *p = text; (p = strstr(p, what)); p++)
                n++;
        return n;
}

/* a (10: 1 self) -> b (6), b again as kernel (3) */
static void test_tree(void **state _unused_) {
        const RingsideNode b = {.name = "b", .file = "lib", .self_samples = 6, .total_samples = 6, .self_weight = 60, .total_weight = 60};
        const RingsideNode k = {.name = "b", .file = "lib", .kernel = true, .self_samples = 3, .total_samples = 3, .self_weight = 30, .total_weight = 30};
        struct RingsideNode *const children[] = {(RingsideNode *) &b, (RingsideNode *) &k};
        const RingsideNode a = {
                .name = "a", .file = "", .self_samples = 1, .total_samples = 10, .self_weight = 10, .total_weight = 100,
                .children = children, .n_children = 2,
        };
        static const int64_t want[] = {0, 0, 1, 10, 10, 100, 1, 1, 6, 6, 60, 60, 1, 2, 3, 3, 30, 30};
        size_t size;
        _cleanup_free_ char *page = make_page(&a, &plain_info, &size);
        _cleanup_(json_object_putp) json_object *data = parse_data(page);
        json_object *info = get(data, "info");

        assert_int_equal(json_object_array_length(get(data, "functions")), 3);
        assert_string_equal(function_name(data, 0), "a");
        assert_string_equal(function_name(data, 1), "b");
        assert_int_equal(json_object_array_length(get(data, "frames")), ELEMENTSOF(want));
        for (size_t i = 0; i < ELEMENTSOF(want); i++)
                assert_int_equal(frame_number(data, i), want[i]);
        assert_string_equal(json_object_get_string(get(info, "command")), "./demo");
        assert_string_equal(json_object_get_string(get(info, "unit")), "ns");
        assert_int_equal(json_object_get_int64(get(info, "rate")), 99);
        assert_int_equal(json_object_get_int64(get(info, "truncated")), 1);
        assert_int_equal(json_object_get_int64(get(info, "leftOut")), 0);
}

static void test_without_weights(void **state _unused_) {
        const RingsideNode a = {.name = "a", .file = "", .self_samples = 7, .total_samples = 7};
        const RingsideNode none = {.name = "a", .file = ""};
        size_t size;
        _cleanup_free_ char *page = make_page(&a, &plain_info, &size), *empty = make_page(&none, &plain_info, &size);
        _cleanup_(json_object_putp) json_object *data = parse_data(page), *nothing = parse_data(empty);

        assert_string_equal(json_object_get_string(get(get(data, "info"), "unit")), "samples");
        assert_int_equal(frame_number(data, 5), 7);
        assert_int_equal(frame_number(nothing, 5), 0);
}

static void test_hostile_strings(void **state _unused_) {
        static const char hostile[] = "</script><!--<img onerror=x>&amp;\"'\\\033\n\177\342\200\250\342\200\251\342\200\256\377\303";
        static const char shown[] = "</script><!--<img onerror=x>&amp;\"'\\\\x1b\\x0a\\x7f\\xe2\\x80\\xa8\\xe2\\x80\\xa9\\xe2\\x80\\xae\\xff\\xc3";
        const RingsideNode plain = {.name = "a", .file = "b"}, node = {.name = hostile, .file = hostile};
        RingsideEvent hostile_event = {.unit = "</script>"};
        const RingsideRecordingInfo info = {
                .command = hostile, .hostname = hostile, .kernel = hostile, .n_events = 1, .events = &hostile_event,
        };
        size_t size;
        _cleanup_free_ char *page = NULL, *harmless = make_page(&plain, &plain_info, &size);
        _cleanup_(json_object_putp) json_object *data = NULL;

        memcpy(hostile_event.name, hostile, sizeof(hostile_event.name) - 1);
        page = make_page(&node, &info, &size);
        data = parse_data(page);

        assert_string_equal(function_name(data, 0), shown);
        assert_string_equal(json_object_get_string(get(get(data, "info"), "command")), shown);
        /* No string adds to the markup. */
        assert_int_equal(count(page, "<"), count(harmless, "<"));
        assert_int_equal(count(page, ">"), count(harmless, ">"));
        assert_int_equal(count(page, "&"), count(harmless, "&"));
        for (const char *p = page; *p; p++)
                assert_true((unsigned char) *p >= 0x20 ? *p != 0x7f : *p == '\n');
        assert_int_equal(count(page, "\342\200\250") + count(page, "\342\200\256"), 0);
}

/* A page's script may be run by anybody who finds a way to change it, unless the policy names its hash. */
static void test_policy(void **state _unused_) {
        const RingsideNode a = {.name = "a", .file = ""};
        size_t size;
        _cleanup_free_ char *page = make_page(&a, &plain_info, &size);

        assert_int_equal(count(page, "default-src 'none'; script-src 'sha256-"), 1);
        assert_int_equal(count(page, "unsafe-inline"), 0);
        assert_int_equal(count(page, "http://") + count(page, "https://"), 0);
        assert_int_equal(count(page, "@SCRIPT") + count(page, "@STYLE") + count(page, "@DATA"), 0);
}

static size_t cost_of_ten(const RingsideNode *node _unused_) {
        return 10;
}

static size_t cost_of_name(const RingsideNode *node) {
        return strlen(node->name);
}

/* A chain below the root and, beside it, a child that is larger than the chain's end. */
static void test_pruning(void **state _unused_) {
        const RingsideNode d = {.name = "d", .file = "", .total_weight = 1};
        struct RingsideNode *const below_c[] = {(RingsideNode *) &d};
        const RingsideNode c = {.name = "c", .file = "", .total_weight = 20, .children = below_c, .n_children = 1};
        struct RingsideNode *const below_b[] = {(RingsideNode *) &c};
        const RingsideNode b = {.name = "b", .file = "", .total_weight = 60, .children = below_b, .n_children = 1};
        const RingsideNode e = {.name = "e", .file = "", .total_weight = 40};
        struct RingsideNode *const below_a[] = {(RingsideNode *) &b, (RingsideNode *) &e};
        const RingsideNode a = {.name = "a", .file = "", .total_weight = 100, .children = below_a, .n_children = 2};
        static const struct {
                size_t max_frames, max_bytes;
                const char *kept; /* preorder is abcde */
                uint64_t largest_left_out;
        } cases[] = {
                {100, 1000, "abcde", 0}, {100, 55, "abcde", 0}, {100, 54, "abce", 1}, {100, 33, "abe", 20},
                {2, 1000, "ab", 40},     {1, 1000, "a", 60},    {0, 0, "a", 60},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(flamegraph_frames_freep) FlamegraphFrames *frames = NULL;
                char kept[8] = "";

                assert_int_equal(flamegraph_frames_new(&frames, &a), 0);
                assert_int_equal(frames->n_frames, 5);
                assert_int_equal(frames->n_functions, 5);
                assert_int_equal(flamegraph_frames_keep(frames, cases[i].max_frames, cases[i].max_bytes, cost_of_ten, cost_of_name), 0);
                for (size_t k = 0; k < frames->n_frames; k++)
                        if (frames->frames[k].kept)
                                strcat(kept, frames->frames[k].node->name);
                assert_string_equal(kept, cases[i].kept);
                assert_int_equal(frames->n_kept, strlen(kept));
                assert_int_equal(frames->largest_left_out, cases[i].largest_left_out);
        }
}

/* Sums in a damaged recording: a callee that claims more than its caller does not outlive it. */
static void test_wrapped_sums(void **state _unused_) {
        const RingsideNode b = {.name = "b", .file = "", .total_weight = UINT64_MAX};
        struct RingsideNode *const below_a[] = {(RingsideNode *) &b};
        const RingsideNode a = {.name = "a", .file = "", .total_weight = 5, .children = below_a, .n_children = 1};
        _cleanup_(flamegraph_frames_freep) FlamegraphFrames *frames = NULL;

        assert_int_equal(flamegraph_frames_new(&frames, &a), 0);
        assert_int_equal(frames->frames[1].value, 5);
        assert_int_equal(flamegraph_frames_keep(frames, 1, 1000, cost_of_ten, cost_of_name), 0);
        assert_true(frames->frames[0].kept);
        assert_false(frames->frames[1].kept);
}

/* deep: each frame calls the next; else one caller of them all. */
static void check_size(bool deep, const char *name, bool distinct) {
        RingsideNode *nodes = calloc(MANY_FRAMES, sizeof(*nodes));
        struct RingsideNode **children = calloc(MANY_FRAMES, sizeof(*children));
        char(*names)[16] = calloc(MANY_FRAMES, sizeof(*names));
        _cleanup_free_ char *page = NULL;
        _cleanup_(json_object_putp) json_object *data = NULL;
        size_t size, n_kept;

        assert_true(nodes && children && names);
        for (size_t i = 0; i < MANY_FRAMES; i++) {
                snprintf(names[i], sizeof(names[i]), "<%zu>", i);
                nodes[i] = (RingsideNode){
                        .name = distinct ? names[i] : name, .file = name, .self_weight = UINT64_MAX / 2,
                        .total_weight = UINT64_MAX - i, .self_samples = 1, .total_samples = UINT64_MAX - i,
                };
                children[i] = &nodes[i];
                if (deep && i + 1 < MANY_FRAMES) {
                        nodes[i].children = &children[i + 1];
                        nodes[i].n_children = 1;
                }
        }
        if (!deep) {
                nodes[0].children = children + 1;
                nodes[0].n_children = MANY_FRAMES - 1;
        }

        page = make_page(&nodes[0], &plain_info, &size);
        assert_true(size < FLAMEGRAPH_PAGE_MAX);
        data = parse_data(page);
        n_kept = json_object_array_length(get(data, "frames")) / 6;
        assert_true(n_kept > 500);
        assert_int_equal(n_kept + json_object_get_int64(get(get(data, "info"), "leftOut")), MANY_FRAMES);
        free(nodes);
        free(children);
        free(names);
}

static void test_size(void **state _unused_) {
        char name[5000];

        memset(name, '<', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        check_size(false, name, true);
        memset(name, '\033', sizeof(name) - 1);
        check_size(false, name, true);
        check_size(false, "short", false);
        check_size(true, "short", true);
}

static void test_size_of_info(void **state _unused_) {
        static char text[100000];
        const RingsideNode a = {.name = "a", .file = ""};
        const RingsideRecordingInfo info = {.command = text, .hostname = text, .kernel = text};
        size_t size, small;
        _cleanup_free_ char *page = NULL;

        free(make_page(&a, &plain_info, &small));
        memset(text, '<', sizeof(text) - 1);
        page = make_page(&a, &info, &size);
        assert_true(size < small + 6 * 4096 * 6);
}

static void test_full_disk(void **state _unused_) {
        const RingsideNode a = {.name = "a", .file = ""};
        _cleanup_fclose_ FILE *out = fopen("/dev/full", "we");
        RingsideError error = {0};

        assert_non_null(out);
        assert_int_equal(flamegraph_write(&a, &plain_info, 0, out, &error), -ENOSPC);
        assert_int_equal(error.code, -ENOSPC);
        assert_non_null(strstr(error.text, "No space left"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tree),          cmocka_unit_test(test_without_weights),
                cmocka_unit_test(test_hostile_strings), cmocka_unit_test(test_policy),
                cmocka_unit_test(test_pruning),       cmocka_unit_test(test_wrapped_sums),
                cmocka_unit_test(test_size),          cmocka_unit_test(test_size_of_info),
                cmocka_unit_test(test_full_disk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
