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

#include "util.h"

typedef struct ProcessDir {
        int fd;      /* O_PATH: PROC/PID or PROC/PID/task/TID */
        int root_fd; /* O_PATH: the root as the process has it, -1: not yet opened */
} ProcessDir;

#define PROCESS_DIR_INIT { .fd = -1, .root_fd = -1 }

typedef struct ProcessIdentity {
        uid_t uid;       /* the one it creates files with */
        pid_t inner_pid; /* its number in its own pid namespace */
} ProcessIdentity;

/*
 * proc: "/proc". The text of maps is freed with free(). -ESRCH: there is no such process (any more),
 * or it has no memory; -EFBIG: more text than anybody needs.
 */
int process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, char **ret_maps, size_t *ret_size);
/* The directory alone, if there is one. */
void process_dir_find(ProcessDir *dir, const char *proc, pid_t pid);
void process_dir_done(ProcessDir *dir);

int process_dir_read_identity(const ProcessDir *dir, ProcessIdentity *ret);
/* From the text of /proc/PID/status: the number of the process in its own pid namespace, -1: it is not said. */
pid_t process_status_get_inner_pid(const char *status);

/*
 * Opens a regular file for reading, without blocking and without touching anything that is not one:
 * by path below the root of the process, or below root_fd, symbolic links resolved there; or as openat()
 * does. The last component may not be a link where nofollow is set. Returns the fd; -EBADF: no
 * regular file.
 */
int process_dir_open_file(ProcessDir *dir, const char *path, bool nofollow, struct stat *ret_st);
int open_regular_in(int root_fd, const char *path, bool nofollow, struct stat *ret_st);
int open_regular_at(int dir_fd, const char *path, struct stat *ret_st);
