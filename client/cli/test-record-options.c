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
        assert_int_equal(o.n_targets + o.n_events, 0);
        assert_true(o.unwind == RECORD_UNWIND_AUTO && o.table_size == 16 << 20 && !o.table_size_named);
        assert_true(o.frequency == 0 && o.duration == 0 && o.ring_size == 0 && o.max_frames == 0);
        assert_int_equal(o.helper, RINGSIDE_HELPER_AUTO);
        assert_false(o.no_ask || o.no_wait || o.no_inherit || o.quiet);
}

static void test_unwind(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "--unwind fp"), 1);
        assert_true(o.unwind == RECORD_UNWIND_FP && o.table_size == 0);
        assert_int_equal(parse(&o, "--unwind table"), 1);
        assert_true(o.unwind == RECORD_UNWIND_TABLE && o.table_size == 16 << 20 && !o.table_size_named);
        assert_int_equal(parse(&o, "--table-size 64M --unwind=auto"), 1);
        assert_true(o.unwind == RECORD_UNWIND_AUTO && o.table_size == 64 << 20 && o.table_size_named);
}

static void test_all(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-F 999 -e cpu-clock -e cpu-cycles@49 -ecpu-cycles/1000000 -o x -d 2.5 --helper=bus "
                                   "--no-ask --no-inherit --no-wait --ring-size 4M --max-frames 255 --unwind=table --table-size=8M --label a=b "
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
        assert_true(o.unwind == RECORD_UNWIND_TABLE && o.table_size == 8 << 20);
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

/* In the order they were named, and once each: this is how a recording numbers them. */
static void test_numbers(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-p 1,22 -t 22,5 -p 333,1 -t 22"), 1);
        assert_int_equal(o.n_targets, 5);
        assert_true(o.targets[0].kind == RECORD_PROCESS && o.targets[0].id == 1);
        assert_true(o.targets[1].kind == RECORD_PROCESS && o.targets[1].id == 22);
        assert_true(o.targets[2].kind == RECORD_THREAD && o.targets[2].id == 22);
        assert_true(o.targets[3].kind == RECORD_THREAD && o.targets[3].id == 5);
        assert_true(o.targets[4].kind == RECORD_PROCESS && o.targets[4].id == 333);
        assert_false(record_options_by_cgroup(&o));
        assert_int_equal(parse(&o, "-t 1 --no-inherit"), 1);
}

static void test_cgroups(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "--unit nginx --cgroup=/a/b --unit=x.slice --cgroup /a/b --user"), 1);
        assert_int_equal(o.n_targets, 3);
        assert_true(o.targets[0].kind == RECORD_UNIT && o.targets[1].kind == RECORD_CGROUP);
        assert_string_equal(o.targets[0].name, "nginx");
        assert_string_equal(o.targets[1].name, "/a/b");
        assert_string_equal(o.targets[2].name, "x.slice");
        assert_true(o.user && record_options_by_cgroup(&o));
}

static void test_too_many_targets(_unused_ void **state) {
        char line[1024] = "-p 100";
        size_t n = strlen(line);
        RecordOptions o;

        for (unsigned i = 1; i < RECORD_TARGETS_MAX; i++)
                n += sprintf(line + n, ",%u", 100 + i);
        assert_int_equal(parse(&o, line), 1);
        assert_int_equal(o.n_targets, RECORD_TARGETS_MAX);
        strcpy(line + n, " -p 101");
        assert_int_equal(parse(&o, line), 1);
        strcpy(line + n, " -t 101");
        assert_int_equal(parse(&o, line), -EINVAL);
}

static void test_scope_and_kernel(_unused_ void **state) {
        RecordOptions o;

        assert_int_equal(parse(&o, "-d 1"), 1);
        assert_false(o.all);
        assert_int_equal(o.kernel, RINGSIDE_KERNEL_QUIET);
        assert_int_equal(parse(&o, "-a --kernel --kernel -- prog -a"), 1);
        assert_true(o.all);
        assert_int_equal(o.kernel, RINGSIDE_KERNEL_ASK);
        assert_string_equal(o.command[1], "-a");
        assert_int_equal(parse(&o, "--all --no-kernel -p 1 --no-inherit"), 1);
        assert_true(o.all);
        assert_int_equal(o.kernel, RINGSIDE_KERNEL_NO);
        assert_int_equal(parse(&o, "-a --no-wait -- prog"), 1);
}

static void test_wrong(_unused_ void **state) {
        static const char *const lines[] = {
                "-F", "-F 0", "-F x", "-F 1e3", "-F -1", "-e @5", "-e cpu-clock@", "-e cpu-clock@0", "-e cpu-clock/x",
                "-e averyveryveryverylongnameofanevent", "-p 0", "-p 1,", "-p ,1", "-p 1,x", "-p 99999999999",
                "-p 1 -- prog", "-t 0", "-t x", "-t 1 -- prog", "--cgroup= ", "--unit= ", "--cgroup=/a -- prog",
                "--unit=a -- prog", "--cgroup=/a -p 1", "-t 1 --unit=a", "--user", "--user -p 1", "--user --cgroup=/a",
                "--no-inherit --unit=a", "--no-inherit --cgroup=/a", "--no-wait --unit=a", "-d 0", "-d x", "--helper=none", "--ring-size 1000", "--ring-size 32K", "--ring-size 2G", "--unwind=dwarf", "--unwind=",
                "--table-size=2M", "--table-size=128M", "--table-size=33M", "--table-size=0", "--unwind=fp --table-size=8M",
                "--max-frames 0", "--max-frames 256", "--label x", "--label =x", "-o -", "--no-wait", "--no-wait -p 1",
                "--no-inherit", "--", "-q --", "--no-such", "-x", "--quiet=yes",
                "--kernel --no-kernel", "--no-kernel --kernel", "--all=yes", "-a --no-inherit", "-a --no-inherit -- prog",
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
                cmocka_unit_test(test_defaults), cmocka_unit_test(test_unwind), cmocka_unit_test(test_all),
                cmocka_unit_test(test_command_without_dashes), cmocka_unit_test(test_numbers), cmocka_unit_test(test_cgroups),
                cmocka_unit_test(test_too_many_targets), cmocka_unit_test(test_scope_and_kernel), cmocka_unit_test(test_wrong), cmocka_unit_test(test_help),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
