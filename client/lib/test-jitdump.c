/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "jitdump.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "jit-inherited.h"
#include "test-jitdump.h"

/* Both clocks are one, unless a test says otherwise. */
static const JitClock same_clock = { .first = { 1, 1, 1 }, .last = { 1, 1, 1 } };

static TestDump dump;

static JitDump *parse(int expected) {
        JitDump *d;

        assert_int_equal(jitdump_new(&d), 0);
        assert_int_equal(jitdump_parse(d, &same_clock, dump.data, dump.size), expected);
        return d;
}

static void assert_name(const JitDump *d, uint64_t address, uint64_t time, const char *name, uint64_t offset) {
        uint64_t actual_offset = UINT64_MAX;
        const char *actual = jit_code_find(jitdump_get_code(d), address, time, &actual_offset);

        if (!name) {
                assert_null(actual);
                return;
        }
        assert_non_null(actual);
        assert_string_equal(actual, name);
        assert_int_equal(actual_offset, offset);
}

static void assert_line(const JitDump *d, uint64_t address, const char *file, uint32_t line) {
        uint32_t actual = 0;
        const char *name = jit_code_find_line(jitdump_get_code(d), address, UINT64_MAX, &actual);

        if (!file) {
                assert_null(name);
                return;
        }
        assert_non_null(name);
        assert_string_equal(name, file);
        assert_int_equal(actual, line);
}

static void test_path(_unused_ void **state) {
        static const struct {
                const char *path;
                pid_t pid;
        } paths[] = {
                { "/tmp/jit-17.dump", 17 },
                { "jit-2147483.dump", 2147483 },
                { "/tmp/jit-17.dump (deleted)", 17 },
                { "/tmp/jit-17.dump (deleted) (deleted)", -1 },
                { " (deleted)", -1 },
                { "/a/jit-17.dump/b", -1 },
                { "/tmp/jit-.dump", -1 },
                { "/tmp/jit-0.dump", -1 },
                { "/tmp/jit-1x.dump", -1 },
                { "/tmp/jit--1.dump", -1 },
                { "/tmp/ajit-1.dump", -1 },
                { "/tmp/jit-1.dumps", -1 },
                { "/tmp/jit-99999999999999999999.dump", -1 },
                { "", -1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                assert_int_equal(jitdump_path_get_pid(paths[i].path, strlen(paths[i].path)), paths[i].pid);
        /* Not further than its length. */
        assert_int_equal(jitdump_path_get_pid("/tmp/jit-17.dumps", 16), 17);
}

static void test_times(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 0, "old");
        dump_load(&dump, 200, 0x2ff0, 0x2020, 1, "three pages");
        dump_load(&dump, 300, 0x1010, 0x20, 2, "new");
        d = parse(1);
        assert_name(d, 0x1000, 99, NULL, 0);
        assert_name(d, 0x1000, 100, "old", 0);
        assert_name(d, 0x101f, 299, "old", 0x1f);
        assert_name(d, 0x101f, 300, "new", 0xf);
        assert_name(d, 0x100f, 300, "old", 0xf);
        assert_name(d, 0x1020, 299, NULL, 0);
        assert_name(d, 0x102f, UINT64_MAX, "new", 0x1f);
        assert_name(d, 0x2fef, UINT64_MAX, NULL, 0);
        assert_name(d, 0x3800, UINT64_MAX, "three pages", 0x810);
        assert_name(d, 0x500f, UINT64_MAX, "three pages", 0x201f);
        assert_name(d, 0x5010, UINT64_MAX, NULL, 0);
}

static void test_moves(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 5, "moves");
        dump_load(&dump, 110, 0x7000, 0x20, 6, "stays");
        dump_move(&dump, 200, 0x1000, 0x9000, 0x20, 5);
        dump_load(&dump, 300, 0x1000, 0x10, 7, "in its place");
        dump_move(&dump, 400, 0x9000, 0x1010, 0x20, 5);
        /* Of what was never loaded, to where something was. */
        dump_move(&dump, 500, 0xa000, 0x7000, 0x10, 99);
        d = parse(1);
        assert_name(d, 0x1008, 199, "moves", 8);
        assert_name(d, 0x9008, 199, NULL, 0);
        assert_name(d, 0x1008, 200, NULL, 0);
        assert_name(d, 0x9008, 200, "moves", 8);
        assert_name(d, 0x1008, 300, "in its place", 8);
        assert_name(d, 0x1018, 400, "moves", 8);
        assert_name(d, 0x9008, 400, NULL, 0);
        assert_name(d, 0x7008, 499, "stays", 8);
        assert_name(d, 0x7008, 500, NULL, 0);
        assert_name(d, 0x7018, 500, "stays", 0x18);
}

