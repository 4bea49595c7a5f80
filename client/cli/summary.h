/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The few lines after a recording: was it good, where did the time go, what comes next. */

#include "ringside.h"

/*
 * Writes to stderr what the recording at path says of itself, and what its recorder, which has finished, has
 * counted. asked: kernel frames were asked for. -errno or RINGSIDE_E_*, told in error.
 */
int summary_print(const char *path, RingsideRecorder *recorder, bool asked, RingsideError *error);

/*
 * One sentence for when stacks of programs without frame pointers were cut short, where that is a good
 * part of samples; NULL else. Also for reports.
 */
const char *summary_frame_pointer_advice(const RingsideRecordingInfo *info);
/* "cpu-clock at 99 Hz" */
char *summary_event(char *dst, size_t size, const RingsideEvent *event);
/* Samples that were taken and are not in the recording: full ring or full queue. */
uint64_t summary_lost(const RingsideRecordingInfo *info);

/*
 * Samples that the events' own count says there should have been and that no program ever saw, an estimate; 0
 * where it is not known (no targets). The text is NULL where they are too few to mention.
 */
uint64_t summary_never_taken(const RingsideRecordingInfo *info);
char *summary_never_taken_text(char *dst, size_t size, const RingsideRecordingInfo *info);

/*
 * What became of kernel frames, in the words of a header's line and in those of a sentence that says what to do. NULL:
 * they are there, or were not wanted (the sentence), or it is not known. Where they were asked for to ask is no advice.
 */
const char *summary_kernel(const RingsideRecordingInfo *info);
const char *summary_kernel_advice(const RingsideRecordingInfo *info, bool asked);
/*
 * Why there is not one sample; of what has gone out of sight meanwhile where there are some, NULL where there is no such
 * thing. For a program that may not be seen no records are told, only that it is not.
 */
const char *summary_empty(const RingsideRecordingInfo *info);
char *summary_hidden_text(char *dst, size_t size, const RingsideRecordingInfo *info);
/* That sampling ended before the recording did, when, and why; NULL where it did not. */
char *summary_ended_text(char *dst, size_t size, const RingsideRecordingInfo *info);
/* That memory for unwind tables was short, or they came too late, where stacks were cut short for it; NULL else. */
char *summary_tables_text(char *dst, size_t size, const RingsideRecordingInfo *info);
/* Files that were given up on for names; NULL where there were none. */
char *summary_names_text(char *dst, size_t size, const RingsideRecordingInfo *info);
/* CPU time that no event covered; NULL where there was none. */
char *summary_missed_text(char *dst, size_t size, const RingsideRecordingInfo *info);
/* Behind a number of files, of which there is more than what was made of them. */
#define SUMMARY_ZSTD(files) files " compressed with zstd, which this libelf does not read"
#define SUMMARY_DWP(files) files " with inlined functions in a .dwp file, which is not read"
/* Processes that should have been followed, and were not; NULL where there were none. */
char *summary_untracked_text(char *dst, size_t size, const RingsideRecordingInfo *info);
