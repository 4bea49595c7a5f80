/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