/* Between changes of what an address means names may be remembered. */
static void test_spans(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        uint64_t from, until;

        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 0, "a");
        dump_load(&dump, 200, 0x1020, 0x20, 1, "beside");
        dump_load(&dump, 300, 0x101f, 1, 2, "over");
        dump_load(&dump, 300, 0x1010, 1, 2, "over");
        dump_move(&dump, 400, 0x1020, 0x3000, 0x20, 1);
        d = parse(1);
        jit_code_get_span(jitdump_get_code(d), 299, &from, &until);
        assert_int_equal(from, 0);
        assert_int_equal(until, 300);
        jit_code_get_span(jitdump_get_code(d), 300, &from, &until);
        assert_int_equal(from, 300);
        assert_int_equal(until, 400);
        jit_code_get_span(jitdump_get_code(d), 500, &from, &until);
        assert_int_equal(from, 400);
        assert_true(until == UINT64_MAX);
        assert_true(jit_code_is_same(jitdump_get_code(d), 0x1000, 100, 1000));
        assert_false(jit_code_is_same(jitdump_get_code(d), 0x1000, 99, 1000));
        assert_false(jit_code_is_same(jitdump_get_code(d), 0x1010, 200, 1000));
        assert_true(jit_code_is_same(jitdump_get_code(d), 0x1010, 200, 299));
        assert_false(jit_code_is_same(jitdump_get_code(d), 0x1020, 200, 400));
        assert_int_equal(jit_code_get_last_time(jitdump_get_code(d)), 400);
}

/* Threads write one after the other what they did at the same time. */
static void test_out_of_order(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_load(&dump, 200, 0x1000, 0x20, 0, "first");
        dump_load(&dump, 190, 0x1000, 0x20, 1, "second");
        d = parse(1);
        assert_name(d, 0x1000, 199, NULL, 0);
        assert_name(d, 0x1000, 200, "second", 0);
}

static void test_lines(_unused_ void **state) {
        static const TestLine lines[] = {
                { 0x1000, 10, "/a.js" },
                { 0x1010, 12, "\377" },
                { 0x1008, 11, "/a.js" },
                { 0x1018, 7, "/b.js" },
                { 0x101c, 0, "/none" },
        };
        static const TestLine other[] = { { 0x5000, 3, "/c.js" } };
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_debug_info(&dump, 0x1000, lines, ELEMENTSOF(lines));
        dump_load(&dump, 100, 0x1000, 0x20, 0, "a");
        dump_load(&dump, 100, 0x2000, 0x20, 1, "without");
        /* Of another piece than comes next. */
        dump_debug_info(&dump, 0x5000, other, 1);
        dump_load(&dump, 100, 0x3000, 0x20, 2, "without");
        dump_move(&dump, 200, 0x1000, 0x9000, 0x20, 0);
        d = parse(1);
        assert_line(d, 0x1000, NULL, 0);
        assert_line(d, 0x9000, "/a.js", 10);
        assert_line(d, 0x9007, "/a.js", 10);
        assert_line(d, 0x9008, "/a.js", 11);
        assert_line(d, 0x9017, "/a.js", 12);
        assert_line(d, 0x901f, "/b.js", 7);
        assert_line(d, 0x2000, NULL, 0);
        assert_line(d, 0x3000, NULL, 0);
}

