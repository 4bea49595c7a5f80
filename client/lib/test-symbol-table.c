/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "symbol-table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void add(SymbolTable *table, uint64_t start, uint64_t size, const char *name, uint32_t layer,
                enum SymbolBinding binding) {
        uint32_t base;
        char *space;

        assert_int_equal(symbol_table_add_strings(table, strlen(name), &space, &base), 0);
        memcpy(space, name, strlen(name));
        assert_int_equal(symbol_table_add(table, start, size, base, layer, binding), 0);
}

static void assert_name(SymbolTable *table, uint64_t address, const char *name, uint64_t offset) {
        uint64_t actual_offset = UINT64_MAX;
        const char *actual = symbol_table_find(table, address, &actual_offset);

        if (!name) {
                assert_null(actual);
                return;
        }
        assert_non_null(actual);
        assert_string_equal(actual, name);
        assert_int_equal(actual_offset, offset);
}

static void test_choice_among_aliases(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        uint64_t at = 0x1000;

        assert_int_equal(symbol_table_new(&table), 0);
        add(table, at, 16, "label_with_a_long_name", SYMBOL_LABEL, SYMBOL_GLOBAL);
        add(table, at, 16, "sized", SYMBOL_SIZED_FUNCTION, SYMBOL_LOCAL);
        at += 0x100;
        add(table, at, 16, "local_longer", SYMBOL_SIZED_FUNCTION, SYMBOL_LOCAL);
        add(table, at, 16, "weak", SYMBOL_SIZED_FUNCTION, SYMBOL_WEAK);
        at += 0x100;
        add(table, at, 16, "weak_longer", SYMBOL_SIZED_FUNCTION, SYMBOL_WEAK);
        add(table, at, 16, "global", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        at += 0x100;
        add(table, at, 16, "__write_longer", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        add(table, at, 16, "write", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        at += 0x100;
        add(table, at, 16, "short", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        add(table, at, 16, "longest", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_int_equal(symbol_table_get_n(table), 5);
        assert_name(table, 0x1000, "sized", 0);
        assert_name(table, 0x1101, "weak", 1);
        assert_name(table, 0x1202, "global", 2);
        assert_name(table, 0x130f, "write", 15);
        assert_name(table, 0x1400, "longest", 0);
        assert_name(table, 0x1410, NULL, 0);
        assert_name(table, 0xfff, NULL, 0);
}

static void test_overlaps(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        assert_int_equal(symbol_table_new(&table), 0);
        add(table, 0x100, 0x100, "outer", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        add(table, 0x120, 0x10, "inner", SYMBOL_SIZED_FUNCTION, SYMBOL_LOCAL);
        add(table, 0x140, 0x40, "label", SYMBOL_LABEL, SYMBOL_LOCAL);
        add(table, 0x1f0, 0x30, "across", SYMBOL_SIZED_FUNCTION, SYMBOL_LOCAL);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_name(table, 0x11f, "outer", 0x1f);
        assert_name(table, 0x120, "inner", 0);
        assert_name(table, 0x130, "outer", 0x30);
        assert_name(table, 0x150, "outer", 0x50);
        assert_name(table, 0x1f8, "across", 8);
        assert_name(table, 0x21f, "across", 0x2f);
        assert_name(table, 0x220, NULL, 0);
}

static void test_without_size_ends_at_next(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        assert_int_equal(symbol_table_new(&table), 0);
        add(table, 0x100, 0x80, "a", SYMBOL_FUNCTION, SYMBOL_GLOBAL);
        add(table, 0x120, 0x60, "b", SYMBOL_LABEL, SYMBOL_LOCAL);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_name(table, 0x11f, "a", 0x1f);
        assert_name(table, 0x17f, "b", 0x5f);
        assert_name(table, 0x180, NULL, 0);
}

static void test_end_of_addresses(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        assert_int_equal(symbol_table_new(&table), 0);
        add(table, UINT64_MAX - 10, UINT64_MAX, "last", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        add(table, 0, UINT64_MAX, "first", SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_name(table, UINT64_MAX - 1, "last", 9);
        assert_name(table, 0, "first", 0);
}

static void test_order(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        static const uint64_t addresses[] = { 0x2000000000000010, 0x800, 0x1000000000000030, 0x10, 0x7ff, 0x400000000040, 0x1000 };

        assert_int_equal(symbol_table_new(&table), 0);
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++)
                add(table, addresses[i], 1, (char[]){ (char) ('a' + i), 0 }, SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL);
        assert_int_equal(symbol_table_seal(table, true), 0);
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++)
                assert_name(table, addresses[i], (char[]){ (char) ('a' + i), 0 }, 0);
}

/* Every symbol with the same huge name would be gigabytes if each were copied. */
static void test_shared_names_are_refused(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        const size_t size = 30000;
        uint32_t base;
        char *space;

        assert_int_equal(symbol_table_new(&table), 0);
        assert_int_equal(symbol_table_add_strings(table, size, &space, &base), 0);
        memset(space, 'x', size);
        for (unsigned i = 0; i < 10000; i++)
                assert_int_equal(
                        symbol_table_add(table, i * 16, 16, base + i, SYMBOL_SIZED_FUNCTION, SYMBOL_GLOBAL),
                        0);
        assert_int_equal(symbol_table_seal(table, true), -EBADMSG);
}

static void test_names_out_of_bounds(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        char *space;
        uint32_t base;

        assert_int_equal(symbol_table_new(&table), 0);
        assert_int_equal(symbol_table_add(table, 1, 1, 0, SYMBOL_FUNCTION, SYMBOL_LOCAL), -EINVAL);
        assert_int_equal(symbol_table_add_strings(table, SYMBOL_STRINGS_MAX, &space, &base), -EFBIG);
        assert_int_equal(symbol_table_add_strings(table, SYMBOL_NAME_MAX + 1, &space, &base), 0);
        memset(space, 'n', SYMBOL_NAME_MAX + 1);
        assert_int_equal(symbol_table_add(table, 1, 1, base, SYMBOL_FUNCTION, SYMBOL_LOCAL), 0);
        assert_int_equal(symbol_table_add(table, 2, 1, base + 1, SYMBOL_FUNCTION, SYMBOL_LOCAL), 0);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_int_equal(symbol_table_get_n(table), 1);
        assert_name(table, 1, NULL, 0);
}

/* As a perf map grows. */
static void test_seal_again(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;

        assert_int_equal(symbol_table_new(&table), 0);
        add(table, 0x100, 0x10, "old", 0, SYMBOL_GLOBAL);
        add(table, 0x200, 0x10, "stays", 1, SYMBOL_GLOBAL);
        assert_int_equal(symbol_table_seal(table, false), 0);
        assert_name(table, 0x108, "old", 8);
        add(table, 0x0f0, 0x100, "new", 2, SYMBOL_GLOBAL);
        assert_int_equal(symbol_table_seal(table, false), 0);
        assert_name(table, 0x108, "new", 0x18);
        assert_name(table, 0x200, "stays", 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_choice_among_aliases),
                cmocka_unit_test(test_overlaps),
                cmocka_unit_test(test_without_size_ends_at_next),
                cmocka_unit_test(test_end_of_addresses),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_shared_names_are_refused),
                cmocka_unit_test(test_names_out_of_bounds),
                cmocka_unit_test(test_seal_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
