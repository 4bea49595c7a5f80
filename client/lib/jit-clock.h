/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * JITs write down when they made code by CLOCK_MONOTONIC, or by the processor's counter; samples have CLOCK_BOOTTIME.
 * The first stands still while the machine is suspended, so what lies between the two changes then: it is looked at
 * again and again, and remembered. How fast the counter runs is found out from two looks at it.
 */

#include <stddef.h>
#include <stdint.h>

/* All at one moment; ns, but for the counter, which is 0 where the processor has none that is known here. */
typedef struct JitClockReading {
        uint64_t boot, monotonic, counter;
} JitClockReading;

#define JIT_CLOCK_STEPS_MAX 16

/* Embedded; all zero has never looked. */
typedef struct JitClock {
        JitClockReading first; /* of the counter: since when it has run evenly */
        JitClockReading last;
        struct {
                uint64_t until; /* ns CLOCK_MONOTONIC: up to then */
                uint64_t ahead; /* CLOCK_BOOTTIME was this far ahead, ns */
        } steps[JIT_CLOCK_STEPS_MAX];
        size_t n_steps;
} JitClock;

void jit_clock_read(JitClockReading *ret);
void jit_clock_note(JitClock *clock, const JitClockReading *now);

/* Both ns CLOCK_BOOTTIME. Times after the last look count as if nothing had changed since. */
uint64_t jit_clock_from_monotonic(const JitClock *clock, uint64_t time);
/* UINT64_MAX: not known, since there were no two looks far enough from each other. */
uint64_t jit_clock_from_counter(const JitClock *clock, uint64_t counter);
