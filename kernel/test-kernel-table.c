/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From texts as /proc/kallsyms has them, and as it should never have them, to ranges and names. */

#include "kernel-table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "record.h"
#include "util.h"

#define CORE "ffffffff81000000 T _stext\nffffffff81002000 T _etext\n"
#define CORE_START 0xffffffff81000000ULL

static const struct rs_kernel_module *modules_of(const KernelTable *t) {
        return (const void *) (t->names + 1);
}

static const struct rs_kernel_symbol *symbols_of(const KernelTable *t) {
        return (const void *) (modules_of(t) + t->names->nr_modules);
}

static const char *string_of(const KernelTable *t, uint32_t at) {
        return (const char *) (symbols_of(t) + t->names->nr_symbols) + at;
}

/* All that a reader relies on, whatever the text was. */
static void check_table(const KernelTable *t) {
        const struct rs_kernel_module *modules = modules_of(t);
        const struct rs_kernel_symbol *symbols = symbols_of(t);
        uint32_t next = 0;

        assert_int_equal(t->names->magic, RS_KERNEL_NAMES_MAGIC);
        assert_int_equal(t->names->version, RS_KERNEL_NAMES_VERSION);
        assert_int_equal(t->names->generation, t->ranges.generation);
        assert_int_equal(t->names->nr_modules, t->ranges.nr + 1);
        assert_int_equal(t->size, sizeof(*t->names) + t->names->nr_modules * sizeof(*modules) +
                                          t->names->nr_symbols * sizeof(*symbols) + t->names->strings_size);
        assert_string_equal(string_of(t, modules[0].name), "kernel");
        for (size_t i = 0; i < t->names->nr_modules; i++) {
                assert_true(modules[i].number <= RS_MODULE_MAX);
                assert_true(i == 0 ? modules[i].number == RS_MODULE_CORE
                                   : modules[i].number > modules[i - 1].number);
                assert_int_equal(modules[i].first_symbol, next);
                for (uint32_t j = 0; j < modules[i].nr_symbols; j++) {
                        assert_true(j == 0 || symbols[next + j].offset > symbols[next + j - 1].offset);
                        assert_true(symbols[next + j].name < t->names->strings_size);
                }
                next += modules[i].nr_symbols;
        }
        assert_int_equal(next, t->names->nr_symbols);
        assert_int_equal(string_of(t, t->names->strings_size - 1)[0], 0);
        for (size_t i = 0; i < t->ranges.nr; i++) {
                const struct rs_kernel_range *r = &t->ranges.ranges[i];

                assert_true(r->start < r->end);
                assert_true(i + 1 == t->ranges.nr || r->end <= r[1].start);
                assert_true(r->module > 0 && r->module < t->next_module);
        }
}

static KernelTable *build(const KernelTable *old, const char *text) {
        KernelTable *t = malloc(sizeof(*t));

        assert_non_null(t);
        assert_int_equal(kernel_table_build(old, NULL, text, strlen(text), t), 0);
        check_table(t);
        return t;
}

static void done(KernelTable *t) {
        kernel_table_done(t);
        free(t);
}

/* The number of a module by its name, -1: it has none. */
static int number_of(const KernelTable *t, const char *name) {
        for (size_t i = 1; i < t->names->nr_modules; i++)
                if (strcmp(string_of(t, modules_of(t)[i].name), name) == 0)
                        return modules_of(t)[i].number;
        return -1;
}

static const struct rs_kernel_range *range_of(const KernelTable *t, int number) {
        for (size_t i = 0; i < t->ranges.nr; i++)
                if (t->ranges.ranges[i].module == (uint64_t) number)
                        return &t->ranges.ranges[i];
        return NULL;
}

/* "OFFSET NAME" of each symbol of a module, one after the other. */
static void assert_symbols(const KernelTable *t, int number, const char *expected) {
        char text[1024] = "";

        for (size_t i = 0; i < t->names->nr_modules; i++) {
                const struct rs_kernel_module *m = &modules_of(t)[i];

                for (uint32_t j = 0; m->number == (uint32_t) number && j < m->nr_symbols; j++) {
                        const struct rs_kernel_symbol *s = &symbols_of(t)[m->first_symbol + j];

                        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%x %s", j ? ", " : "",
                                 s->offset, string_of(t, s->name));
                }
        }
        assert_string_equal(text, expected);
}

