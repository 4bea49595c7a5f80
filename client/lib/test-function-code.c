/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Functions by their instructions: of the programs of tests/fixtures/lines, which objdump disassembles. */

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "elf-file.h"
#include "test-recording-util.h"

/* Numbers of samples that are their own sums nowhere. */
enum { IN_LEAF = 3, IN_LINE = 5, RECURSING = 7, IN_MAIN = 11 };

/* A program without debug information, but with symbols. */
#define PROGRAM "none"

static const char *program(char *path, const char *name) {
        (void) snprintf(path, PATH_MAX, "%s/%s", getenv("FIXTURES"), name);
        return path;
}

static uint64_t address_of(const char *name, const char *label) {
        char path[PATH_MAX], line[1024], symbol[512], type;
        unsigned long long address, found = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s.nm", getenv("FIXTURES"), name);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%llx %c %511s", &address, &type, symbol) == 3 && strcmp(symbol, label) == 0)
                        found = address;
        (void) fclose(f);
        assert_true(found > 0);
        return found;
}

/* path: where it is recorded to be; with a build id, or else with all that a file is known by. */
static int64_t add_program(Store *store, const char *name, const char *path, bool with_build_id) {
        char real[PATH_MAX];
        int fd = open(program(real, name), O_RDONLY | O_CLOEXEC);
        const uint8_t *build_id;
        struct stat st;
        ElfFile *elf;
        int64_t id;
        size_t len;

        assert_return_code(fd, errno);
        assert_return_code(fstat(fd, &st), errno);
        assert_return_code(elf_file_new_take_fd(&elf, fd), 0);
        len = elf_file_get_build_id(elf, &build_id);
        assert_return_code(store_add_file(store, path ?: real, (uint64_t) major(st.st_dev) << 32 | minor(st.st_dev), st.st_ino,
                                          (uint64_t) st.st_size, build_id, with_build_id ? len : 0, &id), 0);
        elf_file_free(elf);
        return id;
}

static int64_t add_frame(Store *store, int64_t file, int64_t parent, const char *name, uint64_t address) {
        int64_t frame, stack;

        assert_return_code(store_add_frame(store, file, address, name, name ? 0x10 : 0, false, &frame), 0);
        assert_return_code(store_add_stack(store, parent, frame, &stack), 0);
        return stack;
}

static void add_samples(Store *store, int64_t thread, int64_t stack, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                assert_return_code(store_add_sample(store, SAMPLE(.time = i, .thread_id = thread, .stack_id = stack)), 0);
}

static Store *make_store(const char *path, int64_t *ret_thread) {
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        int64_t process;
        Store *store;

        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, &event), 0);
        assert_return_code(store_add_process(store, 1, 0, 0, 0, "program", "", 0, &process), 0);
        assert_return_code(store_add_thread(store, process, 1, "program", ret_thread), 0);
        return store;
}

/*
 * Samples in outer: at the mark of innermost, which is inlined there; and at its own mark, once called by main, and once
 * by itself, twice over, from within the instruction before that mark.
 */
static void make_recording(const char *path, const char *name, const char *as, bool with_build_id) {
        int64_t thread, file, jit, main_stack, stack;
        Store *store = make_store(path, &thread);
        uint64_t marked = address_of(name, "at_outer");

        file = add_program(store, name, as, with_build_id);
        assert_return_code(store_add_file(store, "[jit]", 0, 0, 0, NULL, 0, &jit), 0);
        main_stack = add_frame(store, file, 0, "main", address_of(name, "main"));
        add_samples(store, thread, main_stack, IN_MAIN);
        add_samples(store, thread, add_frame(store, file, main_stack, "outer", address_of(name, "at_innermost")), IN_LINE);
        stack = add_frame(store, file, main_stack, "outer", marked);
        add_samples(store, thread, stack, IN_LEAF);
        stack = add_frame(store, file, main_stack, "outer", marked - 1);
        stack = add_frame(store, file, stack, "outer", marked - 1);
        stack = add_frame(store, file, stack, "outer", marked);
        add_samples(store, thread, stack, RECURSING);
        add_samples(store, thread, add_frame(store, jit, 0, "made", 0x1000), 1);
        add_samples(store, thread, add_frame(store, file, 0, NULL, 1), 1); /* headers have no symbols */
        assert_null(store_free(store));
}

