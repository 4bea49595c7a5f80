/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "process-pages.h"

#include <string.h>
#include <sys/uio.h>

#include "process-dir.h"

#define PAGE UINT64_C(4096)
/* What the kernel maps with a page that is asked for, where it is in memory (fault_around_bytes). */
#define AROUND (UINT64_C(64) << 10)
#define BYTES_MAX (UINT64_C(16) << 20)
#define MAPPINGS_MAX 4096
#define PLACES_MAX (BYTES_MAX / PAGE + MAPPINGS_MAX)
/* Of one call. */
#define BATCH 64
/* All that anybody waits for tables meanwhile. */
#define TIME_MAX UINT64_C(20000000)

/*
 * Nobody else's: what is mapped there may be on a file system of theirs, which can keep who reads it waiting. The directory
 * in /proc is root's where a process is not to be looked into, whoever runs it.
 */
static int check_owner(pid_t pid) {
        ProcessDir dir = PROCESS_DIR_INIT;
        ProcessIdentity identity;
        int r;

        process_dir_find(&dir, "/proc", pid);
        r = dir.fd < 0 ? -ESRCH : process_dir_read_identity(&dir, &identity);
        process_dir_done(&dir);
        if (r < 0)
                return r;
        return identity.uid == geteuid() ? 0 : -EPERM;
}

static int compare_sizes(const void *a, const void *b) {
        const struct rs_table_mapping *x = a, *y = b;
        uint64_t m = x->end - x->start, n = y->end - y->start;

        return m < n ? -1 : m > n;
}

static size_t find_places(const struct rs_table_mapping *mappings, size_t n, uint64_t step, struct iovec *places) {
        size_t n_places = 0;
        uint64_t bytes = 0;

        for (size_t i = 0; i < n; i++) {
                bytes += mappings[i].end - mappings[i].start;
                if (bytes > BYTES_MAX)
                        break;
                for (uint64_t at = mappings[i].start; at < mappings[i].end && n_places < PLACES_MAX; at = (at / step + 1) * step)
                        places[n_places++] = (struct iovec){ .iov_base = (void *) (uintptr_t) at, .iov_len = 1 };
        }
        return n_places;
}

/* It stops where nothing can be read: that place is left out. Where pages come from a disk the rest may take too long. */
static int read_places(pid_t pid, const struct iovec *places, size_t n) {
        uint64_t end = now_ns(CLOCK_MONOTONIC) + TIME_MAX;
        uint8_t buffer[BATCH];

        for (size_t i = 0; i < n && now_ns(CLOCK_MONOTONIC) < end;) {
                size_t batch = MIN(n - i, (size_t) BATCH);
                struct iovec local = { .iov_base = buffer, .iov_len = batch };
                ssize_t r = process_vm_readv(pid, &local, 1, places + i, batch, 0);

                if (r < 0 && errno != EFAULT)
                        return -errno;
                i += r < 0 ? 1 : (size_t) r + ((size_t) r < batch);
        }
        return 0;
}

int process_pages_touch_code(pid_t pid, const struct rs_table_mapping *mappings, size_t n, bool every_page) {
        _cleanup_free_ struct rs_table_mapping *sorted = NULL;
        _cleanup_free_ struct iovec *places = NULL;
        size_t n_sorted = 0;
        int r;

        r = check_owner(pid);
        if (r < 0)
                return r;
        sorted = calloc(MAPPINGS_MAX, sizeof(*sorted));
        places = calloc(PLACES_MAX, sizeof(*places));
        if (!sorted || !places)
                return -ENOMEM;
        for (size_t i = 0; i < n && n_sorted < MAPPINGS_MAX; i++)
                if (mappings[i].n_pages > 0)
                        sorted[n_sorted++] = mappings[i];
        qsort(sorted, n_sorted, sizeof(*sorted), compare_sizes);
        return read_places(pid, places, find_places(sorted, n_sorted, every_page ? PAGE : AROUND, places));
}
