/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "decode.h"
#include "util.h"

static struct rs_sample good_sample(void) {
        return (struct rs_sample){
                .r = {
                        .type = RS_RECORD_SAMPLE,
                        .event = 1,
                        .len = sizeof(struct rs_sample),
                        .cpu = 3,
                        .flags = RS_SAMPLE_KERNEL_MODE | RS_WALK_DEPTH << RS_WALK_END_SHIFT,
                },
                .time = 123456789,
                .pid = 10,
                .tid = 11,
                .leaf = RS_FRAME_KERNEL,
                .stack = 77,
        };
}

static void test_sample(_unused_ void **state) {
        struct rs_sample s = good_sample();
        RingsideRecord r;

        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_OK);
        assert_int_equal(r.type, RINGSIDE_SAMPLE);
        assert_int_equal(r.time, 123456789);
        assert_int_equal(r.pid, 10);
        assert_int_equal(r.tid, 11);
        assert_int_equal(r.cpu, 3);
        assert_int_equal(r.sample.event, 1);
        assert_int_equal(r.sample.weight, 0);
        assert_true(r.sample.kernel_mode);
        assert_int_equal(r.sample.walk_end, RINGSIDE_WALK_DEPTH);
        assert_true(r.sample.leaf == RINGSIDE_FRAME_KERNEL);
        assert_int_equal(r.sample.stack, 77);
}

static void test_weighted_sample(_unused_ void **state) {
        struct rs_wsample w = {.s = good_sample(), .weight = 4711};
        RingsideRecord r;

        w.s.r.type = RS_RECORD_WSAMPLE;
        w.s.r.len = sizeof(w);
        assert_int_equal(decode_record(&w, sizeof(w), 2, &r), DECODE_OK);
        assert_int_equal(r.type, RINGSIDE_SAMPLE);
        assert_int_equal(r.sample.weight, 4711);
}

static void test_bad_samples(_unused_ void **state) {
        struct rs_sample s = good_sample();
        RingsideRecord r;

        assert_int_equal(decode_record(&s, sizeof(s), 1, &r), DECODE_MALFORMED); /* event 1 of 1 */
        s.pid = 0;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_MALFORMED);
        s = good_sample();
        s.r.flags = RS_WALK_END_MAX << RS_WALK_END_SHIFT;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_MALFORMED);
        s = good_sample();
        s.r.len++;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_MALFORMED);
        s = good_sample();
        s.r.type = 99;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_UNKNOWN);
}

static void test_stack(_unused_ void **state) {
        enum { SIZE = sizeof(struct rs_stack) + 3 * sizeof(__u64) };
        _Alignas(struct rs_stack) uint8_t bytes[SIZE];
        struct rs_stack *stack = (struct rs_stack *) bytes;
        RingsideRecord r;

        *stack = (struct rs_stack){
                .r = {.type = RS_RECORD_STACK, .len = SIZE},
                .id = 5,
                .pid = 6,
                .nr_kernel = 1,
                .nr_user = 2,
        };
        stack->frames[0] = RS_FRAME_KERNEL;
        stack->frames[1] = 0x1000;
        stack->frames[2] = 0x2000;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_OK);
        assert_int_equal(r.type, RINGSIDE_STACK);
        assert_int_equal(r.stack.id, 5);
        assert_int_equal(r.stack.n_kernel, 1);
        assert_int_equal(r.stack.n_frames, 3);
        assert_int_equal(r.stack.frames[2], 0x2000);
        assert_false(r.stack.guessed);
        stack->r.flags = RS_STACK_GUESSED;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_OK);
        assert_true(r.stack.guessed);

        stack->nr_user = 3;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_MALFORMED);
        stack->nr_user = 0xffff;
        stack->nr_kernel = 3;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_MALFORMED);
        stack->nr_user = 2;
        stack->nr_kernel = 1;
        stack->id = 0;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_MALFORMED);
}

/* Softirq work on an idle CPU is nobody's, and has nothing of user space. */
static void test_idle(_unused_ void **state) {
        enum { SIZE = sizeof(struct rs_stack) + sizeof(__u64) };
        _Alignas(struct rs_stack) uint8_t bytes[SIZE];
        struct rs_stack *stack = (struct rs_stack *) bytes;
        struct rs_sample s = good_sample();
        RingsideRecord r;

        s.pid = s.tid = 0;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_MALFORMED);
        s.r.flags |= RS_SAMPLE_IDLE;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_OK);
        assert_true(r.sample.idle);
        s.pid = 1;
        assert_int_equal(decode_record(&s, sizeof(s), 2, &r), DECODE_MALFORMED);

        *stack = (struct rs_stack){.r = {.type = RS_RECORD_STACK, .len = SIZE}, .id = 5, .nr_kernel = 1};
        stack->frames[0] = RS_FRAME_KERNEL;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_OK);
        stack->nr_kernel = 0;
        stack->nr_user = 1;
        assert_int_equal(decode_record(bytes, SIZE, 1, &r), DECODE_MALFORMED);
}

static void test_process(_unused_ void **state) {
        struct rs_process p = {
                .r = {.type = RS_RECORD_PROCESS, .event = RS_PROCESS_EXEC, .len = sizeof(p)},
                .time = 9,
                .pid = 2,
                .tid = 2,
                .ppid = 1,
                .start = 8,
        };
        RingsideRecord r;

        /* A name that fills its field has no end of its own. */
        memcpy(p.comm, "0123456789abcdef", RS_COMM_SIZE);
        assert_int_equal(decode_record(&p, sizeof(p), 1, &r), DECODE_OK);
        assert_int_equal(r.process.kind, RINGSIDE_PROCESS_EXEC);
        assert_string_equal(r.process.comm, "0123456789abcdef");
        p.r.event = RS_PROCESS_KIND_MAX;
        assert_int_equal(decode_record(&p, sizeof(p), 1, &r), DECODE_UNKNOWN);
        p.r.event = 0;
        assert_int_equal(decode_record(&p, sizeof(p), 1, &r), DECODE_MALFORMED);
}

/* Whatever the length says and wherever it is cut: refused. */
static void test_truncated(_unused_ void **state) {
        _Alignas(8) uint8_t bytes[sizeof(struct rs_wsample) + 64] = {};

        for (unsigned type = 0; type < 6; type++)
                for (size_t size = 0; size < sizeof(bytes); size++) {
                        struct rs_sample s = good_sample();
                        RingsideRecord r;
                        int result;

                        memcpy(bytes, &s, sizeof(s));
                        bytes[0] = type;
                        memcpy(bytes + 2, &(uint16_t){size}, 2);
                        result = decode_record(bytes, size, 2, &r);
                        if (size < sizeof(struct rs_record))
                                assert_int_equal(result, DECODE_MALFORMED);
                        if (type == RS_RECORD_SAMPLE)
                                assert_int_equal(result, size == sizeof(s) ? DECODE_OK : DECODE_MALFORMED);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sample),   cmocka_unit_test(test_weighted_sample),
                cmocka_unit_test(test_bad_samples), cmocka_unit_test(test_stack),
                cmocka_unit_test(test_process),  cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_idle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
