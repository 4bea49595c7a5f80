/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Numbers as people type them, names that fit, words for a shell. */

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "text.h"
#include "util.h"

static void test_number(_unused_ void **state) {
        static const char *const wrong[] = { "", "-1", "+1", " 1", "1 ", "0x10", "1.0", "99999999999999999999", "11" };
        uint64_t n = 77;

        assert_int_equal(parse_number("10", 1, 10, &n), 0);
        assert_int_equal(n, 10);
        assert_int_equal(parse_number("18446744073709551615", 0, UINT64_MAX, &n), 0);
        assert_true(n == UINT64_MAX);
        assert_int_equal(parse_number("18446744073709551616", 0, UINT64_MAX, &n), -ERANGE);
        n = 77;
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_true(parse_number(wrong[i], 1, 10, &n) < 0);
        assert_int_equal(n, 77); /* set on success only */
}

static void test_duration(_unused_ void **state) {
        static const struct {
                const char *s;
                uint64_t ns;
        } right[] = {
                { "5", 5000000000 },      { "0.5", 500000000 },    { ".25", 250000000 },    { "1.", 1000000000 },
                { "250ms", 250000000 },   { "90s", 90000000000 },  { "2m", 120000000000 },  { "1h", 3600000000000 },
                { "1.5m", 90000000000 },  { "0.000000001", 1 },
        };
        static const char *const wrong[] = { "", "0", "0.0", ".", "-1", "5 s", "5x", "1e3", "inf", "nan", "0x5", "0.0000000001",
                                             "367000h", "99999999999999999999", "18446744073h", "1.2.3", "5sm" };
        uint64_t ns;

        for (size_t i = 0; i < ELEMENTSOF(right); i++) {
                assert_int_equal(parse_duration(right[i].s, &ns), 0);
                assert_true(ns == right[i].ns);
        }
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_true(parse_duration(wrong[i], &ns) < 0);
}

static void test_size(_unused_ void **state) {
        static const char *const wrong[] = { "", "K", "1k", "1KB", "1.5M", "-1", "18446744073709551615K", "1T" };
        uint64_t bytes;

        assert_int_equal(parse_size("65536", &bytes), 0);
        assert_int_equal(bytes, 65536);
        assert_int_equal(parse_size("64K", &bytes), 0);
        assert_int_equal(bytes, 65536);
        assert_int_equal(parse_size("8M", &bytes), 0);
        assert_int_equal(bytes, 8388608);
        assert_int_equal(parse_size("1G", &bytes), 0);
        assert_int_equal(bytes, 1073741824);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_true(parse_size(wrong[i], &bytes) < 0);
}

static void test_percent(_unused_ void **state) {
        static const char *const wrong[] = { "", "%", "-1", "100.1", "101", "1e1", "nan", "5%%" };
        double p;

        assert_int_equal(parse_percent("0.5", &p), 0);
        assert_true(p > 0.4999 && p < 0.5001);
        assert_int_equal(parse_percent("100%", &p), 0);
        assert_true(p > 99.999 && p < 100.001);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_true(parse_percent(wrong[i], &p) < 0);
}

static void assert_fits(const char *s, size_t columns, const char *wanted) {
        _cleanup_free_ char *fitted = text_fit(s, columns, "…");

        assert_non_null(fitted);
        assert_true(text_width(fitted) <= columns);
        assert_string_equal(fitted, wanted);
}

static void test_fit(_unused_ void **state) {
        assert_fits("short", 5, "short");
        assert_fits("abcdefghij", 10, "abcdefghij");
        assert_fits("abcdefghijk", 10, "abcde…hijk");
        assert_fits("abcdefghijk", 4, "ab…k");
        assert_fits("abcdefghijk", 2, "ab");
        assert_fits("abcdefghijk", 0, "");
        /* Escaped first, so that what is cut is what is shown. */
        assert_fits("\033[31m", 20, "\\x1b[31m");
        assert_fits("a\nb", 20, "a\\x0ab");
        assert_fits("\xff\xfe", 20, "\\xff\\xfe");
        /* Two columns a character: never cut in half, never too wide. */
        assert_fits("日本語日本語", 12, "日本語日本語");
        assert_fits("日本語日本語", 11, "日本…本語");
        assert_fits("日本語日本語", 8, "日本…語");
}

