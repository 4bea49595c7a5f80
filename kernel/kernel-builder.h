/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * All that reads the kernel's symbols: from /proc/kallsyms, open already, to ranges and a memfd. It runs in a
 * child of the helper's keeper that has these descriptors and nothing else.
 */

#include <fcntl.h>
#include <stdint.h>

#include "control.h"

/* Of the names, once they are done. */
#define KERNEL_NAMES_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* What is known of the kernel's modules at one time. */
typedef struct KernelGeneration {
        uint64_t number; /* 0: nothing yet */
        int names_fd;    /* sealed memfd, common/kernel-names.h */
        uint32_t next_module;
        struct rs_kernel_ranges ranges;
} KernelGeneration;

/*
 * The kernel's symbols, or -1. The helper's unit has them opened for it, as standard input, which becomes /dev/null
 * here: under it nobody else can. Started without systemd the helper opens them itself, with CAP_SYSLOG.
 */
int kernel_builder_open(void);

/*
 * Makes `next` from what symbols_fd tells of the core, and of those modules that modules_fd has told before
 * to be loaded (-1: of all). Modules of the last generation keep their numbers. names_fd, which is empty, and
 * when it was made are the caller's; the rest is set on success. Returns 0, -ENODATA: there are no addresses
 * to be had; or another -errno.
 */
int kernel_builder_run(int symbols_fd, int modules_fd, const KernelGeneration *last, KernelGeneration *next);
/*
 * Of what /proc/modules says, open already: another one means other modules. Over name, size, state and
 * address of each: not how often it is used, and by whom. Never 0.
 */
uint64_t kernel_modules_hash(int fd);
