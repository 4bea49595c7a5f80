/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What objdump makes of a piece of a file. It runs confined, as whatever else reads other people's files, and what it
 * says is bounded, and believed only as far as it can be shown: addresses ascend, and are of the piece.
 */

#include <stddef.h>
#include <stdint.h>

/* Bytes of code, and of an instruction's text. */
#define DISASSEMBLE_SIZE_MAX (1U << 20)
#define DISASSEMBLE_TEXT_MAX 512U

typedef struct DisassembledInstruction {
        uint64_t address;
        size_t text; /* offset */
} DisassembledInstruction;

/* Embedded; all zero is empty. */
typedef struct Disassembly {
        DisassembledInstruction *items; /* by address */
        size_t n, allocated;
        char *text; /* each with a final 0; any other byte may be in it, but no tab */
        size_t text_size, text_allocated;
} Disassembly;

/*
 * fd: of the file; start and end: addresses in it, end past the last byte; deadline: ns CLOCK_MONOTONIC. -ENOPKG: objdump is
 * not to be found. -EFBIG: too much code. -ETIMEDOUT. -ENODATA: it says nothing of it. -EBADMSG: it failed. Nobody else may
 * wait for children of any number meanwhile.
 */
int disassemble(Disassembly *ret, int fd, uint64_t start, uint64_t end, uint64_t deadline);
void disassembly_done(Disassembly *disassembly);
