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

        info.statistics.taken = 20;
        info.statistics.expected = 21;
        assert_non_null(strstr(summary_never_taken_text(text, sizeof(text), &info), "About 1 more sample (4.8 %) was never"));
        info.statistics.taken = 900;
        info.statistics.expected = 1000;
        assert_int_equal(summary_never_taken(&info), 100);
        assert_ptr_equal(summary_never_taken_text(text, sizeof(text), &info), text);
        assert_non_null(strstr(text, "About 100 more samples (10.0 %)"));
}

static void test_advice(_unused_ void **state) {
        RingsideRecordingInfo info = {.samples = 100, .truncated = 31, .unwind = "fp"};

        assert_non_null(summary_frame_pointer_advice(&info));
        info.unwind = "table";
        assert_null(summary_frame_pointer_advice(&info));
        info.unwind = "fp";
        /* Those that were only too deep are not for want of frame pointers. */
        info.statistics.walk_end[RINGSIDE_WALK_DEPTH] = 2;
        assert_null(summary_frame_pointer_advice(&info));
        info.statistics.walk_end[RINGSIDE_WALK_DEPTH] = 0;
        info.truncated = 30;
        assert_null(summary_frame_pointer_advice(&info));
}

static void test_kernel(_unused_ void **state) {
        RingsideRecordingInfo info = {.kernel_frames = "yes"};

        assert_null(summary_kernel(&info));
        assert_null(summary_kernel_advice(&info, false));
        info.kernel_frames = ""; /* a recording of version 1 */
        assert_null(summary_kernel(&info));
        info.kernel_frames = "denied";
        assert_non_null(strstr(summary_kernel(&info), "--kernel"));
        assert_non_null(strstr(summary_kernel_advice(&info, false), "not granted"));
        assert_non_null(strstr(summary_kernel_advice(&info, false), "--kernel"));
        assert_non_null(strstr(summary_kernel_advice(&info, true), "not granted"));
        assert_null(strstr(summary_kernel_advice(&info, true), "--kernel"));
        info.kernel_frames = "not asked";
        assert_non_null(strstr(summary_kernel(&info), "--no-kernel"));
        assert_null(summary_kernel_advice(&info, false)); /* it was said */
        info.kernel_frames = "no names";
        assert_non_null(strstr(summary_kernel(&info), "kptr_restrict"));
        assert_non_null(strstr(summary_kernel_advice(&info, false), "kptr_restrict=1"));
        assert_non_null(strstr(summary_kernel_advice(&info, true), "kptr_restrict=1"));
        info.kernel_frames = "hostile\033[2J";
        assert_null(summary_kernel(&info));
}

static void test_missed(_unused_ void **state) {
        RingsideRecordingInfo info = {};
        char text[128];

        assert_null(summary_missed_text(text, sizeof(text), &info));
        info.statistics.missed = 1500000000;
        assert_non_null(strstr(summary_missed_text(text, sizeof(text), &info), "For 1.5 s of CPU time"));
}

/* Where samples suffer, and not else. */
static void test_tables(_unused_ void **state) {
        RingsideRecordingInfo info = {.statistics.walk_end = {[RINGSIDE_WALK_NO_TABLES] = 3, [RINGSIDE_WALK_NO_RULE] = 4}};
        uint64_t *const counters[] = {&info.statistics.tables_no_room, &info.statistics.rules_no_room,
                                      &info.statistics.processes_no_room, &info.statistics.tables_lost};
        char text[256];

        assert_null(summary_tables_text(text, sizeof(text), &info));
        info.statistics.tables_refused = 2;
        assert_null(summary_tables_text(text, sizeof(text), &info));
        for (size_t i = 0; i < ELEMENTSOF(counters); i++) {
                *counters[i] = 1;
                assert_non_null(summary_tables_text(text, sizeof(text), &info));
                assert_non_null(strstr(text, " 7 stacks"));
                assert_int_equal(strstr(text, "--table-size") != NULL, i < 3);
                assert_non_null(strchr(text, '.'));
                *counters[i] = 0;
        }
        info.statistics = (RingsideStatistics){.tables_no_room = 1, .walk_end = {[RINGSIDE_WALK_COMPLETE] = 5}};
        assert_null(summary_tables_text(text, sizeof(text), &info));
}

