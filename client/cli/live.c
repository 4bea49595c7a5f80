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
#define FETCH_TEXT (sizeof("Debug information of ") - 1)
#define FETCH_NAME_MIN 8

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

/* Whether there is something to be drawn now, and how many columns it may take. */
static bool begin(Live *live, size_t *ret_columns) {
        uint64_t now = live_now();
        Style style;

        if (!live->out || now - live->last < INTERVAL_NS || !terminal_is_ours())
                return false;
        live->last = now;
        style_init(&style, STDERR_FILENO);
        /* A line that wraps is not overwritten by the next. */
        *ret_columns = MIN((size_t) LINE_MAX_COLUMNS, style.terminal_columns - 1);
        return true;
}

/* The cursor goes back to the start: what the program prints next overwrites the line. */
static void draw(Live *live, const char *line, size_t columns) {
        int width = (int) text_width(line), old = MIN(live->width, (int) columns);

        fprintf(live->out, "\r%s%*s\r", line, MAX(old - width, 0), "");
        fflush(live->out);
        live->width = width;
}

void live_update(Live *live, uint64_t samples, uint64_t lost, unsigned waiting_for) {
        char line[LINE_MAX_COLUMNS + 1], time[32], waiting[64] = "";
        size_t columns;

        if (!begin(live, &columns))
                return;
        if (waiting_for > 0)
                snprintf(waiting, sizeof(waiting), "; waiting for %u process%s, Ctrl-C ends", waiting_for,
                         waiting_for == 1 ? "" : "es");
        (void) snprintf(line, columns + 1, "%s, %" PRIu64 " samples, %" PRIu64 " lost%s",
                        text_duration(time, sizeof(time), live->last - live->start), samples, lost, waiting);
        draw(live, line, columns);
}

void live_fetch(Live *live, const char *path, uint64_t done, uint64_t total) {
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *name = NULL, *line = NULL;
        char bytes[32], all[40] = "", rest[128];
        size_t columns;

        if (!begin(live, &columns))
                return;
        if (total > 0)
                (void) snprintf(all, sizeof(all), " of %s", text_bytes(bytes, sizeof(bytes), total));
        if (done > 0)
                (void) snprintf(rest, sizeof(rest), ": %s%s", text_bytes(bytes, sizeof(bytes), done), all);
        else
                (void) snprintf(rest, sizeof(rest), ": waiting for a server");
        if (columns < FETCH_TEXT + strlen(rest) + FETCH_NAME_MIN)
                return;
        name = text_fit(slash ? slash + 1 : path, columns - FETCH_TEXT - strlen(rest), "...");
        if (name && asprintf(&line, "Debug information of %s%s", name, rest) < 0)
                line = NULL;
        if (line)
                draw(live, line, columns);
}

void live_clear(Live *live) {
        if (!live->out || live->width == 0 || !terminal_is_ours())
                return;
        fprintf(live->out, "\r%*s\r", live->width, "");
        fflush(live->out);
        live->width = 0;
}
