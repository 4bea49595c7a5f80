/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "test-unwind-walk.h"
#include "unwind-table-builder.h"
#include "vdso.h"

/* Files. */

typedef struct Bytes {
        uint8_t *data;
        size_t size;
} Bytes;

static void bytes_done(Bytes *bytes) {
        free(bytes->data);
}

static int read_file(const char *path, Bytes *ret) {
        _cleanup_fclose_ FILE *file = fopen(path, "re");
        struct stat st;

        if (!file)
                return -errno;
        assert_int_equal(fstat(fileno(file), &st), 0);
        ret->size = (size_t) st.st_size;
        ret->data = malloc(ret->size + 1);
        assert_non_null(ret->data);
        assert_int_equal(fread(ret->data, 1, ret->size, file), ret->size);
        ret->data[ret->size] = 0;
        return 0;
}

static Bytes read_fixture(const char *variable, const char *name, const char *suffix) {
        char path[PATH_MAX];
        Bytes bytes;

        assert_non_null(getenv(variable));
        snprintf(path, sizeof(path), "%s/%s%s", getenv(variable), name, suffix);
        assert_int_equal(read_file(path, &bytes), 0);
        return bytes;
}

static int new_table(const uint8_t *data, size_t size, UnwindTable **ret) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        int r;

        r = elf_file_new_memory(&elf, data, size);
        return r < 0 ? r : unwind_table_new(ret, elf);
}

/* Whatever the file was. */
static void check_table(const UnwindTable *table) {
        size_t next = 1;

        assert_int_equal(table->base % RS_TABLE_PAGE, 0);
        assert_true(table->n_pages > 0 && table->n_rows > 0 && table->n_rules > 0);
        assert_true(table->n_rules <= UNWIND_RULES_MAX);
        assert_int_equal(table->rules[0].cfa, RS_CFA_NONE);
        assert_int_equal(table->rows[0] & RS_TABLE_ROW_RULE, 0);
        for (size_t i = 0; i < table->n_rows; i++)
                assert_true((table->rows[i] & RS_TABLE_ROW_RULE) < table->n_rules);
        for (size_t i = 0; i < table->n_pages; i++) {
                size_t first = table->pages[i] >> 32, n = (uint32_t) table->pages[i];

                assert_true(n <= RS_TABLE_PAGE && first >= next && first + n <= table->n_rows);
                /* What was left out to fill a chunk up is the row before it. */
                for (size_t k = next; k < first; k++)
                        assert_int_equal(table->rows[k], table->rows[next - 1]);
                if (n > 0)
                        assert_int_equal(first * 4 / RS_TABLE_CHUNK, ((first + n) * 4 - 1) / RS_TABLE_CHUNK);
                for (size_t k = 1; k < n; k++)
                        assert_true(table->rows[first + k - 1] >> RS_TABLE_ROW_SHIFT <
                                    table->rows[first + k] >> RS_TABLE_ROW_SHIFT);
                next = first + n;
        }
        assert_int_equal(next, table->n_rows);
}

/* Golden text. */

static const char *register_name(unsigned machine, unsigned reg, char *space) {
        static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"};

        if (machine == EM_X86_64 && reg < ELEMENTSOF(names))
                return names[reg];
        if (machine == EM_AARCH64 && reg == 31)
                return "sp";
        sprintf(space, machine == EM_AARCH64 ? "x%u" : "r%u", reg);
        return space;
}

static void print_place(FILE *to, const char *name, unsigned place, const char *base, int offset) {
        switch (place) {
        case RS_REG_SAME:
                fprintf(to, " %s same", name);
                break;
        case RS_REG_AT_CFA:
                fprintf(to, " %s cfa%+d", name, offset);
                break;
        case RS_REG_AT_BASE:
                fprintf(to, " %s %s%+d", name, base, offset);
                break;
        default:
                fprintf(to, " %s undefined", name);
                break;
        }
}

static void print_rule(FILE *to, unsigned machine, const struct rs_table_rule *rule) {
        static const char *const formats[] = {
                [RS_CFA_REG] = " %s%+d",
                [RS_CFA_DEREF] = " *(%s%+d)",
                [RS_CFA_DEREF_8] = " *(%s%+d)+8",
                [RS_CFA_PLT] = " plt %s%+d",
        };
        char space[16];
        const char *base = register_name(machine, rule->reg, space);

        if (rule->cfa == RS_CFA_NONE || rule->cfa == RS_CFA_UNKNOWN) {
                fprintf(to, rule->cfa == RS_CFA_NONE ? " none\n" : " unknown\n");
                return;
        }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fprintf(to, formats[rule->cfa], base, rule->cfa_offset);
#pragma GCC diagnostic pop
        print_place(to, "fp", rule->fp, base, rule->fp_offset);
        print_place(to, "ra", rule->ra & RS_RULE_REG_MASK, base, rule->ra_offset);
        fprintf(to, "%s%s%s\n", rule->ra & RS_RULE_SIGNAL ? " signal" : "", rule->ra & RS_RULE_PAC ? " signed" : "",
                rule->ra & RS_RULE_SAVES ? " saves" : "");
}

static char *print_table(const UnwindTable *table, unsigned machine) {
        size_t size;
        char *text;
        FILE *to = open_memstream(&text, &size);

        assert_non_null(to);
        for (size_t i = 0; i < table->n_pages; i++)
                for (size_t k = 0; k < (uint32_t) table->pages[i]; k++) {
                        uint32_t row = table->rows[(table->pages[i] >> 32) + k];

                        fprintf(to, "%" PRIx64, table->base + i * RS_TABLE_PAGE + (row >> RS_TABLE_ROW_SHIFT));
                        print_rule(to, machine, &table->rules[row & RS_TABLE_ROW_RULE]);
                }
        assert_int_equal(fclose(to), 0);
        return text;
}

static char *print_fixture(const char *name, unsigned machine) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = read_fixture("FIXTURES", name, "");

        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        return print_table(table, machine);
}

/* What comes after the lines that begin with #. */
static char *golden_text(const Bytes *golden) {
        char *text = (char *) golden->data;

        while (*text == '#')
                text = strchr(text, '\n') + 1;
        return text;
}

