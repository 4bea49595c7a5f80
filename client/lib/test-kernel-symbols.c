/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <time.h>

#include <cmocka.h>

#include "record.h"
#include "test-alloc.h"
#include "test-kernel-symbols.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int setup(void **state) {
        return kernel_symbols_new((KernelSymbols **) state);
}

static int teardown(void **state) {
        assert_null(kernel_symbols_free(*state));
        return 0;
}

static void usual(NamesFile *file) {
        names_init(file, 1);
        names_module(file, RS_MODULE_CORE, "kernel");
        names_symbol(file, 0x10, "_stext");
        names_symbol(file, 0x100, "do_syscall_64");
        names_symbol(file, 0x200, "another_name");
        names_symbol(file, 0x200, "ksys_read");
        names_symbol(file, 0x300, "vfs_read");
        names_module(file, 3, "ext4");
        names_symbol(file, 0, "ext4_read");
        names_module(file, 7, "empty");
}

static int add(KernelSymbols *symbols, const NamesFile *file) {
        _cleanup_free_ uint8_t *bytes = NULL;
        size_t size;

        bytes = names_pack(file, &size);
        return kernel_symbols_copy(symbols, bytes, size);
}

static void expect(const KernelSymbols *symbols, unsigned module, uint64_t at, const char *module_name, const char *name,
                   uint64_t offset) {
        KernelSymbol symbol;

        assert_int_equal(kernel_symbols_find(symbols, module, at, &symbol), 0);
        assert_string_equal(symbol.module, module_name);
        assert_string_equal(symbol.name, name);
        assert_int_equal(symbol.offset, offset);
}

static void test_find(void **state) {
        KernelSymbols *symbols = *state;
        KernelSymbol symbol;
        NamesFile file;

        assert_int_equal(kernel_symbols_find(symbols, 0, 0, &symbol), -ENOENT);
        assert_null(symbol.module);
        usual(&file);
        assert_int_equal(add(symbols, &file), 3);
        assert_int_equal(kernel_symbols_find(symbols, 0, 0xf, &symbol), -ENOENT);
        assert_string_equal(symbol.module, "kernel");
        expect(symbols, 0, 0x10, "kernel", "_stext", 0);
        expect(symbols, 0, 0xff, "kernel", "_stext", 0xef);
        expect(symbols, 0, 0x100, "kernel", "do_syscall_64", 0);
        expect(symbols, 0, 0x200, "kernel", "ksys_read", 0);
        expect(symbols, 0, 0x2ff, "kernel", "ksys_read", 0xff);
        expect(symbols, 0, 0xffffffffffff, "kernel", "vfs_read", 0xffffffffffff - 0x300);
        expect(symbols, 3, 5, "ext4", "ext4_read", 5);
        assert_int_equal(kernel_symbols_find(symbols, 7, 5, &symbol), -ENOENT);
        assert_string_equal(symbol.module, "empty");
        assert_int_equal(kernel_symbols_find(symbols, 4, 5, &symbol), -ENOENT);
        assert_int_equal(kernel_symbols_find(symbols, 0x7fff, 5, &symbol), -ENOENT);
        assert_int_equal(kernel_symbols_find(symbols, UINT32_MAX, 5, &symbol), -ENOENT);
        assert_null(symbol.module);
}

/* A module that is gone keeps its names, and a number the names it had first. */
static void test_generations(void **state) {
        KernelSymbols *symbols = *state;
        NamesFile file;

        usual(&file);
        assert_int_equal(add(symbols, &file), 3);
        names_init(&file, 2);
        names_module(&file, RS_MODULE_CORE, "kernel");
        names_symbol(&file, 0x10, "changed");
        names_module(&file, 8, "ext4");
        names_symbol(&file, 4, "ext4_write");
        assert_int_equal(add(symbols, &file), 1);
        expect(symbols, 0, 0x10, "kernel", "_stext", 0);
        expect(symbols, 3, 4, "ext4", "ext4_read", 4);
        expect(symbols, 8, 4, "ext4", "ext4_write", 0);
        assert_int_equal(add(symbols, &file), 0);
}

