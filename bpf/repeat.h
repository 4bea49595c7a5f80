/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Loops whose number of turns the verifier must not multiply with what one turn is: to check the programs is most of
 * what it takes to begin a session.
 */

#include "kernel.h"

/* bpf_loop() came with 5.17, with Debian's and every later kernel that is tested. */
enum bpf_func_id___with_loop {
        BPF_FUNC_loop = 181,
};

/* One turn; context is what repeat() was given. */
typedef long repeat_turn(__u32 i, void *context);
#define TURN_GOES_ON 0
#define TURN_IS_LAST 1

/* turn: a static function, and no inline one. */
static __always_inline void repeat(__u32 turns, repeat_turn *turn, void *context) {
        if (bpf_core_enum_value_exists(enum bpf_func_id___with_loop, BPF_FUNC_loop)) {
                bpf_loop(turns, turn, context, 0);
                return;
        }
        for (__u32 i = 0; i < turns; i++)
                if (turn(i, context) == TURN_IS_LAST)
                        return;
}