static void test_names(_unused_ void **state) {
        RingsideRecordingInfo info = {};
        char text[256];

        assert_null(summary_names_text(text, sizeof(text), &info));
        info.names_refused = 1;
        assert_non_null(strstr(summary_names_text(text, sizeof(text), &info), "1 file has no names, or not all: it is damaged"));
        info.names_refused = UINT64_MAX;
        assert_non_null(strstr(summary_names_text(text, sizeof(text), &info), "5 files have no names, or not all: they are damaged"));
        assert_non_null(strstr(text, "read."));
}

static void test_untracked(_unused_ void **state) {
        RingsideRecordingInfo info = {};
        char text[256];

        assert_null(summary_untracked_text(text, sizeof(text), &info));
        info.statistics.untracked = 1;
        assert_non_null(strstr(summary_untracked_text(text, sizeof(text), &info), "at least 1 process or thread that"));
        info.statistics.untracked = 70;
        assert_non_null(strstr(summary_untracked_text(text, sizeof(text), &info), "70 processes or threads that"));
}

static void test_hidden(_unused_ void **state) {
        const char *const command[] = {"command ./program"}, *const process[] = {"process 7"}, *const cgroup[] = {"cgroup /a"};
        RingsideRecordingInfo info = {.targets = command, .n_targets = 1, .exit_status = 0};
        char text[256];

        /* Nothing was told of it. */
        assert_non_null(strstr(summary_empty(&info), "program that was run is not yours to see"));
        assert_null(summary_hidden_text(text, sizeof(text), &info));
        /* Nor of anything, once sampling had ended. */
        info.ended_why = "the helper has ended";
        assert_non_null(strstr(summary_empty(&info), "before sampling ended"));
        info.ended_why = "";
        /* Or it has not ended, or not begun, or was told and that was lost. */
        info.exit_status = -1;
        assert_non_null(strstr(summary_empty(&info), "hardly any CPU time"));
        info.exit_status = 0;
        info.statistics.processes_lost = 1;
        assert_non_null(strstr(summary_empty(&info), "hardly any CPU time"));
        info.statistics.processes_lost = 0;
        info.statistics.processes = 1;
        assert_non_null(strstr(summary_empty(&info), "hardly any CPU time"));
        info.targets = process;
        info.statistics.processes = 0;
        assert_non_null(strstr(summary_empty(&info), "hardly any CPU time"));

        info.hidden = 1;
        assert_non_null(strstr(summary_empty(&info), "became a program that is not yours to see"));
        assert_null(summary_hidden_text(text, sizeof(text), &info)); /* it was said */
        info.samples = 5;
        assert_non_null(strstr(summary_hidden_text(text, sizeof(text), &info), "1 process became"));
        info.hidden = 2;
        assert_non_null(strstr(summary_hidden_text(text, sizeof(text), &info), "2 processes became"));
        assert_non_null(strstr(text, "can allow it.")); /* whole */
        info.n_targets = 0;
        assert_null(summary_hidden_text(text, sizeof(text), &info));

        /* Who left it is seen still, but not there. */
        info = (RingsideRecordingInfo){.targets = cgroup, .n_targets = 1, .exit_status = -1, .hidden = 1};
        assert_non_null(strstr(summary_empty(&info), "hardly any CPU time"));
        info.samples = 5;
        assert_null(summary_hidden_text(text, sizeof(text), &info));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_never_taken),
                cmocka_unit_test(test_advice),
                cmocka_unit_test(test_kernel),
                cmocka_unit_test(test_missed),
                cmocka_unit_test(test_tables),
                cmocka_unit_test(test_untracked),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_hidden),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
