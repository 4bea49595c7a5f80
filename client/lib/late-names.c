/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "late-names.h"

#include "util.h"

#define FRAMES_MAX (1U << 18)

void late_names_done(LateNames *late) {
        table_done(&late->by_place);
        free(late->frames);
        *late = (LateNames){};
}

static TableKey frame_key(const LateFrame *frame) {
        return (TableKey){ frame->program, frame->address, frame->window };
}

int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t window) {
        TableKey key = { process->program, address, window };
        uint64_t index = process->n_late > 0 ? table_get(&late->by_place, key) : 0;

        return index > 0 ? late->frames[index - 1].frame_id : 0;
}

bool late_names_is_full(const LateNames *late) {
        return late->n >= FRAMES_MAX;
}

int late_names_add(LateNames *late, Process *process, const LateFrame *frame) {
        int r;

        if (late->n == late->allocated) {
                size_t allocated = MAX(late->allocated * 2, (size_t) 256);
                LateFrame *frames = reallocarray(late->frames, allocated, sizeof(*frames));

                if (!frames)
                        return -ENOMEM;
                late->frames = frames;
                late->allocated = allocated;
        }
        r = table_put(&late->by_place, frame_key(frame), late->n + 1);
        if (r < 0)
                return r;
        late->frames[late->n++] = *frame;
        process->n_late++;
        return 0;
}

/* No sample after `end` is of this frame any more. */
static void close_frame(LateNames *late, LateFrame *f, uint64_t end) {
        if (f->closed || end == UINT64_MAX)
                return;
        f->closed = true;
        f->until = MAX(f->first, MIN(f->until, end));
        (void) table_remove(&late->by_place, frame_key(f));
}

/* The last one takes its place. */
static int remove_frame(LateNames *late, Process *process, size_t index) {
        if (!late->frames[index].closed)
                (void) table_remove(&late->by_place, frame_key(&late->frames[index]));
        process->n_late--;
        if (index == --late->n)
                return 0;
        late->frames[index] = late->frames[late->n];
        if (late->frames[index].closed)
                return 0;
        return table_put(&late->by_place, frame_key(&late->frames[index]), index + 1);
}

/* Returns whether it was called otherwise, -EAGAIN: it is not known yet. */
static int settle_frame(const LateFrame *f, Store *store, Process *process, bool final) {
        const char *name = NULL;
        uint64_t offset = 0;
        int r;

        r = address_space_find_late_name(process->space, f->address, f->first, f->until, final, &name, &offset);
        if (r < 0)
                return r;
        if (r == 0)
                name = NULL;
        /* Equal names are one. */
        if (name == f->name)
                return 0;
        r = store_name_frame(store, f->frame_id, f->file_id, f->address, name, offset);
        return r < 0 ? r : 1;
}

int late_names_settle(LateNames *late, Store *store, Process *process, bool final) {
        uint64_t end = address_space_get_late_end(process->space);
        bool any = false;

        for (size_t i = 0; i < late->n && process->n_late > 0;) {
                LateFrame *f = &late->frames[i];
                int r;

                if (f->program != process->program) {
                        i++;
                        continue;
                }
                close_frame(late, f, end);
                r = settle_frame(f, store, process, final);
                if (r == -EAGAIN) {
                        i++;
                        continue;
                }
                any |= r > 0;
                if (r >= 0)
                        r = remove_frame(late, process, i);
                if (r < 0)
                        return r;
        }
        return any;
}
