/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The program that is recorded: forked, but held before its execve() until the sampler watches it, so
 * that its first instructions are in the recording. If it is never released it never runs.
 */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

typedef struct Command Command;

/* argv is borrowed; mask is the signal mask the program gets. */
int command_new(Command **ret, char *const *argv, const sigset_t *mask);
/* A program that was not released ends here; one that runs is left alone. */
Command *command_free(Command *command);
DEFINE_CLEANUP(Command, command_free)

pid_t command_get_pid(const Command *command);
/* Readable once the program has ended. Owned by the command. */
int command_get_pidfd(const Command *command);
/* Lets it run. */
int command_release(Command *command);
/*
 * Collects the program once its pidfd is readable. ret_status is as from waitpid(), ret_exec_errno is
 * what execvp() failed with, 0: it ran.
 */
int command_reap(Command *command, int *ret_status, int *ret_exec_errno);
/* Whether there is a file that execvp() would run for that name, whatever comes of it: as shells tell 126 from 127. */
bool command_is_there(const char *name);
int command_signal(Command *command, int signal);
