/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Real processes, whose tables are then looked up as the programs do it and compared with those made of their files. The
 * programs' only store, a 0 where a process becomes another program, is done here.
 */

#include "unwinder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "cache-dir.h"
#include "proc-file.h"
#include "process-dir.h"
#include "process-pages.h"
#include "test-unwinder-util.h"
#include "unwind-table-builder.h"

/* Many mappings, each with a page behind it that is not executable. */
#define MANY 0x100000000000
#define MANY_N 10000
#define MANY_LAST (MANY + (MANY_N - 1) * 0x2000UL)
/* A file of a test's own. */
#define FILE_AT 0x400000000000
#define FILE_SIZE (64U << 10)
/* What a child maps and does not look at. */
#define UNTOUCHED 0x200000000000
#define UNTOUCHED_SIZE (1U << 20)
/* Where it has what Python puts between its functions; and is there later as well. */
#define TRAMPOLINES 0x280000000000
#define TRAMPOLINES_SIZE (64U << 10)
/* What looks like stacks there: in shared memory with a page below that nobody may touch, without one, and of its own. */
#define STACKS 0x300000000000
#define STACK_PAGES 64
#define STACK_USED 48 /* from its end down, of which the process has lost all but */
#define STACK_KEPT 8
#define GUARDED (STACKS + 4096)
#define UNGUARDED (GUARDED + STACK_PAGES * 4096)
#define PRIVATE (UNGUARDED + (STACK_PAGES + 1) * 4096)
/* One that has lost more than is brought back at once. */
#define LARGE (STACKS + 0x100000000)
#define LARGE_PAGES 1024
/* Below them all: in shared memory whose file ends behind the first page. */
#define BEYOND (STACKS - 0x100000000)
#define BEYOND_PAGES 2048
/* Of which the process has written the first page alone. */
#define HOLES (STACKS + 0x200000000)
#define HOLES_PAGES 2048
#define MAIN_PAGES 64

/* ---- what can be slow ---- */

static int stalled_fd = -1; /* a pipe: reads of processes wait for its end, as those of a file system that does not answer */
static unsigned endless;    /* so manieth of the next tables is not ready before it is to be no more */
static bool held;           /* no table is made, */
static int stalled_cache_fd = -1; /* nor kept: as stalled_fd */
static unsigned n_begun, n_kept; /* tables */
static unsigned n_kept_before;   /* the last that was begun */
static unsigned delay_ms;   /* of each read of a process */
static uint64_t own_time;   /* ns, of which each read takes delay_ms, and nothing else any; 0: time goes by as it does */
static uint64_t ahead;      /* ns: so much later than it is */
static bool swapped;        /* what is read has the mark of pages that are swapped out, where they are not there */
static unsigned cost;       /* the next table takes so long, s of CPU time, which */
static uint64_t spent;      /* ns, is added to what threads have spent, as */
static uint64_t read_cost;  /* ns, is for each reading of mappings */
static bool free_of_charge; /* and nothing else takes any */
static unsigned padding;    /* pages without rules at the end of each table */
static ino_t made[8];       /* files, in the order in which their tables were made */
static unsigned n_made;

ssize_t __real_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
ssize_t __wrap_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
ssize_t __real_pread64(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t size, off_t offset);
int __real_unwind_table_new(UnwindTable **ret, ElfFile *elf);
int __wrap_unwind_table_new(UnwindTable **ret, ElfFile *elf);
int __real_process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, size_t max, char **ret_maps, size_t *ret_size);
int __wrap_process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, size_t max, char **ret_maps, size_t *ret_size);
int __wrap_cache_dir_store(CacheDir *cache, const char *name, const struct iovec *parts, size_t n);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local, const struct iovec *remote,
                                unsigned long n_remote, unsigned long flags) {
        int fd = __atomic_load_n(&stalled_fd, __ATOMIC_ACQUIRE);
        char c;

        if (fd >= 0)
                (void) RETRY_ON_EINTR(read(fd, &c, 1));
        if (__atomic_load_n(&own_time, __ATOMIC_ACQUIRE) > 0)
                (void) __atomic_add_fetch(&own_time, delay_ms * UINT64_C(1000000), __ATOMIC_ACQ_REL);
        else if (delay_ms > 0)
                nanosleep(&(struct timespec){ .tv_nsec = delay_ms * 1000000L }, NULL);
        return __real_process_vm_readv(pid, local, n_local, remote, n_remote, flags);
}

ssize_t __wrap_pread64(int fd, void *buffer, size_t size, off_t offset) {
        ssize_t n = __real_pread64(fd, buffer, size, offset);
        uint64_t *entries = buffer;

        for (ssize_t i = 0; swapped && i < n / 8; i++)
                if (entries[i] >> 63 == 0)
                        entries[i] = UINT64_C(1) << 62;
        return n;
}

int __wrap_unwind_table_new(UnwindTable **ret, ElfFile *elf) {
        unsigned pages = __atomic_load_n(&padding, __ATOMIC_ACQUIRE), n = __atomic_load_n(&n_made, __ATOMIC_ACQUIRE);
        uint64_t *bigger;
        struct stat st;
        int r;

        if (n < ELEMENTSOF(made) && elf_file_stat(elf, &st) >= 0) {
                made[n] = st.st_ino;
                __atomic_store_n(&n_made, n + 1, __ATOMIC_RELEASE);
        }

        (void) __atomic_add_fetch(&n_begun, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&held, __ATOMIC_ACQUIRE))
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        __atomic_store_n(&n_kept_before, __atomic_load_n(&n_kept, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
        if (__atomic_load_n(&endless, __ATOMIC_ACQUIRE) > 0 && __atomic_sub_fetch(&endless, 1, __ATOMIC_ACQ_REL) == 0)
                while (!elf_file_is_stopped(elf))
                        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        (void) __atomic_add_fetch(&spent, __atomic_exchange_n(&cost, 0, __ATOMIC_ACQ_REL) * UINT64_C(1000000000), __ATOMIC_ACQ_REL);
        r = __real_unwind_table_new(ret, elf);
        if (r < 0 || pages == 0)
                return r;
        bigger = reallocarray((*ret)->pages, (*ret)->n_pages + pages, sizeof(*bigger));
        if (!bigger)
                abort();
        memset(bigger + (*ret)->n_pages, 0, pages * sizeof(*bigger));
        (*ret)->pages = bigger;
        (*ret)->n_pages += pages;
        return 0;
}

/* Nothing is written. */
int __wrap_cache_dir_store(_unused_ CacheDir *cache, _unused_ const char *name, _unused_ const struct iovec *parts, _unused_ size_t n) {
        struct pollfd end = { .fd = __atomic_load_n(&stalled_cache_fd, __ATOMIC_ACQUIRE), .events = POLLIN };

        (void) poll(&end, 1, end.fd < 0 ? 0 : PATIENCE_MS);
        (void) __atomic_add_fetch(&n_kept, 1, __ATOMIC_ACQ_REL);
        return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        uint64_t time = __atomic_load_n(&own_time, __ATOMIC_ACQUIRE);
        int r = __real_clock_gettime(clock, ret);

        if (clock != CLOCK_MONOTONIC && clock != CLOCK_THREAD_CPUTIME_ID)
                return r;
        if (clock == CLOCK_THREAD_CPUTIME_ID && __atomic_load_n(&free_of_charge, __ATOMIC_ACQUIRE))
                *ret = (struct timespec){};
        if (clock == CLOCK_THREAD_CPUTIME_ID || time == 0)
                time = (uint64_t) ret->tv_sec * 1000000000 + (uint64_t) ret->tv_nsec;
        time += __atomic_load_n(clock == CLOCK_MONOTONIC ? &ahead : &spent, __ATOMIC_ACQUIRE);
        *ret = (struct timespec){ .tv_sec = (time_t) (time / 1000000000), .tv_nsec = (long) (time % 1000000000) };
        return r;
}

static const char *told_maps; /* in place of those of a process */
static int refused; /* nothing is to be read of any process, with this error */
static struct rs_table_process *(*when_read)(void); /* the slot of one that then becomes another program */

int __wrap_process_dir_open(ProcessDir *dir, const char *proc, pid_t pid, size_t max, char **ret_maps, size_t *ret_size) {
        struct rs_table_process *(*func)(void) = __atomic_exchange_n(&when_read, NULL, __ATOMIC_ACQ_REL);
        int r;

        (void) __atomic_add_fetch(&spent, __atomic_load_n(&read_cost, __ATOMIC_ACQUIRE), __ATOMIC_ACQ_REL);
        r = __atomic_load_n(&refused, __ATOMIC_ACQUIRE);
        if (r < 0)
                return r;
        r = __real_process_dir_open(dir, proc, pid, max, ret_maps, ret_size);

        if (r >= 0 && told_maps) {
                free(*ret_maps);
                *ret_maps = strdup(told_maps);
                *ret_size = strlen(told_maps);
        }
        if (func)
                __atomic_store_n(&func()->list, 0, __ATOMIC_RELEASE);
        return r;
}

/* ---- children ---- */

static bool map_stack(uint64_t at, size_t pages, bool shared) {
        int fd = shared ? memfd_create("stack", MFD_CLOEXEC) : -1;
        uint64_t used = at + (STACK_PAGES - STACK_USED) * 4096, kept = used + STACK_KEPT * 4096, end = at + pages * 4096;
        bool good = (fd < 0 || ftruncate(fd, (off_t) (end - at)) == 0) &&
                    mmap((void *) at, end - at, PROT_READ | PROT_WRITE,
                         MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS), fd, 0) != MAP_FAILED;

        close_fd(fd);
        if (!good)
                return false;
        memset((void *) used, 1, end - used);
        return madvise((void *) kept, end - kept, MADV_DONTNEED) == 0;
}

