/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See summary.h. */

#include "summary.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "text.h"

#define TOP 5
#define ADVICE_PERCENT 30
#define NEVER_TAKEN_PERCENT 2

const char *summary_frame_pointer_advice(const RingsideRecordingInfo *info) {
        uint64_t too_deep = info->statistics.walk_end[RINGSIDE_WALK_DEPTH];

        /* Tables need none. */
        if (strcmp(info->unwind, "table") == 0)
                return NULL;
        /* Not how walks ended: one that ran past main into a C library without frame pointers found its start. */
        if (text_share(info->truncated - MIN(too_deep, info->truncated), info->samples) <= ADVICE_PERCENT)
                return NULL;
        return "Many stacks are cut short because programs or libraries were built without frame pointers; "
               "building them with -fno-omit-frame-pointer helps.";
}

char *summary_event(char *dst, size_t size, const RingsideEvent *event) {
        char name[128], unit[64];

        ringside_escape(name, sizeof(name), event->name);
        if (event->by_period)
                snprintf(dst, size, "%s every %" PRIu64 " %s", name, event->value,
                         ringside_escape(unit, sizeof(unit), event->unit));
        else
                snprintf(dst, size, "%s at %" PRIu64 " Hz", name, event->value);
        return dst;
}

uint64_t summary_lost(const RingsideRecordingInfo *info) {
        const RingsideStatistics *s = &info->statistics;

        /* What the ring gave but the recording has not, the full queue dropped. */
        return s->lost + (info->finished && s->emitted > info->samples ? s->emitted - info->samples : 0);
}

uint64_t summary_never_taken(const RingsideRecordingInfo *info) {
        const RingsideStatistics *s = &info->statistics;

        return s->expected > s->taken ? s->expected - s->taken : 0;
}

char *summary_never_taken_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        uint64_t n = summary_never_taken(info);

        /* Less is how the clock's ticks fall at beginnings and ends. */
        if (text_share(n, info->statistics.expected) <= NEVER_TAKEN_PERCENT)
                return NULL;
        snprintf(dst, size,
                 "About %" PRIu64 " more sample%s (%.1f %%) %s never taken: the kernel throttled, or was in another "
                 "program's way; by the events' own count of time.",
                 n, n == 1 ? "" : "s", text_share(n, info->statistics.expected), n == 1 ? "was" : "were");
        return dst;
}

static const struct {
        const char *kernel_frames; /* as in RingsideRecordingInfo */
        const char *line, *advice;
        const char *advice_asked; /* where that is another one, since it was asked for in vain */
} kernel_texts[] = {
        { "denied", "not granted; --kernel asks",
          "Kernel frames were not granted, so time in the kernel is [kernel] and no more. --kernel asks for them where a "
          "password can be given; an administrator can grant them for good.",
          "Kernel frames were not granted, so time in the kernel is [kernel] and no more. An administrator can grant them "
          "for good: see POLKIT in ringside-helper(8)." },
        { "not asked", "not asked for (--no-kernel)", NULL, NULL },
        { "no names", "granted, without names (kernel.kptr_restrict)",
          "Kernel frames were granted, but this kernel tells no names of its functions, so time in it is [kernel] and no "
          "more. 'sysctl kernel.kptr_restrict=1' as root brings them back.",
          NULL },
};

const char *summary_kernel(const RingsideRecordingInfo *info) {
        for (size_t i = 0; i < ELEMENTSOF(kernel_texts); i++)
                if (strcmp(info->kernel_frames, kernel_texts[i].kernel_frames) == 0)
                        return kernel_texts[i].line;
        return NULL;
}

const char *summary_kernel_advice(const RingsideRecordingInfo *info, bool asked) {
        for (size_t i = 0; i < ELEMENTSOF(kernel_texts); i++)
                if (strcmp(info->kernel_frames, kernel_texts[i].kernel_frames) == 0)
                        return asked && kernel_texts[i].advice_asked ? kernel_texts[i].advice_asked : kernel_texts[i].advice;
        return NULL;
}

char *summary_missed_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        char time[32];

        if (info->statistics.missed == 0)
                return NULL;
        snprintf(dst, size, "For %s of CPU time no sample could be taken: CPUs were offline, or the machine was suspended.",
                 text_duration(time, sizeof(time), info->statistics.missed));
        return dst;
}

