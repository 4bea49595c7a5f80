/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lines that are kept from one run to the next; who makes them here says of each address what is known of it. Linked with
 * --wrap for the allocator.
 */

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cmocka.h>

#include "lines-cache.h"
#include "test-alloc.h"

#define SIZE_MAX_HERE (UINT64_C(64) << 20)

typedef struct World {
        char path[64];   /* of a directory for all */
        char cache[128]; /* of the cache below */
        char elf[128];   /* of a file with a build id */
} World;

static int world_setup(void **state) {
        World *world = calloc(1, sizeof(*world));
        char command[PATH_MAX + 256];

        assert_non_null(world);
        strcpy(world->path, "/tmp/test-lines-cache-XXXXXX");
        assert_non_null(mkdtemp(world->path));
        (void) snprintf(world->cache, sizeof(world->cache), "%s/cache", world->path);
        (void) snprintf(world->elf, sizeof(world->elf), "%s/elf", world->path);
        (void) snprintf(command, sizeof(command), "cp %s/c-5 %s", getenv("FIXTURES"), world->elf);
        assert_int_equal(system(command), 0);
        *state = world;
        return 0;
}

static int world_teardown(void **state) {
        World *world = *state;
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf %s", world->path);
        assert_int_equal(system(command), 0);
        free(world);
        return 0;
}

/* What is asked, of whom. */
typedef struct Asked {
        size_t n;         /* addresses that were to be made, of the last time */
        unsigned times;
        int result;       /* of making */
        uint64_t unknown; /* of this address nothing is known; 0: there is no such */
        bool lacks_files;
        bool says_more; /* a line that is no address's */
        const char *written_to; /* this file, meanwhile; NULL: none */
} Asked;

/* Each address is at a line of its own number, of a function that is inlined into another. */
static int make(const uint64_t *addresses, DebugLines *lines, void *userdata) {
        Asked *asked = userdata;

        allocations_succeed = true;
        asked->n = lines->n_at;
        asked->times++;
        lines->lacks_files = asked->lacks_files;
        if (asked->written_to)
                assert_return_code(utimensat(AT_FDCWD, asked->written_to, NULL, 0), errno);
        for (size_t i = 0; i < lines->n_at; i++) {
                DebugCode code = { .line = 1 }, inner = { .line = (uint32_t) addresses[i] };

                if (addresses[i] == asked->unknown)
                        continue;
                assert_return_code(debug_lines_add_string(lines, "outer", &code.routine), 0);
                assert_return_code(debug_lines_add_string(lines, "inner", &inner.routine), 0);
                assert_return_code(debug_lines_add_string(lines, "source.c", &inner.source), 0);
                assert_return_code(debug_lines_add_code(lines, &code, &inner.caller), 0);
                assert_return_code(debug_lines_add_code(lines, &inner, &code.caller), 0);
                debug_lines_set(lines, i, code.caller);
        }
        if (asked->says_more) {
                uint32_t code;

                assert_return_code(debug_lines_add_code(lines, &(DebugCode){ .line = 1000 }, &code), 0);
        }
        allocations_succeed = false;
        return asked->result;
}

static ElfFile *open_elf(const World *world) {
        int fd = open(world->elf, O_RDONLY | O_CLOEXEC);
        ElfFile *elf;

        assert_return_code(fd, errno);
        assert_return_code(elf_file_new_take_fd(&elf, fd), 0);
        return elf;
}

static void check_line(const DebugLines *lines, size_t i, uint64_t address) {
        const DebugCode *inner = &lines->codes[lines->at[i]], *outer = &lines->codes[inner->caller];

        assert_int_not_equal(lines->at[i], 0);
        assert_string_equal(lines->strings[inner->routine], "inner");
        assert_string_equal(lines->strings[inner->source], "source.c");
        assert_int_equal(inner->line, address);
        assert_string_equal(lines->strings[outer->routine], "outer");
        assert_int_equal(outer->source, 0);
        assert_int_equal(outer->caller, 0);
}

#define ANY SIZE_MAX

