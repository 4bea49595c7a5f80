/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Ways to tell a client where the kernel is. RINGSIDE_LEAK_MUTANT plants one of them, and tests/leak shows that it
 * is found: no product is built with any.
 */

#ifndef RINGSIDE_LEAK_MUTANT
#define RINGSIDE_LEAK_MUTANT 0
#endif
#define LEAKS(n) (RINGSIDE_LEAK_MUTANT == (n))
#define LEAK_RAW 1       /* frames as they are */
#define LEAK_REWRITTEN 2 /* a frame as it is, in a record that is right by the time it is submitted */
#define LEAK_UNKEYED 3   /* ids that anybody can compute, over frames as they are */
#define LEAK_HALVES 4    /* the lower half of an address, where nothing is to stand */
#define LEAK_ELSEWHERE 5 /* the same, where no frame is in the record */
#define LEAK_SPLIT 6     /* the halves of addresses in fields apart */
#define LEAK_MEMORIES 7  /* frames as they are, in what is handed out beside the ring; in the counters for a moment */
