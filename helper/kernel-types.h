/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The few of the kernel's types that the programs name. To relocate the programs, libbpf would read all that
 * there are (130,000, 6 MB) in each session, and compare each name with each: half of what it takes to begin one. So the
 * keeper picks these out, once, of /sys/kernel/btf/vmlinux and of nothing else.
 */

#include <stdint.h>

/* What the iterators are attached to, by number in the kernel's types; 0: there are none, and libbpf does its own work. */
struct kernel_iterators {
        uint32_t task;
        uint32_t task_vma;
        uint32_t module_free; /* 0: this kernel has no modules */
};

struct btf;

/*
 * programs: the types of the BPF programs. Returns a sealed memfd with the kernel's of the same names, in the format of
 * BTF; -errno: nothing is known.
 */
int kernel_types_make(const struct btf *programs, struct kernel_iterators *ret_iterators);
