/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each check on a machine made for it, where it should pass, and where it should fail. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "check.h"
#include "helper.h"
#include "util.h"

typedef struct Machine {
        char root[64];
} Machine;

static void write_file(const Machine *m, const char *path, const char *text, mode_t mode) {
        char full[512];
        FILE *f;

        (void) snprintf(full, sizeof(full), "%s%s", m->root, path);
        for (char *slash = strchr(full + strlen(m->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                (void) mkdir(full, 0755);
                *slash = '/';
        }
        f = fopen(full, "we");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
        assert_int_equal(chmod(full, mode), 0);
}

static int setup(void **state) {
        Machine *m = calloc(1, sizeof(*m));

        strcpy(m->root, "/tmp/ringside-check-XXXXXX");
        assert_non_null(mkdtemp(m->root));
        write_file(m, "/proc/sys/kernel/osrelease", "6.12.9-amd64\n", 0644);
        write_file(m, "/proc/sys/kernel/perf_event_paranoid", "2\n", 0644);
        write_file(m, "/sys/kernel/btf/vmlinux", "", 0444);
        write_file(m, "/sys/kernel/security/lockdown", "[none] integrity confidentiality\n", 0644);
        write_file(m, "/usr/share/dbus-1/system-services/org.ringside.Helper1.service", "", 0644);
        write_file(m, "/usr/share/dbus-1/system.d/org.ringside.Helper1.conf", "", 0644);
        write_file(m, "/usr/share/polkit-1/actions/org.ringside.helper1.policy", "", 0644);
        write_file(m, helper_path(), "", 0711);
        *state = m;
        return 0;
}

static int teardown(void **state) {
        Machine *m = *state;
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf %s", m->root);
        assert_int_equal(system(command), 0);
        free(m);
        return 0;
}

static enum RingsideCheckResult result_of(const Machine *m, const char *name, const char *in_text) {
        _cleanup_free_ RingsideCheck *checks = NULL;
        size_t n;

        assert_int_equal(check_all(m->root, &checks, &n), 0);
        for (size_t i = 0; i < n; i++) {
                if (strcmp(checks[i].name, name) != 0)
                        continue;
                if (!strstr(checks[i].text, in_text))
                        fail_msg("%s: \"%s\" does not hold \"%s\"", name, checks[i].text, in_text);
                if (checks[i].result == RINGSIDE_CHECK_FAILED)
                        assert_true(checks[i].hint[0] != 0);
                return checks[i].result;
        }
        fail_msg("no check %s", name);
        return -1;
}

static void remove_file(const Machine *m, const char *path) {
        char full[512];

        (void) snprintf(full, sizeof(full), "%s%s", m->root, path);
        assert_int_equal(unlink(full), 0);
}

static void test_kernel(void **state) {
        Machine *m = *state;

        assert_int_equal(result_of(m, "kernel", "6.12.9"), RINGSIDE_CHECK_OK);
        write_file(m, "/proc/sys/kernel/osrelease", "6.1.0-42-amd64\n", 0644);
        assert_int_equal(result_of(m, "kernel", "6.1.0-42-amd64"), RINGSIDE_CHECK_OK);
        write_file(m, "/proc/sys/kernel/osrelease", "6.0.12\n", 0644);
        assert_int_equal(result_of(m, "kernel", "6.0.12"), RINGSIDE_CHECK_FAILED);
        write_file(m, "/proc/sys/kernel/osrelease", "5.15.0\n", 0644);
        assert_int_equal(result_of(m, "kernel", "5.15.0"), RINGSIDE_CHECK_FAILED);
        write_file(m, "/proc/sys/kernel/osrelease", "6.12.9\n", 0644);
        write_file(m, "/sys/kernel/security/lockdown", "none integrity [confidentiality]\n", 0644);
        assert_int_equal(result_of(m, "kernel", "locked down"), RINGSIDE_CHECK_FAILED);
}

static void test_btf(void **state) {
        Machine *m = *state;

        assert_int_equal(result_of(m, "btf", "type information"), RINGSIDE_CHECK_OK);
        remove_file(m, "/sys/kernel/btf/vmlinux");
        assert_int_equal(result_of(m, "btf", "no type information"), RINGSIDE_CHECK_FAILED);
}

/* What the helper may open is told to it, as the machine that runs the test has a mind of its own. */
static void test_paranoid(void **state) {
        RingsideEventInfo clock = {.name = "cpu-clock", .available = true};
        RingsideCheck check = {};
        Machine *m = *state;

        assert_int_equal(result_of(m, "paranoid", "is 2"), RINGSIDE_CHECK_OK);
        write_file(m, "/proc/sys/kernel/perf_event_paranoid", "3\n", 0644);
        check_paranoid(&check, m->root, &clock, 1);
        assert_int_equal(check.result, RINGSIDE_CHECK_NOTE);
        clock.available = false;
        strcpy(clock.reason, "kernel.perf_event_paranoid forbids it");
        check_paranoid(&check, m->root, &clock, 1);
        assert_int_equal(check.result, RINGSIDE_CHECK_FAILED);
        assert_non_null(strstr(check.text, "is 3"));
        assert_true(check.hint[0] != 0);
        check_paranoid(&check, m->root, NULL, 0);
        assert_int_equal(check.result, RINGSIDE_CHECK_NOTE);
        remove_file(m, "/proc/sys/kernel/perf_event_paranoid");
        assert_int_equal(result_of(m, "paranoid", "no /proc"), RINGSIDE_CHECK_FAILED);
}

static void test_kernel_names(void **state) {
        Machine *m = *state;

        assert_int_equal(result_of(m, "kernel-names", "not known"), RINGSIDE_CHECK_NOTE);
        write_file(m, "/proc/sys/kernel/kptr_restrict", "1\n", 0644);
        assert_int_equal(result_of(m, "kernel-names", "is 1"), RINGSIDE_CHECK_OK);
        write_file(m, "/proc/sys/kernel/kptr_restrict", "2\n", 0644);
        assert_int_equal(result_of(m, "kernel-names", "have no names"), RINGSIDE_CHECK_NOTE);
}

static void test_installation(void **state) {
        Machine *m = *state;

        if (geteuid() == 0) {
                assert_int_equal(result_of(m, "installation", "in place"), RINGSIDE_CHECK_OK);
                write_file(m, helper_path(), "", 0755);
        }
        assert_int_equal(result_of(m, "installation", "has mode"), RINGSIDE_CHECK_FAILED);
        remove_file(m, helper_path());
        assert_int_equal(result_of(m, "installation", "No such file"), RINGSIDE_CHECK_FAILED);
        remove_file(m, "/usr/share/polkit-1/actions/org.ringside.helper1.policy");
        assert_int_equal(result_of(m, "installation", "policy"), RINGSIDE_CHECK_FAILED);
}

/* Whose namespace has no number for root sees root's files as nobody's, which are as they should be. */
static void test_user_namespace(void **state) {
        Machine *m = *state;
        char full[512];

        if (geteuid() != 0)
                skip();
        (void) snprintf(full, sizeof(full), "%s%s", m->root, helper_path());
        assert_int_equal(chown(full, 65533, 65533), 0);
        write_file(m, "/proc/sys/kernel/overflowuid", "65533\n", 0644);
        assert_int_equal(result_of(m, "installation", "owner 65533"), RINGSIDE_CHECK_FAILED);
        write_file(m, "/proc/self/uid_map", "         0          0 4294967295\n", 0644);
        assert_int_equal(result_of(m, "installation", "owner 65533"), RINGSIDE_CHECK_FAILED);
        write_file(m, "/proc/self/uid_map", "         0       1000          1\n         1     100000      65536\n", 0644);
        assert_int_equal(result_of(m, "installation", "owner 65533"), RINGSIDE_CHECK_FAILED);
        write_file(m, "/proc/self/uid_map", "      1000       1000          1\n", 0644);
        assert_int_equal(result_of(m, "installation", "cannot be judged in this user namespace"), RINGSIDE_CHECK_NOTE);
        write_file(m, "/proc/self/uid_map", "", 0644); /* as unshare -U leaves it: nobody has a number */
        assert_int_equal(result_of(m, "installation", "cannot be judged in this user namespace"), RINGSIDE_CHECK_NOTE);
        assert_int_equal(chmod(full, 0755), 0);
        assert_int_equal(result_of(m, "installation", "has mode 0755"), RINGSIDE_CHECK_FAILED);
        assert_int_equal(chmod(full, 0711), 0);
        assert_int_equal(chown(full, 1000, 1000), 0);
        assert_int_equal(result_of(m, "installation", "owner 1000"), RINGSIDE_CHECK_FAILED);
}

/* With an address where nobody listens. */
static void test_no_bus(void **state) {
        Machine *m = *state;
        enum RingsideCheckResult expected = geteuid() == 0 ? RINGSIDE_CHECK_NOTE : RINGSIDE_CHECK_FAILED;

        setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
        assert_int_equal(result_of(m, "bus", "no system bus"), expected);
        unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_kernel, setup, teardown),
                cmocka_unit_test_setup_teardown(test_btf, setup, teardown),
                cmocka_unit_test_setup_teardown(test_paranoid, setup, teardown),
                cmocka_unit_test_setup_teardown(test_kernel_names, setup, teardown),
                cmocka_unit_test_setup_teardown(test_installation, setup, teardown),
                cmocka_unit_test_setup_teardown(test_user_namespace, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_bus, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
