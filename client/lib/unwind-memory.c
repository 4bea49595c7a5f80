/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unwind-memory.h"

#include <string.h>
#include <sys/mman.h>

#include "table.h"

#define TAKEN UINT64_MAX
#define IDLE (UINT64_MAX - 1)
/* So much more is mapped at once, bytes. */
#define MAP_STEP (UINT64_C(2) << 20)

typedef struct Slot {
        bool taken;
        uint64_t list; /* as published last */
} Slot;

struct UnwindMemory {
        uint8_t *memory;
        uint64_t size, mapped;
        uint64_t lost; /* bytes behind what is mapped whose place may be another's */
        int fd;        /* of what is not mapped yet */
        uint32_t n_chunks;
        uint64_t *free_from; /* for each chunk of the heap: when it can be used, TAKEN, or IDLE */
        Table rules;         /* what is in them -> number */
        uint64_t generation; /* of the list that was published last */
        Slot slots[RS_TABLE_PROCESSES];
};

int unwind_memory_new(UnwindMemory **ret, void *memory, size_t size) {
        _cleanup_(unwind_memory_freep) UnwindMemory *m = NULL;

        if (size < RS_TABLE_SIZE_MIN || size > RS_TABLE_SIZE_MAX || (size & (size - 1)) != 0)
                return -EINVAL;
        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        m->memory = memory;
        m->size = m->mapped = size;
        m->fd = -1;
        m->n_chunks = (uint32_t) ((size - RS_TABLE_HEAP_AT) / RS_TABLE_CHUNK);
        m->free_from = calloc(m->n_chunks, sizeof(*m->free_from));
        if (!m->free_from)
                return -ENOMEM;
        *ret = TAKE_PTR(m);
        return 0;
}

int unwind_memory_new_of_file(UnwindMemory **ret, void *memory, size_t size, int fd, size_t mapped) {
        int r;

        if (mapped < RS_TABLE_HEAP_AT || mapped > size)
                return -EINVAL;
        r = unwind_memory_new(ret, memory, size);
        if (r < 0)
                return r;
        (*ret)->mapped = mapped;
        (*ret)->fd = fd;
        return 0;
}

UnwindMemory *unwind_memory_free(UnwindMemory *m) {
        if (!m)
                return NULL;
        table_done(&m->rules);
        free(m->free_from);
        free(m);
        return NULL;
}

void unwind_memory_unmap(UnwindMemory *m) {
        uint64_t end = m->mapped + m->lost;

        (void) munmap(m->memory, m->mapped);
        if (end < m->size)
                (void) munmap(m->memory + end, m->size - end);
}

/* ---- the heap ---- */

static uint64_t chunks_for(uint64_t bytes) {
        return bytes / RS_TABLE_CHUNK + (bytes % RS_TABLE_CHUNK != 0);
}

/* Where nothing is mapped yet its place is kept free. */
static int map_up_to(UnwindMemory *m, uint64_t end) {
        uint8_t *at = m->memory + m->mapped;
        uint64_t size;

        if (end <= m->mapped)
                return 0;
        size = MIN((end - m->mapped + MAP_STEP - 1) / MAP_STEP * MAP_STEP, m->size - m->mapped);
        if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, (off_t) m->mapped) == MAP_FAILED) {
                /*
                 * The place may be free by then, and is kept again; but not tried again, for it may be another's. What is
                 * mapped is all there is from now on: who wants more has to evict something.
                 */
                if (mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) ==
                    MAP_FAILED)
                        m->lost = size;
                m->n_chunks = (uint32_t) ((m->mapped - RS_TABLE_HEAP_AT) / RS_TABLE_CHUNK);
                return -ENOBUFS;
        }
        (void) madvise(at, size, MADV_DONTFORK); /* as what is before it */
        m->mapped += size;
        return 0;
}

int unwind_memory_take(UnwindMemory *m, uint64_t bytes, uint64_t now, UnwindExtent *ret) {
        uint64_t wanted = chunks_for(bytes), n = 0;
        int r;

        for (uint32_t i = 0; i < m->n_chunks && wanted > 0; i++) {
                n = m->free_from[i] <= now ? n + 1 : 0;
                if (n < wanted)
                        continue;
                r = map_up_to(m, RS_TABLE_HEAP_AT + (uint64_t) (i + 1) * RS_TABLE_CHUNK);
                if (r < 0)
                        return r;
                *ret = (UnwindExtent){ .chunk = (uint32_t) (i + 1 - wanted), .n = (uint32_t) wanted };
                for (uint32_t j = ret->chunk; j <= i; j++)
                        m->free_from[j] = TAKEN;
                return 0;
        }
        return -ENOBUFS;
}

void unwind_memory_give_back(UnwindMemory *m, UnwindExtent *extent, uint64_t now) {
        for (uint32_t i = 0; i < extent->n; i++)
                m->free_from[extent->chunk + i] = now + UNWIND_MEMORY_GRACE;
        *extent = (UnwindExtent){};
}

