/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "perf-map.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void assert_name(const PerfMap *map, uint64_t address, const char *name, uint64_t offset) {
        uint64_t actual_offset = 0;
        const char *actual = perf_map_find(map, address, &actual_offset);

        if (!name) {
                assert_null(actual);
                return;
        }
        assert_non_null(actual);
        assert_string_equal(actual, name);
        assert_int_equal(actual_offset, offset);
}

static PerfMap *parse(const char *text, size_t size, size_t *ret_used) {
        PerfMap *map;

        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_parse(map, text, size, ret_used), 0);
        assert_int_equal(perf_map_seal(map), 0);
        return map;
}

static void test_lines(_unused_ void **state) {
        static const char text[] = "7f00 10 LazyCompile:*foo /app/a b.js:1\n"
                                   "0x8000 0x20 with prefix\n"
                                   "9000 10 windows\r\n"
                                   "FFFFFFFFFFFFFFF0 100 top\n"
                                   "a000 10 not finished";
        size_t used;
        _cleanup_(perf_map_freep) PerfMap *map = parse(text, sizeof(text) - 1, &used);

        assert_int_equal(used, strstr(text, "a000") - text);
        assert_name(map, 0x7f00, "LazyCompile:*foo /app/a b.js:1", 0);
        assert_name(map, 0x7f0f, "LazyCompile:*foo /app/a b.js:1", 15);
        assert_name(map, 0x7f10, NULL, 0);
        assert_name(map, 0x801f, "with prefix", 0x1f);
        assert_name(map, 0x9001, "windows", 1);
        assert_name(map, 0xfffffffffffffff8, "top", 8);
        assert_name(map, 0xa000, NULL, 0);
}

static void test_malformed_lines_are_skipped(_unused_ void **state) {
        static const char text[] = "\n"
                                   "zzz\n"
                                   "1000\n"
                                   "1000 10\n"
                                   "1000 10 \n"
                                   "1000  10 a\n"
                                   "1000 0 zero\n"
                                   "-1 10 a\n"
                                   "11112222333344445 10 too long\n"
                                   "1000 10 nul\0byte\n"
                                   "2000 10 good\n";
        size_t used;
        _cleanup_(perf_map_freep) PerfMap *map = parse(text, sizeof(text) - 1, &used);

        assert_int_equal(used, sizeof(text) - 1);
        assert_name(map, 0x1000, NULL, 0);
        assert_name(map, 0x2000, "good", 0);
}

/* The JIT uses its memory again. */
static void test_newer_covers_older(_unused_ void **state) {
        static const char text[] = "1000 100 first\n"
                                   "1080 10 moved\n"
                                   "1000 40 second\n"
                                   "1070 100 third\n";
        size_t used;
        _cleanup_(perf_map_freep) PerfMap *map = parse(text, sizeof(text) - 1, &used);

        assert_name(map, 0x1000, "second", 0);
        assert_name(map, 0x1084, "third", 0x14);
        assert_name(map, 0x1100, "third", 0x90);
}

static void test_cut_at_every_byte(_unused_ void **state) {
        static const char whole[] = "1000 10 a\n0x2000 0x10 b c\n";

        for (size_t n = 0; n < sizeof(whole); n++) {
                _cleanup_free_ char *text = malloc(n == 0 ? 1 : n);
                size_t used;

                memcpy(text, whole, n);
                perf_map_free(parse(text, n, &used));
                assert_int_equal(used, n < 10 ? 0 : n < sizeof(whole) - 1 ? 10 : sizeof(whole) - 1);
        }
}

/* A tree like /proc: process 42, which is 7 to itself, with a root of its own. */
typedef struct Tree {
        char dir[64], map[128];
        ProcessDir process;
} Tree;

static void write_file(const char *path, const char *text, const char *mode) {
        FILE *file = fopen(path, mode);

        assert_non_null(file);
        assert_int_equal(fputs(text, file) < 0, 0);
        assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
        Tree *tree = calloc(1, sizeof(*tree));
        char path[256], text[256];
        _cleanup_free_ char *maps = NULL;
        size_t size;

        strcpy(tree->dir, "/tmp/test-perf-map-XXXXXX");
        assert_non_null(mkdtemp(tree->dir));
        for (const char *const *d = (const char *const[]){"42", "42/root", "42/root/tmp", NULL}; *d; d++) {
                snprintf(path, sizeof(path), "%s/%s", tree->dir, *d);
                assert_int_equal(mkdir(path, 0755), 0);
        }
        snprintf(path, sizeof(path), "%s/42/maps", tree->dir);
        write_file(path, "1000-2000 r-xp 00000000 00:00 0 \n", "we");
        snprintf(path, sizeof(path), "%s/42/status", tree->dir);
        snprintf(text, sizeof(text),
                 "Name:\tUid: 5\nUid:\t5\t6\t7\t%u\nNStgid:\t42\t23\t7\nNSpid:\t43\t24\t8\n", getuid());
        write_file(path, text, "we");
        snprintf(tree->map, sizeof(tree->map), "%s/42/root/tmp/perf-7.map", tree->dir);
        assert_int_equal(process_dir_open(&tree->process, tree->dir, 42, 0, &maps, &size), 0);
        *state = tree;
        return 0;
}

static int tear_down(void **state) {
        Tree *tree = *state;
        char command[128];

        process_dir_done(&tree->process);
        snprintf(command, sizeof(command), "rm -rf %s", tree->dir);
        assert_int_equal(system(command), 0);
        free(tree);
        return 0;
}

