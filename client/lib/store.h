/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Writes the SQLite database that a recording is (docs/recording.md has the schema). Knows rows, not
 * processes: the recorder resolves, the store interns and writes. Single-threaded, used by the
 * recorder's writer thread. A commit at least once a second; after a kill -9 at any point all that was
 * committed is there, in a file that opens read-only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringside.h"

typedef struct Store Store;

/* Created O_EXCL|O_NOFOLLOW 0600; refuses a planted -wal, -shm or -journal beside it. */
int store_new(Store **ret, const char *path, RingsideError *error);
/* Commits and closes; NULL is allowed. */
Store *store_free(Store *store);
/* Bytes on disk. */
uint64_t store_get_size(const Store *store);

/*
 * Times are nanoseconds since the recording began, and may lie before. Text is cut at the lengths that
 * a reader accepts. Functions return 0 or -errno; after a failure the store takes nothing more in,
 * and every further call fails alike.
 */
int store_put_meta(Store *store, const char *key, const char *value);
int store_put_event(Store *store, unsigned index, const RingsideEvent *event);
/* time: when these were the numbers. */
int store_put_statistics(Store *store, int64_t time, const RingsideStatistics *statistics, uint64_t dropped, uint64_t truncated);

/* All ids are given by the store, 1, 2, 3, ... */
/*
 * parent_id 0: not known. cmdline: as in /proc/PID/cmdline, a zero byte after each argument. inner_pid:
 * its number in its own pid namespace, 0: none that differs.
 */
int store_add_process(Store *store, uint32_t pid, uint32_t inner_pid, int64_t parent_id, int64_t start, const char *comm, const char *cmdline, size_t cmdline_len, int64_t *ret_id);
int store_end_process(Store *store, int64_t process_id, int64_t time);
int store_add_thread(Store *store, int64_t process_id, uint32_t tid, const char *comm, int64_t *ret_id);
int store_rename_thread(Store *store, int64_t thread_id, const char *comm);
int store_add_file(Store *store, const char *path, uint64_t device, uint64_t inode, uint64_t size, const void *build_id, size_t build_id_len, int64_t *ret_id);
int store_add_mapping(Store *store, int64_t process_id, uint64_t start, uint64_t end, uint64_t offset, int64_t file_id, int64_t time);
/* file_id 0: a marker. raw_name NULL: unnamed. Interned by (file, address, name). */
int store_add_frame(Store *store, int64_t file_id, uint64_t address, const char *raw_name, uint64_t name_offset, bool kernel, int64_t *ret_id);
/* As store_add_frame(), of one that was not added before, and will not be again: the caller remembers. */
int store_add_frame_once(Store *store, int64_t file_id, uint64_t address, const char *raw_name, uint64_t name_offset, bool kernel, int64_t *ret_id);
/* What became known late of a frame that was added once, with the same file and address. raw_name NULL: it has no name. */
int store_name_frame(Store *store, int64_t frame_id, int64_t file_id, uint64_t address, const char *raw_name, uint64_t name_offset);
/*
 * From which line of which source a frame's code comes, for code of which no file tells it later. Where it was told another
 * one before, of the same name and at the same place, it has none from then on.
 */
int store_set_line(Store *store, int64_t frame_id, const char *path, uint32_t line);
/* A node of the tree of stacks: frame called from parent (0: outermost). Interned. */
int store_add_stack(Store *store, int64_t parent_id, int64_t frame_id, int64_t *ret_id);
/* n of them, each called from the one before. ret_ids: n. */
int store_add_stacks(Store *store, int64_t parent_id, const int64_t *frame_ids, size_t n, int64_t *ret_ids);
/* Before the samples that are its own. index: 1, 2, 3, ... in order. kind: as the schema says. */
int store_add_target(Store *store, unsigned index, const char *kind, const char *label);

typedef struct StoreSample {
        int64_t time;
        int64_t thread_id;
        int64_t stack_id; /* the innermost node, 0: none at all */
        uint64_t weight;  /* 0: one period */
        unsigned event;
        unsigned cpu;
        unsigned target; /* index; 0, or one that was not added: none */
        bool kernel_mode;
        bool guessed; /* some of the stack */
        enum RingsideWalkEnd walk_end;
} StoreSample;

int store_add_sample(Store *store, const StoreSample *sample);
/*
 * Ends the transaction and starts the next. -EBUSY: somebody is reading just now; nothing is lost, but
 * it is not on disk before a later call succeeds.
 */
int store_commit(Store *store);

/* Longest text that is kept, in bytes. */
#define STORE_COMM_MAX 64
#define STORE_PATH_MAX 4096
#define STORE_NAME_MAX 8192
#define STORE_CMDLINE_MAX 4096
#define STORE_META_MAX 65536
#define STORE_LABEL_MAX 4096