/* By a client of its own. n_made: how many the cache is to have made, or ANY. */
static void get(const World *world, Asked *asked, const uint64_t *addresses, size_t n, size_t n_made) {
        _cleanup_(lines_cache_freep) LinesCache *cache = NULL;
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(world);
        _cleanup_(debug_lines_done) DebugLines lines = {};

        assert_return_code(lines_cache_new(&cache, world->cache, SIZE_MAX_HERE), 0);
        assert_return_code(debug_lines_init(&lines, n), 0);
        asked->n = asked->times = 0;
        assert_int_equal(lines_cache_get(cache, elf, addresses, &lines, make, asked), n_made > 0 ? asked->result : 0);
        if (n_made != ANY) {
                assert_int_equal(asked->n, n_made);
                assert_int_equal(asked->times, n_made > 0);
        }
        for (size_t i = 0; i < n; i++)
                if (addresses[i] == asked->unknown)
                        assert_int_equal(lines.at[i], 0);
                else
                        check_line(&lines, i, addresses[i]);
}

#define ADDRESSES(...) ((const uint64_t[]){ __VA_ARGS__ }), sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)

static void kept_path(const World *world, char path[static PATH_MAX]) {
        DIR *dir = opendir(world->cache);
        struct dirent *entry;
        size_t n = 0;

        assert_non_null(dir);
        while ((entry = readdir(dir)))
                if (entry->d_name[0] != '.') {
                        (void) snprintf(path, PATH_MAX, "%s/%s", world->cache, entry->d_name);
                        n++;
                }
        (void) closedir(dir);
        assert_int_equal(n, 1);
}

static void empty_cache(const World *world) {
        char command[160];

        (void) snprintf(command, sizeof(command), "rm -f %s/*", world->cache);
        assert_int_equal(system(command), 0);
}

static void test_kept(void **state) {
        World *world = *state;
        Asked asked = {};
        char path[PATH_MAX];
        struct stat st;

        get(world, &asked, ADDRESSES(20, 40, 60), 3);
        get(world, &asked, ADDRESSES(20, 40, 60), 0);
        get(world, &asked, ADDRESSES(40), 0);
        /* Before, between and behind those that are known. */
        get(world, &asked, ADDRESSES(10, 20, 30, 60, 70), 3);
        get(world, &asked, ADDRESSES(10, 20, 30, 40, 60, 70), 0);
        kept_path(world, path);
        assert_return_code(stat(path, &st), errno);
        assert_int_equal(st.st_mode & 07777, 0600);
        /* It may be deleted at any time. */
        assert_return_code(unlink(path), errno);
        get(world, &asked, ADDRESSES(10, 20), 2);
}

/* That there is nothing is known as well; but not of one that was given up on. */
static void test_nothing_known(void **state) {
        World *world = *state;
        Asked asked = { .unknown = 20, .result = -ETIMEDOUT };

        get(world, &asked, ADDRESSES(10, 20), 2);
        get(world, &asked, ADDRESSES(10, 20), 1);
        asked.result = 0;
        get(world, &asked, ADDRESSES(10, 20), 1);
        get(world, &asked, ADDRESSES(10, 20), 0);
}

/* A .dwo file may be there next time. */
static void test_lacks_files(void **state) {
        World *world = *state;
        Asked asked = { .lacks_files = true };

        get(world, &asked, ADDRESSES(10), 1);
        get(world, &asked, ADDRESSES(10), 1);
        asked.lacks_files = false;
        get(world, &asked, ADDRESSES(10), 1);
        get(world, &asked, ADDRESSES(10), 0);
}

/* The one with debug information and the one without have one build id. */
static void test_stripped(void **state) {
        World *world = *state;
        Asked asked = {};
        char command[256];

        get(world, &asked, ADDRESSES(10), 1);
        (void) snprintf(command, sizeof(command), "strip %s", world->elf);
        assert_int_equal(system(command), 0);
        get(world, &asked, ADDRESSES(10), 1);
}

