/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../bpf/kernel-version.h"
#include "kernel-version.h"
#include "util.h"

static void test_versions(_unused_ void **state) {
        static const struct {
                int major, minor, patch;
                _Bool safe;
        } kernels[] = {
                {5, 15, 0, 1},  {5, 18, 19, 1}, {5, 19, 0, 0}, {6, 0, 19, 0}, {6, 1, 0, 0},  {6, 1, 35, 0},
                {6, 1, 36, 1},  {6, 1, 187, 1}, {6, 1, 300, 1}, {6, 2, 16, 0}, {6, 3, 9, 0}, {6, 3, 10, 1},
                {6, 4, 0, 1},   {6, 18, 44, 1}, {7, 0, 0, 1},
        };

        for (size_t i = 0; i < ELEMENTSOF(kernels); i++) {
                int version = RS_KERNEL_VERSION(kernels[i].major, kernels[i].minor, kernels[i].patch);

                if (kernel_reads_user_memory_safely(version) != kernels[i].safe)
                        fail_msg("%d.%d.%d", kernels[i].major, kernels[i].minor, kernels[i].patch);
        }
}

static void test_parse(_unused_ void **state) {
        static const struct {
                const char *release, *version, *signature;
                int expected;
        } kernels[] = {
                {"6.1.0-57-cloud-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.187-1 (2026-08-01)", "",
                 RS_KERNEL_VERSION(6, 1, 187)},
                {"6.1.0-9-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)", "", RS_KERNEL_VERSION(6, 1, 27)},
                {"5.15.0-91-generic", "#101-Ubuntu SMP", "Ubuntu 5.15.0-91.101-generic 5.15.131\n",
                 RS_KERNEL_VERSION(5, 15, 131)},
                {"6.3.8-200.fc38.x86_64", "#1 SMP PREEMPT_DYNAMIC Thu Jun 15", "", RS_KERNEL_VERSION(6, 3, 8)},
                {"6.18.44", "#1 SMP", "", RS_KERNEL_VERSION(6, 18, 44)},
                {"7.0-rc1", "#1 SMP", "", RS_KERNEL_VERSION(7, 0, 0)},
                {"6.1.5", "#1 Debian ", "Ubuntu ", RS_KERNEL_VERSION(6, 1, 5)},
                {"odd", "", "", 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(kernels); i++)
                assert_int_equal(kernel_version_parse(kernels[i].release, kernels[i].version, kernels[i].signature),
                                 kernels[i].expected);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions), cmocka_unit_test(test_parse)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
