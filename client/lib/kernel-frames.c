/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel is a file "[kernel]", and each module one of its own, as in other tools; addresses in them
 * are offsets into the module's text, since where it is loaded nobody is told. A module whose name
 * is not known (its table is still to come) is "[module]".
 */

#include "kernel-frames.h"

#include <string.h>

#include "util.h"

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
        *frames = (KernelFrames){ .store = store };
}

void kernel_frames_done(KernelFrames *frames) {
        (void) kernel_symbols_free(frames->symbols);
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

static int get_file(KernelFrames *frames, unsigned module, const char *name, int64_t *ret) {
        TableKey key = { .a = module + 1 };
        char path[STORE_PATH_MAX];
        int r;

        *ret = (int64_t) table_get(&frames->files, key);
        if (*ret > 0)
                return 0;
        (void) snprintf(path, sizeof(path), "[%s]", name);
        r = store_add_file(frames->store, path, 0, 0, 0, NULL, 0, ret);
        return r < 0 ? r : table_put(&frames->files, key, (uint64_t) *ret);
}

static int store_marker(KernelFrames *frames, const char *name, int64_t *ret_id) {
        int64_t file_id;
        int r;

        r = get_file(frames, MODULE_CORE, "kernel", &file_id);
        return r < 0 ? r : store_add_frame(frames->store, file_id, 0, name, 0, true, ret_id);
}

static int store_code(KernelFrames *frames, uint64_t frame, bool interrupted, int64_t *ret_id) {
        unsigned module = RINGSIDE_FRAME_MODULE(frame);
        uint64_t offset = RINGSIDE_FRAME_OFFSET(frame);
        KernelSymbol symbol = {};
        const char *file_name;
        int64_t file_id;
        int r;

        /* A call may be the last instruction of its function. */
        if (!interrupted && offset > 0)
                offset--;
        if (frames->symbols)
                (void) kernel_symbols_find(frames->symbols, module, offset, &symbol);
        frames->unnamed |= !symbol.name;
        file_name = module == MODULE_CORE ? "kernel" : symbol.module ?: "module";
        r = get_file(frames, module == MODULE_CORE || symbol.module ? module : MODULE_UNNAMED, file_name, &file_id);
        if (r < 0)
                return r;
        r = store_add_frame(frames->store, file_id, offset, symbol.name, symbol.offset, true, ret_id);
        return r < 0 ? r : !symbol.name;
}

int kernel_frames_store(KernelFrames *frames, uint64_t frame, bool interrupted, int64_t *ret_id) {
        TableKey key = { .a = frame, .b = interrupted };
        int r = 0;

        *ret_id = (int64_t) table_get(&frames->frames, key);
        if (*ret_id > 0)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(markers) && *ret_id == 0; i++)
                if (markers[i].frame == frame) {
                        r = store_marker(frames, markers[i].name, ret_id);
                        if (r < 0)
                                return r;
                }
        if (*ret_id == 0) {
                r = store_code(frames, frame, interrupted, ret_id);
                if (r != 0) /* without a name it is asked for again */
                        return MIN(r, 0);
        }
        if (frames->frames.n >= FRAMES_KNOWN_MAX)
                table_clear(&frames->frames);
        return table_put(&frames->frames, key, (uint64_t) *ret_id);
}
