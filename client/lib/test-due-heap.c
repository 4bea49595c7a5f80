/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Against a list that is searched. */

#include "due-heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util.h"

#define N 200

static uint32_t seed = 7;

static uint32_t random_number(uint32_t below) {
        seed = seed * 1664525 + 1013904223;
        return (seed >> 8) % below;
}

static void test_order(_unused_ void **state) {
        Due dues[N] = {};
        DueHeap heap;

        assert_return_code(due_heap_init(&heap, N), 0);
        assert_null(due_heap_get_first(&heap));
        for (unsigned step = 0; step < 100000; step++) {
                Due *due = &dues[random_number(N)], *first = NULL;
                size_t n = 0;

                /* Now mostly more, now mostly fewer. */
                if (random_number(10) < (step / 2000 % 2 ? 7 : 3))
                        due_heap_set(&heap, due, random_number(1000));
                else
                        due_heap_remove(&heap, due);
                for (size_t i = 0; i < N; i++)
                        if (dues[i].place != 0) {
                                n++;
                                first = !first || dues[i].time < first->time ? &dues[i] : first;
                        }
                assert_int_equal(heap.n, n);
                assert_int_equal(due_heap_get_first(&heap) != NULL, n > 0);
                if (n > 0)
                        assert_int_equal(due_heap_get_first(&heap)->time, first->time);
        }
        due_heap_done(&heap);
}

static void test_full(_unused_ void **state) {
        Due dues[3] = {};
        DueHeap heap;

        assert_return_code(due_heap_init(&heap, 2), 0);
        due_heap_set(&heap, &dues[0], 3);
        due_heap_set(&heap, &dues[1], 2);
        due_heap_set(&heap, &dues[2], 1);
        assert_int_equal(dues[2].place, 0);
        assert_ptr_equal(due_heap_get_first(&heap), &dues[1]);
        due_heap_done(&heap);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
