/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The library that unwind-plt calls, by a stub in its procedure linkage table each time. */

#include "chain.h"

__attribute__((visibility("default"))) uint64_t plt_function(uint64_t x);
