/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "elf-file.h"

static const char *fixture(const char *name, char *path) {
        const char *dir = getenv("FIXTURES");

        assert_non_null(dir);
        snprintf(path, PATH_MAX, "%s/%s", dir, name);
        return path;
}

static uint8_t *read_fixture(const char *name, size_t *ret_size) {
        _cleanup_fclose_ FILE *file = NULL;
        char path[PATH_MAX];
        uint8_t *data;
        struct stat st;

        file = fopen(fixture(name, path), "re");
        assert_non_null(file);
        assert_int_equal(fstat(fileno(file), &st), 0);
        data = malloc((size_t) st.st_size);
        assert_non_null(data);
        assert_int_equal(fread(data, 1, (size_t) st.st_size, file), st.st_size);
        *ret_size = (size_t) st.st_size;
        return data;
}

static ElfFile *open_fixture(const char *name) {
        char path[PATH_MAX];
        ElfFile *elf;
        int fd;

        fd = open(fixture(name, path), O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(elf_file_new_take_fd(&elf, fd), 0);
        return elf;
}

/* The address of the symbol by searching all: what is tested elsewhere is the way from address to name. */
static bool has_name(const SymbolTable *table, const char *name, uint64_t from, uint64_t to) {
        for (uint64_t address = from; address < to; address++) {
                uint64_t offset;
                const char *found = symbol_table_find(table, address, &offset);

                if (found && strcmp(found, name) == 0)
                        return true;
        }
        return false;
}

static void test_symbols(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = open_fixture("nopie");

        assert_int_equal(symbol_table_new(&table), 0);
        assert_int_equal(elf_file_read_symbols(elf, ELF_SYMTAB, table), 0);
        assert_int_equal(elf_file_read_symbols(elf, ELF_DYNSYM, table), 0);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_true(has_name(table, "fixture_global", 0x401000, 0x402000));
        assert_true(has_name(table, "fixture_local", 0x401000, 0x402000));
        assert_true(has_name(table, "main", 0x401000, 0x402000));
        assert_false(has_name(table, "__fixture_weak", 0x401000, 0x402000));
        /* What is not defined here, and what is data. */
        assert_false(has_name(table, "printf", 0, 0x1000));
        assert_false(has_name(table, "__data_start", 0x403000, 0x405000));
        assert_false(has_name(table, "data_start", 0x403000, 0x405000));
}

static void test_versions_are_no_names(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = open_fixture("versioned.so");

        assert_int_equal(symbol_table_new(&table), 0);
        assert_int_equal(elf_file_read_symbols(elf, ELF_SYMTAB, table), 0);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_false(has_name(table, "fixture_versioned@@V_1", 0x1000, 0x2000));
        assert_true(has_name(table, "fixture_versioned", 0x1000, 0x2000));
}

/* Of several of one name none is the one that was meant. */
static void test_find_symbol(_unused_ void **state) {
        size_t size;
        _cleanup_free_ uint8_t *data = read_fixture("tiny", &size);
        _cleanup_(elf_file_freep) ElfFile *elf = NULL, *changed = NULL;
        const Elf64_Ehdr *header = (const Elf64_Ehdr *) data;
        const Elf64_Shdr *sections = (const Elf64_Shdr *) (data + header->e_shoff);
        uint64_t value = 0, start;
        unsigned renamed = 0, section;
        Elf64_Sym *renamed_symbol = NULL;

        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(elf_file_find_symbol(elf, "_start", &start, &section), 0);
        assert_true(section > 0 && section < header->e_shnum && (sections[section].sh_flags & SHF_EXECINSTR));
        assert_int_equal(start, header->e_entry);
        assert_int_equal(elf_file_find_symbol(elf, "tiny_function", &value, NULL), 0);
        assert_true(value >= 0x400000 && value != start);
        assert_int_equal(elf_file_find_symbol(elf, "tiny", &value, NULL), -ENOENT);
        assert_int_equal(elf_file_find_symbol(elf, "tiny_function2", &value, NULL), -ENOENT);
        for (unsigned i = 0; i < header->e_shnum; i++) {
                Elf64_Sym *symbols = (Elf64_Sym *) (data + sections[i].sh_offset), *named = NULL;

                if (sections[i].sh_type != SHT_SYMTAB)
                        continue;
                for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); k++)
                        if (symbols[k].st_value == value)
                                named = &symbols[k];
                assert_non_null(named);
                for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); k++)
                        if (symbols[k].st_value == start) {
                                symbols[k].st_name = named->st_name;
                                renamed_symbol = &symbols[k];
                                renamed++;
                        }
        }
        assert_int_equal(renamed, 1);
        assert_int_equal(elf_file_new_memory(&changed, data, size), 0);
        assert_int_equal(elf_file_find_symbol(changed, "tiny_function", &value, NULL), -ENOENT);
        /* At the same place it is the same twice, unless that is in another section. */
        renamed_symbol->st_value = value;
        assert_int_equal(elf_file_find_symbol(changed, "tiny_function", &value, NULL), 0);
        renamed_symbol->st_shndx++;
        assert_int_equal(elf_file_find_symbol(changed, "tiny_function", &value, NULL), -ENOENT);
}

