/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Where the kernel keeps what it knows of each task: the secrets that tests/leak looks for in what a user is
 * given; and what of a process goes into the ids of its stacks. For root, in a test; no part of the product.
 */

#include "kernel.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___where {
        void *stack;
        void *files;
};

#pragma clang attribute pop

SEC("iter/task")
int tell_addresses(struct bpf_iter__task *ctx) {
        struct task_struct *task = ctx->task;
        struct task_struct___where *where = (void *) task;
        __u64 told[8] = {};
        __u32 tgid = 0;

        if (!task)
                return 0;
        bpf_probe_read_kernel(&told[0], sizeof(told[0]), &task);
        bpf_core_read(&told[1], sizeof(told[1]), &where->stack);
        bpf_core_read(&told[2], sizeof(told[2]), &task->mm);
        bpf_core_read(&told[3], sizeof(told[3]), &task->real_cred);
        bpf_core_read(&told[4], sizeof(told[4]), &task->signal);
        bpf_core_read(&told[5], sizeof(told[5]), &where->files);
        bpf_core_read(&tgid, sizeof(tgid), &task->tgid);
        told[6] = tgid;
        bpf_core_read(&told[7], sizeof(told[7]), &task->self_exec_id);
        bpf_seq_write(ctx->meta->seq, told, sizeof(told));
        return 0;
}
