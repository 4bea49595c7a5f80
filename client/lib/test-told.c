/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an address space makes of mappings that it is told of, beside those it has read: in a process that is not
 * there, of files that are copies of this program, in a /proc that is made up.
 */

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "maps.h"
#include "symbolizer.h"
#include "util.h"

#define PID 77
#define BASE UINT64_C(0x10000000)
#define SEC UINT64_C(1000000000)

__attribute__((noinline, used)) static int function_that_is_told(int n) {
        return n * 7 + 1;
}

static uint64_t own_time; /* ns CLOCK_MONOTONIC, 0: it goes by as it does */
static unsigned born;     /* s CLOCK_REALTIME: when files were born, 0: when they were, if that is known */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        int r = __real_clock_gettime(clock, ret);

        if (clock == CLOCK_MONOTONIC && own_time > 0)
                *ret = (struct timespec){ .tv_sec = (time_t) (own_time / SEC), .tv_nsec = (long) (own_time % SEC) };
        return r;
}

int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *ret);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *ret);

int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *ret) {
        int r = __real_statx(fd, path, flags, mask, ret);

        if (born > 0) {
                ret->stx_btime.tv_sec = born;
                ret->stx_mask |= STATX_BTIME;
        }
        return r;
}

typedef struct Fixture {
        char dir[64];
        char proc[128];
        char paths[3][128]; /* copies of this program: one, two and three */
        uint64_t offset;    /* of the mapping with its code in the file, and how long it is */
        uint64_t length;
        uint64_t at; /* of the function, in the mapping */
        Symbolizer *symbolizer;
        AddressSpace *space;
} Fixture;

_printf_(1, 2) static void run(const char *format, ...) {
        char command[2 * PATH_MAX];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(command, sizeof(command), format, ap);
        va_end(ap);
        assert_int_equal(system(command), 0);
}

/* Where this function is, by our own maps. */
static void find_function(Fixture *f) {
        uint64_t address = (uint64_t) (uintptr_t) function_that_is_told, start, end, offset;
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[PATH_MAX + 128];

        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps))
                if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) == 3 && start <= address &&
                    address < end) {
                        f->offset = offset;
                        f->length = end - start;
                        f->at = address - start;
                }
        (void) fclose(maps);
        assert_true(f->length > 0);
}