static int holes_fd = -1; /* a child's, too */

static bool map_first_page(uint64_t at, size_t pages, int fd, size_t file_pages) {
        bool good = fd >= 0 && ftruncate(fd, (off_t) file_pages * 4096) == 0 &&
                    mmap((void *) (at - 4096), 4096, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED &&
                    mmap((void *) at, pages * 4096, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, fd, 0) != MAP_FAILED;

        if (good)
                *(volatile char *) at = 1;
        return good;
}

static bool map_beyond(void) {
        int fd = memfd_create("beyond", MFD_CLOEXEC);
        bool good = map_first_page(BEYOND, BEYOND_PAGES, fd, 1);

        close_fd(fd);
        return good;
}

static char file_path[] = "/tmp/test-unwinder-XXXXXX";

/* In place of what was there. */
static bool map_file(void) {
        int fd = open(file_path, O_RDONLY | O_CLOEXEC);
        bool good = fd >= 0 && mmap((void *) FILE_AT, FILE_SIZE, PROT_READ | PROT_EXEC, MAP_FIXED | MAP_PRIVATE, fd, 0) != MAP_FAILED;

        close_fd(fd);
        return good;
}

/* From below what is in use now, but for the lowest and the highest of these pages. */
static __attribute__((noinline)) bool lose_main_stack(void) {
        volatile char pages[MAIN_PAGES * 4096];
        uint64_t lowest = ((uint64_t) (uintptr_t) pages + 4095) / 4096 * 4096;

        for (size_t i = 0; i < sizeof(pages); i += 4096)
                pages[i] = 1;
        return madvise((void *) (lowest + 4096), (MAIN_PAGES - 4) * 4096, MADV_DONTNEED) == 0;
}

static bool map_untouchable(uint64_t at, size_t size) {
        return mmap((void *) at, size, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* Written before it can be executed; one each 0x110 bytes. */
static bool map_trampolines(uintptr_t at) {
        static const uint8_t code[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
        uint8_t *p = mmap((void *) at, TRAMPOLINES_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

        if (p == MAP_FAILED)
                return false;
        for (size_t i = 0; i + sizeof(code) <= TRAMPOLINES_SIZE; i += 0x110)
                memcpy(p + i, code, sizeof(code));
        return mprotect(p, TRAMPOLINES_SIZE, PROT_READ | PROT_EXEC) == 0;
}

/* Above each other, so that one has another below it and not what nobody may touch. */
static bool map_stacks(void) {
        return map_untouchable(STACKS, PRIVATE - STACKS) && map_stack(GUARDED, STACK_PAGES, true) &&
               map_stack(UNGUARDED, STACK_PAGES, true) && map_stack(PRIVATE, STACK_PAGES, false);
}

static void child_main(int in, int out);

typedef struct Rest {
        pthread_t leader;
        int in, out;
} Rest;

static void *go_on(void *data) {
        const Rest *rest = data;

        if (pthread_join(rest->leader, NULL) != 0 || write(rest->out, "t", 1) != 1)
                _exit(1);
        child_main(rest->in, rest->out);
        return NULL;
}

/* Another thread answers from then on. */
static void leave(int in, int out) {
        static Rest rest;
        pthread_t thread;

        rest = (Rest){ .leader = pthread_self(), .in = in, .out = out };
        if (pthread_create(&thread, NULL, go_on, &rest) != 0)
                _exit(1);
        pthread_exit(NULL);
}

/* Answers each byte when it has done what that asks for. */
static void child_main(int in, int out) {
        char c;

        while (read(in, &c, 1) == 1) {
                if (c == 'l' && /* which nothing here is linked with */
                    !dlopen("libresolv.so.2", RTLD_NOW))
                        _exit(1);
                if (c == 'x') {
                        char a[16], b[16];

                        snprintf(a, sizeof(a), "%d", in);
                        snprintf(b, sizeof(b), "%d", out);
                        execl("/proc/self/exe", "test-unwinder", a, b, NULL);
                        _exit(1);
                }
                if (c == 'L' && /* nor with this one */
                    !dlopen("libnss_compat.so.2", RTLD_NOW))
                        _exit(1);
                if (c == 'f' && !map_file())
                        _exit(1);
                if (c == 'm')
                        for (size_t i = 0; i < MANY_N; i++) {
                                char *p = (char *) MANY + i * 0x2000;

                                if (mmap(p, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p)
                                        _exit(1);
                        }
                if (c == 'a' && mmap((void *) UNTOUCHED, UNTOUCHED_SIZE, PROT_READ | PROT_EXEC,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
                        _exit(1);
                if ((c == 'j' && !map_trampolines(TRAMPOLINES)) || (c == 'J' && !map_trampolines(TRAMPOLINES - TRAMPOLINES_SIZE)))
                        _exit(1);
                if (c == 's' && !map_stacks())
                        _exit(1);
                if (c == 'b' && !(map_untouchable(LARGE - 4096, 4096) && map_stack(LARGE, LARGE_PAGES, false)))
                        _exit(1);
                if (c == 'e' && !map_beyond())
                        _exit(1);
                if (c == 'h' && !map_first_page(HOLES, HOLES_PAGES, holes_fd, HOLES_PAGES + 1))
                        _exit(1);
                if (c == 'H' && !map_first_page(HOLES, HOLES_PAGES + 1, holes_fd, HOLES_PAGES + 1))
                        _exit(1);
                if (c == 'w' && !lose_main_stack())
                        _exit(1);
                if (c == 't')
                        leave(in, out);
                if (c == 'u' && setuid(65534) < 0)
                        _exit(1);
                if (write(out, &c, 1) != 1)
                        break;
        }
        _exit(0);
}

static Child child_new(void) {
        int to[2], from[2];
        Child child;

        assert_return_code(pipe(to), errno);
        assert_return_code(pipe(from), errno);
        child.pid = fork();
        assert_return_code(child.pid, errno);
        if (child.pid == 0) {
                close_fd(to[1]);
                close_fd(from[0]);
                child_main(to[0], from[1]);
        }
        close_fd(to[0]);
        close_fd(from[1]);
        child.to = to[1];
        child.from = from[0];
        child.start = proc_file_read_start(child.pid);
        return child;
}

static void child_do(const Child *child, char c) {
        char answer;

        assert_int_equal(write(child->to, &c, 1), 1);
        assert_int_equal(read(child->from, &answer, 1), 1);
}

static void child_end(const Child *child) {
        close_fd(child->to);
        close_fd(child->from);
        (void) kill(child->pid, SIGKILL); /* younger ones have its pipes, too */
        assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

/* ---- time ---- */

static void set_time(uint64_t time) {
        __atomic_store_n(&own_time, time, __ATOMIC_RELEASE);
}

static void pass_time(unsigned ms) {
        (void) __atomic_add_fetch(&own_time, ms * UINT64_C(1000000), __ATOMIC_ACQ_REL);
}

/* ---- what is waited for ---- */

static bool has_list(Fixture *f, const Child *child, uint64_t other_than) {
        uint64_t list = find_list(f, child);

        return list != 0 && list != other_than;
}

static bool has_this_list(Fixture *f, const Child *child, uint64_t list) {
        return find_list(f, child) == list;
}

static bool has_no_list(Fixture *f, const Child *child, _unused_ uint64_t value) {
        return find_list(f, child) == 0;
}

static bool has_mapping(Fixture *f, const Child *child, uint64_t address) {
        uint64_t list = find_list(f, child);

        return list != 0 && find_mapping(f, list, address);
}

static bool has_handled(Fixture *f, _unused_ const Child *child, uint64_t n) {
        return statistics(f).handled >= n;
}

static bool has_read(Fixture *f, _unused_ const Child *child, uint64_t n) {
        return statistics(f).readings >= n;
}

/* ---- tests ---- */

static void compare_file(const Fixture *f, const Child *child, const char *name) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        uint64_t start, offset, address, list = find_list(f, child);
        const struct rs_table_mapping *m;
        char path[1024];
        size_t n = 0;

        start = find_mapped(child->pid, name, path, sizeof(path), &offset);
        assert_int_not_equal(start, 0);
        assert_return_code(elf_file_new_take_fd(&elf, open(path, O_RDONLY | O_CLOEXEC)), 0);
        assert_true(elf_file_get_address(elf, offset, &address));
        assert_return_code(unwind_table_new(&table, elf), 0);
        m = find_mapping(f, list, start);
        assert_non_null(m);
        for (uint64_t at = start; at < m->end; at += 3) {
                struct rs_table_rule rule = find_rule(f, m, at);

                assert_memory_equal(&rule, unwind_table_find(table, at - start + address), sizeof(rule));
                n += rule.cfa != RS_CFA_NONE;
        }
        assert_true(n > 1000);
}

static void test_tables(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        const struct rs_table_mapping *m;
        uint64_t libc, list;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);
        assert_true(wait_for(f, &child, has_address, libc));
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        assert_true(wait_for(f, &child, has_read, 1)); /* the rest */
        list = find_list(f, &child);
        m = (const struct rs_table_mapping *) f->bytes + (list >> 32);
        assert_true((uint32_t) list > 3);
        for (uint32_t i = 0; i < (uint32_t) list; i++) {
                assert_true(m[i].start < m[i].end && m[i].bias <= m[i].start && m[i].end >> 63 == 0);
                assert_true(i == 0 || m[i].start >= m[i - 1].end);
        }
        compare_file(f, &child, "libc.so");
        compare_file(f, &child, "/test-unwinder");
        compare_file(f, &child, "ld-linux");
        pause_ms(300);
        assert_int_equal(statistics(f).readings, 1); /* nothing is missing */
        child_end(&child);
}

/* New libraries: by a mapping that is told, and by a walk that ended at one. Those that are known cost nothing. */
static void test_library(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t library, readings, libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, libc));
        assert_true(wait_for(f, &child, has_read, 1)); /* the rest, too */
        readings = statistics(f).readings;
        child_do(&child, 'l');
        library = find_mapped(child.pid, "libresolv", NULL, 0, NULL);
        assert_int_not_equal(library, 0);
        note_sample(f, &child, RINGSIDE_WALK_COMPLETE);
        note_sample(f, &child, RINGSIDE_WALK_NO_RULE);
        pause_ms(100);
        assert_int_equal(statistics(f).readings, readings);
        assert_false(has_address(f, &child, library));
        note_mapping(f, &child, library);
        assert_true(wait_for(f, &child, has_address, library));
        compare_file(f, &child, "libresolv");

        child_do(&child, 'm');
        note_sample(f, &child, RINGSIDE_WALK_NO_MAPPING);
        assert_true(wait_for(f, &child, has_mapping, MANY_LAST));
        compare_file(f, &child, "libresolv");
        child_end(&child);
}

#ifdef __x86_64__
static bool has_trampolines(Fixture *f, const Child *child, uint64_t address) {
        uint64_t list = find_list(f, child);
        const struct rs_table_mapping *m = list != 0 ? find_mapping(f, list, address) : NULL;

        return m && m->n_pages > 0 && find_rule(f, m, address + 4).cfa_offset == 16;
}

/* Code in memory that is known; what is made later lies before what was there, as one mapping. */
static void test_trampolines(void **state) {
        Fixture *f = *state;
        Child child = child_new(), other = child_new();
        const struct rs_table_mapping *m;
        uint64_t images;

        child_do(&child, 'a'); /* and some that is not known */
        child_do(&child, 'j');
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_trampolines, TRAMPOLINES));
        assert_false(has_trampolines(f, &child, UNTOUCHED));
        assert_true(wait_for(f, &child, has_trampolines, TRAMPOLINES + 0x110));
        m = find_mapping(f, find_list(f, &child), TRAMPOLINES);
        assert_int_equal(find_rule(f, m, TRAMPOLINES).cfa_offset, 8);
        assert_int_equal(find_rule(f, m, TRAMPOLINES + 10).cfa_offset, 8);
        assert_int_equal(find_rule(f, m, TRAMPOLINES + 11).cfa, RS_CFA_NONE);
        assert_true(wait_for(f, &child, has_read, 1)); /* the rest, too */
        images = statistics(f).images.images;

        child_do(&child, 'J');
        note_mapping(f, &child, TRAMPOLINES - TRAMPOLINES_SIZE);
        assert_true(wait_for(f, &child, has_trampolines, TRAMPOLINES - TRAMPOLINES_SIZE));
        assert_true(wait_for(f, &child, has_trampolines, TRAMPOLINES));
        assert_int_equal(statistics(f).images.images, images + 1);

        /* Another's that is equal is the same. */
        child_do(&other, 'j');
        note(f, &other, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &other, has_trampolines, TRAMPOLINES));
        assert_int_equal(statistics(f).images.images, images + 1);
        child_end(&child);
        child_end(&other);
}
#endif

static void test_fork_and_exit(void **state) {
        Fixture *f = *state;
        Child parent = child_new(), child = child_new();
        uint64_t list, readings;

        note(f, &parent, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &parent, has_address, find_mapped(parent.pid, "[vdso]", NULL, 0, NULL)));
        assert_true(wait_for(f, &parent, has_read, 1)); /* the rest, too */
        list = find_list(f, &parent);
        readings = statistics(f).readings;
        note(f, &child, RINGSIDE_PROCESS_FORK, (uint32_t) parent.pid);
        assert_true(wait_for(f, &child, has_list, 0));
        assert_int_equal(find_list(f, &child), list);
        assert_int_equal(statistics(f).readings, readings);

        child_end(&parent);
        note(f, &parent, RINGSIDE_PROCESS_EXIT, 0);
        assert_true(wait_for(f, &parent, has_no_list, 0));
        assert_int_equal(find_list(f, &child), list);
        child_end(&child);
        note(f, &child, RINGSIDE_PROCESS_GONE, 0);
        assert_true(wait_for(f, &child, has_no_list, 0));
        assert_true(wait_for(f, &child, has_handled, f->noted));
        assert_int_equal(statistics(f).processes, 0);
        assert_true(statistics(f).images.images > 3); /* they stay, for others */
}

static void test_exec(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL), list;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_read, 1));
        list = find_list(f, &child);
        assert_int_equal(write(child.to, "x", 1), 1);
        __atomic_store_n(&find_slot(f, &child)->list, 0, __ATOMIC_RELEASE);
        note(f, &child, RINGSIDE_PROCESS_EXEC, 1);
        assert_true(wait_for(f, &child, has_list, list));
        child_do(&child, '.'); /* its libraries are there */
        libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);
        assert_true(wait_for(f, &child, has_address, libc)); /* without any other record */
        compare_file(f, &child, "libc.so");
        child_end(&child);
}

