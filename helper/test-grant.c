/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is well-formed and what it costs: every field just inside its range and just outside. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control.h"
#include "grant.h"
#include "unwind-table.h"

static struct rs_grant sound(void) {
        struct rs_grant grant;

        grant_init(&grant);
        grant.nr_events = 1;
        grant.events[0] = (struct rs_event){.id = RS_EVENT_CPU_CLOCK, .value = 99};
        return grant;
}

static void assert_refused(const struct rs_grant *grant, const char *about) {
        const char *problem = grant_check(grant);

        assert_non_null(problem);
        assert_non_null(strstr(problem, about));
}

static void test_defaults(void **state) {
        struct rs_grant grant;

        (void) state;
        grant_init(&grant);
        assert_int_equal(grant.max_frames, 127);
        assert_int_equal(grant.ring_size, 8 * 1024 * 1024);
        assert_int_equal(grant.grants, 0);
        /* Sound but for the events, which have no default. */
        assert_refused(&grant, "events must");
        grant = sound();
        assert_null(grant_check(&grant));
}

static void test_frames(void **state) {
        struct rs_grant grant = sound();

        (void) state;
        for (uint32_t frames = 0; frames <= RS_FRAMES_MAX + 1; frames++) {
                grant.max_frames = frames;
                if (frames >= 1 && frames <= RS_FRAMES_MAX)
                        assert_null(grant_check(&grant));
                else
                        assert_refused(&grant, "stack-depth");
        }
        grant.max_frames = UINT32_MAX;
        assert_refused(&grant, "stack-depth");
}

static void test_ring_size(void **state) {
        struct rs_grant grant = sound();

        (void) state;
        for (unsigned bit = 0; bit < 64; bit++) {
                grant.ring_size = 1ULL << bit;
                if (bit >= 16 && bit <= 26)
                        assert_null(grant_check(&grant));
                else
                        assert_refused(&grant, "ring-size");
                grant.ring_size++;
                assert_refused(&grant, "ring-size");
        }
        grant.ring_size = 0;
        assert_refused(&grant, "ring-size");
        grant.ring_size = UINT64_MAX;
        assert_refused(&grant, "ring-size");
}

static void test_table_size(void **state) {
        struct rs_grant grant = sound();

        (void) state;
        assert_int_equal(grant.table_size, 0);
        for (unsigned bit = 0; bit < 64; bit++) {
                grant.table_size = 1ULL << bit;
                if (bit >= 22 && bit <= 26)
                        assert_null(grant_check(&grant));
                else
                        assert_refused(&grant, "table-size");
                grant.table_size++;
                assert_refused(&grant, "table-size");
        }
        grant.table_size = UINT64_MAX;
        assert_refused(&grant, "table-size");
}

static void test_events(void **state) {
        struct rs_grant grant = sound();

        (void) state;
        grant.nr_events = RS_EVENTS_MAX + 1;
        assert_refused(&grant, "events must");
        grant.nr_events = UINT32_MAX;
        assert_refused(&grant, "events must");

        grant = sound();
        grant.events[0].id = 0;
        assert_refused(&grant, "no such event");
        grant.events[0].id = RS_EVENT_MAX;
        assert_refused(&grant, "no such event");

        grant = sound();
        grant.events[0].value = 0;
        assert_refused(&grant, "frequency");
        grant.events[0].value = 20001;
        assert_refused(&grant, "frequency");
        grant.events[0].value = UINT64_MAX;
        assert_refused(&grant, "frequency");
        grant.events[0].value = 20000;
        assert_null(grant_check(&grant));
        grant.events[0].by_period = 1;
        assert_refused(&grant, "period");

        grant = sound();
        grant.nr_events = 2;
        grant.events[1] = (struct rs_event){.id = RS_EVENT_CPU_CYCLES, .value = 1};
        assert_null(grant_check(&grant));
        grant.events[1].id = RS_EVENT_CPU_CLOCK;
        assert_refused(&grant, "twice");
}

static void test_grants(void **state) {
        struct rs_grant grant = sound();

        (void) state;
        for (unsigned bit = 0; bit < 32; bit++) {
                grant.grants = 1U << bit;
                if (bit < 4)
                        assert_null(grant_check(&grant));
                else
                        assert_refused(&grant, "unknown grant");
        }
}

static void test_costs(void **state) {
        struct rs_grant grant = sound();
        uint64_t wide, targeted;

        (void) state;
        assert_int_equal(grant_rate(&grant), 99);
        grant.nr_events = 2;
        grant.events[1] = (struct rs_event){.id = RS_EVENT_CPU_CYCLES, .value = 1000};
        assert_int_equal(grant_rate(&grant), 1099);

        wide = grant_memory(&grant, 2);
        assert_true(wide > grant.ring_size + (RS_SENT_SLOTS + RS_ANNOUNCED_SLOTS) * 8 + RS_MAPPED_SETS * RS_MAPPED_SET_SIZE);
        assert_true(wide < grant.ring_size + 3 * 512 * 1024);
        /* Counters and scratch are for every CPU. */
        assert_int_equal(grant_memory(&grant, 3) - wide, sizeof(struct rs_counters) + RS_CPU_SIZE);
        /* Who is followed is remembered. */
        grant.grants = RS_GRANT_TARGETS;
        targeted = grant_memory(&grant, 2);
        assert_true(targeted - wide > RS_TRACKED_MAX * 32);
        /* The ring counts once, byte by byte. */
        grant.ring_size *= 2;
        assert_int_equal(grant_memory(&grant, 2) - targeted, grant.ring_size / 2);
        /* And so do tables, in place of the one chunk there is without, with what is remembered of them. */
        targeted = grant_memory(&grant, 2);
        grant.table_size = RS_TABLE_SIZE_MIN;
        assert_int_equal(grant_memory(&grant, 2) - targeted,
                         RS_TABLE_SIZE_MIN - RS_TABLE_CHUNK + (RS_REMEMBERED_SLOTS - 1) * RS_REMEMBERED_SIZE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults), cmocka_unit_test(test_frames), cmocka_unit_test(test_ring_size), cmocka_unit_test(test_table_size),
                cmocka_unit_test(test_events),   cmocka_unit_test(test_grants), cmocka_unit_test(test_costs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
