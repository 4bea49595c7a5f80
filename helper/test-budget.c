/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each budget up to its last unit, and one more; and that what was charged comes back, all of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "budget.h"
#include "util.h"

#define SMALL RS_RING_SIZE_MIN

static Budget plenty(void) {
        return (Budget){.n_cpus = 2, .memory_max = UINT64_MAX, .rate_max = 1000000};
}

static int charge_grants(Budget *budget, uint32_t id, uint32_t uid, uint32_t grants, uint64_t hz, uint64_t ring,
                         char *text) {
        char ignored[160];
        struct rs_grant grant = {
                .uid = uid,
                .grants = grants,
                .max_frames = 127,
                .nr_events = 1,
                .ring_size = ring,
                .events = {{.id = RS_EVENT_CPU_CLOCK, .value = hz}},
        };

        return budget_charge(budget, id, &grant, text ?: ignored, 160);
}

static int charge(Budget *budget, uint32_t id, uint32_t uid, bool targets, uint64_t hz, uint64_t ring, char *text) {
        return charge_grants(budget, id, uid, targets ? RS_GRANT_TARGETS : 0, hz, ring, text);
}

static void assert_says(const char *text, const char *budget, const char *left) {
        if (!strstr(text, budget) || !strstr(text, left))
                fail_msg("\"%s\" does not say \"%s\" and \"%s\"", text, budget, left);
}

static void test_sessions_of_user(void **state) {
        Budget budget = plenty();
        char text[160];

        (void) state;
        for (uint32_t id = 1; id <= BUDGET_SESSIONS_USER; id++)
                assert_int_equal(charge(&budget, id, 1000, true, 1, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 100, 1000, true, 1, SMALL, text), -EDQUOT);
        assert_says(text, "sessions of one user", "0 of 8 left");
        /* To look is the same, and charges nothing: as often as one likes. */
        budget_release(&budget, 3);
        for (int i = 0; i < 3; i++)
                assert_int_equal(charge(&budget, 0, 1000, true, 1, SMALL, NULL), 0);
        assert_int_equal(budget_count(&budget), BUDGET_SESSIONS_USER - 1);
        assert_int_equal(charge(&budget, 3, 1000, true, 1, SMALL, NULL), 0);
        strcpy(text, "");
        assert_int_equal(charge(&budget, 0, 1000, true, 1, SMALL, text), -EDQUOT);
        assert_says(text, "sessions of one user", "0 of 8 left");
        /* A refusal charges nothing, and is nobody else's. */
        assert_int_equal(budget_count(&budget), BUDGET_SESSIONS_USER);
        assert_int_equal(charge(&budget, 101, 1001, true, 1, SMALL, NULL), 0);
        budget_release(&budget, 3);
        assert_int_equal(charge(&budget, 102, 1000, true, 1, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 103, 1000, true, 1, SMALL, NULL), -EDQUOT);
}

static void test_sessions_of_machine(void **state) {
        Budget budget = plenty();
        char text[160];

        (void) state;
        for (uint32_t id = 1; id <= BUDGET_SESSIONS_MAX; id++)
                assert_int_equal(charge(&budget, id, id, true, 1, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 100, 1000, true, 1, SMALL, text), -EDQUOT);
        assert_says(text, "on this machine", "0 of 64 left");
        /* What has ended makes room for sessions. */
        budget_end(&budget, 7, 0, 0);
        assert_int_equal(budget_count(&budget), BUDGET_SESSIONS_MAX - 1);
        assert_int_equal(charge(&budget, 100, 1000, true, 1, SMALL, NULL), 0);
}

static void test_wide_rate(void **state) {
        Budget budget = plenty();
        char text[160];

        (void) state;
        assert_int_equal(charge(&budget, 1, 1000, false, 600, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 2, 1000, false, 401, SMALL, text), -EDQUOT);
        assert_says(text, "without targets", "400 of 1000 left");
        assert_int_equal(charge(&budget, 2, 1000, false, 400, SMALL, NULL), 0);
        /* Of the machine: four users' worth. */
        for (uint32_t uid = 1; uid <= 3; uid++)
                assert_int_equal(charge(&budget, 10 + uid, uid, false, 1000, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 20, 4, false, 1, SMALL, text), -EDQUOT);
        assert_says(text, "all users without targets", "0 of 4000 left");
        /* Tasks pay for themselves. */
        assert_int_equal(charge(&budget, 21, 4, true, 1, SMALL, NULL), 0);
        budget_end(&budget, 11, 0, 0);
        assert_int_equal(charge(&budget, 20, 4, false, 1000, SMALL, NULL), 0);
}