static int setup(void **state) {
        static const char *const names[] = { "one", "two", "three" };
        Fixture *f = calloc(1, sizeof(*f));
        char self[PATH_MAX] = "";

        if (!f || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                return -1;
        (void) snprintf(f->dir, sizeof(f->dir), "/tmp/test-told-XXXXXX");
        if (!mkdtemp(f->dir))
                return -1;
        (void) snprintf(f->proc, sizeof(f->proc), "%s/proc", f->dir);
        run("mkdir %s", f->proc);
        for (size_t i = 0; i < 3; i++) {
                (void) snprintf(f->paths[i], sizeof(f->paths[i]), "%s/%s", f->dir, names[i]);
                run("cp '%s' '%s'", self, f->paths[i]);
        }
        find_function(f);
        assert_int_equal(symbolizer_new(&f->symbolizer, &(SymbolizerOptions){ .proc = f->proc }), 0);
        assert_int_equal(address_space_new(&f->space, f->symbolizer, PID), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        own_time = 0;
        born = 0;
        address_space_free(f->space);
        symbolizer_free(f->symbolizer);
        run("rm -rf '%s'", f->dir);
        free(f);
        return 0;
}

static ToldMapping mapping(const Fixture *f, size_t file, uint64_t time) {
        struct stat st;

        assert_int_equal(stat(f->paths[file], &st), 0);
        return (ToldMapping){
                .time = time,
                .start = BASE,
                .end = BASE + f->length,
                .offset = f->offset,
                .inode = st.st_ino,
                .dev_major = major(st.st_dev),
                .dev_minor = minor(st.st_dev),
                .path = f->paths[file],
        };
}

static void read_maps(Fixture *f, const ToldMapping *m, size_t n) {
        char path[192];
        FILE *out;

        (void) mkdir(strcat(strcpy(path, f->proc), "/77"), 0755);
        out = fopen(strcat(path, "/maps"), "we");
        assert_non_null(out);
        for (size_t i = 0; i < n; i++)
                (void) fprintf(out, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " %02x:%02x %" PRIu64 " %s\n", m[i].start,
                               m[i].end, m[i].offset, m[i].dev_major, m[i].dev_minor, m[i].inode, m[i].path);
        if (n == 0)
                (void) fprintf(out, "1000-2000 rw-p 00000000 00:00 0\n");
        (void) fclose(out);
        assert_return_code(address_space_refresh(f->space), 0);
}

static void expect(Fixture *f, uint64_t base, const char *path, const char *name) {
        Resolved resolved;

        assert_int_equal(address_space_resolve(f->space, base + f->at, false, &resolved), 0);
        assert_string_equal(resolved.file->path, path);
        if (name)
                assert_string_equal(resolved.name, name);
        else
                assert_null(resolved.name);
}

static void test_gap(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        uint64_t generation = address_space_get_generation(f->space);

        expect(f, BASE, "[unknown]", NULL);
        assert_false(address_space_contradicts(f->space, &m));
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        assert_int_not_equal(address_space_get_generation(f->space), generation);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_int_equal(address_space_tell(f->space, &m), TOLD_KNOWN);
        /* Only a part of it, and more of it. */
        m.start += 4096;
        m.offset += 4096;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_KNOWN);
        m.end += 4096;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        address_space_clear(f->space);
        expect(f, BASE, "[unknown]", NULL);
}

static void test_replaced(void **state) {
        Fixture *f = *state;
        ToldMapping one = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), two = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        MappedRange range;

        assert_int_equal(address_space_tell(f->space, &one), TOLD_NEW);
        assert_true(address_space_contradicts(f->space, &two));
        assert_int_equal(address_space_tell(f->space, &two), TOLD_OTHER);
        expect(f, BASE, f->paths[1], "function_that_is_told");
        assert_int_equal(address_space_get_n_mappings(f->space), 1);
        /* In its middle: both ends stay what they were. */
        one.start = BASE + 4096;
        one.end = BASE + 8192;
        one.offset = f->offset + 4096;
        two.end = BASE + 5 * 4096;
        assert_int_equal(address_space_tell(f->space, &two), two.end <= BASE + f->length ? TOLD_KNOWN : TOLD_NEW);
        assert_int_equal(address_space_tell(f->space, &one), TOLD_OTHER);
        assert_int_equal(address_space_get_n_mappings(f->space), 3);
        address_space_get_mapping(f->space, 2, &range);
        assert_int_equal(range.start, BASE + 8192);
        assert_int_equal(range.offset, f->offset + 8192);
        assert_string_equal(range.file->path, f->paths[1]);
        address_space_get_mapping(f->space, 1, &range);
        assert_string_equal(range.file->path, f->paths[0]);
}

/* Tells of it as of now. */
static int tell_now(AddressSpace *space, const ToldMapping *told) {
        ToldMapping m = *told;

        m.time = now_ns(CLOCK_BOOTTIME);
        return address_space_tell(space, &m);
}

/* The same file at the same place, in which another one stands by now. */
static void check_rewritten(Fixture *f, bool held) {
        ToldMapping before = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), between, after;
        struct timespec late = { .tv_nsec = 50000000 };

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        read_maps(f, &before, 1);
        assert_int_equal(address_space_tell(f->space, &before), TOLD_KNOWN);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        for (unsigned i = 0; i < 2 && !held; i++)
                symbolizer_let_go(f->symbolizer);
        between = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        (void) nanosleep(&late, NULL);
        assert_int_equal(tell_now(f->space, &between), TOLD_KNOWN);
        run("truncate -s %" PRIu64 " '%s'", f->offset, f->paths[0]); /* has its names no more */
        (void) nanosleep(&late, NULL);
        /* What was seen before that still is what it was. */
        assert_int_equal(address_space_tell(f->space, &before), TOLD_KNOWN);
        assert_int_equal(address_space_tell(f->space, &between), TOLD_KNOWN);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        (void) nanosleep(&late, NULL);
        after = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        assert_int_equal(address_space_tell(f->space, &after), TOLD_OTHER);
        expect(f, BASE, f->paths[0], NULL);
        assert_int_equal(address_space_tell(f->space, &after), TOLD_KNOWN);
        /* Replaced, as a package does it: this process has the old one. */
        run("cp '%s' '%s.new'; mv '%s.new' '%s'", f->paths[1], f->paths[0], f->paths[0], f->paths[0]);
        after.time = now_ns(CLOCK_BOOTTIME) + SEC;
        assert_int_equal(address_space_tell(f->space, &after), TOLD_KNOWN);
}

