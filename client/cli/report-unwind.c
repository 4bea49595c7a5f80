/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "report-unwind.h"

#include <inttypes.h>
#include <string.h>

#include "text.h"

#define REASON_COLUMNS 18
#define NUMBER_COLUMNS (19 + REASON_COLUMNS) /* " 12.3 %   1234567  no rule           " */

static const struct {
        const char *text, *key;
} ends[RINGSIDE_WALK_END_MAX + 1] = {
        [RINGSIDE_WALK_NONE] = { "callers lost", "lost" },
        [RINGSIDE_WALK_COMPLETE] = { "callers lost", "lost" },
        [RINGSIDE_WALK_DEPTH] = { "too deep", "depth" },
        [RINGSIDE_WALK_BAD_FP] = { "no frame pointer", "bad_frame_pointer" },
        [RINGSIDE_WALK_UNREADABLE] = { "stack unreadable", "unreadable" },
        [RINGSIDE_WALK_BAD_RETURN] = { "no return address", "bad_return_address" },
        [RINGSIDE_WALK_COMPAT] = { "32-bit program", "compat" },
        [RINGSIDE_WALK_NO_TABLES] = { "no tables yet", "no_tables" },
        [RINGSIDE_WALK_NO_MAPPING] = { "no mapping", "no_mapping" },
        [RINGSIDE_WALK_NO_RULE] = { "no rule", "no_rule" },
        [RINGSIDE_WALK_UNSUPPORTED] = { "unsupported rule", "unsupported_rule" },
        [RINGSIDE_WALK_BAD_CFA] = { "no frame above", "bad_frame" },
        [RINGSIDE_WALK_NO_CALL] = { "not called", "no_call" },
        [RINGSIDE_WALK_END_MAX] = { "another reason", "other" },
};

const char *walk_end_text(enum RingsideWalkEnd end) {
        return ends[MIN(end, RINGSIDE_WALK_END_MAX)].text;
}

const char *walk_end_key(enum RingsideWalkEnd end) {
        return ends[MIN(end, RINGSIDE_WALK_END_MAX)].key;
}

/* What there is no end for was lost on the way. */
static enum RingsideWalkEnd end_of(const RingsideTruncation *t) {
        return t->end == RINGSIDE_WALK_COMPLETE ? RINGSIDE_WALK_NONE : MIN(t->end, RINGSIDE_WALK_END_MAX);
}

int report_count_truncated(const View *view, TruncatedBy ret) {
        const RingsideTruncation *t;
        size_t n;
        int r;

        memset(ret, 0, sizeof(TruncatedBy));
        r = ringside_profile_get_truncations(view->profile, &t, &n);
        for (size_t i = 0; r >= 0 && i < n; i++)
                ret[end_of(&t[i])] += t[i].samples;
        return r;
}

int report_truncated_text(const View *view, char *dst, size_t size) {
        TruncatedBy by;
        size_t len = 0;
        int r;

        dst[0] = 0;
        r = report_count_truncated(view, by);
        while (r >= 0 && len < size) {
                size_t most = 0;

                for (size_t i = 1; i < ELEMENTSOF(by); i++)
                        if (by[i] > by[most])
                                most = i;
                if (by[most] == 0)
                        break;
                len += (size_t) snprintf(dst + len, size - len, "%s%" PRIu64 " %s", len > 0 ? ", " : "", by[most],
                                         ends[most].text);
                by[most] = 0;
        }
        return r;
}

char *report_guessed_text(const View *view, char *dst, size_t size) {
        uint64_t n = ringside_profile_get_guessed(view->profile);

        if (n == 0)
                return NULL;
        snprintf(dst, size, "%" PRIu64 " samples (%.1f %%) partly by frame pointers", n,
                 text_share(n, ringside_profile_get_samples(view->profile)));
        return dst;
}

/* Which code it was is not told. */
static void print_guessed(FILE *out, const View *view, const Style *style) {
        char guessed[128], text[512];

        if (!report_guessed_text(view, guessed, sizeof(guessed)))
                return;
        snprintf(text, sizeof(text), "%s: there was no rule, but what looked like a frame. That may be wrong.", guessed);
        fputc('\n', out);
        text_wrap(out, text, 0, style->columns);
}

/* Of the whole recording, whatever the filter; without them the files have no rules, or some are not supported. */
static void print_tables(FILE *out, const View *view, const Style *style) {
        const RingsideStatistics *s = &view->info->statistics;
        const struct {
                uint64_t n;
                const char *text;
        } lines[] = {
                { s->tables_refused, "files have no unwind tables: what they say is malformed, or too much." },
                { s->tables_no_room, "times an unwind table found no room: ringside record --table-size=BYTES gives more." },
                { s->rules_no_room, "rules of files found no room, and count as unsupported." },
                { s->processes_no_room, "times what a process has mapped found no room among the tables: it had none for a while." },
                { s->tables_lost, "records came too fast for the tables to follow: all processes were looked at again instead." },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                char text[160];

                if (lines[i].n == 0)
                        continue;
                snprintf(text, sizeof(text), "%" PRIu64 " %s", lines[i].n, lines[i].text);
                fputc('\n', out);
                text_wrap(out, text, 0, style->columns);
        }
}

static void print_row(FILE *out, const View *view, const RingsideTruncation *t, const Style *style) {
        _cleanup_free_ char *fitted = text_fit(t->file[0] ? t->file : "-", style->columns - NUMBER_COLUMNS, style->ellipsis);

        fprintf(out, "%5.1f %%  %8" PRIu64 "  %-*s%s\n", report_share(view, t->samples, t->weight), t->samples, REASON_COLUMNS,
                walk_end_text(t->end), fitted ? fitted : "");
}

static bool reaches_threshold(const View *view, const ReportOptions *options, const RingsideTruncation *t) {
        return report_share(view, t->samples, t->weight) >= options->threshold;
}

int report_unwind(FILE *out, const View *view, const ReportOptions *options, const Style *style) {
        const RingsideTruncation *t;
        size_t n, shown = 0, left_out = 0;
        bool any = false;
        int r;

        r = ringside_profile_get_truncations(view->profile, &t, &n);
        if (r < 0)
                return r;
        if (n == 0) {
                text_wrap(out, "Every stack reached its start.", 0, style->columns);
                print_guessed(out, view, style);
                print_tables(out, view, style);
                return 0;
        }
        for (size_t i = 0; i < n; i++)
                any |= reaches_threshold(view, options, &t[i]);
        if (any && options->limit > 0)
                fprintf(out, "%s  share   samples  %-*s%s%s\n", style->bold, REASON_COLUMNS, "reason", "where the stack ends", style->reset);
        for (size_t i = 0; i < n; i++) {
                if (shown >= options->limit || !reaches_threshold(view, options, &t[i])) {
                        left_out++;
                        continue;
                }
                print_row(out, view, &t[i], style);
                shown++;
        }
        if (left_out > 0)
                fprintf(out, "%s%zu more left out: --threshold=0 without --limit shows them%s\n", style->dim, left_out,
                        style->reset);
        print_guessed(out, view, style);
        print_tables(out, view, style);
        return 0;
}
