/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * For tests in which the n-th allocation fails, which are linked with --wrap for the allocator: included by one file of each,
 * for it defines the wrappers.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* The wrappers have no argument to find it by. Below 0: nothing fails. */
static long allocations_left = -1;
/* Those of this thread neither fail nor count. */
static _Thread_local bool allocations_succeed;

static bool allocation_fails(void) {
        if (allocations_succeed || __atomic_load_n(&allocations_left, __ATOMIC_ACQUIRE) < 0)
                return false;
        return __atomic_fetch_sub(&allocations_left, 1, __ATOMIC_ACQ_REL) == 0;
}

#define WRAP(type, name, parameters, arguments)                                                              \
        type __real_##name parameters;                                                                       \
        type __wrap_##name parameters;                                                                       \
        type __wrap_##name parameters {                                                                      \
                if (allocation_fails()) {                                                                    \
                        errno = ENOMEM;                                                                      \
                        return NULL;                                                                         \
                }                                                                                            \
                return __real_##name arguments;                                                              \
        }

WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t size), (p, size))
WRAP(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