/* V8 counts from before the code; until one line shows that it does, there are none. */
static void test_shifted_lines(_unused_ void **state) {
        static const TestLine inside[] = { { 0x1040, 10, "/a.js" }, { 0x1048, 11, "/a.js" } };
        static const TestLine beyond[] = { { 0x2040, 20, "/a.js" }, { 0x20a0, 21, "/a.js" } };
        static const TestLine again[] = { { 0x3050, 30, "/a.js" } };
        static const TestLine before[] = { { 0x4000, 40, "/a.js" }, { 0x4060, 41, "/a.js" } };
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_debug_info(&dump, 0x1000, inside, ELEMENTSOF(inside));
        dump_load(&dump, 100, 0x1000, 0x80, 0, "a");
        dump_debug_info(&dump, 0x2000, beyond, ELEMENTSOF(beyond));
        dump_load(&dump, 100, 0x2000, 0x80, 1, "b");
        dump_debug_info(&dump, 0x3000, again, ELEMENTSOF(again));
        dump_load(&dump, 100, 0x3000, 0x80, 2, "c");
        dump_debug_info(&dump, 0x4000, before, ELEMENTSOF(before));
        dump_load(&dump, 100, 0x4000, 0x80, 3, "d");
        d = parse(1);
        assert_line(d, 0x1050, NULL, 0);
        assert_line(d, 0x2000, "/a.js", 20);
        assert_line(d, 0x2060, "/a.js", 21);
        assert_line(d, 0x300f, NULL, 0);
        assert_line(d, 0x3010, "/a.js", 30);
        assert_line(d, 0x4050, NULL, 0);
}

/* A record with another number of lines than it says has none: where one name ends too early, none behind it is a name. */
static void test_other_number_of_lines(_unused_ void **state) {
        static const TestLine lines[] = { { 0x1000, 10, "/a.js" }, { 0x1008, 11, "/b.js" } };
        static const struct {
                uint64_t n;
                uint64_t end; /* in the first name; 0: nowhere */
                unsigned more; /* bytes at the end */
                bool taken;
        } cases[] = {
                { 2, 0, 0, true },  { 2, 0, 7, true },  { 2, 0, 8, false }, { 3, 0, 0, false },
                { 3, 0, 7, false }, { 1, 0, 0, false }, { 0, 0, 0, false }, { UINT64_MAX, 0, 0, false },
                { 2, 2, 0, false }, { 2, 2, 7, false }, { 2, 1, 0, false }, { 2, 1, 7, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(jitdump_freep) JitDump *d = NULL;
                uint32_t size;

                dump_header(&dump, 0);
                dump_debug_info(&dump, 0x1000, lines, 2);
                memcpy(dump.data + 40 + 16 + 8, &cases[i].n, sizeof(cases[i].n));
                if (cases[i].end > 0)
                        dump.data[40 + 16 + 16 + 16 + cases[i].end] = 0;
                memcpy(&size, dump.data + 40 + 4, sizeof(size));
                size += cases[i].more;
                memcpy(dump.data + 40 + 4, &size, sizeof(size));
                memset(dump.data + dump.size, 0, cases[i].more);
                dump.size += cases[i].more;
                dump_load(&dump, 100, 0x1000, 0x20, 0, "a");
                d = parse(1);
                assert_line(d, 0x1000, cases[i].taken ? "/a.js" : NULL, 10);
                assert_line(d, 0x1008, cases[i].taken ? "/b.js" : NULL, 11);
                assert_name(d, 0x1000, 100, "a", 0);
        }
}

static void test_strange_records(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;

        dump_header(&dump, 0);
        dump_prefix(&dump, 3, 0, 1);     /* the JIT has ended */
        dump_prefix(&dump, 4, 24, 1);    /* how to unwind */
        dump.size += 24;
        dump_prefix(&dump, 4711, 3, 1);  /* whatever comes some day */
        dump.size += 3;
        dump_load(&dump, 1, 0x1000, 0, 0, "empty");
        dump_load(&dump, 1, UINT64_MAX - 4, 0x10, 0, "wraps");
        dump_move(&dump, 1, 0x2000, 0x1000, JIT_CODE_SIZE_MAX + 1, 0);
        dump_move(&dump, 1, UINT64_MAX - 4, 0x1000, 0x10, 0);
        dump_move(&dump, 1, 0x1000, UINT64_MAX - 4, UINT64_MAX, 0);
        dump_load(&dump, 1, UINT64_MAX - 0x20, 0x10, 0, "high");
        d = parse(1);
        assert_name(d, 0x1000, 1, NULL, 0);
        assert_name(d, UINT64_MAX - 2, 1, NULL, 0);
        assert_name(d, UINT64_MAX - 0x11, 1, "high", 0xf);
}

/* What a cut file names must be what the whole one names, or nothing; and it is read on when the rest is there. */
static void test_cut_at_every_byte(_unused_ void **state) {
        static const TestLine lines[] = { { 0x1000, 10, "/a.js" } };
        size_t first_end;

        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 0, "first");
        first_end = dump.size;
        dump_debug_info(&dump, 0x2000, lines, 1);
        dump_load(&dump, 100, 0x2000, 0x20, 1, "second");
        dump_move(&dump, 200, 0x2000, 0x3000, 0x20, 1);
        for (size_t n = 0; n < dump.size; n++) {
                _cleanup_(jitdump_freep) JitDump *d = NULL;
                _cleanup_free_ uint8_t *cut = malloc(MAX(n, (size_t) 1));
                int r;

                assert_non_null(cut);
                memcpy(cut, dump.data, n);
                assert_int_equal(jitdump_new(&d), 0);
                r = jitdump_parse(d, &same_clock, cut, n);
                assert_int_equal(r, n >= first_end);
                assert_name(d, 0x1000, 100, n >= first_end ? "first" : NULL, 0);
                assert_name(d, 0x3000, 200, NULL, 0);
                assert_int_equal(jitdump_parse(d, &same_clock, dump.data, dump.size), 1);
                assert_name(d, 0x1000, 100, "first", 0);
                assert_name(d, 0x3000, 200, "second", 0);
                assert_int_equal(jitdump_parse(d, &same_clock, dump.data, dump.size), 0);
        }
}

