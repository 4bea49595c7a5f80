/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The n-th allocation fails, for every n, in whatever reads symbols: each time the answer is -ENOMEM or
 * right, nothing leaks (a sanitizer looks) and what is half-built can be freed and used again.
 * Linked with --wrap for the allocator.
 */

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "elf-debugdata.h"
#include "elf-plt.h"
#include "jit-inherited.h"
#include "jitdump.h"
#include "perf-map.h"
#include "symbolizer.h"
#include "test-alloc.h"
#include "test-jitdump.h"

DEFINE_CLEANUP(Symbolizer, symbolizer_free)
DEFINE_CLEANUP(AddressSpace, address_space_free)

/* Returns 0 or -ENOMEM; whatever else fails is a failed test. */
typedef int (*Scenario)(void);

static void fail_every_allocation(Scenario scenario) {
        long n = 0;
        int r;

        do {
                allocations_left = n++;
                r = scenario();
                /* The last round is the one that did not come to its failure. */
                if (allocations_left >= 0) {
                        allocations_left = -1;
                        assert_int_equal(r, 0);
                        break;
                }
                assert_true(r == -ENOMEM || r == 0);
                assert_true(n < 100000);
        } while (true);
        assert_true(n > 1);
}

static int read_elf(void) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ char *name = NULL;
        char path[PATH_MAX];
        uint32_t crc;
        int fd, r;

        snprintf(path, sizeof(path), "%s/linked/by-link", getenv("FIXTURES"));
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = elf_file_new_take_fd(&elf, fd);
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        r = symbol_table_new(&table);
        if (r < 0)
                return r;
        r = elf_file_read_symbols(elf, ELF_DYNSYM, table);
        if (r < 0)
                return r;
        r = symbol_table_seal(table, true);
        if (r < 0)
                return r;
        r = elf_file_get_debuglink(elf, &name, &crc);
        return r < 0 ? r : elf_file_get_crc(elf, 0, &crc);
}

static int read_debugdata(void) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        char path[PATH_MAX];
        int fd, r;

        snprintf(path, sizeof(path), "%s/mini", getenv("FIXTURES"));
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = elf_file_new_take_fd(&elf, fd);
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        r = symbol_table_new(&table);
        return r < 0 ? r : elf_debugdata_read_symbols(elf, table);
}

static int parse_perf_map(void) {
        static const char text[] = "1000 10 a\n2000 10 b\n1000 20 c\n";
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        size_t used;
        int r;

        r = perf_map_new(&map, NULL);
        if (r < 0)
                return r;
        r = perf_map_parse(map, text, sizeof(text) - 1, &used);
        return r < 0 ? r : perf_map_seal(map);
}

static int parse_jitdump(void) {
        static const TestLine lines[] = { { 0x1000, 1, "/a.js" } };
        static const JitClock clock = { .first = { 1, 1, 1 }, .last = { 1, 1, 1 } };
        _cleanup_(jitdump_freep) JitDump *d = NULL;
        static TestDump dump;
        int r;

        dump_header(&dump, 0);
        dump_debug_info(&dump, 0x1000, lines, ELEMENTSOF(lines));
        dump_load(&dump, 100, 0x1000, 0x20, 0, "a");
        dump_load(&dump, 200, 0x1000, 0x20, 1, "b");
        dump_move(&dump, 300, 0x1000, 0x2000, 0x20, 1);
        r = jitdump_new(&d);
        if (r >= 0)
                r = jitdump_parse(d, &clock, dump.data, dump.size);
        return MIN(r, 0);
}

static int read_plt(void) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_(elf_plt_freep) ElfPlt *plt = NULL;
        char path[PATH_MAX];
        uint64_t value;
        int fd, r;

        snprintf(path, sizeof(path), "%s/plt-lazy.so", getenv("FIXTURES"));
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = elf_file_new_take_fd(&elf, fd);
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        r = symbol_table_new(&table);
        if (r >= 0)
                r = elf_file_read_symbols(elf, ELF_SYMTAB, table);
        if (r >= 0)
                r = elf_file_find_symbol(elf, "_DYNAMIC", &value, NULL);
        if (r >= 0)
                r = elf_plt_new(&plt, elf);
        if (r >= 0)
                r = elf_plt_add_symbols(plt, table, /* ifuncs= */ false);
        if (r >= 0)
                r = symbol_table_seal(table, true);
        if (r >= 0)
                r = elf_plt_add_symbols(plt, table, /* ifuncs= */ true);
        return MIN(r, 0);
}

