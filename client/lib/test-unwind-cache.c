/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <zlib.h>

#include <cmocka.h>

#include "unwind-cache.h"
#include "unwind-identity.h"

#define SIZE_MAX_HERE (UINT64_C(64) << 20)

static uid_t not_me; /* is added to who we are */

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void) {
        return __real_geteuid() + not_me;
}

typedef struct World {
        char path[64];  /* of a directory for all */
        char cache[128]; /* of the cache below */
} World;

static void world_init(World *world) {
        strcpy(world->path, "/tmp/test-unwind-cache-XXXXXX");
        assert_non_null(mkdtemp(world->path));
        snprintf(world->cache, sizeof(world->cache), "%s/cache", world->path);
}

static void world_done(World *world) {
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", world->path);
        assert_int_equal(system(command), 0);
}

static ElfFile *open_elf(const char *name) {
        char path[PATH_MAX];
        ElfFile *elf;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(elf_file_new_take_fd(&elf, fd), 0);
        return elf;
}

/* Of the table of "many". */
static const char *kept_name(char name[static PATH_MAX]) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");

        assert_true(unwind_identity_get(elf, name));
        return strcat(name, ".table");
}

static UnwindCache *open_cache(const World *world) {
        UnwindCache *cache;

        assert_int_equal(unwind_cache_new(&cache, world->cache, SIZE_MAX_HERE), 0);
        return cache;
}

/* Without any cache. */
static UnwindTable *make_table(const char *name) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(name);
        UnwindTable *table;

        assert_int_equal(unwind_cache_get(NULL, elf, &table), 0);
        return table;
}

static void assert_tables_equal(const UnwindTable *a, const UnwindTable *b) {
        assert_int_equal(a->base, b->base);
        assert_int_equal(a->n_pages, b->n_pages);
        assert_int_equal(a->n_rows, b->n_rows);
        assert_int_equal(a->n_rules, b->n_rules);
        assert_memory_equal(a->pages, b->pages, a->n_pages * sizeof(*a->pages));
        assert_memory_equal(a->rows, b->rows, a->n_rows * sizeof(*a->rows));
        assert_memory_equal(a->rules, b->rules, a->n_rules * sizeof(*a->rules));
}

/* What a client gets, which is the right table in any case: hits and stores so far. */
static void get(UnwindCache *cache, const char *name, size_t hits, size_t stores) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL, *expected = make_table(name);
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(name);

        assert_int_equal(unwind_cache_get(cache, elf, &table), 0);
        assert_tables_equal(table, expected);
        unwind_cache_take(cache, elf, TAKE_PTR(table));
        (void) unwind_cache_write(cache);
        assert_false(unwind_cache_write(cache));
        assert_int_equal(unwind_cache_get_n_hits(cache), hits);
        assert_int_equal(unwind_cache_get_n_stores(cache), stores);
}

static void get_once(const World *world, const char *name, size_t hits, size_t stores) {
        _cleanup_(unwind_cache_freep) UnwindCache *cache = open_cache(world);

        get(cache, name, hits, stores);
}

static size_t count_files(const World *world) {
        DIR *dir = opendir(world->cache);
        struct dirent *entry;
        size_t n = 0;

        assert_non_null(dir);
        while ((entry = readdir(dir)))
                n += entry->d_name[0] != '.';
        closedir(dir);
        return n;
}

static void file_path(const World *world, const char *name, char path[static PATH_MAX]) {
        snprintf(path, PATH_MAX, "%s/%s", world->cache, name);
}

static void kept_path(const World *world, char path[static PATH_MAX]) {
        char name[PATH_MAX];

        file_path(world, kept_name(name), path);
}

