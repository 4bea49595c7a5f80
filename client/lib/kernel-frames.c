/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel is a file "[kernel]", and each module one of its own, as in other tools; addresses in them
 * are offsets into the module's text, since where it is loaded nobody is told. A module whose name
 * is not known (its table is still to come) is "[module]".
 */

#include "kernel-frames.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "elf-file.h"

#define NOTES_SIZE_MAX 4096U
#define FRAMES_KNOWN_MAX (1U << 18)
#define MODULE_CORE 0
/* Not a number that a module has: files of this one are of modules without a name. */
#define MODULE_UNNAMED 0x8000

static const struct {
        uint64_t frame;
        const char *name;
} markers[] = {
        { RINGSIDE_FRAME_KERNEL, "[kernel]" },
        { RINGSIDE_FRAME_KERNEL_JIT, "[bpf or trampoline]" },
        { RINGSIDE_FRAME_KERNEL_UNKNOWN, "[unknown kernel code]" },
};

void kernel_frames_init(KernelFrames *frames, Store *store) {
        *frames = (KernelFrames){ .store = store, .sysfs = "/sys" };
}

void kernel_frames_done(KernelFrames *frames) {
        TableEntry entry;

        (void) kernel_symbols_free(frames->symbols);
        for (size_t pos = 0; table_next(&frames->paths, &pos, &entry);)
                free((char *) (uintptr_t) entry.value);
        table_done(&frames->paths);
        table_done(&frames->files);
        table_done(&frames->frames);
        *frames = (KernelFrames){};
}

int kernel_frames_take_names(KernelFrames *frames, const RingsideRecord *record) {
        int r;

        if (!frames->symbols) {
                r = kernel_symbols_new(&frames->symbols);
                if (r < 0)
                        return r;
        }
        r = record->kernel_names.fd < 0 ? -ENODATA
                                        : kernel_symbols_add(frames->symbols, record->kernel_names.fd,
                                                             record->kernel_names.size);
        if (r == -ENOMEM)
                return r;
        /* A table that is no good is none: the recording goes on, and says so. */
        if ((r < 0) != frames->said_no_names) {
                int e = store_put_meta(frames->store, "kernel_frames", r < 0 ? "no names" : "yes");

                if (e < 0)
                        return e;
                frames->said_no_names = r < 0;
        }
        if (r <= 0 || !frames->unnamed)
                return 0;
        frames->unnamed = false;
        return 1;
}

static int get_path(KernelFrames *frames, unsigned module, const char *name, const char **ret) {
        TableKey key = { .a = module + 1 };
        char *path = (char *) (uintptr_t) table_get(&frames->paths, key);
        int r;

        if (!path) {
                if (asprintf(&path, "[%.*s]", STORE_PATH_MAX - 3, name) < 0)
                        return -ENOMEM;
                r = table_put(&frames->paths, key, (uintptr_t) path);
                if (r < 0) {
                        free(path);
                        return r;
                }
        }
        *ret = path;
        return 0;
}

int kernel_frames_find(KernelFrames *frames, uint64_t frame, bool interrupted, KernelPlace *ret) {
        KernelPlace place = { .module = MODULE_CORE };
        KernelSymbol symbol = {};
        int r;

        for (size_t i = 0; i < ELEMENTSOF(markers); i++)
                if (markers[i].frame == frame)
                        place.name = markers[i].name;
        if (!place.name) {
                place.module = RINGSIDE_FRAME_MODULE(frame);
                place.address = RINGSIDE_FRAME_OFFSET(frame);
                /* A call may be the last instruction of its function. */
                if (!interrupted && place.address > 0)
                        place.address--;
                if (frames->symbols)
                        (void) kernel_symbols_find(frames->symbols, place.module, place.address, &symbol);
                place.name = symbol.name;
                place.name_offset = symbol.offset;
        }
        if (place.module != MODULE_CORE && !symbol.module)
                place.module = MODULE_UNNAMED;
        r = get_path(frames, place.module,
                     place.module == MODULE_CORE ? "kernel" : symbol.module ?: "module", &place.path);
        if (r >= 0)
                *ret = place;
        return r;
}

/* Anybody may read what was linked; it does not say where that is. 0: it is not known. */
static size_t read_build_id(const KernelFrames *frames, const KernelPlace *place, uint8_t id[static ELF_BUILD_ID_MAX]) {
        _cleanup_close_ int fd = -1;
        uint8_t notes[NOTES_SIZE_MAX];
        char path[PATH_MAX];
        ssize_t n;
        int len;

        if (place->module == MODULE_CORE)
                len = snprintf(path, sizeof(path), "%s/kernel/notes", frames->sysfs);
        else if (place->module != MODULE_UNNAMED && !strchr(place->path, '/') && place->path[1] != '.')
                len = snprintf(path, sizeof(path), "%s/module/%.*s/notes/.note.gnu.build-id", frames->sysfs,
                               (int) strlen(place->path) - 2, place->path + 1);
        else
                return 0;
        if (len < 0 || (size_t) len >= sizeof(path))
                return 0;
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        n = fd < 0 ? -1 : RETRY_ON_EINTR(read(fd, notes, sizeof(notes)));
        return n < 0 ? 0 : elf_notes_get_build_id(notes, (size_t) n, id);
}

static int get_file(KernelFrames *frames, const KernelPlace *place, int64_t *ret) {
        TableKey key = { .a = place->module + 1 };
        uint8_t id[ELF_BUILD_ID_MAX];
        int r;

        *ret = (int64_t) table_get(&frames->files, key);
        if (*ret > 0)
                return 0;
        r = store_add_file(frames->store, place->path, 0, 0, 0, id, read_build_id(frames, place, id), ret);
        return r < 0 ? r : table_put(&frames->files, key, (uint64_t) *ret);
}

int kernel_frames_store(KernelFrames *frames, uint64_t frame, bool interrupted, int64_t *ret_id) {
        TableKey key = { .a = frame, .b = interrupted };
        KernelPlace place;
        int64_t file_id;
        int r;

        *ret_id = (int64_t) table_get(&frames->frames, key);
        if (*ret_id > 0)
                return 0;
        r = kernel_frames_find(frames, frame, interrupted, &place);
        if (r >= 0)
                r = get_file(frames, &place, &file_id);
        if (r >= 0)
                r = store_add_frame(frames->store, file_id, place.address, place.name, place.name_offset, true, ret_id);
        if (r < 0)
                return r;
        if (!place.name) { /* it is asked for again */
                frames->unnamed = true;
                return 0;
        }
        if (frames->frames.n >= FRAMES_KNOWN_MAX)
                table_clear(&frames->frames);
        return table_put(&frames->frames, key, (uint64_t) *ret_id);
}