static void set_refused(int r) {
        __atomic_store_n(&refused, r, __ATOMIC_RELEASE);
}

static void set_ahead(uint64_t seconds) {
        __atomic_store_n(&ahead, seconds * 1000000000, __ATOMIC_RELEASE);
}

/* A process with too many mappings is not read again so soon, unless it is another program. */
static void test_too_much(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t readings;

        set_refused(-EFBIG);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_this_list, RS_TABLE_FRAME_POINTERS));
        assert_true(wait_for(f, &child, has_read, 1)); /* which is told later */
        readings = statistics(f).readings;
        for (int i = 0; i < 10; i++) {
                note_sample(f, &child, RINGSIDE_WALK_NO_MAPPING);
                pause_ms(10);
        }
        assert_int_equal(statistics(f).readings, readings);
        assert_int_equal(find_list(f, &child), RS_TABLE_FRAME_POINTERS);
        set_refused(0);
        note(f, &child, RINGSIDE_PROCESS_EXEC, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        child_end(&child);
}

/* It may have less later. No sample asks: such stacks are walked by frame pointers. */
static void test_less(void **state) {
        Fixture *f = *state;
        Child child = child_new(), other = child_new();

        set_refused(-EFBIG);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_this_list, RS_TABLE_FRAME_POINTERS));
        set_refused(0);
        set_ahead(11);
        note(f, &other, RINGSIDE_PROCESS_SEEN, 1); /* wakes the thread, whose clock was put forward */
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        set_ahead(0);
        child_end(&child);
        child_end(&other);
}

