/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The few idioms every file uses: owners that clean up after themselves, ownership that is handed on,
 * and loops around EINTR. Nothing here knows about profiling.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _unused_ __attribute__((unused))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Defines x_freep-style helpers for _cleanup_ from a destructor that returns NULL. */
#define DEFINE_CLEANUP(type, func)                                                                                     \
        static inline void func##p(type **p) {                                                                         \
                if (*p)                                                                                                \
                        func(*p);                                                                                      \
        }

static inline void *steal_pointer_(void *pp) {
        void **p = pp, *r = *p;

        *p = NULL;
        return r;
}
#define TAKE_PTR(p) ((__typeof__(p)) steal_pointer_(&(p)))

static inline int steal_fd_(int *fd) {
        int r = *fd;

        *fd = -1;
        return r;
}
#define TAKE_FD(fd) steal_fd_(&(fd))

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Keeps errno; a negative fd is no fd. Returns -1. */
static inline int close_fd(int fd) {
        int saved = errno;

        if (fd >= 0)
                (void) close(fd);
        errno = saved;
        return -1;
}

static inline void close_fdp(int *fd) {
        close_fd(*fd);
}

static inline void fclosep(FILE **f) {
        if (*f)
                fclose(*f);
}

/* All but the standard ones and these; those may be -1. */
static inline void close_fds_but(const int *kept, size_t n) {
        int max = 2;

        for (size_t i = 0; i < n; i++)
                max = MAX(max, kept[i]);
        for (int fd = 3; fd <= max; fd++) {
                size_t i = 0;

                while (i < n && kept[i] != fd)
                        i++;
                if (i == n)
                        (void) close(fd);
        }
        (void) close_range(max + 1, ~0U, 0);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(close_fdp)
#define _cleanup_fclose_ _cleanup_(fclosep)

#define RETRY_ON_EINTR(expression)                                                                                     \
        ({                                                                                                             \
                long int retry_result_;                                                                                \
                do                                                                                                     \
                        retry_result_ = (long int) (expression);                                                       \
                while (retry_result_ < 0 && errno == EINTR);                                                           \
                retry_result_;                                                                                         \
        })

static inline uint64_t now_ns(clockid_t clock) {
        struct timespec t = {};

        (void) clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}
