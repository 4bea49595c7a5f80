/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is read of a process below /proc: its mappings, its numbers, and the files as it sees them.
 *
 * A ProcessDir holds the directory open, so that all that is read through it is of one process even
 * where its number is used again. Where the leader thread has exited it is the directory of a
 * living thread, since the leader's then shows nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "regular-file.h"
#include "util.h"

typedef struct ProcessDir {
        int fd;      /* O_PATH: PROC/PID or PROC/PID/task/TID */
        int root_fd; /* O_PATH: the root as the process has it, -1: not yet opened */
        pid_t tid;   /* PID or TID */
} ProcessDir;

#define PROCESS_DIR_INIT { .fd = -1, .root_fd = -1 }

typedef struct ProcessIdentity {
        uid_t uid;       /* the one it creates files with */
        pid_t inner_pid; /* its number in its own pid namespace */
} ProcessIdentity;

/*
 * proc: "/proc". The text of maps is freed with free(). -ESRCH: there is no such process (any more),
 * or it has no memory; -EFBIG: more text than max bytes, 0: than anybody needs.
 */
int process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, size_t max, char **ret_maps, size_t *ret_size);
/* The directory alone, if there is one. */
void process_dir_find(ProcessDir *dir, const char *proc, pid_t pid);
void process_dir_done(ProcessDir *dir);

int process_dir_read_identity(const ProcessDir *dir, ProcessIdentity *ret);
/*
 * How far its CLOCK_MONOTONIC is ahead of ours, ns: 0 but where it lives in a time namespace of its own. -EOPNOTSUPP: that
 * cannot be told.
 */
int process_dir_read_ahead(const ProcessDir *dir, int64_t *ret);
/* From the text of /proc/PID/status: the number of the process in its own pid namespace, -1: it is not said. */
pid_t process_status_get_inner_pid(const char *status);

/*
 * Finds a file without opening it: an O_PATH fd does nothing to what it is of. By path below the root of the
 * process, or below root_fd, symbolic links resolved there. The last component may not be a link where nofollow
 * is set.
 */
int process_dir_find_file(ProcessDir *dir, const char *path, bool nofollow);
int find_file_in(int root_fd, const char *path, bool nofollow);
