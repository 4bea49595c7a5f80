/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decode.h"

#include <string.h>

_Static_assert(RINGSIDE_FRAME_KERNEL == RS_FRAME_KERNEL, "public and wire values agree");
_Static_assert(RINGSIDE_FRAME_EXACT == RS_FRAME_EXACT, "public and wire values agree");
_Static_assert(RINGSIDE_FRAME_KERNEL_JIT == RS_FRAME_KERNEL_JIT, "public and wire values agree");
_Static_assert(RINGSIDE_FRAME_KERNEL_UNKNOWN == RS_FRAME_KERNEL_UNKNOWN, "public and wire values agree");
_Static_assert((int) RINGSIDE_WALK_END_MAX == (int) RS_WALK_END_MAX, "public and wire values agree");
_Static_assert((int) RINGSIDE_WALK_COMPAT == (int) RS_WALK_COMPAT, "public and wire values agree");
_Static_assert((int) RINGSIDE_WALK_NO_TABLES == (int) RS_WALK_NO_TABLES, "public and wire values agree");
_Static_assert((int) RINGSIDE_WALK_NO_CALL == (int) RS_WALK_NO_CALL, "public and wire values agree");
_Static_assert((int) RINGSIDE_PROCESS_GONE == (int) RS_PROCESS_GONE, "public and wire values agree");

static int decode_sample(const struct rs_sample *sample, uint64_t weight, unsigned n_events, RingsideRecord *ret) {
        unsigned walk_end = sample->r.flags >> RS_WALK_END_SHIFT & RS_WALK_END_MASK;
        bool idle = sample->r.flags & RS_SAMPLE_IDLE;

        /* Numbers are those of a task, but on an idle CPU. */
        if (sample->r.event >= n_events || walk_end >= RS_WALK_END_MAX || (sample->pid == 0) != idle ||
            (sample->tid == 0) != idle)
                return DECODE_MALFORMED;
        *ret = (RingsideRecord){
                .type = RINGSIDE_SAMPLE,
                .time = sample->time,
                .pid = sample->pid,
                .tid = sample->tid,
                .cpu = sample->r.cpu,
                .sample = {
                        .event = sample->r.event,
                        .weight = weight,
                        .kernel_mode = sample->r.flags & RS_SAMPLE_KERNEL_MODE,
                        .idle = idle,
                        .target = sample->r.flags >> RS_SAMPLE_TARGET_SHIFT & RS_SAMPLE_TARGET_MASK,
                        .walk_end = walk_end,
                        .leaf = sample->leaf,
                        .stack = sample->stack,
                },
        };
        return DECODE_OK;
}

static int decode_stack(const struct rs_stack *stack, size_t size, RingsideRecord *ret) {
        size_t n = (size_t) stack->nr_kernel + stack->nr_user;

        if (n > RS_FRAMES_MAX || size != sizeof(*stack) + n * sizeof(__u64) || stack->id == 0 ||
            (stack->pid == 0 && stack->nr_user > 0)) /* an idle CPU */
                return DECODE_MALFORMED;
        *ret = (RingsideRecord){
                .type = RINGSIDE_STACK,
                .pid = stack->pid,
                .cpu = stack->r.cpu,
                .stack = {
                        .id = stack->id,
                        .frames = (const uint64_t *) stack->frames,
                        .n_kernel = stack->nr_kernel,
                        .n_frames = n,
                        .guessed = stack->r.flags & RS_STACK_GUESSED,
                },
        };
        return DECODE_OK;
}

static int decode_process(const struct rs_process *process, RingsideRecord *ret) {
        if (process->r.event == 0 || process->pid == 0 || process->tid == 0)
                return DECODE_MALFORMED;
        if (process->r.event >= RS_PROCESS_KIND_MAX)
                return DECODE_UNKNOWN;
        *ret = (RingsideRecord){
                .type = RINGSIDE_PROCESS,
                .time = process->time,
                .pid = process->pid,
                .tid = process->tid,
                .cpu = process->r.cpu,
                .process = {
                        .kind = process->r.event,
                        .ppid = process->ppid,
                        .inner_pid = process->inner_pid,
                        .kernel = process->r.flags & RS_PROCESS_KERNEL,
                        .start = process->start,
                },
        };
        memcpy(ret->process.comm, process->comm, sizeof(process->comm));
        return DECODE_OK;
}

static int decode_mapping(const struct rs_mapping *mapping, size_t size, RingsideRecord *ret) {
        /* Padding is less than what it pads to. */
        if (mapping->path_len > RS_PATH_MAX || size != (sizeof(*mapping) + mapping->path_len + 7) / 8 * 8 ||
            mapping->pid == 0 || mapping->start >= mapping->end ||
            (mapping->path_len > 0 && strnlen(mapping->path, mapping->path_len) != mapping->path_len - 1))
                return DECODE_MALFORMED;
        *ret = (RingsideRecord){
                .type = RINGSIDE_MAPPING,
                .time = mapping->time,
                .pid = mapping->pid,
                .tid = mapping->pid,
                .cpu = mapping->r.cpu,
                .mapping = {
                        .process_start = mapping->process_start,
                        .start = mapping->start,
                        .end = mapping->end,
                        .offset = mapping->offset,
                        .inode = mapping->inode,
                        .dev_major = mapping->dev_major,
                        .dev_minor = mapping->dev_minor,
                        .deleted = mapping->r.flags & RS_MAPPING_DELETED,
                        .incomplete = mapping->r.flags & RS_MAPPING_INCOMPLETE,
                        .path = mapping->path_len > 0 ? mapping->path : "",
                },
        };
        return DECODE_OK;
}

int decode_record(const void *bytes, size_t size, unsigned n_events, RingsideRecord *ret) {
        const struct rs_record *r = bytes;

        if (size < sizeof(*r) || size > DECODE_RECORD_MAX || r->len != size)
                return DECODE_MALFORMED;
        switch (r->type) {
        case RS_RECORD_SAMPLE:
                return size == sizeof(struct rs_sample) ? decode_sample(bytes, 0, n_events, ret) : DECODE_MALFORMED;
        case RS_RECORD_WSAMPLE:
                return size == sizeof(struct rs_wsample)
                               ? decode_sample(bytes, ((const struct rs_wsample *) bytes)->weight, n_events, ret)
                               : DECODE_MALFORMED;
        case RS_RECORD_STACK:
                return size >= sizeof(struct rs_stack) ? decode_stack(bytes, size, ret) : DECODE_MALFORMED;
        case RS_RECORD_PROCESS:
                return size == sizeof(struct rs_process) ? decode_process(bytes, ret) : DECODE_MALFORMED;
        case RS_RECORD_MAPPING:
                return size >= sizeof(struct rs_mapping) ? decode_mapping(bytes, size, ret) : DECODE_MALFORMED;
        default:
                return DECODE_UNKNOWN;
        }
}
