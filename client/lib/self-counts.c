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
        table_done(&self->by_symbol);
        free(self->places);
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

/* The number of a function, a new one unless there are too many. */
static int find_number(SelfCounts *self, TableKey key, const FunctionPlace *place, uint32_t *ret) {
        bool named = place->symbol && place->symbol[0] != 0;
        uint64_t found = named ? table_get(&self->by_symbol, key) : 0;
        uint32_t n = MAX(self->n, (uint32_t) UNCOUNTED + 1);
        int r;

        if (found == 0 && n < SELF_NUMBER_MAX) {
                r = reserve(&self->places, &self->n_places_allocated, n + 1, sizeof(FunctionPlace));
                if (r >= 0 && named)
                        r = table_put(&self->by_symbol, key, n);
                if (r < 0)
                        return r;
                self->places[n] = *place;
                self->n = n + 1;
                found = n;
        }
        *ret = found > 0 ? found : UNCOUNTED;
        return 0;
}

int self_counts_add(SelfCounts *self, int64_t frame_id, TableKey key, const FunctionPlace *place, uint32_t *ret) {
        int r;

        r = reserve(&self->counts, &self->allocated, self->n + UNCOUNTED + 2, sizeof(SelfCount));
        if (r >= 0)
                r = reserve(&self->by_frame, &self->n_frames, (size_t) frame_id + 1, sizeof(uint32_t));
        if (r >= 0)
                r = find_number(self, key, place, ret);
        if (r >= 0)
                self->by_frame[frame_id] = *ret;
        return r;
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

/* Adds up what is the same function by its name, whatever symbols and files it had. */
static int add_up(SelfCounts *self, SelfCount *sums) {
        for (uint32_t i = UNCOUNTED + 1; i < self->n; i++) {
                uint32_t index;
                int r;

                if (self->counts[i].samples == 0)
                        continue;
                r = functions_find(&self->functions, (TableKey){ .a = i }, &self->places[i], &index);
                if (r < 0)
                        return r;
                sums[index].samples += self->counts[i].samples;
                if (__builtin_add_overflow(sums[index].weight, self->counts[i].weight, &sums[index].weight))
                        sums[index].weight = UINT64_MAX;
        }
        return 0;
}

int self_counts_get_rows(SelfCounts *self, const RingsideRow **ret, size_t *ret_n) {
        _cleanup_free_ SelfCount *sums = calloc(self->n + 1, sizeof(*sums));
        _cleanup_free_ RingsideRow *rows = NULL;
        int r;

        if (self->allocated > UNCOUNTED && self->counts[UNCOUNTED].samples > 0)
                return -EFBIG;
        functions_done(&self->functions);
        r = sums ? add_up(self, sums) : -ENOMEM;
        if (r < 0)
                return r;
        rows = calloc(self->functions.n + 1, sizeof(*rows));
        if (!rows)
                return -ENOMEM;
        for (size_t i = 0; i < self->functions.n; i++) {
                const Function *f = &self->functions.items[i];

                rows[i] = (RingsideRow){
                        .name = f->name,
                        .file = f->file,
                        .source = "",
                        .target = "",
                        .id = -1,
                        .kernel = f->kernel,
                        .self_samples = sums[i].samples,
                        .self_weight = sums[i].weight,
                };
        }
        qsort(rows, self->functions.n, sizeof(*rows), compare_rows);
        free(self->rows);
        *ret = self->rows = TAKE_PTR(rows);
        *ret_n = self->functions.n;
        return 0;
}