char *summary_untracked_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        const uint64_t n = info->statistics.untracked;

        if (n == 0)
                return NULL;
        snprintf(dst, size,
                 "Not recorded: at least %" PRIu64 " process%s or thread%s that targets started while more of theirs ran than a session "
                 "can follow.",
                 n, n == 1 ? "" : "es", n == 1 ? "" : "s");
        return dst;
}

/* The helper knows its targets by cgroup: who leaves one goes out of sight, too, and is no less the caller's. */
static uint64_t count_hidden(const RingsideRecordingInfo *info) {
        for (unsigned i = 0; i < info->n_targets; i++)
                if (strncmp(info->targets[i], "cgroup ", 7) == 0 || strncmp(info->targets[i], "unit ", 5) == 0)
                        return 0;
        return info->hidden;
}

/* A command that ran, and of which nothing was told, not even that it began. */
static bool command_was_hidden(const RingsideRecordingInfo *info) {
        const RingsideStatistics *s = &info->statistics;

        return info->n_targets > 0 && strncmp(info->targets[0], "command ", 8) == 0 && info->exit_status >= 0 &&
               s->processes == 0 && s->processes_lost == 0 && s->unknown == 0 && s->malformed == 0;
}

char *summary_tables_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        const RingsideStatistics *s = &info->statistics;
        uint64_t no_room = s->tables_no_room + s->rules_no_room + s->processes_no_room;
        uint64_t n = s->walk_end[RINGSIDE_WALK_NO_TABLES] + s->walk_end[RINGSIDE_WALK_NO_MAPPING] +
                     s->walk_end[RINGSIDE_WALK_NO_RULE] + s->walk_end[RINGSIDE_WALK_UNSUPPORTED];

        if (n == 0 || (no_room == 0 && s->tables_lost == 0))
                return NULL;
        snprintf(dst, size, "%s, which may be why up to %" PRIu64 " stacks are cut short: ringside report --unwind tells more%s.",
                 no_room > 0 ? "Memory for unwind tables was short" : "Processes changed too fast for unwind tables to follow", n,
                 no_room > 0 ? ", ringside record --table-size=BYTES gives more" : "");
        return dst;
}

char *summary_names_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        uint64_t n = info->names_refused;

        if (n == 0)
                return NULL;
        snprintf(dst, size,
                 "%" PRIu64 " file%s no names, or not all: %s damaged, too large, gone, changed, or not yours to read.", n,
                 n == 1 ? " has" : "s have", n == 1 ? "it is" : "they are");
        return dst;
}

#define HIDDEN_BECAUSE                                                                                            \
        "a setuid program, one that you may not read, or one with capabilities. With -a (profile-system) an "     \
        "administrator can allow it."

const char *summary_empty(const RingsideRecordingInfo *info) {
        /* That is said, with the reason, and after that nobody looked. */
        if (info->ended_why && info->ended_why[0])
                return "There are no samples in it: none was taken before sampling ended.";
        if (command_was_hidden(info))
                return "There are no samples in it: the program that was run is not yours to see, as " HIDDEN_BECAUSE;
        if (count_hidden(info) > 0)
                return "There are no samples in it: what was recorded became a program that is not yours to see, "
                       "as " HIDDEN_BECAUSE;
        return "There are no samples in it: what was recorded used hardly any CPU time that is yours to see. A longer "
               "run, or more samples a second with -F, shows more.";
}

char *summary_hidden_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        uint64_t n = count_hidden(info);

        /* Where all processes are recorded somebody's sudo is nothing that was asked for. */
        if (n == 0 || info->n_targets == 0 || info->samples == 0)
                return NULL;
        snprintf(dst, size, "%" PRIu64 " process%s became a program that is not yours to see, and not in it: " HIDDEN_BECAUSE,
                 n, n == 1 ? "" : "es");
        return dst;
}

char *summary_ended_text(char *dst, size_t size, const RingsideRecordingInfo *info) {
        char ended[32], duration[32], why[256];

        if (!info->ended_why || !info->ended_why[0])
                return NULL;
        snprintf(dst, size, "Sampling ended after %s of %s: %s.", text_duration(ended, sizeof(ended), info->ended),
                 text_duration(duration, sizeof(duration), MAX(info->duration, info->ended)),
                 ringside_escape(why, sizeof(why), info->ended_why));
        return dst;
}

