/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A helper on a kernel that is too old, as far as it asks. Linked in place of libbpf_probe_bpf_helper(). */

#include <bpf/libbpf.h>

int __wrap_libbpf_probe_bpf_helper(enum bpf_prog_type type, enum bpf_func_id id, const void *opts);

int __wrap_libbpf_probe_bpf_helper(enum bpf_prog_type type, enum bpf_func_id id, const void *opts) {
        return type == BPF_PROG_TYPE_PERF_EVENT && id == BPF_FUNC_user_ringbuf_drain && !opts ? 0 : -1;
}