/* One that may not be looked into may be ours again: as long as it has samples that is tried once in a while. */
static void test_hidden(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t readings;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        assert_true(wait_for(f, &child, has_read, 1)); /* which is told later, as the next one */
        readings = statistics(f).readings;
        set_refused(-EPERM);
        note_mapping(f, &child, 0x1000);
        assert_true(wait_for(f, &child, has_no_list, 0));
        assert_true(wait_for(f, &child, has_read, readings + 1));
        set_refused(0);
        readings = statistics(f).readings;
        for (int i = 0; i < 10; i++) {
                note_sample(f, &child, RINGSIDE_WALK_NO_TABLES);
                pause_ms(10);
        }
        assert_int_equal(statistics(f).readings, readings);
        set_ahead(11);
        note_sample(f, &child, RINGSIDE_WALK_NO_TABLES);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        set_ahead(0);
        child_end(&child);
}

/* What time the thread waits for is not the time of these tests. */
static void look_again(Fixture *f, const Child *child) {
        note_mapping(f, child, 0x1000);
        assert_true(wait_for(f, child, has_handled, f->noted));
}

/* Not before it has passed, and then: that many readings there were. */
static void read_after(Fixture *f, const Child *child, unsigned ms, uint64_t readings) {
        note_mapping(f, child, 0x1000);
        assert_true(wait_for(f, child, has_handled, f->noted));
        pass_time(ms - 1);
        look_again(f, child);
        assert_int_equal(statistics(f).readings, readings - 1);
        pass_time(1);
        assert_true(wait_for(f, child, has_read, readings));
}

/* How soon a process is read again does not depend on what that costs, as long as it costs little, or is not done often. */
static void test_interval(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t library;

        set_time(now_ns(CLOCK_MONOTONIC));
        __atomic_store_n(&free_of_charge, true, __ATOMIC_RELEASE);
        __atomic_store_n(&read_cost, 1000000, __ATOMIC_RELEASE);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        child_do(&child, 'l');
        library = find_mapped(child.pid, "libresolv", NULL, 0, NULL);
        note_mapping(f, &child, library);
        assert_true(wait_for(f, &child, has_handled, f->noted));
        pass_time(39);
        look_again(f, &child);
        assert_int_equal(statistics(f).readings, 1);
        __atomic_store_n(&read_cost, 10000000, __ATOMIC_RELEASE);
        pass_time(1);
        assert_true(wait_for(f, &child, has_address, library));
        assert_true(wait_for(f, &child, has_read, 2));

        /* What costs more comes as soon for some time, and then takes a twentieth of it. */
        for (uint64_t i = 3; i <= 8; i++)
                read_after(f, &child, 40, i);
        read_after(f, &child, 160, 9);
        read_after(f, &child, 200, 10);
        __atomic_store_n(&read_cost, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&free_of_charge, false, __ATOMIC_RELEASE);
        set_time(0);
        child_end(&child);
}

/* The record of it may be lost. What was read before is not published, what is read then is. */
static void test_exec_untold(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL), readings;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, libc));
        assert_true(wait_for(f, &child, has_read, 1)); /* the rest, too */
        __atomic_store_n(&find_slot(f, &child)->list, 0, __ATOMIC_RELEASE);
        child_do(&child, 'l');
        pause_ms(100);
        assert_int_equal(find_list(f, &child), 0);
        readings = statistics(f).readings;
        note_sample(f, &child, RINGSIDE_WALK_NO_TABLES);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libresolv", NULL, 0, NULL)));
        /* It was read once more, before anything of it was published. */
        assert_true(wait_for(f, &child, has_read, readings + 2));
        child_end(&child);
}

static Fixture *reading_fixture;
static Child reading_child;

static struct rs_table_process *find_read_slot(void) {
        return find_slot(reading_fixture, &reading_child);
}

/* Before anything of it was ever published. */
static void test_exec_meanwhile(void **state) {
        Fixture *f = *state;
        Child child = child_new();

        reading_fixture = f;
        reading_child = child;
        __atomic_store_n(&when_read, find_read_slot, __ATOMIC_RELEASE);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_read, 2));
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        child_end(&child);
}

/* How many of so many pages from start on the process has: those that it looked at, or that somebody read there. */
static size_t count_pages_at(const Child *child, uint64_t start, size_t max) {
        _cleanup_free_ uint64_t *pages = calloc(max, sizeof(*pages));
        _cleanup_close_ int fd = -1;
        char path[64];
        size_t n = 0;

        snprintf(path, sizeof(path), "/proc/%d/pagemap", (int) child->pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_return_code(fd, errno);
        assert_int_equal(pread(fd, pages, max * sizeof(*pages), (off_t) (start / 4096 * sizeof(*pages))), max * sizeof(*pages));
        for (size_t i = 0; i < max; i++)
                n += pages[i] >> 63; /* present */
        return n;
}

/* Of libc's code. */
static size_t count_pages(const Child *child) {
        return count_pages_at(child, find_mapped(child->pid, "libc.so", NULL, 0, NULL), 256);
}

static bool has_pages(_unused_ Fixture *f, const Child *child, uint64_t n) {
        return count_pages(child) >= n;
}

/* A child that goes on as its parent's has its parent's pages; also where a walk says that some are missing. */
static void test_touch(void **state) {
        Fixture *f = *state;
        Child parent = child_new(), child = child_new();

        /* Neither what tables cost nor how long it takes until the thread gets a CPU has a say. */
        set_time(now_ns(CLOCK_MONOTONIC));
        __atomic_store_n(&free_of_charge, true, __ATOMIC_RELEASE);
        note(f, &parent, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &parent, has_address, find_mapped(parent.pid, "libc.so", NULL, 0, NULL)));
        assert_true(count_pages(&parent) < 180);
        assert_true(count_pages(&child) < 180);
        note(f, &child, RINGSIDE_PROCESS_FORK, (uint32_t) parent.pid);
        assert_true(wait_for(f, &child, has_handled, f->noted));
        pass_time(2);
        assert_true(wait_for(f, &child, has_pages, 200));
        assert_true(count_pages(&parent) < 180);
        note_sample(f, &parent, RINGSIDE_WALK_UNREADABLE);
        assert_true(wait_for(f, &parent, has_pages, 200));
        set_time(0);
        __atomic_store_n(&free_of_charge, false, __ATOMIC_RELEASE);
        child_end(&parent);
        child_end(&child);
}

