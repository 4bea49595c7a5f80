/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "self-counts.h"

#include <string.h>

#include "util.h"

/* Those of later ones are not counted. */
#define FRAMES_MAX (1U << 21)
/* The number of all that are too many. */
#define UNCOUNTED 1

void self_counts_done(SelfCounts *self) {
        functions_done(&self->functions);
        free(self->by_frame);
        free(self->counts);
        free(self->rows);
        *self = (SelfCounts){};
}

uint32_t self_counts_get(const SelfCounts *self, int64_t frame_id) {
        return (uint64_t) frame_id < self->n_frames ? self->by_frame[frame_id] : frame_id < FRAMES_MAX ? 0 : UNCOUNTED;
}

/* Room for n elements, what is new of it zero. */
static int reserve(void *array, size_t *allocated, size_t n, size_t size) {
        void **p = array, *bigger;
        size_t room = MAX(*allocated, (size_t) 256);

        if (n <= *allocated)
                return 0;
        while (room < n)
                room *= 2;
        bigger = reallocarray(*p, room, size);
        if (!bigger)
                return -ENOMEM;
        memset((uint8_t *) bigger + *allocated * size, 0, (room - *allocated) * size);
        *p = bigger;
        *allocated = room;
        return 0;
}

int self_counts_add(SelfCounts *self, int64_t frame_id, TableKey key, const FunctionPlace *place, uint32_t *ret) {
        uint32_t number = UNCOUNTED, index;
        int r;

        r = reserve(&self->counts, &self->allocated, self->functions.n + UNCOUNTED + 2, sizeof(SelfCount));
        if (r >= 0)
                r = reserve(&self->by_frame, &self->n_frames, (size_t) frame_id + 1, sizeof(uint32_t));
        if (r < 0)
                return r;
        if (self->functions.n + UNCOUNTED + 1 < SELF_NUMBER_MAX) {
                r = functions_find(&self->functions, key, place, &index);
                if (r < 0)
                        return r;
                number = index + UNCOUNTED + 1;
        }
        *ret = self->by_frame[frame_id] = number;
        return 0;
}

void self_counts_count(SelfCounts *self, uint32_t number, uint64_t weight) {
        SelfCount *count = &self->counts[number];

        count->samples++;
        if (__builtin_add_overflow(count->weight, weight, &count->weight))
                count->weight = UINT64_MAX;
}

static int compare_rows(const void *a, const void *b) {
        const RingsideRow *x = a, *y = b;
        int c;

        if (x->self_weight != y->self_weight)
                return x->self_weight > y->self_weight ? -1 : 1;
        c = strcmp(x->name, y->name);
        return c != 0 ? c : strcmp(x->file, y->file);
}

int self_counts_get_rows(SelfCounts *self, const RingsideRow **ret, size_t *ret_n) {
        RingsideRow *rows;
        size_t n = 0;

        if (self->allocated > UNCOUNTED && self->counts[UNCOUNTED].samples > 0)
                return -EFBIG;
        rows = calloc(self->functions.n + 1, sizeof(*rows));
        if (!rows)
                return -ENOMEM;
        for (size_t i = 0; i < self->functions.n; i++) {
                const Function *f = &self->functions.items[i];
                const SelfCount *count = &self->counts[i + UNCOUNTED + 1];

                if (count->samples > 0)
                        rows[n++] = (RingsideRow){
                                .name = f->name,
                                .file = f->file,
                                .target = "",
                                .id = -1,
                                .kernel = f->kernel,
                                .self_samples = count->samples,
                                .self_weight = count->weight,
                        };
        }
        qsort(rows, n, sizeof(*rows), compare_rows);
        free(self->rows);
        self->rows = rows;
        *ret = rows;
        *ret_n = n;
        return 0;
}
