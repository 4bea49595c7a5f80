/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The library that workload-inside has beside it. */

#include "spin.h"

__attribute__((visibility("default"))) uint64_t inner_library(uint64_t x, unsigned int units);
