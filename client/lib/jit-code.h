/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which code a JIT had where, and when: it puts new code where old code was, and moves it, so that an address means
 * something only together with a time. Times are ns CLOCK_BOOTTIME; what is added comes in their order, and what
 * does not is taken for as old as what came before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util.h"

typedef struct JitCode JitCode;

#define JIT_CODE_COUNT_MAX (1U << 20)  /* pieces of code, and as many that are gone */
#define JIT_CODE_SIZE_MAX (64U << 20)  /* bytes of one; more is none */
#define JIT_CODE_PAGES_MAX (4U << 20)  /* these may lie in, together */
#define JIT_CODE_NAMES_MAX (256U << 20) /* bytes of names, together */
#define JIT_CODE_LINES_MAX (4U << 20)

typedef struct JitLine {
        uint32_t offset; /* from the start of the code */
        uint32_t line;   /* 1, 2, 3, ... */
        uint32_t file;   /* as jit_code_add_name() has it */
} JitLine;

/* What several of them may have together, bytes; embedded. */
typedef struct JitMemory {
        size_t max, used;
} JitMemory;

/* memory: outlives it. NULL: nobody counts. */
int jit_code_new(JitCode **ret, JitMemory *memory);
JitCode *jit_code_free(JitCode *code);
DEFINE_CLEANUP(JitCode, jit_code_free)

/* Names are kept once each. -EFBIG: too much of them, or of memory. */
int jit_code_add_name(JitCode *code, const char *name, size_t len, uint32_t *ret);

typedef struct JitLoad {
        uint64_t time;
        uint64_t start, size;
        uint64_t index;       /* by which the JIT knows it */
        uint32_t name;        /* as jit_code_add_name() has it */
        const JitLine *lines; /* sorted by offset; copied */
        size_t n_lines;
} JitLoad;

/* From its time on this is what the addresses mean. Of size 0: nothing is. -EFBIG: as above. */
int jit_code_load(JitCode *code, const JitLoad *load);
/*
 * What was at from is at to from then on, and no more at from. Of code that is not known nothing is known there.
 */
int jit_code_move(JitCode *code, uint64_t time, uint64_t from, uint64_t to, uint64_t size, uint64_t index);

/* NULL: no code is known there and then. The name lives until something is added. */
const char *jit_code_find(const JitCode *code, uint64_t address, uint64_t time, uint64_t *ret_offset);
/* Whether an address means the same, code that is known, from first to last. */
bool jit_code_is_same(const JitCode *code, uint64_t address, uint64_t first, uint64_t last);
/* The source line of an address. NULL: none is known. */
const char *jit_code_find_line(const JitCode *code, uint64_t address, uint64_t time, uint32_t *ret_line);

/*
 * Around time, the moment from which, and that until which, no address that has a meaning gets another. 0, UINT64_MAX:
 * no such moment is known.
 */
void jit_code_get_span(const JitCode *code, uint64_t time, uint64_t *ret_from, uint64_t *ret_until);
/* The newest time of all that was added, 0: nothing was. */
uint64_t jit_code_get_last_time(const JitCode *code);
