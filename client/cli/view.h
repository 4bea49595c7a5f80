/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A recording opened to be looked at: the options that report, flamegraph and export share, and what
 * they name. Errors are printed here.
 */

#include "cli.h"

typedef struct ViewOptions {
        const char *process, *thread, *target; /* NULL: all */
        const char *function;                  /* NULL: all */
        bool merge_targets, no_inline, fold_parts;
        uint64_t since, until;                 /* ns; until 0: to the end */
        enum RingsideMode mode;
        int event;                    /* -1: the first */
        const char *output;           /* NULL: the command's default; "-": standard output */
        const char *recording;        /* NULL: the newest here */
} ViewOptions;

typedef struct View {
        char *path;
        RingsideRecording *recording;
        const RingsideRecordingInfo *info;
        RingsideFilter filter;
        RingsideProfile *profile;
} View;

/* Values of the options below for getopt_long(); -o is 'o'. */
enum { OPT_PROCESS = 256, OPT_THREAD, OPT_TARGET, OPT_MERGE_TARGETS, OPT_NO_INLINE, OPT_FOLD_PARTS, OPT_FUNCTION, OPT_SINCE, OPT_UNTIL, OPT_MODE, OPT_EVENT, OPT_VIEW_END };

#define VIEW_OPTIONS                                                                                                   \
        { "process", required_argument, NULL, OPT_PROCESS }, { "thread", required_argument, NULL, OPT_THREAD },        \
                { "target", required_argument, NULL, OPT_TARGET },                                                     \
                { "merge-targets", no_argument, NULL, OPT_MERGE_TARGETS },                                             \
                { "no-inline", no_argument, NULL, OPT_NO_INLINE },                                                     \
                { "fold-parts", no_argument, NULL, OPT_FOLD_PARTS },                                                   \
                { "function", required_argument, NULL, OPT_FUNCTION },                                                 \
                { "since", required_argument, NULL, OPT_SINCE },                                                       \
                { "until", required_argument, NULL, OPT_UNTIL }, { "mode", required_argument, NULL, OPT_MODE },        \
                { "event", required_argument, NULL, OPT_EVENT }, { "output", required_argument, NULL, 'o' }

#define VIEW_HELP                                                                                                      \
        "      --process=P      Only this process: its PID, or a pattern for its command\n"                            \
        "      --thread=T       Only this thread: its TID, or a pattern for its name\n"                                \
        "      --target=T       Only what was named so to be recorded: a PID, TID, cgroup\n"                           \
        "                       or unit, or a pattern\n"                                                               \
        "      --merge-targets  All that was named to be recorded as if it were one\n"                                 \
        "      --no-inline      Inlined functions as part of what they are inlined into\n"                             \
        "      --fold-parts     f.cold, f.part.0, f.constprop.0 and the like as f\n"                                   \
        "      --function=F     Only samples with this function in their stack, and trees\n"                           \
        "                       from it on: its name, or a pattern\n"                                                  \
        "      --since=TIME     Only from this time of the recording on, as in 10s\n"                                  \
        "      --until=TIME     Only before this time\n"                                                               \
        "      --mode=MODE      Only where the CPU was in user or kernel mode\n"                                       \
        "      --event=N        The event with this number, default 0\n"

/* One of the options above: 1; not one of them: 0; -EINVAL. */
int view_options_set(ViewOptions *o, const char *command, int c, const char *value);
/* What is left behind the options: at most the recording. */
int view_options_rest(ViewOptions *o, int argc, char **argv);

/* The one that is named, or NULL: the newest here; freed with free(). */
int view_find_path(char **ret, const char *recording);
int view_open(View *ret, const ViewOptions *options);
void view_done(View *view);
