/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "jit-clock.h"

#include <string.h>

#include "util.h"

/* The two clocks are read one after the other: what they differ by less than this, ns, is no suspend. */
#define STEP_MIN UINT64_C(1000000)
/* Looks at the counter that are nearer than this, ns, say nothing of how fast it is. */
#define CALIBRATION_MIN UINT64_C(1000000)

static uint64_t read_counter(void) {
#if defined(__x86_64__)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
        uint64_t counter;

        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
        return counter;
#else
        return 0;
#endif
}

void jit_clock_read(JitClockReading *ret) {
        ret->monotonic = now_ns(CLOCK_MONOTONIC);
        ret->boot = now_ns(CLOCK_BOOTTIME);
        ret->counter = read_counter();
}

static uint64_t get_ahead(const JitClockReading *reading) {
        return reading->boot - reading->monotonic;
}

void jit_clock_note(JitClock *clock, const JitClockReading *now) {
        if (clock->last.boot == 0) {
                clock->first = clock->last = *now;
                return;
        }
        if (get_ahead(now) - get_ahead(&clock->last) + STEP_MIN > 2 * STEP_MIN) {
                if (clock->n_steps == JIT_CLOCK_STEPS_MAX)
                        memmove(clock->steps, clock->steps + 1, --clock->n_steps * sizeof(*clock->steps));
                clock->steps[clock->n_steps].until = clock->last.monotonic;
                clock->steps[clock->n_steps++].ahead = get_ahead(&clock->last);
                clock->first = *now; /* what the counter did meanwhile is the machine's affair */
        }
        clock->last = *now;
}

uint64_t jit_clock_from_monotonic(const JitClock *clock, uint64_t time) {
        for (size_t i = 0; i < clock->n_steps; i++)
                if (time <= clock->steps[i].until)
                        return time + clock->steps[i].ahead;
        return time + get_ahead(&clock->last);
}

uint64_t jit_clock_from_counter(const JitClock *clock, uint64_t counter) {
        uint64_t ns = clock->last.boot - clock->first.boot, ticks = clock->last.counter - clock->first.counter;
        long double away = (long double) (int64_t) (counter - clock->last.counter);
        long double time;

        if (ns < CALIBRATION_MIN || ticks == 0)
                return UINT64_MAX;
        time = (long double) clock->last.boot + away * (long double) ns / (long double) ticks;
        return time < 0 ? 0 : time >= 0x1p63L ? UINT64_MAX : (uint64_t) time;
}
