/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Functions by their instructions. A sample is where its address is, whatever the function is called there: so a
 * file's symbols say how far code goes, and the addresses of frames are counted for the instruction they are in. That of a
 * caller is inside the call.
 */

#include "functions.h"
#include "ringside.h"
#include "snapshot.h"

/* Embedded; all zero is empty. */
typedef struct FunctionCode {
        struct FunctionPiece *pieces;
        RingsideCode *codes; /* of as many pieces */
        size_t n;
} FunctionCode;

/* See ringside_profile_get_code(). ret is empty. 0 or -ENOMEM. */
int function_code_get(FunctionCode *ret, const Snapshot *snapshot, Functions *functions, const char *function,
                      const RingsideCodeOptions *options);
void function_code_done(FunctionCode *code);