static void test_core(_unused_ void **state) {
        /*
         * Not sorted; data, absolute and undefined symbols; before, at and after the ends; labels and
         * padding.
         */
        KernelTable *t = build(NULL, "ffffffff81001000 t later\n"
                                     "ffffffff80ffffff T before\n"
                                     "0000000000000000 A fixed_percpu_data\n"
                                     "ffffffff81000100 T first\n"
                                     "ffffffff81000200 D data\n"
                                     "ffffffff81000300 W weak\n"
                                     "ffffffff81000400 w weak_local\n"
                                     "ffffffff81001ff0 t __pfx_last\n"
                                     "ffffffff81001ff8 t .Llabel\n"
                                     "ffffffff81001ff8 t $x\n"
                                     "ffffffff81001ff9 t __cfi_last\n"
                                     "ffffffff81002000 T at_the_end\n" CORE);

        assert_symbols(t, 0, "0 _stext, 100 first, 300 weak, 400 weak_local, 1000 later");
        assert_true(t->ranges.core_start == CORE_START && t->ranges.core_end == CORE_START + 0x2000);
#if defined(__x86_64__)
        assert_true(t->ranges.jit_start == t->ranges.core_end && t->ranges.jit_end == 0xffffffffff000000ULL);
#endif
        assert_int_equal(t->ranges.nr, 0);
        done(t);
}

static void test_aliases(_unused_ void **state) {
        KernelTable *t = build(NULL, CORE "ffffffff81000100 t local\n"
                                          "ffffffff81000100 T global\n"
                                          "ffffffff81000100 T another\n"
                                          "ffffffff81000200 t one\n"
                                          "ffffffff81000200 t two\n"
                                          "ffffffff81000300 t __pfx_three\n"
                                          "ffffffff81000300 t three\n");

        assert_symbols(t, 0, "0 _stext, 100 another, 200 two, 300 three");
        done(t);
}

static void test_modules(_unused_ void **state) {
        KernelTable *t = build(NULL, CORE "ffffffffc0005010 t b_last\t[b]\n"
                                          "ffffffffc0001010 t a_second\t[a]\n"
                                          "ffffffffc0001000 T a_first\t[a]\n"
                                          "ffffffffc0001800 d a_data\t[a]\n"
                                          "ffffffffc0004ff0 t b_first\t[b]\n"
                                          "ffffffffc0009000 t bpf_prog_0123456789abcdef_secret\t[bpf]\n"
                                          "ffffffffc000a000 t bpf_trampoline_6442\t[__builtin__ftrace]\n"
                                          "ffffffffc0005100 t c_first\t[c]\n");

        assert_int_equal(t->ranges.nr, 3);
        assert_int_equal(number_of(t, "bpf"), -1);
        assert_int_equal(number_of(t, "__builtin__ftrace"), -1);
        assert_symbols(t, number_of(t, "a"), "0 a_first, 10 a_second");
        assert_true(range_of(t, number_of(t, "a"))->start == 0xffffffffc0001000ULL);
        assert_true(range_of(t, number_of(t, "a"))->end == 0xffffffffc0002000ULL);
        /* To the end of its page, but not into the next. */
        assert_true(range_of(t, number_of(t, "b"))->end == 0xffffffffc0005100ULL);
        assert_int_equal(t->next_module, 4);
        done(t);
}

#define MODULE_A "ffffffffc0001000 t a_first\t[a]\nffffffffc0001010 t a_second\t[a]\n"
#define MODULE_B "ffffffffc0005000 t b_first\t[b]\n"

