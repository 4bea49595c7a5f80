/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the tests of recordings share: a directory of their own, and a look at files from outside. */

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringside.h"
#include "store.h"
#include "util.h"

#define PLACE_PATH_MAX 128

typedef struct Place {
        char dir[PLACE_PATH_MAX / 2];
        char file[PLACE_PATH_MAX]; /* in dir; does not exist yet */
} Place;

DEFINE_CLEANUP(RingsideRecording, ringside_recording_free)
DEFINE_CLEANUP(RingsideProfile, ringside_profile_free)
DEFINE_CLEANUP(RingsideRecorder, ringside_recorder_free)
DEFINE_CLEANUP(Store, store_free)

#define SAMPLE(...) (&(StoreSample){ __VA_ARGS__ })

/* For cmocka: *state is the Place. */
int place_setup(void **state);
int place_teardown(void **state);

/* With SQLite's own VFS. -1: it does not open. */
int64_t count_rows(const char *path, const char *table);
bool is_intact(const char *path);
/* Runs SQL on the file; asserts that it works. */
void run_sql(const char *path, const char *sql);
/* The same on a database that is made by it. */
void run_sql_create(const char *path, const char *sql);
/* What ringside_recording_open() says, and then ringside_profile_new(), and whether all of it could be had. */
int open_result(const char *path);

void write_bytes(const char *path, const void *bytes, size_t n);
void write_text(const char *path, const char *text);
/* The whole file, with a zero byte behind it. */
char *read_bytes(const char *path, size_t *ret_n);
char *read_text(const char *path);
/* A hot journal for a database that had no page. */
void write_empty_journal(const char *path);
/* RLIMIT_FSIZE without its signal: the next best thing to a full disk. */
void limit_file_size(size_t bytes);
