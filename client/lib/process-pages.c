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
/* Of what may be a stack: its end so far, and pages of one and of all of them together, in a call. */
#define STACK_MAX (UINT64_C(64) << 20)
#define STACK_PLACES_MAX 128
#define STACKS_PLACES_MAX 1024
/* Of those in shared memory: such as are no larger, and pages in all that time in which a process is one program. */
#define SHARED_STACK_MAX (UINT64_C(8) << 20)
#define SHARED_PLACES_MAX 256
/* In /proc/PID/pagemap. */
#define PAGE_IS_THERE (UINT64_C(1) << 63)
#define PAGE_IS_SWAPPED (UINT64_C(1) << 62)
/* Of one call of the kernel. Each page of a stack may wait for swap. */
#define BATCH 64
#define STACK_BATCH 8
/*
 * No batch begins later, of code, and again of stacks. All that time, and until the last batch has ended, others wait for
 * their tables: with a page on a slow disk, or one that userfaultfd keeps back, that can be any time.
 */
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

/* Where the leader has exited, memory is found by the number of a thread that has not. */
static int read_places_of_thread(pid_t pid, size_t maps_max, const struct iovec *places, size_t n, uint64_t end) {
        _cleanup_(process_dir_done) ProcessDir dir = PROCESS_DIR_INIT;
        _cleanup_free_ char *maps = NULL;
        size_t size;
        int r;

        r = process_dir_open(&dir, "/proc", pid, maps_max, &maps, &size);
        return r < 0 ? r : read_places(dir.tid, places, n, end);
}

static int check_owner_of(pid_t pid) {
        ProcessDir dir = PROCESS_DIR_INIT;
        int r;

        process_dir_find(&dir, "/proc", pid);
        r = dir.fd < 0 ? -ESRCH : check_owner(&dir);
        process_dir_done(&dir);
        return r;
}

int process_pages_read(pid_t pid, uint64_t start, void *buffer, size_t size) {
        struct iovec local = { .iov_base = buffer, .iov_len = size };
        struct iovec remote = { .iov_base = (void *) (uintptr_t) start, .iov_len = size };
        ssize_t n;
        int r;

        r = check_owner_of(pid);
        if (r < 0)
                return r;
        n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        return n < 0 ? -errno : (size_t) n < size ? -EFAULT : 0;
}

int process_pages_touch_code(pid_t pid, size_t maps_max, const struct rs_table_mapping *mappings, size_t n, bool every_page) {
        uint64_t end = now_ns(CLOCK_MONOTONIC) + TIME_MAX;
        _cleanup_free_ struct rs_table_mapping *sorted = NULL;
        _cleanup_free_ struct iovec *places = NULL;
        size_t n_sorted = 0, n_places;
        int r;

        r = check_owner_of(pid);
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
        n_places = find_places(sorted, n_sorted, every_page ? PAGE : AROUND, places);
        r = read_places(pid, places, n_places, end);
        return r == -ESRCH ? read_places_of_thread(pid, maps_max, places, n_places, end) : r;
}

/* ---- stacks ---- */

typedef struct Stacks {
        pid_t tid;
        int pagemap;
        const char *maps;
        size_t size, left; /* of the maps; places */
        uint64_t end;
        StackPages *pages;
} Stacks;

static bool path_begins_with(const MapsLine *line, const char *prefix) {
        return line->path_len >= strlen(prefix) && memcmp(line->path, prefix, strlen(prefix)) == 0;
}

static bool path_ends_with(const MapsLine *line, const char *suffix) {
        size_t len = strlen(suffix);

        return line->path_len >= len && memcmp(line->path + line->path_len - len, suffix, len) == 0;
}

static bool is_main_stack(const MapsLine *line) {
        return path_begins_with(line, "[stack]");
}

static bool is_shared(const MapsLine *line) {
        return line->inode != 0;
}

/*
 * In memory: no device, and no file system of anybody's, where a file may have such a name, too, but goes on having it.
 * The whole of what is large is rather a heap, or a cache.
 */
static bool may_be_shared_stack(const MapsLine *line) {
        return line->end - line->start <= SHARED_STACK_MAX && path_ends_with(line, " (deleted)") &&
               (path_begins_with(line, "/memfd:") || path_begins_with(line, "/dev/zero"));
}

/* Above what nobody may touch, as threads and coroutines have theirs. */
static bool may_be_stack(const MapsLine *line, const MapsLine *below) {
        bool guarded = below->end == line->start && !below->readable && !below->writable && !below->executable;

        if (!line->readable || !line->writable)
                return false;
        return is_main_stack(line) || (guarded && (!is_shared(line) || may_be_shared_stack(line)));
}

