/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "late-names.h"

#include "util.h"

#define FRAMES_MAX (1U << 18)

void late_names_done(LateNames *late) {
        table_done(&late->by_place);
        free(late->frames);
        *late = (LateNames){};
}

static uint64_t end_of_window(uint64_t time) {
        return (time / LATE_NAMES_WINDOW + 1) * LATE_NAMES_WINDOW;
}

static TableKey frame_key(const LateFrame *frame) {
        return (TableKey){ frame->program, frame->address, frame->until };
}

int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t time) {
        TableKey key = { process->program, address, end_of_window(time) };
        uint64_t index = process->n_late > 0 ? table_get(&late->by_place, key) : 0;

        return index > 0 ? late->frames[index - 1].frame_id : 0;
}

int late_names_add(LateNames *late, Process *process, uint64_t address, uint64_t time, int64_t file_id, int64_t frame_id) {
        LateFrame frame = {
                .program = process->program,
                .address = address,
                .first = time,
                .until = end_of_window(time),
                .file_id = file_id,
                .frame_id = frame_id,
        };
        int r;

        if (late->n == FRAMES_MAX)
                return 0;
        if (late->n == late->allocated) {
                size_t allocated = MAX(late->allocated * 2, (size_t) 256);
                LateFrame *frames = reallocarray(late->frames, allocated, sizeof(*frames));

                if (!frames)
                        return -ENOMEM;
                late->frames = frames;
                late->allocated = allocated;
        }
        r = table_put(&late->by_place, frame_key(&frame), late->n + 1);
        if (r < 0)
                return r;
        late->frames[late->n++] = frame;
        process->n_late++;
        return 0;
}

/* The last one takes its place. */
static int remove_frame(LateNames *late, Process *process, size_t index) {
        (void) table_remove(&late->by_place, frame_key(&late->frames[index]));
        process->n_late--;
        if (index == --late->n)
                return 0;
        late->frames[index] = late->frames[late->n];
        return table_put(&late->by_place, frame_key(&late->frames[index]), index + 1);
}

int late_names_settle(LateNames *late, Store *store, Process *process, bool final) {
        bool any = false;

        for (size_t i = 0; i < late->n && process->n_late > 0;) {
                const LateFrame *f = &late->frames[i];
                uint64_t offset;
                const char *name;
                int r;

                if (f->program != process->program) {
                        i++;
                        continue;
                }
                r = address_space_find_late_name(process->space, f->address, f->first, f->until, final, &name, &offset);
                if (r == -EAGAIN) {
                        i++;
                        continue;
                }
                if (r > 0) {
                        r = store_name_frame(store, f->frame_id, f->file_id, f->address, name, offset);
                        any = true;
                }
                if (r >= 0)
                        r = remove_frame(late, process, i);
                if (r < 0)
                        return r;
        }
        return any;
}