/* Build id and size are what whoever makes a file wants them to be. */
static void test_another_file(void **state) {
        World *world = *state;
        struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
        Asked asked = {};
        char command[1024];

        get(world, &asked, ADDRESSES(10), 1);
        get(world, &asked, ADDRESSES(10), 0);
        (void) snprintf(command, sizeof(command), "cp -p %s %s-2 && mv %s-2 %s", world->elf, world->elf, world->elf, world->elf);
        assert_int_equal(system(command), 0);
        get(world, &asked, ADDRESSES(10, 20), 2);
        get(world, &asked, ADDRESSES(10, 20), 0);
        /* Written to. */
        assert_return_code(utimensat(AT_FDCWD, world->elf, times, 0), errno);
        get(world, &asked, ADDRESSES(10, 20), 2);
        get(world, &asked, ADDRESSES(10, 20), 0);
        /* While it is read. */
        asked.written_to = world->elf;
        get(world, &asked, ADDRESSES(10, 30), 1);
        asked.written_to = NULL;
        get(world, &asked, ADDRESSES(10, 30), 2);
        get(world, &asked, ADDRESSES(10, 30), 0);
}

static void test_no_cache(void **state) {
        World *world = *state;
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(world);
        LinesCache *cache;

        for (size_t i = 0; i < 2; i++) {
                _cleanup_(debug_lines_done) DebugLines lines = {};
                Asked asked = { .says_more = true };
                uint64_t address = 10;

                assert_return_code(debug_lines_init(&lines, 1), 0);
                assert_return_code(lines_cache_get(NULL, elf, &address, &lines, make, &asked), 0);
                assert_int_equal(asked.n, 1);
                check_line(&lines, 0, 10);
                assert_int_equal(lines.n_codes, 3);
        }
        assert_return_code(chmod(world->path, 0777), errno);
        assert_return_code(mkdir(world->cache, 0777), errno);
        assert_return_code(chmod(world->cache, 0777), errno);
        assert_int_equal(lines_cache_new(&cache, world->cache, SIZE_MAX_HERE), -EPERM);
}

/* With the n-th allocation failing, for every n: -ENOMEM, or all is right; the first time, with some known, and with all. */
static void test_allocations(void **state) {
        static const uint64_t addresses[] = { 10, 20, 30 };
        World *world = *state;
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(world);
        long n = 0, failed;

        do {
                failed = 0;
                for (size_t n_asked = 1; n_asked <= 3; n_asked++)
                        for (size_t repeated = 0; repeated < 2; repeated++) {
                                _cleanup_(lines_cache_freep) LinesCache *cache = NULL;
                                _cleanup_(debug_lines_done) DebugLines lines = {};
                                Asked asked = {};
                                int r;

                                assert_return_code(debug_lines_init(&lines, n_asked), 0);
                                allocations_left = n;
                                r = lines_cache_new(&cache, world->cache, SIZE_MAX_HERE);
                                if (r >= 0)
                                        r = lines_cache_get(cache, elf, addresses, &lines, make, &asked);
                                failed += allocations_left < 0;
                                allocations_left = -1;
                                assert_true(r == 0 || r == -ENOMEM);
                                for (size_t i = 0; i < n_asked && r >= 0; i++)
                                        check_line(&lines, i, addresses[i]);
                        }
                n++;
                empty_cache(world);
        } while (failed > 0);
        assert_true(n > 20);
}

