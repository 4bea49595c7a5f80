/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "queue.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "util.h"

#define N 300000

static int push_numbered(Queue *queue, uint64_t i) {
        uint64_t frames[255];
        RingsideRecord record = { .type = RINGSIDE_SAMPLE, .time = i };

        if (i % 3 == 0) {
                record.type = RINGSIDE_STACK;
                record.stack.id = i;
                record.stack.n_frames = i % 256;
                record.stack.frames = frames;
                for (size_t f = 0; f < i % 256; f++)
                        frames[f] = i * 1000 + f;
        }
        return queue_push(queue, &record);
}

static void check_numbered(const RingsideRecord *record, uint64_t i) {
        if (i % 3 != 0) {
                assert_int_equal(record->type, RINGSIDE_SAMPLE);
                assert_int_equal(record->time, i);
                return;
        }
        assert_int_equal(record->type, RINGSIDE_STACK);
        assert_int_equal(record->stack.id, i);
        assert_int_equal(record->stack.n_frames, i % 256);
        for (size_t f = 0; f < i % 256; f++)
                if (record->stack.frames[f] != i * 1000 + f)
                        fail_msg("record %zu: wrong frame %zu", (size_t) i, f);
}

static void *push_all(void *userdata) {
        for (uint64_t i = 0; i < N; i++)
                while (push_numbered(userdata, i) < 0)
                        ; /* full: the other side is at it */
        return NULL;
}

static void test_two_threads(_unused_ void **state) {
        pthread_t thread;
        Queue queue;

        assert_return_code(queue_init(&queue, 1 << 20), 0);
        assert_int_equal(pthread_create(&thread, NULL, push_all, &queue), 0);
        for (uint64_t i = 0; i < N;) {
                const RingsideRecord *record = queue_pop(&queue);

                if (record)
                        check_numbered(record, i++);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_null(queue_pop(&queue));
        assert_int_equal(queue_get_bytes(&queue), 0);
        queue_done(&queue);
}

static void test_full(_unused_ void **state) {
        RingsideRecord sample = { .type = RINGSIDE_SAMPLE }, process = { .type = RINGSIDE_PROCESS };
        size_t n = 0, more = 0;
        Queue queue;

        assert_return_code(queue_init(&queue, 1 << 20), 0);
        while (queue_push(&queue, &sample) == 0)
                n++;
        assert_int_equal(queue_push(&queue, &sample), -ENOBUFS);
        /* What samples depend on still fits, and then nothing does. */
        while (queue_push(&queue, &process) == 0)
                more++;
        assert_in_range(more, n / 8, n / 6);
        assert_true(queue_get_bytes(&queue) <= 1 << 20);
        for (size_t i = 0; i < n + more; i++)
                assert_non_null(queue_pop(&queue));
        assert_null(queue_pop(&queue));
        assert_return_code(queue_push(&queue, &sample), 0);
        queue_done(&queue);
}

static bool is_open(int fd) {
        return fcntl(fd, F_GETFD) >= 0;
}

/* The popper has its own descriptor, and none is left behind however the queue ends. */
static void test_descriptors(_unused_ void **state) {
        RingsideRecord names = { .type = RINGSIDE_KERNEL_NAMES, .kernel_names = { .fd = -1, .size = 7 } };
        const RingsideRecord *record;
        int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC), after, fd;
        Queue queue;

        assert_return_code(queue_init(&queue, 1 << 20), 0);
        assert_return_code(queue_push(&queue, &names), 0);
        names.kernel_names.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (int i = 0; i < 3; i++)
                assert_return_code(queue_push(&queue, &names), 0);
        close_fd(names.kernel_names.fd);

        record = queue_pop(&queue);
        assert_int_equal(record->kernel_names.fd, -1);
        record = queue_pop(&queue);
        assert_int_equal(record->kernel_names.size, 7);
        fd = record->kernel_names.fd;
        assert_true(fd > 2 && fd != names.kernel_names.fd && is_open(fd));
        record = queue_pop(&queue);
        assert_false(is_open(fd));
        assert_true(is_open(record->kernel_names.fd));
        queue_done(&queue);

        queue = (Queue){};
        queue_done(&queue); /* never was one: closes nothing */
        close_fd(lowest);
        after = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_int_equal(after, lowest);
        for (int i = after + 1; i < after + 10; i++)
                assert_false(is_open(i));
        close_fd(after);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_threads),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_descriptors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
