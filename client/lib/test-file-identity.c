/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How devices are called is looked up once a second for each mount, and not at all where that has taken too long. */

#include "file-identity.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "util.h"

typedef struct Fixture {
        FileIdentities identities;
        int fd;
        struct stat st; /* as it is, but with a device as of an overlay */
        MapsLine line;
        ProcessDir dir;
} Fixture;

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(Fixture));

        if (!f)
                return -1;
        f->dir = (ProcessDir) PROCESS_DIR_INIT;
        /* Of /proc it is the number that mountinfo shows, too. */
        f->fd = open("/proc/version", O_PATH | O_CLOEXEC);
        if (f->fd < 0 || fstat(f->fd, &f->st) < 0)
                return -1;
        f->line = (MapsLine){
                .inode = f->st.st_ino,
                .dev_major = major(f->st.st_dev),
                .dev_minor = minor(f->st.st_dev),
        };
        f->st.st_dev = makedev(0, 0xffff0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        close_fd(f->fd);
        free(f);
        return 0;
}

static bool fits(Fixture *f) {
        return file_identity_fits(&f->identities, f->fd, &f->st, &f->line, &f->dir);
}

static void test_once_a_second(void **state) {
        Fixture *f = *state;
        MountVerdict *first = &f->identities.known[0];

        assert_true(fits(f));
        assert_true(first->fits && first->until > 0);
        first->fits = false;
        assert_false(fits(f));
        first->until = 1;
        assert_true(fits(f));
        /* Another device, and what does not fit is known as well. */
        f->line.dev_minor++;
        assert_false(fits(f));
        assert_int_equal(f->identities.next, 3);
        assert_false(fits(f));
        assert_int_equal(f->identities.next, 3);
        f->line.dev_minor--;
        assert_true(fits(f));
        assert_int_equal(f->identities.next, 3);
}

static void test_too_long(void **state) {
        Fixture *f = *state;

        assert_true(fits(f));
        f->identities.credit = INT64_MIN / 2;
        assert_true(fits(f));
        f->st.st_dev = makedev(0, 0xffff1);
        assert_false(fits(f));
        assert_int_equal(f->identities.next, 1);
        f->identities.credited = 1; /* long ago */
        f->identities.credit = 0;
        assert_true(fits(f));
}

static void test_other_file(void **state) {
        Fixture *f = *state;

        f->line.inode++;
        assert_false(fits(f));
        assert_int_equal(f->identities.next, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_once_a_second, setup, teardown),
                cmocka_unit_test_setup_teardown(test_too_long, setup, teardown),
                cmocka_unit_test_setup_teardown(test_other_file, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
