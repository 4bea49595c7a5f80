/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which hierarchies of cgroups a mountinfo file shows. What is looked up in them, tests/targets has. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cgroup.h"
#include "util.h"

static CgroupMounts read_mounts(const char *text) {
        _cleanup_fclose_ FILE *f = fmemopen((void *) text, strlen(text), "r");
        CgroupMounts m;

        assert_non_null(f);
        cgroup_mounts_read(f, &m);
        return m;
}

static void test_unified(_unused_ void **state) {
        CgroupMounts m = read_mounts("22 1 0:21 / /proc rw - proc proc rw\n"
                                     "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");

        assert_string_equal(m.v2, "/sys/fs/cgroup");
        assert_string_equal(m.perf_event, "");
        assert_false(m.other);
}

static void test_hybrid(_unused_ void **state) {
        CgroupMounts m = read_mounts("30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                                     "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
                                     "32 23 0:28 / /sys/fs/cgroup/perf_event rw shared:11 master:2 - cgroup cgroup rw,perf_event\n");

        assert_string_equal(m.v2, "/sys/fs/cgroup/unified");
        assert_string_equal(m.perf_event, "/sys/fs/cgroup/perf_event");
        assert_true(m.other);
}

/* The first is taken; a part of a hierarchy is none; other words are no option. */
static void test_odd(_unused_ void **state) {
        CgroupMounts m = read_mounts("30 23 0:26 /docker/x /part rw - cgroup2 cgroup2 rw\n"
                                     "31 23 0:27 / /a\\040b\\134c rw - cgroup2 cgroup2 rw\n"
                                     "32 23 0:27 / /second rw - cgroup2 cgroup2 rw\n"
                                     "33 23 0:28 / /p rw - cgroup cgroup rw,perf_events,xperf_event,name=perf_event2\n"
                                     "34 23 0:29 / /named rw - cgroup cgroup rw,xattr,name=systemd");

        assert_string_equal(m.v2, "/a b\\c");
        assert_string_equal(m.perf_event, "");
        assert_true(m.other);
}

static void test_broken(_unused_ void **state) {
        static const char *const texts[] = {
                "\n", " - \n", "30 23 0:26 /\n", "30 23 0:26 / /x rw - cgroup2\n", "30 23 0:26 / /x rw cgroup2 cgroup2 rw\n",
                " - cgroup2 cgroup2 rw\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                CgroupMounts m = read_mounts(texts[i]);

                assert_string_equal(m.v2, "");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unified),
                cmocka_unit_test(test_hybrid),
                cmocka_unit_test(test_odd),
                cmocka_unit_test(test_broken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
