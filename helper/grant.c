/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "grant.h"

#include "control.h"
#include "event-type.h"
#include "unwind-table.h"

void grant_init(struct rs_grant *grant) {
        *grant = (struct rs_grant){
                .max_frames = GRANT_FRAMES_DEFAULT, .ring_size = GRANT_RING_SIZE_DEFAULT,
        };
}

const char *grant_check(const struct rs_grant *grant) {
        if (grant->grants & ~(RS_GRANT_TARGETS | RS_GRANT_DIRECT | RS_GRANT_KERNEL | RS_GRANT_SYSTEM))
                return "unknown grant";
        if (grant->max_frames < 1 || grant->max_frames > RS_FRAMES_MAX)
                return "stack-depth must be 1 to 255";
        if (grant->ring_size < RS_RING_SIZE_MIN || grant->ring_size > RS_RING_SIZE_MAX ||
            (grant->ring_size & (grant->ring_size - 1)) != 0)
                return "ring-size must be a power of two from 65536 to 67108864";
        if (grant->table_size != 0 && (grant->table_size < RS_TABLE_SIZE_MIN || grant->table_size > RS_TABLE_SIZE_MAX ||
                                       (grant->table_size & (grant->table_size - 1)) != 0))
                return "table-size must be 0, or a power of two from 4194304 to 67108864";
        if (grant->nr_events < 1 || grant->nr_events > RS_EVENTS_MAX)
                return "events must name 1 to 8 events";
        for (size_t i = 0; i < grant->nr_events; i++) {
                const struct rs_event *e = &grant->events[i];

                if (!event_type_by_id(e->id))
                        return "no such event; ListEvents has all there are";
                for (size_t j = 0; j < i; j++)
                        if (grant->events[j].id == e->id)
                                return "an event is named twice";
                if (e->by_period)
                        return "sampling by period is not offered; give a frequency";
                if (e->value < 1 || e->value > GRANT_FREQUENCY_MAX)
                        return "a frequency must be 1 to 20000 Hz";
        }
        return NULL;
}

uint64_t grant_rate(const struct rs_grant *grant) {
        uint64_t rate = 0;

        for (size_t i = 0; i < grant->nr_events; i++)
                rate += grant->events[i].value;
        return rate;
}

uint64_t grant_memory(const struct rs_grant *grant, unsigned n_cpus) {
        /* The kernel's own page and two for positions. */
        uint64_t ring = grant->ring_size + 3 * 4096;
        uint64_t counters = (uint64_t) n_cpus * sizeof(struct rs_counters) + 4096;
        /* One chunk where there are none; and the rules that walks by them remember. */
        uint64_t tables = (grant->table_size ?: RS_TABLE_CHUNK) + 4096 +
                          (uint64_t) (grant->table_size > 0 ? RS_REMEMBERED_SLOTS : 1) * RS_REMEMBERED_SIZE;
        uint64_t scratch = (uint64_t) n_cpus * RS_CPU_SIZE;
        uint64_t arrays = (RS_SENT_SLOTS + RS_ANNOUNCED_SLOTS) * sizeof(uint64_t) + RS_MAPPED_SETS * RS_MAPPED_SET_SIZE;
        /* A preallocated hash: element head, key and value, and the buckets. */
        uint64_t tracked = (grant->grants & RS_GRANT_TARGETS) ? RS_TRACKED_MAX * (64 + 32) : 16384;

        return ring + counters + tables + scratch + arrays + tracked;
}
