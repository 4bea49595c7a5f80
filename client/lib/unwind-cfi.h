/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A bounded reader of call frame information (.eh_frame, .debug_frame): which entries there are, and what each says
 * about every address it covers, as a rule of unwind-table.h. Only what a walk needs is followed: the CFA, the frame
 * pointer and the return address. Both machines can be read on either; the file's byte order is ours.
 *
 * The bytes are hostile. What makes the section unreadable is -EBADMSG; what concerns one entry alone makes its
 * addresses RS_CFA_UNKNOWN or leaves it out, and is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind-table.h"

#define CFI_SIZE_MAX (256U << 20)

/* x86-64's and aarch64's. NULL: no other is known. */
typedef struct CfiMachine {
        uint8_t fp, sp, ra; /* registers, as DWARF counts them; ra: the column */
        uint8_t n_regs;     /* those that a CFA can be found by */
        bool is_aarch64;
} CfiMachine;
const CfiMachine *cfi_machine(unsigned e_machine);

/* Where a register of the caller is. */
enum CfiHow {
        CFI_SAME,
        CFI_AT_CFA,   /* at CFA + offset */
        CFI_AT_REG,   /* at reg + offset */
        CFI_UNDEFINED,
        CFI_OTHER,    /* somewhere that no rule can say */
};

typedef struct CfiPlace {
        uint8_t how, reg;
        int64_t offset;
} CfiPlace;

typedef struct CfiState {
        uint8_t cfa; /* enum rs_rule_cfa; NONE: not said yet */
        uint8_t cfa_reg;
        uint8_t plt_from; /* RS_CFA_PLT: the byte of 16 */
        bool is_signed;
        int64_t cfa_offset;
        CfiPlace fp, ra;
        uint32_t others; /* bits: registers that have a rule, of those that a CFA can be found by */
} CfiState;

/* A common entry. */
typedef struct CfiCommon {
        uint32_t at; /* offset, plus 1; 0: none is here */
        bool usable, augmented, is_signal;
        uint8_t encoding;
        uint64_t code_factor;
        int64_t data_factor;
        CfiState initial;
} CfiCommon;

/* A rule as it is given out. Most are the same as one shortly before. */
typedef struct CfiRule {
        struct rs_table_rule rule;
        uint32_t number; /* the receiver's own, who finds it here when the rule comes again; 0: comes for the first time, or was forgotten */
} CfiRule;

/* What a rule is made of, in words, and the rule. */
typedef struct CfiKnownRule {
        uint64_t state[4]; /* the first one 0: none is here */
        CfiRule rule;
} CfiKnownRule;
#define CFI_KNOWN_RULES 256U

typedef struct CfiReader {
        const uint8_t *data;
        size_t size;
        uint64_t address;   /* of data[0], as the file counts */
        uint64_t data_base; /* what DW_EH_PE_datarel counts from, 0: not known */
        const CfiMachine *machine;
        bool is_eh_frame;
        size_t at;          /* of the next entry */
        uint64_t work;      /* bytes, of the section and of PLTs, that may still be looked at */
        size_t n_skipped;   /* entries that say nothing we can use */
        CfiCommon commons[64];
        CfiKnownRule rules[CFI_KNOWN_RULES]; /* by a hash of the state */
} CfiReader;

/* What covers [start, end); program and common are offsets. */
typedef struct CfiEntry {
        uint64_t start, end;
        uint32_t program, program_size;
        uint32_t common;
        uint32_t source; /* the caller's */
} CfiEntry;

/* data must outlive the reader, and size is at most CFI_SIZE_MAX. */
void cfi_reader_init(CfiReader *reader, const CfiMachine *machine, bool is_eh_frame, const uint8_t *data, size_t size,
                     uint64_t address, uint64_t data_base);

/* 1: there is one, 0: no more. -EFBIG: too much work. */
int cfi_next(CfiReader *reader, CfiEntry *ret);

/* In ascending order, without gaps; a rule may be the same as the last. Anything but 0 ends it. */
typedef int (*CfiEmit)(void *userdata, uint64_t start, uint64_t end, CfiRule *rule);
/* -EFBIG: too much work. */
int cfi_run(CfiReader *reader, const CfiEntry *entry, CfiEmit emit, void *userdata);

/* One encoded pointer (DW_EH_PE_*) at data; address: where it stands. Returns the bytes it takes, 0: it is none. */
size_t cfi_read_pointer(const uint8_t *data, size_t size, uint8_t encoding, uint64_t address, uint64_t data_base,
                        uint64_t *ret);
