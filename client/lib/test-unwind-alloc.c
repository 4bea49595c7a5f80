/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The n-th allocation fails, for every n, in whatever makes or keeps unwind tables: the answer is -ENOMEM or right,
 * nothing leaks. Linked with --wrap for the allocator.
 */

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "test-alloc.h"
#include "unwind-cache.h"
#include "unwind-identity.h"

static const char *cache_path; /* NULL: no cache */

static int open_elf(const char *name, ElfFile **ret) {
        char path[PATH_MAX];
        int fd, r;

        snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        r = elf_file_new_take_fd(ret, fd);
        if (r < 0)
                close(fd);
        return r;
}

/* Returns 0 or -ENOMEM; n: rows, 0: none. */
static int make_table(const char *name, size_t *ret_n_rows) {
        _cleanup_(unwind_cache_freep) UnwindCache *cache = NULL;
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        int r;

        if (cache_path) {
                r = unwind_cache_new(&cache, cache_path, UINT64_C(64) << 20);
                if (r < 0)
                        return r;
        }
        r = open_elf(name, &elf);
        if (r < 0)
                return r;
        r = unwind_cache_get(cache, elf, &table);
        if (r >= 0) {
                *ret_n_rows = table->n_rows;
                unwind_cache_take(cache, elf, TAKE_PTR(table)); /* and written when the cache is freed */
        }
        return r;
}

static void fail_every_allocation(const char *name, bool empties) {
        char path[PATH_MAX], identity[UNWIND_IDENTITY_SIZE];
        size_t expected, n_rows;
        long n = 0;

        {
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;

                assert_int_equal(open_elf(name, &elf), 0);
                assert_true(unwind_identity_get(elf, identity));
                snprintf(path, sizeof(path), "%s/%s.table", cache_path ? cache_path : "/nowhere", identity);
        }
        assert_int_equal(make_table(name, &expected), 0);
        do {
                int r;

                if (empties)
                        (void) unlink(path);
                allocations_left = n++;
                r = make_table(name, &n_rows);
                if (allocations_left >= 0) {
                        allocations_left = -1;
                        assert_int_equal(r, 0);
                        break;
                }
                assert_true(r == -ENOMEM || r == 0);
                if (r == 0)
                        assert_int_equal(n_rows, expected);
                assert_true(n < 10000);
        } while (true);
        assert_true(n > 5);
}

static void test_tables(_unused_ void **state) {
        fail_every_allocation("x86-64", false);
        fail_every_allocation("x86-64-debug", false);
        fail_every_allocation("x86-64-index", false);
        fail_every_allocation("aarch64", false);
}

/* zlib's memory is behind no wrapper of ours. */
static void test_compressed(_unused_ void **state) {
        fail_every_allocation("x86-64-compressed", false);
}

static void test_cache(_unused_ void **state) {
        char directory[] = "/tmp/test-unwind-alloc-XXXXXX", command[64];

        assert_non_null(mkdtemp(directory));
        cache_path = directory;
        fail_every_allocation("many", true);  /* which is written */
        fail_every_allocation("many", false); /* which is read */
        cache_path = NULL;
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        assert_int_equal(system(command), 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tables),
                cmocka_unit_test(test_compressed),
                cmocka_unit_test(test_cache),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