static void test_file_grows(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;

        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_open(map, &tree->process), -ENOENT);
        write_file(tree->map, "1000 10 one\n1010 10 tw", "we");
        assert_int_equal(perf_map_open(map, &tree->process), 0);
        assert_int_equal(perf_map_update(map), 1);
        assert_name(map, 0x1000, "one", 0);
        assert_name(map, 0x1010, NULL, 0);
        assert_int_equal(perf_map_update(map), 0);
        write_file(tree->map, "o\n1020 10 three\n", "ae");
        assert_int_equal(perf_map_update(map), 1);
        assert_name(map, 0x1010, "two", 0);
        assert_name(map, 0x102f, "three", 15);
        assert_int_equal(truncate(tree->map, 3), 0);
        assert_int_equal(perf_map_update(map), -ESTALE);
}

/* As much as there was by then counts. */
static void test_until_now(void **state) {
        Tree *tree = *state;
        PerfMap *map, *until;

        assert_int_equal(perf_map_new(&map, NULL), 0);
        write_file(tree->map, "1000 10 first__\n", "we");
        assert_int_equal(perf_map_open(map, &tree->process), 0);
        assert_int_equal(perf_map_new_until_now(&until, map), 0);
        write_file(tree->map, "1000 10 second_\n2000 10 third__\n", "ae");
        assert_int_equal(perf_map_update(map), 1);
        assert_name(map, 0x1000, "second_", 0);
        assert_null(perf_map_free(map)); /* they share the file, and whoever is left has it */
        assert_int_equal(perf_map_update(until), 1);
        assert_int_equal(perf_map_update(until), 0);
        assert_name(until, 0x1000, "first__", 0);
        assert_name(until, 0x2000, NULL, 0);
        assert_ptr_equal(perf_map_ref(until), until);
        assert_null(perf_map_free(until));
        assert_name(until, 0x1000, "first__", 0);
        assert_null(perf_map_free(until));
}

/* Several have some memory together; what is read is theirs until it goes. */
static void test_memory_is_shared(void **state) {
        JitMemory memory = { .max = 1 };
        PerfMap *maps[2];
        Tree *tree = *state;
        size_t used;

        write_file(tree->map, "1000 10 first\n", "we");
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(perf_map_new(&maps[i], &memory), 0);
                assert_int_equal(perf_map_open(maps[i], &tree->process), 0);
        }
        assert_int_equal(memory.used, 0);
        assert_int_equal(perf_map_update(maps[0]), 1);
        used = memory.used;
        assert_true(used > strlen("first"));
        assert_int_equal(perf_map_update(maps[1]), -EFBIG);
        assert_name(maps[1], 0x1000, NULL, 0);
        assert_int_equal(memory.used, used);
        assert_null(perf_map_free(maps[0]));
        assert_int_equal(memory.used, 0);
        assert_int_equal(perf_map_update(maps[1]), 1);
        assert_name(maps[1], 0x1000, "first", 0);
        assert_null(perf_map_free(maps[1]));
}

static void test_file_is_replaced(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;

        write_file(tree->map, "1000 10 one\n", "we");
        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_open(map, &tree->process), 0);
        assert_int_equal(perf_map_update(map), 1);
        assert_int_equal(unlink(tree->map), 0);
        assert_int_equal(perf_map_update(map), -ESTALE);
        assert_name(map, 0x1000, "one", 0);
}

/* Nothing may block, and nothing may lead elsewhere. */
static void test_what_is_no_file(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;
        char other[256];

        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(mkfifo(tree->map, 0644), 0);
        assert_int_equal(perf_map_open(map, &tree->process), -EBADF);
        assert_int_equal(unlink(tree->map), 0);
        snprintf(other, sizeof(other), "%s/42/root/tmp/other", tree->dir);
        write_file(other, "1000 10 other\n", "we");
        assert_int_equal(symlink("other", tree->map), 0);
        assert_int_equal(perf_map_open(map, &tree->process), -EBADF);
        assert_int_equal(unlink(tree->map), 0);
        assert_int_equal(mkdir(tree->map, 0755), 0);
        assert_int_equal(perf_map_open(map, &tree->process), -EBADF);
}

/* A link of a directory is followed, but inside the root of the process. */
static void test_links_stay_in_root(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;
        char tmp[256], real[256], file[512];

        snprintf(tmp, sizeof(tmp), "%s/42/root/tmp", tree->dir);
        snprintf(real, sizeof(real), "%s/42/root/real", tree->dir);
        snprintf(file, sizeof(file), "%s/perf-7.map", real);
        assert_int_equal(rename(tmp, real), 0);
        assert_int_equal(symlink("/real", tmp), 0);
        write_file(file, "1000 10 inside\n", "we");
        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_open(map, &tree->process), 0);
        assert_int_equal(perf_map_update(map), 1);
        assert_name(map, 0x1000, "inside", 0);
}

static void test_owner(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;

        if (getuid() != 0)
                skip(); /* only root can give files away */
        write_file(tree->map, "1000 10 planted\n", "we");
        assert_int_equal(chown(tree->map, 4242, 4242), 0);
        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_open(map, &tree->process), -EPERM);
        assert_false(perf_map_is_open(map));
}

static void test_size_cap(void **state) {
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        Tree *tree = *state;

        write_file(tree->map, "1000 10 one\n", "we");
        assert_int_equal(truncate(tree->map, (off_t) 1 << 40), 0);
        assert_int_equal(perf_map_new(&map, NULL), 0);
        assert_int_equal(perf_map_open(map, &tree->process), 0);
        assert_int_equal(perf_map_update(map), -EFBIG);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_malformed_lines_are_skipped),
                cmocka_unit_test(test_newer_covers_older),
                cmocka_unit_test(test_cut_at_every_byte),
                cmocka_unit_test_setup_teardown(test_file_grows, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_until_now, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_memory_is_shared, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_file_is_replaced, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_no_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_links_stay_in_root, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_owner, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_size_cap, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
