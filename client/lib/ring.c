/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layout and the order of accesses are those of the kernel's Documentation/bpf/ringbuf.rst: the
 * producer publishes a record by clearing its busy bit with a release, we give memory back by
 * advancing the consumer position with a release.
 */

#include "ring.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

/* Memory is given back in steps, so that the cache line the kernel reads is not written for every record. */
#define RELEASE_BYTES (64U * 1024)

struct Ring {
        volatile uint64_t *consumer;
        const volatile uint64_t *producer;
        const uint8_t *data;
        uint64_t size, mask;
        uint64_t position; /* of the next record */
        uint64_t released;
        bool corrupt;
        bool mapped;
        size_t page;
};

static Ring *ring_init(void *consumer, const void *producer, uint64_t size, size_t page) {
        Ring *ring = calloc(1, sizeof(*ring));

        if (!ring)
                return NULL;
        ring->consumer = consumer;
        ring->producer = producer;
        ring->data = (const uint8_t *) producer + page;
        ring->size = size;
        ring->mask = size - 1;
        ring->page = page;
        ring->position = ring->released = __atomic_load_n(ring->consumer, __ATOMIC_RELAXED);
        ring->corrupt = ring->position % BPF_RINGBUF_HDR_SZ != 0; /* else no header crosses the end */
        return ring;
}

int ring_new_from_memory(Ring **ret, void *consumer, const void *producer, uint64_t size) {
        Ring *ring;

        if (size == 0 || (size & (size - 1)) != 0)
                return -EINVAL;
        ring = ring_init(consumer, producer, size, sysconf(_SC_PAGESIZE));
        if (!ring)
                return -ENOMEM;
        *ret = ring;
        return 0;
}

int ring_new(Ring **ret, int fd, uint64_t size) {
        size_t page = sysconf(_SC_PAGESIZE);
        void *consumer, *producer;
        Ring *ring;
        int r;

        if (size < page || size > SIZE_MAX / 4 || (size & (size - 1)) != 0)
                return -EINVAL;
        consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (consumer == MAP_FAILED)
                return -errno;
        producer = mmap(NULL, page + size, PROT_READ, MAP_SHARED, fd, page);
        if (producer == MAP_FAILED) {
                r = -errno;
                munmap(consumer, page);
                return r;
        }
        ring = ring_init(consumer, producer, size, page);
        if (!ring) {
                munmap(producer, page + size);
                munmap(consumer, page);
                return -ENOMEM;
        }
        ring->mapped = true;
        /* Whoever is forked has no use for it, and each page that is mapped would have to be entered there. */
        (void) madvise(producer, page + size, MADV_DONTFORK);
        *ret = ring;
        return 0;
}

Ring *ring_free(Ring *ring) {
        if (!ring)
                return NULL;
        if (ring->mapped) {
                munmap((void *) ring->producer, ring->page + ring->size);
                munmap((void *) ring->consumer, ring->page);
        }
        free(ring);
        return NULL;
}

void ring_release(Ring *ring) {
        if (ring->released == ring->position)
                return;
        __atomic_store_n(ring->consumer, ring->position, __ATOMIC_RELEASE);
        ring->released = ring->position;
}

/* What goes beyond the end goes on at the beginning. */
static void copy_data(const Ring *ring, uint64_t position, void *buffer, size_t size) {
        uint64_t start = position & ring->mask;
        size_t first = MIN(size, (size_t) (ring->size - start));

        memcpy(buffer, ring->data + start, first);
        memcpy((uint8_t *) buffer + first, ring->data, size - first);
}

int ring_read(Ring *ring, void *record, size_t size) {
        while (!ring->corrupt) {
                uint64_t available = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->position, step;
                const uint8_t *at = ring->data + (ring->position & ring->mask);
                uint32_t head, length;

                if (available == 0)
                        break;
                head = __atomic_load_n((const uint32_t *) at, __ATOMIC_ACQUIRE);
                if (head & BPF_RINGBUF_BUSY_BIT)
                        break;
                length = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
                step = ((uint64_t) length + BPF_RINGBUF_HDR_SZ + 7) & ~7ULL;
                /* Also catches a position that went backwards: the difference is then huge. */
                if (available > ring->size || step > available) {
                        ring->corrupt = true;
                        break;
                }
                copy_data(ring, ring->position + BPF_RINGBUF_HDR_SZ, record, MIN(size, (size_t) length));
                ring->position += step;
                if (ring->position - ring->released >= RELEASE_BYTES)
                        ring_release(ring);
                if (!(head & BPF_RINGBUF_DISCARD_BIT) && length > 0)
                        return length;
        }
        ring_release(ring);
        return ring->corrupt ? -EBADMSG : 0;
}