static void test_32_bit(_unused_ void **state) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = open_fixture("tiny32");
        const uint8_t *id;

        assert_int_equal(elf_file_get_build_id(elf, &id), 20);
        assert_int_equal(symbol_table_new(&table), 0);
        assert_int_equal(elf_file_read_symbols(elf, ELF_SYMTAB, table), 0);
        assert_int_equal(symbol_table_seal(table, true), 0);
        assert_true(has_name(table, "tiny_function", 0x400000, 0x403000));
}

static void test_build_ids(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *gnu = open_fixture("by-id"), *go = open_fixture("go"),
                                          *both = open_fixture("go-gnu"),
                                          *none = open_fixture("linked/by-link");
        static const uint8_t expected[20] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23,
                                             0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67};
        const uint8_t *id;

        assert_true(elf_file_has_build_id(gnu, expected, sizeof(expected)));
        assert_false(elf_file_has_build_id(gnu, expected, sizeof(expected) - 1));
        assert_int_equal(elf_file_get_build_id(go, &id), 8);
        assert_memory_equal(id, "go/build", 8);
        assert_int_equal(elf_file_get_build_id(both, &id), 20);
        assert_int_equal(elf_file_get_build_id(none, &id), 0);
        assert_false(elf_file_has_build_id(none, expected, 0));
}

/* Without program headers, as in some separate debug files, the sections have the id. */
static void test_build_id_from_sections(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *data = NULL;
        Elf64_Ehdr header;
        const uint8_t *id;
        size_t size;

        data = read_fixture("by-id", &size);
        memcpy(&header, data, sizeof(header));
        header.e_phnum = 0;
        memcpy(data, &header, sizeof(header));
        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(elf_file_get_build_id(elf, &id), 20);
}

static void test_debuglink(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_fixture("linked/by-link"), *none = open_fixture("pie"),
                                          *debug = open_fixture("linked/.debug/by-link.debug");
        _cleanup_free_ char *name = NULL;
        uint32_t crc, actual;

        assert_int_equal(elf_file_get_debuglink(elf, &name, &crc), 0);
        assert_string_equal(name, "by-link.debug");
        assert_int_equal(elf_file_get_crc(debug, 0, &actual), 0);
        assert_int_equal(crc, actual);
        assert_int_equal(elf_file_get_crc(debug, 1, &actual), -ETIMEDOUT);
        assert_int_equal(elf_file_get_debuglink(none, &name, &crc), -ENOENT);
}

/* A link out of its directory would let a file choose what we read. */
static void test_debuglink_stays_in_its_directory(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *data = NULL;
        _cleanup_free_ char *name = NULL;
        uint8_t *at;
        uint32_t crc;
        size_t size;

        data = read_fixture("linked/by-link", &size);
        at = memmem(data, size, "by-link.debug", 13);
        assert_non_null(at);
        memcpy(at, "../link.debug", 13);
        assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
        assert_int_equal(elf_file_get_debuglink(elf, &name, &crc), -EBADMSG);
}

static void make_elf(uint8_t *data, size_t size, const Elf64_Phdr *segments, unsigned n) {
        Elf64_Ehdr header = {
                .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                .e_type = ET_DYN,
                .e_phoff = sizeof(header),
                .e_phentsize = sizeof(Elf64_Phdr),
                .e_phnum = (Elf64_Half) n,
        };

        assert_true(sizeof(header) + n * sizeof(*segments) <= size);
        memcpy(data, &header, sizeof(header));
        memcpy(data + sizeof(header), segments, n * sizeof(*segments));
}