static void check_fixture(const char *name, unsigned machine) {
        _cleanup_(bytes_done) Bytes golden = read_fixture("GOLDEN", name, ".rows");
        _cleanup_free_ char *text = print_fixture(name, machine);

        assert_string_equal(text, golden_text(&golden));
}

static void test_x86_64(_unused_ void **state) {
        check_fixture("x86-64", EM_X86_64);
}

static void test_aarch64(_unused_ void **state) {
        check_fixture("aarch64", EM_AARCH64);
}

static void cut_line(char *text, const char *beginning) {
        char *line = strstr(text, beginning), *end;

        assert_non_null(line);
        end = strchr(line, '\n') + 1;
        memmove(line, end, strlen(end) + 1);
}

/* The same wherever it is said, but for the line of that address. */
static void check_source(const char *name, const char *golden_name, unsigned machine, const char *but) {
        _cleanup_(bytes_done) Bytes golden = read_fixture("GOLDEN", golden_name, ".rows");
        _cleanup_free_ char *text = print_fixture(name, machine);

        if (but) {
                cut_line(text, but);
                cut_line(golden_text(&golden), but);
        }
        assert_string_equal(text, golden_text(&golden));
}

static void test_sources(_unused_ void **state) {
        /* Assemblers do not say in .debug_frame that a frame is a signal's. */
        check_source("x86-64-debug", "x86-64", EM_X86_64, "410240 ");
        check_source("x86-64-compressed", "x86-64", EM_X86_64, "410240 ");
        check_source("aarch64-debug", "aarch64", EM_AARCH64, "410180 ");
        check_source("x86-64-index", "x86-64", EM_X86_64, NULL);
}

static void test_sources_together(_unused_ void **state) {
        _cleanup_free_ char *text = print_fixture("x86-64-both", EM_X86_64);

        cut_line(text, "420780 rsp+4096 fp same ra cfa-8\n");
        cut_line(text, "420781 none\n");
        {
                _cleanup_(bytes_done) Bytes golden = read_fixture("GOLDEN", "x86-64", ".rows");

                assert_string_equal(text, golden_text(&golden));
        }
}

static void test_nothing(_unused_ void **state) {
        _cleanup_(bytes_done) Bytes nothing = read_fixture("FIXTURES", "nothing", ""),
                                    i386 = read_fixture("FIXTURES", "i386", "");
        UnwindTable *table;

        assert_int_equal(new_table(nothing.data, nothing.size, &table), -ENOENT);
        assert_int_equal(new_table(i386.data, i386.size, &table), -ENOENT);
}

static void test_stopped(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        UnwindTable *table = NULL;
        bool stop = true;

        assert_return_code(elf_file_new_take_fd(&elf, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 0);
        elf_file_set_stop(elf, &stop);
        assert_int_equal(unwind_table_new(&table, elf), -ECANCELED);
        stop = false;
        assert_return_code(unwind_table_new(&table, elf), 0);
        unwind_table_free(table);
}

static void test_vdso(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        size_t size;

        if (vdso_open(&elf, &size) < 0)
                skip();
        assert_int_equal(unwind_table_new(&table, elf), 0);
        check_table(table);
        assert_true(table->n_entries > 0);
        assert_int_equal(table->n_unknown, 0);
}

/* Made here: one segment of code, and .eh_frame as the test writes it. */

#define MADE_CODE UINT64_C(0x10000)

typedef struct Maker {
        uint8_t *cfi;
        size_t size;
        FILE *to;
} Maker;

static void put(Maker *m, uint64_t value, size_t size) {
        assert_int_equal(fwrite(&value, 1, size, m->to), size);
}

/* last: two more instructions of the CIE's. */
static void maker_init_with(Maker *m, uint8_t last, uint8_t operand) {
        /* CIE: version 1, "zR", factors 1 and -8, ra 16; udata8; CFA rsp + 8, ra at CFA - 8. */
        const uint8_t common[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata8,
                                  DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1, last, operand};

        m->to = open_memstream((char **) &m->cfi, &m->size);
        assert_non_null(m->to);
        assert_int_equal(fwrite(common, 1, sizeof(common), m->to), sizeof(common));
}

static void maker_init(Maker *m) {
        maker_init_with(m, DW_CFA_nop, DW_CFA_nop);
}

static void put_entry(Maker *m, uint64_t start, uint64_t size, const void *program, size_t program_size) {
        put(m, 4 + 8 + 8 + 1 + program_size, 4);
        put(m, (uint64_t) ftell(m->to), 4);
        put(m, start, 8);
        put(m, size, 8);
        put(m, 0, 1);
        assert_int_equal(fwrite(program, 1, program_size, m->to), program_size);
}

/* One that says no more than: CFA is rsp + offset, below 128. */
static void put_simple(Maker *m, uint64_t start, uint64_t size, uint8_t offset) {
        const uint8_t program[] = {DW_CFA_def_cfa_offset, offset};

        put_entry(m, start, size, program, sizeof(program));
}

static void make_file(Maker *m, uint64_t code_size, Bytes *ret) {
        static const char names[] = "\0.eh_frame";
        struct {
                Elf64_Ehdr header;
                Elf64_Phdr segment;
                Elf64_Shdr sections[3];
                char names[16];
        } front = {
                .header = {
                        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                        .e_type = ET_DYN, .e_machine = EM_X86_64,
                        .e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
                        .e_shoff = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), .e_shentsize = sizeof(Elf64_Shdr),
                        .e_shnum = 3, .e_shstrndx = 2,
                },
                .segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = MADE_CODE, .p_filesz = code_size},
                .sections[1] = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = sizeof(front)},
                .sections[2] = {.sh_type = SHT_STRTAB, .sh_offset = sizeof(front) - 16, .sh_size = sizeof(names)},
        };

        assert_int_equal(fclose(m->to), 0);
        memcpy(front.names, names, sizeof(names));
        front.sections[1].sh_size = m->size;
        ret->size = sizeof(front) + m->size;
        if (code_size < 16U << 20)
                ret->size = MAX(ret->size, code_size);
        ret->data = calloc(1, ret->size);
        assert_non_null(ret->data);
        memcpy(ret->data, &front, sizeof(front));
        memcpy(ret->data + sizeof(front), m->cfi, m->size);
        free(m->cfi);
}