/* Where no file is the kernel maps the page that is asked for, and no more. */
static void test_every_page(_unused_ void **state) {
        struct rs_table_mapping m = { .start = UNTOUCHED, .end = UNTOUCHED + UNTOUCHED_SIZE, .n_pages = 1 }, without = m;
        Child child = child_new(), gone = child_new();
        uint8_t bytes[64];

        child_do(&child, 'a');
        without.n_pages = 0;
        assert_return_code(process_pages_touch_code(child.pid, SIZE, &without, 1, true), 0);
        assert_int_equal(count_pages_at(&child, m.start, 256), 0);
        assert_return_code(process_pages_touch_code(child.pid, SIZE, &m, 1, false), 0);
        assert_int_equal(count_pages_at(&child, m.start, 256), 16);
        /* What takes too long is left as it is. */
        delay_ms = 15;
        assert_return_code(process_pages_touch_code(child.pid, SIZE, &m, 1, true), 0);
        delay_ms = 0;
        assert_in_range(count_pages_at(&child, m.start, 256), 17, 240);
        /* What is not there is left out. */
        m.end += UNTOUCHED_SIZE;
        assert_return_code(process_pages_touch_code(child.pid, SIZE, &m, 1, true), 0);
        assert_int_equal(count_pages_at(&child, m.start, 256), 256);
        child_end(&child);
        child_end(&gone);
        assert_int_equal(process_pages_touch_code(gone.pid, SIZE, &m, 1, true), -ESRCH);
        if (geteuid() != 0)
                assert_int_equal(process_pages_touch_code(1, SIZE, &m, 1, true), -EPERM);
        else {
                child = child_new();
                child_do(&child, 'a');
                child_do(&child, 'u'); /* has its /proc/PID owned by root */
                assert_int_equal(process_pages_touch_code(child.pid, SIZE, &m, 1, true), -EPERM);
                assert_int_equal(process_pages_read(child.pid, UNTOUCHED, bytes, sizeof(bytes)), -EPERM);
                child_end(&child);
        }
}

/* All of it, or nothing. */
static void test_read(_unused_ void **state) {
        Child child = child_new();
        uint8_t bytes[8192];

        child_do(&child, 'a');
        assert_return_code(process_pages_read(child.pid, UNTOUCHED, bytes, sizeof(bytes)), 0);
        assert_int_equal(process_pages_read(child.pid, UNTOUCHED + UNTOUCHED_SIZE - 4096, bytes, sizeof(bytes)), -EFAULT);
        assert_int_equal(process_pages_read(child.pid, UNTOUCHED + UNTOUCHED_SIZE, bytes, sizeof(bytes)), -EFAULT);
        child_end(&child);
        assert_int_equal(process_pages_read(child.pid, UNTOUCHED, bytes, sizeof(bytes)), -ESRCH);
}

static uint64_t find_main_stack(const Child *child, size_t *ret_pages) {
        uint64_t start = 0, end = 0;
        char path[64], line[1024];
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int) child->pid);
        maps = fopen(path, "re");
        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps))
                if (strstr(line, "[stack]"))
                        assert_int_equal(sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end), 2);
        fclose(maps);
        assert_true(end > start);
        *ret_pages = (end - start) / 4096;
        return start;
}

static pid_t find_other_thread(const Child *child) {
        const struct dirent *entry;
        char path[64];
        pid_t tid = 0;
        DIR *tasks;

        snprintf(path, sizeof(path), "/proc/%d/task", (int) child->pid);
        tasks = opendir(path);
        assert_non_null(tasks);
        while ((entry = readdir(tasks)))
                if (entry->d_name[0] != '.' && atoi(entry->d_name) != child->pid)
                        tid = atoi(entry->d_name);
        closedir(tasks);
        assert_true(tid > 0);
        return tid;
}

static bool has_stack(_unused_ Fixture *f, const Child *child, uint64_t n) {
        return count_pages_at(child, GUARDED, STACK_PAGES) >= n;
}

/* What a stack once had and has lost comes back where a walk missed something; not what it never had, nor what is no stack. */
static void test_stacks(void **state) {
        Fixture *f = *state;
        Child child = child_new();

        child_do(&child, 's');
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        pause_ms(50);
        note_sample(f, &child, RINGSIDE_WALK_NO_MAPPING);
        pause_ms(100);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_KEPT);
        note_sample(f, &child, RINGSIDE_WALK_UNREADABLE);
        assert_true(wait_for(f, &child, has_stack, STACK_USED));
        pause_ms(20);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_USED);
        assert_int_equal(count_pages_at(&child, UNGUARDED, STACK_PAGES), STACK_KEPT);
        assert_int_equal(count_pages_at(&child, PRIVATE, STACK_PAGES), STACK_KEPT);
        child_end(&child);
}

static void touch_stacks(const Child *child, StackPages *pages, bool as_swapped) {
        set_time(1000000000);
        swapped = as_swapped;
        assert_return_code(process_pages_touch_stacks(child->pid, SIZE, pages), 0);
        swapped = false;
        set_time(0);
}

/* Memory of its own may be missing for two reasons. */
static void test_swapped_stacks(_unused_ void **state) {
        Child child = child_new();

        child_do(&child, 's');
        touch_stacks(&child, &(StackPages){}, true);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_USED);
        assert_int_equal(count_pages_at(&child, UNGUARDED, STACK_PAGES), STACK_KEPT);
        assert_int_equal(count_pages_at(&child, PRIVATE, STACK_PAGES), STACK_USED);
        child_end(&child);
}

/* So many of one at a time, and the rest the next time; where each is slow, fewer. */
static void test_large_stack(_unused_ void **state) {
        const size_t used = LARGE_PAGES - (STACK_PAGES - STACK_USED);
        Child child = child_new();
        StackPages pages = {};

        /* What the main thread never wrote has the mark, too, and would come first. */
        for (unsigned i = 0; i < 100; i++)
                touch_stacks(&child, &pages, true);
        child_do(&child, 'b');
        assert_int_equal(count_pages_at(&child, LARGE, LARGE_PAGES), STACK_KEPT);
        touch_stacks(&child, &pages, true);
        assert_int_equal(count_pages_at(&child, LARGE, LARGE_PAGES), STACK_KEPT + 128);
        delay_ms = 15;
        touch_stacks(&child, &pages, true);
        delay_ms = 0;
        assert_int_equal(count_pages_at(&child, LARGE, LARGE_PAGES), STACK_KEPT + 128 + 16);
        for (size_t n = STACK_KEPT + 128 + 16; n < used;) {
                touch_stacks(&child, &pages, true);
                n = MIN(n + 128, used);
                assert_int_equal(count_pages_at(&child, LARGE, LARGE_PAGES), n);
        }
        child_end(&child);
}

/* What is never to be read keeps no other stack out, and least of all the main thread's. */
static void test_beyond_the_end(_unused_ void **state) {
        Child child = child_new();
        StackPages pages = {};
        uint64_t main_stack;
        size_t n, before;

        child_do(&child, 'e');
        for (unsigned i = 0; i < 300; i++) /* these tries do not count */
                touch_stacks(&child, &pages, false);
        pages.next = 0;
        child_do(&child, 's');
        child_do(&child, 'w');
        main_stack = find_main_stack(&child, &n);
        before = count_pages_at(&child, main_stack, n);
        delay_ms = 25; /* a batch a call */
        touch_stacks(&child, &pages, true);
        assert_int_equal(count_pages_at(&child, main_stack, n), before + 8);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_KEPT);
        /* Without the mark nothing is missing there. */
        touch_stacks(&child, &pages, false);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_KEPT);
        touch_stacks(&child, &pages, false);
        assert_true(count_pages_at(&child, GUARDED, STACK_PAGES) > STACK_KEPT);
        /* One of its pages is tried, and no more of them. */
        pages.next = 0;
        delay_ms = 3;
        touch_stacks(&child, &pages, false);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_USED);
        delay_ms = 0;
        touch_stacks(&child, &pages, true);
        assert_true(count_pages_at(&child, main_stack, n) >= before + MAIN_PAGES - 4);
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_USED);
        assert_int_equal(count_pages_at(&child, PRIVATE, STACK_PAGES), STACK_USED);
        child_end(&child);
}

