/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * For a child that reads files which may say anything: it keeps what it has open, may open others for reading alone, or none
 * but some, and can write to no other file, reach nobody, and outlive neither us nor its time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* root's files are root's to read, but nobody else's are any more. */
int sandbox_drop_capabilities(void);
/*
 * deadline: ns CLOCK_MONOTONIC; memory_max: bytes that it may write to, more than we have, 0: a gigabyte; file_max: bytes of a
 * file, 0: none is written to.
 */
int sandbox_limit(uint64_t deadline, uint64_t memory_max, uint64_t file_max);
/*
 * With Landlock, so that none but some files can be opened. Returns an fd for the next two, which are called before
 * sandbox_confine(), or a negative errno: this kernel cannot do that.
 */
int sandbox_hide_files_begin(void);
/* But for the regular file that fd is of, for reading. */
int sandbox_hide_files_but(int hide_fd, int fd);
int sandbox_hide_files(int hide_fd);
/* From here on few system calls are left; exec: with what another program needs to start. */
int sandbox_confine(bool exec);
/*
 * For whoever has started it: kills and waits. One that waits for a file on a file system which does not answer ends when there
 * is an answer, and no sooner: that one is left.
 */
void sandbox_end(pid_t pid);
