/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The start functions of this very process, with the names of a libc's debug file if there is one, and without. */

#include "start-function.h"

#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util.h"

/* The return addresses from where it was called down to the start, by the unwind tables. */
typedef struct Trace {
        void *frames[64];
        int n;
} Trace;

/* Who calls begin(): the next return address is into the start function. */
__attribute__((noinline)) static void *begin(void *userdata) {
        Trace *trace = userdata;

        trace->n = backtrace(trace->frames, ELEMENTSOF(trace->frames));
        __asm__ volatile("" ::: "memory"); /* no tail call */
        return NULL;
}

typedef struct Fixture {
        Symbolizer *symbolizer;
        AddressSpace *space;
} Fixture;

static int setup_with(void **state, const char *symbol_dir) {
        SymbolizerOptions options = { .symbol_dir = symbol_dir };
        Fixture *f = calloc(1, sizeof(Fixture));

        *state = f;
        return !f || symbolizer_new(&f->symbolizer, &options) < 0 ||
               address_space_new(&f->space, f->symbolizer, getpid()) < 0 || address_space_refresh(f->space) < 0;
}

static int setup(void **state) {
        return setup_with(state, NULL);
}

static int setup_stripped(void **state) {
        return setup_with(state, "/nonexistent");
}

static int teardown(void **state) {
        Fixture *f = *state;

        address_space_free(f->space);
        symbolizer_free(f->symbolizer);
        free(f);
        return 0;
}

static bool is_start(Fixture *f, const void *address, bool interrupted) {
        Resolved resolved;

        assert_return_code(address_space_resolve(f->space, (uintptr_t) address, !interrupted, &resolved), 0);
        return start_function_is(f->space, (uintptr_t) address, &resolved, interrupted);
}

/* Where in the trace begin() is: a sanitizer has frames of its own above. */
static int find_begin(Fixture *f, const Trace *trace) {
        Resolved resolved;

        for (int i = 0; i < trace->n; i++) {
                assert_return_code(address_space_resolve(f->space, (uintptr_t) trace->frames[i], true, &resolved), 0);
                if (resolved.name && strcmp(resolved.name, "begin") == 0)
                        return i;
        }
        fail_msg("begin() is not in the trace");
        return -1;
}

static const Trace *main_trace;

/* begin(), main(), and from there to _start nothing but start functions. */
static void test_main(void **state) {
        Fixture *f = *state;
        int first = find_begin(f, main_trace);

        assert_in_range(main_trace->n - first, 4, 6);
        for (int i = first; i < main_trace->n; i++)
                if (is_start(f, main_trace->frames[i], false) != (i >= first + 2))
                        fail_msg("frame %d", i - first);
}

static void test_thread(void **state) {
        Fixture *f = *state;
        Trace trace = {};
        pthread_t thread;
        int first;

        assert_int_equal(pthread_create(&thread, NULL, begin, &trace), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        first = find_begin(f, &trace);
        assert_true(trace.n > first + 1);
        assert_false(is_start(f, trace.frames[first], false));
        assert_true(is_start(f, trace.frames[first + 1], false));
}

static int compare(const void *a, const void *b) {
        (void) b;
        if (*(Trace *const *) a)
                begin(*(Trace *const *) a);
        return 0;
}

/* A callback from within libc is not a start, though the caller there has no name either. */
static void test_callback(void **state) {
        Fixture *f = *state;
        Trace trace = {}, *items[3] = { &trace, &trace, &trace };
        int first;

        qsort(items, 3, sizeof(items[0]), compare);
        first = find_begin(f, &trace);
        /* begin(), compare(), qsort and its helpers, this test. */
        for (int i = first; i < first + 5; i++)
                assert_false(is_start(f, trace.frames[i], false));
}

static void test_names(void **state) {
        Fixture *f = *state;
        MappedFile file = { .path = (char[]){ "/bin/x" } };
        static const struct {
                const char *name;
                bool called, interrupted;
        } cases[] = {
                { "_start", true, true },   { "__libc_start_main@@GLIBC_2.34", true, true },
                { "clone3", true, false },  { "start_thread", true, true },
                { "main", false, false },   { "clone_something", false, false },
                { "start", false, false },  { "__libc_start_call_main", true, true },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Resolved resolved = { .file = &file, .name = cases[i].name };

                assert_int_equal(start_function_is(f->space, 0x1000, &resolved, false), cases[i].called);
                assert_int_equal(start_function_is(f->space, 0x1000, &resolved, true), cases[i].interrupted);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_main, setup, teardown),
                cmocka_unit_test_setup_teardown(test_thread, setup, teardown),
                cmocka_unit_test_setup_teardown(test_callback, setup, teardown),
                cmocka_unit_test_setup_teardown(test_main, setup_stripped, teardown),
                cmocka_unit_test_setup_teardown(test_thread, setup_stripped, teardown),
                cmocka_unit_test_setup_teardown(test_callback, setup_stripped, teardown),
                cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        };
        Trace trace = {};

        (void) begin(&trace);
        main_trace = &trace;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