static void test_system_rate(void **state) {
        Budget budget = plenty();
        char text[160];

        (void) state;
        assert_int_equal(charge_grants(&budget, 1, 1000, RS_GRANT_SYSTEM, 4000, SMALL, NULL), 0);
        assert_int_equal(charge_grants(&budget, 2, 1001, RS_GRANT_SYSTEM, 6001, SMALL, text), -EDQUOT);
        assert_says(text, "everybody", "6000 of 10000 left");
        assert_int_equal(charge_grants(&budget, 2, 1001, RS_GRANT_SYSTEM, 6000, SMALL, NULL), 0);
        /* It is a budget of its own; and of processes that are named, theirs. */
        assert_int_equal(charge(&budget, 3, 1000, false, 1000, SMALL, NULL), 0);
        assert_int_equal(charge_grants(&budget, 4, 1000, RS_GRANT_SYSTEM | RS_GRANT_TARGETS, 20000, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 5, 1000, true, 1, SMALL, text), -EDQUOT);
        budget_end(&budget, 2, 0, 0);
        assert_int_equal(charge_grants(&budget, 6, 1000, RS_GRANT_SYSTEM, 6000, SMALL, NULL), 0);
}

static void test_task_rate(void **state) {
        Budget budget = plenty();
        char text[160];

        (void) state;
        assert_int_equal(charge(&budget, 1, 1000, true, 12000, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 2, 1000, true, 8001, SMALL, text), -EDQUOT);
        assert_says(text, "rate of one user", "8000 of 20000 left");
        assert_int_equal(charge(&budget, 2, 1000, true, 8000, SMALL, NULL), 0);
        assert_int_equal(charge(&budget, 3, 1001, true, 20000, SMALL, NULL), 0);
        budget.rate_max = 5000;
        assert_int_equal(charge(&budget, 4, 1002, true, 5001, SMALL, text), -EDQUOT);
        assert_says(text, "rate of one session", "5000 of 5000 left");
}

static void test_memory(void **state) {
        Budget budget = plenty();
        const uint64_t big = RS_RING_SIZE_MAX;
        char text[160];

        (void) state;
        assert_int_equal(charge(&budget, 1, 1000, true, 1, big, NULL), 0);
        assert_int_equal(charge(&budget, 2, 1000, true, 1, big, text), -EDQUOT);
        assert_says(text, "memory of one user", "of 100663296 left");
        assert_int_equal(charge(&budget, 2, 1000, true, 1, big / 4, NULL), 0);
        /* The end of a session leaves its ring to be paid for, until the ring is gone. */
        budget_end(&budget, 1, 0, 0);
        assert_int_equal(charge(&budget, 3, 1000, true, 1, big, NULL), -EDQUOT);
        budget_release(&budget, 1);
        assert_int_equal(charge(&budget, 3, 1000, true, 1, big, NULL), 0);
        /* And of the machine. */
        budget.memory_max = 3 * big + big / 2;
        assert_int_equal(charge(&budget, 4, 1001, true, 1, big, NULL), 0);
        assert_int_equal(charge(&budget, 5, 1002, true, 1, big, NULL), 0);
        assert_int_equal(charge(&budget, 6, 1003, true, 1, big, text), -EDQUOT);
        assert_says(text, "memory of all sessions", " left");
        /* Less than is in use already: a machine that has shrunk. */
        budget.memory_max = 1;
        assert_int_equal(charge(&budget, 6, 1003, true, 1, SMALL, text), -EDQUOT);
        assert_says(text, "memory of all sessions", " 0 of 1 left");
}