static void test_segments(_unused_ void **state) {
        static const Elf64_Phdr segments[] = {
                {.p_type = PT_LOAD,
                 .p_flags = PF_R,
                 .p_offset = 0,
                 .p_vaddr = 0x10000,
                 .p_filesz = 0x7a0,
                 .p_memsz = 0x2000},
                {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_offset = 0x7a0,
                 .p_vaddr = 0x117a0,
                 .p_filesz = 0x860},
                /* Bytes that are in the file once, and loaded as code and as data. */
                {.p_type = PT_LOAD,
                 .p_flags = PF_R,
                 .p_offset = 0x2000,
                 .p_vaddr = 0x20000,
                 .p_filesz = 0x1000},
                {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_offset = 0x2000,
                 .p_vaddr = 0x30000,
                 .p_filesz = 0x1000},
                {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_W,
                 .p_offset = 0x3000,
                 .p_vaddr = 0x40000,
                 .p_memsz = 0x9000},
                {.p_type = PT_DYNAMIC,
                 .p_flags = PF_R,
                 .p_offset = 0x4000,
                 .p_vaddr = 0x50000,
                 .p_filesz = 0x100},
                {.p_type = PT_LOAD,
                 .p_flags = PF_X,
                 .p_offset = UINT64_MAX - 4,
                 .p_vaddr = 0x60000,
                 .p_filesz = 0x100},
        };
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        uint8_t data[1024] = {};
        uint64_t address;

        make_elf(data, sizeof(data), segments, ELEMENTSOF(segments));
        assert_int_equal(elf_file_new_memory(&elf, data, sizeof(data)), 0);
        assert_true(elf_file_get_address(elf, 0, &address));
        assert_int_equal(address, 0x10000);
        assert_true(elf_file_get_address(elf, 0x79f, &address));
        assert_int_equal(address, 0x1079f);
        /* memsz would take this for the first segment's. */
        assert_true(elf_file_get_address(elf, 0x7a0, &address));
        assert_int_equal(address, 0x117a0);
        assert_true(elf_file_get_address(elf, 0x2345, &address));
        assert_int_equal(address, 0x30345);
        assert_false(elf_file_get_address(elf, 0x1500, &address));
        assert_false(elf_file_get_address(elf, 0x3000, &address));
        assert_false(elf_file_get_address(elf, 0x4000, &address));
}

/* As lld has it: one segment goes on in the file where another ends, and the page that both have a part of is mapped twice. */
static void test_code_address(_unused_ void **state) {
        static const Elf64_Phdr segments[] = {
                {.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = 0, .p_vaddr = 0, .p_filesz = 0x185c0},
                {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x185c0, .p_vaddr = 0x195c0, .p_filesz = 0x41c80},
                {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x5a240, .p_vaddr = 0x6c240, .p_filesz = 0x1000},
                {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = UINT64_MAX - 4, .p_vaddr = 0x80000, .p_filesz = 0x100},
        };
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        uint8_t data[1024] = {};
        uint64_t address;

        make_elf(data, sizeof(data), segments, ELEMENTSOF(segments));
        assert_int_equal(elf_file_new_memory(&elf, data, sizeof(data)), 0);
        assert_true(elf_file_get_code_address(elf, 0x18000, 0x43000, &address));
        assert_int_equal(address, 0x19000);
        assert_true(elf_file_get_code_address(elf, 0x5a000, 0x2000, &address));
        assert_int_equal(address, 0x6c000);
        assert_true(elf_file_get_code_address(elf, 0x20000, UINT64_MAX, &address));
        assert_int_equal(address, 0x21000);
        assert_false(elf_file_get_code_address(elf, 0, 0x18000, &address));
        assert_false(elf_file_get_code_address(elf, 0x20000, 0, &address));
}

