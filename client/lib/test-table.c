/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util.h"

#define N 5000

/* Against a plain array, with many removals, so that runs of neighbours are torn and mended. */
static void test_against_array(_unused_ void **state) {
        _cleanup_(table_done) Table table = {};
        static uint64_t expected[N];
        unsigned seed = 1;
        size_t n = 0, seen = 0, pos = 0;
        TableEntry entry;

        for (int i = 0; i < 200000; i++) {
                uint64_t k = rand_r(&seed) % N;
                TableKey key = { k, k / 7, k % 3 };

                if (rand_r(&seed) % 2) {
                        n += expected[k] == 0;
                        expected[k] = 1 + i;
                        assert_return_code(table_put(&table, key, expected[k]), 0);
                } else {
                        n -= expected[k] != 0;
                        assert_int_equal(table_remove(&table, key), expected[k]);
                        expected[k] = 0;
                }
                assert_int_equal(table.n, n);
        }
        for (uint64_t k = 0; k < N; k++)
                assert_int_equal(table_get(&table, (TableKey){ k, k / 7, k % 3 }), expected[k]);
        while (table_next(&table, &pos, &entry)) {
                assert_int_equal(entry.value, expected[entry.key.a]);
                seen++;
        }
        assert_int_equal(seen, n);
        table_clear(&table);
        assert_int_equal(table_get(&table, (TableKey){ 1, 0, 1 }), 0);
}

static void test_empty(_unused_ void **state) {
        _cleanup_(table_done) Table table = {};
        TableEntry entry;
        size_t pos = 0;

        assert_int_equal(table_get(&table, (TableKey){}), 0);
        assert_int_equal(table_remove(&table, (TableKey){}), 0);
        assert_false(table_next(&table, &pos, &entry));
        table_clear(&table);
}

static void test_strings(_unused_ void **state) {
        _cleanup_(table_done) Table table = {};
        const char *const texts[] = { "", "a", "b", "ab", "aaaaaaaa", "aaaaaaaab", "aaaaaaaa\0" };
        TableKey key, again;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                size_t n = strlen(texts[i]) + (i == 6); /* the zero byte counts */

                assert_return_code(table_string_key(&table, texts[i], n, &key), 0);
                assert_return_code(table_string_key(&table, texts[i], n, &again), 0);
                assert_memory_equal(&key, &again, sizeof(key));
                assert_int_equal(table_get(&table, key), 0);
                assert_return_code(table_put(&table, key, i + 1), 0);
        }
        assert_int_equal(table.n, ELEMENTSOF(texts));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_against_array),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_strings),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
