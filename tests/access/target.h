/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The steps of an access-target: each takes its argument, behind the "=", and returns 0 or -errno.
 */

/* What is left of the command line, for a step that executes another program with it. */
typedef int (*StepFunc)(char *argument, char **rest);

/* steps.c: identities. All ids are numbers, and hold for the calling thread only. */
int step_comm(char *argument, char **rest);       /* NAME */
int step_uid(char *argument, char **rest);        /* REAL,EFFECTIVE,SAVED */
int step_gid(char *argument, char **rest);        /* REAL,EFFECTIVE,SAVED; and no other groups */
int step_dumpable(char *argument, char **rest);   /* 0 or 1 */
int step_keepcaps(char *argument, char **rest);   /* over the next change of uids */
int step_nocaps(char *argument, char **rest);     /* gives up all capabilities */
int step_userns(char *argument, char **rest);     /* enters a new user namespace without a mapping */
int step_owned_ns(char *argument, char **rest);   /* OWNER,UID,GID: enters OWNER's, with these two mapped */
int step_pidns(char *argument, char **rest);      /* goes on as the first process of a new pid namespace */
int step_exec(char *argument, char **rest);       /* PATH: goes on there */
int step_fork_exec(char *argument, char **rest);  /* PATH: the same in a child, and waits for it */

/* busy.c: what is done. */
int step_hold(char *argument, char **rest);       /* says "ready" and waits for the end */
int step_burn(char *argument, char **rest);       /* MSEC of CPU, its thread's too, once the gate is open */
int step_spin(char *argument, char **rest);       /* until the end, churning processes, threads and names */
int step_thread(char *argument, char **rest);     /* NAME: a thread that stays as it is now and spins */
int step_pty(char *argument, char **rest);        /* keeps a kernel worker busy */
int step_now(char *argument, char **rest);        /* prints "now" and CLOCK_BOOTTIME */

/* uring.c */
int step_uring_worker(char *argument, char **rest); /* kernel worker threads of this process */
int step_uring_borrow(char *argument, char **rest); /* UID,GID: kernel work with that user's credentials */

/*
 * The gate is the pipe on standard input: open while a byte stands in it. Waits until it is; ends the process
 * with the pipe. The first time it says "ready".
 */
void gate_wait(void);
