/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What `ringside report` makes of its command line, and with it what the other readers share. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"
#include "util.h"

#define WORDS_MAX 32

static int parse(ReportOptions *ret, const char *line) {
        static char words[1024];
        static char *argv[WORDS_MAX + 1];
        char *state;
        int argc = 0;

        snprintf(words, sizeof(words), "report %s", line);
        for (char *w = strtok_r(words, " ", &state); w && argc < WORDS_MAX; w = strtok_r(NULL, " ", &state))
                argv[argc++] = w;
        argv[argc] = NULL;
        return report_options_parse(ret, argc, argv);
}

static void test_defaults(_unused_ void **state) {
        ReportOptions o;

        assert_int_equal(parse(&o, ""), 1);
        assert_int_equal(o.by, REPORT_FUNCTION);
        assert_int_equal(o.view.event, -1);
        assert_null(o.view.recording);
        assert_null(o.view.output);
        assert_true(o.limit == SIZE_MAX && !o.by_total && !o.json && !o.no_pager);
        assert_true(o.threshold == 0.5);
        assert_int_equal(parse(&o, "--format=json"), 1);
        assert_true(o.json && o.threshold == 0);
}

static void test_all(_unused_ void **state) {
        ReportOptions o;

        /* The recording may stand anywhere. */
        assert_int_equal(parse(&o, "--by thread x.ringside --process make --thread 12 --target 3 --merge-targets --fold-parts --event 1 "
                                   "--sort total --limit 3 --threshold 2 --format text -o out --no-pager"),
                         1);
        assert_int_equal(o.by, REPORT_THREAD);
        assert_string_equal(o.view.recording, "x.ringside");
        assert_string_equal(o.view.process, "make");
        assert_string_equal(o.view.thread, "12");
        assert_string_equal(o.view.target, "3");
        assert_true(o.view.merge_targets && o.view.fold_parts);
        assert_int_equal(o.view.event, 1);
        assert_string_equal(o.view.output, "out");
        assert_true(o.by_total && o.limit == 3 && o.threshold == 2 && !o.json && o.no_pager);
}

static void test_filters(_unused_ void **state) {
        ReportOptions o;

        assert_int_equal(parse(&o, "--function=a::b --since 10s --until=2m --mode user"), 1);
        assert_string_equal(o.view.function, "a::b");
        assert_true(o.view.since == 10000000000 && o.view.until == 120000000000);
        assert_int_equal(o.view.mode, RINGSIDE_MODE_USER);
        assert_int_equal(parse(&o, "--mode=kernel"), 1);
        assert_int_equal(o.view.mode, RINGSIDE_MODE_KERNEL);
        assert_int_equal(parse(&o, ""), 1);
        assert_int_equal(o.view.mode, RINGSIDE_MODE_ANY);
}

static void test_unwind(_unused_ void **state) {
        ReportOptions o;

        assert_int_equal(parse(&o, "--unwind --limit=3 --format=json"), 1);
        assert_int_equal(o.by, REPORT_UNWIND);
        assert_int_equal(parse(&o, "--by=unwind"), -EINVAL);
        assert_int_equal(parse(&o, "--by=function --unwind"), -EINVAL);
        assert_int_equal(parse(&o, "--unwind --sort=self"), -EINVAL);
}

static void test_every_view(_unused_ void **state) {
        for (int i = 0; i < REPORT_UNWIND; i++) {
                ReportOptions o;
                char line[64];

                snprintf(line, sizeof(line), "--by=%s", report_view_name((enum ReportView) i));
                assert_int_equal(parse(&o, line), 1);
                assert_int_equal(o.by, i);
        }
}

static void test_wrong(_unused_ void **state) {
        static const char *const lines[] = {
                "--by=x", "--by", "--sort=name", "--sort=self --by=callees", "--limit 0", "--limit x", "--threshold 101",
                "--threshold x", "--format=xml", "--event -1", "--event x", "--process=", "--thread=", "--output=", "a b",
                "--no-such", "--merge-targets --by=target", "-x", "--no-pager=1",
                "--function=", "--since=x", "--until=0", "--since=2s --until=2s", "--mode=x", "--mode=",
        };
        ReportOptions o;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (parse(&o, lines[i]) != -EINVAL)
                        fail_msg("'%s' was taken", lines[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_filters),
                cmocka_unit_test(test_unwind),
                cmocka_unit_test(test_every_view),
                cmocka_unit_test(test_wrong),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