/* Before anybody asked for a name. */
static void test_rewritten_before(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        struct timespec late = { .tv_nsec = 50000000 };

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        (void) nanosleep(&late, NULL);
        run("cp '%s' '%s'", f->paths[1], f->paths[0]);
        expect(f, BASE, f->paths[0], NULL);
        (void) nanosleep(&late, NULL);
        m.time = now_ns(CLOCK_BOOTTIME);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], "function_that_is_told");
}

static void set_time_of(Fixture *f, size_t file, unsigned seconds) {
        const struct timespec times[] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

        assert_return_code(utimensat(AT_FDCWD, f->paths[file], times, 0), errno);
}

static uint64_t find_id(Fixture *f, uint64_t base) {
        Resolved resolved;

        assert_return_code(address_space_resolve(f->space, base + f->at, false, &resolved), 0);
        return resolved.file->id;
}

/*
 * In the order in which a client comes to it that did not run for a while: at `told` another one stood in the file, which
 * is written anew by then, and perhaps read.
 */
static void test_rewritten_since(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), told;
        struct timespec late = { .tv_nsec = 50000000 };

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        (void) nanosleep(&late, NULL);
        told = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        (void) nanosleep(&late, NULL);
        run("cp '%s' '%s'", f->paths[1], f->paths[0]);
        assert_int_equal(address_space_tell(f->space, &told), TOLD_OTHER);
        expect(f, BASE, f->paths[0], NULL);
}

static void test_rewritten_and_read_since(void **state) {
        Fixture *f = *state;
        ToldMapping told = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), now;
        struct timespec late = { .tv_nsec = 50000000 };

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        (void) nanosleep(&late, NULL);
        run("cp '%s' '%s'", f->paths[1], f->paths[0]);
        now = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        read_maps(f, &now, 1);
        assert_int_equal(address_space_tell(f->space, &told), TOLD_OTHER);
        expect(f, BASE, f->paths[0], NULL);
}

/* What was refused has names where it is told again after the time that was to pass, for all that have it mapped. */
static void check_told_again(Fixture *f, const ToldMapping *m) {
        ToldMapping other = *m;

        /* Where it is not there then, it is not looked for all the time. */
        run("mv '%s' '%s.moved'", f->paths[0], f->paths[0]);
        assert_int_equal(tell_now(f->space, m), TOLD_OTHER);
        assert_int_equal(tell_now(f->space, m), TOLD_KNOWN);
        expect(f, BASE, f->paths[0], NULL);
        run("mv '%s.moved' '%s'", f->paths[0], f->paths[0]);
        own_time += SEC;
        assert_int_equal(tell_now(f->space, m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        other.start += BASE;
        other.end += BASE;
        expect(f, other.start, f->paths[0], NULL);
        assert_int_equal(tell_now(f->space, &other), TOLD_OTHER);
        expect(f, other.start, f->paths[0], "function_that_is_told");
}

/* Its owner sets its time, to what it was even, as often as he likes: that is no way to have it read as often. */
static void test_rewritten_too_often(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), other = m;

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        other.start += BASE;
        other.end += BASE;
        own_time = SEC;
        set_time_of(f, 0, 1);
        assert_int_equal(tell_now(f->space, &m), TOLD_NEW);
        for (unsigned i = 1; i < 8; i++) {
                own_time += SEC / 50;
                set_time_of(f, 0, 1 + i % 2);
                assert_int_equal(tell_now(f->space, &m), TOLD_OTHER);
                expect(f, BASE, f->paths[0], "function_that_is_told");
                assert_int_equal(find_id(f, BASE), 1 + i);
        }
        own_time += SEC / 50;
        set_time_of(f, 0, 1);
        assert_int_equal(tell_now(f->space, &other), TOLD_NEW);
        expect(f, 2 * BASE, f->paths[0], NULL);
        assert_int_equal(find_id(f, 2 * BASE), 9);
        assert_int_equal(tell_now(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], NULL);
        own_time += SEC / 50;
        set_time_of(f, 0, 2);
        assert_int_equal(tell_now(f->space, &m), TOLD_KNOWN);
        assert_int_equal(find_id(f, BASE), 9);

        /* But it may have been built anew: where it is mapped next some time later it has names, and then after twice that time. */
        for (unsigned i = 0; i < 2; i++) {
                own_time += (i + 1) * SEC;
                set_time_of(f, 0, 3 + i);
                if (i == 0) {
                        check_told_again(f, &m);
                        continue;
                }
                other.start += BASE;
                other.end += BASE;
                assert_int_equal(tell_now(f->space, &other), TOLD_NEW);
                expect(f, other.start, f->paths[0], "function_that_is_told");
        }
        own_time += 3 * SEC;
        set_time_of(f, 0, 5);
        other.start += BASE;
        other.end += BASE;
        assert_int_equal(tell_now(f->space, &other), TOLD_NEW);
        expect(f, other.start, f->paths[0], NULL);
        /* What only has its number is another file. */
        born = 60;
        other.start += BASE;
        other.end += BASE;
        assert_int_equal(tell_now(f->space, &other), TOLD_NEW);
        expect(f, other.start, f->paths[0], "function_that_is_told");
}

/* What is known is looked at no more often than a file's time can change, and where something else is told not at all. */
static void test_looked_at_once(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), again = m, other = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        Resolved resolved;

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        again.start += BASE;
        again.end += BASE;
        own_time = SEC;
        assert_int_equal(tell_now(f->space, &m), TOLD_NEW);
        assert_int_equal(tell_now(f->space, &again), TOLD_NEW);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_int_equal(tell_now(f->space, &m), TOLD_KNOWN);
        set_time_of(f, 0, 1);
        assert_int_equal(tell_now(f->space, &m), TOLD_KNOWN);
        own_time += SEC / 50;
        assert_int_equal(tell_now(f->space, &other), TOLD_OTHER);
        assert_int_equal(address_space_resolve(f->space, again.start + f->at, false, &resolved), 0);
        assert_true(resolved.final);
        assert_int_equal(tell_now(f->space, &again), TOLD_OTHER);
}