/* What never was cannot be told from what was lost: so much may come to be, and never more. */
static void test_holes(_unused_ void **state) {
        StackPages pages = {};
        struct stat st;
        Child child;

        holes_fd = memfd_create("holes", MFD_CLOEXEC);
        assert_return_code(holes_fd, errno);
        child = child_new();
        child_do(&child, 'H'); /* one page too large */
        touch_stacks(&child, &pages, false);
        assert_return_code(fstat(holes_fd, &st), errno);
        assert_int_equal(st.st_blocks, 8);
        child_end(&child);
        child = child_new();
        child_do(&child, 'h');
        for (unsigned i = 0; i < 10; i++)
                touch_stacks(&child, &pages, false);
        assert_return_code(fstat(holes_fd, &st), errno);
        assert_int_equal(st.st_blocks, 8 + 256 * 8);
        child_end(&child);
        holes_fd = close_fd(holes_fd);
}

/* A file of somebody's may be called like memory. */
static void test_named_like_memory(_unused_ void **state) {
        static const char start[] = "2fffffffe000-300000001000 ---p 00000000 00:00 0\n"
                                    "300000001000-300000041000 rw-s 00000000 00:01 1 ";
        static const char *const others[] = { "/memfd:stack", "/dev/zero", "/home/memfd:stack (deleted)", "/memfd:s (deleted) " };
        static const char *const memory[] = { "/memfd:stack (deleted)", "/dev/zero (deleted)" };
        char maps[512];
        Child child;

        told_maps = maps;
        for (size_t i = 0; i < ELEMENTSOF(others) + ELEMENTSOF(memory); i++) {
                bool is_memory = i >= ELEMENTSOF(others);

                snprintf(maps, sizeof(maps), "%s%s\n", start, is_memory ? memory[i - ELEMENTSOF(others)] : others[i]);
                child = child_new();
                child_do(&child, 's');
                touch_stacks(&child, &(StackPages){}, false);
                assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), is_memory ? STACK_USED : STACK_KEPT);
                child_end(&child);
        }
        told_maps = NULL;
}

/* Memory is then another thread's. */
static void test_without_leader(_unused_ void **state) {
        struct rs_table_mapping m = { .start = UNTOUCHED, .end = UNTOUCHED + UNTOUCHED_SIZE, .n_pages = 1 };
        char c;
        struct iovec to = { .iov_base = &c, .iov_len = 1 }, from = { .iov_base = &c, .iov_len = 1 };
        Child child = child_new(), thread = child;

        child_do(&child, 'a');
        child_do(&child, 's');
        child_do(&child, 't');
        for (unsigned i = 0; __real_process_vm_readv(child.pid, &to, 1, &from, 1, 0) >= 0; i++) {
                assert_true(i < 1000);
                pause_ms(1);
        }
        thread.pid = find_other_thread(&child);
        assert_int_equal(count_pages_at(&thread, GUARDED, STACK_PAGES), STACK_KEPT);
        touch_stacks(&child, &(StackPages){}, false);
        assert_int_equal(count_pages_at(&thread, GUARDED, STACK_PAGES), STACK_USED);
        assert_return_code(process_pages_touch_code(child.pid, SIZE, &m, 1, true), 0);
        assert_int_equal(count_pages_at(&thread, m.start, 256), 256);
        child_end(&child);
}

static void test_stacks_of_others(_unused_ void **state) {
        Child child = child_new();
        StackPages pages = {};

        child_do(&child, 's');
        child_do(&child, 'm');
        assert_int_equal(process_pages_touch_stacks(child.pid, 100000, &pages), -EFBIG);
        if (geteuid() == 0) {
                child_do(&child, 'u');
                assert_int_equal(process_pages_touch_stacks(child.pid, SIZE, &pages), -EPERM);
        }
        assert_int_equal(count_pages_at(&child, GUARDED, STACK_PAGES), STACK_KEPT);
        child_end(&child);
        assert_int_equal(process_pages_touch_stacks(child.pid, SIZE, &pages), -ESRCH);
}

/* ---- where room is short ---- */

static bool has_many_or_failed(Fixture *f, const Child *child, uint64_t n) {
        return has_mapping(f, child, MANY_LAST) || statistics(f).no_list >= n;
}

static bool has_many_if_asked(Fixture *f, const Child *child, _unused_ uint64_t value) {
        if (has_mapping(f, child, MANY_LAST))
                return true;
        note_sample(f, child, RINGSIDE_WALK_NO_MAPPING);
        return false;
}

/* Lists until there is no room for one more, which was tried often enough for what was given back to be used again. */
static size_t fill_up(Fixture *f, Child *children, size_t max) {
        for (size_t n = 0; n < max; n++) {
                children[n] = child_new();
                child_do(&children[n], 'm');
                note(f, &children[n], RINGSIDE_PROCESS_SEEN, 1);
                assert_true(wait_for(f, &children[n], has_many_or_failed, statistics(f).no_list + 5));
                if (!has_mapping(f, &children[n], MANY_LAST))
                        return n + 1;
        }
        fail();
        return 0;
}

/*
 * What was published of a process is taken away where something else is mapped by now, and there is no room to say so. There
 * is again when it shows that others have ended, which was never told.
 */
static void test_crowded(void **state) {
        Fixture *f = *state;
        Child child = child_new(), others[64];
        uint64_t libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);
        size_t n;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, libc));
        n = fill_up(f, others, ELEMENTSOF(others));
        assert_true(has_address(f, &child, libc));
        child_do(&child, 'm');
        note_sample(f, &child, RINGSIDE_WALK_NO_MAPPING);
        assert_true(wait_for(f, &child, has_this_list, UNWIND_MEMORY_EMPTY_LIST));
        for (size_t i = 0; i < n; i++)
                child_end(&others[i]);
        set_ahead(11); /* for that is looked for seldom */
        assert_true(wait_for(f, &child, has_many_if_asked, 0));
        assert_true(wait_for(f, &child, has_address, libc));
        set_ahead(0);
        child_end(&child);
}

/* Where records were lost, and nothing else tells. */
static void test_untold_end(void **state) {
        Fixture *f = *state;
        Child child = child_new(), other = child_new();

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        pause_ms(50);
        child_end(&child);
        note(f, &other, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &other, has_address, find_mapped(other.pid, "[vdso]", NULL, 0, NULL)));
        assert_int_not_equal(find_list(f, &child), 0);
        unwinder_note_lost(f->unwinder);
        note_mapping(f, &other, 0x1000);
        assert_true(wait_for(f, &child, has_no_list, 0));
        assert_true(wait_for(f, &other, has_handled, f->noted));
        assert_int_equal(statistics(f).processes, 1);
        child_end(&other);
}

static void set_padding(unsigned percent) {
        __atomic_store_n(&padding, (SIZE_SMALL - RS_TABLE_HEAP_AT) / 8 / 100 * percent, __ATOMIC_RELEASE);
}

static Child load_large(Fixture *f, char library, const char *name, uint64_t *ret_address) {
        Child child = child_new();

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "libc.so", NULL, 0, NULL)));
        pause_ms(50);
        child_do(&child, library);
        *ret_address = find_mapped(child.pid, name, NULL, 0, NULL);
        set_padding(60);
        note_mapping(f, &child, *ret_address);
        return child;
}

/* The same, where it is a table that has no room, because of another that a process has which has ended. */
static void test_large_tables(void **state) {
        Fixture *f = *state;
        uint64_t library;
        Child child;

        child = load_large(f, 'l', "libresolv", &library);
        assert_true(wait_for(f, &child, has_address, library));
        set_padding(0);
        child_end(&child);
        child = load_large(f, 'L', "libnss_compat", &library);
        assert_true(wait_for(f, &child, has_address, library));
        set_padding(0);
        child_end(&child);
}

/* ---- files that change ---- */

static void copy_file(const char *path) {
        static char bytes[1U << 20]; /* of all that are copied the same size */
        _cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC), to = open(file_path, O_WRONLY | O_TRUNC | O_CLOEXEC);

        assert_return_code(from, errno);
        assert_return_code(to, errno);
        memset(bytes, 0, sizeof(bytes));
        assert_in_range(read(from, bytes, sizeof(bytes)), FILE_SIZE / 2, sizeof(bytes) - 1);
        assert_int_equal(write(to, bytes, sizeof(bytes)), sizeof(bytes));
}