typedef struct Reading {
        RingsideRecording *recording;
        RingsideProfile *profile;
        const RingsideCode *codes;
        size_t n;
} Reading;

static void reading_done(Reading *reading) {
        ringside_profile_free(reading->profile);
        ringside_recording_free(reading->recording);
}

static void read_code(Reading *ret, const char *path, const char *function, uint64_t timeout) {
        RingsideCodeOptions options = { .size = sizeof(options), .timeout = timeout };
        RingsideError error = {};

        *ret = (Reading){};
        if (ringside_recording_open(&ret->recording, path, &error) < 0 ||
            ringside_profile_new(&ret->profile, ret->recording, NULL, &error) < 0)
                fail_msg("%s", error.text);
        assert_return_code(ringside_profile_get_code(ret->profile, function, &options, &ret->codes, &ret->n), 0);
}

static const RingsideInstruction *find(const RingsideCode *code, uint64_t address) {
        for (size_t i = code->n_instructions; i-- > 0;)
                if (code->instructions[i].address <= address)
                        return &code->instructions[i];
        fail_msg("nothing is at %" PRIx64, address);
        return NULL;
}

static void expect(const RingsideInstruction *instruction, uint64_t self, uint64_t total) {
        assert_int_equal(instruction->self_samples, self);
        assert_int_equal(instruction->total_samples, total);
        assert_int_equal(instruction->self_weight, self * 1000000);
        assert_int_equal(instruction->total_weight, total * 1000000);
}

static void check_outer(const Reading *reading, const char *name) {
        const RingsideCode *code = &reading->codes[0];
        uint64_t marked = address_of(name, "at_outer"), self = 0;

        assert_int_equal(reading->n, 1);
        if (code->error.code != 0)
                fail_msg("%s", code->error.text);
        assert_string_equal(code->name, "outer");
        assert_int_equal(code->start, address_of(name, "outer"));
        assert_true(code->end > marked && code->n_instructions > 5);
        assert_int_equal(code->total_samples, IN_LINE + IN_LEAF + RECURSING);
        assert_int_equal(code->instructions[0].address, code->start);
        for (size_t i = 0; i < code->n_instructions; i++) {
                assert_true(code->instructions[i].address < code->end);
                assert_true(i == 0 || code->instructions[i].address > code->instructions[i - 1].address);
                self += code->instructions[i].self_samples;
        }
        assert_int_equal(self, IN_LINE + IN_LEAF + RECURSING);
        expect(find(code, marked), IN_LEAF + RECURSING, IN_LEAF + RECURSING);
        expect(find(code, marked - 1), 0, RECURSING);
        assert_true(find(code, marked - 1)->address < marked);
        expect(find(code, address_of(name, "at_innermost")), IN_LINE, IN_LINE);
        assert_string_equal(find(code, marked)->text, "nop");
}

static void test_instructions(void **state) {
        _cleanup_(reading_done) Reading reading = {};
        Place *place = *state;

        make_recording(place->file, PROGRAM, NULL, true);
        read_code(&reading, place->file, "outer", 0);
        check_outer(&reading, PROGRAM);
        /* What was asked for before is no more. */
        assert_return_code(ringside_profile_get_code(reading.profile, "ma?n", NULL, &reading.codes, &reading.n), 0);
        assert_int_equal(reading.n, 1);
        assert_string_equal(reading.codes[0].name, "main");
        assert_return_code(ringside_profile_get_code(reading.profile, "nosuch", NULL, &reading.codes, &reading.n), 0);
        assert_int_equal(reading.n, 0);
}

static void expect_error(const char *path, const char *function, uint64_t timeout, int code, const char *text) {
        _cleanup_(reading_done) Reading reading = {};

        read_code(&reading, path, function, timeout);
        assert_int_equal(reading.n, 1);
        assert_int_equal(reading.codes[0].n_instructions, 0);
        assert_int_equal(reading.codes[0].error.code, code);
        if (!strstr(reading.codes[0].error.text, text))
                fail_msg("%s", reading.codes[0].error.text);
}

