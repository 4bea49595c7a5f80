/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Debug information from debuginfod servers, by build id.
 *
 * elfutils' own client asks them and keeps what came, in its own cache, which gdb and others use as well. It speaks with
 * strangers, may hang in the search for their addresses, and brings a library for each protocol. So it is loaded in a
 * process of its own, which has a deadline; and what it hands over has to have the build id that was asked for.
 */

#include "elf-file.h"

/* GNU's are of 8 to 32; what is longer is Go's, which no server knows. */
#define DEBUGINFOD_ID_MIN 8U
#define DEBUGINFOD_ID_MAX 32U
/* Bytes of one file. */
#define DEBUGINFOD_SIZE_MAX (UINT64_C(2) << 30)
/* After so many files in a row that nobody answered for, servers are taken for dead. */
#define DEBUGINFOD_FAILURES_MAX 2U
/* Files that are asked for: who made the recording might have us ask for ever. */
#define DEBUGINFOD_ASKED_MAX 4096U

/* total: 0: not known yet. */
typedef void (*DebuginfodFunc)(uint64_t done, uint64_t total, void *userdata);

typedef struct DebuginfodRequest {
        const uint8_t *id;
        size_t id_len;
        bool alt;          /* what dwz has made of several is wanted, or a kernel's module: elf_file_new_alt_take_fd() */
        uint64_t deadline; /* ns CLOCK_MONOTONIC, for all that is asked; UINT64_MAX: none */
} DebuginfodRequest;

/* What the process needs to know. */
typedef struct DebuginfodClient {
        const char *urls, *cache_path; /* of the file in the cache */
        /* Negative: give up. total as above. */
        int (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} DebuginfodClient;

/*
 * In a process of its own: the fd of what a server has, or what the cache has. -ENOENT: nobody has it; -ENOPKG: the library
 * is not there; -EFBIG: it is too big; -ECANCELED: progress() said so. Anything else: nobody answered as they should.
 */
int debuginfod_client_find(const DebuginfodClient *client, const uint8_t *id, size_t len);

/* Embedded; zero is one that asks nobody. */
typedef struct Debuginfod {
        const char *urls;  /* separated by spaces; "": nobody is asked, and the cache is looked at; NULL: neither */
        uint64_t timeout;  /* ns for one file */
        DebuginfodFunc progress; /* NULL: none */
        void *userdata;
        /* For tests: what the process does instead. */
        int (*find)(const DebuginfodClient *client, const uint8_t *id, size_t len);

        uint64_t asked; /* for so many files, of which */
        uint64_t fetched, unknown, failed, given_up; /* unknown: no server has it */
        uint64_t not_asked; /* and for so many nobody was, since servers seem to be dead, or it is too many */
        bool is_missing;    /* there is no library to ask with */
        unsigned failures;  /* in a row */
} Debuginfod;

/*
 * The file with the debug information of the one with that build id, from the cache or a server. -ENOENT: for whatever
 * reason it is not to be had; -ENOMEM. The caller must not wait for children of any number meanwhile.
 */
int debuginfod_open(Debuginfod *debuginfod, const DebuginfodRequest *request, ElfFile **ret);
