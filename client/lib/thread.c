/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "thread.h"

#include <signal.h>

int thread_start(pthread_t *ret, void *(*func)(void *userdata), void *userdata) {
        sigset_t all, old;
        int r;

        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(ret, NULL, func, userdata);
        (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
        return -r;
}