static void test_memfd(void **state) {
        KernelSymbols *symbols = *state;
        static const int too_few[] = { 0, F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW | F_SEAL_SEAL };
        _cleanup_close_ int fd = -1;
        NamesFile file;
        int pair[2];
        size_t size;

        usual(&file);
        for (size_t i = 0; i < ELEMENTSOF(too_few); i++) {
                _cleanup_close_ int open_fd = names_memfd(&file, too_few[i], &size);

                assert_int_equal(kernel_symbols_add(symbols, open_fd, size), -EPERM);
        }
        fd = names_memfd(&file, SEALS, &size);
        assert_int_equal(kernel_symbols_add(symbols, fd, 0), -EBADMSG);
        assert_int_equal(kernel_symbols_add(symbols, fd, size + 1), -EBADMSG);
        assert_int_equal(kernel_symbols_add(symbols, fd, size - 1), -EBADMSG);
        assert_int_equal(kernel_symbols_add(symbols, fd, UINT64_MAX), -EFBIG);
        assert_int_equal(kernel_symbols_add(symbols, fd, size), 3);
        expect(symbols, 0, 0x100, "kernel", "do_syscall_64", 0);
        assert_int_equal(kernel_symbols_add(symbols, fd, size), 0);
        close_fd(fd);

        /* The second's are copied. */
        names_module(&file, 9, "late");
        names_symbol(&file, 0x10, "late_read");
        fd = names_memfd(&file, SEALS, &size);
        assert_int_equal(kernel_symbols_add(symbols, fd, size), 1);
        expect(symbols, 9, 0x12, "late", "late_read", 2);
        expect(symbols, 3, 5, "ext4", "ext4_read", 5);

        assert_int_equal(kernel_symbols_add(symbols, -1, size), -EBADF);
        assert_return_code(pipe(pair), errno);
        assert_int_equal(kernel_symbols_add(symbols, pair[0], size), -EPERM);
        close_fd(pair[0]);
        close_fd(pair[1]);
}

/* Cut off anywhere: refused. */
static void test_truncated(void **state) {
        _cleanup_free_ uint8_t *bytes = NULL;
        NamesFile file;
        size_t size;

        usual(&file);
        bytes = names_pack(&file, &size);
        for (size_t n = 0; n < size; n++) {
                /* Of exactly this size, so that a sanitizer sees what is read beyond. */
                _cleanup_free_ uint8_t *cut = malloc(n);

                memcpy(cut, bytes, n);
                assert_int_equal(kernel_symbols_copy(*state, cut, n), -EBADMSG);
                assert_int_equal(kernel_symbols_refer(*state, cut, n), -EBADMSG);
        }
}

/* Every byte, changed: refused or taken in, but never read beyond, and what is found ends. */
static void test_changed(_unused_ void **state) {
        _cleanup_free_ uint8_t *bytes = NULL;
        NamesFile file;
        size_t size;

        usual(&file);
        bytes = names_pack(&file, &size);
        for (size_t i = 0; i < size * 6; i++) {
                KernelSymbols *symbols;
                KernelSymbol symbol;
                uint8_t old = bytes[i / 6];

                assert_return_code(kernel_symbols_new(&symbols), 0);
                bytes[i / 6] = (const uint8_t[]){ 0, 0xff, old ^ 1 }[i % 3];
                (void) (i % 2 ? kernel_symbols_copy : kernel_symbols_refer)(symbols, bytes, size);
                for (uint64_t at = 0; at < 0x400; at += 0x80)
                        if (kernel_symbols_find(symbols, 0, at, &symbol) >= 0)
                                assert_in_range(strlen(symbol.name), 0, 511);
                bytes[i / 6] = old;
                kernel_symbols_free(symbols);
        }
}

