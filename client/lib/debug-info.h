/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reads DWARF with libdw: which functions were inlined at an address, and what line of which file each is at.
 *
 * libdw believes much of what a file says. So this is called in a process that has nothing to lose (debug-worker.h), and
 * bounds only what would otherwise go on for ever.
 */

#include "debug-lines.h"

/* An address in a relocatable file, where each section is at one that none of another reaches. */
#define DEBUG_INFO_SECTION_ADDRESS(section, offset) ((((uint64_t) (section) + 1) << 32) + (offset))

typedef struct DebugInfoRequest {
        int fd;     /* of the file that has the debug information; borrowed, as the next */
        int alt_fd; /* of the one that it shares with others (dwz); -1: it names none */
        const uint64_t *addresses; /* as the file counts them, ascending, no two the same */
        size_t n_addresses;
        bool ask_first;      /* no other file can be opened yet */
        bool relocatable;    /* the file is, as a kernel's module: addresses as above */
        uint64_t code_start; /* the lowest address of code in the program, 0: not known */
} DebugInfoRequest;

/* Called when more is known of lines; negative: give up. */
typedef int (*DebugInfoFunc)(DebugLines *lines, void *userdata);

/*
 * Sets in lines, which has as many addresses as the request, all those of which something is known. -EAGAIN: nothing was set,
 * since some of it is in other files, which are the wishes in lines now. -EBADMSG: libdw can do nothing with the file.
 * -ENODATA: it has nothing but line tables, of which those that need nothing else were read. -EFBIG: more than a file may
 * ask for.
 */
int debug_info_read(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata);
