/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command that is held: never runs unless released, and tells how it ended or why it did not start. */

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "command.h"

typedef struct Fixture {
        char directory[32];
        char marker[48];
        sigset_t mask;
} Fixture;

static int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        if (!f)
                return -1;
        strcpy(f->directory, "/tmp/test-command-XXXXXX");
        if (!mkdtemp(f->directory))
                return -1;
        snprintf(f->marker, sizeof(f->marker), "%s/ran", f->directory);
        sigprocmask(SIG_SETMASK, NULL, &f->mask);
        *state = f;
        return 0;
}

static int tear_down(void **state) {
        Fixture *f = *state;

        (void) unlink(f->marker);
        (void) rmdir(f->directory);
        free(f);
        return 0;
}

static void finish(Command *c, int *ret_status, int *ret_error) {
        struct pollfd p = { .fd = command_get_pidfd(c), .events = POLLIN };

        assert_int_equal(RETRY_ON_EINTR(poll(&p, 1, 10000)), 1);
        assert_int_equal(command_reap(c, ret_status, ret_error), 0);
}

static void test_status(void **state) {
        Fixture *f = *state;
        char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "exit 7" }, NULL };
        _cleanup_(command_freep) Command *c = NULL;
        int status, error;

        assert_int_equal(command_new(&c, argv, &f->mask), 0);
        assert_int_equal(command_release(c), 0);
        finish(c, &status, &error);
        assert_int_equal(error, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_held(void **state) {
        Fixture *f = *state;
        char *argv[] = { (char[]){ "touch" }, f->marker, NULL };
        Command *c = NULL;
        struct pollfd p;
        pid_t pid;

        assert_int_equal(command_new(&c, argv, &f->mask), 0);
        pid = command_get_pid(c);
        p = (struct pollfd){ .fd = command_get_pidfd(c), .events = POLLIN };
        assert_int_equal(poll(&p, 1, 100), 0); /* waits */
        assert_null(command_free(c));
        assert_int_equal(access(f->marker, F_OK), -1);
        assert_int_equal(kill(pid, 0), -1); /* and was collected */
        assert_int_equal(errno, ESRCH);
}

static void test_exec_errno(void **state) {
        static const struct {
                const char *name;
                int error, status;
        } cases[] = { { "/no/such/program", ENOENT, 127 }, { "/etc/passwd", EACCES, 126 }, { "/", EACCES, 126 } };
        Fixture *f = *state;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char *argv[] = { strdup(cases[i].name), NULL };
                _cleanup_(command_freep) Command *c = NULL;
                int status, error;

                assert_int_equal(command_new(&c, argv, &f->mask), 0);
                assert_int_equal(command_release(c), 0);
                finish(c, &status, &error);
                assert_int_equal(error, cases[i].error);
                assert_int_equal(WEXITSTATUS(status), cases[i].status);
                free(argv[0]);
        }
}

static void test_is_there(void **state) {
        Fixture *f = *state;
        const char *old = getenv("PATH");
        _cleanup_free_ char *path = old ? strdup(old) : NULL, *one = NULL;

        assert_true(command_is_there("sh"));
        assert_true(command_is_there("/etc/passwd")); /* which cannot be run */
        assert_false(command_is_there(""));
        assert_false(command_is_there("no-such-program"));
        assert_false(command_is_there("/no/such/program"));
        assert_false(command_is_there("/etc/passwd/program"));
        /* Only where PATH leads, and no directories. */
        close_fd(open(f->marker, O_CREAT | O_CLOEXEC, 0600));
        assert_false(command_is_there("ran"));
        assert_true(asprintf(&one, "/no/such:%s", f->directory) > 0);
        assert_int_equal(setenv("PATH", one, 1), 0);
        assert_true(command_is_there("ran"));
        assert_false(command_is_there("sh"));
        assert_int_equal(setenv("PATH", "/no/such::/usr", 1), 0);
        assert_false(command_is_there("bin"));
        assert_int_equal(chdir(f->directory), 0); /* the empty part */
        assert_true(command_is_there("ran"));
        assert_int_equal(chdir("/"), 0);
        assert_int_equal(unsetenv("PATH"), 0);
        assert_true(command_is_there("sh"));
        if (path)
                assert_int_equal(setenv("PATH", path, 1), 0);
}

/* The program gets the mask it would have had without us, whatever we block. */
static void test_mask(void **state) {
        Fixture *f = *state;
        char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "kill -TERM $$; exit 3" }, NULL };
        _cleanup_(command_freep) Command *c = NULL;
        int status, error;
        sigset_t term;

        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        assert_int_equal(sigprocmask(SIG_BLOCK, &term, NULL), 0);
        assert_int_equal(command_new(&c, argv, &f->mask), 0);
        assert_int_equal(command_release(c), 0);
        finish(c, &status, &error);
        assert_int_equal(sigprocmask(SIG_SETMASK, &f->mask, NULL), 0);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void test_signal(void **state) {
        Fixture *f = *state;
        char *argv[] = { (char[]){ "sleep" }, (char[]){ "100" }, NULL };
        _cleanup_(command_freep) Command *c = NULL;
        int status, error;

        assert_int_equal(command_new(&c, argv, &f->mask), 0);
        assert_int_equal(command_release(c), 0);
        assert_int_equal(command_signal(c, SIGINT), 0);
        finish(c, &status, &error);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGINT);
        assert_true(command_signal(c, SIGINT) < 0); /* nobody else gets it */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_status, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_exec_errno, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_is_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_mask, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_signal, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
