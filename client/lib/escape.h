/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What ringside_escape() is built on, for the exports that have rules of their own. */

#include <stddef.h>
#include <stdint.h>

#include "util.h"

/* Bytes of the well-formed UTF-8 character s starts with, which is put into ret; 0: it does not, or ends. */
size_t utf8_decode(const char *s, uint32_t *ret);
