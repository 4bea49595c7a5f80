/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "due-heap.h"

#include "util.h"

int due_heap_init(DueHeap *heap, size_t max) {
        *heap = (DueHeap){ .list = calloc(max, sizeof(Due *)), .max = max };
        return heap->list ? 0 : -ENOMEM;
}

void due_heap_done(DueHeap *heap) {
        free(heap->list);
        *heap = (DueHeap){};
}

static void put(DueHeap *heap, size_t place, Due *due) {
        heap->list[place - 1] = due;
        due->place = place;
}

/* To where none above is later, and none below is earlier. */
static void settle(DueHeap *heap, Due *due, size_t place) {
        while (place > 1 && heap->list[place / 2 - 1]->time > due->time) {
                put(heap, place, heap->list[place / 2 - 1]);
                place /= 2;
        }
        for (size_t below = 2 * place; below <= heap->n; below = 2 * place) {
                if (below < heap->n && heap->list[below]->time < heap->list[below - 1]->time)
                        below++;
                if (heap->list[below - 1]->time >= due->time)
                        break;
                put(heap, place, heap->list[below - 1]);
                place = below;
        }
        put(heap, place, due);
}

void due_heap_set(DueHeap *heap, Due *due, uint64_t time) {
        due->time = time;
        if (due->place == 0) {
                if (heap->n == heap->max)
                        return;
                due->place = ++heap->n;
        }
        settle(heap, due, due->place);
}

void due_heap_remove(DueHeap *heap, Due *due) {
        Due *last;
        size_t place = due->place;

        if (place == 0)
                return;
        due->place = 0;
        last = heap->list[--heap->n];
        if (last != due)
                settle(heap, last, place);
}

Due *due_heap_get_first(const DueHeap *heap) {
        return heap->n > 0 ? heap->list[0] : NULL;
}
