/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "late-names.h"

#include "util.h"

/* So many are settled however long it takes. */
#define SETTLED_LEAST 1024

void late_names_done(LateNames *late) {
        table_done(&late->by_place);
        *late = (LateNames){};
}

LateFrame *late_frames_free(LateFrame *frames) {
        while (frames) {
                LateFrame *next = frames->next;

                free(frames);
                frames = next;
        }
        return NULL;
}

static TableKey frame_key(const LateFrame *frame) {
        return (TableKey){ frame->program, frame->address, frame->window };
}

int64_t late_names_get(const LateNames *late, const Process *process, uint64_t address, uint64_t window) {
        TableKey key = { process->program, address, window };
        const LateFrame *frame = process->late ? (LateFrame *) (uintptr_t) table_get(&late->by_place, key) : NULL;

        return frame ? frame->frame_id : 0;
}

bool late_names_is_full(const LateNames *late, const Process *process, uint64_t window) {
        return late->n >= (window == UINT64_MAX ? LATE_NAMES_OF_NO_DUMP_MAX : LATE_NAMES_MAX) ||
               process->n_late >= LATE_NAMES_OF_PROCESS_MAX;
}

int late_names_add(LateNames *late, Process *process, const LateFrame *frame) {
        LateFrame *own = malloc(sizeof(*own));
        int r;

        if (!own)
                return -ENOMEM;
        *own = *frame;
        r = table_put(&late->by_place, frame_key(own), (uintptr_t) own);
        if (r < 0) {
                free(own);
                return r;
        }
        own->next = process->late;
        process->late = own;
        process->n_late++;
        late->n++;
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

/* The next one takes its place. */
static void remove_frame(LateNames *late, Process *process, LateFrame **p) {
        LateFrame *f = *p;

        if (!f->closed)
                (void) table_remove(&late->by_place, frame_key(f));
        *p = f->next;
        free(f);
        process->n_late--;
        late->n--;
}

/* Returns whether it was called otherwise, -EAGAIN: it is not known yet. */
static int settle_frame(const LateFrame *f, Store *store, Process *process, bool final, bool look) {
        const char *name = NULL, *source;
        uint64_t offset = 0;
        uint32_t line;
        int r = 0;

        if (!look && !final)
                return -EAGAIN;
        if (look)
                r = address_space_find_late_name(process->space, f->address, f->first, f->until, final, &name, &offset);
        if (r < 0)
                return r;
        if (r == 0)
                name = NULL;
        else
                r = address_space_find_late_line(process->space, f->address, f->first, f->until, &source, &line);
        if (r > 0)
                r = store_set_line(store, f->frame_id, source, line);
        if (r < 0)
                return r;
        /* Equal names are one. */
        if (name == f->name)
                return 0;
        r = store_name_frame(store, f->frame_id, f->file_id, f->address, name, offset);
        return r < 0 ? r : 1;
}

int late_names_settle(LateNames *late, Store *store, Process *process, bool final, uint64_t deadline) {
        uint64_t end = address_space_get_late_end(process->space);
        size_t looked_at = 0;
        bool any = false;

        for (LateFrame **p = &process->late; *p;) {
                bool look = looked_at++ < SETTLED_LEAST || now_ns(CLOCK_MONOTONIC) < deadline;
                int r;

                close_frame(late, *p, end);
                r = settle_frame(*p, store, process, final, look);
                if (r == -EAGAIN) {
                        p = &(*p)->next;
                        continue;
                }
                if (r < 0)
                        return r;
                any |= r > 0;
                remove_frame(late, process, p);
        }
        return any;
}