void unwind_memory_set_idle(UnwindMemory *m, const UnwindExtent *extent, bool idle) {
        for (uint32_t i = 0; i < extent->n; i++)
                m->free_from[extent->chunk + i] = idle ? IDLE : TAKEN;
}

/* Whether so much lies together in which no chunk is in use for longer than limit. */
static bool has_run(const UnwindMemory *m, uint64_t bytes, uint64_t limit) {
        uint64_t wanted = chunks_for(bytes), n = 0;

        for (uint32_t i = 0; i < m->n_chunks && n < wanted; i++)
                n = m->free_from[i] <= limit ? n + 1 : 0;
        return n >= wanted;
}

bool unwind_memory_will_have(const UnwindMemory *m, uint64_t bytes) {
        return has_run(m, bytes, IDLE - 1);
}

bool unwind_memory_could_have(const UnwindMemory *m, uint64_t bytes) {
        return has_run(m, bytes, IDLE);
}

uint64_t unwind_memory_get_size(const UnwindMemory *m) {
        return (uint64_t) m->n_chunks * RS_TABLE_CHUNK;
}

uint64_t unwind_memory_offset(const UnwindExtent *extent) {
        return RS_TABLE_HEAP_AT + (uint64_t) extent->chunk * RS_TABLE_CHUNK;
}

void *unwind_memory_at(UnwindMemory *m, const UnwindExtent *extent) {
        return m->memory + unwind_memory_offset(extent);
}

/* ---- rules ---- */

int unwind_memory_add_rule(UnwindMemory *m, const struct rs_table_rule *rule, uint32_t *ret) {
        uint64_t number;
        TableKey key = {};
        int r;

        if (rule->cfa == RS_CFA_NONE) {
                *ret = 0;
                return 0;
        }
        memcpy(&key.a, rule, sizeof(key.a));
        memcpy(&key.b, (const uint8_t *) rule + sizeof(key.a), sizeof(key.b));
        number = table_get(&m->rules, key);
        if (number == 0) {
                number = m->rules.n + 1;
                if (number >= RS_TABLE_RULES)
                        return -ENOBUFS;
                r = table_put(&m->rules, key, number);
                if (r < 0)
                        return r;
                memcpy(m->memory + RS_TABLE_RULES_AT + number * sizeof(*rule), rule, sizeof(*rule));
        }
        *ret = (uint32_t) number;
        return 0;
}

/* ---- slots ---- */

static struct rs_table_process *slot_at(UnwindMemory *m, unsigned slot) {
        return (struct rs_table_process *) m->memory + slot;
}

int unwind_memory_take_slot(UnwindMemory *m, uint32_t pid, uint64_t start, unsigned *ret) {
        uint32_t first = rs_table_slot(pid, start);

        for (unsigned i = 0; i < RS_TABLE_PROBES; i++) {
                unsigned slot = (first + i) % RS_TABLE_PROCESSES;
                struct rs_table_process *p = slot_at(m, slot);

                if (m->slots[slot].taken)
                        continue;
                m->slots[slot].taken = true;
                unwind_memory_withdraw(m, slot);
                p->start = start;
                p->pid = pid;
                *ret = slot;
                return 0;
        }
        return -ENOBUFS;
}

void unwind_memory_give_slot_back(UnwindMemory *m, unsigned slot) {
        unwind_memory_withdraw(m, slot);
        m->slots[slot].taken = false;
}

void unwind_memory_withdraw(UnwindMemory *m, unsigned slot) {
        __atomic_store_n(&slot_at(m, slot)->list, 0, __ATOMIC_RELEASE);
        /* Before anything of another process is stored. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        m->slots[slot].list = 0;
}

void unwind_memory_refuse(UnwindMemory *m, unsigned slot) {
        m->slots[slot].list = RS_TABLE_FRAME_POINTERS;
        __atomic_store_n(&slot_at(m, slot)->list, RS_TABLE_FRAME_POINTERS, __ATOMIC_RELEASE);
}

void unwind_memory_prepare(UnwindMemory *m, unsigned slot) {
        if (m->slots[slot].list != 0)
                return;
        m->slots[slot].list = UNWIND_MEMORY_EMPTY_LIST;
        __atomic_store_n(&slot_at(m, slot)->list, UNWIND_MEMORY_EMPTY_LIST, __ATOMIC_SEQ_CST);
}

bool unwind_memory_publish(UnwindMemory *m, unsigned slot, uint64_t list) {
        __u64 expected = m->slots[slot].list;

        if (list != expected)
                __atomic_store_n(&slot_at(m, slot)->generation, ++m->generation, __ATOMIC_RELAXED);
        /* What was read of the process before it became another program must not be found for that one. */
        if (!__atomic_compare_exchange_n(&slot_at(m, slot)->list, &expected, list, /* weak= */ false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED)) {
                m->slots[slot].list = 0;
                return false;
        }
        m->slots[slot].list = list;
        return true;
}
