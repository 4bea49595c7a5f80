/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See view.h. */

#include "view.h"

#include <limits.h>
#include <string.h>

#include "text.h"

int view_options_set(ViewOptions *o, const char *command, int c, const char *value) {
        uint64_t n;

        switch (c) {
        case OPT_PROCESS:
                if (!*value)
                        return cli_error_value(command, "--process", value, "a PID or a pattern for the command");
                o->process = value;
                return 1;
        case OPT_THREAD:
                if (!*value)
                        return cli_error_value(command, "--thread", value, "a TID or a pattern for the name");
                o->thread = value;
                return 1;
        case OPT_TARGET:
                if (!*value)
                        return cli_error_value(command, "--target", value, "the name of a target, or a pattern");
                o->target = value;
                return 1;
        case OPT_MERGE_TARGETS:
                o->merge_targets = true;
                return 1;
        case OPT_NO_INLINE:
                o->no_inline = true;
                return 1;
        case OPT_FOLD_PARTS:
                o->fold_parts = true;
                return 1;
        case OPT_FUNCTION:
                if (!*value)
                        return cli_error_value(command, "--function", value, "the name of a function, or a pattern");
                o->function = value;
                return 1;
        case OPT_SINCE:
                if (parse_duration(value, &o->since) < 0)
                        return cli_error_value(command, "--since", value, "a time, as in 10s or 500ms");
                return 1;
        case OPT_UNTIL:
                if (parse_duration(value, &o->until) < 0)
                        return cli_error_value(command, "--until", value, "a time, as in 10s or 500ms");
                return 1;
        case OPT_MODE:
                o->mode = strcmp(value, "user") == 0 ? RINGSIDE_MODE_USER : RINGSIDE_MODE_KERNEL;
                if (o->mode == RINGSIDE_MODE_KERNEL && strcmp(value, "kernel") != 0)
                        return cli_error_value(command, "--mode", value, "user or kernel");
                return 1;
        case OPT_EVENT:
                if (parse_number(value, 0, INT_MAX, &n) < 0)
                        return cli_error_value(command, "--event", value, "the number of an event, from 0");
                o->event = (int) n;
                return 1;
        case 'o':
                if (!*value)
                        return cli_error_value(command, "--output", value, "the name of a file, or -");
                o->output = value;
                return 1;
        default:
                return 0;
        }
}

int view_options_rest(ViewOptions *o, int argc, char **argv) {
        if (optind + 1 < argc) {
                cli_error("name one recording, behind the options", "%s is one too many", argv[optind + 1]);
                return -EINVAL;
        }
        if (o->until > 0 && o->since >= o->until) {
                cli_error("--since is the earlier time", "There is nothing from --since on that is before --until");
                return -EINVAL;
        }
        if (optind < argc)
                o->recording = argv[optind];
        return 0;
}

int view_find_path(char **ret, const char *recording) {
        RingsideError error = {};
        int r;

        if (recording) {
                *ret = strdup(recording);
                if (!*ret)
                        cli_error(NULL, "%s", strerror(ENOMEM));
                return *ret ? 0 : -ENOMEM;
        }
        r = ringside_recording_find_newest(".", ret, &error);
        if (r == -ENOENT)
                cli_error("make one: ringside record -- ./program its arguments\n"
                          "or name one from elsewhere, or of another user, as the last argument",
                          "There is no recording of yours in this directory");
        else if (r < 0)
                cli_error_library(&error, r);
        return r;
}

static int open_profile(View *view, const ViewOptions *options) {
        RingsideError error = {};
        int r;

        if (options->event >= 0 && (unsigned) options->event >= view->info->n_events) {
                cli_error("they are numbered from 0", "The recording has %u event%s, and none with number %d",
                          view->info->n_events, view->info->n_events == 1 ? "" : "s", options->event);
                return -EINVAL;
        }
        view->filter = (RingsideFilter){
                .size = sizeof(view->filter),
                .process = options->process,
                .thread = options->thread,
                .target = options->target,
                .event = options->event,
                .merge_targets = options->merge_targets,
                .no_inline = options->no_inline,
                .fold_parts = options->fold_parts,
                .function = options->function,
                .since = options->since,
                .until = options->until,
                .mode = options->mode,
        };
        r = ringside_profile_new(&view->profile, view->recording, &view->filter, &error);
        if (r < 0)
                cli_error_library(&error, r);
        return r;
}

int view_open(View *ret, const ViewOptions *options) {
        RingsideError error = {};
        View view = {};
        int r;

        r = view_find_path(&view.path, options->recording);
        if (r < 0)
                return r;
        r = ringside_recording_open(&view.recording, view.path, &error);
        if (r == -ENOENT && !error.hint[0])
                cli_error("without a name the newest recording here is taken; 'ls *.ringside' shows them", "%s", error.text);
        else if (r < 0)
                cli_error_library(&error, r);
        else {
                view.info = ringside_recording_get_info(view.recording);
                r = open_profile(&view, options);
        }
        if (r < 0) {
                view_done(&view);
                return r;
        }
        *ret = view;
        return 0;
}

void view_done(View *view) {
        ringside_profile_free(view->profile);
        ringside_recording_free(view->recording);
        free(view->path);
        *view = (View){};
}
