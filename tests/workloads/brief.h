/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "spin.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
/* BRIEF comes from the command line. */
#define NUMBERED(name) PASTE(name, BRIEF)
#define brief_first NUMBERED(brief_first)
#define brief_second NUMBERED(brief_second)

__attribute__((visibility("default"))) uint64_t brief_first(uint64_t x, unsigned int units);
__attribute__((visibility("default"))) uint64_t brief_second(uint64_t x, unsigned int units);
