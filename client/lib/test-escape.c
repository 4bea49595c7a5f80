/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "error.h"
#include "ringside.h"

static void check(const char *in, const char *out) {
        char buffer[256];

        assert_ptr_equal(ringside_escape(buffer, sizeof(buffer), in), buffer);
        assert_string_equal(buffer, out);
}

static void test_text(_unused_ void **state) {
        check("", "");
        check("std::vector<int>::push_back(int&&) [clone .cold]", "std::vector<int>::push_back(int&&) [clone .cold]");
        check("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x94\xa5", "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x94\xa5");
        check("back\\slash", "back\\slash");
        check("<script>&\"'", "<script>&\"'"); /* markup is the page's to quote */
}

static void test_controls(_unused_ void **state) {
        check("\033[31mred\a", "\\x1b[31mred\\x07");
        check("two\nlines\r\ttab", "two\\x0alines\\x0d\\x09tab");
        check("\x7f", "\\x7f");
        check("\xc2\x9b" "31m", "\\xc2\\x9b" "31m"); /* CSI as one character */
        check("\xe2\x80\xae" "gpj.exe", "\\xe2\\x80\\xae" "gpj.exe"); /* writes the rest backwards */
        check("a\xe2\x80\x8b" "b", "a\\xe2\\x80\\x8b" "b");           /* invisible */
        check("\xe2\x80\xa8", "\\xe2\\x80\\xa8");                     /* a line of its own */
        check("\xef\xbb\xbf", "\\xef\\xbb\\xbf");
        check("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81");
}

static void test_invalid(_unused_ void **state) {
        check("\xff\xfe", "\\xff\\xfe");
        check("\xc0\xaf", "\\xc0\\xaf");                 /* overlong */
        check("\xe0\x80\xaf", "\\xe0\\x80\\xaf");        /* overlong */
        check("\xed\xa0\x80", "\\xed\\xa0\\x80");        /* a surrogate */
        check("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond the last */
        check("\xc3", "\\xc3");                          /* cut off by the end */
        check("\xe2\x82", "\\xe2\\x82");
        check("\xe2(", "\\xe2(");
        check("\x80", "\\x80");
}

static void test_size(_unused_ void **state) {
        char buffer[16];

        memset(buffer, 'x', sizeof(buffer));
        assert_string_equal(ringside_escape(buffer, 4, "abcdef"), "abc");
        assert_string_equal(ringside_escape(buffer, 4, "ab\xc3\xa4"), "ab"); /* not half a character */
        assert_string_equal(ringside_escape(buffer, 5, "ab\n"), "ab");       /* not half an escape */
        assert_string_equal(ringside_escape(buffer, 7, "ab\n"), "ab\\x0a");
        assert_string_equal(ringside_escape(buffer, 1, "abc"), "");
        buffer[0] = 'q';
        (void) ringside_escape(buffer, 0, "abc");
        assert_int_equal(buffer[0], 'q');
}

/* Whatever goes in, what comes out is harmless by its own standard. */
static void test_all_pairs(_unused_ void **state) {
        for (unsigned a = 1; a < 256; a++)
                for (unsigned b = 0; b < 256; b++) {
                        char in[] = { a, b, 0 }, out[32], again[32];

                        ringside_escape(out, sizeof(out), in);
                        ringside_escape(again, sizeof(again), out);
                        assert_string_equal(out, again);
                }
}

static void test_error(_unused_ void **state) {
        RingsideError error;

        assert_int_equal(error_set(&error, -5, "hint", "Cannot open %s", "a\033b"), -5);
        assert_int_equal(error.code, -5);
        assert_string_equal(error.text, "Cannot open a\\x1bb");
        assert_string_equal(error.hint, "hint");
        assert_int_equal(error_set(NULL, -7, NULL, "x"), -7);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),      cmocka_unit_test(test_controls),  cmocka_unit_test(test_invalid),
                cmocka_unit_test(test_size),      cmocka_unit_test(test_all_pairs), cmocka_unit_test(test_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
