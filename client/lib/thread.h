/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <pthread.h>

/* A thread that takes no signals: those of the program are for the program's own. 0 or -errno. */
int thread_start(pthread_t *ret, void *(*func)(void *userdata), void *userdata);
