/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What xz has compressed in an ELF file, for better and worse. That addresses in a running program have names from there is
 * tested in test-address-space.c.
 */

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "elf-debugdata.h"

/* Freed with free(). */
static uint8_t *read_fixture(const char *name, size_t *ret_size) {
        _cleanup_close_ int fd = -1;
        char path[PATH_MAX];
        uint8_t *data;
        struct stat st;

        (void) snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_return_code(fd, errno);
        assert_return_code(fstat(fd, &st), errno);
        data = malloc((size_t) st.st_size);
        assert_non_null(data);
        assert_int_equal(read(fd, data, (size_t) st.st_size), st.st_size);
        *ret_size = (size_t) st.st_size;
        return data;
}

/* A file with that section and none else. For free(). */
static uint8_t *make_elf(const uint8_t *section, size_t size, size_t *ret_size) {
        static const char names[] = "\0.gnu_debugdata\0.shstrtab";
        size_t at = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr);
        const Elf64_Ehdr header = {
                .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                .e_type = ET_DYN,
                .e_machine = EM_X86_64,
                .e_shoff = sizeof(header),
                .e_shentsize = sizeof(Elf64_Shdr),
                .e_shnum = 3,
                .e_shstrndx = 2,
        };
        const Elf64_Shdr sections[3] = {
                {},
                { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = at + sizeof(names), .sh_size = size },
                { .sh_name = 16, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = sizeof(names) },
        };
        uint8_t *elf = malloc(at + sizeof(names) + size);

        assert_non_null(elf);
        memcpy(elf, &header, sizeof(header));
        memcpy(elf + sizeof(header), sections, sizeof(sections));
        memcpy(elf + at, names, sizeof(names));
        memcpy(elf + at + sizeof(names), section, size);
        *ret_size = at + sizeof(names) + size;
        return elf;
}

/* For free(). */
static uint8_t *compress_by_xz(const uint8_t *data, size_t size, size_t *ret_size) {
        size_t bound = lzma_stream_buffer_bound(size);
        uint8_t *packed = malloc(bound);

        assert_non_null(packed);
        *ret_size = 0;
        assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size, packed, ret_size, bound), LZMA_OK);
        return packed;
}

/* What comes of a section, and how many symbols. */
static int read_section(const uint8_t *section, size_t section_size, size_t *ret_n) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        size_t size;
        _cleanup_free_ uint8_t *bytes = make_elf(section, section_size, &size);
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        int r;

        assert_return_code(elf_file_new_memory(&elf, bytes, size), 0);
        assert_return_code(symbol_table_new(&table), 0);
        r = elf_debugdata_read_symbols(elf, table);
        *ret_n = symbol_table_get_n(table);
        return r;
}

static void test_none(_unused_ void **state) {
        static const char *const fixtures[] = { "pie", "by-id" };

        for (size_t i = 0; i < ELEMENTSOF(fixtures); i++) {
                _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
                size_t size;
                _cleanup_free_ uint8_t *bytes = read_fixture(fixtures[i], &size);
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;

                assert_return_code(elf_file_new_memory(&elf, bytes, size), 0);
                assert_return_code(symbol_table_new(&table), 0);
                assert_int_equal(elf_debugdata_read_symbols(elf, table), -ENOENT);
        }
}

static void test_cut(_unused_ void **state) {
        size_t size, n;
        _cleanup_free_ uint8_t *packed = read_fixture("mini.small.xz", &size);

        assert_int_equal(read_section(packed, size, &n), 0);
        assert_true(n > 0);
        for (size_t cut = 0; cut < size; cut++) {
                assert_int_equal(read_section(packed, cut, &n), -EBADMSG);
                assert_int_equal(n, 0);
        }
}

/* Every byte is covered by one of xz's own sums, so that whatever is changed makes it another file. */
static void test_changed(_unused_ void **state) {
        size_t size, n;
        _cleanup_free_ uint8_t *packed = read_fixture("mini.small.xz", &size);

        for (size_t i = 0; i < size; i++) {
                packed[i] ^= 0x10;
                assert_int_equal(read_section(packed, size, &n), -EBADMSG);
                assert_int_equal(n, 0);
                packed[i] ^= 0x10;
        }
}

static void test_no_elf(_unused_ void **state) {
        static const char text[] = "This is no ELF file.";
        size_t size, n;
        _cleanup_free_ uint8_t *packed = compress_by_xz((const uint8_t *) text, sizeof(text), &size);

        assert_int_equal(read_section(packed, size, &n), -EBADMSG);
}

/* A file in a file in the file: who would look into each had no end. */
static void test_nested(_unused_ void **state) {
        size_t size, middle_size, n;
        _cleanup_free_ uint8_t *inner = read_fixture("mini.small.xz", &size);
        _cleanup_free_ uint8_t *middle = make_elf(inner, size, &middle_size);
        _cleanup_free_ uint8_t *packed = compress_by_xz(middle, middle_size, &size);

        assert_int_equal(read_section(packed, size, &n), -ENOENT);
        assert_int_equal(n, 0);
}

/* Of zeros xz makes the seven thousandth part. */
static void test_bomb(_unused_ void **state) {
        _cleanup_free_ uint8_t *zeros = calloc(1, ELF_DEBUGDATA_SIZE_MAX + 1), *packed = NULL, *less = NULL;
        size_t size, n;

        assert_non_null(zeros);
        packed = compress_by_xz(zeros, ELF_DEBUGDATA_SIZE_MAX + 1, &size);
        assert_true(size < 64U << 10);
        assert_int_equal(read_section(packed, size, &n), -EFBIG);
        less = compress_by_xz(zeros, ELF_DEBUGDATA_SIZE_MAX, &size);
        assert_int_equal(read_section(less, size, &n), -EBADMSG); /* it is no ELF file */
}

/* Memory is what the header of a block asks for: here, with a right sum, as much as can be said. */
static void test_memory(_unused_ void **state) {
        size_t size, n, header_size;
        _cleanup_free_ uint8_t *packed = read_fixture("mini.small.xz", &size);
        uint8_t *header = packed + LZMA_STREAM_HEADER_SIZE, *filter;
        uint32_t crc;

        header_size = (header[0] + 1U) * 4;
        filter = memmem(header, header_size, "\x21\x01", 2); /* LZMA2, with one byte: the size of its dictionary */
        assert_non_null(filter);
        filter[2] = 40;
        crc = lzma_crc32(header, header_size - 4, 0);
        memcpy(header + header_size - 4, &crc, 4);
        assert_int_equal(read_section(packed, size, &n), -EFBIG);
        /* As xz -9 has it. */
        filter[2] = 28;
        crc = lzma_crc32(header, header_size - 4, 0);
        memcpy(header + header_size - 4, &crc, 4);
        assert_int_equal(read_section(packed, size, &n), 0);
        assert_true(n > 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_changed),
                cmocka_unit_test(test_no_elf),
                cmocka_unit_test(test_nested),
                cmocka_unit_test(test_bomb),
                cmocka_unit_test(test_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