static void print_numbers(const char *path, const RingsideRecordingInfo *info) {
        char time[32], bytes[32], event[256];
        _cleanup_free_ char *escaped = text_escape(path);
        struct stat st;

        fprintf(stderr, "Recorded %s", text_duration(time, sizeof(time), info->duration));
        if (info->n_events > 0)
                fprintf(stderr, ", %s", summary_event(event, sizeof(event), &info->events[0]));
        fprintf(stderr, ": %" PRIu64 " samples, %" PRIu64 " lost\n", info->samples, summary_lost(info));
        if (info->samples > 0)
                fprintf(stderr, "%.1f %% of the stacks did not reach their start\n",
                        text_share(info->truncated, info->samples));
        fprintf(stderr, "Recording: %s", escaped ? escaped : "");
        if (stat(path, &st) == 0)
                fprintf(stderr, " (%s)", text_bytes(bytes, sizeof(bytes), (uint64_t) st.st_size));
        fputc('\n', stderr);
}

/* Every sample has one innermost function. */
static void print_rows(const RingsideRow *rows, size_t n, const Style *style) {
        uint64_t samples = 0;

        for (size_t i = 0; i < n; i++)
                samples += rows[i].self_samples;
        if (samples == 0)
                return;
        fprintf(stderr, "\n%s  self   function%s\n", style->bold, style->reset);
        for (size_t i = 0; i < MIN(n, (size_t) TOP) && rows[i].self_samples > 0; i++) {
                _cleanup_free_ char *name = text_fit(rows[i].name, style->columns - 9, style->ellipsis);

                fprintf(stderr, "%5.1f %%  %s\n", text_share(rows[i].self_samples, samples), name ? name : "");
        }
}

static int print_top(RingsideRecording *recording, RingsideRecorder *recorder, const Style *style,
                     RingsideError *error) {
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        const RingsideRow *rows;
        size_t n;
        int r;

        r = ringside_recorder_get_rows(recorder, &rows, &n);
        if (r == -EFBIG) {
                r = ringside_profile_new(&profile, recording, NULL, error);
                if (r >= 0)
                        r = ringside_profile_get_rows(profile, RINGSIDE_BY_FUNCTION, &rows, &n);
        }
        if (r >= 0)
                print_rows(rows, n, style);
        return r;
}

int summary_print(const char *path, RingsideRecorder *recorder, bool asked, RingsideError *error) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_free_ char *quoted = text_quote(path), *escaped = quoted ? text_escape(quoted) : NULL;
        const RingsideRecordingInfo *info;
        const char *advice;
        char ended[384], never[256], missed[128], untracked[256], hidden[256], tables[256], names[256];
        Style style;
        int r;

        *error = (RingsideError){};
        r = ringside_recording_open(&recording, path, error);
        if (r < 0)
                return r;
        info = ringside_recording_get_info(recording);
        style_init(&style, STDERR_FILENO);
        print_numbers(path, info);
        if (summary_ended_text(ended, sizeof(ended), info))
                text_wrap(stderr, ended, 0, style.columns);
        if (summary_never_taken_text(never, sizeof(never), info))
                text_wrap(stderr, never, 0, style.columns);
        if (summary_missed_text(missed, sizeof(missed), info))
                text_wrap(stderr, missed, 0, style.columns);
        if (summary_untracked_text(untracked, sizeof(untracked), info))
                text_wrap(stderr, untracked, 0, style.columns);
        if (summary_hidden_text(hidden, sizeof(hidden), info))
                text_wrap(stderr, hidden, 0, style.columns);
        if (summary_tables_text(tables, sizeof(tables), info))
                text_wrap(stderr, tables, 0, style.columns);
        if (summary_names_text(names, sizeof(names), info))
                text_wrap(stderr, names, 0, style.columns);
        advice = summary_frame_pointer_advice(info);
        if (advice)
                text_wrap(stderr, advice, 0, style.columns);
        advice = summary_kernel_advice(info, asked);
        if (advice)
                text_wrap(stderr, advice, 0, style.columns);
        if (info->samples == 0) {
                text_wrap(stderr, summary_empty(info), 0, style.columns);
                return 0;
        }
        r = print_top(recording, recorder, &style, error);
        if (r < 0)
                return r;
        fprintf(stderr, "\nNext: ringside report %s\n", escaped ? escaped : "");
        return 0;
}
