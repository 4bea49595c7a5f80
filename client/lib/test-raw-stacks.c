/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "raw-stacks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "util.h"

static void put(RawStacks *stacks, uint64_t id, uint16_t n) {
        uint64_t frames[255];

        for (uint16_t i = 0; i < n; i++)
                frames[i] = id * 1000 + i;
        assert_return_code(raw_stacks_put(stacks, id, frames, 0, n, false), 0);
}

static void test_content(_unused_ void **state) {
        _cleanup_(raw_stacks_done) RawStacks stacks;
        const RawStack *stack;

        raw_stacks_init(&stacks, 1 << 20);
        assert_null(raw_stacks_get(&stacks, 1));
        put(&stacks, 1, 255);
        put(&stacks, 2, 0);
        put(&stacks, 1, 255);
        assert_int_equal(stacks.n_distinct, 2);
        stack = raw_stacks_get(&stacks, 1);
        assert_non_null(stack);
        assert_int_equal(stack->n_frames, 255);
        assert_int_equal(stack->frames[254], 1254);
        assert_non_null(raw_stacks_get(&stacks, 2));

        /* An id that comes with other frames is the newer one's. */
        assert_return_code(raw_stacks_put(&stacks, 1, &(uint64_t){ 7 }, 1, 1, true), 0);
        stack = raw_stacks_get(&stacks, 1);
        assert_int_equal(stack->n_frames, 1);
        assert_int_equal(stack->n_kernel, 1);
        assert_int_equal(stack->frames[0], 7);
        assert_true(stack->guessed);
        assert_return_code(raw_stacks_put(&stacks, 1, &(uint64_t){ 7 }, 1, 1, false), 0);
        assert_false(raw_stacks_get(&stacks, 1)->guessed);
}

static void test_bounded(_unused_ void **state) {
        _cleanup_(raw_stacks_done) RawStacks stacks;

        raw_stacks_init(&stacks, 100000);
        for (uint64_t id = 1; id <= 10000; id++) {
                put(&stacks, id, id % 100);
                assert_true(stacks.bytes <= 100000);
                /* One that is asked for all the time stays, among all that pass by. */
                assert_non_null(raw_stacks_get(&stacks, 1));
        }
        assert_non_null(raw_stacks_get(&stacks, 10000));
        assert_null(raw_stacks_get(&stacks, 5000));
        assert_in_range(stacks.by_id.n, 100, 1000);

        /* Replaced ones count until they are gone, and then no more. */
        for (uint64_t i = 1; i <= 10000; i++)
                assert_return_code(raw_stacks_put(&stacks, 1, &i, 0, 1, false), 0);
        assert_true(stacks.bytes <= 100000);
        assert_int_equal(raw_stacks_get(&stacks, 1)->frames[0], 10000);
}

static void test_outcomes(_unused_ void **state) {
        _cleanup_(raw_stacks_done) RawStacks stacks;
        RawStack *stack;

        raw_stacks_init(&stacks, 1 << 20);
        put(&stacks, 1, 3);
        stack = raw_stacks_get(&stacks, 1);
        assert_int_equal(raw_stack_find(stack, 0, 0), 0);
        assert_true(raw_stack_keep(stack, 5, 0, 50));
        assert_true(raw_stack_keep(stack, 5, 1, 51));
        assert_true(raw_stack_keep(stack, 6, 1, 61));
        assert_false(stack->overflowed);
        assert_false(raw_stack_keep(stack, 7, 1, 71));
        assert_true(stack->overflowed);
        assert_int_equal(raw_stack_find(stack, 5, 0), 50);
        assert_int_equal(raw_stack_find(stack, 5, 1), 51);
        assert_int_equal(raw_stack_find(stack, 6, 1), 61);
        assert_int_equal(raw_stack_find(stack, 6, 0), 0);
        assert_int_equal(raw_stack_find(stack, 7, 1), 0);
        /* The newer one counts, and takes no further room. */
        assert_true(raw_stack_keep(stack, 5, 1, 52));
        assert_int_equal(raw_stack_find(stack, 5, 1), 52);

        /* The same once more is the same; another of the id begins anew, and so does each after all were forgotten. */
        put(&stacks, 1, 3);
        assert_int_equal(raw_stack_find(raw_stacks_get(&stacks, 1), 5, 1), 52);
        put(&stacks, 1, 4);
        assert_int_equal(raw_stack_find(raw_stacks_get(&stacks, 1), 5, 1), 0);
        for (uint64_t leaf = 0; leaf < 4; leaf++)
                (void) raw_stack_keep(raw_stacks_get(&stacks, 1), 5, leaf, 9);
        put(&stacks, 2, 1);
        raw_stacks_forget_outcomes(&stacks);
        stack = raw_stacks_get(&stacks, 1);
        assert_int_equal(raw_stack_find(stack, 5, 1), 0);
        assert_false(stack->overflowed);
        assert_true(raw_stack_keep(stack, 5, 1, 53));
        assert_int_equal(raw_stack_find(raw_stacks_get(&stacks, 1), 5, 1), 53);
        put(&stacks, 3, 1);
        assert_true(raw_stack_keep(raw_stacks_get(&stacks, 3), 5, 1, 54));
        assert_int_equal(raw_stack_find(raw_stacks_get(&stacks, 3), 5, 1), 54);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_content),
                cmocka_unit_test(test_bounded),
                cmocka_unit_test(test_outcomes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
