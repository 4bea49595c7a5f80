/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is read of the servers that the system names. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "server-urls.h"
#include "util.h"

static void put(const char *dir, const char *name, const char *text) {
        char path[256];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        f = fopen(path, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void drop(const char *dir, const char *name) {
        char path[256];

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        assert_return_code(remove(path), errno);
}

static void test_files(_unused_ void **state) {
        static const char *const names[] = { "b.urls", "a.urls", "empty.urls", "other.txt", ".hidden.urls", "link.urls",
                                             "long.urls" };
        char dir[] = "/tmp/test-server-urls-XXXXXX", path[256], text[5000] = "https://long.example/";
        _cleanup_free_ char *urls = NULL;

        assert_non_null(mkdtemp(dir));
        put(dir, "b.urls", "https://b.example/ \nhttps://c.example\n");
        put(dir, "a.urls", "https://a.example");
        put(dir, "empty.urls", "\n");
        memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 1);
        put(dir, "long.urls", text);
        put(dir, "other.txt", "https://other.example\n");
        put(dir, ".hidden.urls", "https://hidden.example\n");
        (void) snprintf(path, sizeof(path), "%s/link.urls", dir);
        assert_return_code(symlink("/nonexistent", path), errno);
        (void) snprintf(path, sizeof(path), "%s/fifo.urls", dir); /* which nobody writes to */
        assert_return_code(mkfifo(path, 0600), errno);
        assert_int_equal(server_urls_read(dir, &urls), 0);
        assert_string_equal(urls, "https://a.example https://b.example/ https://c.example");
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                drop(dir, names[i]);
        drop(dir, "fifo.urls");
        drop(dir, "");
}

static void test_none(_unused_ void **state) {
        _cleanup_free_ char *urls = NULL;

        assert_int_equal(server_urls_read("/nonexistent", &urls), 0);
        assert_string_equal(urls, "");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