static void test_without_build_id(void **state) {
        static const char *const columns[] = { "size", "inode", "device" };
        _cleanup_(reading_done) Reading reading = {};
        Place *place = *state;
        char sql[128];

        make_recording(place->file, PROGRAM, NULL, false);
        /* It may have changed since. */
        expect_error(place->file, "outer", 0, -ESTALE, "not the file that was recorded");
        (void) snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES('start_realtime','%" PRIu64 "')", now_ns(CLOCK_REALTIME));
        run_sql(place->file, sql);
        read_code(&reading, place->file, "outer", 0);
        check_outer(&reading, PROGRAM);
        for (size_t i = 0; i < ELEMENTSOF(columns); i++) {
                (void) snprintf(sql, sizeof(sql), "UPDATE file SET %s=%s+1 WHERE id=1", columns[i], columns[i]);
                run_sql(place->file, sql);
                expect_error(place->file, "outer", 0, -ESTALE, "not the file that was recorded");
                (void) snprintf(sql, sizeof(sql), "UPDATE file SET %s=%s-1 WHERE id=1", columns[i], columns[i]);
                run_sql(place->file, sql);
        }
}

/* What is inlined is where it is inlined, whatever the function in whose place it is shown. */
static void test_inlined(void **state) {
        _cleanup_(reading_done) Reading reading = {};
        RingsideSymbolizeStatistics statistics;
        Place *place = *state;
        RingsideError error;

        make_recording(place->file, "c-5", NULL, true);
        if (ringside_symbolize(place->file, NULL, &statistics, &error) < 0)
                fail_msg("%s", error.text);
        assert_true(statistics.found > 0);
        read_code(&reading, place->file, "outer", 0);
        check_outer(&reading, "c-5");
        assert_return_code(ringside_profile_get_code(reading.profile, "innermost", NULL, &reading.codes, &reading.n), 0);
        assert_int_equal(reading.n, 0);
}

static void test_why_not(void **state) {
        Place *place = *state;

        make_recording(place->file, PROGRAM, NULL, true);
        expect_error(place->file, "made", 0, -ENXIO, "in no file");
        expect_error(place->file, PROGRAM "+0x1", 0, -ENODATA, "No symbol");
        expect_error(place->file, "outer", 1, -ETIMEDOUT, "no time");
        run_sql(place->file, "UPDATE file SET build_id=x'0102' WHERE id=1");
        expect_error(place->file, "outer", 0, -ESTALE, "not the file that was recorded");
        run_sql(place->file, "UPDATE file SET build_id=NULL,size=size+1 WHERE id=1");
        expect_error(place->file, "outer", 0, -ESTALE, "not the file that was recorded");
}

static void test_other_file(void **state) {
        _cleanup_free_ char *sql = NULL;
        Place *place = *state;
        char path[PATH_MAX];

        make_recording(place->file, PROGRAM, "/nonexistent/program", true);
        expect_error(place->file, "outer", 0, -ENOENT, "Cannot read /nonexistent/program");
        assert_true(asprintf(&sql, "UPDATE file SET path=CAST('%s' AS BLOB) WHERE id=1", program(path, "c-4")) > 0);
        run_sql(place->file, sql);
        expect_error(place->file, "outer", 0, -ESTALE, "not the file that was recorded");
        run_sql(place->file, "UPDATE file SET path=CAST('/dev/zero' AS BLOB) WHERE id=1");
        expect_error(place->file, "outer", 0, -EBADF, "Cannot read /dev/zero");
}

/* Those that took most. */
static void test_many(void **state) {
        _cleanup_(reading_done) Reading reading = {};
        Place *place = *state;
        int64_t thread, jit;
        Store *store = make_store(place->file, &thread);
        char name[32];

        assert_return_code(store_add_file(store, "[jit]", 0, 0, 0, NULL, 0, &jit), 0);
        for (unsigned i = 0; i < RINGSIDE_CODE_MAX + 8; i++) {
                (void) snprintf(name, sizeof(name), "made%u", i);
                add_samples(store, thread, add_frame(store, jit, 0, name, 0x1000 + 16 * i), 1 + i);
        }
        assert_null(store_free(store));
        read_code(&reading, place->file, "made*", 0);
        assert_int_equal(reading.n, RINGSIDE_CODE_MAX);
        for (unsigned i = 0; i < RINGSIDE_CODE_MAX; i++)
                assert_int_equal(reading.codes[i].total_samples, RINGSIDE_CODE_MAX + 8 - i);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_instructions, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_without_build_id, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_inlined, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_why_not, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_other_file, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_many, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
