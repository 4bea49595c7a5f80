/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The memory of the unwind tables (unwind-table.h) as its one writer sees it: which parts of it are taken, which
 * rules are in it, whose the slots are. All that is known of it is kept here and never read back: the
 * session's programs read it, and store nothing but a 0 as a slot's list.
 *
 * A walk may be under way with what was published before. So what is given back is not used again for a while.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind-table.h"
#include "util.h"

/* Times are ns CLOCK_MONOTONIC. */
#define UNWIND_MEMORY_GRACE UINT64_C(100000000)

/* What is published for a process without mappings, as far as is known. */
#define UNWIND_MEMORY_EMPTY_LIST (UINT64_C(1) << 32)

typedef struct UnwindMemory UnwindMemory;

/* A part of the heap, in chunks of RS_TABLE_CHUNK bytes. */
typedef struct UnwindExtent {
        uint32_t chunk;
        uint32_t n; /* 0: none */
} UnwindExtent;

/* memory: zeroes, of a size as in unwind-table.h; must outlive it. */
int unwind_memory_new(UnwindMemory **ret, void *memory, size_t size);
UnwindMemory *unwind_memory_free(UnwindMemory *memory);
DEFINE_CLEANUP(UnwindMemory, unwind_memory_free)

/*
 * Only the first bytes, as many as mapped says, are mapped: more of fd is mapped behind them when room there is taken,
 * since the kernel enters each page of such a mapping at once. fd must outlive it, too.
 */
int unwind_memory_new_of_file(UnwindMemory **ret, void *memory, size_t size, int fd, size_t mapped);
/*
 * Unmaps the memory, and the place that is kept behind it. Where more could not be mapped, and the place was not free, it is
 * left as it is: it is kept still, which takes no memory, or another's.
 */
void unwind_memory_unmap(UnwindMemory *memory);

/* The lowest room there is. -ENOBUFS: there is none now, or it could not be mapped, and the heap ends before it. */
int unwind_memory_take(UnwindMemory *memory, uint64_t bytes, uint64_t now, UnwindExtent *ret);
/* Takes it back, and makes *extent none. */
void unwind_memory_give_back(UnwindMemory *memory, UnwindExtent *extent, uint64_t now);
/* What is taken could be given back, or is in use again. */
void unwind_memory_set_idle(UnwindMemory *memory, const UnwindExtent *extent, bool idle);
/* Whether there will be room for so much when all that was given back can be used; if all that is idle were given back, too. */
bool unwind_memory_will_have(const UnwindMemory *memory, uint64_t bytes);
bool unwind_memory_could_have(const UnwindMemory *memory, uint64_t bytes);
/* Bytes of the heap, which become less where more of it could not be mapped. */
uint64_t unwind_memory_get_size(const UnwindMemory *memory);
void *unwind_memory_at(UnwindMemory *memory, const UnwindExtent *extent);
/* Its distance from the beginning, bytes. */
uint64_t unwind_memory_offset(const UnwindExtent *extent);

/* The number of a rule; equal ones have one. Rules stay. -ENOBUFS: all numbers are taken; -ENOMEM. */
int unwind_memory_add_rule(UnwindMemory *memory, const struct rs_table_rule *rule, uint32_t *ret);

/* A slot for a process, without a list. -ENOBUFS: those where it is looked for are all taken. */
int unwind_memory_take_slot(UnwindMemory *memory, uint32_t pid, uint64_t start, unsigned *ret);
void unwind_memory_give_slot_back(UnwindMemory *memory, unsigned slot);
/* Nothing is to be found by it any more, be it for what the programs stored, or what is stored now. */
void unwind_memory_withdraw(UnwindMemory *memory, unsigned slot);
/* Its stacks are walked by frame pointers, until it is withdrawn or becomes another program. */
void unwind_memory_refuse(UnwindMemory *memory, unsigned slot);
/*
 * Before it is looked what the process has: where it has no list, it gets one without mappings, so that it shows when the
 * programs take that away.
 */
void unwind_memory_prepare(UnwindMemory *memory, unsigned slot);
/* After all that list leads to was written. false: the process has become another program meanwhile, and has no list. */
bool unwind_memory_publish(UnwindMemory *memory, unsigned slot, uint64_t list);