/* Rings kept mapped are their user's and nobody else's trouble. */
static void test_rings(void **state) {
        Budget budget = plenty();
        char text[160];
        uint32_t id = 1;

        (void) state;
        for (; id <= BUDGET_RINGS_USER; id++) {
                assert_int_equal(charge(&budget, id, 1000, false, 1, SMALL, NULL), 0);
                budget_end(&budget, id, 0, 0);
        }
        assert_int_equal(budget_count(&budget), 0);
        assert_int_equal(charge(&budget, id, 1000, false, 1, SMALL, text), -EDQUOT);
        assert_says(text, "still mapped", "0 of 16 left");
        assert_int_equal(charge(&budget, id, 1001, false, 1, SMALL, NULL), 0);
        budget_release(&budget, 5);
        assert_int_equal(charge(&budget, ++id, 1000, false, 1, SMALL, NULL), 0);

        /* Many users together may fill the list. That is said, and nothing is written past its end. */
        budget = plenty();
        for (id = 1; id <= ELEMENTSOF(budget.charges); id++) {
                assert_int_equal(charge(&budget, id, id / BUDGET_RINGS_USER, true, 1, SMALL, NULL), 0);
                budget_end(&budget, id, 0, 0);
        }
        assert_int_equal(charge(&budget, id, 9999, true, 1, SMALL, text), -EDQUOT);
        assert_says(text, "still mapped", "");
}

/* So many at once, then one after the other. */
static void test_opens(void **state) {
        const uint64_t second = 1000000, each = 60 * second / BUDGET_OPENS_MINUTE, start = 1000 * second;
        Budget budget = plenty();

        (void) state;
        for (unsigned i = 0; i < BUDGET_OPENS_USER; i++)
                assert_int_equal(budget_open(&budget, 1000, start, true), 0);
        assert_int_equal(budget_open(&budget, 1000, start, true), each);
        /* It says when, and asking costs nothing; looking neither. */
        assert_int_equal(budget_open(&budget, 1000, start + each / 2, true), each / 2);
        assert_int_equal(budget_open(&budget, 1000, start + each - 1, true), 1);
        assert_int_equal(budget_open(&budget, 1000, start + each - 1, false), 1);
        assert_int_equal(budget_open(&budget, 1000, start + each, false), 0);
        assert_int_equal(budget_open(&budget, 1000, start + each, true), 0);
        assert_int_equal(budget_open(&budget, 1000, start + each, true), each);
        /* Others', root's among them, are their own. */
        assert_int_equal(budget_open(&budget, 0, start, true), 0);
        /* Waits count, even those for which nothing is left. */
        assert_int_equal(charge(&budget, 1, 1001, true, 1, SMALL, NULL), 0);
        budget_end(&budget, 1, BUDGET_OPENS_USER - 1, start);
        assert_int_equal(budget_open(&budget, 1001, start, true), 0);
        assert_int_equal(charge(&budget, 2, 1001, true, 1, SMALL, NULL), 0);
        budget_end(&budget, 2, 5, start);
        assert_int_equal(budget_open(&budget, 1001, start, true), 6 * each);
        /* No more than all of them come back, however long one waits. */
        for (unsigned i = 0; i < BUDGET_OPENS_USER; i++)
                assert_int_equal(budget_open(&budget, 1000, 9 * start, true), 0);
        assert_int_equal(budget_open(&budget, 1000, 9 * start, true), each);
        /* More users than are remembered: whoever has used up most is not forgotten. */
        for (uint32_t uid = 2000; uid < 2500; uid++)
                assert_int_equal(budget_open(&budget, uid, 9 * start, true), 0);
        assert_int_equal(budget_open(&budget, 1000, 9 * start, true), each);
}