static void test_generations(_unused_ void **state) {
        KernelTable *first = build(NULL, CORE MODULE_A MODULE_B), *t;
        int a = number_of(first, "a"), b = number_of(first, "b");

        /* The same, in another order. */
        t = build(first, CORE MODULE_B MODULE_A);
        assert_int_equal(number_of(t, "a"), a);
        assert_int_equal(number_of(t, "b"), b);
        assert_int_equal(t->names->generation, 2);
        done(t);
        /* Elsewhere, with other code, and under another name. */
        t = build(first, CORE "ffffffffc0002000 t a_first\t[a]\nffffffffc0002010 t a_second\t[a]\n" MODULE_B);
        assert_int_equal(number_of(t, "a"), 3);
        assert_int_equal(number_of(t, "b"), b);
        done(t);
        t = build(first, CORE "ffffffffc0001000 t a_first\t[a]\nffffffffc0001020 t a_second\t[a]\n" MODULE_B);
        assert_int_equal(number_of(t, "a"), 3);
        done(t);
        t = build(first, CORE "ffffffffc0001000 t a_first\t[a]\nffffffffc0001010 t a_third\t[a]\n" MODULE_B);
        assert_int_equal(number_of(t, "a"), 3);
        done(t);
        t = build(first, CORE "ffffffffc0001000 t a_first\t[a]\n" MODULE_B);
        assert_int_equal(number_of(t, "a"), 3);
        done(t);
        t = build(first, CORE "ffffffffc0001000 t a_first\t[d]\nffffffffc0001010 t a_second\t[d]\n" MODULE_B);
        assert_int_equal(number_of(t, "d"), 3);
        assert_int_equal(number_of(t, "a"), -1);
        done(t);
        done(first);
}

static void test_removed(_unused_ void **state) {
        KernelTable *first = build(NULL, CORE MODULE_A MODULE_B), *second = build(first, CORE MODULE_B),
                    *third;

        assert_int_equal(number_of(second, "a"), -1);
        assert_int_equal(second->ranges.nr, 1);
        /* It comes back as it was; but nobody remembers, and its number is another one. */
        third = build(second, CORE MODULE_A MODULE_B);
        assert_int_equal(number_of(third, "a"), 3);
        assert_int_equal(number_of(third, "b"), number_of(first, "b"));
        done(first);
        done(second);
        done(third);
}

/* The names of two kernels whose modules lie, and stand in the text, in another order are the same, byte for byte. */
static void test_order_of_addresses(_unused_ void **state) {
        KernelTable *one = build(NULL, CORE "ffffffffc0001000 t ab_first\t[ab]\nffffffffc0001010 t ab_second\t[ab]\n"
                                            "ffffffffc0003000 t b_first\t[b]\nffffffffc0005000 t a_first\t[a]\n");
        KernelTable *other = build(NULL, CORE "ffffffffc0002000 t a_first\t[a]\nffffffffc0008000 t b_first\t[b]\n"
                                              "ffffffffc0009010 t ab_second\t[ab]\nffffffffc0009000 t ab_first\t[ab]\n");

        assert_int_equal(number_of(one, "a"), 1);
        assert_int_equal(number_of(one, "ab"), 2);
        assert_int_equal(number_of(one, "b"), 3);
        assert_int_equal(one->size, other->size);
        assert_memory_equal(one->names, other->names, one->size);
        assert_true(range_of(one, 1)->start == 0xffffffffc0005000ULL && range_of(other, 1)->start == 0xffffffffc0002000ULL);
        done(one);
        done(other);
}

static void test_numbers_run_out(_unused_ void **state) {
        KernelTable *old = build(NULL, CORE MODULE_B), *t;

        old->next_module = RS_MODULE_MAX;
        t = build(old, CORE MODULE_A MODULE_B "ffffffffc0009000 t c_first\t[c]\n");
        assert_int_equal(number_of(t, "a"), RS_MODULE_MAX);
        assert_int_equal(number_of(t, "b"), 1);
        assert_int_equal(number_of(t, "c"), -1);
        assert_int_equal(t->next_module, RS_MODULE_MAX + 1);
        done(old);
        old = t;
        t = build(old, CORE MODULE_A "ffffffffc0009000 t c_first\t[c]\n");
        assert_int_equal(number_of(t, "a"), RS_MODULE_MAX);
        assert_int_equal(t->ranges.nr, 1);
        done(old);
        done(t);
}

