/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the commands of `ringside` share: exit codes, errors that name the next step, what the terminal
 * can show. A command parses its options into a struct on its own stack; there is no global state.
 */

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "ringside.h"
#include "util.h"

DEFINE_CLEANUP(RingsideSession, ringside_session_free)
DEFINE_CLEANUP(RingsideRecorder, ringside_recorder_free)
DEFINE_CLEANUP(RingsideRecording, ringside_recording_free)
DEFINE_CLEANUP(RingsideProfile, ringside_profile_free)

/* Beside EXIT_SUCCESS and EXIT_FAILURE; 125 and up only with a command of `record`. */
enum {
        EXIT_USAGE = 2,
        EXIT_OWN_FAILURE = 125,
        EXIT_NOT_RUNNABLE = 126,
        EXIT_NOT_FOUND = 127,
        EXIT_SIGNAL = 128, /* + the signal's number */
};

/* Sequences and characters for one stream; all "" where it is no terminal or NO_COLOR is set. */
typedef struct Style {
        const char *bold, *dim, *good, *note, *bad, *reset;
        const char *ellipsis;
        bool utf8;       /* may draw with more than ASCII */
        size_t columns;  /* to write in: 80 where nothing else is known, and no less than tables need */
        size_t terminal_columns; /* that there are, though they be few */
} Style;

void style_init(Style *ret, int fd);

/* "ringside: TEXT" and a "hint: TEXT" line for each line of hint; hint may be NULL or "". Wrapped on a terminal. */
void cli_error(const char *hint, const char *format, ...) _printf_(2, 3);
/* What the library says. */
void cli_error_library(const RingsideError *error, int r);
/* For c, '?' or ':' from getopt_long() with ":" first; argv[0] is the command's name. Returns -EINVAL. */
int cli_error_option(int c, char **argv, const struct option *options);
/* A value that does not parse. Returns -EINVAL. */
int cli_error_value(const char *command, const char *option, const char *value, const char *wanted);

/* --helper=; returns -EINVAL for what it does not know. */
int cli_parse_helper(const char *s, enum RingsideHelper *ret);
/* --format=text|json. */
int cli_parse_json(const char *s, bool *ret);

/* The commands. argv[0] is the command's name. Each returns the exit status. */
int command_record(int argc, char **argv);
int command_report(int argc, char **argv);
int command_flamegraph(int argc, char **argv);
int command_export(int argc, char **argv);
int command_events(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_annotate(int argc, char **argv);
int command_symbolize(int argc, char **argv);
