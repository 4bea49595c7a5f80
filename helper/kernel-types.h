/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The few of the kernel's types that the programs name. To relocate the programs, libbpf would compare each of their
 * names with those of all that there are (130,000) in each session: nearly half of what it took to begin one. So the keeper
 * picks these out, once, of /sys/kernel/btf/vmlinux and of nothing else. And what programs on tracepoints, and iterators,
 * are attached to, by number: libbpf would read all of the types for that.
 */

#include <stdint.h>

#define KERNEL_TRACED 7

struct kernel_types {
        uint32_t picked; /* 0: libbpf has to do its own work */
        uint32_t traced[KERNEL_TRACED]; /* in kernel_traced's order; 0: it has to, for those */
};

extern const char *const kernel_traced[KERNEL_TRACED];

struct btf;

/*
 * programs: the types of the BPF programs. Returns a sealed memfd with the kernel's of the same names, in the format of
 * BTF; -errno: there is none.
 */
int kernel_types_make(const struct btf *programs, struct kernel_types *ret);
/* For objects that are opened from here on in this process. 0 or -errno. */
int kernel_types_use(const struct kernel_types *types);