/* What the path leads to in one process, or does not, says nothing of another that has the file. */
static void test_looked_at_by_another(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        AddressSpace *space;

        run("mkdir %s/77 %s/78; ln -s / %s/77/root; ln -s %s %s/78/root", f->proc, f->proc, f->proc, f->dir, f->proc);
        run("mkdir -p '%s%s'; cp '%s' '%s%s'", f->dir, f->dir, f->paths[0], f->dir, f->paths[0]);
        assert_return_code(address_space_new(&space, f->symbolizer, PID + 1), 0);
        own_time = SEC;
        assert_int_equal(tell_now(f->space, &m), TOLD_NEW);
        assert_int_equal(tell_now(space, &m), TOLD_NEW);
        symbolizer_let_go(f->symbolizer);
        symbolizer_let_go(f->symbolizer);
        assert_int_equal(tell_now(space, &m), TOLD_KNOWN);
        run("rm %s/78/root", f->proc);
        assert_int_equal(tell_now(space, &m), TOLD_KNOWN);
        set_time_of(f, 0, 1);
        assert_int_equal(tell_now(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        address_space_free(space);
}

/* Nor has it the names of what it is by now where that is given the time of what it was. */
static void test_set_back(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), other = m;

        run("mkdir %s/77; ln -s / %s/77/root", f->proc, f->proc);
        other.start += BASE;
        other.end += BASE;
        own_time = SEC;
        set_time_of(f, 0, 1);
        assert_int_equal(tell_now(f->space, &m), TOLD_NEW);
        assert_int_equal(tell_now(f->space, &other), TOLD_NEW);
        set_time_of(f, 0, 2);
        assert_int_equal(tell_now(f->space, &m), TOLD_OTHER);
        set_time_of(f, 0, 1);
        expect(f, other.start, f->paths[0], NULL);
        own_time += SEC / 50;
        assert_int_equal(tell_now(f->space, &other), TOLD_OTHER);
        expect(f, other.start, f->paths[0], "function_that_is_told");
}

/* Whether a process that has ended, of which nothing else is known, has its name. */
static bool is_named(Fixture *f, ToldMapping m) {
        AddressSpace *space;
        Resolved resolved;

        m.gone = true;
        assert_return_code(address_space_new(&space, f->symbolizer, PID + 1), 0);
        assert_int_equal(address_space_tell(space, &m), TOLD_NEW);
        assert_return_code(address_space_resolve(space, BASE + f->at, false, &resolved), 0);
        address_space_free(space);
        return resolved.name != NULL;
}

/* Files that are not there, of a process. */
static AddressSpace *tell_many(Fixture *f, const ToldMapping *like, uint64_t first_inode, unsigned n) {
        AddressSpace *space;

        assert_return_code(address_space_new(&space, f->symbolizer, PID + 1), 0);
        for (unsigned i = 0; i < n; i++) {
                ToldMapping m = *like;

                m.start = BASE + i * 8192;
                m.end = m.start + 4096;
                m.inode = first_inode + i;
                m.path = "/not/there";
                assert_int_equal(address_space_tell(space, &m), TOLD_NEW);
        }
        return space;
}

static const MappedFile *first_of(AddressSpace *space) {
        MappedRange range;

        address_space_get_mapping(space, 0, &range);
        return range.file;
}

/* Where many have been met, those go that nobody has mapped, but not at once. */
static void test_sweep(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), other = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        ToldMapping held = mapping(f, 2, now_ns(CLOCK_BOOTTIME));
        const uint64_t inode = UINT64_C(1) << 60;
        uint64_t id, last;
        AddressSpace *gone, *stays, *again;

        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_true(is_named(f, other));
        gone = tell_many(f, &m, inode, 2048);
        address_space_free(gone);
        for (unsigned i = 0; i < 2; i++)
                symbolizer_let_go(f->symbolizer);
        for (unsigned i = 0; i < 2; i++) /* the second time it is held */
                assert_true(is_named(f, held));
        assert_false(symbolizer_sweep(f->symbolizer)); /* all were met since the last time */
        stays = tell_many(f, &m, inode + 2048, 2048);
        assert_false(symbolizer_sweep(f->symbolizer)); /* not so soon again */
        again = tell_many(f, &m, inode + 4096, 3);
        id = first_of(stays)->id;
        last = first_of(again)->id + 2;
        assert_true(symbolizer_sweep(f->symbolizer));
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_int_equal(find_id(f, BASE), 1);
        assert_int_equal(first_of(stays)->id, id);
        address_space_free(again);
        run("mv '%s' '%s.moved'", held.path, held.path);
        assert_true(is_named(f, held));

        /* What has gone is new where it is met, and what has not is what it was. */
        again = tell_many(f, &m, inode + 2048, 1);
        assert_int_equal(first_of(again)->id, id);
        address_space_free(again);
        again = tell_many(f, &m, inode, 1);
        assert_int_equal(first_of(again)->id, last + 1);
        assert_true(is_named(f, other));
        address_space_free(again);
        address_space_free(stays);
}

