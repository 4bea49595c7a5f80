/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files that appear whole or not at all, and are never the wrong one. */

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "output.h"
#include "util.h"

typedef struct Fixture {
        char directory[32];
        char path[64], link[64];
} Fixture;

static int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        if (!f)
                return -1;
        strcpy(f->directory, "/tmp/test-output-XXXXXX");
        if (!mkdtemp(f->directory))
                return -1;
        snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
        snprintf(f->link, sizeof(f->link), "%s/link", f->directory);
        *state = f;
        return 0;
}

static int tear_down(void **state) {
        Fixture *f = *state;
        int r;

        (void) unlink(f->path);
        (void) unlink(f->link);
        r = rmdir(f->directory); /* fails if anything was left behind */
        free(f);
        return r;
}

static void assert_holds(const char *path, const char *wanted) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        char text[64] = "";

        assert_non_null(f);
        (void) !fgets(text, sizeof(text), f);
        assert_string_equal(text, wanted);
}

static void write_file(const char *path, const char *text) {
        _cleanup_fclose_ FILE *f = fopen(path, "we");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
}

static void test_appears_at_the_end(void **state) {
        Fixture *f = *state;
        struct stat st;
        mode_t mask = umask(022);
        Output o;

        assert_int_equal(output_open(&o, f->path, NULL), 0);
        assert_true(fputs("new", o.file) >= 0);
        assert_int_equal(access(f->path, F_OK), -1);
        assert_int_equal(output_finish(&o), 0);
        output_done(&o);
        (void) umask(mask);
        assert_holds(f->path, "new");
        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0644);
}

static void test_given_up(void **state) {
        Fixture *f = *state;
        Output o;

        write_file(f->path, "old");
        assert_int_equal(output_open(&o, f->path, NULL), 0);
        assert_true(fputs("new", o.file) >= 0);
        output_done(&o);
        assert_holds(f->path, "old");
}

static void test_through_a_link(void **state) {
        Fixture *f = *state;
        struct stat st;
        Output o;

        write_file(f->path, "old");
        assert_int_equal(symlink(f->path, f->link), 0);
        assert_int_equal(output_open(&o, f->link, NULL), 0);
        assert_true(fputs("new", o.file) >= 0);
        assert_int_equal(output_finish(&o), 0);
        output_done(&o);
        assert_int_equal(lstat(f->link, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_holds(f->path, "new");
}

static void test_not_the_recording(void **state) {
        Fixture *f = *state;
        Output o;

        write_file(f->path, "recording");
        assert_int_equal(symlink(f->path, f->link), 0);
        assert_true(output_open(&o, f->path, f->path) < 0);
        assert_true(output_open(&o, f->link, f->path) < 0);
        assert_holds(f->path, "recording");
}

static mode_t mode_of(const char *path) {
        struct stat st;

        assert_int_equal(lstat(path, &st), 0);
        return st.st_mode;
}

static int write_default(const char *path) {
        mode_t mask = umask(022);
        Output o;
        int r = output_open_default(&o, path);

        if (r >= 0) {
                assert_true(fputs("new", o.file) >= 0);
                r = output_finish(&o);
                output_done(&o);
        }
        (void) umask(mask);
        return r;
}

static void test_default_name(void **state) {
        Fixture *f = *state;

        assert_int_equal(write_default(f->path), 0);
        assert_holds(f->path, "new");
        write_file(f->path, "old");
        assert_int_equal(chmod(f->path, 0666), 0);
        assert_int_equal(write_default(f->path), 0);
        assert_holds(f->path, "new");
        assert_int_equal(mode_of(f->path), S_IFREG | 0644);
}

static void test_default_name_is_planted(void **state) {
        Fixture *f = *state;

        write_file(f->path, "old");
        assert_int_equal(symlink(f->path, f->link), 0);
        assert_int_equal(write_default(f->link), -EEXIST);
        assert_true(S_ISLNK(mode_of(f->link)));
        assert_holds(f->path, "old");

        assert_int_equal(unlink(f->link), 0);
        assert_int_equal(symlink("/no/such/file", f->link), 0);
        assert_int_equal(write_default(f->link), -EEXIST);
        assert_int_equal(unlink(f->link), 0);
        /* Nobody reads it: to open it would take for ever. */
        assert_int_equal(mkfifo(f->link, 0666), 0);
        assert_int_equal(write_default(f->link), -EEXIST);
        assert_int_equal(write_default(f->directory), -EEXIST);

        if (geteuid() != 0) {
                print_message("as another user's: not checked, for want of root\n");
                return;
        }
        assert_int_equal(chown(f->path, 65534, 65534), 0);
        assert_int_equal(write_default(f->path), -EEXIST);
        assert_holds(f->path, "old");
}

/* Where it was named with -o it is replaced, but its mode was another's choice. */
static void test_mode_of_another(void **state) {
        Fixture *f = *state;
        mode_t mask = umask(022);
        Output o;

        write_file(f->path, "old");
        assert_int_equal(chmod(f->path, 0606), 0);
        for (int theirs = 0; theirs < (geteuid() == 0 ? 2 : 1); theirs++) {
                if (theirs)
                        assert_int_equal(chown(f->path, 65534, 65534), 0);
                assert_int_equal(output_open(&o, f->path, NULL), 0);
                assert_int_equal(output_finish(&o), 0);
                output_done(&o);
                assert_int_equal(mode_of(f->path), S_IFREG | (theirs ? 0644 : 0606));
        }
        (void) umask(mask);
}

static void test_where_it_cannot(void **state) {
        Fixture *f = *state;
        Output o;

        assert_true(output_open(&o, f->directory, NULL) < 0);
        assert_true(output_open(&o, "/no/such/directory/file", NULL) < 0);
        assert_int_equal(output_open(&o, "/dev/full", NULL), 0);
        assert_true(fputs("text", o.file) >= 0);
        assert_int_equal(output_finish(&o), -ENOSPC);
        output_done(&o);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_appears_at_the_end, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_given_up, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_through_a_link, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_not_the_recording, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_default_name, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_default_name_is_planted, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_mode_of_another, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_where_it_cannot, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
