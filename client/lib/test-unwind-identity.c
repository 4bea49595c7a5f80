/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kernel says of files is made up here; files, tables, session and cache are real. */

#include "unwind-identity.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "symbol-file.h"
#include "unwind-images.h"

/* Of the next file that is asked for. */
static struct stat next_stat;
static unsigned long next_flags;
static bool is_unknown; /* nothing is said of it */

static uid_t added; /* to who we are */

uid_t __wrap_geteuid(void);
uid_t __real_geteuid(void);
int __wrap_elf_file_stat(const ElfFile *elf, struct stat *ret);
int __real_elf_file_stat(const ElfFile *elf, struct stat *ret);
int __wrap_elf_file_statvfs(const ElfFile *elf, struct statvfs *ret);

uid_t __wrap_geteuid(void) {
        return __real_geteuid() + added;
}

int __wrap_elf_file_stat(const ElfFile *elf, struct stat *ret) {
        int r = __real_elf_file_stat(elf, ret);

        if (is_unknown)
                return -EIO;
        if (r >= 0)
                *ret = next_stat;
        return r;
}

int __wrap_elf_file_statvfs(_unused_ const ElfFile *elf, struct statvfs *ret) {
        *ret = (struct statvfs){ .f_flag = next_flags };
        return 0;
}

/* One of the system's. */
static void reset(void) {
        next_stat = (struct stat){ .st_dev = 1, .st_ino = 2, .st_size = 3, .st_mode = S_IFREG | 0755, .st_nlink = 1,
                                   .st_mtim = { 4, 5 }, .st_ctim = { 6, 7 } };
        next_flags = 0;
}

/* As anybody can write one. */
static void make_foreign(void) {
        reset();
        next_stat.st_uid = geteuid() + 1;
        next_stat.st_ino = 1000;
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

static const char *identity_of(const char *name) {
        static char identity[UNWIND_IDENTITY_SIZE];
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(name);

        assert_true(unwind_identity_get(elf, identity));
        return identity;
}

#define BUILD_ID "0123456789abcdef0123456789abcdef01234567-"
#define BY_STAT(ino) "1-" ino "-3-6-7-"

static void assert_begins(const char *identity, const char *with) {
        assert_memory_equal(identity, with, strlen(with));
}

static void test_trusted(_unused_ void **state) {
        reset();
        added = 1; /* not root, in any case */
        assert_begins(identity_of("many"), BUILD_ID "3e-410000-");
        next_stat.st_ino = 17;
        assert_begins(identity_of("many"), BUILD_ID);
        next_stat.st_uid = geteuid();
        assert_begins(identity_of("many"), BUILD_ID);
        /* Without one. */
        assert_begins(identity_of("many-without-id"), BY_STAT("11") "3e-410000-");
        added = 0;
}

static void test_not_trusted(_unused_ void **state) {
        make_foreign();
        assert_begins(identity_of("many"), BY_STAT("3e8") "3e-410000-");
        reset();
        next_stat.st_mode |= S_IWGRP;
        assert_begins(identity_of("many"), BY_STAT("2"));
        reset();
        next_stat.st_mode |= S_IWOTH;
        assert_begins(identity_of("many"), BY_STAT("2"));
        reset();
        next_flags = ST_NOSUID;
        assert_begins(identity_of("many"), BY_STAT("2"));
        /* What its owner can set at will. */
        next_stat.st_mtim.tv_sec = 44;
        assert_begins(identity_of("many"), BY_STAT("2"));
}

/* Same build id and owner, other code. */
static void test_other_code(_unused_ void **state) {
        static const char *const names[] = {"many", "x86-64", "aarch64"};
        char seen[ELEMENTSOF(names)][UNWIND_IDENTITY_SIZE];

        reset();
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                strcpy(seen[i], identity_of(names[i]));
                assert_begins(seen[i], BUILD_ID);
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(seen[i], seen[k]);
        }
}

/* The kernel's own, which is in no file. */
static void test_memory(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_free_ uint8_t *data = malloc(1 << 20);
        char path[PATH_MAX], identity[UNWIND_IDENTITY_SIZE];
        static const char *const names[] = {"many", "many-without-id"};

        assert_non_null(data);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_fclose_ FILE *file = NULL;
                size_t size;

                snprintf(path, sizeof(path), "%s/%s", getenv("FIXTURES"), names[i]);
                file = fopen(path, "re");
                assert_non_null(file);
                size = fread(data, 1, 1 << 20, file);
                assert_int_equal(elf_file_new_memory(&elf, data, size), 0);
                assert_int_equal(unwind_identity_get(elf, identity), i == 0);
                elf = elf_file_free(elf);
        }
        assert_begins(identity, BUILD_ID);
}