static void test_rewritten(void **state) {
        check_rewritten(*state, /* held= */ true);
}

static void test_rewritten_by_path(void **state) {
        check_rewritten(*state, /* held= */ false);
}

/* What was read is of a later time than what is still to be looked up. */
static void test_read_ahead(void **state) {
        Fixture *f = *state;
        uint64_t before = now_ns(CLOCK_BOOTTIME), after;
        ToldMapping one = mapping(f, 0, before), two = mapping(f, 1, 0), three = mapping(f, 2, 0);

        read_maps(f, &two, 1);
        expect(f, BASE, f->paths[1], "function_that_is_told");
        /* The stream comes to what was there before. */
        assert_int_equal(address_space_tell(f->space, &one), TOLD_OTHER);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_false(address_space_pass(f->space, before));
        expect(f, BASE, f->paths[0], "function_that_is_told");
        /* And to the time of the reading. */
        after = now_ns(CLOCK_BOOTTIME);
        assert_true(address_space_pass(f->space, after));
        assert_false(address_space_pass(f->space, after));
        expect(f, BASE, f->paths[1], "function_that_is_told");
        /* What is told after that is newer. */
        three.time = after + 1;
        assert_int_equal(address_space_tell(f->space, &three), TOLD_OTHER);
        assert_false(address_space_pass(f->space, after + 2));
        expect(f, BASE, f->paths[2], "function_that_is_told");
}

