/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The line that says the recording lives: time, samples, lost; or what is fetched. It is rewritten in place on a terminal,
 * and nothing anywhere else. It shares the terminal with the recorded program, so it keeps away from one
 * that has taken the screen over or hides what is typed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Live {
        FILE *out; /* NULL: not shown */
        uint64_t start; /* ns CLOCK_MONOTONIC */
        uint64_t last;  /* when it was drawn */
        int width;      /* columns that are drawn on */
} Live;

/* ns CLOCK_MONOTONIC */
uint64_t live_now(void);
void live_init(Live *live, bool quiet);
/* At most four times a second, whatever the caller does. waiting_for: processes the command left, 0: none. */
void live_update(Live *live, uint64_t samples, uint64_t lost, unsigned waiting_for);
/* The same while a server is waited for that has debug information of the file at path; total: bytes, 0: not known. */
void live_fetch(Live *live, const char *path, uint64_t done, uint64_t total);
/* Takes the line away. */
void live_clear(Live *live);
