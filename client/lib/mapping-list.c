/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "mapping-list.h"

#include <string.h>

#include "util.h"

void mappings_done(Mappings *mappings) {
        free(mappings->list);
        *mappings = (Mappings){};
}

int mappings_copy(Mappings *ret, const Mappings *from) {
        Mappings copy = { .n = from->n, .allocated = from->n };

        if (from->n > 0) {
                copy.list = reallocarray(NULL, from->n, sizeof(Mapping));
                if (!copy.list)
                        return -ENOMEM;
                memcpy(copy.list, from->list, from->n * sizeof(Mapping));
        }
        *ret = copy;
        return 0;
}

/* Index of the first that ends above the address. */
static size_t first_above(const Mappings *mappings, uint64_t address) {
        size_t low = 0, high = mappings->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (mappings->list[middle].end <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

const Mapping *mappings_overlap(const Mappings *mappings, uint64_t start, uint64_t end) {
        size_t i = first_above(mappings, start);

        return i < mappings->n && mappings->list[i].start < end ? &mappings->list[i] : NULL;
}

const Mapping *mappings_find(const Mappings *mappings, uint64_t address) {
        return mappings_overlap(mappings, address, address + 1);
}

static int reserve(Mappings *mappings, size_t n) {
        size_t allocated = MAX(32, mappings->allocated * 2);
        Mapping *list;

        if (mappings->n + n > MAPPINGS_MAX)
                return -EFBIG;
        if (mappings->n + n <= mappings->allocated)
                return 0;
        list = reallocarray(mappings->list, allocated, sizeof(*list));
        if (!list)
                return -ENOMEM;
        mappings->list = list;
        mappings->allocated = allocated;
        return 0;
}

int mappings_append(Mappings *mappings, const Mapping *mapping) {
        int r = reserve(mappings, 1);

        if (r < 0)
                return r;
        mappings->list[mappings->n++] = *mapping;
        return 0;
}

int mappings_put(Mappings *mappings, const Mapping *mapping) {
        size_t first = first_above(mappings, mapping->start), last = first, n_left = 0;
        Mapping left[3]; /* what is at its place afterwards */
        int r;

        r = reserve(mappings, 2);
        if (r < 0)
                return r;
        while (last < mappings->n && mappings->list[last].start < mapping->end)
                last++;
        if (first < last && mappings->list[first].start < mapping->start) {
                left[n_left] = mappings->list[first];
                left[n_left++].end = mapping->start;
        }
        left[n_left++] = *mapping;
        if (first < last && mappings->list[last - 1].end > mapping->end) {
                Mapping *rest = &left[n_left++];

                *rest = mappings->list[last - 1];
                rest->offset += mapping->end - rest->start;
                rest->start = mapping->end;
        }
        memmove(&mappings->list[first + n_left], &mappings->list[last], (mappings->n - last) * sizeof(Mapping));
        memcpy(&mappings->list[first], left, n_left * sizeof(Mapping));
        mappings->n = mappings->n - (last - first) + n_left;
        return 0;
}

size_t mappings_remove_covered(Mappings *mappings, uint64_t time, const Mappings *newer) {
        size_t n = 0, removed;

        for (size_t i = 0; i < mappings->n; i++) {
                const Mapping *m = &mappings->list[i];

                if (m->time >= time || !mappings_overlap(newer, m->start, m->end))
                        mappings->list[n++] = *m;
        }
        removed = mappings->n - n;
        mappings->n = n;
        return removed;
}
