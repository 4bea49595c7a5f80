/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * All mappings with code of one process, for a client to whom profile-system was granted and who cannot read its
 * maps: an iterator over the process behind a pidfd, from an address on, whose output is records of the
 * ring's own format. The rule is that of samples, asked again for each; a process that it hides has no mappings.
 */

#include "control.h"
#include "kernel.h"
#include "process-key.h"
#include "rule.h"
#include "vma.h"

/* The session writes `from` before it reads; `tid` is ours. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, struct rs_mapping_question);
} rs_mapping_question SEC(".maps");

#define LIST_GOES_ON 0
#define LIST_STOPS 1 /* what was written so far is all */

SEC("iter/task_vma")
int list_mappings(struct bpf_iter__task_vma *ctx) {
        struct vma_scratch *v = vma_scratch_get(VMA_OF_LIST);
        struct rs_mapping_question *question;
        struct task_struct *task = ctx->task;
        struct vm_area_struct *vma = ctx->vma;
        struct process_key key;
        unsigned long start, flags;
        __u64 numbers;
        __u32 zero = 0, tid, size;

        question = bpf_map_lookup_elem(&rs_mapping_question, &zero);
        if (!task || !vma || !question || !v)
                return LIST_GOES_ON;
        /*
         * Read without a helper, for these are all that is done to the many that were told before: a failure yields
         * zero. It goes on with threads that have files of their own; the memory is the same.
         */
        tid = task->pid;
        if (tid == 0 || (question->tid != 0 && question->tid != tid))
                return LIST_STOPS;
        question->tid = tid;
        if (vma->vm_start < question->from)
                return LIST_GOES_ON;
        if (READ_FAILS(start, vma->vm_start) || READ_FAILS(flags, vma->vm_flags) || start < question->from ||
            !(flags & VM_EXEC))
                return LIST_GOES_ON;
        numbers = rule_admits(address_of(task));
        if (!numbers || !process_key_read(&key, task, false))
                return LIST_STOPS;
        if (!vma_read(v, vma))
                return LIST_GOES_ON;
        vma_read_path(v, VMA_OF_LIST);
        size = vma_record(v, numbers >> 32, key.start, bpf_ktime_get_boot_ns());
        if (size > 0)
                bpf_seq_write(ctx->meta->seq, v->record, size);
        return LIST_GOES_ON;
}