static int demangle(void) {
        static const char *const names[] = {"main", "_ZN3foo3barEv", "_ZN3foo3barEv.cold", "_ZN3foo3barEv@plt",
                                            "_RNvC7mycrate3foo"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *name = NULL;
                int r = symbol_demangle(names[i], &name);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int resolve(void) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        _cleanup_(address_space_freep) AddressSpace *space = NULL, *child = NULL;
        uint64_t addresses[] = {(uintptr_t) resolve, (uintptr_t) printf, 1};
        Resolved resolved;
        int r;

        r = symbolizer_new(&symbolizer, NULL);
        if (r < 0)
                return r;
        r = address_space_new(&space, symbolizer, getpid());
        if (r < 0)
                return r;
        r = address_space_refresh(space);
        if (r < 0)
                return r;
        r = address_space_fork(&child, space, getpid(), 1);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                r = address_space_resolve(space, addresses[i], false, &resolved);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Of a parent with a dump and a map, by a child and its child. */
static int inherit(void) {
        _cleanup_(jitdump_freep) JitDump *dump = NULL;
        _cleanup_(perf_map_freep) PerfMap *map = NULL;
        _cleanup_(inherited_names_unrefp) InheritedNames *names = NULL, *more = NULL;
        const char *name;
        uint64_t offset;
        size_t used;
        int r;

        r = jitdump_new(&dump);
        if (r >= 0)
                r = perf_map_new(&map, NULL);
        if (r >= 0)
                r = perf_map_parse(map, "1000 10 first\n", 14, &used);
        if (r >= 0)
                r = perf_map_seal(map);
        if (r >= 0)
                r = inherited_names_new(&names, &(InheritedSource){ .dump = dump }, NULL);
        if (r >= 0)
                r = inherited_names_new(&more, &(InheritedSource){ .map = map }, names);
        if (r >= 0)
                r = inherited_names_find(more, 0x1000, &name, &offset);
        if (r >= 0)
                assert_string_equal(name, "first");
        return r;
}

/* What failed for want of memory works when there is some again. */
static void test_resolve_recovers(_unused_ void **state) {
        for (long n = 0; n < 200; n++) {
                _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
                _cleanup_(address_space_freep) AddressSpace *space = NULL;
                Resolved resolved;

                assert_int_equal(symbolizer_new(&symbolizer, NULL), 0);
                assert_int_equal(address_space_new(&space, symbolizer, getpid()), 0);
                allocations_left = n;
                (void) address_space_refresh(space);
                (void) address_space_resolve(space, (uintptr_t) resolve, false, &resolved);
                allocations_left = -1;
                assert_true(address_space_refresh(space) >= 0);
                assert_int_equal(address_space_resolve(space, (uintptr_t) resolve, false, &resolved), 0);
                assert_string_equal(resolved.name, "resolve");
                assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);
        }
}

static void test_elf(_unused_ void **state) {
        fail_every_allocation(read_elf);
}

static void test_debugdata(_unused_ void **state) {
        fail_every_allocation(read_debugdata);
}

static void test_perf_map(_unused_ void **state) {
        fail_every_allocation(parse_perf_map);
}

static void test_plt(_unused_ void **state) {
        fail_every_allocation(read_plt);
}

static void test_jitdump(_unused_ void **state) {
        fail_every_allocation(parse_jitdump);
}

static void test_demangle(_unused_ void **state) {
        fail_every_allocation(demangle);
}

static void test_inherit(_unused_ void **state) {
        fail_every_allocation(inherit);
}

static void test_resolve(_unused_ void **state) {
        fail_every_allocation(resolve);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_elf),
                cmocka_unit_test(test_debugdata),
                cmocka_unit_test(test_perf_map),
                cmocka_unit_test(test_plt),
                cmocka_unit_test(test_jitdump),
                cmocka_unit_test(test_demangle),
                cmocka_unit_test(test_inherit),
                cmocka_unit_test(test_resolve),
                cmocka_unit_test(test_resolve_recovers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
