/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "profile.pb-c.h"
#include "test-recording-util.h"

static void add_stack(Store *store, const char *const *names, const int64_t *files, size_t n, int64_t *ret) {
        int64_t id = 0, frame;

        for (size_t i = 0; i < n; i++) {
                assert_return_code(store_add_frame(store, files[i], 0x1000 + 16 * i, names[i], 4, files[i] == 3, &frame), 0);
                assert_return_code(store_add_stack(store, id, frame, &id), 0);
        }
        *ret = id;
}

static void make_recording(const char *path, const RingsideEvent *event) {
        int64_t process, thread, file, id;
        Store *store;

        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, event), 0);
        assert_return_code(store_put_meta(store, "start_realtime", "1700000000000000000"), 0);
        assert_return_code(store_put_meta(store, "label.host", "web=1"), 0);
        assert_return_code(store_put_meta(store, "label.pid", "mine"), 0);
        assert_return_code(store_add_target(store, 1, "unit", "a b.service"), 0);
        assert_return_code(store_add_process(store, 10, 0, 0, 0, "a;b\nc", "", 0, &process), 0);
        assert_return_code(store_add_thread(store, process, 11, "worker", &thread), 0);
        assert_return_code(store_add_file(store, "/lib/libx.so", 0, 2, 0, NULL, 0, &file), 0);
        assert_return_code(store_add_file(store, "/bin/prog", 0, 1, 0, "\xab\xcd", 2, &file), 0);
        assert_return_code(store_add_file(store, "[kernel]", 0, 0, 0, NULL, 0, &file), 0);
        assert_return_code(store_add_mapping(store, process, 0x7f0000, 0x7f1000, 0, 1, 0), 0);
        assert_return_code(store_add_mapping(store, process, 0x400000, 0x401000, 0, 2, 0), 0);

        add_stack(store, (const char *const[]){ "main", "_ZN1x3runEv", "[kernel]" }, (const int64_t[]){ 2, 1, 3 }, 3, &id);
        for (int i = 0; i < 3; i++)
                assert_return_code(store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .kernel_mode = true, .walk_end = 1, .stack_id = id, .target = 1)), 0);
        add_stack(store, (const char *const[]){ "main", "evil;\x1b[31mname with spaces\xff" }, (const int64_t[]){ 2, 2 }, 2, &id);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 9, .thread_id = thread, .walk_end = 1, .stack_id = id)), 0);
        add_stack(store, (const char *const[]){ "[truncated]", NULL }, (const int64_t[]){ 0, 1 }, 2, &id);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 9, .thread_id = thread, .walk_end = 3, .stack_id = id, .weight = 777)), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 9, .thread_id = thread)), 0);
        assert_return_code(store_commit(store), 0);
        store_free(store);
}

static const RingsideEvent cpu_clock = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
static const RingsideEvent cpu_cycles = { .name = "cpu-cycles", .unit = "cycles", .by_period = true, .value = 5000 };

static void test_collapsed(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        make_recording(place->file, &cpu_clock);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_return_code(ringside_profile_new(&profile, recording, NULL, NULL), 0);
        assert_return_code(ringside_export_collapsed(profile, out, NULL), 0);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, "a:b\\x0ac;[no stack] 1\n"
                                  "a:b\\x0ac;[truncated];libx.so+0x1010 1\n"
                                  "a:b\\x0ac;main;evil:\\x1b[31mname with spaces\\xff 1\n"
                                  "a:b\\x0ac;main;x::run;[kernel]_[k] 3\n");
}

static void test_write_error(void **state) {
        Place *place = *state;
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        _cleanup_fclose_ FILE *full = fopen("/dev/full", "we");
        RingsideError error = {};

        make_recording(place->file, &cpu_clock);
        assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
        assert_return_code(ringside_profile_new(&profile, recording, NULL, NULL), 0);
        assert_true(ringside_export_collapsed(profile, full, &error) < 0);
        assert_true(strlen(error.text) > 0);
        assert_true(ringside_export_pprof(recording, NULL, full, &error) < 0);
}

static Pprof__Profile *export(const Place *place, const RingsideEvent *event) {
        static uint8_t bytes[1 << 20];
        RingsideRecording *recording;
        RingsideError error;
        Pprof__Profile *profile;
        char packed[PLACE_PATH_MAX + 16];
        gzFile gz;
        FILE *out;
        int n;

        make_recording(place->file, event);
        (void) snprintf(packed, sizeof(packed), "%s.pb.gz", place->file);
        out = fopen(packed, "we");
        assert_non_null(out);
        assert_return_code(ringside_recording_open(&recording, place->file, &error), 0);
        assert_return_code(ringside_export_pprof(recording, NULL, out, &error), 0);
        assert_int_equal(fclose(out), 0);
        ringside_recording_free(recording);

        gz = gzopen(packed, "re");
        assert_non_null(gz);
        n = gzread(gz, bytes, sizeof(bytes));
        assert_int_equal(gzdirect(gz), 0);
        assert_int_equal(gzclose(gz), Z_OK);
        profile = pprof__profile__unpack(NULL, n, bytes);
        assert_non_null(profile);
        return profile;
}

