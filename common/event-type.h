/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The events there are, by name. Both sides use the same table, so that names mean one thing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

typedef struct EventType {
        enum rs_event_id id;
        const char *name;
        const char *unit;
        const char *category;
        const char *description;
        uint32_t perf_type;   /* PERF_TYPE_* */
        uint64_t perf_config; /* PERF_COUNT_* */
        bool weighted;        /* its period varies when sampled by frequency */
} EventType;

/* All there are, in the order they are listed. NULL past the last. */
const EventType *event_type_get(size_t index);
size_t event_type_count(void);
const EventType *event_type_by_id(uint32_t id);
const EventType *event_type_by_name(const char *name);
/* Why perf_event_open() refuses it with this errno, and what would work. NULL for 0. */
const char *event_type_problem(int error);