/* What is charged after the end, until the maps are gone. */
static void test_maps(void **state) {
        const struct rs_map_info maps[] = {
                {.id = 1, .uid = 1, .size = 10, .in_use = 1},
                {.id = 2, .uid = 2, .size = 20},
                {.id = 7, .uid = 1000, .size = 5 << 20},
                {.id = 7, .uid = 1000, .size = 1 << 20},
                {.id = 8, .uid = 1000, .size = 64 << 20, .in_use = 1},
                {.id = 0x80000001, .uid = 0, .size = 64 << 20},
                {.id = 0, .uid = 1000, .size = 64 << 20},
        };
        Budget budget = plenty();

        (void) state;
        for (uint32_t id = 1; id <= 3; id++)
                assert_int_equal(charge(&budget, id, id, true, 1, SMALL, NULL), 0);
        assert_false(budget_has_ended(&budget));
        budget_end(&budget, 2, 0, 0);
        budget_end(&budget, 3, 0, 0);
        budget_end(&budget, 77, 0, 0); /* nobody */
        budget_end(&budget, 0, 0, 0);
        assert_int_equal(budget_count(&budget), 1);
        assert_true(budget_has_ended(&budget));
        /* The third has none any more. */
        budget_take_maps(&budget, maps, ELEMENTSOF(maps), false);
        for (size_t i = 0; i < ELEMENTSOF(budget.charges); i++)
                assert_true(i < 2 ? budget.charges[i].id == i + 1 : budget.charges[i].id == 0);
        /* Of the rest, only the seventh is another helper's and of no session: both its maps. */
        budget_take_maps(&budget, maps, ELEMENTSOF(maps), true);
        assert_int_equal(budget.charges[2].id, 7);
        assert_int_equal(budget.charges[2].uid, 1000);
        assert_int_equal(budget.charges[2].memory, 6 << 20);
        assert_true(budget.charges[2].ended);
        assert_int_equal(budget.charges[3].id, 0);
        assert_int_equal(budget_count(&budget), 1);
        assert_int_equal(charge(&budget, 9, 1000, true, 1, RS_RING_SIZE_MAX, NULL), 0);
        assert_int_equal(charge(&budget, 10, 1000, true, 1, 32 << 20, NULL), -EDQUOT);
        /* It is let go as any other. */
        budget_take_maps(&budget, maps, 2, false);
        assert_int_equal(budget.charges[2].id, 0);
        assert_true(budget_has_ended(&budget));
        budget_take_maps(&budget, maps, 0, false);
        assert_false(budget_has_ended(&budget));
        assert_int_equal(budget_count(&budget), 2);
}

/* More of them than there is room for. */
static void test_many_maps(void **state) {
        struct rs_map_info maps[ELEMENTSOF(((Budget *) NULL)->charges) + 10];
        Budget budget = plenty();

        (void) state;
        for (size_t i = 0; i < ELEMENTSOF(maps); i++)
                maps[i] = (struct rs_map_info){.id = i + 1, .uid = i, .size = 1};
        budget_take_maps(&budget, maps, ELEMENTSOF(maps), true);
        assert_int_equal(charge(&budget, 1000, 1000, true, 1, SMALL, NULL), -EDQUOT);
        budget_take_maps(&budget, maps, 1, false);
        assert_int_equal(charge(&budget, 1000, 1000, true, 1, SMALL, NULL), 0);
}

/* Every number comes back from its name, and the kernel takes the name. */
static void test_names(void **state) {
        const uint32_t numbers[] = {0, 1, 63, 64, 1000, 65534, 0x7fffffff, 0x80000000, 0xdeadbeef, UINT32_MAX};
        char name[RS_MAP_NAME_SIZE];

        (void) state;
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                uint32_t id = 0, uid = 0;

                rs_map_name(name, 'r', numbers[i], ~numbers[i]);
                assert_int_equal(strlen(name), sizeof(name) - 1);
                assert_int_equal(strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_."),
                                 sizeof(name) - 1);
                for (int d = 0; d < 6; d++) {
                        id |= rs_map_value(name[3 + d]) << (6 * d);
                        uid |= rs_map_value(name[9 + d]) << (6 * d);
                }
                assert_int_equal(id, numbers[i]);
                assert_int_equal(uid, ~numbers[i]);
        }
}

static void test_this_machine(void **state) {
        Budget budget;

        (void) state;
        budget_init(&budget);
        assert_true(budget.n_cpus >= 1);
        assert_true(budget.memory_max > 0 && budget.memory_max <= BUDGET_MEMORY_MAX);
        assert_true(budget.rate_max > 0);
        assert_int_equal(budget_count(&budget), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sessions_of_user), cmocka_unit_test(test_sessions_of_machine),
                cmocka_unit_test(test_wide_rate),        cmocka_unit_test(test_system_rate),
                cmocka_unit_test(test_task_rate),
                cmocka_unit_test(test_memory),           cmocka_unit_test(test_rings),
                 cmocka_unit_test(test_opens),
                cmocka_unit_test(test_maps),
                cmocka_unit_test(test_many_maps),        cmocka_unit_test(test_names),
                   cmocka_unit_test(test_this_machine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
