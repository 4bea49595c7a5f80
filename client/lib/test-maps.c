/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "maps.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "util.h"

static int parse_one(const char *text, MapsLine *ret) {
        MapsCursor cursor = {.next = text, .left = strlen(text)};

        return maps_cursor_next(&cursor, ret);
}

static void test_fields(_unused_ void **state) {
        MapsLine line;

        assert_int_equal(parse_one("7f5071b9b000-7f5071cf1000 r-xp 00026000 fe:00 332835                     "
                                   "/usr/lib/libc.so.6\n",
                                   &line),
                         1);
        assert_int_equal(line.start, 0x7f5071b9b000);
        assert_int_equal(line.end, 0x7f5071cf1000);
        assert_int_equal(line.offset, 0x26000);
        assert_int_equal(line.dev_major, 0xfe);
        assert_int_equal(line.dev_minor, 0);
        assert_int_equal(line.inode, 332835);
        assert_true(line.readable && !line.writable && line.executable);
        assert_int_equal(line.path_len, strlen("/usr/lib/libc.so.6"));
        assert_memory_equal(line.path, "/usr/lib/libc.so.6", line.path_len);
}

static void test_anonymous(_unused_ void **state) {
        MapsLine line;

        assert_int_equal(parse_one("1000-2000 rw-s 00000000 00:00 0 \n", &line), 1);
        assert_true(line.readable && line.writable && !line.executable);
        assert_int_equal(line.path_len, 0);
        assert_int_equal(parse_one("1000-2000 --xp 00000000 00:00 0\n", &line), 1);
        assert_true(!line.readable && !line.writable && line.executable);
        assert_int_equal(
                parse_one("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", &line), 1);
        assert_int_equal(line.start, 0xffffffffff600000);
}

static void test_malformed(_unused_ void **state) {
        static const char *const lines[] = {
                "\n",
                "1000\n",
                "1000-\n",
                "-2000 r-xp 0 0:0 0\n",
                "2000-2000 r-xp 0 0:0 0\n",
                "3000-2000 r-xp 0 0:0 0\n",
                "1000-2000 r-x 0 0:0 0\n",
                "1000-2000 rwxz 0 0:0 0\n",
                "1000-2000 r-xp 0 0-0 0\n",
                "1000-2000 r-xp 0 0:0 -1\n",
                "1000-2000 r-xp 0 0:0 5x\n",
                "1000-2000 r-xp 0 0:100000000 5\n",
                "10000000000000000-20000000000000000 r-xp 0 0:0 0\n",
                "1000-2000 r-xp 0 0:0 18446744073709551616\n",
                "1000-2000 r-xp 0 0:0 0 no newline",
        };
        MapsLine line;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                assert_int_equal(parse_one(lines[i], &line), -EBADMSG);
}

static void test_goes_on_after_malformed(_unused_ void **state) {
        static const char text[] =
                "nonsense\n1000-2000 r-xp 00000000 00:00 0\n\n3000-4000 r-xp 00000000 00:00 0\nx";
        MapsCursor cursor = {.next = text, .left = sizeof(text) - 1};
        MapsLine line;

        assert_int_equal(maps_cursor_next(&cursor, &line), -EBADMSG);
        assert_int_equal(maps_cursor_next(&cursor, &line), 1);
        assert_int_equal(line.start, 0x1000);
        assert_int_equal(maps_cursor_next(&cursor, &line), -EBADMSG);
        assert_int_equal(maps_cursor_next(&cursor, &line), 1);
        assert_int_equal(line.start, 0x3000);
        assert_int_equal(maps_cursor_next(&cursor, &line), -EBADMSG);
        assert_int_equal(maps_cursor_next(&cursor, &line), 0);
}

/* In exactly as much memory as there is text, so that a sanitizer sees the first byte too many. */
static void test_cut_at_every_byte(_unused_ void **state) {
        static const char whole[] = "7f50-7f60 r-xp 00026000 fe:00 332835   /a b\\012c (deleted)\n";

        for (size_t n = 0; n < sizeof(whole) - 1; n++) {
                _cleanup_free_ char *text = malloc(n + 1);
                MapsCursor cursor = {.next = text, .left = n};
                MapsLine line;

                memcpy(text, whole, n);
                text = realloc(text, n == 0 ? 1 : n);
                cursor.next = text;
                assert_int_equal(maps_cursor_next(&cursor, &line), n == 0 ? 0 : -EBADMSG);
        }
}

static void test_path(_unused_ void **state) {
        char path[64];
        MapsLine line;

        assert_int_equal(parse_one("1000-2000 r-xp 0 1:1 5 /a b\\012c\\x (deleted)\n", &line), 1);
        assert_int_equal(maps_line_get_path(&line, path, sizeof(path)), strlen("/a b\nc\\x (deleted)"));
        assert_string_equal(path, "/a b\nc\\x (deleted)");
        assert_true(maps_path_strip_deleted(path));
        assert_string_equal(path, "/a b\nc\\x");
        assert_false(maps_path_strip_deleted(path));
        assert_int_equal(maps_line_get_path(&line, path, 5), -ENAMETOOLONG);
        assert_int_equal(maps_line_get_path(&line, path, 0), -ENAMETOOLONG);
        assert_int_equal(parse_one("1000-2000 r-xp 0 1:1 5 /1234\n", &line), 1);
        assert_int_equal(maps_line_get_path(&line, path, 6), 5);
        assert_int_equal(maps_line_get_path(&line, path, 5), -ENAMETOOLONG);
}

static void test_strip_deleted_keeps_name(_unused_ void **state) {
        char only[] = " (deleted)", inside[] = "/a (deleted)/b";

        assert_false(maps_path_strip_deleted(only));
        assert_false(maps_path_strip_deleted(inside));
}

/* A process may have 100,000 mappings; five seconds would be a quadratic parser. */
static void test_many_lines(_unused_ void **state) {
        const size_t n = 100000, size = 80;
        _cleanup_free_ char *text = malloc(n * size);
        MapsCursor cursor = {.next = text};
        MapsLine line;
        size_t count = 0;
        clock_t start;

        assert_non_null(text);
        for (size_t i = 0; i < n; i++)
                cursor.left += (size_t) snprintf(text + cursor.left, size,
                                                 "%zx-%zx r-xp 00001000 fe:00 77 /lib/%zu\n", (i + 1) << 13,
                                                 ((i + 1) << 13) + 4096, i);
        start = clock();
        while (maps_cursor_next(&cursor, &line) == 1)
                count++;
        assert_int_equal(count, n);
        assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_anonymous),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_goes_on_after_malformed),
                cmocka_unit_test(test_cut_at_every_byte),
                cmocka_unit_test(test_path),
                cmocka_unit_test(test_strip_deleted_keeps_name),
                cmocka_unit_test(test_many_lines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