/*
 * Where its stack pointer is nobody tells without stopping a thread. But that page is in memory, and all that is in use lies
 * above it: so nothing below the lowest page that is there is looked at, and idle threads whose stacks are swapped out keep
 * them so. Of anonymous memory a page is missing that is swapped out, and others were never written. Of what is shared it
 * cannot be told: a page that never was comes to be when it is read, and the file that it is of grows.
 */
static size_t find_missing(int pagemap, const MapsLine *line, struct iovec *places, size_t max) {
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), entries[512];
        uint64_t at = MAX(line->start, line->end - MIN(line->end, STACK_MAX));
        bool is_there = false;
        size_t n = 0;

        while (at < line->end && n < max) {
                size_t wanted = MIN((line->end - at) / page, (uint64_t) ELEMENTSOF(entries)), n_entries;
                ssize_t r = pread(pagemap, entries, wanted * sizeof(*entries), (off_t) (at / page * sizeof(*entries)));

                n_entries = r > 0 ? (size_t) r / sizeof(*entries) : 0;
                if (n_entries == 0)
                        break;
                for (size_t i = 0; i < n_entries && n < max; i++, at += page)
                        if (entries[i] & PAGE_IS_THERE)
                                is_there = true;
                        else if (is_there && (is_shared(line) || (entries[i] & PAGE_IS_SWAPPED)))
                                places[n++] = (struct iovec){ .iov_base = (void *) (uintptr_t) at, .iov_len = 1 };
        }
        return n;
}

/*
 * Up to where nothing can be read: above the end of a file all is like that, and a walk comes from below. Only what was
 * read counts, or else what never can be would keep stacks out.
 */
static int touch_stack(Stacks *stacks, const MapsLine *line) {
        struct iovec places[STACK_PLACES_MAX];
        size_t n, max = MIN(stacks->left, (size_t) STACK_PLACES_MAX);

        if (is_shared(line))
                max = MIN(max, (size_t) (SHARED_PLACES_MAX - stacks->pages->n_shared));
        n = find_missing(stacks->pagemap, line, places, max);
        for (size_t i = 0; i < n && now_ns(CLOCK_MONOTONIC) < stacks->end; i += STACK_BATCH) {
                uint8_t buffer[STACK_BATCH];
                size_t batch = MIN(n - i, (size_t) STACK_BATCH), n_read;
                struct iovec local = { .iov_base = buffer, .iov_len = batch };
                ssize_t r = process_vm_readv(stacks->tid, &local, 1, places + i, batch, 0);

                if (r < 0 && errno != EFAULT)
                        return -errno;
                n_read = r < 0 ? 0 : (size_t) r;
                stacks->left -= n_read;
                if (is_shared(line))
                        stacks->pages->n_shared += (unsigned) n_read;
                if (n_read < batch)
                        break;
        }
        return 0;
}

/* That of the main thread, or others that begin in a range. */
static int touch_stacks(Stacks *stacks, bool main, uint64_t start, uint64_t end) {
        MapsCursor cursor = { .next = stacks->maps, .left = stacks->size };
        MapsLine line, below = {};
        int r;

        while ((r = maps_cursor_next(&cursor, &line)) != 0 && stacks->left > 0 && now_ns(CLOCK_MONOTONIC) < stacks->end) {
                if (r < 0)
                        continue;
                if (line.start >= start && line.start < end && is_main_stack(&line) == main && may_be_stack(&line, &below)) {
                        r = touch_stack(stacks, &line);
                        if (r < 0)
                                return r;
                        if (!main)
                                stacks->pages->next = line.end;
                }
                below = line;
        }
        return 0;
}

int process_pages_touch_stacks(pid_t pid, size_t maps_max, StackPages *pages) {
        uint64_t end = now_ns(CLOCK_MONOTONIC) + TIME_MAX, next = pages->next;
        _cleanup_(process_dir_done) ProcessDir dir = PROCESS_DIR_INIT;
        _cleanup_close_ int pagemap = -1;
        _cleanup_free_ char *maps = NULL;
        Stacks stacks;
        size_t size;
        int r;

        r = process_dir_open(&dir, "/proc", pid, maps_max, &maps, &size);
        if (r >= 0)
                r = check_owner(&dir);
        if (r < 0)
                return r;
        pagemap = openat(dir.fd, "pagemap", O_RDONLY | O_CLOEXEC);
        if (pagemap < 0)
                return -errno;
        stacks = (Stacks){ .tid = dir.tid, .pagemap = pagemap, .maps = maps, .size = size, .left = STACKS_PLACES_MAX,
                           .end = end, .pages = pages };
        r = touch_stacks(&stacks, true, 0, UINT64_MAX);
        if (r >= 0)
                r = touch_stacks(&stacks, false, next, UINT64_MAX);
        if (r >= 0)
                r = touch_stacks(&stacks, false, 0, next);
        return r;
}
