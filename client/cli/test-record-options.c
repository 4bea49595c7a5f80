/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What `ringside record` makes of its command line. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "record-options.h"
#include "util.h"

#define WORDS_MAX 80

/* A line of words between single spaces; the strings stay for the test, which looks into options. */
static int parse(RecordOptions *ret, const char *line) {
        static char words[2048];
        static char *argv[WORDS_MAX + 1];
        char *state;
        int argc = 0;

        snprintf(words, sizeof(words), "record %s", line);
        for (char *w = strtok_r(words, " ", &state); w && argc < WORDS_MAX; w = strtok_r(NULL, " ", &state))
                argv[argc++] = w;
        argv[argc] = NULL;
        return record_options_parse(ret, argc, argv);
}

static void test_defaults(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, ""), 1);
        assert_null(o.command);
        assert_null(o.output);
        assert_int_equal(o.n_pids + o.n_events, 0);
        assert_true(o.frequency == 0 && o.duration == 0 && o.ring_size == 0 && o.max_frames == 0);
        assert_int_equal(o.helper, RINGSIDE_HELPER_AUTO);
        assert_false(o.no_ask || o.no_wait || o.no_inherit || o.quiet);
}

static void test_all(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-F 999 -e cpu-clock -e cpu-cycles@49 -ecpu-cycles/1000000 -o x -d 2.5 --helper=bus "
                                   "--no-ask --no-inherit --no-wait --ring-size 4M --max-frames 255 --label a=b "
                                   "--label c= -q -- prog -F 5"),
                         1);
        assert_int_equal(o.frequency, 999);
        assert_int_equal(o.n_events, 3);
        assert_string_equal(o.events[0].name, "cpu-clock");
        assert_true(o.events[0].value == 0 && !o.events[0].by_period);
        assert_string_equal(o.events[1].name, "cpu-cycles");
        assert_true(o.events[1].value == 49 && !o.events[1].by_period);
        assert_true(o.events[2].value == 1000000 && o.events[2].by_period);
        assert_string_equal(o.output, "x");
        assert_true(o.duration == 2500000000);
        assert_int_equal(o.helper, RINGSIDE_HELPER_BUS);
        assert_true(o.no_ask && o.no_inherit && o.no_wait && o.quiet);
        assert_int_equal(o.ring_size, 4 << 20);
        assert_int_equal(o.max_frames, 255);
        assert_string_equal(o.labels[0], "a=b");
        assert_string_equal(o.labels[1], "c=");
        assert_null(o.labels[2]);
        assert_string_equal(o.command[0], "prog");
        assert_string_equal(o.command[1], "-F");
        assert_string_equal(o.command[2], "5");
        assert_null(o.command[3]);
}

/* Options behind the command's name are the command's, with and without "--". */
static void test_command_without_dashes(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-q prog -q --no-such"), 1);
        assert_true(o.quiet);
        assert_string_equal(o.command[0], "prog");
        assert_string_equal(o.command[2], "--no-such");
}

static void test_pids(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-p 1,22 -p 333"), 1);
        assert_int_equal(o.n_pids, 3);
        assert_int_equal(o.pids[0], 1);
        assert_int_equal(o.pids[1], 22);
        assert_int_equal(o.pids[2], 333);
}

static void test_too_many_pids(_unused_ void **state) {
        char line[1024] = "-p 1";
        RecordOptions o;

        for (unsigned i = 1; i < RECORD_PIDS_MAX; i++)
                strcat(line, ",1");
        assert_int_equal(parse(&o, line), 1);
        assert_int_equal(o.n_pids, RECORD_PIDS_MAX);
        strcat(line, ",1");
        assert_int_equal(parse(&o, line), -EINVAL);
}

static void test_wrong(_unused_ void **state) {
        static const char *const lines[] = {
                "-F", "-F 0", "-F x", "-F 1e3", "-F -1", "-e @5", "-e cpu-clock@", "-e cpu-clock@0", "-e cpu-clock/x",
                "-e averyveryveryverylongnameofanevent", "-p 0", "-p 1,", "-p ,1", "-p 1,x", "-p 99999999999",
                "-p 1 -- prog", "-d 0", "-d x", "--helper=none", "--ring-size 1000", "--ring-size 32K", "--ring-size 2G",
                "--max-frames 0", "--max-frames 256", "--label x", "--label =x", "-o -", "--no-wait", "--no-wait -p 1",
                "--no-inherit", "--", "-q --", "--no-such", "-x", "--quiet=yes",
                "-e a -e a -e a -e a -e a -e a -e a -e a -e a",
        };
        RecordOptions o;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (parse(&o, lines[i]) != -EINVAL)
                        fail_msg("'%s' was taken", lines[i]);
}

static void test_help(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "--help"), 0);
        assert_int_equal(parse(&o, "-h"), 0);
        assert_int_equal(parse(&o, "-- prog --help"), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults), cmocka_unit_test(test_all),
                cmocka_unit_test(test_command_without_dashes), cmocka_unit_test(test_pids),
                cmocka_unit_test(test_too_many_pids), cmocka_unit_test(test_wrong), cmocka_unit_test(test_help),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
