/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "time-offset.h"
#include "util.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define SEC INT64_C(1000000000)

/* What the file of a process says is of the namespace that its children have, once they are in it. */
static void test_offsets(_unused_ void **state) {
        static const char text[] = "boottime 1000 5\nmonotonic -1 7\n";
        int fd;

        assert_int_equal(time_offset("neither"), 0);
        if (unshare(CLONE_NEWTIME) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWTIME) < 0) {
                print_message("no time namespace to be had: %s\n", strerror(errno));
                skip();
        }
        assert_int_equal(time_offset("boottime"), 0);
        fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
        assert_return_code(fd, errno);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
        assert_int_equal(time_offset("boottime"), 1000 * SEC + 5);
        assert_int_equal(time_offset("monotonic"), -SEC + 7);
        assert_int_equal(time_offset("neither"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_offsets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
