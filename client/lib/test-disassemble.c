/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What objdump says, and what something else says instead of it. PATH leads to fake-objdump, which says what is in the file
 * it is asked of. It has objdump's name only here: the directory that it is built in is in other tests' PATH.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "disassemble.h"
#include "util.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define PATIENCE (60 * NSEC_PER_SEC)

static int run(Disassembly *ret, const char *says, size_t size, uint64_t patience) {
        _cleanup_close_ int fd = memfd_create("says", MFD_CLOEXEC);
        int r;

        assert_return_code(fd, errno);
        assert_int_equal(write(fd, says, size), size);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        r = disassemble(ret, fd, 0, 0x1000, now_ns(CLOCK_MONOTONIC) + patience);
        /* Nobody is left. */
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        return r;
}

static void expect(const char *says, const char *expected) {
        _cleanup_(disassembly_done) Disassembly d = {};
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        assert_return_code(run(&d, says, strlen(says), PATIENCE), 0);
        for (size_t i = 0; i < d.n; i++)
                (void) fprintf(out, "%" PRIx64 " %s\n", d.items[i].address, d.text + d.items[i].text);
        (void) fclose(out);
        assert_string_equal(text, expected);
}

static void expect_failure(const char *says, int expected) {
        _cleanup_(disassembly_done) Disassembly d = {};

        assert_int_equal(run(&d, says, strlen(says), PATIENCE), expected);
        assert_int_equal(d.n, 0);
}

static void test_lines(void **state) {
        (void) state;
        expect("\n/proc/self/fd/3:     file format elf64-x86-64\n\nDisassembly of section .text:\n\n"
               "0000000000000010 <f>:\n  10:\tpush   %rbp\n  11:\tcall   20 <g>\n  14:\tret\n",
               "10 push   %rbp\n11 call   20 <g>\n14 ret\n");
        expect(" fff:\tlast\n", "fff last\n");
        expect("0:\t\n1:\ta\tb\t \t\r\n", "0 \n1 a b\n");
        /* What is of other code, or by half, or no number, is nothing. */
        expect("1:\ta\n1000:\tb\nffffffffffffffff:\tc\n11111111111111111:\td\nx:\te\n3: f\n4\n5:\n\t...\n2:\tg\n6:\th", "1 a\n2 g\n");
        expect("1:\t\033[2J\n", "1 \033[2J\n"); /* it is who shows it that escapes it */
}

static void test_nonsense(void **state) {
        _cleanup_free_ char *line = malloc(100000);

        (void) state;
        expect_failure("", -ENODATA);
        expect_failure("nothing of it\n", -ENODATA);
        expect_failure("2:\ta\n1:\tb\n", -EBADMSG);
        expect_failure("2:\ta\n2:\tb\n", -EBADMSG);
        expect_failure("fail", -EBADMSG);
        expect_failure("fall", -EBADMSG);
        assert_non_null(line);
        memset(line, 'x', 99999);
        line[99999] = 0;
        expect_failure(line, -EBADMSG);
}

static void test_long_text(void **state) {
        _cleanup_(disassembly_done) Disassembly d = {};
        char line[DISASSEMBLE_TEXT_MAX + 100];

        (void) state;
        memset(line, 'x', sizeof(line));
        memcpy(line, "7:\t", 3);
        line[sizeof(line) - 1] = '\n';
        assert_return_code(run(&d, line, sizeof(line), PATIENCE), 0);
        assert_int_equal(d.n, 1);
        assert_int_equal(strlen(d.text), DISASSEMBLE_TEXT_MAX);
}

static void test_many(void **state) {
        _cleanup_(disassembly_done) Disassembly d = {};
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        (void) state;
        for (unsigned i = 0; i < 0x1000; i++)
                (void) fprintf(out, "%x:\tinstruction %u, which is longer than most\n", i, i);
        (void) fclose(out);
        assert_return_code(run(&d, text, size, PATIENCE), 0);
        assert_int_equal(d.n, 0x1000);
        for (unsigned i = 0; i < 0x1000; i++) {
                char wanted[64];

                (void) snprintf(wanted, sizeof(wanted), "instruction %u, which is longer than most", i);
                assert_int_equal(d.items[i].address, i);
                assert_string_equal(d.text + d.items[i].text, wanted);
        }
}

/* It has what it needs, and can do nothing else. */
static void test_confined(void **state) {
        _cleanup_close_ int fd = fcntl(STDIN_FILENO, F_DUPFD, 20); /* which whoever is executed has as well */

        (void) state;
        assert_return_code(fd, errno);
        expect("misbehave", "0 others 9\n1 write 1\n2 read 0\n3 unlink 1\n4 connect 1\n5 kill 1\n6 fork 1\n7 environment 0\n"
                            "8 stdin 0\n9 stderr 9\n");
}

static void test_time(void **state) {
        _cleanup_(disassembly_done) Disassembly d = {};

        (void) state;
        assert_int_equal(run(&d, "hang", 4, NSEC_PER_SEC / 10), -ETIMEDOUT);
        assert_int_equal(run(&d, "linger", 6, NSEC_PER_SEC / 10), -ETIMEDOUT);
        assert_int_equal(run(&d, "1:\ta\n", 5, 0), -ETIMEDOUT);
        assert_int_equal(d.n, 0);
}

static void test_too_much(void **state) {
        _cleanup_(disassembly_done) Disassembly d = {};

        (void) state;
        assert_int_equal(disassemble(&d, -1, 5, 5, UINT64_MAX), -ENODATA);
        assert_int_equal(disassemble(&d, -1, 5, 4, UINT64_MAX), -ENODATA);
        assert_int_equal(disassemble(&d, -1, 0, DISASSEMBLE_SIZE_MAX + 1, UINT64_MAX), -EFBIG);
        assert_int_equal(disassemble(&d, -1, 0, UINT64_MAX, UINT64_MAX), -EFBIG);
}

static void test_not_installed(void **state) {
        assert_return_code(setenv("PATH", "/nonexistent:/dev/null", 1), errno);
        expect_failure("1:\ta\n", -ENOPKG);
        assert_return_code(setenv("PATH", *state, 1), errno);
        expect("1:\ta\n", "1 a\n");
}

static int set_up(void **state) {
        static char dir[] = "/tmp/test-disassemble-XXXXXX";
        char path[sizeof(dir) + 16];

        if (!mkdtemp(dir))
                return -1;
        (void) snprintf(path, sizeof(path), "%s/objdump", dir);
        *state = dir;
        return symlink(getenv("FAKE"), path) < 0 || setenv("PATH", dir, 1) < 0 ? -1 : 0;
}

static int tear_down(void **state) {
        char path[64];

        (void) snprintf(path, sizeof(path), "%s/objdump", (char *) *state);
        return unlink(path) < 0 || rmdir(*state) < 0 ? -1 : 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_nonsense),
                cmocka_unit_test(test_long_text),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_confined),
                cmocka_unit_test(test_time),
                cmocka_unit_test(test_too_much),
                cmocka_unit_test(test_not_installed),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
