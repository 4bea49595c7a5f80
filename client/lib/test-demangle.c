/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "symbolizer.h"
#include "util.h"

static void assert_demangled(const char *name, const char *expected) {
        _cleanup_free_ char *actual = NULL;

        assert_int_equal(symbol_demangle(name, &actual), 0);
        assert_string_equal(actual, expected);
}

static void test_cplus(_unused_ void **state) {
        assert_demangled("_ZN3foo3barEv", "foo::bar");
        assert_demangled("_Z3fooIiEvT_", "foo<int>");
        assert_demangled("_ZNSt6vectorIiSaIiEE9push_backERKi",
                         "std::vector<int, std::allocator<int> >::push_back");
        assert_demangled("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo");
        assert_demangled("_ZNKSt8functionIFvvEEclEv", "std::function<void ()>::operator()");
}

static void test_compiler_suffixes_stay(_unused_ void **state) {
        assert_demangled("_ZN3foo3barEv.constprop.0", "foo::bar.constprop.0");
        assert_demangled("_ZN3foo3barEv.cold", "foo::bar.cold");
}

static void test_stubs(_unused_ void **state) {
        assert_demangled("_ZN3foo3barEv@plt", "foo::bar@plt");
        assert_demangled("_RNvC7mycrate3foo@plt", "mycrate::foo@plt");
        assert_demangled("__cxa_finalize@plt", "__cxa_finalize@plt");
        assert_demangled("write@plt", "write@plt");
        assert_demangled("_@plt", "_@plt");
}

static void test_rust(_unused_ void **state) {
        assert_demangled("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
        assert_demangled("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.123",
                         "core::fmt::Formatter::pad");
        assert_demangled("_RNvC7mycrate3foo", "mycrate::foo");
        assert_demangled("_RNvNtCs1234_7mycrate6module3foo", "mycrate::module::foo");
}

static void test_others_are_copied(_unused_ void **state) {
        static const char *const names[] = {"",      "main",        "_",          "_Z",
                                            "_Zbad", "_R",          "_start",     "__libc_start_main",
                                            "_ZN",   "\x1b[31mred", "_Z\xff\xfe", "Java_com_example_Main"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                assert_demangled(names[i], names[i]);
}

/* S0_ is pair, S1_ the first pair<>, and each that follows holds the one before twice. */
static char *make_pairs(unsigned depth) {
        static const char ids[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char *name = calloc(1, 1024);

        assert_non_null(name);
        assert_true(depth < sizeof(ids) - 2);
        strcpy(name, "_Z1fISt4pairIiiE");
        for (unsigned i = 1; i <= depth; i++)
                sprintf(name + strlen(name), "S0_IS%c_S%c_E", ids[i], ids[i]);
        strcat(name, "EvT_");
        return name;
}

static void test_result_that_explodes(_unused_ void **state) {
        _cleanup_free_ char *shallow = make_pairs(2), *deep = make_pairs(32);
        clock_t start = clock();

        assert_demangled(shallow,
                         "f<std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >, "
                         "std::pair<std::pair<std::pair<int, int>, std::pair<int, int> >, "
                         "std::pair<std::pair<int, int>, std::pair<int, int> > > >");
        assert_demangled(deep, deep);
        assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
}

/* Each of the levels has the one before twice, in what a pack is looked for in. */
static void test_pack_that_explodes(_unused_ void **state) {
        static const char ids[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char name[1024] = "_Z1fIDp1aIS0_IiiE";

        for (unsigned i = 1; i < 34; i++)
                sprintf(name + strlen(name), "S0_IS%c_S%c_E", ids[i], ids[i]);
        strcat(name, "EEvv");
        assert_demangled(name, name);
        /* As they are in programs. */
        assert_demangled("_ZNSt6vectorI1aSaIS0_EE12emplace_backIJRKS0_EEERS0_DpOT_",
                         "std::vector<a, std::allocator<a> >::emplace_back<a const&>");
}

static void test_depth(_unused_ void **state) {
        _cleanup_free_ char *name = calloc(1, 1000002);
        clock_t start = clock();

        assert_non_null(name);
        strcpy(name, "_Z1f");
        memset(name + 4, 'P', 3000);
        strcat(name, "i");
        assert_demangled(name, name);
        memset(name + 4, 'P', 1000000 - 4);
        assert_demangled(name, name);
        assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cplus),
                cmocka_unit_test(test_compiler_suffixes_stay),
                cmocka_unit_test(test_stubs),
                cmocka_unit_test(test_rust),
                cmocka_unit_test(test_others_are_copied),
                cmocka_unit_test(test_result_that_explodes),
                cmocka_unit_test(test_pack_that_explodes),
                cmocka_unit_test(test_depth),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
