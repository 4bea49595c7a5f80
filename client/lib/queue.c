/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A list of chunks. The pusher appends to the last one and publishes how far it is filled with a
 * release store; the popper follows and moves on to the next chunk once there is one.
 */

#include "queue.h"

#include <fcntl.h>
#include <string.h>

#include "util.h"

#define CHUNK_SIZE (256U << 10)

struct QueueChunk {
        _Atomic(QueueChunk *) next;
        _Atomic(size_t) used;
        _Alignas(16) uint8_t data[CHUNK_SIZE];
};

/* A record with its frames behind it; the pointer to them is set when it is popped. */
typedef struct Entry {
        RingsideRecord record;
        uint64_t frames[];
} Entry;

static QueueChunk *chunk_new(Queue *queue) {
        QueueChunk *chunk = atomic_exchange_explicit(&queue->spare, NULL, memory_order_acquire);

        if (!chunk)
                chunk = malloc(sizeof(QueueChunk));
        if (!chunk)
                return NULL;
        atomic_init(&chunk->next, NULL);
        atomic_init(&chunk->used, 0);
        return chunk;
}

int queue_init(Queue *queue, size_t limit) {
        *queue = (Queue){ .limit = limit, .popped_fd = -1 };
        queue->head = queue->tail = chunk_new(queue);
        return queue->head ? 0 : -ENOMEM;
}

void queue_done(Queue *queue) {
        if (!queue->head) /* never was one */
                return;
        while (queue_pop(queue))
                ; /* closes what descriptors are left */
        for (QueueChunk *chunk = queue->head, *next; chunk; chunk = next) {
                next = atomic_load_explicit(&chunk->next, memory_order_acquire);
                free(chunk);
        }
        free(atomic_load(&queue->spare));
        *queue = (Queue){};
}

static size_t entry_size(const RingsideRecord *record) {
        size_t n = 0;

        if (record->type == RINGSIDE_STACK)
                n = record->stack.n_frames * sizeof(uint64_t);
        else if (record->type == RINGSIDE_MAPPING)
                n = (strlen(record->mapping.path) + sizeof(uint64_t)) / sizeof(uint64_t) * sizeof(uint64_t);
        return sizeof(Entry) + n;
}

int queue_push(Queue *queue, const RingsideRecord *record) {
        size_t n = entry_size(record), limit = queue->limit, used;
        QueueChunk *chunk = queue->tail;
        Entry *entry;

        if (n > CHUNK_SIZE)
                return -EMSGSIZE;
        if (record->type == RINGSIDE_SAMPLE)
                limit -= limit / 8;
        if (atomic_load_explicit(&queue->bytes, memory_order_relaxed) + n > limit)
                return -ENOBUFS;

        used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
        if (used + n > CHUNK_SIZE) {
                QueueChunk *next = chunk_new(queue);

                if (!next)
                        return -ENOBUFS;
                atomic_store_explicit(&chunk->next, next, memory_order_release);
                queue->tail = chunk = next;
                used = 0;
        }

        entry = (Entry *) (chunk->data + used);
        entry->record = *record;
        /* Without a descriptor left there are no names, which is better than no recording. */
        if (record->type == RINGSIDE_KERNEL_NAMES && record->kernel_names.fd >= 0)
                entry->record.kernel_names.fd = fcntl(record->kernel_names.fd, F_DUPFD_CLOEXEC, 3);
        if (record->type == RINGSIDE_STACK && record->stack.n_frames > 0)
                memcpy(entry->frames, record->stack.frames, record->stack.n_frames * sizeof(uint64_t));
        else if (record->type == RINGSIDE_MAPPING)
                entry->record.mapping.path = strcpy((char *) entry->frames, record->mapping.path);
        atomic_fetch_add_explicit(&queue->bytes, n, memory_order_relaxed);
        atomic_store_explicit(&chunk->used, used + n, memory_order_release);
        return 0;
}

static void chunk_give_back(Queue *queue, QueueChunk *chunk) {
        free(atomic_exchange_explicit(&queue->spare, chunk, memory_order_acq_rel));
}

const RingsideRecord *queue_pop(Queue *queue) {
        QueueChunk *chunk = queue->head;
        Entry *entry;

        queue->popped_fd = close_fd(queue->popped_fd);
        if (queue->head_pos == atomic_load_explicit(&chunk->used, memory_order_acquire)) {
                QueueChunk *next = atomic_load_explicit(&chunk->next, memory_order_acquire);

                /* Whatever was pushed before next appeared is visible now. */
                if (!next || queue->head_pos != atomic_load_explicit(&chunk->used, memory_order_acquire))
                        return next ? queue_pop(queue) : NULL;
                queue->head = next;
                queue->head_pos = 0;
                chunk_give_back(queue, chunk);
                return queue_pop(queue);
        }

        entry = (Entry *) (chunk->data + queue->head_pos);
        if (entry->record.type == RINGSIDE_STACK)
                entry->record.stack.frames = entry->frames;
        else if (entry->record.type == RINGSIDE_KERNEL_NAMES)
                queue->popped_fd = entry->record.kernel_names.fd;
        queue->head_pos += entry_size(&entry->record);
        atomic_fetch_sub_explicit(&queue->bytes, entry_size(&entry->record), memory_order_relaxed);
        return &entry->record;
}

size_t queue_get_bytes(Queue *queue) {
        return atomic_load_explicit(&queue->bytes, memory_order_relaxed);
}
