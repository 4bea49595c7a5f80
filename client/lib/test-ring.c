/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The consumer against a ring in our own memory, written as the kernel writes it, and as it never would. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <linux/bpf.h>

#include "ring.h"
#include "util.h"

#define SIZE 4096U

typedef struct Memory {
        uint64_t *consumer;
        uint64_t *producer;
        uint8_t *data;
        uint8_t *reader;
        Ring *ring;
        size_t page;
} Memory;

/*
 * As the kernel lays it out: positions, then the data twice in a row, the second a mirror of the first, through
 * which records are written. Who reads has the data once, and nothing behind it.
 */
static int setup(void **state) {
        Memory *m = calloc(1, sizeof(*m));
        _cleanup_close_ int fd = memfd_create("ring", MFD_CLOEXEC);
        uint8_t *base;

        m->page = sysconf(_SC_PAGESIZE);
        assert_int_equal(m->page, SIZE);
        assert_int_equal(ftruncate(fd, 3 * m->page), 0);
        m->consumer = mmap(NULL, m->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        base = mmap(NULL, 3 * m->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m->page);
        assert_ptr_not_equal(m->consumer, MAP_FAILED);
        assert_ptr_not_equal(base, MAP_FAILED);
        assert_ptr_not_equal(mmap(base + 2 * m->page, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                                  2 * m->page),
                             MAP_FAILED);
        m->producer = (uint64_t *) base;
        m->data = base + m->page;
        m->reader = mmap(NULL, 3 * m->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(m->reader, MAP_FAILED);
        assert_ptr_equal(mmap(m->reader, 2 * m->page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, m->page), m->reader);
        assert_int_equal(ring_new_from_memory(&m->ring, m->consumer, m->reader, SIZE), 0);
        *state = m;
        return 0;
}

static int teardown(void **state) {
        Memory *m = *state;

        ring_free(m->ring);
        munmap(m->reader, 3 * m->page);
        munmap(m->producer, 3 * m->page);
        munmap(m->consumer, m->page);
        free(m);
        return 0;
}

static void put(Memory *m, const void *bytes, uint32_t length, uint32_t bits) {
        uint8_t *at = m->data + (*m->producer & (SIZE - 1));

        memcpy(at + BPF_RINGBUF_HDR_SZ, bytes, length);
        memcpy(at, &(uint32_t){length | bits}, sizeof(uint32_t));
        *m->producer += (length + BPF_RINGBUF_HDR_SZ + 7) & ~7U;
}

static void test_reads_in_order(void **state) {
        Memory *m = *state;
        char buffer[64];

        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 0);
        put(m, "first", 6, 0);
        put(m, "dropped", 8, BPF_RINGBUF_DISCARD_BIT);
        put(m, "second one", 11, 0);
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 6);
        assert_string_equal(buffer, "first");
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 11);
        assert_string_equal(buffer, "second one");
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 0);
        /* All is given back by then. */
        assert_int_equal(*m->consumer, *m->producer);
}

static void test_waits_for_busy(void **state) {
        Memory *m = *state;
        char buffer[64];

        put(m, "not yet", 8, BPF_RINGBUF_BUSY_BIT);
        put(m, "later", 6, 0);
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 0);
        assert_int_equal(*m->consumer, 0);
        memcpy(m->data, &(uint32_t){8}, sizeof(uint32_t));
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 8);
        assert_string_equal(buffer, "not yet");
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 6);
}

/* A record that crosses the end, wherever it does so. */
static void test_wraps(void **state) {
        Memory *m = *state;
        uint8_t record[1000], buffer[1000];

        for (unsigned i = 0; i < 50; i++) {
                memset(record, (int) i + 1, sizeof(record));
                put(m, record, 997, 0);
                assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 997);
                assert_memory_equal(buffer, record, 997);
                ring_release(m->ring);
        }
}

/* Each header is as long as what records are aligned to. */
static void test_begins_in_between(void **state) {
        Memory *m = *state;
        uint8_t buffer[8];
        Ring *ring;

        for (uint64_t position = SIZE - 7; position < SIZE; position++) {
                *m->consumer = position;
                *m->producer = position + 64;
                assert_int_equal(ring_new_from_memory(&ring, m->consumer, m->reader, SIZE), 0);
                assert_int_equal(ring_read(ring, buffer, sizeof(buffer)), -EBADMSG);
                ring_free(ring);
        }
}

static void test_cuts_long_records(void **state) {
        Memory *m = *state;
        char buffer[8] = "";

        put(m, "longer than eight", 18, 0);
        put(m, "next", 5, 0);
        assert_int_equal(ring_read(m->ring, buffer, 4), 18);
        assert_memory_equal(buffer, "long\0\0\0\0", 8);
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 5);
}

static void check_corrupt(Memory *m) {
        char buffer[64];

        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), -EBADMSG);
        /* For good: nothing after it can be believed. */
        *m->producer = 0;
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), -EBADMSG);
}

static void test_length_beyond_producer(void **state) {
        Memory *m = *state;

        put(m, "x", 2, 0);
        memcpy(m->data, &(uint32_t){100}, sizeof(uint32_t));
        check_corrupt(m);
}

static void test_length_huge(void **state) {
        Memory *m = *state;

        put(m, "x", 2, 0);
        memcpy(m->data, &(uint32_t){0x3fffffff}, sizeof(uint32_t));
        check_corrupt(m);
}

static void test_producer_too_far(void **state) {
        Memory *m = *state;

        *m->producer = SIZE + 8;
        check_corrupt(m);
}

static void test_producer_goes_back(void **state) {
        Memory *m = *state;
        char buffer[64];

        put(m, "x", 2, 0);
        assert_int_equal(ring_read(m->ring, buffer, sizeof(buffer)), 2);
        *m->producer = 8;
        check_corrupt(m);
}

static void test_refuses_bad_size(_unused_ void **state) {
        Ring *ring;
        char page[1] = "";

        assert_int_equal(ring_new_from_memory(&ring, page, page, 0), -EINVAL);
        assert_int_equal(ring_new_from_memory(&ring, page, page, 4097), -EINVAL);
        assert_int_equal(ring_new(&ring, -1, 12345), -EINVAL);
        assert_int_equal(ring_new(&ring, -1, 65536), -EBADF);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_reads_in_order, setup, teardown),
                cmocka_unit_test_setup_teardown(test_waits_for_busy, setup, teardown),
                cmocka_unit_test_setup_teardown(test_wraps, setup, teardown),
                cmocka_unit_test_setup_teardown(test_begins_in_between, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cuts_long_records, setup, teardown),
                cmocka_unit_test_setup_teardown(test_length_beyond_producer, setup, teardown),
                cmocka_unit_test_setup_teardown(test_length_huge, setup, teardown),
                cmocka_unit_test_setup_teardown(test_producer_too_far, setup, teardown),
                cmocka_unit_test_setup_teardown(test_producer_goes_back, setup, teardown),
                cmocka_unit_test(test_refuses_bad_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