static void test_many_modules(_unused_ void **state) {
        size_t size = 0;
        char *text = NULL;
        FILE *f = open_memstream(&text, &size);
        KernelTable *t;

        fputs(CORE, f);
        for (unsigned i = 0; i < 3 * RS_KERNEL_RANGES_MAX; i++)
                fprintf(f, "%llx t f\t[m%u]\n", 0xffffffffc0000000ULL + i * 4096ULL, i);
        fclose(f);
        t = build(NULL, text);
        assert_int_equal(t->ranges.nr, RS_KERNEL_RANGES_MAX);
        done(t);
        free(text);
}

/* Only what is loaded, whatever else stands in its line, and whatever its name begins with. */
static void test_passing(_unused_ void **state) {
        static const char text[] = CORE "ffffffffc0000000 t a\t[live]\nffffffffc0010000 t b\t[loading]\n"
                                        "ffffffffc0020000 t c\t[unloading]\nffffffffc0030000 t d\t[new]\n"
                                        "ffffffffc0040000 t e\t[live_too]\nffffffffc0050000 t f\t[Live]\n"
                                        "ffffffffc0001000 t g\t[live]\n";
        static const char list[] = "live_too 8192 1 Live,loading, Live 0xffffffffc0040000 (OE)\n"
                                   "loading 8192 1 live, Loading 0xffffffffc0010000\n"
                                   "Live 8192 1 - Loading 0xffffffffc0050000\n"
                                   "unloading 8192 0 - Unloading 0xffffffffc0020000\n"
                                   "live 8192 0 - Live 0xffffffffc0000000";
        KernelTable t;

        assert_int_equal(kernel_table_build(NULL, list, text, sizeof(text) - 1, &t), 0);
        check_table(&t);
        assert_int_equal(t.ranges.nr, 2);
        assert_symbols(&t, number_of(&t, "live"), "0 a, 1000 g");
        assert_symbols(&t, number_of(&t, "live_too"), "0 e");
        kernel_table_done(&t);
        assert_int_equal(kernel_table_build(NULL, "", text, sizeof(text) - 1, &t), 0);
        assert_int_equal(t.ranges.nr, 0);
        kernel_table_done(&t);
}

/* It is in the list as it will be, and what initialized it is not gone yet: as long as undefined symbols are listed, too. */
static void test_initialized(_unused_ void **state) {
        static const char list[] = "m 8192 1 - Live 0xffffffffc0010000\nn 8192 1 - Live 0xffffffffc0040000\n";
        static const char text[] = CORE "ffffffffc0020000 t init_module\t[m]\nffffffff81000000 %c _printk\t[m]\n"
                                        "ffffffffc0010000 t f\t[m]\nffffffffc0040000 t g\t[n]\n"
                                        "ffffffffc0010800 t h\t[m]\n";

        for (const char *type = "uUdt"; *type; type++) {
                char here[sizeof(text)];
                KernelTable t;
                int size = snprintf(here, sizeof(here), text, *type);

                assert_int_equal(kernel_table_build(NULL, list, here, size, &t), 0);
                check_table(&t);
                assert_int_equal(t.ranges.nr, (*type | 32) == 'u' ? 1 : 2);
                assert_symbols(&t, number_of(&t, "n"), "0 g");
                kernel_table_done(&t);
        }
        /* The core has none that it does not have. */
        {
                static const char core[] = CORE "ffffffff81000800 U _printk\nffffffff81000900 t last\n";
                KernelTable t;

                assert_int_equal(kernel_table_build(NULL, NULL, core, sizeof(core) - 1, &t), 0);
                assert_symbols(&t, 0, "0 _stext, 900 last");
                kernel_table_done(&t);
        }
}