static void test_malformed(_unused_ void **state) {
        static const struct {
                size_t offset;
                uint8_t value;
                int result;
        } changes[] = {
                { 0, 'x', -EBADMSG },          /* no such file */
                { 8, 39, -EBADMSG },           /* the header is shorter than it is */
                { 9, 0xff, -EBADMSG },         /* or longer than anybody's */
                { 40 + 4, 15, -EBADMSG },      /* a record that never ends */
                { 40 + 4, 16 + 39, -EBADMSG }, /* shorter than a load is */
                { 40 + 4, 16 + 42, -EBADMSG }, /* or its name */
                { 40 + 7, 0x7f, 0 },           /* still to come */
        };

        for (size_t i = 0; i < ELEMENTSOF(changes); i++) {
                _cleanup_(jitdump_freep) JitDump *d = NULL;

                dump_header(&dump, 0);
                dump_load(&dump, 100, 0x1000, 0x20, 0, "name");
                dump.data[changes[i].offset] = changes[i].value;
                d = parse(changes[i].result);
                assert_name(d, 0x1000, UINT64_MAX, NULL, 0);
                /* Nor is it looked at again. */
                dump_header(&dump, 0);
                dump_load(&dump, 100, 0x1000, 0x20, 0, "name");
                if (changes[i].result < 0)
                        assert_int_equal(jitdump_parse(d, &same_clock, dump.data, dump.size), changes[i].result);
        }
        /* Of a kind that is stepped over, too. */
        dump_header(&dump, 0);
        dump_prefix(&dump, 99, (size_t) -1, 100);
        jitdump_free(parse(-EBADMSG));
}

static void test_long_names(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        static char name[20000];
        uint64_t offset;
        const char *found;

        memset(name, 'n', sizeof(name) - 1);
        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 0, name);
        dump_load(&dump, 100, 0x2000, 0x20, 1, "");
        d = parse(1);
        found = jit_code_find(jitdump_get_code(d), 0x1000, 100, &offset);
        assert_non_null(found);
        assert_int_equal(strlen(found), 8192);
        assert_name(d, 0x2000, 100, "", 0);
}