static void test_bad(void **state) {
        NamesFile good, bad;

        usual(&good);
#define EXPECT(result, ...)                                                                                            \
        do {                                                                                                           \
                bad = good;                                                                                            \
                __VA_ARGS__;                                                                                           \
                assert_int_equal(add(*state, &bad), result);                                                           \
        } while (0)
        EXPECT(-EBADMSG, bad.header.magic++);
        EXPECT(-EBADMSG, bad.header.version++);
        EXPECT(-EBADMSG, bad.modules[1].number = 0);               /* twice */
        EXPECT(-EBADMSG, bad.modules[1].number = 8);               /* not sorted */
        EXPECT(-EBADMSG, bad.modules[2].number = RS_MODULE_MAX);
        EXPECT(-EBADMSG, bad.modules[1].first_symbol--);           /* overlaps */
        EXPECT(-EBADMSG, bad.modules[0].nr_symbols = UINT32_MAX);
        EXPECT(-EBADMSG, bad.modules[2].nr_symbols++);
        EXPECT(-EBADMSG, bad.modules[0].nr_symbols--, bad.modules[1].first_symbol--); /* one too many at the end */
        EXPECT(-EBADMSG, bad.modules[0].name = bad.header.strings_size);
        EXPECT(-EBADMSG, bad.symbols[2].name = UINT32_MAX);
        EXPECT(-EBADMSG, bad.symbols[2].offset = 0);               /* not sorted */
        EXPECT(-EBADMSG, bad.strings[bad.header.strings_size - 1] = 'x'); /* does not end */
#undef EXPECT
}

/* What is not looked at before it is looked up: a name beyond all, and one that is longer than any kernel's. */
static void test_referred(void **state) {
        _cleanup_free_ uint8_t *bytes = NULL;
        char name[512];
        NamesFile file;
        KernelSymbol symbol;
        size_t size;

        memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        usual(&file);
        names_module(&file, 9, "last");
        names_symbol(&file, 0, "good");
        names_symbol(&file, 0x100, "beyond");
        file.symbols[file.header.nr_symbols - 1].name = UINT32_MAX;
        names_symbol(&file, 0x200, name);
        names_symbol(&file, 0x300, "tail");
        file.strings[file.symbols[file.header.nr_symbols - 1].name - 1] = 'x'; /* where the one before ended */
        names_symbol(&file, 0x400, name);
        bytes = names_pack(&file, &size);
        assert_int_equal(kernel_symbols_refer(*state, bytes, size), 4);
        expect(*state, 9, 1, "last", "good", 1);
        expect(*state, 0, 0x100, "kernel", "do_syscall_64", 0);
        assert_int_equal(kernel_symbols_find(*state, 9, 0x101, &symbol), -ENOENT);
        assert_string_equal(symbol.module, "last");
        assert_null(symbol.name);
        assert_int_equal(kernel_symbols_find(*state, 9, 0x201, &symbol), -ENOENT);
        assert_null(symbol.name);
        expect(*state, 9, 0x301, "last", "tail", 1);
        expect(*state, 9, 0x401, "last", name, 1);
        /* Nothing of it is new. */
        assert_int_equal(kernel_symbols_copy(*state, bytes, size), 0);
}

/* A few bytes that claim to be much more than there is memory for. */
static void test_claims(void **state) {
        struct rs_kernel_names header = { .magic = RS_KERNEL_NAMES_MAGIC, .version = RS_KERNEL_NAMES_VERSION };

        assert_int_equal(kernel_symbols_copy(*state, &header, sizeof(header)), 0);
        header.nr_symbols = UINT32_MAX;
        assert_int_equal(kernel_symbols_copy(*state, &header, sizeof(header)), -EFBIG);
        header.nr_symbols = 0;
        header.nr_modules = UINT32_MAX;
        assert_int_equal(kernel_symbols_copy(*state, &header, sizeof(header)), -EFBIG);
        header.nr_modules = 0;
        header.strings_size = UINT64_MAX - 31;
        assert_int_equal(kernel_symbols_copy(*state, &header, sizeof(header)), -EFBIG);
        assert_int_equal(kernel_symbols_copy(*state, &header, RS_KERNEL_NAMES_SIZE_MAX + 1ULL), -EFBIG);
}