static void test_no_addresses(_unused_ void **state) {
        static const char *const texts[] = {
                "",
                "\n",
                "0000000000000000 T _stext\n0000000000000000 T _etext\n0000000000000000 t f\t[m]\n",
                "ffffffff81000000 T _stext\n",
                "ffffffff81000000 T _etext\n",
                "ffffffff81000000 T _etext\nffffffff81002000 T _stext\n",
                "ffffffff81000000 T _stext\t[m]\nffffffff81002000 T _etext\t[m]\n",
                "1 T _stext\nffffffff81000000 T _etext\n",
                "Permission denied",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                KernelTable t;

                assert_int_equal(kernel_table_build(NULL, NULL, texts[i], strlen(texts[i]), &t), -ENODATA);
        }
}

static void test_garbage(_unused_ void **state) {
        static const char text[] =
                "ffffffff81000100\nffffffff81000100 \nffffffff81000100 t\nffffffff81000100 t \n"
                "ffffffff81000100t x\nffffffff81000100 tt x\n t x\nxyz t x\n"
                "ffffffff81000100 t x\t\nffffffff81000100 t x\t[\nffffffff81000100 t x\t[]\n"
                "ffffffff81000100 t x\tm]\nffffffff81000100 t \t[m]\nffffffffffffffff t x\t[m]\n"
                "ffffffff81000100 t x\0y\n1 t low\t[n]\nffffffffc0000000 t far\t[n]\n" CORE
                "ffffffff81000400 t last";
        KernelTable t;

        assert_int_equal(kernel_table_build(NULL, NULL, text, sizeof(text) - 1, &t), 0);
        check_table(&t);
        assert_symbols(&t, 0, "0 _stext, 400 last");
        /* Whose symbols are further apart than an offset tells, has those near the first. */
        assert_int_equal(t.ranges.nr, 1);
        assert_symbols(&t, number_of(&t, "n"), "0 low");
        kernel_table_done(&t);
        /* Cut anywhere. */
        for (size_t n = 0; n < sizeof(text) - 1; n++)
                if (kernel_table_build(NULL, NULL, text, n, &t) == 0) {
                        check_table(&t);
                        kernel_table_done(&t);
                }
}

/* Instrumented code says nothing about what it costs. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

static double cpu_seconds(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
}

/* As many symbols as a distribution's kernel has; taken in in less than 100 ms. */
static void test_large(_unused_ void **state) {
        size_t size = 0;
        char *text = NULL;
        FILE *f = open_memstream(&text, &size);
        KernelTable *t, timed;
        double start, took;

        fputs("ffffffff81000000 T _stext\nffffffff82000000 T _etext\n", f);
        for (unsigned i = 0; i < 120000; i++)
                fprintf(f, "%llx %c function_%u\n", CORE_START + 64 + i * 128ULL, i % 2 ? 't' : 'T', i);
        for (unsigned i = 0; i < 30000; i++)
                fprintf(f, "%llx t function_%u\t[module_%u]\n",
                        0xffffffffc0000000ULL + (i / 100) * 16384ULL + (99 - i % 100) * 16, i, i / 100);
        fclose(f);
        start = cpu_seconds();
        assert_int_equal(kernel_table_build(NULL, NULL, text, size, &timed), 0);
        took = cpu_seconds() - start;
        kernel_table_done(&timed);
        print_message("150001 symbols in %.1f ms\n", took * 1e3);
        assert_true(SANITIZED || took < 0.1);
        t = build(NULL, text);
        assert_int_equal(t->names->nr_symbols, 150001);
        assert_int_equal(t->ranges.nr, 300);
        assert_int_equal(symbols_of(t)[120000].offset, 64 + 119999 * 128);
        assert_string_equal(string_of(t, symbols_of(t)[120000].name), "function_119999");
        done(t);
        free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_core),         cmocka_unit_test(test_aliases),
                cmocka_unit_test(test_modules),      cmocka_unit_test(test_generations),
                cmocka_unit_test(test_removed),      cmocka_unit_test(test_numbers_run_out),
                cmocka_unit_test(test_many_modules), cmocka_unit_test(test_no_addresses),
                cmocka_unit_test(test_garbage),      cmocka_unit_test(test_large),
                cmocka_unit_test(test_order_of_addresses), cmocka_unit_test(test_passing),
                cmocka_unit_test(test_initialized),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