static const char *string(const Pprof__Profile *p, int64_t index) {
        assert_in_range(index, 0, p->n_string_table - 1);
        return p->string_table[index];
}

/* "function(mapping):address" of the location. */
static void expect_location(const Pprof__Profile *p, uint64_t id, const char *expected) {
        const Pprof__Location *location = p->location[id - 1];
        const Pprof__Mapping *mapping = p->mapping[location->mapping_id - 1];
        const char *function = "-";
        char text[256];

        assert_int_equal(location->id, id);
        assert_int_equal(mapping->id, location->mapping_id);
        if (location->n_line > 0)
                function = string(p, p->function[location->line[0]->function_id - 1]->name);
        (void) snprintf(text, sizeof(text), "%s(%s):%" PRIx64, function, string(p, mapping->filename), location->address);
        assert_string_equal(text, expected);
}

/* What stores check before they take a profile. */
static void check_valid(const Pprof__Profile *p) {
        assert_string_equal(p->string_table[0], "");
        for (size_t i = 0; i < p->n_location; i++) {
                assert_int_equal(p->location[i]->id, i + 1);
                assert_in_range(p->location[i]->mapping_id, 1, p->n_mapping);
        }
        for (size_t i = 0; i < p->n_mapping; i++)
                assert_int_equal(p->mapping[i]->id, i + 1);
        for (size_t i = 0; i < p->n_function; i++)
                assert_int_equal(p->function[i]->id, i + 1);
        for (size_t i = 0; i < p->n_sample; i++) {
                assert_int_equal(p->sample[i]->n_value, p->n_sample_type);
                assert_true(p->sample[i]->n_location_id > 0);
                for (size_t k = 0; k < p->sample[i]->n_location_id; k++)
                        assert_in_range(p->sample[i]->location_id[k], 1, p->n_location);
        }
        for (size_t i = 0; i < p->n_sample_type; i++)
                assert_null(strchr(string(p, p->sample_type[i]->type), '-'));
}

static const Pprof__Sample *find_sample(const Pprof__Profile *p, int64_t samples, size_t depth) {
        for (size_t i = 0; i < p->n_sample; i++)
                if (p->sample[i]->value[0] == samples && p->sample[i]->n_location_id == depth)
                        return p->sample[i];
        fail_msg("no such sample");
        return NULL;
}

static void test_pprof(void **state) {
        Pprof__Profile *p = export(*state, &cpu_clock);
        const Pprof__Sample *sample;

        check_valid(p);
        assert_int_equal(p->n_sample, 4);
        assert_int_equal(p->n_sample_type, 2);
        assert_string_equal(string(p, p->sample_type[0]->type), "samples");
        assert_string_equal(string(p, p->sample_type[0]->unit), "count");
        assert_string_equal(string(p, p->sample_type[1]->type), "cpu");
        assert_string_equal(string(p, p->sample_type[1]->unit), "nanoseconds");
        assert_string_equal(string(p, p->period_type->type), "cpu");
        assert_int_equal(p->period, 1000000);
        assert_int_equal(p->time_nanos, 1700000000000000000);
        assert_true(p->duration_nanos > 0);

        /* The program comes first, whatever was seen first. */
        assert_string_equal(string(p, p->mapping[0]->filename), "/bin/prog");
        assert_string_equal(string(p, p->mapping[0]->build_id), "abcd");
        assert_int_equal(p->mapping[0]->memory_start, 0);
        assert_int_equal(p->mapping[0]->memory_limit, 0);
        assert_true(p->mapping[0]->has_functions);

        sample = find_sample(p, 3, 3);
        assert_int_equal(sample->value[1], 3000000);
        expect_location(p, sample->location_id[0], "[kernel]([kernel]):1020");
        expect_location(p, sample->location_id[1], "x::run(/lib/libx.so):1010");
        expect_location(p, sample->location_id[2], "main(/bin/prog):1000");
        assert_int_equal(sample->n_label, 7);
        assert_string_equal(string(p, sample->label[0]->key), "command");
        assert_string_equal(string(p, sample->label[0]->str), "a;b\\x0ac");
        assert_string_equal(string(p, sample->label[1]->key), "pid");
        assert_int_equal(sample->label[1]->num, 10);
        assert_string_equal(string(p, sample->label[2]->str), "worker");
        assert_int_equal(sample->label[3]->num, 11);
        assert_string_equal(string(p, sample->label[4]->key), "target");
        assert_string_equal(string(p, sample->label[4]->str), "unit a b.service");
        assert_string_equal(string(p, sample->label[5]->key), "host");
        assert_string_equal(string(p, sample->label[5]->str), "web=1");
        assert_string_equal(string(p, sample->label[6]->key), "pid");
        assert_string_equal(string(p, sample->label[6]->str), "mine");
        for (size_t i = 0; i < p->n_sample; i++)
                assert_int_equal(p->sample[i]->n_label, p->sample[i] == sample ? 7 : 6);
        pprof__profile__free_unpacked(p, NULL);
}