/* Half a million names that share one long string would take gigabytes, each with its own. */
static void test_shared_names(void **state) {
        enum { N = 600000, LONG = 1000 };
        size_t size = sizeof(struct rs_kernel_names) + sizeof(struct rs_kernel_module) +
                      N * sizeof(struct rs_kernel_symbol) + LONG;
        _cleanup_free_ uint8_t *bytes = calloc(1, size);
        struct rs_kernel_names *header = (struct rs_kernel_names *) bytes;
        struct rs_kernel_module *module = (struct rs_kernel_module *) (header + 1);
        struct rs_kernel_symbol *symbols = (struct rs_kernel_symbol *) (module + 1);

        assert_non_null(bytes);
        *header = (struct rs_kernel_names){
                .magic = RS_KERNEL_NAMES_MAGIC,
                .version = RS_KERNEL_NAMES_VERSION,
                .nr_modules = 1,
                .nr_symbols = N,
                .strings_size = LONG,
        };
        module->nr_symbols = N;
        for (uint32_t i = 0; i < N; i++)
                symbols[i].offset = i;
        memset(symbols + N, 'x', LONG - 1);
        assert_int_equal(kernel_symbols_copy(*state, bytes, size), -EFBIG);
}

static double cpu_seconds(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
}

/* As many as a kernel has: taken in in less than 100 ms, found in less than a microsecond each. */
static void test_cost(void **state) {
        enum { N = 150000, NAME = 24, FINDS = 1000000 };
        size_t size = sizeof(struct rs_kernel_names) + sizeof(struct rs_kernel_module) +
                      N * (sizeof(struct rs_kernel_symbol) + NAME);
        _cleanup_free_ uint8_t *bytes = calloc(1, size);
        struct rs_kernel_names *header = (struct rs_kernel_names *) bytes;
        struct rs_kernel_module *module = (struct rs_kernel_module *) (header + 1);
        struct rs_kernel_symbol *symbols = (struct rs_kernel_symbol *) (module + 1);
        char *strings = (char *) (symbols + N);
        double start, parsed, found;
        uint64_t random = 1;

        assert_non_null(bytes);
        *header = (struct rs_kernel_names){
                .magic = RS_KERNEL_NAMES_MAGIC,
                .version = RS_KERNEL_NAMES_VERSION,
                .nr_modules = 1,
                .nr_symbols = N,
                .strings_size = N * NAME,
        };
        module->nr_symbols = N;
        for (uint32_t i = 0; i < N; i++) {
                symbols[i] = (struct rs_kernel_symbol){ .offset = i * 128, .name = i * NAME };
                (void) snprintf(strings + i * NAME, NAME, "function_number_%u", i);
        }
        start = cpu_seconds();
        assert_int_equal(kernel_symbols_copy(*state, bytes, size), 1);
        parsed = cpu_seconds() - start;

        start = cpu_seconds();
        for (unsigned i = 0; i < FINDS; i++) {
                KernelSymbol symbol;

                random = random * 6364136223846793005U + 1442695040888963407U;
                if (kernel_symbols_find(*state, 0, (random >> 32) % (N * 128), &symbol) < 0)
                        fail();
        }
        found = cpu_seconds() - start;
        print_message("%d symbols in %.1f ms, %.0f ns to find one\n", N, parsed * 1e3, found * 1e9 / FINDS);
        assert_true(parsed < 0.1);
        assert_true(found < FINDS * 1e-6);
}

static void test_no_memory(_unused_ void **state) {
        NamesFile file;
        _cleanup_free_ uint8_t *bytes = NULL;
        size_t size;
        int n = 0, r;

        usual(&file);
        bytes = names_pack(&file, &size);
        do {
                KernelSymbols *symbols = NULL;

                allocations_left = n++;
                r = kernel_symbols_new(&symbols);
                if (r >= 0)
                        r = kernel_symbols_copy(symbols, bytes, size);
                assert_true(r == 3 || r == -ENOMEM);
                allocations_left = -1;
                if (symbols)
                        assert_return_code(kernel_symbols_copy(symbols, bytes, size), 0);
                kernel_symbols_free(symbols);
        } while (r < 0);
        assert_int_equal(n, 5); /* itself and three modules fail once each */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_find, setup, teardown),
                cmocka_unit_test_setup_teardown(test_generations, setup, teardown),
                cmocka_unit_test_setup_teardown(test_memfd, setup, teardown),
                cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
                cmocka_unit_test(test_changed),
                cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
                cmocka_unit_test_setup_teardown(test_referred, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_shared_names, setup, teardown),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test_setup_teardown(test_cost, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
