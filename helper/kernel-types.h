/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The few of the kernel's types that the programs name. To relocate the programs, libbpf would compare each of their
 * names with those of all that there are (130,000) in each session: nearly half of what it took to begin one. So the keeper
 * picks these out, once, of /sys/kernel/btf/vmlinux and of nothing else.
 */

struct btf;

/*
 * programs: the types of the BPF programs. Returns a sealed memfd with the kernel's of the same names, in the format of
 * BTF; -errno: libbpf has to do its own work.
 */
int kernel_types_make(const struct btf *programs);