/* By windows, of which names, code and prefixes go over the edges. */
static void test_file_grows(_unused_ void **state) {
        char path[] = "/tmp/test-jitdump-XXXXXX";
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        int fd = mkstemp(path), write_fd;
        char name[3000];

        assert_true(fd >= 0);
        write_fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(write_fd >= 0);
        assert_int_equal(jitdump_new_take_fd(&d, fd, 0, NULL), 0);
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), 0);
        dump_header(&dump, 0);
        for (unsigned i = 0; i < 16; i++) {
                memset(name, 'a' + (int) i, sizeof(name));
                name[100 + 150 * i] = 0;
                dump_load(&dump, 100 + i, 0x1000 + 0x1000 * i, 777, i, name);
        }
        for (size_t at = 0, n; at < dump.size; at += n) {
                n = MIN((size_t) 5000, dump.size - at);
                assert_int_equal(write(write_fd, dump.data + at, n), n);
                assert_true(jitdump_update(d, &same_clock, UINT64_MAX) >= 0);
        }
        for (unsigned i = 0; i < 16; i++) {
                memset(name, 'a' + (int) i, sizeof(name));
                name[100 + 150 * i] = 0;
                assert_name(d, 0x1000 + 0x1000 * i + 776, UINT64_MAX, name, 776);
        }
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), 0);
        assert_int_equal(ftruncate(write_fd, 100), 0);
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), -ESTALE);
        close_fd(write_fd);
        assert_int_equal(unlink(path), 0);
}

/* Whoever says that a terabyte follows is not believed before it is there, and holes are read by no more than a window. */
static void test_holes(_unused_ void **state) {
        char path[] = "/tmp/test-jitdump-XXXXXX";
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        int fd = mkstemp(path);
        uint32_t size = UINT32_MAX;

        assert_true(fd >= 0);
        assert_int_equal(unlink(path), 0);
        dump_header(&dump, 0);
        dump_load(&dump, 100, 0x1000, 0x20, 0, "code that is large");
        memcpy(dump.data + 40 + 4, &size, sizeof(size));
        assert_int_equal(pwrite(fd, dump.data, dump.size, 0), dump.size);
        assert_int_equal(ftruncate(fd, (off_t) 1 << 40), 0);
        assert_int_equal(jitdump_new_take_fd(&d, fd, 0, NULL), 0);
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), -EBADMSG);
        assert_name(d, 0x1000, 100, "code that is large", 0);
}

/* Code of which each record is read through a window of its own. */
#define LARGE_CODE 20000U

/* Appends n records of code, which is holes, with the numbers from first on: each 0x10000 behind the other. */
static void append_large(int fd, unsigned first, unsigned n) {
        off_t end = lseek(fd, 0, SEEK_END);

        assert_true(end >= 0);
        for (unsigned i = first; i < first + n; i++) {
                uint32_t size;
                char name[16];

                snprintf(name, sizeof(name), "code %u", i);
                dump.size = 0;
                dump_load(&dump, 100, 0x10000 * (i + 1), LARGE_CODE, i, name);
                memcpy(&size, dump.data + 4, sizeof(size));
                assert_int_equal(pwrite(fd, dump.data, dump.size - LARGE_CODE, end), dump.size - LARGE_CODE);
                end += size;
                assert_int_equal(ftruncate(fd, end), 0);
        }
}

/* The file of n such records, which is gone with its fd. */
static int large_file(unsigned n) {
        char path[] = "/tmp/test-jitdump-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(unlink(path), 0);
        dump_header(&dump, 0);
        assert_int_equal(write(fd, dump.data, dump.size), dump.size);
        append_large(fd, 0, n);
        return fd;
}

/* Where there is no time, a megabyte is read each time all the same. */
static void test_deadline(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        unsigned n = 0;

        assert_int_equal(jitdump_new_take_fd(&d, large_file(200), 0, NULL), 0);
        assert_int_equal(jitdump_update(d, &same_clock, 0), 1);
        assert_true(jitdump_has_more(d));
        assert_name(d, 0x10000 * 60, 100, "code 59", 0);
        assert_name(d, 0x10000 * 80, 100, NULL, 0);
        do
                assert_int_equal(jitdump_update(d, &same_clock, 0), 1);
        while (jitdump_has_more(d) && n++ < 10);
        assert_in_range(n, 1, 3);
        assert_name(d, 0x10000 * 200, 100, "code 199", 0);
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), 0);
        assert_false(jitdump_has_more(d));
}

