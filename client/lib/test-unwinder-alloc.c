/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The n-th allocation of an unwinder's thread fails, for every n: what is there stays, and what is missing comes as soon as
 * something asks for it again. Nothing leaks (a sanitizer looks). Linked with --wrap for the allocator.
 */

#include "unwinder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc-file.h"
#include "test-alloc.h"
#include "test-unwinder-util.h"

/* A program with few files, which waits. */
static Child child_new(void) {
        Child child = {};
        int to[2], from[2];
        char c = 'c';

        assert_return_code(pipe2(to, O_CLOEXEC), errno);
        assert_return_code(pipe2(from, O_CLOEXEC), errno);
        child.pid = fork();
        assert_return_code(child.pid, errno);
        if (child.pid == 0) {
                if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0)
                        execl("/bin/cat", "cat", NULL);
                _exit(1);
        }
        close_fd(to[0]);
        close_fd(from[1]);
        child.to = to[1];
        child.from = from[0];
        assert_int_equal(write(child.to, &c, 1), 1);
        assert_int_equal(read(child.from, &c, 1), 1); /* it runs, and has all its libraries */
        child.start = proc_file_read_start(child.pid);
        return child;
}

static void child_end(const Child *child) {
        close_fd(child->to);
        close_fd(child->from);
        (void) kill(child->pid, SIGKILL);
        assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static bool has_all(Fixture *f, const Child *child, _unused_ uint64_t value) {
        static const char *const names[] = { "/cat", "/libc.so", "/ld-linux", "[vdso]" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (!has_address(f, child, find_mapped(child->pid, names[i], NULL, 0, NULL)))
                        return false;
        return true;
}

static bool has_touched(Fixture *f, _unused_ const Child *child, uint64_t n) {
        return statistics(f).touches >= n;
}

/* As samples do, each of which may bring the mapping that it lies in. */
static bool has_all_if_asked(Fixture *f, const Child *child, uint64_t value) {
        if (has_all(f, child, value))
                return true;
        if (__atomic_load_n(&allocations_left, __ATOMIC_ACQUIRE) < 0)
                note_mapping(f, child, 0x1000);
        return false;
}

static void follow(Fixture *f, const Child *first, const Child *second) {
        note(f, first, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, first, has_all_if_asked, 0));
        /* Has the list of the other at first, which is not its own. */
        note(f, second, RINGSIDE_PROCESS_FORK, (uint32_t) first->pid);
        note_mapping(f, second, 0x1000);
        assert_true(wait_for(f, second, has_all_if_asked, 0));
        note_sample(f, first, RINGSIDE_WALK_UNREADABLE);
        assert_true(wait_for(f, first, has_touched, 1));
        assert_true(has_all(f, first, 0));
}

static void test_thread(_unused_ void **state) {
        Child first = child_new(), second = child_new();
        bool failed = true;
        long n;

        allocations_succeed = true;
        for (n = 0; failed; n++) {
                void *f;

                assert_int_equal(set_up(&f), 0);
                __atomic_store_n(&allocations_left, n, __ATOMIC_RELEASE);
                follow(f, &first, &second);
                failed = __atomic_exchange_n(&allocations_left, -1, __ATOMIC_ACQ_REL) < 0;
                assert_int_equal(tear_down(&f), 0);
        }
        allocations_succeed = false;
        assert_true(n > 30);
        child_end(&first);
        child_end(&second);
}

/* The memory is the caller's still. */
static void test_new(_unused_ void **state) {
        long n = 0;
        int r;

        do {
                void *bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1, 0);
                Unwinder *unwinder;

                assert_ptr_not_equal(bytes, MAP_FAILED);
                allocations_left = n++;
                r = unwinder_new(&unwinder, bytes, SIZE, -1, SIZE);
                allocations_left = -1;
                if (r >= 0)
                        unwinder_free(unwinder);
                else {
                        assert_int_equal(r, -ENOMEM);
                        assert_return_code(munmap(bytes, SIZE), errno);
                }
        } while (r < 0);
        assert_true(n > 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_new),
                cmocka_unit_test(test_thread),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