/* What is there no more when it is read again was there for samples that are still to come. */
static void test_gone_when_read(void **state) {
        Fixture *f = *state;
        ToldMapping one = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), two = mapping(f, 1, now_ns(CLOCK_BOOTTIME));

        two.start += BASE;
        two.end += BASE;
        read_maps(f, &one, 1);
        assert_int_equal(address_space_tell(f->space, &two), TOLD_NEW);
        read_maps(f, NULL, 0);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        expect(f, 2 * BASE, f->paths[1], "function_that_is_told");
        /* A child begins with what its parent has. */
        AddressSpace *child;
        Resolved resolved;

        assert_int_equal(address_space_fork(&child, f->space, PID + 1, 1), 0);
        assert_int_equal(address_space_resolve(child, 2 * BASE + f->at, false, &resolved), 0);
        assert_string_equal(resolved.file->path, f->paths[1]);
        address_space_free(child);
}

/* Nothing was told of a process that is another program before its samples have come: they are of what it was. */
static void test_other_program(void **state) {
        Fixture *f = *state;
        ToldMapping was = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), is = mapping(f, 1, now_ns(CLOCK_BOOTTIME));

        is.start += BASE;
        is.end += BASE;
        read_maps(f, &was, 1);
        read_maps(f, &is, 1);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        expect(f, 2 * BASE, f->paths[1], "function_that_is_told");
        /* In its place, what it is now, but not before that was read. */
        is = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        read_maps(f, &is, 1);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_true(address_space_pass(f->space, now_ns(CLOCK_BOOTTIME)));
        expect(f, BASE, f->paths[1], "function_that_is_told");
}

/* Whatever leads to a path by now: it must be what was mapped then. */
static void test_other_file(void **state) {
        Fixture *f = *state;
        ToldMapping m;

        /* Another inode, and another device. */
        m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        m.inode++;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        expect(f, BASE, f->paths[0], NULL);
        m = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        m.dev_minor++;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[1], NULL);
        /* A file that was made after the mapping was seen, though it has its inode. */
        m = mapping(f, 2, now_ns(CLOCK_BOOTTIME) - 60 * SEC);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[2], NULL);
}

static bool was_opened(int inotify) {
        char events[4096] __attribute__((aligned(8)));

        return read(inotify, events, sizeof(events)) > 0;
}

/* Opening a file is an act, which whoever chose the path may wait for: only what proved to be the one is opened. */
static void test_others_not_opened(void **state) {
        Fixture *f = *state;
        int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));

        assert_true(inotify >= 0);
        assert_return_code(inotify_add_watch(inotify, f->paths[0], IN_OPEN), 0);
        m.inode++;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        m.dev_minor++;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        m = mapping(f, 0, now_ns(CLOCK_BOOTTIME) - 60 * SEC);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], NULL);
        assert_false(was_opened(inotify));
        /* They are regular, and have an inode and a device like others. */
        (void) snprintf(f->paths[1], sizeof(f->paths[1]), "/proc/version");
        assert_return_code(inotify_add_watch(inotify, f->paths[1], IN_OPEN), 0);
        m = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[1], NULL);
        assert_false(was_opened(inotify));
        m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[0], "function_that_is_told");
        assert_true(was_opened(inotify));
        (void) close(inotify);
}

/* A file that is met again and again is held, so that it is known wherever its path leads; for a while. */
static void test_held(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME)), other;

        assert_true(is_named(f, m));
        assert_true(is_named(f, m)); /* its names were read: now it is held */
        run("mv '%s' '%s.moved'", m.path, m.path);
        symbolizer_let_go(f->symbolizer);
        assert_true(is_named(f, m));
        symbolizer_let_go(f->symbolizer);
        assert_true(is_named(f, m));
        /* But not under another path, nor a mapping of another time or another file. */
        other = m;
        other.path = f->paths[1];
        assert_false(is_named(f, other));
        other = m;
        other.time -= 60 * SEC;
        assert_false(is_named(f, other));
        other = m;
        other.inode++;
        assert_false(is_named(f, other));
        /* Nor as what it is not any more. */
        run("touch --reference='%s.moved' '%s/time' && echo >>'%s.moved'", m.path, f->dir, m.path);
        assert_false(is_named(f, m));
        run("truncate --size=-1 '%s.moved' && touch --reference='%s/time' '%s.moved'", m.path, f->dir, m.path);
        assert_true(is_named(f, m));
        symbolizer_let_go(f->symbolizer);
        symbolizer_let_go(f->symbolizer);
        assert_false(is_named(f, m));
}