static void test_kept(_unused_ void **state) {
        _cleanup_(world_done) World world;
        char path[PATH_MAX];
        struct stat st;

        world_init(&world);
        get_once(&world, "many", 0, 1);
        get_once(&world, "many", 1, 0);
        kept_path(&world, path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(stat(world.cache, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        /* By what stat() says. */
        get_once(&world, "many-without-id", 0, 1);
        get_once(&world, "many-without-id", 1, 0);
        /* Not worth it; and it was deleted. */
        assert_int_equal(unlink(path), 0);
        get_once(&world, "x86-64-debug", 0, 0);
        get_once(&world, "many", 0, 1);
        assert_int_equal(count_files(&world), 2);
}

/* Not before there is time for it, but not later than at the end; and some that are used further. */
static void test_later(_unused_ void **state) {
        static const char *const names[] = {"many", "many-without-id"};
        _cleanup_(unwind_table_freep) UnwindTable *used = NULL, *without = make_table("many");
        _cleanup_(elf_file_freep) ElfFile *many = open_elf("many");
        _cleanup_(world_done) World world;
        UnwindCache *cache;

        world_init(&world);
        cache = open_cache(&world);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = open_elf(names[i]);
                UnwindTable *table;

                assert_int_equal(unwind_cache_get(cache, elf, &table), 0);
                unwind_cache_take(cache, elf, table);
        }
        assert_int_equal(count_files(&world), 0);
        assert_true(unwind_cache_write(cache));
        assert_int_equal(count_files(&world), 1);
        unwind_cache_free(cache);
        assert_int_equal(count_files(&world), 2);
        get_once(&world, names[0], 1, 0);
        get_once(&world, names[1], 1, 0);
        /* At once, and without any cache. */
        world_done(&world);
        world_init(&world);
        cache = open_cache(&world);
        unwind_cache_put(cache, many, without);
        assert_int_equal(count_files(&world), 0);
        assert_int_equal(unwind_cache_get(cache, many, &used), 0);
        unwind_cache_put(cache, many, used);
        assert_int_equal(count_files(&world), 1);
        assert_false(unwind_cache_write(cache));
        unwind_cache_free(cache);
        unwind_cache_put(NULL, many, used);
        unwind_cache_take(NULL, many, TAKE_PTR(used));
        assert_false(unwind_cache_write(NULL));
        get_once(&world, names[0], 1, 0);
}

/* Another file of the same build id, as none should be. */
static void test_other_file(_unused_ void **state) {
        _cleanup_(world_done) World world;

        world_init(&world);
        get_once(&world, "many", 0, 1);
        get_once(&world, "aarch64", 0, 0);
        get_once(&world, "x86-64-index", 0, 0);
}

static void test_home(_unused_ void **state) {
        _cleanup_(world_done) World world;
        UnwindCache *cache;

        world_init(&world);
        assert_int_equal(setenv("XDG_CACHE_HOME", world.cache, 1), 0);
        assert_int_equal(unwind_cache_new(&cache, NULL, SIZE_MAX_HERE), 0);
        get(cache, "many", 0, 1);
        unwind_cache_free(cache);
        strcat(world.cache, "/ringside/unwind");
        get_once(&world, "many", 1, 0);
        /* What is relative counts as nothing. */
        assert_int_equal(setenv("XDG_CACHE_HOME", "somewhere", 1), 0);
        assert_int_equal(setenv("HOME", world.path, 1), 0);
        assert_int_equal(unwind_cache_new(&cache, NULL, SIZE_MAX_HERE), 0);
        get(cache, "many", 0, 1);
        unwind_cache_free(cache);
        snprintf(world.cache, sizeof(world.cache), "%s/.cache/ringside/unwind", world.path);
        get_once(&world, "many", 1, 0);
        assert_int_equal(unsetenv("HOME"), 0);
        assert_int_equal(unwind_cache_new(&cache, NULL, SIZE_MAX_HERE), -ENOENT);
}

static int try_home(const char *cache, const char *home) {
        UnwindCache *cache_there = NULL;
        int r;

        assert_int_equal(cache ? setenv("XDG_CACHE_HOME", cache, 1) : unsetenv("XDG_CACHE_HOME"), 0);
        assert_int_equal(setenv("HOME", home, 1), 0);
        r = unwind_cache_new(&cache_there, NULL, SIZE_MAX_HERE);
        unwind_cache_free(cache_there);
        return r;
}

/* As for root in the environment of a user: nothing is used there, nor made. */
static void test_foreign_home(_unused_ void **state) {
        _cleanup_(world_done) World world;
        char below[PATH_MAX], own[PATH_MAX];
        struct stat st;

        world_init(&world);
        snprintf(below, sizeof(below), "%s/below/", world.path);
        snprintf(own, sizeof(own), "%s/.cache", world.path);
        not_me = 1;
        assert_int_equal(try_home(NULL, world.path), -EPERM);
        assert_int_equal(try_home(world.path, "/nowhere"), -EPERM);
        assert_int_equal(try_home(below, "/nowhere"), -EPERM);
        not_me = 0;
        assert_int_equal(rmdir(world.path), 0); /* is empty */
        assert_int_equal(mkdir(world.path, 0700), 0);

        assert_int_equal(try_home(below, "/nowhere"), 0);
        assert_int_equal(stat(below, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        assert_int_equal(try_home(NULL, world.path), 0);
        assert_int_equal(stat(own, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        if (geteuid() == 0) {
                assert_int_equal(chown(own, 1, 1), 0);
                assert_int_equal(try_home(NULL, world.path), -EPERM);
        }
}

/* Others do not see what was profiled. */
static void test_mode(_unused_ void **state) {
        _cleanup_(world_done) World world;
        struct stat st;

        world_init(&world);
        assert_int_equal(mkdir(world.cache, 0700), 0);
        assert_int_equal(chmod(world.cache, 0755), 0);
        unwind_cache_free(open_cache(&world));
        assert_int_equal(stat(world.cache, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
}

/* Links, and what others may have written, are not used; a file is replaced. */
static void test_foreign(_unused_ void **state) {
        _cleanup_(world_done) World world;
        char path[PATH_MAX], other[PATH_MAX];
        UnwindCache *cache;

        world_init(&world);
        get_once(&world, "many", 0, 1);
        kept_path(&world, path);
        snprintf(other, sizeof(other), "%s/other", world.path);

        assert_int_equal(rename(path, other), 0);
        assert_int_equal(symlink(other, path), 0);
        get_once(&world, "many", 0, 1);
        get_once(&world, "many", 1, 0);
        assert_int_equal(chmod(path, 0620), 0);
        get_once(&world, "many", 0, 1);
        assert_int_equal(chmod(path, 0602), 0);
        get_once(&world, "many", 0, 1);
        if (geteuid() == 0) {
                assert_int_equal(chown(path, 1, 1), 0);
                get_once(&world, "many", 0, 1);
        }
        /* What cannot be replaced stays, and nothing is left beside it. */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        get_once(&world, "many", 0, 0);
        assert_int_equal(count_files(&world), 1);
        assert_int_equal(rmdir(path), 0);
        get_once(&world, "many", 0, 1);
        /* Nothing waits at a pipe. */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        get_once(&world, "many", 0, 1);
        get_once(&world, "many", 1, 0);

        assert_int_equal(chmod(world.cache, 0770), 0);
        assert_int_equal(unwind_cache_new(&cache, world.cache, SIZE_MAX_HERE), -EPERM);
        assert_int_equal(chmod(world.cache, 0700), 0);
        assert_int_equal(unlink(other), 0);
        assert_int_equal(rename(world.cache, other), 0);
        assert_int_equal(symlink(other, world.cache), 0);
        assert_int_equal(unwind_cache_new(&cache, world.cache, SIZE_MAX_HERE), -EPERM);
        assert_int_equal(unlink(world.cache), 0);
        assert_int_equal(mkfifo(world.cache, 0700), 0);
        assert_int_equal(unwind_cache_new(&cache, world.cache, SIZE_MAX_HERE), -EPERM);
}

/* The cache is deleted as a whole while it is open, or is full. */
static void test_gone(_unused_ void **state) {
        _cleanup_(world_done) World world;
        _cleanup_(unwind_cache_freep) UnwindCache *cache = NULL;

        world_init(&world);
        cache = open_cache(&world);
        get(cache, "many", 0, 1);
        assert_int_equal(unlinkat(AT_FDCWD, world.cache, AT_REMOVEDIR), -1);
        {
                char path[PATH_MAX];

                kept_path(&world, path);
                assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(rmdir(world.cache), 0);
        get(cache, "many", 0, 1);
}

static void put_file(const World *world, const char *name, off_t size, time_t used) {
        const struct timespec times[2] = {{ .tv_sec = used }, { .tv_sec = used }};
        char path[PATH_MAX];
        int fd;

        file_path(world, name, path);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, size), 0);
        assert_int_equal(futimens(fd, times), 0);
        close(fd);
}

static bool has_file(const World *world, const char *name) {
        char path[PATH_MAX];

        file_path(world, name, path);
        return access(path, F_OK) == 0;
}

static void test_bounded(_unused_ void **state) {
        _cleanup_(world_done) World world;
        const time_t now = time(NULL);
        char name[PATH_MAX];
        int locked;

        world_init(&world);
        unwind_cache_free(open_cache(&world));
        put_file(&world, "aa.table", 30 << 20, now - 4000);
        put_file(&world, "bb.table", 20 << 20, now - 200000);
        put_file(&world, "cc.table", 10 << 20, now - 3000);
        put_file(&world, "foreign", 100 << 20, now - 900000);
        /* Who wrote the one is gone; the other is being written, however long that takes. */
        put_file(&world, "0011223344556677.new", 100, now);
        put_file(&world, "8811223344556677.new", 100, now - 5000);
        file_path(&world, "8811223344556677.new", name);
        locked = open(name, O_WRONLY | O_CLOEXEC);
        assert_return_code(locked, errno);
        assert_return_code(flock(locked, LOCK_EX | LOCK_NB), errno);
        get_once(&world, "many", 0, 1); /* 60 MiB and a bit: still fits */
        assert_true(has_file(&world, "aa.table") && has_file(&world, "bb.table") && has_file(&world, "cc.table"));
        assert_false(has_file(&world, "0011223344556677.new"));
        assert_true(has_file(&world, "8811223344556677.new"));
        (void) close(locked);
        put_file(&world, "dd.table", 10 << 20, now - 6000);
        get_once(&world, "many-without-id", 0, 1);
        /* To 48 MiB. */
        assert_false(has_file(&world, "bb.table"));
        assert_false(has_file(&world, "dd.table"));
        assert_true(has_file(&world, "aa.table") && has_file(&world, "cc.table") && has_file(&world, kept_name(name)));
        assert_true(has_file(&world, "foreign"));
        /* What is used is young again. */
        put_file(&world, kept_name(name), 0, now - 300000);
        get_once(&world, "many", 0, 1);
        {
                const struct timespec times[2] = {{ .tv_sec = now - 300000 }, { .tv_sec = now - 300000 }};
                char path[PATH_MAX];
                struct stat st;

                kept_path(&world, path);
                assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
                get_once(&world, "many", 1, 0);
                assert_int_equal(stat(path, &st), 0);
                assert_true(st.st_mtim.tv_sec >= now);
        }
}

static void test_two_clients(_unused_ void **state) {
        _cleanup_(world_done) World world;
        int status;

        world_init(&world);
        for (int i = 0; i < 4; i++) {
                pid_t pid = fork();

                assert_true(pid >= 0);
                if (pid > 0)
                        continue;
                for (int k = 0; k < 50; k++) {
                        _cleanup_(unwind_cache_freep) UnwindCache *cache = open_cache(&world);
                        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;
                        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");
                        char path[PATH_MAX];

                        if (unwind_cache_get(cache, elf, &table) < 0 || table->n_rows < 20000)
                                _exit(1);
                        unwind_cache_take(cache, elf, TAKE_PTR(table));
                        while (unwind_cache_write(cache))
                                continue;
                        kept_path(&world, path);
                        if (k % 3 == i % 3)
                                (void) unlink(path);
                }
                _exit(0);
        }
        for (int i = 0; i < 4; i++) {
                assert_true(wait(&status) > 0);
                assert_int_equal(status, 0);
        }
        assert_true(count_files(&world) <= 1);
}

/* Damage. */

static uint8_t *read_kept(const World *world, size_t *ret_size) {
        char path[PATH_MAX];
        struct stat st;
        uint8_t *data;
        int fd;

        get_once(world, "many", 0, 1);
        kept_path(world, path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        data = malloc((size_t) st.st_size);
        assert_non_null(data);
        assert_int_equal(read(fd, data, (size_t) st.st_size), st.st_size);
        close(fd);
        *ret_size = (size_t) st.st_size;
        return data;
}

static int parse(const ElfFile *elf, const uint8_t *data, size_t size) {
        _cleanup_(unwind_table_freep) UnwindTable *table = NULL;

        return unwind_cache_parse(elf, data, size, &table);
}

static void test_damaged(_unused_ void **state) {
        _cleanup_(world_done) World world;
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");
        _cleanup_free_ uint8_t *data = NULL;
        size_t size;

        world_init(&world);
        data = read_kept(&world, &size);
        assert_int_equal(parse(elf, data, size), 0);
        for (size_t n = 0; n < size; n += n < 4096 ? 1 : 97)
                assert_int_equal(parse(elf, data, n), -EBADMSG);
        for (size_t at = 0; at < size; at += at < 4096 ? 1 : 97) {
                uint8_t saved = data[at];

                data[at] ^= 0x10;
                assert_int_equal(parse(elf, data, size), at >= 8 && at < 12 ? -ESTALE : -EBADMSG);
                data[at] = saved;
        }
        assert_int_equal(parse(elf, data, size), 0);
}

#define HEADER_SIZE 48

static uint32_t add_to_checksum(uint32_t crc, const void *data, size_t size) {
        return (uint32_t) crc32_z(crc, data, size);
}

static uint32_t add_table_to_checksum(uint32_t crc, const UnwindTable *table) {
        crc = add_to_checksum(crc, &table->base, sizeof(table->base));
        crc = add_to_checksum(crc, table->pages, table->n_pages * sizeof(*table->pages));
        crc = add_to_checksum(crc, table->rows, table->n_rows * sizeof(*table->rows));
        return add_to_checksum(crc, table->rules, table->n_rules * sizeof(*table->rules));
}

/* Tables that are made otherwise than those that somebody may have kept are of another version. */
static void test_version(_unused_ void **state) {
        static const char *const names[] = {"x86-64", "x86-64-debug", "x86-64-both", "aarch64", "aarch64-debug", "many"};
        _cleanup_(world_done) World world;
        _cleanup_free_ uint8_t *data = NULL;
        uint32_t crc = 0;
        size_t size;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(unwind_table_freep) UnwindTable *table = make_table(names[i]);

                crc = add_table_to_checksum(crc, table);
        }
        /* And how one is written, but for magic, version and checksum. */
        world_init(&world);
        data = read_kept(&world, &size);
        crc = add_to_checksum(crc, data + 16, size - 16);
        if (crc != UNWIND_CACHE_TABLES)
                fail_msg("tables have changed: UNWIND_CACHE_TABLES is 0x%08xU now", crc);
}

static void seal(uint8_t *data, size_t size) {
        uint32_t crc = (uint32_t) crc32(0, data + 16, (unsigned) (size - 16));

        memcpy(data + 12, &crc, sizeof(crc));
}

/* Whoever writes it also writes a checksum. */
static void try_word(const ElfFile *elf, uint8_t *data, size_t size, size_t at, uint32_t value) {
        uint32_t saved;

        memcpy(&saved, data + at, sizeof(saved));
        assert_int_not_equal(saved, value);
        memcpy(data + at, &value, sizeof(value));
        seal(data, size);
        assert_int_equal(parse(elf, data, size), -EBADMSG);
        memcpy(data + at, &saved, sizeof(saved));
        seal(data, size);
        assert_int_equal(parse(elf, data, size), 0);
}

static void test_sealed_damage(_unused_ void **state) {
        _cleanup_(world_done) World world;
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");
        _cleanup_free_ uint8_t *data = NULL;
        uint32_t n_pages, n_rows;
        size_t size, rows;

        world_init(&world);
        data = read_kept(&world, &size);
        memcpy(&n_pages, data + 20, 4);
        memcpy(&n_rows, data + 24, 4);
        rows = HEADER_SIZE + 8 * (size_t) n_pages;
        /* Machine, numbers of each, base, end. */
        for (size_t at = 16; at < HEADER_SIZE; at += 4) {
                try_word(elf, data, size, at, 0x01000000);
                try_word(elf, data, size, at, UINT32_MAX);
        }
        try_word(elf, data, size, 20, 0);
        try_word(elf, data, size, 24, 0);
        try_word(elf, data, size, 28, 0);
        /* A page: more rows than there may be, or than there are; before the last one's; across chunks. */
        try_word(elf, data, size, HEADER_SIZE, RS_TABLE_PAGE + 1);
        try_word(elf, data, size, HEADER_SIZE, UINT32_MAX);
        try_word(elf, data, size, HEADER_SIZE + 4, 0);
        try_word(elf, data, size, HEADER_SIZE + 4, n_rows);
        try_word(elf, data, size, HEADER_SIZE + 4, UINT32_MAX);
        try_word(elf, data, size, HEADER_SIZE + 8 * 3 + 4, 1000);
        try_word(elf, data, size, HEADER_SIZE + 8 * (size_t) (n_pages - 1) + 4, n_rows - 1);
        /* Rows: the first has no rule, and no rule is that high; nor has the first rule any. */
        try_word(elf, data, size, rows, 1);
        try_word(elf, data, size, rows + 4 * 500, RS_TABLE_ROW_RULE);
        try_word(elf, data, size, rows + 4 * (size_t) n_rows, 1);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kept),
                cmocka_unit_test(test_later),
                cmocka_unit_test(test_other_file),
                cmocka_unit_test(test_home),
                cmocka_unit_test(test_foreign),
                cmocka_unit_test(test_foreign_home),
                cmocka_unit_test(test_mode),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_bounded),
                cmocka_unit_test(test_two_clients),
                cmocka_unit_test(test_version),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_sealed_damage),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
