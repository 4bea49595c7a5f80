/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "process-pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "maps.h"
#include "process-dir.h"

#define PAGE UINT64_C(4096)
/* What the kernel maps with a page that is asked for, where it is in memory (fault_around_bytes). */
#define AROUND (UINT64_C(64) << 10)
#define BYTES_MAX (UINT64_C(16) << 20)
#define MAPPINGS_MAX 4096
#define PLACES_MAX (BYTES_MAX / PAGE + MAPPINGS_MAX)
/* Of what may be a stack: its end so far, and pages of all of them together. */
#define STACK_MAX (UINT64_C(64) << 20)
#define STACK_PLACES_MAX 1024
/* In /proc/PID/pagemap. */
#define PAGE_IS_THERE (UINT64_C(1) << 63)
#define PAGE_IS_SWAPPED (UINT64_C(1) << 62)
/* Of one call. */
#define BATCH 64
/* All that anybody waits for tables meanwhile. */
#define TIME_MAX UINT64_C(20000000)

/*
 * Nobody else's: what is mapped there may be on a file system of theirs, which can keep who reads it waiting. The directory
 * in /proc is root's where a process is not to be looked into, whoever runs it.
 */
static int check_owner(const ProcessDir *dir) {
        ProcessIdentity identity;
        int r;

        r = process_dir_read_identity(dir, &identity);
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
static int read_places(pid_t pid, const struct iovec *places, size_t n, uint64_t end) {
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
        uint64_t end = now_ns(CLOCK_MONOTONIC) + TIME_MAX;
        _cleanup_free_ struct rs_table_mapping *sorted = NULL;
        _cleanup_free_ struct iovec *places = NULL;
        ProcessDir dir = PROCESS_DIR_INIT;
        size_t n_sorted = 0;
        int r;

        process_dir_find(&dir, "/proc", pid);
        r = dir.fd < 0 ? -ESRCH : check_owner(&dir);
        process_dir_done(&dir);
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
        return read_places(pid, places, find_places(sorted, n_sorted, every_page ? PAGE : AROUND, places), end);
}

/* ---- stacks ---- */

static bool path_begins_with(const MapsLine *line, const char *prefix) {
        return line->path_len >= strlen(prefix) && memcmp(line->path, prefix, strlen(prefix)) == 0;
}

/* Above what nobody may touch, as threads and coroutines have theirs, and in memory: no device, no file system of anybody's. */
static bool may_be_stack(const MapsLine *line, const MapsLine *below) {
        bool guarded = below->end == line->start && !below->readable && !below->writable && !below->executable;

        if (!line->readable || !line->writable)
                return false;
        return path_begins_with(line, "[stack]") ||
               (guarded && (line->inode == 0 || path_begins_with(line, "/memfd:") || path_begins_with(line, "/dev/zero")));
}

/*
 * Where its stack pointer is nobody tells without stopping a thread. But that page is in memory, and all that is in use lies
 * above it: so nothing below the lowest page that is there is looked at, and idle threads whose stacks are swapped out keep
 * them so. Of anonymous memory a page is missing that is swapped out, and others were never written; of what is shared it
 * cannot be told.
 */
static size_t add_missing(int pagemap, const MapsLine *line, struct iovec *places, size_t n) {
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), entries[512];
        uint64_t at = MAX(line->start, line->end - MIN(line->end, STACK_MAX));
        bool is_there = false;

        while (at < line->end && n < STACK_PLACES_MAX) {
                size_t wanted = MIN((line->end - at) / page, (uint64_t) ELEMENTSOF(entries)), n_entries;
                ssize_t r = pread(pagemap, entries, wanted * sizeof(*entries), (off_t) (at / page * sizeof(*entries)));

                n_entries = r > 0 ? (size_t) r / sizeof(*entries) : 0;
                if (n_entries == 0)
                        break;
                for (size_t i = 0; i < n_entries && n < STACK_PLACES_MAX; i++, at += page)
                        if (entries[i] & PAGE_IS_THERE)
                                is_there = true;
                        else if (is_there && (line->inode != 0 || (entries[i] & PAGE_IS_SWAPPED)))
                                places[n++] = (struct iovec){ .iov_base = (void *) (uintptr_t) at, .iov_len = 1 };
        }
        return n;
}

static size_t find_missing(int pagemap, const char *maps, size_t size, struct iovec *places, uint64_t end) {
        MapsCursor cursor = { .next = maps, .left = size };
        MapsLine line, below = {};
        size_t n = 0;
        int r;

        while ((r = maps_cursor_next(&cursor, &line)) != 0 && now_ns(CLOCK_MONOTONIC) < end) {
                if (r < 0)
                        continue;
                if (may_be_stack(&line, &below))
                        n = add_missing(pagemap, &line, places, n);
                below = line;
        }
        return n;
}

int process_pages_touch_stacks(pid_t pid, size_t maps_max) {
        uint64_t end = now_ns(CLOCK_MONOTONIC) + TIME_MAX;
        _cleanup_free_ struct iovec *places = calloc(STACK_PLACES_MAX, sizeof(*places));
        _cleanup_(process_dir_done) ProcessDir dir = PROCESS_DIR_INIT;
        _cleanup_close_ int pagemap = -1;
        _cleanup_free_ char *maps = NULL;
        size_t size;
        int r;

        if (!places)
                return -ENOMEM;
        r = process_dir_open(&dir, "/proc", pid, maps_max, &maps, &size);
        if (r >= 0)
                r = check_owner(&dir);
        if (r < 0)
                return r;
        pagemap = openat(dir.fd, "pagemap", O_RDONLY | O_CLOEXEC);
        if (pagemap < 0)
                return -errno;
        return read_places(pid, places, find_missing(pagemap, maps, size, places, end), end);
}