static void test_refused(_unused_ void **state) {
        static const Elf64_Phdr segment = {.p_type = PT_LOAD};
        struct {
                size_t offset;
                uint8_t value;
        } changes[] = {
                {0, 'X'},
                {EI_CLASS, 3},
                {EI_DATA, ELFDATA2MSB},
                {offsetof(Elf64_Ehdr, e_type), ET_CORE},
                {offsetof(Elf64_Ehdr, e_type), ET_REL},
                {offsetof(Elf64_Ehdr, e_phentsize), 1},
                {offsetof(Elf64_Ehdr, e_phnum) + 1, 1},    /* 257, more than there is room for */
                {offsetof(Elf64_Ehdr, e_phnum) + 1, 0xff}, /* over the cap */
                {offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff}, /* wraps around */
        };
        uint8_t data[256];
        ElfFile *elf;

        for (size_t i = 0; i < ELEMENTSOF(changes); i++) {
                memset(data, 0, sizeof(data));
                make_elf(data, sizeof(data), &segment, 1);
                data[changes[i].offset] = changes[i].value;
                assert_true(elf_file_new_memory(&elf, data, sizeof(data)) < 0);
        }
        assert_int_equal(elf_file_new_memory(&elf, NULL, 0), -EBADMSG);

        /* Offset and size together come out small again. */
        make_elf(data, sizeof(data), &segment, 1);
        memset(data + offsetof(Elf64_Ehdr, e_phoff), 0xff, sizeof(Elf64_Off));
        assert_int_equal(elf_file_new_memory(&elf, data, sizeof(data)), -EBADMSG);
}

static void test_no_regular_file(_unused_ void **state) {
        _cleanup_close_ int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        ElfFile *elf;

        assert_int_equal(elf_file_new_take_fd(&elf, fd), -EBADMSG);
        assert_true(fcntl(fd, F_GETFD) >= 0);
}

/* What a cut file names must be what the whole one names, or nothing. */
static void check_cut(const uint8_t *whole, size_t n) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *data = malloc(n == 0 ? 1 : n);
        _cleanup_free_ char *name = NULL;
        uint32_t crc;
        int r;

        memcpy(data, whole, n);
        if (elf_file_new_memory(&elf, data, n) < 0)
                return;
        assert_int_equal(symbol_table_new(&table), 0);
        r = elf_file_read_symbols(elf, ELF_SYMTAB, table);
        assert_true(r < 0); /* the section headers are what comes last */
        assert_true(elf_file_read_symbols(elf, ELF_DYNSYM, table) < 0);
        assert_true(elf_file_get_debuglink(elf, &name, &crc) < 0);
        assert_int_equal(symbol_table_get_n(table), 0);
}

static void test_cut_at_every_byte(_unused_ void **state) {
        static const char *const names[] = {"tiny", "tiny32"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ uint8_t *whole = NULL;
                size_t size;

                whole = read_fixture(names[i], &size);
                for (size_t n = 0; n < size; n++)
                        check_cut(whole, n);
        }
}

/* Each byte set to what is likely to hurt; sanitizers see the rest. */
static void test_every_byte_changed(_unused_ void **state) {
        static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;

        data = read_fixture("tiny", &size);
        for (size_t n = 0; n < size * ELEMENTSOF(values); n++) {
                _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;
                uint8_t *byte = data + n / ELEMENTSOF(values), before = *byte;
                uint64_t offset;

                *byte = values[n % ELEMENTSOF(values)];
                if (elf_file_new_memory(&elf, data, size) == 0) {
                        assert_int_equal(symbol_table_new(&table), 0);
                        if (elf_file_read_symbols(elf, ELF_SYMTAB, table) == 0 &&
                            symbol_table_seal(table, true) == 0)
                                symbol_table_find(table, 0x401000, &offset);
                }
                *byte = before;
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_symbols),
                cmocka_unit_test(test_versions_are_no_names),
                cmocka_unit_test(test_find_symbol),
                cmocka_unit_test(test_32_bit),
                cmocka_unit_test(test_build_ids),
                cmocka_unit_test(test_build_id_from_sections),
                cmocka_unit_test(test_debuglink),
                cmocka_unit_test(test_debuglink_stays_in_its_directory),
                cmocka_unit_test(test_segments),
                cmocka_unit_test(test_code_address),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_no_regular_file),
                cmocka_unit_test(test_cut_at_every_byte),
                cmocka_unit_test(test_every_byte_changed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