/* In a session, and from one to the next. */

typedef struct World {
        char path[64];
        uint8_t *bytes;
        UnwindCache *cache;
        UnwindMemory *memory;
        UnwindImages *images;
} World;

static void world_init(World *world) {
        strcpy(world->path, "/tmp/test-unwind-identity-XXXXXX");
        assert_non_null(mkdtemp(world->path));
        world->bytes = calloc(1, RS_TABLE_SIZE_MIN);
        assert_non_null(world->bytes);
        assert_int_equal(unwind_cache_new(&world->cache, world->path, UINT64_C(64) << 20), 0);
        assert_int_equal(unwind_memory_new(&world->memory, world->bytes, RS_TABLE_SIZE_MIN), 0);
        assert_int_equal(unwind_images_new(&world->images, world->memory, world->cache, NULL), 0);
}

static void world_done(World *world) {
        char command[128];

        unwind_images_free(world->images);
        unwind_memory_free(world->memory);
        unwind_cache_free(world->cache);
        free(world->bytes);
        snprintf(command, sizeof(command), "rm -rf %s", world->path);
        assert_int_equal(system(command), 0);
}

/* The image. */
static void *read_many(World *world) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");
        SymbolFile file = {};

        assert_int_equal(unwind_images_read(&file.mapped, elf, world->images), 0);
        assert_non_null(file.mapped.userdata);
        (void) unwind_cache_write(world->cache);
        return file.mapped.userdata;
}

static void assert_used(const World *world, size_t hits, size_t stores) {
        assert_int_equal(unwind_cache_get_n_hits(world->cache), hits);
        assert_int_equal(unwind_cache_get_n_stores(world->cache), stores);
}

/* Whoever comes first. */
static void test_foreign_file(_unused_ void **state) {
        _cleanup_(world_done) World world;
        void *own, *foreign;

        world_init(&world);
        make_foreign();
        foreign = read_many(&world);
        assert_used(&world, 0, 1);
        reset();
        own = read_many(&world);
        assert_ptr_not_equal(own, foreign);
        assert_used(&world, 0, 2);

        next_stat.st_ino++; /* a copy */
        assert_ptr_equal(read_many(&world), own);
        make_foreign();
        assert_ptr_equal(read_many(&world), foreign);
        next_stat.st_ctim.tv_nsec++;
        assert_ptr_not_equal(read_many(&world), foreign);
        assert_used(&world, 0, 3);
}

static void test_foreign_table(_unused_ void **state) {
        _cleanup_(world_done) World world;

        world_init(&world);
        reset();
        (void) read_many(&world);
        world.images = unwind_images_free(world.images);
        assert_int_equal(unwind_images_new(&world.images, world.memory, world.cache, NULL), 0);
        assert_used(&world, 0, 1);
        make_foreign();
        (void) read_many(&world);
        assert_used(&world, 0, 2);
        reset();
        (void) read_many(&world);
        assert_used(&world, 1, 2);
}

/* What was made before a file was written is not the table of what is there afterwards. */
static void test_written_meanwhile(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many");
        _cleanup_(world_done) World world;
        UnwindTable *table;

        world_init(&world);
        make_foreign();
        assert_int_equal(unwind_cache_get(world.cache, elf, &table), 0);
        next_stat.st_ctim.tv_nsec++;
        unwind_cache_take(world.cache, elf, table);
        assert_true(unwind_cache_write(world.cache));
        (void) read_many(&world);
        assert_used(&world, 0, 2);
}

/* Nor is one kept for which there was no name. */
static void test_without_name(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("many-without-id");
        _cleanup_(world_done) World world;
        UnwindTable *table;

        world_init(&world);
        reset();
        is_unknown = true;
        assert_int_equal(unwind_cache_get(world.cache, elf, &table), 0);
        is_unknown = false;
        unwind_cache_take(world.cache, elf, table);
        assert_false(unwind_cache_write(world.cache));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_trusted),
                cmocka_unit_test(test_not_trusted),
                cmocka_unit_test(test_other_code),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_foreign_file),
                cmocka_unit_test(test_foreign_table),
                cmocka_unit_test(test_written_meanwhile),
                cmocka_unit_test(test_without_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
