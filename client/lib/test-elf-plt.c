/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stubs as linkers make them, by the names that binutils give them. */

#include "elf-plt.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint8_t *read_fixture(const char *name, size_t *ret_size) {
        _cleanup_fclose_ FILE *file = NULL;
        char path[PATH_MAX];
        uint8_t *data = malloc(1 << 20);

        snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), name);
        file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(data);
        *ret_size = fread(data, 1, 1 << 20, file);
        assert_in_range(*ret_size, 1, (1 << 20) - 1);
        return data;
}

/* As symbol-file.c does. */
static int read_symbols(ElfFile *elf, SymbolTable *table) {
        _cleanup_(elf_plt_freep) ElfPlt *plt = NULL;
        int r;

        r = elf_file_read_symbols(elf, ELF_SYMTAB, table);
        if (r >= 0)
                r = elf_plt_new(&plt, elf);
        if (r < 0)
                return r;
        if (elf_plt_add_symbols(plt, table, /* ifuncs= */ false) < 0)
                return -EIO;
        r = symbol_table_seal(table, true);
        if (r < 0 || elf_plt_add_symbols(plt, table, /* ifuncs= */ true) < 0)
                return r;
        return symbol_table_seal(table, true);
}

static void open_symbols(const uint8_t *data, size_t size, SymbolTable **ret) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;

        assert_int_equal(symbol_table_new(ret), 0);
        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(read_symbols(elf, *ret), 0);
}

static void check_stub(const SymbolTable *table, uint64_t address, const char *expected) {
        uint64_t offset = UINT64_MAX;
        const char *name = symbol_table_find(table, address, &offset);

        assert_non_null(name);
        assert_string_equal(name, expected);
        assert_int_equal(offset, 0);
        /* What it jumps with is its own, too. */
        assert_ptr_equal(symbol_table_find(table, address + 7, &offset), name);
        assert_int_equal(offset, 7);
}

/* Where it begins, 0: there is no such. */
static uint64_t find_start(const SymbolTable *table, const char *name) {
        for (uint64_t address = 0; address < 0x20000; address++) {
                uint64_t offset;
                const char *found = symbol_table_find(table, address, &offset);

                if (found && offset == 0 && strcmp(found, name) == 0)
                        return address;
        }
        return 0;
}

static bool has_name(const SymbolTable *table, const char *name) {
        return find_start(table, name) != 0;
}

/* named: binutils know the stub of what is settled late. */
static void check_file(const char *name, bool named) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_free_ uint8_t *data = NULL, *stubs = NULL;
        bool seen[3] = {}, seen_ifunc = false;
        char stubs_name[64], stub[64];
        uint64_t address;
        size_t size;
        int used;

        data = read_fixture(name, &size);
        open_symbols(data, size, &table);
        snprintf(stubs_name, sizeof(stubs_name), "%s.stubs", name);
        stubs = read_fixture(stubs_name, &size);
        stubs[size] = 0;
        for (const char *line = (char *) stubs; sscanf(line, "%" SCNx64 " %63s\n%n", &address, stub, &used) == 2; line += used) {
                static const char *const names[] = { "plt_first@plt", "plt_second@plt", "plt_third@plt" };

                /* What has no symbol binutils call by the address of the code that settles it. */
                if (strncmp(stub, "*ABS*", 5) == 0) {
                        check_stub(table, address, "plt_settled@plt");
                        seen_ifunc = true;
                        continue;
                }
                check_stub(table, address, stub);
                for (size_t i = 0; i < ELEMENTSOF(names); i++)
                        seen[i] |= strcmp(stub, names[i]) == 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(seen); i++)
                assert_true(seen[i]);
        assert_int_equal(seen_ifunc, named);
        assert_true(has_name(table, "plt_settled@plt"));
}

static void test_lazy(_unused_ void **state) {
        check_file("plt-lazy.so", true);
}

static void test_now(_unused_ void **state) {
        check_file("plt-now.so", true);
}

static void test_ibt(_unused_ void **state) {
        check_file("plt-ibt.so", true);
}

static void test_lld(_unused_ void **state) {
        check_file("plt-lld.so", false);
}

static void test_aarch64(_unused_ void **state) {
        check_file("plt-aarch64.so", false);
        check_file("plt-bti.so", false);
}

/* Some stubs begin with a mark that they may be jumped to. */
static void test_bti(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *data = NULL;
        uint32_t code[2];
        size_t size;

        data = read_fixture("plt-bti.so", &size);
        open_symbols(data, size, &table);
        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(elf_file_read_address(elf, find_start(table, "plt_settled@plt"), code, sizeof(code)), 0);
        assert_int_equal(code[0], 0xd503245f);           /* bti c */
        assert_int_equal(code[1] & 0x9f00001f, 0x90000010); /* adrp x16 */
}

/* What is called keeps its own name. */
static void test_target(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;

        data = read_fixture("plt-lazy.so", &size);
        open_symbols(data, size, &table);
        assert_true(has_name(table, "plt_target"));
        /* The code that settles it has two names, both local, of which the longer one is shown. */
        assert_true(has_name(table, "plt_settled"));
        assert_false(has_name(table, "plt_settle"));
}

static void test_none(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL, *elf32 = NULL;
        _cleanup_free_ uint8_t *data = NULL, *data32 = NULL;
        ElfPlt *plt;
        size_t size;

        data = read_fixture("tiny", &size);
        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(elf_plt_new(&plt, elf), -ENOENT);
        data32 = read_fixture("tiny32", &size);
        assert_int_equal(elf_file_new_memory(&elf32, data32, size), 0);
        assert_int_equal(elf_plt_new(&plt, elf32), -ENOENT);
}

/* Each byte set to what is likely to hurt; sanitizers see the rest. */
static void check_every_byte_changed(const char *fixture) {
        static const uint8_t values[] = { 0x00, 0x7f, 0xff };
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;

        data = read_fixture(fixture, &size);
        for (size_t n = 0; n < size * ELEMENTSOF(values); n++) {
                _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;
                uint8_t *byte = data + n / ELEMENTSOF(values), before = *byte;

                *byte = values[n % ELEMENTSOF(values)];
                assert_int_equal(symbol_table_new(&table), 0);
                if (*byte != before && elf_file_new_memory(&elf, data, size) == 0)
                        (void) read_symbols(elf, table);
                *byte = before;
        }
}

static void test_every_byte_changed(_unused_ void **state) {
        check_every_byte_changed("plt-ibt.so");
        check_every_byte_changed("plt-aarch64.so");
}

static void test_cut(_unused_ void **state) {
        _cleanup_free_ uint8_t *whole = NULL;
        size_t size;

        whole = read_fixture("plt-lazy.so", &size);
        for (size_t n = 0; n < size; n += 7) {
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;
                _cleanup_free_ uint8_t *data = malloc(MAX(n, (size_t) 1));
                ElfPlt *plt;

                assert_non_null(data);
                memcpy(data, whole, n);
                if (elf_file_new_memory(&elf, data, n) == 0)
                        assert_true(elf_plt_new(&plt, elf) < 0); /* the section headers are what comes last */
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lazy),
                cmocka_unit_test(test_now),
                cmocka_unit_test(test_ibt),
                cmocka_unit_test(test_lld),
                cmocka_unit_test(test_aarch64),
                cmocka_unit_test(test_bti),
                cmocka_unit_test(test_target),
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_every_byte_changed),
                cmocka_unit_test(test_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
