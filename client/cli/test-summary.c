/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "summary.h"
#include "util.h"

static void test_never_taken(_unused_ void **state) {
        RingsideRecordingInfo info = {.samples = 900, .statistics = {.taken = 900, .emitted = 900}};
        char text[256];

        /* Not known, as without targets. */
        assert_int_equal(summary_never_taken(&info), 0);
        assert_null(summary_never_taken_text(text, sizeof(text), &info));
        /* Too few to mention, or none. */
        info.statistics.expected = 910;
        assert_int_equal(summary_never_taken(&info), 10);
        assert_null(summary_never_taken_text(text, sizeof(text), &info));
        info.statistics.expected = 890;
        assert_int_equal(summary_never_taken(&info), 0);
        assert_null(summary_never_taken_text(text, sizeof(text), &info));

        info.statistics.expected = 1000;
        assert_int_equal(summary_never_taken(&info), 100);
        assert_ptr_equal(summary_never_taken_text(text, sizeof(text), &info), text);
        assert_non_null(strstr(text, "About 100 more samples (10.0 %)"));
}

static void test_advice(_unused_ void **state) {
        RingsideRecordingInfo info = {.samples = 100, .truncated = 31};

        assert_non_null(summary_frame_pointer_advice(&info));
        /* Those that were only too deep are not for want of frame pointers. */
        info.statistics.walk_end[RINGSIDE_WALK_DEPTH] = 2;
        assert_null(summary_frame_pointer_advice(&info));
        info.statistics.walk_end[RINGSIDE_WALK_DEPTH] = 0;
        info.truncated = 30;
        assert_null(summary_frame_pointer_advice(&info));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_never_taken),
                cmocka_unit_test(test_advice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