/* What all of them have is limited together. */
static void test_memory(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *first = NULL, *second = NULL, *third = NULL;
        JitMemory memory = { .max = 256 << 10 };
        size_t used;

        assert_int_equal(jitdump_new_take_fd(&first, large_file(100), 0, &memory), 0);
        assert_int_equal(jitdump_update(first, &same_clock, UINT64_MAX), 1);
        used = memory.used;
        assert_in_range(used, 40000, memory.max); /* most of it tables */
        assert_int_equal(jitdump_new_take_fd(&second, large_file(2000), 0, &memory), 0);
        assert_int_equal(jitdump_update(second, &same_clock, UINT64_MAX), -EFBIG);
        assert_in_range(memory.used, memory.max / 2, 2 * memory.max);
        assert_name(second, 0x10000 * 10, 100, "code 9", 0);
        assert_name(first, 0x10000 * 100, 100, "code 99", 0);
        /* No matter how little another one wants. */
        memory.max = memory.used;
        assert_int_equal(jitdump_new_take_fd(&third, large_file(1), 0, &memory), 0);
        assert_int_equal(jitdump_update(third, &same_clock, UINT64_MAX), -EFBIG);
        third = jitdump_free(third);
        second = jitdump_free(second);
        assert_int_equal(memory.used, used);
        assert_int_equal(jitdump_new_take_fd(&second, large_file(1), 0, &memory), 0);
        assert_int_equal(jitdump_update(second, &same_clock, UINT64_MAX), 1);
        first = jitdump_free(first);
        second = jitdump_free(second);
        assert_int_equal(memory.used, 0);
}

/* Of a record of lines that has more bytes than anybody needs no more are read, and none is believed. */
static void test_many_bytes_of_lines(_unused_ void **state) {
        JitMemory memory = { .max = SIZE_MAX }; /* outlives the dump */
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        int fd = large_file(0);
        static char name[800000];
        const uint64_t n = 12;
        uint32_t size;
        off_t end = 40 + 16 + 16;

        for (unsigned i = 0; i < n; i++) {
                const TestLine line = { 0x1000, 1, "" };

                memset(name, 'a' + (int) i, sizeof(name) - 1);
                dump.size = 0;
                dump_debug_info(&dump, 0x1000, &line, 1); /* of which the line itself is written */
                assert_int_equal(pwrite(fd, dump.data + 32, 16, end), 16);
                assert_int_equal(pwrite(fd, name, sizeof(name), end + 16), sizeof(name));
                end += 16 + (off_t) sizeof(name);
        }
        size = (uint32_t) (end - 40);
        memcpy(dump.data + 4, &size, sizeof(size));
        memcpy(dump.data + 24, &n, sizeof(n));
        assert_int_equal(pwrite(fd, dump.data, 32, 40), 32);
        dump.size = 0;
        dump_load(&dump, 100, 0x1000, 0x20, 0, "a");
        assert_int_equal(pwrite(fd, dump.data, dump.size, end), dump.size);
        assert_int_equal(jitdump_new_take_fd(&d, fd, 0, &memory), 0);
        assert_int_equal(jitdump_update(d, &same_clock, UINT64_MAX), 1);
        assert_name(d, 0x1000, 100, "a", 0);
        assert_line(d, 0x1000, NULL, 0);
        assert_in_range(memory.used, 5 * 8192, n * 8192); /* names are kept */
}