/* Every name in every width: valid, and no wider than asked for. */
static void test_fit_never_too_wide(_unused_ void **state) {
        static const char *const names[] = { "operator<<", "日本語 text é", "a\xcc\x81\xcc\x81zzzzzzzzzzz", "\x01\x02\x03",
                                             "😀😀😀😀", "" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (size_t columns = 0; columns < 40; columns++) {
                        _cleanup_free_ char *fitted = text_fit(names[i], columns, "...");

                        assert_non_null(fitted);
                        assert_true(text_width(fitted) <= columns);
                }
}

static void test_quote(_unused_ void **state) {
        static const struct {
                const char *s, *quoted;
        } cases[] = {
                { "plain-1.x/y", "plain-1.x/y" }, { "", "''" },           { "a b", "'a b'" },
                { "it's", "'it'\\''s'" },         { "$(x)", "'$(x)'" },   { "'", "''\\'''" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *quoted = text_quote(cases[i].s);

                assert_string_equal(quoted, cases[i].quoted);
        }
}

static void test_file_part(_unused_ void **state) {
        char part[65], many[200];

        assert_string_equal(text_file_part("/usr/bin/gcc-12", part), "gcc-12");
        assert_string_equal(text_file_part("./a b\n", part), "a_b_");
        assert_string_equal(text_file_part("dir/", part), "_");
        assert_string_equal(text_file_part("\xc3\xa9", part), "__");
        memset(many, 'x', sizeof(many));
        many[sizeof(many) - 1] = 0;
        assert_int_equal(strlen(text_file_part(many, part)), 64);
}

static void assert_wraps(const char *s, size_t indent, size_t columns, bool hanging, const char *wanted) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        (hanging ? text_wrap_hanging : text_wrap)(f, s, indent, columns);
        fclose(f);
        assert_string_equal(text, wanted);
}

static void test_wrap(_unused_ void **state) {
        assert_wraps("", 0, 20, false, "");
        assert_wraps("", 0, 20, true, "\n");
        assert_wraps("one two three four five", 0, 10, false, "one two\nthree four\nfive\n");
        assert_wraps("one two three four", 2, 13, false, "  one two\n  three four\n");
        assert_wraps("one two three four", 2, 13, true, "one two\n  three four\n");
        assert_wraps("one\ntwo", 0, 20, false, "one\ntwo\n");
        assert_wraps("abcdefghijklmnop", 0, 10, false, "abcdefghij\nklmnop\n");
}

static void test_for_people(_unused_ void **state) {
        char s[32];

        assert_string_equal(text_duration(s, sizeof(s), 5000000), "5 ms");
        assert_string_equal(text_duration(s, sizeof(s), 1500000000), "1.5 s");
        assert_string_equal(text_duration(s, sizeof(s), 125000000000), "2 min 05 s");
        assert_string_equal(text_duration(s, sizeof(s), UINT64_C(7260000000000)), "2 h 01 min");
        assert_string_equal(text_bytes(s, sizeof(s), 1023), "1023 B");
        assert_string_equal(text_bytes(s, sizeof(s), 1536), "1.5 KiB");
        assert_string_equal(text_bytes(s, sizeof(s), UINT64_MAX), "16777216.0 TiB");
        assert_true(text_share(1, 0) == 0);
        assert_true(text_share(1, 4) == 25);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_number),    cmocka_unit_test(test_duration),
                cmocka_unit_test(test_size),      cmocka_unit_test(test_percent),
                cmocka_unit_test(test_fit),       cmocka_unit_test(test_fit_never_too_wide),
                cmocka_unit_test(test_quote),     cmocka_unit_test(test_file_part),
                cmocka_unit_test(test_wrap),      cmocka_unit_test(test_for_people),
        };

        (void) setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