static int cfa_offset(const UnwindTable *table, uint64_t address) {
        const struct rs_table_rule *rule = unwind_table_find(table, address);

        return rule->cfa == RS_CFA_REG ? rule->cfa_offset : rule->cfa == RS_CFA_NONE ? -1 : -2;
}

/* The first wins, and what another has left of one is still its own. */
static void test_overlapping(_unused_ void **state) {
        static const uint8_t steps[] = {DW_CFA_def_cfa_offset, 50, DW_CFA_advance_loc | 32, DW_CFA_def_cfa_offset, 51};
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init(&m);
        put_simple(&m, 0x10300, 0x10, 40);
        put_simple(&m, 0x10100, 0x40, 20);
        put_simple(&m, 0x10100, 0x80, 30);
        put_entry(&m, 0x10130, 0x40, steps, sizeof(steps));
        put_simple(&m, 0x102f0, 0x08, 41);
        put_simple(&m, 0x10302, 0x02, 42);
        /* Nothing, what is no code, and what wraps. */
        put_simple(&m, 0x10200, 0, 60);
        put_simple(&m, 0xff00, 0x100000, 61);
        put_simple(&m, 0x20000, 0x100, 62);
        put_simple(&m, 0x10400, UINT64_MAX - 0x10000, 63);
        make_file(&m, 0x1000, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        assert_int_equal(table->base, MADE_CODE);
        assert_int_equal(table->n_skipped, 2);
        assert_int_equal(cfa_offset(table, 0x100ff), -1);
        assert_int_equal(cfa_offset(table, 0x10100), 20);
        assert_int_equal(cfa_offset(table, 0x1013f), 20);
        assert_int_equal(cfa_offset(table, 0x10140), 30);
        assert_int_equal(cfa_offset(table, 0x1017f), 30);
        assert_int_equal(cfa_offset(table, 0x10180), -1);
        assert_int_equal(cfa_offset(table, 0x102f7), 41);
        assert_int_equal(cfa_offset(table, 0x102f8), -1);
        assert_int_equal(cfa_offset(table, 0x10300), 40);
        assert_int_equal(cfa_offset(table, 0x1030f), 40);
        assert_int_equal(cfa_offset(table, 0x10310), -1);
        assert_int_equal(cfa_offset(table, 0x10400), -1);
}

/* The frequent instructions where they are not what they mostly are. */
static void test_frequent(_unused_ void **state) {
        static const uint8_t wide[] = {DW_CFA_def_cfa_offset, 0x90, 0x01, DW_CFA_advance_loc | 4, DW_CFA_offset | 6, 0x82, 0x00,
                                       DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 0x7f};
        static const uint8_t no_register[] = {DW_CFA_def_cfa_expression, 3, DW_OP_breg7, 8, DW_OP_deref,
                                              DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16};
        static const uint8_t cut[] = {DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset};
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init(&m);
        put_entry(&m, 0x10100, 0x10, wide, sizeof(wide));
        put_entry(&m, 0x10200, 0x10, no_register, sizeof(no_register));
        put_entry(&m, 0x10300, 0x10, cut, sizeof(cut));
        put_simple(&m, 0x10400, 0x10, 32);
        make_file(&m, 0x1000, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        assert_int_equal(cfa_offset(table, 0x10100), 144);
        assert_int_equal(unwind_table_find(table, 0x10100)->fp, RS_REG_SAME);
        assert_int_equal(unwind_table_find(table, 0x10104)->fp, RS_REG_AT_CFA);
        assert_int_equal(unwind_table_find(table, 0x10104)->fp_offset, -16);
        assert_int_equal(cfa_offset(table, 0x10108), 127);
        assert_int_equal(unwind_table_find(table, 0x10200)->cfa, RS_CFA_DEREF);
        assert_int_equal(unwind_table_find(table, 0x10204)->cfa, RS_CFA_UNKNOWN);
        assert_int_equal(cfa_offset(table, 0x10303), 8);
        assert_int_equal(unwind_table_find(table, 0x10304)->cfa, RS_CFA_UNKNOWN);
        assert_int_equal(cfa_offset(table, 0x10400), 32);
}

/* A register that all functions have saved, as the entry common to them says; by name it is so again. */
static void test_saved_by_all(_unused_ void **state) {
        static const uint8_t steps[] = {DW_CFA_advance_loc | 1, DW_CFA_same_value, 3, DW_CFA_advance_loc | 1, DW_CFA_restore | 3};
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init_with(&m, DW_CFA_offset | 3, 2);
        put_entry(&m, 0x10000, 3, steps, sizeof(steps));
        make_file(&m, 0x1000, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        assert_true(unwind_table_find(table, 0x10000)->ra & RS_RULE_SAVES);
        assert_false(unwind_table_find(table, 0x10001)->ra & RS_RULE_SAVES);
        assert_true(unwind_table_find(table, 0x10002)->ra & RS_RULE_SAVES);
}

/* Other than the linker's, and to the end of code. */
static void test_ends(_unused_ void **state) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init(&m);
        put_simple(&m, 0x10000, 1, 10);
        put_simple(&m, 0x10080, 0x10000, 20);
        make_file(&m, 0x1000, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        assert_int_equal(table->n_pages, 0x10);
        assert_int_equal(cfa_offset(table, 0xffff), -1);
        assert_int_equal(cfa_offset(table, 0x10000), 10);
        assert_int_equal(cfa_offset(table, 0x10001), -1);
        assert_int_equal(cfa_offset(table, 0x10fff), 20);
        assert_int_equal(cfa_offset(table, 0x11000), -1);
        assert_int_equal(cfa_offset(table, UINT64_MAX), -1);
}

/* A rule for each byte: pages that are full fill no chunk, and there are more rules than numbers. */
static void test_dense(_unused_ void **state) {
        const uint32_t n = 70000;
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {}, program = {};
        Maker m;

        program.data = malloc(n * 6);
        assert_non_null(program.data);
        for (uint32_t i = 0; i < n; i++) {
                uint8_t *p = program.data + program.size;
                uint32_t offset = i + 8;

                *p++ = DW_CFA_advance_loc | (i > 0);
                *p++ = DW_CFA_def_cfa_offset;
                *p++ = (uint8_t) (offset | 0x80);
                *p++ = (uint8_t) (offset >> 7 | 0x80);
                *p++ = (uint8_t) (offset >> 14);
                program.size = (size_t) (p - program.data);
        }
        maker_init(&m);
        put_entry(&m, MADE_CODE, n, program.data, program.size);
        make_file(&m, n + 100, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        assert_int_equal(table->n_rules, UNWIND_RULES_MAX);
        assert_int_equal(table->n_unknown, 1); /* one row for all that come after */
        /* Rows 1 to 768, padding to 1023, and from there on four pages a chunk. */
        assert_int_equal(table->pages[0] >> 32, 1);
        assert_int_equal(table->pages[3] >> 32, 1024);
        assert_int_equal(table->pages[7] >> 32, 2048);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(cfa_offset(table, MADE_CODE + i), i < UNWIND_RULES_MAX - 2 ? (int) i + 8 : -2);
        assert_int_equal(cfa_offset(table, MADE_CODE + n), -1);
}

/* More than are remembered, that differ in one thing alone. */
static void test_many_places(_unused_ void **state) {
        const unsigned n = 2000;
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {}, program = {};
        Maker m;

        program.data = malloc(2 * n * 4);
        assert_non_null(program.data);
        for (unsigned i = 0; i < 2 * n; i++) {
                const unsigned offset = i % n + 1;
                const uint8_t step[] = {DW_CFA_advance_loc | (i > 0), DW_CFA_offset | (i < n ? 6 : 16),
                                        (uint8_t) (offset | 0x80), (uint8_t) (offset >> 7)};

                memcpy(program.data + program.size, step, sizeof(step));
                program.size += sizeof(step);
        }
        maker_init(&m);
        put_entry(&m, MADE_CODE, 2 * n, program.data, program.size);
        make_file(&m, 2 * n, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        for (unsigned i = 0; i < 2 * n; i++) {
                const struct rs_table_rule *rule = unwind_table_find(table, MADE_CODE + i);

                assert_int_equal(rule->fp_offset, -8 * (int) MIN(i + 1, n));
                assert_int_equal(rule->ra_offset, i < n ? -8 : -8 * (int) (i % n + 1));
        }
}

/* A signal frame whose registers are where those of another one are. */
static void test_signal_beside(_unused_ void **state) {
        static const uint8_t signal[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, 0x78, 16, 1, DW_EH_PE_udata8,
                                         DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1, DW_CFA_nop};
        static const uint8_t program[] = {DW_CFA_def_cfa_offset, 16};
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init(&m);
        put_entry(&m, 0x10000, 4, program, sizeof(program));
        assert_int_equal(fwrite(signal, 1, sizeof(signal), m.to), sizeof(signal));
        put(&m, 4 + 8 + 8 + 1 + sizeof(program), 4);
        put(&m, 4 + sizeof(signal), 4);
        put(&m, 0x10004, 8);
        put(&m, 4, 8);
        put(&m, 0, 1);
        assert_int_equal(fwrite(program, 1, sizeof(program), m.to), sizeof(program));
        put_entry(&m, 0x10008, 4, program, sizeof(program));
        make_file(&m, 0x1000, &file);
        assert_int_equal(new_table(file.data, file.size, &table), 0);
        check_table(table);
        for (uint64_t at = 0x10000; at < 0x1000c; at++) {
                assert_int_equal(cfa_offset(table, at), 16);
                assert_int_equal(!!(unwind_table_find(table, at)->ra & RS_RULE_SIGNAL), at >= 0x10004 && at < 0x10008);
        }
}

static void test_too_many_rows(_unused_ void **state) {
        const uint32_t n = UNWIND_ROWS_MAX + 2;
        _cleanup_(bytes_done) Bytes file = {}, program = {};
        UnwindTable *table;
        Maker m;

        program.data = malloc(n * 3);
        assert_non_null(program.data);
        for (uint32_t i = 0; i < n; i++) {
                const uint8_t step[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, i % 2 ? 8 : 16};

                memcpy(program.data + i * 3, step, sizeof(step));
        }
        maker_init(&m);
        put_entry(&m, MADE_CODE, n + 2, program.data, n * 3);
        make_file(&m, n + 2, &file);
        assert_int_equal(new_table(file.data, file.size, &table), -EFBIG);
}

/* Wherever it is in what is read and compared at once. */
static void test_known_code(_unused_ void **state) {
        static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
        static const size_t edges[] = {4096, 0x10000, 0x10000 - 11, 0x20000 - 22, 0x20000};
        _cleanup_(bytes_done) Bytes file = {};
        Maker m;

        maker_init(&m);
        put_simple(&m, MADE_CODE, 16, 8);
        make_file(&m, 0x20010, &file);
        for (size_t i = 0; i < ELEMENTSOF(edges); i++)
                for (size_t at = edges[i] - 12; at < edges[i] + 4; at++) {
                        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;

                        memcpy(file.data + at, code, sizeof(code));
                        assert_int_equal(new_table(file.data, file.size, &table), 0);
                        check_table(table);
                        assert_int_equal(cfa_offset(table, MADE_CODE + at - 2), -1);
                        assert_int_equal(unwind_table_find(table, MADE_CODE + at - 1)->cfa_offset, 160);
                        assert_int_equal(unwind_table_find(table, MADE_CODE + at + 8)->cfa_offset, 160);
                        assert_int_equal(cfa_offset(table, MADE_CODE + at + 9), -1);
                        memset(file.data + at, 0, sizeof(code));
                }
}

static bool is_first(const UnwindTable *table, uint64_t address) {
        return (unwind_table_find(table, address)->ra & RS_RULE_REG_MASK) == RS_REG_UNDEFINED;
}

/* Where the kernel begins: the first frame of all, unless something else is said of it. */
static void test_entry_point(_unused_ void **state) {
        static const struct {
                uint64_t entry;
                unsigned first; /* bytes from there on; 0: none */
        } files[] = {
                {0x10080, 64},   /* before all that is known */
                {0x10128, 8},    /* up to what is known */
                {0x101f8, 64},   /* behind it, */
                {0x10ff0, 16},   /* as far as there is code */
                {0x10100, 0},    /* it is known: where something begins, */
                {0x10130, 0},
                {0x10110, 0},    /* and in its middle */
                {0, 0}, {0xffff, 0}, {0x11000, 0}, {UINT64_MAX, 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                _cleanup_(bytes_done) Bytes file = {};
                Maker m;

                maker_init(&m);
                put_simple(&m, 0x10100, 0x28, 20);
                put_simple(&m, 0x10130, 0x20, 30);
                make_file(&m, 0x1000, &file);
                ((Elf64_Ehdr *) file.data)->e_entry = files[i].entry;
                assert_int_equal(new_table(file.data, file.size, &table), 0);
                check_table(table);
                for (uint64_t at = 0x10000; at < 0x11100; at++) {
                        assert_int_equal(is_first(table, at), at - files[i].entry < files[i].first);
                        if (at - 0x10100 < 0x28)
                                assert_int_equal(cfa_offset(table, at), 20);
                        else if (at - 0x10130 < 0x20)
                                assert_int_equal(cfa_offset(table, at), 30);
                        else if (!is_first(table, at))
                                assert_int_equal(cfa_offset(table, at), -1);
                }
        }
}

static void test_too_large(_unused_ void **state) {
        _cleanup_(bytes_done) Bytes file = {}, second = {};
        UnwindTable *table;
        Maker m;

        maker_init(&m);
        put_simple(&m, MADE_CODE, 16, 8);
        make_file(&m, (uint64_t) UNWIND_PAGES_MAX * RS_TABLE_PAGE, &file);
        assert_int_equal(new_table(file.data, file.size, &table), -EFBIG);
        /* The file has no such code. */
        maker_init(&m);
        put_simple(&m, MADE_CODE, 16, 8);
        make_file(&m, 1 << 20, &second);
        assert_int_equal(new_table(second.data, 4096, &table), -EBADMSG);
}

/* Common entries that do nothing for long, each of them needed by many others in turn. */
static void test_too_much_work(_unused_ void **state) {
        const size_t distance = 64 * 4 * 256, n = 40000;
        _cleanup_(bytes_done) Bytes file = {};
        UnwindTable *table;
        Maker m;

        maker_init(&m);
        for (size_t i = 0; i < 2; i++) {
                size_t size = distance * (i + 1) - (size_t) ftell(m.to);

                put(&m, size - 4, 4);
                put(&m, 0, 4);
                put(&m, 1, 1);
                put(&m, 0, 1);
                put(&m, 0x107801, 3);
                for (size_t k = 13; k < size; k++)
                        put(&m, DW_CFA_nop, 1);
        }
        for (size_t i = 0; i < n; i++) {
                put(&m, 20, 4);
                put(&m, (uint64_t) ftell(m.to) - (i % 2) * distance, 4);
                put(&m, MADE_CODE + 16 * i, 8);
                put(&m, 16, 8);
        }
        make_file(&m, 1 << 20, &file);
        assert_int_equal(new_table(file.data, file.size, &table), -EFBIG);
}

/* Bytes of .eh_frame are few, addresses are many, and each 16 of them make two rows. */
static void put_plt(Maker *m, uint64_t size) {
        static const uint8_t program[] = {DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15,
                                          DW_OP_and, DW_OP_lit10, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};

        put_entry(m, MADE_CODE, size, program, sizeof(program));
}

static void test_too_many_addresses(_unused_ void **state) {
        const size_t n = 24000; /* 1 MB */
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(bytes_done) Bytes growing = {}, same = {};
        Maker m;

        maker_init(&m);
        for (size_t i = 0; i < n; i++)
                put_plt(&m, (4U << 20) + i * 16);
        make_file(&m, 60U << 20, &growing);
        assert_true(growing.size < 1100000);
        assert_int_equal(new_table(growing.data, growing.size, &table), -EFBIG);

        /* What is covered already costs nothing. */
        maker_init(&m);
        for (size_t i = 0; i < n; i++)
                put_plt(&m, 4U << 20);
        make_file(&m, 60U << 20, &same);
        assert_int_equal(new_table(same.data, same.size, &table), 0);
        check_table(table);
        assert_int_equal(table->n_entries, n);
        assert_int_equal(cfa_offset(table, MADE_CODE + (4U << 20) - 7), 8);
        assert_int_equal(cfa_offset(table, MADE_CODE + (4U << 20) - 6), 16);
        assert_int_equal(cfa_offset(table, MADE_CODE + (4U << 20)), -1);
}

/* Damage. */

static void try_table(const uint8_t *data, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        int r = new_table(data, size, &table);

        assert_true(r == 0 || r == -EBADMSG || r == -ENOENT || r == -EFBIG);
        if (r == 0)
                check_table(table);
}

/* The middle is code, which only has to be there. */
static void test_truncated_file(_unused_ void **state) {
        static const char *const names[] = {"aarch64", "aarch64-debug", "x86-64", "x86-64-compressed", "x86-64-index"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(bytes_done) Bytes file = read_fixture("FIXTURES", names[i], "");

                for (size_t size = 0; size < file.size; size++) {
                        if (size > 2048 && size + 2048 < file.size && size % 256 != 0)
                                continue;
                        try_table(file.data, size);
                }
        }
}

static Elf64_Shdr *find_section(const Bytes *file, const char *name) {
        Elf64_Ehdr *header = (Elf64_Ehdr *) file->data;
        Elf64_Shdr *sections = (Elf64_Shdr *) (file->data + header->e_shoff);

        for (size_t i = 0; i < header->e_shnum; i++)
                if (strcmp((char *) file->data + sections[header->e_shstrndx].sh_offset + sections[i].sh_name, name) == 0)
                        return &sections[i];
        fail();
        return NULL;
}

/* Only between two entries can it end. */
static void test_truncated_section(_unused_ void **state) {
        static const struct {
                const char *name, *section;
        } files[] = {{"x86-64", ".eh_frame"}, {"x86-64-debug", ".debug_frame"}, {"aarch64", ".eh_frame"}};

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_(bytes_done) Bytes file = read_fixture("FIXTURES", files[i].name, "");
                Elf64_Shdr *section = find_section(&file, files[i].section);
                const size_t whole = section->sh_size;
                size_t n_malformed = 0;

                for (size_t size = 0; size < whole; size++) {
                        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                        int r;

                        section->sh_size = size;
                        r = new_table(file.data, file.size, &table);
                        assert_true(r == 0 || r == -EBADMSG);
                        n_malformed += r < 0;
                }
                assert_true(n_malformed > whole / 2);
        }
}

static void test_damaged_bytes(_unused_ void **state) {
        static const char *const names[][2] = {{"x86-64", ".eh_frame"}, {"aarch64", ".eh_frame"},
                                               {"aarch64-debug", ".debug_frame"}, {"x86-64-compressed", ".debug_frame"}};
        static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(bytes_done) Bytes file = read_fixture("FIXTURES", names[i][0], "");
                const Elf64_Shdr *section = find_section(&file, names[i][1]);

                for (size_t at = 0; at < section->sh_size; at++) {
                        uint8_t *byte = file.data + section->sh_offset + at, saved = *byte;

                        for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                                *byte = values[k];
                                try_table(file.data, file.size);
                        }
                        *byte = saved;
                }
        }
}

/* Against elfutils: what each says of random registers and memory. */

/* Higher than any register, so that every frame is above the last one. */
/* Registers are near each other, and what is saved on a stack is of that stack, or steps do not go on. */
#define MADE_UP_SP UINT64_C(0x70000000)

static int made_up_memory(_unused_ void *userdata, uint64_t address, uint64_t *ret) {
        *ret = MADE_UP_SP + 8 + (((address * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & ~UINT64_C(7));
        return 0;
}

static uint64_t memory_at(uint64_t address) {
        uint64_t word;

        made_up_memory(NULL, address, &word);
        return word;
}

static bool evaluate(const Dwarf_Op *ops, size_t n_ops, const WalkState *s, uint64_t cfa, uint64_t *ret,
                     bool *ret_is_value) {
        uint64_t stack[16] = {};
        size_t n = 0;

        *ret_is_value = false;
        for (size_t i = 0; i < n_ops; i++) {
                const Dwarf_Op *op = &ops[i];
                uint64_t *top = n > 0 ? &stack[n - 1] : NULL, *second = n > 1 ? &stack[n - 2] : NULL;

                if (n == ELEMENTSOF(stack))
                        return false;
                if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
                        stack[n++] = s->regs[op->atom - DW_OP_breg0] + op->number;
                else if (op->atom == DW_OP_bregx && op->number < 32)
                        stack[n++] = s->regs[op->number] + op->number2;
                else if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
                        stack[n++] = op->atom - DW_OP_lit0;
                else if (op->atom == DW_OP_call_frame_cfa)
                        stack[n++] = cfa;
                else if (op->atom == DW_OP_stack_value && n == 1)
                        *ret_is_value = true;
                else if (op->atom == DW_OP_plus_uconst && top)
                        *top += op->number;
                else if (op->atom == DW_OP_deref && top)
                        *top = memory_at(*top);
                else if (op->atom == DW_OP_plus && second)
                        *second += *top, n--;
                else if (op->atom == DW_OP_and && second)
                        *second &= *top, n--;
                else if (op->atom == DW_OP_ge && second)
                        *second = (int64_t) *second >= (int64_t) *top, n--;
                else if (op->atom == DW_OP_shl && second)
                        *second <<= *top, n--;
                else
                        return false;
        }
        if (n == 0)
                return false;
        *ret = stack[n - 1];
        return true;
}

enum Found {
        FOUND_VALUE,
        FOUND_SAME,
        FOUND_UNDEFINED,
        FOUND_OTHER,
};

static enum Found find_register(Dwarf_Frame *frame, int reg, const WalkState *s, uint64_t cfa, uint64_t *ret) {
        Dwarf_Op memory[3], *ops;
        size_t n;
        bool is_value;

        assert_int_equal(dwarf_frame_register(frame, reg, memory, &ops, &n), 0);
        if (n == 0)
                return ops == memory ? FOUND_UNDEFINED : FOUND_SAME;
        if (n == 1 && ops->atom == DW_OP_regx && ops->number == (Dwarf_Word) reg)
                return FOUND_SAME;
        if (!evaluate(ops, n, s, cfa, ret, &is_value))
                return FOUND_OTHER;
        if (is_value)
                return FOUND_OTHER; /* a rule says only where something was saved */
        *ret = memory_at(*ret);
        return FOUND_VALUE;
}

typedef struct Comparison {
        const UnwindTable *table;
        Dwarf_CFI *cfi, *debug_cfi;
        WalkStep step;
        bool known_code; /* there is some, which CFI does not describe */
        int fp, sp, ra, n_regs;
        uint32_t preserved; /* by convention, as elfutils has it, but for the frame pointer */
        size_t n_rows, n_none, n_unknown, n_lost, n_kept;
} Comparison;

/*
 * Registers that rules do not tell of: all are known after a step, or none. Elfutils has those that a convention does not
 * preserve as undefined where nothing is said of them.
 */
static void compare_others(Comparison *c, Dwarf_Frame *frame, uint64_t address, const WalkState *before, uint32_t known,
                           uint64_t cfa) {
        const struct rs_table_rule *rule = unwind_table_find(c->table, address);
        bool keeps = rule->reg == c->fp || rule->reg == c->sp;
        uint32_t others = 0;

        for (int reg = 0; reg < c->n_regs; reg++) {
                uint64_t value;
                enum Found found;

                if (reg == c->fp || reg == c->sp || reg == c->ra)
                        continue;
                others |= 1U << reg;
                found = find_register(frame, reg, before, cfa, &value);
                if (found == FOUND_VALUE || found == FOUND_OTHER || (found == FOUND_UNDEFINED && (c->preserved >> reg & 1)))
                        keeps = false;
        }
        if ((known & others) != (keeps ? others : 0))
                fail_msg("%" PRIx64 ": %" PRIx32 " are known", address, known);
        c->n_kept += keeps;
}

static void compare_address(Comparison *c, uint64_t address) {
        const struct rs_table_rule *rule = unwind_table_find(c->table, address);
        const Walk walk = { .read = made_up_memory };
        WalkState before = { .pc = address, .known = UINT32_MAX, .exact = 1 }, after;
        _cleanup_free_ Dwarf_Frame *frame = NULL;
        uint64_t cfa, ra = 0, fp = 0;
        enum Found found;
        Dwarf_Op *ops;
        size_t n;
        bool is_value;
        int r;

        for (unsigned i = 0; i < ELEMENTSOF(before.regs); i++)
                before.regs[i] = MADE_UP_SP + (i == (unsigned) c->sp ? 0 : (i + 1) * UINT64_C(0x100000));
        if (c->ra == 16)
                before.regs[16] = address; /* rip */
        c->n_rows++;
        /* By code that is known, and not by CFI; golden text has these. */
        if (c->known_code && ((rule->ra & RS_RULE_SIGNAL) || (rule->ra & RS_RULE_REG_MASK) == RS_REG_UNDEFINED))
                return;
        if (dwarf_cfi_addrframe(c->cfi, address, &frame) != 0 &&
            (!c->debug_cfi || dwarf_cfi_addrframe(c->debug_cfi, address, &frame) != 0)) {
                if (rule->cfa != RS_CFA_NONE && rule->cfa != RS_CFA_UNKNOWN)
                        fail_msg("%" PRIx64 ": a rule", address);
                c->n_none++;
                return;
        }
        if (rule->cfa == RS_CFA_UNKNOWN) {
                c->n_unknown++;
                return;
        }
        if (rule->cfa == RS_CFA_NONE)
                fail_msg("%" PRIx64 ": no rule", address);
        after = before;
        r = c->step(&walk, &after, rule);
        assert_int_equal(dwarf_frame_cfa(frame, &ops, &n), 0);
        assert_true(evaluate(ops, n, &before, 0, &cfa, &is_value));
        found = find_register(frame, c->ra, &before, cfa, &ra);
        if (found == FOUND_UNDEFINED) {
                assert_int_equal(r, RS_WALK_COMPLETE);
                return;
        }
        if (found == FOUND_SAME)
                ra = before.regs[c->ra];
        if (r != 0 || after.regs[c->sp] != cfa || after.pc != ra)
                fail_msg("%" PRIx64 ": %d, CFA %" PRIx64 " and not %" PRIx64 ", ra %" PRIx64 " and not %" PRIx64, address, r,
                         after.regs[c->sp], cfa, after.pc, ra);
        found = find_register(frame, c->fp, &before, cfa, &fp);
        if (found == FOUND_SAME)
                fp = before.regs[c->fp];
        if (found == FOUND_VALUE && !(after.known >> c->fp & 1))
                c->n_lost++;
        else if (found == FOUND_VALUE || found == FOUND_SAME) {
                if (!(after.known >> c->fp & 1) || after.regs[c->fp] != fp)
                        fail_msg("%" PRIx64 ": fp %" PRIx64 " and not %" PRIx64, address, after.regs[c->fp], fp);
        } else
                assert_false(after.known >> c->fp & 1);
        compare_others(c, frame, address, &before, after.known, cfa);
}

/* The first and the last byte of a row, and every one of code that is described as a PLT. */
static void compare_row(Comparison *c, uint64_t start, uint64_t end) {
        if (unwind_table_find(c->table, start)->cfa == RS_CFA_PLT)
                for (uint64_t address = start; address < end; address++)
                        compare_address(c, address);
        compare_address(c, start);
        if (end - 1 > start)
                compare_address(c, end - 1);
}

/* false: there is no such file. every: of so many rows one is compared. */
static bool compare_file(const char *path, size_t every, bool known_code, Comparison *ret) {
        _cleanup_(elf_file_freep) ElfFile *own = NULL;
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        Comparison c = { .step = walk_step_x86_64, .fp = 6, .sp = 7, .ra = 16, .n_regs = 16, .preserved = 0xf << 12 };
        uint64_t start = 0;
        size_t n = 0;
        Dwarf *dwarf;
        Elf *elf;
        int fd, own_fd;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        own_fd = dup(fd);
        assert_int_equal(elf_file_new_take_fd(&own, own_fd), 0);
        assert_int_equal(unwind_table_new(&table, own), 0);
        check_table(table);
        if (elf_file_get_machine(own) == EM_AARCH64)
                c = (Comparison){ .step = walk_step_aarch64, .fp = 29, .sp = 31, .ra = 30, .n_regs = 32,
                                  .preserved = 0x3ff << 19 };
        c.table = table;
        c.known_code = known_code;
        (void) elf_version(EV_CURRENT);
        elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
        c.cfi = dwarf_getcfi_elf(elf);
        dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
        c.debug_cfi = dwarf ? dwarf_getcfi(dwarf) : NULL;
        assert_true(c.cfi || c.debug_cfi);
        for (size_t i = 0; i < table->n_pages; i++)
                for (size_t k = 0; k < (uint32_t) table->pages[i]; k++) {
                        uint64_t next = table->base + i * RS_TABLE_PAGE +
                                        (table->rows[(table->pages[i] >> 32) + k] >> RS_TABLE_ROW_SHIFT);

                        if (start != 0 && n++ % every == 0)
                                compare_row(&c, start, next);
                        start = next;
                }
        if (c.cfi)
                dwarf_cfi_end(c.cfi);
        dwarf_end(dwarf);
        elf_end(elf);
        (void) close(fd);
        print_message("%s: %zu compared, %zu without a rule, %zu of no kind we have, %zu that save nothing\n", path, c.n_rows,
                      c.n_none, c.n_unknown, c.n_kept);
        *ret = c;
        return true;
}

static void test_against_elfutils(_unused_ void **state) {
        /* As many rows as take some seconds. */
        static const struct {
                const char *path;
                size_t every;
                bool must;
        } files[] = {
                {"/lib/x86_64-linux-gnu/libc.so.6", 3, false},
                {"/lib64/libc.so.6", 3, false},
                {"/usr/bin/python3", 7, false},
                {"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 7, false},
                {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 7, false},
                {"/usr/lib/gcc/x86_64-linux-gnu/*/cc1", 101, false},
                {"/usr/lib/x86_64-linux-gnu/libLLVM*.so*", 211, false},
        };
        size_t n_files = 0;

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                Comparison c;
                glob_t found;

                if (glob(files[i].path, 0, NULL, &found) == 0) {
                        if (compare_file(found.gl_pathv[0], files[i].every, false, &c)) {
                                n_files++;
                                assert_true(c.n_rows > 1000);
                                assert_true(c.n_unknown * 1000 <= c.n_rows);
                                assert_int_equal(c.n_lost, 0);
                                assert_true(c.n_none * 2 < c.n_rows);
                        }
                        globfree(&found);
                }
        }
        if (n_files == 0)
                skip();
}

/* What files of compilers have not: by the fixtures. */
static void test_fixtures_against_elfutils(_unused_ void **state) {
        static const char *const names[] = {"x86-64", "x86-64-debug", "aarch64", "aarch64-debug"};
        char path[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                Comparison c;

                snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), names[i]);
                assert_true(compare_file(path, 1, true, &c));
        }
}

#ifdef __x86_64__
static const uint8_t trampoline[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3 };

static void check_trampoline(const UnwindTable *table, size_t at, bool marked) {
        for (size_t i = marked ? 0 : 4; i < sizeof(trampoline); i++) {
                const struct rs_table_rule *rule = unwind_table_find(table, at + i);

                assert_int_equal(rule->cfa, RS_CFA_REG);
                assert_int_equal(rule->reg, 7);
                assert_int_equal(rule->cfa_offset, i >= 8 && i < 14 ? 16 : 8);
                assert_int_equal(rule->fp, RS_REG_SAME);
                assert_int_equal(rule->ra, RS_REG_AT_CFA);
                assert_int_equal(rule->ra_offset, -8);
        }
        assert_int_equal(unwind_table_find(table, at + sizeof(trampoline))->cfa, RS_CFA_NONE);
        assert_int_equal(unwind_table_find(table, at + (marked ? -1 : 3))->cfa, RS_CFA_NONE);
}

/* As Python has it for a map, and for a dump, in which there is room behind each. */
static void test_trampolines(void **state) {
        static const struct {
                size_t first, step;
                bool marked;
        } layouts[] = { { 0, 16, true }, { 0, 0x110, true }, { 32, 16, false }, { 0xf8, 0x1000, true } };

        (void) state;
        for (size_t i = 0; i < ELEMENTSOF(layouts); i++) {
                _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                size_t size = 64 << 10, last = 0;
                _cleanup_free_ uint8_t *code = calloc(1, size);

                assert_non_null(code);
                for (size_t at = layouts[i].first; at + sizeof(trampoline) <= size; last = at, at += layouts[i].step)
                        memcpy(code + at + (layouts[i].marked ? 0 : 4), trampoline + (layouts[i].marked ? 0 : 4),
                               sizeof(trampoline) - (layouts[i].marked ? 0 : 4));
                assert_true(unwind_table_knows_code(code, layouts[i].first + 64));
                assert_return_code(unwind_table_new_of_code(&table, code, size), 0);
                assert_int_equal(table->base, 0);
                assert_int_equal(table->n_pages, (last + sizeof(trampoline) + 255) / 256);
                for (size_t at = layouts[i].first; at <= last; at += layouts[i].step)
                        check_trampoline(table, at, layouts[i].marked);
        }
}

/* A piece that is not there whole is none; and what is before the first need not be there. */
static void test_trampolines_by_halves(void **state) {
        (void) state;
        for (size_t size = 0; size < sizeof(trampoline); size++) {
                _cleanup_free_ uint8_t *code = malloc(MAX(size, (size_t) 1));
                UnwindTable *table;

                assert_non_null(code);
                memcpy(code, trampoline, size);
                assert_false(unwind_table_knows_code(code, size));
                assert_int_equal(unwind_table_new_of_code(&table, code, size), -ENOENT);
        }
        for (size_t from = 1; from <= 4; from++) {
                _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                size_t size = sizeof(trampoline) - from;
                _cleanup_free_ uint8_t *code = malloc(size);

                assert_non_null(code);
                memcpy(code, trampoline + from, size);
                assert_return_code(unwind_table_new_of_code(&table, code, size), 0);
                assert_int_equal(unwind_table_find(table, 4 - from)->cfa_offset, 8);
                assert_int_equal(unwind_table_find(table, 8 - from)->cfa_offset, 16);
        }
}
#endif

int main(void) {
        static const struct CMUnitTest tests[] = {
#ifdef __x86_64__
                cmocka_unit_test(test_trampolines),
                cmocka_unit_test(test_trampolines_by_halves),
#endif
                cmocka_unit_test(test_x86_64),
                cmocka_unit_test(test_aarch64),
                cmocka_unit_test(test_sources),
                cmocka_unit_test(test_sources_together),
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_stopped),
                cmocka_unit_test(test_vdso),
                cmocka_unit_test(test_overlapping),
                cmocka_unit_test(test_frequent),
                cmocka_unit_test(test_saved_by_all),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_dense),
                cmocka_unit_test(test_many_places),
                cmocka_unit_test(test_signal_beside),
                cmocka_unit_test(test_too_many_rows),
                cmocka_unit_test(test_known_code),
                cmocka_unit_test(test_entry_point),
                cmocka_unit_test(test_too_large),
                cmocka_unit_test(test_too_much_work),
                cmocka_unit_test(test_too_many_addresses),
                cmocka_unit_test(test_truncated_file),
                cmocka_unit_test(test_truncated_section),
                cmocka_unit_test(test_damaged_bytes),
                cmocka_unit_test(test_against_elfutils),
                cmocka_unit_test(test_fixtures_against_elfutils),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