/* Two at a time, in both orders: what one of them has found is known afterwards, or what both have. */
static void test_two_clients(void **state) {
        World *world = *state;
        Asked asked = {};
        pid_t pid;
        int status;

        pid = fork();
        assert_return_code(pid, errno);
        for (uint64_t i = 1; i <= 50; i++)
                get(world, &asked, ADDRESSES(i, 1000 + (pid == 0 ? 1 : 2) * i), ANY);
        if (pid == 0)
                _exit(0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        /* Whoever wrote last has kept what it asked for last, on top of one whole file or another. */
        get(world, &asked, ADDRESSES(50), 0);
}

/* Half-way through a file; the next one removes it, and nobody waits. */
static void test_killed(void **state) {
        World *world = *state;
        const struct rlimit no_core = {}, size = { .rlim_cur = 100, .rlim_max = 100 };
        char path[PATH_MAX];
        Asked asked = {};
        pid_t pid;
        int status;

        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                if (signal(SIGXFSZ, SIG_DFL) == SIG_ERR || setrlimit(RLIMIT_CORE, &no_core) < 0 ||
                    setrlimit(RLIMIT_FSIZE, &size) < 0)
                        _exit(1);
                get(world, &asked, ADDRESSES(1, 2, 3), 3);
                _exit(2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
        kept_path(world, path);
        assert_non_null(strstr(path, ".new"));
        get(world, &asked, ADDRESSES(1, 2, 3), 3);
        kept_path(world, path); /* the only one there */
        assert_null(strstr(path, ".new"));
        get(world, &asked, ADDRESSES(1, 2, 3), 0);
}

static uint8_t *read_kept(const World *world, size_t *ret_n) {
        char path[PATH_MAX];
        uint8_t *bytes = malloc(65536);
        ssize_t n;
        int fd;

        kept_path(world, path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_return_code(fd, errno);
        assert_non_null(bytes);
        n = read(fd, bytes, 65536);
        assert_true(n > 0 && n < 65536);
        (void) close(fd);
        *ret_n = (size_t) n;
        return bytes;
}

static void write_kept(const World *world, const uint8_t *bytes, size_t n) {
        char path[PATH_MAX];
        int fd;

        kept_path(world, path);
        fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        assert_return_code(fd, errno);
        assert_int_equal(write(fd, bytes, n), n);
        (void) close(fd);
}

/* Cut everywhere, and each byte changed: then it is as if there were no file, and a sound one takes its place. */
static void test_damaged(void **state) {
        World *world = *state;
        _cleanup_free_ uint8_t *bytes = NULL;
        Asked asked = {};
        KnownLines known;
        size_t n;

        get(world, &asked, ADDRESSES(20, 40), 2);
        bytes = read_kept(world, &n);
        assert_int_equal(lines_cache_parse(bytes, n, NULL, &known), 0);
        known_lines_done(&known);
        for (size_t i = 0; i < n; i++) {
                assert_true(lines_cache_parse(bytes, i, NULL, &known) < 0);
                bytes[i] ^= 1;
                assert_true(lines_cache_parse(bytes, n, NULL, &known) < 0);
                bytes[i] ^= 1;
        }
        bytes[n - 1] ^= 1;
        write_kept(world, bytes, n);
        get(world, &asked, ADDRESSES(20, 40), 2);
        get(world, &asked, ADDRESSES(20, 40), 0);
        write_kept(world, bytes, 0);
        get(world, &asked, ADDRESSES(20, 40), 2);
}

/* With a checksum that is right. In the header: magic, version, and the checksum of all behind it. */
static void test_hostile(void **state) {
        static const uint8_t values[] = { 0, 1, 2, 3, 5, 0x7f, 0x80, 0xff };
        World *world = *state;
        _cleanup_free_ uint8_t *bytes = NULL;
        Asked asked = {};
        KnownLines known;
        size_t n, refused = 0;

        get(world, &asked, ADDRESSES(20, 40), 2);
        bytes = read_kept(world, &n);
        for (size_t i = 16; i < n; i++)
                for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                        uint8_t before = bytes[i];
                        uint32_t crc;
                        int r;

                        bytes[i] = values[k];
                        crc = (uint32_t) crc32_z(0, bytes + 16, n - 16);
                        memcpy(bytes + 12, &crc, sizeof(crc));
                        r = lines_cache_parse(bytes, n, NULL, &known);
                        bytes[i] = before;
                        refused += r < 0;
                        if (r < 0)
                                continue;
                        assert_true(known.lines.n_at <= 2);
                        for (size_t j = 0; j < known.lines.n_at; j++) {
                                assert_true(known.lines.at[j] < known.lines.n_codes);
                                assert_true(j == 0 || known.addresses[j] > known.addresses[j - 1]);
                        }
                        known_lines_done(&known);
                }
        assert_true(refused > n);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_kept, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_nothing_known, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_lacks_files, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_stripped, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_another_file, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_no_cache, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_allocations, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_two_clients, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_killed, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_damaged, world_setup, world_teardown),
                cmocka_unit_test_setup_teardown(test_hostile, world_setup, world_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