static void test_clock(_unused_ void **state) {
        const uint64_t second = 1000000000;
        JitClock clock = {};

        jit_clock_note(&clock, &(JitClockReading){ 105 * second, 100 * second, 3000 });
        assert_int_equal(jit_clock_from_monotonic(&clock, 99 * second), 104 * second);
        assert_true(jit_clock_from_counter(&clock, 3000) == UINT64_MAX);
        jit_clock_note(&clock, &(JitClockReading){ 106 * second + 10, 101 * second, 5000 });
        assert_int_equal(jit_clock_from_monotonic(&clock, 99 * second), 104 * second + 10);
        assert_int_equal(jit_clock_from_counter(&clock, 4000), 105 * second + second / 2 + 5);
        assert_int_equal(jit_clock_from_counter(&clock, 7000), 107 * second + 20);
        /* An hour asleep. */
        jit_clock_note(&clock, &(JitClockReading){ 3707 * second, 102 * second, 100 });
        assert_int_equal(jit_clock_from_monotonic(&clock, 101 * second), 106 * second + 10);
        assert_int_equal(jit_clock_from_monotonic(&clock, 102 * second), 3707 * second);
        assert_true(jit_clock_from_counter(&clock, 100) == UINT64_MAX);
        jit_clock_note(&clock, &(JitClockReading){ 3708 * second, 103 * second, 2100 });
        assert_int_equal(jit_clock_from_counter(&clock, 1100), 3707 * second + second / 2);
        for (unsigned i = 1; i <= 2 * JIT_CLOCK_STEPS_MAX; i++)
                jit_clock_note(&clock, &(JitClockReading){ (3708 + 10 * i) * second, (103 + i) * second, 0 });
        assert_int_equal(jit_clock_from_monotonic(&clock, 200 * second), 4093 * second);
        assert_int_equal(jit_clock_from_monotonic(&clock, 130 * second), (3708 + 270) * second);
}

static void test_own_clocks(_unused_ void **state) {
        JitClock clock = {};
        JitClockReading now;
        uint64_t before = now_ns(CLOCK_BOOTTIME);

        jit_clock_read(&now);
        jit_clock_note(&clock, &now);
        assert_true(jit_clock_from_monotonic(&clock, now.monotonic) >= before);
        assert_true(jit_clock_from_monotonic(&clock, now.monotonic) <= now_ns(CLOCK_BOOTTIME));
}

/* A file whose times are the counter's says nothing before it is known how fast that is. */
static void test_counter(_unused_ void **state) {
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        JitClock clock = {};

        dump_header(&dump, 1);
        dump_load(&dump, 2000, 0x1000, 0x20, 0, "a");
        assert_int_equal(jitdump_new(&d), 0);
        jit_clock_note(&clock, &(JitClockReading){ 1000000000, 1000000000, 1000 });
        assert_int_equal(jitdump_parse(d, &clock, dump.data, dump.size), 0);
        jit_clock_note(&clock, &(JitClockReading){ 1003000000, 1003000000, 4000 });
        assert_int_equal(jitdump_parse(d, &clock, dump.data, dump.size), 1);
        assert_name(d, 0x1000, 1000999999, NULL, 0);
        assert_name(d, 0x1000, 1001000000, "a", 0);
}

/* However often a process forks that makes code of its own in between, what is kept of that is bounded. */
static void test_many_generations(void **state) {
        InheritedNames *names = NULL, *older;
        const char *name;
        uint64_t offset;

        (void) state;
        for (unsigned i = 1; i <= 100; i++) {
                _cleanup_(perf_map_freep) PerfMap *map = NULL;
                char line[64];
                size_t used;

                assert_return_code(perf_map_new(&map, NULL), 0);
                (void) snprintf(line, sizeof(line), "%x000 10 made\n", i);
                assert_return_code(perf_map_parse(map, line, strlen(line), &used), 0);
                assert_return_code(perf_map_seal(map), 0);
                older = names;
                assert_return_code(inherited_names_new(&names, &(InheritedSource){ .map = map }, older), 0);
                inherited_names_unref(older);
        }
        assert_return_code(inherited_names_find(names, 0x1000, &name, &offset), 0);
        assert_non_null(name);
        assert_return_code(inherited_names_find(names, 0x64000, &name, &offset), 0);
        assert_null(name);
        inherited_names_unref(names);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_path),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_moves),
                cmocka_unit_test(test_spans),
                cmocka_unit_test(test_out_of_order),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_shifted_lines),
                cmocka_unit_test(test_other_number_of_lines),
                cmocka_unit_test(test_strange_records),
                cmocka_unit_test(test_cut_at_every_byte),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_long_names),
                cmocka_unit_test(test_file_grows),
                cmocka_unit_test(test_holes),
                cmocka_unit_test(test_deadline),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_many_bytes_of_lines),
                cmocka_unit_test(test_clock),
                cmocka_unit_test(test_own_clocks),
                cmocka_unit_test(test_counter),
                cmocka_unit_test(test_many_generations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
