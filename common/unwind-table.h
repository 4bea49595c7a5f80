/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * The tables by which user stacks are walked where there are no frame pointers, in one piece of memory that the client
 * writes and the session's programs read. The client makes them from .eh_frame in its own process; no privileged side
 * parses a file. To the programs every word here is hostile: each place is masked to the memory's size (a power of two)
 * before it is read, copied once, and then used.
 *
 *      0                          heads of processes: RS_TABLE_PROCESSES slots of struct rs_table_process
 *      RS_TABLE_RULES_AT          rules: RS_TABLE_RULES of struct rs_table_rule, shared by all files; number 0 is none
 *      RS_TABLE_HEAP_AT           the rest, as the client likes: lists of mappings, pages, rows
 *
 * From a process to a rule: its slot has a list of mappings, sorted by address; a mapping has pages, one for each
 * RS_TABLE_PAGE bytes of addresses from its bias on; a page says where its rows begin and how many there are; and of
 * the rows the last one at or below the address has the rule. Where a page has none, that is the row before its
 * first, which is of a page before: the first row of a file's is one without a rule.
 */

#include "record.h"

/* Bytes; powers of two. 0: no tables, frame pointers alone. */
#define RS_TABLE_SIZE_MIN (4U << 20)
#define RS_TABLE_SIZE_MAX (64U << 20)
/* The memory is looked at by chunks of this many bytes; nothing that is read at once crosses the end of one. */
#define RS_TABLE_CHUNK 4096

/*
 * Of the stack a step looks at nothing but the next so many bytes, which no real frame is larger than, and
 * what is a little below its end, which functions that call none may use. All else is not compared with
 * anything.
 */
#define RS_TABLE_FRAME_MAX (64U << 20)
#define RS_TABLE_RED_ZONE 256

#define RS_TABLE_PROCESSES 8192
#define RS_TABLE_PROBES 8 /* slots that are looked at, from that of the hash on, wrapping */
#define RS_TABLE_RULES 65536
#define RS_TABLE_RULES_AT (RS_TABLE_PROCESSES * 32)
#define RS_TABLE_HEAP_AT (RS_TABLE_RULES_AT + RS_TABLE_RULES * 16)

/*
 * Published by one store of `list`, after all it leads to; list 0 is of nobody who is to be found, and is
 * what is stored first when a slot is given up or used again. The programs store 0 there when the process
 * executes another program.
 */
struct rs_table_process {
        __u64 start; /* as in struct rs_process */
        __u32 pid;   /* the client's number */
        __u32 pad;
        __u64 list;  /* where its mappings begin, in units of 32 bytes, << 32, and how many there are */
        /*
         * Stored before another list is: other than with any before it, so that rules that were found by
         * those are not used.
         */
        __u64 generation;
};

/* Executable mappings below 1 << 63, by address; also those that there are no tables for. */
#define RS_TABLE_MAPPINGS_MAX 65535
/* In place of a list: there are too many to tell of, and stacks are walked by frame pointers. */
#define RS_TABLE_FRAME_POINTERS 0x80000000U
struct rs_table_mapping {
        __u64 start, end; /* addresses */
        __u64 bias;       /* the address of page 0, a multiple of RS_TABLE_PAGE; at most start */
        __u32 pages;      /* where they begin, in units of 8 bytes */
        __u32 n_pages;    /* 0: there is no table (yet) */
};

#define RS_TABLE_PAGE 256
#define RS_TABLE_PAGE_SHIFT 8

/*
 * A page, __u64: where its rows begin, in units of 4 bytes, << 32, and how many there are, at most
 * RS_TABLE_PAGE. Its rows lie in one chunk.
 */
/* A row, __u32: the lowest 8 bits of the address it begins at << 24, and the number of its rule. */
#define RS_TABLE_ROW_SHIFT 24
#define RS_TABLE_ROW_RULE 0xffffff

/* How the caller's registers are found; registers by their numbers in DWARF. */
enum rs_rule_cfa {
        RS_CFA_NONE = 0,     /* no rule */
        RS_CFA_REG = 1,      /* reg + cfa */
        RS_CFA_DEREF = 2,    /* what is at reg + cfa */
        RS_CFA_DEREF_8 = 3,  /* 8 above that */
        RS_CFA_PLT = 4,      /* x86-64: reg + cfa, and 8 more from byte 11 of each 16 of code on */
        RS_CFA_UNKNOWN = 5,  /* there is a rule, and it is none of these */
};

enum rs_rule_reg {
        RS_REG_SAME = 0,     /* as it is: the frame pointer; the return address on aarch64, in x30 */
        RS_REG_AT_CFA = 1,   /* saved at CFA + offset */
        RS_REG_AT_BASE = 2,  /* saved at reg + offset, reg as before the step */
        RS_REG_UNDEFINED = 3, /* return address: the first frame of all; frame pointer: lost */
};

/* In the lowest bits of rs_table_rule.ra. */
#define RS_RULE_REG_MASK 0x07
#define RS_RULE_SIGNAL 0x80 /* with ra: a signal frame, as the kernel makes it: nothing else of the rule is looked at */
#define RS_RULE_PAC 0x40    /* with ra: aarch64, signed */
#define RS_RULE_SAVES 0x20  /* with ra: other registers have rules, not told here: after the step they are not known */

struct rs_table_rule {
        __u8 cfa; /* enum rs_rule_cfa */
        __u8 reg;
        __u8 fp;  /* enum rs_rule_reg */
        __u8 ra;  /* enum rs_rule_reg, RS_RULE_* */
        __s32 cfa_offset;
        __s32 fp_offset;
        __s32 ra_offset;
};

/* The same hash on both sides; start is not secret, and chosen by nobody. */
static inline __u32 rs_table_slot(__u32 pid, __u64 start) {
        return ((start ^ pid) * 0x9e3779b97f4a7c15ULL >> 40) & (RS_TABLE_PROCESSES - 1);
}

_Static_assert(sizeof(struct rs_table_process) == 32, "layout");
_Static_assert(sizeof(struct rs_table_mapping) == 32, "layout");
_Static_assert(sizeof(struct rs_table_rule) == 16, "layout");
_Static_assert(RS_TABLE_HEAP_AT % RS_TABLE_CHUNK == 0, "chunks");
