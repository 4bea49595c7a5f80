/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a fuzz target has: one function that is given bytes, must not crash, and aborts where an
 * answer is wrong. Called by libFuzzer, or by run-corpus.c for every file of a corpus.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