static void mount_copy(Fixture *f) {
        run("mkdir -p %s/mnt && mount -t tmpfs none %s/mnt && cp %s %s/mnt/file", f->dir, f->dir, f->paths[0], f->dir);
}

/* Two file systems whose files have the same numbers, as every tmpfs begins alike. Returns 0: they are told apart. */
static int tell_of_other_mount(Fixture *f) {
        ToldMapping one, two;
        Resolved resolved;

        (void) snprintf(f->paths[1], sizeof(f->paths[1]), "%s/mnt/file", f->dir);
        mount_copy(f);
        one = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        mount_copy(f);
        two = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        if (one.inode != two.inode || (one.dev_major == two.dev_major && one.dev_minor == two.dev_minor))
                return 2;
        if (address_space_tell(f->space, &one) != TOLD_NEW ||
            address_space_resolve(f->space, BASE + f->at, false, &resolved) != 0 || resolved.name)
                return 3;
        return address_space_tell(f->space, &two) != TOLD_OTHER ||
               address_space_resolve(f->space, BASE + f->at, false, &resolved) != 0 || !resolved.name;
}

_printf_(2, 3) static bool put(const char *path, const char *format, ...) {
        FILE *f = fopen(path, "we");
        va_list ap;

        if (!f)
                return false;
        va_start(ap, format);
        (void) vfprintf(f, format, ap);
        va_end(ap);
        return fclose(f) == 0;
}

static bool become_mounter(void) {
        uid_t uid = geteuid();
        gid_t gid = getegid();

        if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) < 0 ||
            (uid != 0 && (!put("/proc/self/uid_map", "0 %u 1", uid) || !put("/proc/self/setgroups", "deny") ||
                          !put("/proc/self/gid_map", "0 %u 1", gid))))
                return false;
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* In a mount namespace of its own. */
static void test_other_mount(void **state) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(become_mounter() ? tell_of_other_mount(*state) : 77);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                print_message("neither root nor a user namespace: no mounts\n");
                skip();
        }
        assert_int_equal(status, 0);
}

static void test_no_file(void **state) {
        Fixture *f = *state;
        ToldMapping m = mapping(f, 0, now_ns(CLOCK_BOOTTIME));

        m.deleted = true;
        assert_int_equal(address_space_tell(f->space, &m), TOLD_NEW);
        expect(f, BASE, f->paths[0], NULL); /* the name is somebody else's by now */
        m = (ToldMapping){ .time = now_ns(CLOCK_BOOTTIME), .start = BASE, .end = BASE + f->length, .path = "" };
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, "[jit]", NULL);
        assert_int_equal(address_space_tell(f->space, &m), TOLD_KNOWN);
        /* Nothing is opened by a name that has no beginning, nor by what is not a file. */
        m = mapping(f, 1, now_ns(CLOCK_BOOTTIME));
        m.path = "/two";
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, "/two", NULL);
        run("rm '%s' && mkfifo '%s'", f->paths[2], f->paths[2]);
        m = mapping(f, 2, now_ns(CLOCK_BOOTTIME));
        assert_int_equal(address_space_tell(f->space, &m), TOLD_OTHER);
        expect(f, BASE, f->paths[2], NULL);
}

/* However many a process is told to have: memory is bounded. */
static void test_flood(void **state) {
        Fixture *f = *state;

        for (uint64_t i = 0; i < 20000; i++) {
                ToldMapping m = { .time = i, .start = BASE + i * 8192, .end = BASE + i * 8192 + 4096, .path = "" };

                assert_return_code(address_space_tell(f->space, &m), 0);
        }
        assert_in_range(address_space_get_n_mappings(f->space), 1000, 17000);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_gap),        TEST(test_replaced), TEST(test_read_ahead), TEST(test_gone_when_read),
                TEST(test_other_program),
                TEST(test_other_file), TEST(test_no_file),  TEST(test_flood),     TEST(test_others_not_opened),
                TEST(test_other_mount), TEST(test_held),    TEST(test_rewritten), TEST(test_rewritten_by_path),
                TEST(test_rewritten_before), TEST(test_rewritten_since), TEST(test_rewritten_and_read_since),
                TEST(test_rewritten_too_often), TEST(test_looked_at_once),
                TEST(test_looked_at_by_another), TEST(test_set_back), TEST(test_sweep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
