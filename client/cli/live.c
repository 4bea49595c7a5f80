/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See live.h. */

#include "live.h"

#include <inttypes.h>
#include <string.h>
#include <termios.h>
#include <time.h>

#include "cli.h"
#include "text.h"

#define INTERVAL_NS UINT64_C(250000000)
#define LINE_MAX_COLUMNS 79 /* one less than 80, or some terminals wrap */

uint64_t live_now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

void live_init(Live *live, bool quiet) {
        *live = (Live){
                .out = !quiet && isatty(STDERR_FILENO) ? stderr : NULL,
                .start = live_now(),
        };
}

/* Not over an editor's screen, not into a password, not from the background. */
static bool terminal_is_ours(void) {
        struct termios t;

        return tcgetpgrp(STDERR_FILENO) == getpgrp() && tcgetattr(STDERR_FILENO, &t) == 0 && (t.c_lflag & ICANON) &&
               (t.c_lflag & ECHO);
}

void live_update(Live *live, uint64_t samples, uint64_t lost, unsigned waiting_for) {
        uint64_t now = live_now();
        char line[LINE_MAX_COLUMNS + 1], time[32], waiting[64] = "";
        size_t size;
        Style style;
        int n;

        if (!live->out || now - live->last < INTERVAL_NS || !terminal_is_ours())
                return;
        live->last = now;
        style_init(&style, STDERR_FILENO);
        if (waiting_for > 0)
                snprintf(waiting, sizeof(waiting), "; waiting for %u process%s, Ctrl-C ends", waiting_for,
                         waiting_for == 1 ? "" : "es");
        /* A line that wraps is not overwritten by the next. */
        size = MIN(sizeof(line), style.terminal_columns);
        n = snprintf(line, size, "%s, %" PRIu64 " samples, %" PRIu64 " lost%s",
                     text_duration(time, sizeof(time), now - live->start), samples, lost, waiting);
        n = MIN(n, (int) size - 1);
        /* The cursor goes back to the start: what the program prints next overwrites the line. */
        fprintf(live->out, "\r%-*s\r", MAX(MIN(live->width, (int) size - 1), n), line);
        fflush(live->out);
        live->width = n;
}

void live_clear(Live *live) {
        if (!live->out || live->width == 0 || !terminal_is_ours())
                return;
        fprintf(live->out, "\r%*s\r", live->width, "");
        fflush(live->out);
        live->width = 0;
}