static bool has_rules(Fixture *f, const Child *child, uint64_t table_at) {
        const UnwindTable *table = (const UnwindTable *) (uintptr_t) table_at;
        uint64_t list = find_list(f, child);
        const struct rs_table_mapping *m = list != 0 ? find_mapping(f, list, FILE_AT + FILE_SIZE / 2) : NULL;
        size_t n = 0;

        for (uint64_t at = FILE_AT + FILE_SIZE / 4; m && m->n_pages > 0 && at < FILE_AT + FILE_SIZE / 2; at++) {
                struct rs_table_rule rule = find_rule(f, m, at);

                if (memcmp(&rule, unwind_table_find(table, at - FILE_AT), sizeof(rule)) != 0)
                        return false;
                n += rule.cfa != RS_CFA_NONE;
        }
        return n > 1000;
}

/* Whoever sets the time of a file has its table made again, which takes no more than a twentieth of the time either. */
static void check_rewriting_costs(Fixture *f, const Child *child) {
        uint64_t readings;

        set_time(now_ns(CLOCK_MONOTONIC));
        __atomic_store_n(&free_of_charge, true, __ATOMIC_RELEASE);
        assert_return_code(chmod(file_path, 0777), errno); /* anybody's, so that its build id does not count */
        pass_time(100000);
        look_again(f, child);
        readings = statistics(f).readings;
        pass_time(1000);
        assert_return_code(utimensat(AT_FDCWD, file_path, (const struct timespec[]){ { .tv_sec = 1 }, { .tv_sec = 1 } }, 0), errno);
        __atomic_store_n(&cost, 1, __ATOMIC_RELEASE);
        note_real_mapping(f, child, FILE_AT);
        assert_true(wait_for(f, child, has_read, readings + 1));
        assert_int_equal(__atomic_load_n(&cost, __ATOMIC_ACQUIRE), 0);
        pass_time(18900); /* a second less, which it had saved */
        look_again(f, child);
        assert_int_equal(statistics(f).readings, readings + 1);
        pass_time(200);
        look_again(f, child);
        assert_int_equal(statistics(f).readings, readings + 2);
        set_time(0);
        __atomic_store_n(&free_of_charge, false, __ATOMIC_RELEASE);
}

/* A library that is written anew in the same file, and loaded again to the same place. */
static void test_rewritten(void **state) {
        static const char *const names[] = { "libresolv", "ld-linux" };
        Fixture *f = *state;
        Child other = child_new(), child;
        char path[1024];
        int fd;

        child_do(&other, 'l');
        fd = mkstemp(file_path);
        assert_return_code(fd, errno);
        assert_return_code(fchmod(fd, 0755), errno);
        close_fd(fd);
        child = child_new();
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;
                uint64_t address;

                assert_int_not_equal(find_mapped(other.pid, names[i], path, sizeof(path), NULL), 0);
                copy_file(path);
                assert_return_code(elf_file_new_take_fd(&elf, open(path, O_RDONLY | O_CLOEXEC)), 0);
                assert_return_code(unwind_table_new(&table, elf), 0);
                assert_true(elf_file_get_code_address(elf, 0, FILE_SIZE, &address));
                assert_int_equal(address, 0);
                child_do(&child, 'f');
                note_real_mapping(f, &child, FILE_AT);
                assert_true(wait_for(f, &child, has_rules, (uint64_t) (uintptr_t) table));
                pause_ms(20); /* a tick of the clock of files */
        }
        check_rewriting_costs(f, &child);
        assert_return_code(unlink(file_path), errno);
        child_end(&child);
        child_end(&other);
}

/* Its end was not told, and the number is another's. */
static void test_reuse(void **state) {
        Fixture *f = *state;
        Child child = child_new(), before = child;
        uint64_t libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);

        before.start -= 1000000000;
        note(f, &before, RINGSIDE_PROCESS_SEEN, 1); /* is not what runs now */
        assert_true(wait_for(f, &child, has_read, 1));
        assert_true(wait_for(f, &before, has_handled, f->noted));
        assert_int_equal(find_list(f, &before), 0);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, libc));
        note(f, &before, RINGSIDE_PROCESS_EXIT, 1); /* late */
        note_mapping(f, &before, 0x1000);
        assert_true(wait_for(f, &child, has_handled, f->noted));
        assert_int_not_equal(find_list(f, &child), 0);
        child_end(&child);
}

static void test_gone(void **state) {
        Fixture *f = *state;
        Child child = child_new();

        child_end(&child);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        note(f, &child, RINGSIDE_PROCESS_EXEC, 1);
        assert_true(wait_for(f, &child, has_read, 1));
        pause_ms(50);
        assert_int_equal(find_list(f, &child), 0);
        assert_int_equal(statistics(f).processes, 0);
}

/* What the queue did not take may have been anything. */
static void test_overflow(void **state) {
        Fixture *f = *state;
        Child child = child_new(), gone = child_new();
        uint64_t libc = find_mapped(child.pid, "libc.so", NULL, 0, NULL);

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        note(f, &gone, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, libc));
        assert_true(wait_for(f, &gone, has_address, libc));
        pause_ms(50);
        child_end(&gone);
        while (statistics(f).lost == 0)
                for (unsigned i = 0; i < 10000; i++)
                        note_mapping(f, &child, 0x1000);
        assert_true(wait_for(f, &gone, has_no_list, 0));
        assert_true(wait_for(f, &child, has_address, libc));
        child_end(&child);
}

/* Tables take their time once; what is mapped meanwhile, and soon after, waits for no multiple of that. */
static void test_slow_table(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t library;

        cost = 10;
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        child_do(&child, 'l');
        library = find_mapped(child.pid, "libresolv", NULL, 0, NULL);
        note_mapping(f, &child, library);
        assert_true(wait_for(f, &child, has_address, library));
        child_end(&child);
}

/* As if it were there; with a line break. */
static ino_t tell_mapping(FILE *to, const Child *child, const char *name, uint64_t start, uint64_t end) {
        char path[PATH_MAX], line[PATH_MAX + 128];
        struct stat st;
        FILE *maps;

        assert_int_not_equal(find_mapped(child->pid, name, path, sizeof(path), NULL), 0);
        assert_return_code(stat(path, &st), errno);
        snprintf(line, sizeof(line), "/proc/%d/maps", child->pid);
        maps = fopen(line, "re");
        assert_non_null(maps);
        do
                assert_non_null(fgets(line, sizeof(line), maps));
        while (!strstr(line, name) || !strstr(line, " r-xp "));
        fclose(maps);
        fprintf(to, "%" PRIx64 "-%" PRIx64 "%s", start, end, strchr(line, ' '));
        return st.st_ino;
}

/* What is small, the program, and what it was linked with, as it was loaded: from above. */
static void test_order(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        ino_t expected[4];

        assert_non_null(to);
        child_do(&child, 'l');
        child_do(&child, 'L');
        expected[1] = tell_mapping(to, &child, "test-unwinder", 0x400000, 0xc00000);
        expected[3] = tell_mapping(to, &child, "libnss_compat", 0x10000000, 0x11000000);
        expected[0] = tell_mapping(to, &child, "libc.so", 0x20000000, 0x20400000);
        expected[2] = tell_mapping(to, &child, "libresolv", 0x30000000, 0x30401000);
        assert_int_equal(fclose(to), 0);
        told_maps = text;
        n_made = 0;
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_read, 1)); /* which is told when all are made */
        told_maps = NULL;
        free(text);
        assert_int_equal(n_made, ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                assert_int_equal(made[i], expected[i]);
        child_end(&child);
}

/* Where much was spent already children's code is touched only once a walk asks. */
static void test_budget(void **state) {
        Fixture *f = *state;
        Child parent = child_new(), child = child_new();

        cost = 10;
        note(f, &parent, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &parent, has_address, find_mapped(parent.pid, "[vdso]", NULL, 0, NULL)));
        note(f, &child, RINGSIDE_PROCESS_FORK, (uint32_t) parent.pid);
        assert_true(wait_for(f, &child, has_list, 0));
        pause_ms(100);
        assert_int_equal(statistics(f).touches, 0);
        note_sample(f, &child, RINGSIDE_WALK_UNREADABLE);
        assert_true(wait_for(f, &child, has_pages, 200));
        child_end(&parent);
        child_end(&child);
}