/* A place without a name is left to those who have the debug file; a marker is a function of its own. */
static void test_pprof_unnamed(void **state) {
        Pprof__Profile *p = export(*state, &cpu_clock);
        const Pprof__Sample *sample = NULL;

        for (size_t i = 0; i < p->n_sample; i++)
                if (p->sample[i]->value[1] == 777)
                        sample = p->sample[i];
        assert_non_null(sample);
        expect_location(p, sample->location_id[0], "-(/lib/libx.so):1010");
        assert_false(p->mapping[p->location[sample->location_id[0] - 1]->mapping_id - 1]->has_functions);
        expect_location(p, sample->location_id[1], "[truncated]([ringside]):1000");
        expect_location(p, find_sample(p, 1, 1)->location_id[0], "[no stack]([ringside]):0");
        pprof__profile__free_unpacked(p, NULL);
}

static void test_pprof_cycles(void **state) {
        Pprof__Profile *p = export(*state, &cpu_cycles);

        check_valid(p);
        assert_string_equal(string(p, p->sample_type[1]->type), "cpu_cycles");
        assert_string_equal(string(p, p->sample_type[1]->unit), "cycles");
        assert_int_equal(p->period, 5000);
        assert_int_equal(find_sample(p, 3, 3)->value[1], 15000);
        pprof__profile__free_unpacked(p, NULL);
}

static void go_tool(const Place *place, const char *options, char *output, size_t size) {
        char command[2 * PLACE_PATH_MAX + 128];
        FILE *pipe;
        size_t n;

        (void) snprintf(command, sizeof(command),
                        "HOME=%s go tool pprof -symbolize=none -sample_index=samples %s %s.pb.gz 2>&1", place->dir, options,
                        place->file);
        pipe = popen(command, "re");
        assert_non_null(pipe);
        n = fread(output, 1, size - 1, pipe);
        output[n] = 0;
        assert_int_equal(pclose(pipe), 0);
}

/* And what its own tool makes of it. */
static void test_go_tool(void **state) {
        Place *place = *state;
        char output[8192];
        const char *must_run = getenv("RINGSIDE_MUST_RUN");

        if (system("go version >/dev/null 2>&1") != 0) {
                if (must_run && strcmp(must_run, "1") == 0)
                        fail_msg("go is not installed (package golang-go)");
                print_message("go is not installed (package golang-go)\n");
                skip();
        }
        pprof__profile__free_unpacked(export(place, &cpu_clock), NULL);
        go_tool(place, "-top", output, sizeof(output));
        if (!strstr(output, "File: prog") || !strstr(output, "Type: samples") || !strstr(output, "[kernel]") ||
            !strstr(output, "3 50.00%") || !strstr(output, "x::run") || !strstr(output, "4 66.67%  main"))
                fail_msg("%s", output);
        /* Labels are what it shows as tags, and focuses on. */
        go_tool(place, "-tags", output, sizeof(output));
        if (!strstr(output, "host: Total 6.0\n") || !strstr(output, "web=1") || !strstr(output, "target: Total 3.0\n") ||
            !strstr(output, "unit a b.service"))
                fail_msg("%s", output);
        go_tool(place, "-top -tagfocus=host=web=1", output, sizeof(output));
        if (!strstr(output, "accounting for 6, 100% of 6 total"))
                fail_msg("%s", output);
        go_tool(place, "-top -tagfocus=target=unit.a.b.service", output, sizeof(output));
        if (!strstr(output, "accounting for 3, 50.00% of 6 total"))
                fail_msg("%s", output);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_collapsed), TEST(test_write_error),  TEST(test_pprof),
                TEST(test_pprof_unnamed), TEST(test_pprof_cycles), TEST(test_go_tool),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
