/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The libraries that unwind-late loads. */

#include "chain.h"

typedef uint64_t LateFunction(uint64_t x, uint64_t (*back)(uint64_t));
