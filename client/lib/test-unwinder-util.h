/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the tests of an unwinder share: records of real processes, and what then stands in the tables, as the programs look it up. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwinder.h"

#define SIZE (16U << 20)
#define SIZE_SMALL RS_TABLE_SIZE_MIN
#define PATIENCE_MS 10000

typedef struct Fixture {
        uint8_t *bytes;
        Unwinder *unwinder;
        uint64_t noted;
} Fixture;

typedef struct Child {
        pid_t pid;
        uint64_t start;
        int to, from; /* pipes */
} Child;

/* For cmocka: *state is the Fixture. */
int set_up(void **state);
int set_up_small(void **state); /* with memory of SIZE_SMALL bytes */
int tear_down(void **state);
void pause_ms(unsigned ms);

void note(Fixture *f, const Child *child, enum RingsideProcessKind kind, uint32_t ppid);
void note_mapping(Fixture *f, const Child *child, uint64_t address);
/* As the kernel tells of what is mapped there. */
void note_real_mapping(Fixture *f, const Child *child, uint64_t address);
void note_sample(Fixture *f, const Child *child, enum RingsideWalkEnd end);
UnwinderStatistics statistics(Fixture *f);

/* NULL: none. */
struct rs_table_process *find_slot(const Fixture *f, const Child *child);
/* 0: none. */
uint64_t find_list(const Fixture *f, const Child *child);
const struct rs_table_mapping *find_mapping(const Fixture *f, uint64_t list, uint64_t address);
struct rs_table_rule find_rule(const Fixture *f, const struct rs_table_mapping *m, uint64_t address);

typedef bool (*Condition)(Fixture *f, const Child *child, uint64_t value);
bool wait_for(Fixture *f, const Child *child, Condition condition, uint64_t value);
/* It is in a mapping with a table. */
bool has_address(Fixture *f, const Child *child, uint64_t address);

/* The start of what is mapped executable and has name in its path. */
uint64_t find_mapped(pid_t pid, const char *name, char *ret_path, size_t size, uint64_t *ret_offset);