/* Where no file can be opened for a while, what is there stays, and what is not comes afterwards. */
static void test_no_fds(void **state) {
        Fixture *f = *state;
        Child child = child_new(), other = child_new();
        uint64_t library, vdso = find_mapped(child.pid, "[vdso]", NULL, 0, NULL), readings;
        struct rlimit before, none;

        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, vdso));
        child_do(&child, 'l');
        library = find_mapped(child.pid, "libresolv", NULL, 0, NULL);
        pause_ms(100);
        readings = statistics(f).readings;
        assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
        none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
        assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
        note_mapping(f, &child, library);
        note(f, &other, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_read, readings + 2));
        pause_ms(20);
        assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
        assert_true(has_address(f, &child, vdso));
        assert_int_equal(statistics(f).processes, 2);
        assert_true(wait_for(f, &child, has_address, library));
        assert_true(wait_for(f, &other, has_address, vdso));
        child_end(&child);
        child_end(&other);
}

static bool is_mapped(void *at) {
        unsigned char page;

        return mincore(at, 4096, &page) == 0 || errno != ENOMEM;
}

static bool is_unmapped(Fixture *f, _unused_ const Child *child, _unused_ uint64_t value) {
        return !is_mapped(f->bytes);
}

/* Who closes the session does not wait for a table. */
static void test_long_table(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t before;

        endless = 1;
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_list, UINT64_C(1) << 32));
        pause_ms(20);
        before = now_ns(CLOCK_MONOTONIC);
        f->unwinder = unwinder_free(f->unwinder);
        assert_in_range(now_ns(CLOCK_MONOTONIC) - before, 0, 1900000000);
        assert_false(is_mapped(f->bytes));
        child_end(&child);
}

/* The thread is left alone with what it waits for, and frees all that it has when it is told of its end. */
static void test_stalled(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t before;
        int fds[2];

        assert_return_code(pipe(fds), errno);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_address, find_mapped(child.pid, "[vdso]", NULL, 0, NULL)));
        __atomic_store_n(&stalled_fd, fds[0], __ATOMIC_RELEASE);
        note_sample(f, &child, RINGSIDE_WALK_UNREADABLE);
        pause_ms(200);
        before = now_ns(CLOCK_MONOTONIC);
        f->unwinder = unwinder_free(f->unwinder);
        assert_in_range(now_ns(CLOCK_MONOTONIC) - before, 1900000000, 5000000000);
        assert_true(is_mapped(f->bytes));
        __atomic_store_n(&stalled_fd, -1, __ATOMIC_RELEASE);
        close_fd(fds[1]);
        assert_true(wait_for(f, &child, is_unmapped, 0));
        close_fd(fds[0]);
        child_end(&child);
}

/* ---- with a cache ---- */

static char cache_home[] = "/tmp/test-unwinder-cache-XXXXXX";

/* Where all tables are worth it. */
static int set_up_cache(void **state) {
        strcpy(cache_home + strlen(cache_home) - 6, "XXXXXX");
        assert_non_null(mkdtemp(cache_home));
        assert_return_code(setenv("XDG_CACHE_HOME", cache_home, 1), errno);
        n_begun = n_kept = 0;
        padding = UNWIND_CACHE_WORTH;
        return set_up(state);
}

static int tear_down_cache(void **state) {
        char command[64];
        int r = tear_down(state);

        padding = 0;
        assert_return_code(setenv("XDG_CACHE_HOME", "/dev/null", 1), errno);
        snprintf(command, sizeof(command), "rm -rf %s", cache_home);
        assert_int_equal(system(command), 0);
        return r;
}

static bool has_begun(_unused_ Fixture *f, _unused_ const Child *child, uint64_t n) {
        return __atomic_load_n(&n_begun, __ATOMIC_ACQUIRE) >= n;
}

static bool has_kept(_unused_ Fixture *f, _unused_ const Child *child, uint64_t n) {
        return __atomic_load_n(&n_kept, __ATOMIC_ACQUIRE) >= n;
}

/* What is yet to be kept then is the thread's to keep: it may not end either. */
static void test_stalled_cache(void **state) {
        Fixture *f = *state;
        Child child = child_new();
        uint64_t before;
        int fds[2];

        assert_return_code(pipe(fds), errno);
        __atomic_store_n(&stalled_cache_fd, fds[0], __ATOMIC_RELEASE);
        endless = 3;
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_begun, 3));
        assert_int_equal(n_kept, 0);
        before = now_ns(CLOCK_MONOTONIC);
        f->unwinder = unwinder_free(f->unwinder);
        assert_in_range(now_ns(CLOCK_MONOTONIC) - before, 1900000000, 5000000000);
        assert_true(is_mapped(f->bytes));
        close_fd(fds[1]);
        assert_true(wait_for(f, &child, is_unmapped, 0));
        assert_in_range(n_kept, 1, 2); /* the kernel's own need not say which it is */
        __atomic_store_n(&stalled_cache_fd, -1, __ATOMIC_RELEASE);
        close_fd(fds[0]);
        child_end(&child);
}

/* Nothing is kept as long as somebody has no tables: who is told of meanwhile, or has yet to be read. */
#define WAITING 40 /* more than are read in a row, twice */

static void test_kept_last(void **state) {
        Fixture *f = *state;
        Child child = child_new(), others[WAITING];

        for (size_t i = 0; i < WAITING; i++)
                others[i] = child_new();
        child_do(&others[WAITING - 1], 'l');
        __atomic_store_n(&held, true, __ATOMIC_RELEASE);
        note(f, &child, RINGSIDE_PROCESS_SEEN, 1);
        assert_true(wait_for(f, &child, has_begun, 1));
        for (size_t i = 0; i < WAITING; i++)
                note(f, &others[i], RINGSIDE_PROCESS_SEEN, 1);
        __atomic_store_n(&held, false, __ATOMIC_RELEASE);
        assert_true(wait_for(f, &others[WAITING - 1], has_address, find_mapped(others[WAITING - 1].pid, "libresolv", NULL, 0, NULL)));
        assert_int_equal(__atomic_load_n(&n_kept_before, __ATOMIC_ACQUIRE), 0);
        assert_true(wait_for(f, &child, has_kept, 4)); /* program, linker, and two libraries */
        for (size_t i = 0; i < WAITING; i++)
                child_end(&others[i]);
        child_end(&child);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_tables, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_library, set_up, tear_down),
#ifdef __x86_64__
                cmocka_unit_test_setup_teardown(test_trampolines, set_up, tear_down),
#endif
                cmocka_unit_test_setup_teardown(test_fork_and_exit, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_exec, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_exec_untold, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_too_much, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_less, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_hidden, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_interval, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_exec_meanwhile, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_touch, set_up, tear_down),
                cmocka_unit_test(test_every_page),
                cmocka_unit_test(test_read),
                cmocka_unit_test_setup_teardown(test_stacks, set_up, tear_down),
                cmocka_unit_test(test_swapped_stacks),
                cmocka_unit_test(test_large_stack),
                cmocka_unit_test(test_beyond_the_end),
                cmocka_unit_test(test_holes),
                cmocka_unit_test(test_named_like_memory),
                cmocka_unit_test(test_without_leader),
                cmocka_unit_test(test_stacks_of_others),
                cmocka_unit_test_setup_teardown(test_crowded, set_up_small, tear_down),
                cmocka_unit_test_setup_teardown(test_untold_end, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_large_tables, set_up_small, tear_down),
                cmocka_unit_test_setup_teardown(test_rewritten, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_reuse, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_overflow, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_slow_table, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_budget, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_no_fds, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_long_table, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_stalled, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_stalled_cache, set_up_cache, tear_down_cache),
                cmocka_unit_test_setup_teardown(test_kept_last, set_up_cache, tear_down_cache),
        };

        if (argc == 3)
                child_main(atoi(argv[1]), atoi(argv[2]));
        /* What an earlier run has left in a cache is not made again. */
        assert_return_code(setenv("XDG_CACHE_HOME", "/dev/null", 1), errno);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
