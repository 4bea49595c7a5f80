/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which kernel and modules frames are of, by what /sys says of them; here by another one. Frames are in test-writer.c. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "kernel-frames.h"
#include "test-kernel-symbols.h"
#include "test-recording-util.h"

#define KERNEL(module, offset) (UINT64_C(1) << 63 | (uint64_t) (module) << 48 | (offset))

static const char kernel_notes[] =
        "\x06\0\0\0\x04\0\0\0\x01\x01\0\0Linux\0\0\0\0\0\0\0"
        "\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" "abcdefghijklmnopqrst";
static const char module_note[] = "\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0" "ABCDEFGH";

static void write_notes(const Place *place, const char *directory, const char *name, const void *bytes, size_t n) {
        char path[PLACE_PATH_MAX + 64];

        for (const char *p = directory; p; p = strchr(p + 1, '/')) {
                const char *end = strchr(p + 1, '/');

                (void) snprintf(path, sizeof(path), "%s/%.*s", place->dir, (int) (end ? end - directory : (long) strlen(directory)),
                                directory);
                assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        }
        (void) snprintf(path, sizeof(path), "%s/%s/%s", place->dir, directory, name);
        write_bytes(path, bytes, n);
}

/* A recording of one frame in the kernel, one in each module, and one that is a marker. */
static void record(const Place *place) {
        static const char *const modules[] = { "ext4", "..", "a/b", "xfs" };
        _cleanup_(store_freep) Store *store = NULL;
        KernelFrames frames;
        NamesFile file;
        RingsideRecord names = { .type = RINGSIDE_KERNEL_NAMES };
        size_t size;
        int64_t id;

        assert_return_code(store_new(&store, place->file, NULL), 0);
        kernel_frames_init(&frames, store);
        frames.sysfs = place->dir;
        names_init(&file, 1);
        names_module(&file, 0, "kernel");
        names_symbol(&file, 0, "_stext");
        for (unsigned i = 0; i < ELEMENTSOF(modules); i++) {
                names_module(&file, i + 1, modules[i]);
                names_symbol(&file, 0, "f");
        }
        names.kernel_names.fd = names_memfd(&file, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, &size);
        names.kernel_names.size = size;
        assert_return_code(kernel_frames_take_names(&frames, &names), 0);
        (void) close(names.kernel_names.fd);
        assert_return_code(kernel_frames_store(&frames, RINGSIDE_FRAME_KERNEL, true, &id), 0);
        for (unsigned i = 0; i <= ELEMENTSOF(modules); i++)
                assert_return_code(kernel_frames_store(&frames, KERNEL(i, 0x10), true, &id), 0);
        kernel_frames_done(&frames);
}

static void test_build_ids(void **state) {
        Place *place = *state;

        write_notes(place, "kernel", "notes", kernel_notes, sizeof(kernel_notes) - 1);
        write_notes(place, "module/ext4/notes", ".note.gnu.build-id", module_note, sizeof(module_note) - 1);
        write_notes(place, "module/a/b/notes", ".note.gnu.build-id", module_note, sizeof(module_note) - 1);
        write_notes(place, "notes", ".note.gnu.build-id", module_note, sizeof(module_note) - 1);
        record(place);
        assert_int_equal(count_rows(place->file, "file"), 5);
        assert_int_equal(count_rows(place->file, "file WHERE CAST(path AS TEXT)='[kernel]' AND build_id=x'6162636465666768696a6b6c6d6e6f7071727374'"), 1);
        assert_int_equal(count_rows(place->file, "file WHERE CAST(path AS TEXT)='[ext4]' AND build_id=x'4142434445464748'"), 1);
        assert_int_equal(count_rows(place->file, "file WHERE build_id IS NULL"), 3);
}

/* Nothing is there, or no notes. */
static void test_no_build_ids(void **state) {
        Place *place = *state;

        write_notes(place, "module/ext4/notes", ".note.gnu.build-id", module_note, sizeof(module_note) - 2);
        record(place);
        assert_int_equal(count_rows(place->file, "file WHERE build_id IS NULL"), 5);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_build_ids, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_no_build_ids, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
