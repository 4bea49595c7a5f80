/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of a session, and what its calls say before there is a helper. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>

#include <cmocka.h>

#include "helper.h"
#include "ringside.h"
#include "util.h"

static int setup(void **state) {
        RingsideSession *session;

        assert_int_equal(ringside_session_new(&session), 0);
        *state = session;
        return 0;
}

static int teardown(void **state) {
        assert_null(ringside_session_free(*state));
        return 0;
}

static void test_options(void **state) {
        RingsideSession *s = *state;

        assert_int_equal(ringside_session_get_error(s)->code, 0);
        assert_int_equal(ringside_session_add_event(s, "cpu-clock", false, 99), 0);
        assert_int_equal(ringside_session_add_event(s, "cpu-clock", false, 99), RINGSIDE_E_INVALID);
        assert_non_null(strstr(ringside_session_get_error(s)->text, "twice"));
        assert_int_equal(ringside_session_add_event(s, "cpu-clocks", false, 99), RINGSIDE_E_NO_EVENT);
        assert_int_equal(ringside_session_add_event(s, "cpu-cycles", true, 99), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_add_event(s, "cpu-cycles", false, 0), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_frequency(s, 0), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_ring_size(s, 65535), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_ring_size(s, 65536 + 4096), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_ring_size(s, 128U << 20), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_ring_size(s, 65536), 0);
        assert_int_equal(ringside_session_set_table_size(s, 4096), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_table_size(s, 6U << 20), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_table_size(s, 128U << 20), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_table_size(s, 4U << 20), 0);
        assert_int_equal(ringside_session_set_table_size(s, 0), 0);
        assert_int_equal(ringside_session_set_max_frames(s, 0), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_max_frames(s, 256), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_max_frames(s, 255), 0);
        assert_int_equal(ringside_session_set_helper(s, 7), RINGSIDE_E_INVALID);
}

static int never(_unused_ const RingsideRecord *record, _unused_ void *userdata) {
        fail();
        return 0;
}

static void test_not_open(void **state) {
        RingsideSession *s = *state;
        RingsideStatistics statistics;

        assert_int_equal(ringside_session_dispatch(s, never, NULL), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_start(s), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_rate(s, 0, 99), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_add_target(s, 0, 0, 0), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_get_statistics(s, &statistics), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_stop(s), 0);
        assert_null(ringside_session_free(NULL));
}

static void test_no_bus(void **state) {
        RingsideSession *s = *state;

        setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
        ringside_session_set_helper(s, RINGSIDE_HELPER_BUS);
        assert_int_equal(ringside_session_open(s), RINGSIDE_E_NO_BUS);
        assert_non_null(strstr(ringside_session_get_error(s)->text, "no system bus"));
        assert_true(ringside_session_get_error(s)->hint[0] != 0);
        unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
}

/* Every refusal has a text, and a class by which a program can tell it. */
static void test_errors_have_words(_unused_ void **state) {
        for (unsigned i = 1; i < RS_ERROR_MAX; i++) {
                RingsideError error = {};
                int r = helper_error(&error, i, 0);

                assert_true(r <= -5001);
                assert_int_equal(error.code, r);
                if (strstr(error.text, "unknown"))
                        fail_msg("error %u has no text", i);
        }
        {
                RingsideError error = {};

                assert_int_equal(helper_error(&error, RS_ERROR_MAX, 0), RINGSIDE_E_PROTOCOL);
                assert_int_equal(helper_error(&error, 0xffffffff, 0), RINGSIDE_E_PROTOCOL);
        }
        {
                RingsideError error = {};
                struct utsname name;

                assert_return_code(uname(&name), errno);
                assert_int_equal(helper_error(&error, RS_ERROR_TARGET_LIMIT, E2BIG), RINGSIDE_E_BUDGET);
                assert_null(strstr(error.text, strerror(E2BIG))); /* that of lists of arguments */
                assert_int_equal(helper_error(&error, RS_ERROR_KERNEL, EINVAL), RINGSIDE_E_KERNEL);
                assert_non_null(strstr(error.text, name.release));
                assert_non_null(strstr(error.text, strerror(EINVAL)));
                assert_non_null(strstr(error.hint, "6.1"));
                assert_true(helper_kernel_is_old("5.10.0-46-cloud-amd64") && helper_kernel_is_old("6.0.19"));
                assert_true(helper_kernel_is_old("") && helper_kernel_is_old("six"));
                assert_false(helper_kernel_is_old("6.1.0-57-cloud-amd64") || helper_kernel_is_old("7.0.1"));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_options, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_open, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_bus, setup, teardown),
                cmocka_unit_test(test_errors_have_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
