/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "event-type.h"

#include <linux/perf_event.h>
#include <string.h>

#include "util.h"

static const EventType event_types[] = {
        {
                .id = RS_EVENT_CPU_CYCLES,
                .name = "cpu-cycles",
                .unit = "cycles",
                .category = "hardware",
                .description = "CPU cycles, from the processor's performance counters",
                .perf_type = PERF_TYPE_HARDWARE,
                .perf_config = PERF_COUNT_HW_CPU_CYCLES,
                .weighted = true,
        },
        {
                .id = RS_EVENT_CPU_CLOCK,
                .name = "cpu-clock",
                .unit = "ns",
                .category = "software",
                .description = "CPU time, from a high-resolution timer; works everywhere",
                .perf_type = PERF_TYPE_SOFTWARE,
                .perf_config = PERF_COUNT_SW_CPU_CLOCK,
        },
};

size_t event_type_count(void) {
        return ELEMENTSOF(event_types);
}

const EventType *event_type_get(size_t index) {
        return index < ELEMENTSOF(event_types) ? &event_types[index] : NULL;
}

const EventType *event_type_by_id(uint32_t id) {
        for (size_t i = 0; i < ELEMENTSOF(event_types); i++)
                if (event_types[i].id == id)
                        return &event_types[i];
        return NULL;
}

const EventType *event_type_by_name(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(event_types); i++)
                if (strcmp(event_types[i].name, name) == 0)
                        return &event_types[i];
        return NULL;
}

const char *event_type_problem(int error) {
        switch (error) {
        case 0:
                return NULL;
        case ENOENT:
        case ENODEV:
        case EOPNOTSUPP:
                return "no hardware counters here, as in most virtual machines; cpu-clock works everywhere";
        case EACCES:
        case EPERM:
                return "kernel.perf_event_paranoid forbids it, and the helper lacks CAP_SYS_ADMIN; see its unit file";
        case EBUSY:
                return "the hardware counters are taken by another program";
        default:
                return strerror(error);
        }
}
