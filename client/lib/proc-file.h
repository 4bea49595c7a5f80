/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The little the recorder itself reads below /proc: names, arguments, and whether a process still runs. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether somebody has this number: asked first, since what is looked for below /proc in vain costs the kernel much more. */
bool proc_file_is_there(pid_t pid);
/*
 * Reads at most size bytes of /proc/PID/NAME ("cmdline", "task/17/comm"). Returns their number, or
 * -errno. The bytes are not terminated.
 */
ssize_t proc_file_read(pid_t pid, const char *name, void *buffer, size_t size);
/* A name as in /proc/PID/comm, or /proc/PID/task/TID/comm where tid is not 0, without the newline. */
int proc_file_read_comm(pid_t pid, pid_t tid, char *ret, size_t size);

/*
 * Whether pid still is the process that started at start (ns CLOCK_BOOTTIME, 0: not known), and has a
 * thread that has not ended.
 */
bool proc_file_is_running(pid_t pid, uint64_t start);
/* When pid started, ns CLOCK_BOOTTIME, as exact as the kernel's clock tick; 0: not known. */
uint64_t proc_file_read_start(pid_t pid);
/* Whether pid is one of the kernel's own threads; false where nothing is known. */
bool proc_file_is_kernel_thread(pid_t pid);
/* Whether /proc is of another pid namespace than ours, where every number in it means another process. */
bool proc_file_is_foreign(void);
/* The number of pid in its own pid namespace, 0: the same, or not known. */
uint32_t proc_file_read_inner_pid(pid_t pid);
