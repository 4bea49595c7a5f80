/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When tables are made anew, and when not, for children that do as they are told. Time goes by as is said here. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <bpf/bpf.h>
#include <cmocka.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include "kernel-build.h"
#include "privileges.h"
#include "sandbox.h"
#include "time-offset.h"
#include "util.h"

#define SEC 1000000000ULL

/* What the next child does. */
static enum { MAKES, HAS_NOTHING, DIES } order;

int kernel_builder_open(void) {
        return memfd_create("symbols", MFD_CLOEXEC);
}

uint64_t kernel_modules_hash(int fd) {
        uint64_t hash;

        return pread(fd, &hash, sizeof(hash), 0) == sizeof(hash) ? hash : 1;
}

int kernel_builder_run(_unused_ int symbols_fd, _unused_ int modules_fd, const KernelGeneration *last, KernelGeneration *next) {
        if (order == DIES)
                abort();
        next->number = 1;
        next->next_module = last->next_module + 1;
        return order == HAS_NOTHING ? -ENODATA : fcntl(next->names_fd, F_ADD_SEALS, KERNEL_NAMES_SEALS);
}

int privileges_drop(void) {
        return 0;
}

int sandbox_enter(_unused_ enum SandboxRole role) {
        return 0;
}

/* The only clock there is. */
static uint64_t now;

int clock_gettime(_unused_ clockid_t id, struct timespec *ret) {
        *ret = (struct timespec){now / SEC, now % SEC};
        return 0;
}

/* And what it is ahead of the programs'. */
static int64_t ahead;

int64_t time_offset(const char *clock) {
        assert_string_equal(clock, "monotonic");
        return ahead;
}

static void modules_are(const KernelBuild *build, uint64_t hash) {
        assert_int_equal(pwrite(build->modules_fd, &hash, sizeof(hash), 0), sizeof(hash));
}

/* Somebody asks; whether there is a build for that, which is waited for. */
static bool builds(KernelBuild *build, uint64_t changed, bool at_once) {
        struct pollfd fd;

        kernel_build_refresh(build, changed, at_once);
        if (build->child_fd < 0)
                return false;
        fd = (struct pollfd){.fd = build->child_fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 60000), 1);
        kernel_build_take(build);
        return true;
}

static int setup(void **state) {
        static KernelBuild build;

        kernel_build_init(&build);
        /* The kernel may have no modules. */
        close_fd(build.modules_fd);
        build.modules_fd = memfd_create("modules", MFD_CLOEXEC);
        modules_are(&build, 10);
        order = MAKES;
        now = 1000 * SEC;
        *state = &build;
        return 0;
}

static int teardown(void **state) {
        KernelBuild *build = *state;

        close_fd(build->map_fd);
        close_fd(build->newest.names_fd);
        kernel_build_done(build);
        return 0;
}

static void test_changes(void **state) {
        KernelBuild *build = *state;

        assert_true(builds(build, 0, false));
        assert_int_equal(build->newest.number, 1);
        modules_are(build, 11);
        assert_false(builds(build, 0, false));
        assert_true(builds(build, 0, true));
        assert_int_equal(build->newest.number, 2);
        assert_false(builds(build, 0, true));
        modules_are(build, 12);
        now += SEC;
        assert_true(builds(build, 0, false));
        assert_int_equal(build->newest.number, 3);
        assert_int_equal(build->newest.ranges.made, now);
}

/* The list of modules is as it was, and somebody has seen one go. */
static void test_seen(void **state) {
        KernelBuild *build = *state;
        uint64_t gone;

        assert_true(builds(build, 0, false));
        now += 2 * SEC;
        gone = now;
        now += 2 * SEC;
        assert_false(builds(build, gone, true));
        now += 2 * SEC;
        assert_false(builds(build, build->began, true));
        assert_true(builds(build, gone, true));
        assert_int_equal(build->newest.number, 2);
        now += 6 * SEC;
        assert_false(builds(build, gone, true));
}

/* Modules go by another clock than ours. */
static void test_other_clock(void **state) {
        for (int i = 0; i < 2; i++) {
                KernelBuild *build;

                ahead = i == 0 ? 500 * (int64_t) SEC : -500 * (int64_t) SEC;
                assert_int_equal(setup(state), 0);
                build = *state;
                assert_true(builds(build, 0, false));
                assert_int_equal(build->newest.ranges.made, now - ahead);
                now += 6 * SEC;
                assert_false(builds(build, build->newest.ranges.made - 1, true));
                assert_true(builds(build, build->newest.ranges.made + 1, true));
                assert_int_equal(teardown(state), 0);
        }
        ahead = 0;
}

/* Nobody may see where the kernel is, whatever goes: one look is enough for each that went. */
static void test_nothing(void **state) {
        KernelBuild *build = *state;
        uint64_t gone;

        order = HAS_NOTHING;
        assert_true(builds(build, 0, false));
        gone = now + SEC;
        now += 6 * SEC;
        assert_true(builds(build, gone, true));
        for (int i = 0; i < 10; i++) {
                now += 6 * SEC;
                assert_false(builds(build, gone, true));
        }
        assert_int_equal(build->newest.number, 0);
        assert_int_not_equal(build->modules_hash, 0);
}

/* What fails is tried again, later and later; until then it is known that what there is, is of other modules. */
static void fails(KernelBuild *build, bool has_tables) {
        uint64_t number = has_tables;

        if (has_tables)
                assert_true(builds(build, 0, false));
        modules_are(build, 11);
        order = has_tables ? HAS_NOTHING : DIES;
        now += SEC;
        for (uint64_t wait = 1; wait < 60; wait = 2 * wait + 1) {
                assert_true(builds(build, 0, true));
                assert_int_equal(build->modules_hash, 0);
                assert_int_equal(build->newest.number, number);
                now += wait * SEC;
                assert_false(builds(build, 0, true));
                now += SEC;
        }
        order = MAKES;
        assert_true(builds(build, 0, true));
        assert_int_equal(build->modules_hash, 11);
        assert_int_equal(build->newest.number, number + 1);
}

static void test_dies(void **state) {
        fails(*state, false);
}

static void test_lost(void **state) {
        fails(*state, true);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_seen, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
                cmocka_unit_test(test_other_clock),
                cmocka_unit_test_setup_teardown(test_dies, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
