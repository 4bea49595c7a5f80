/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks arrive as addresses, leaf apart from its callers, and leave as nodes of a tree of frames. In
 * between they are cut where they begin (start-function.h), or hung below [truncated] where they do
 * not show their beginning, so that the half of a stack is never taken for a whole one.
 */

#include "writer.h"

#include <string.h>

#include "kernel-frames.h"
#include "processes.h"
#include "raw-stacks.h"
#include "start-function.h"
#include "table.h"
#include "util.h"

#define RAW_STACKS_BYTES (128U << 20)
/* Resolved stacks that are remembered; then all are forgotten, and found again in the store's own tables. */
#define RESOLVED_MAX (1U << 20)
#define MAPPED_MAX (1U << 20)
#define FRAMES_KNOWN_MAX (1U << 20)
/* A stack as in a record, and its leaf. */
#define FRAMES_MAX (255 + 1)

struct Writer {
        Store *store;
        Processes processes;
        RawStacks raw_stacks;
        Table resolved; /* version of the process and walk end, raw stack, leaf (0: without) -> outcome_pack() */
        Table frames;   /* of files, with a name: version of the process, address, interrupted -> id << 1 | start */
        Table mapped;   /* process, start, end and file: what is in the store already */
        KernelFrames kernel;
        int64_t truncated_frame_id;
        WriterStatistics statistics;
};

/* One frame on its way into the store. */
typedef struct Frame {
        uint64_t address;
        int64_t id;        /* 0: not in the store yet */
        Resolved resolved; /* then */
        bool kernel;
        bool interrupted;
        bool start; /* nobody called it */
} Frame;

/* Innermost first. */
typedef struct Chain {
        Frame frames[FRAMES_MAX];
        size_t n;
        size_t n_kernel;
        bool truncated;
        bool settled; /* resolving it again would give the same */
} Chain;

static uint64_t outcome_pack(int64_t stack_id, bool truncated) {
        return (uint64_t) stack_id << 2 | truncated << 1 | 1;
}

static int64_t outcome_stack(uint64_t outcome) {
        return (int64_t) (outcome >> 2);
}

static bool outcome_truncated(uint64_t outcome) {
        return outcome & 2;
}

DEFINE_CLEANUP(Writer, writer_free)

int writer_new(Writer **ret, Store *store, Symbolizer *symbolizer, uint64_t start) {
        _cleanup_(writer_freep) Writer *writer = calloc(1, sizeof(Writer));

        if (!writer)
                return -ENOMEM;
        writer->store = store;
        processes_init(&writer->processes, store, symbolizer, start);
        raw_stacks_init(&writer->raw_stacks, RAW_STACKS_BYTES);
        kernel_frames_init(&writer->kernel, store);
        *ret = TAKE_PTR(writer);
        return 0;
}

Writer *writer_free(Writer *writer) {
        if (!writer)
                return NULL;
        processes_done(&writer->processes);
        raw_stacks_done(&writer->raw_stacks);
        kernel_frames_done(&writer->kernel);
        table_done(&writer->resolved);
        table_done(&writer->frames);
        table_done(&writer->mapped);
        free(writer);
        return NULL;
}

/* ---- files and mappings ---- */

static int get_file_id(Writer *writer, MappedFile *file, int64_t *ret) {
        int64_t id = (int64_t) (uintptr_t) file->userdata;
        int r;

        if (id == 0) {
                r = store_add_file(writer->store, file->path, (uint64_t) file->dev_major << 32 | file->dev_minor,
                                   file->inode, file->size, file->build_id, file->build_id_len, &id);
                if (r < 0)
                        return r;
                file->userdata = (void *) (uintptr_t) id;
        }
        *ret = id;
        return 0;
}

/* Only for processes that have samples: most children of a shell script never do. */
static int write_mappings(Writer *writer, Process *process, int64_t time) {
        uint64_t generation = address_space_get_generation(process->space);
        size_t n;
        int r;

        if (process->mappings_written && process->written_generation == generation)
                return 0;

        n = address_space_get_n_mappings(process->space);
        for (size_t i = 0; i < n; i++) {
                uint64_t start, end, offset;
                MappedFile *file;
                int64_t file_id;
                TableKey key;

                address_space_get_mapping(process->space, i, &start, &end, &offset, &file);
                r = get_file_id(writer, file, &file_id);
                if (r < 0)
                        return r;
                /* Addresses are multiples of a page, and file ids far below 2^52. */
                key = (TableKey){ process->id, start | (file_id & 0xfff), end ^ ((uint64_t) file_id >> 12) };
                if (table_get(&writer->mapped, key))
                        continue;
                r = store_add_mapping(writer->store, process->id, start, end, offset, file_id, time);
                if (r < 0)
                        return r;
                if (writer->mapped.n >= MAPPED_MAX)
                        table_clear(&writer->mapped);
                r = table_put(&writer->mapped, key, 1);
                if (r < 0)
                        return r;
        }
        process->mappings_written = true;
        process->written_generation = generation;
        return 0;
}

/* ---- stacks ---- */

static Frame frame_make(uint64_t address, bool interrupted) {
        return (Frame){
                .address = address,
                .kernel = RINGSIDE_FRAME_IS_KERNEL(address),
                .interrupted = interrupted,
        };
}

static void chain_add(Chain *chain, uint64_t address, bool interrupted) {
        if (chain->n < FRAMES_MAX)
                chain->frames[chain->n++] = frame_make(address, interrupted);
}

static void chain_collect(Chain *chain, const RingsideRecord *record, uint64_t leaf, const RawStack *raw) {
        if (leaf != 0)
                chain_add(chain, leaf, /* interrupted= */ true);
        for (size_t i = 0; raw && i < raw->n_frames; i++)
                /* Below the kernel part stands the instruction that entered it. */
                chain_add(chain, raw->frames[i], record->sample.kernel_mode && i == raw->n_kernel);
        while (chain->n_kernel < chain->n && chain->frames[chain->n_kernel].kernel)
                chain->n_kernel++;
}

static bool chain_is_mapped(const Chain *chain, const AddressSpace *space) {
        for (size_t i = chain->n_kernel; i < chain->n; i++)
                if (!chain->frames[i].kernel && !address_space_contains(space, chain->frames[i].address))
                        return false;
        return true;
}

/* Reads the mappings if the chain suggests that they are not what they were. */
static int chain_settle(Writer *writer, Process *process, Chain *chain) {
        int r;

        if (chain_is_mapped(chain, process->space)) {
                chain->settled = true;
                return process_refresh(&writer->processes, process, REFRESH_ROUTINE);
        }
        /* While the last reading is too recent, the next sample asks again. */
        r = process_refresh(&writer->processes, process, REFRESH_MISSING);
        chain->settled = r > 0 || process->gone;
        return r;
}

static TableKey frame_key(const Process *process, const Frame *f) {
        return (TableKey){ process->version, f->address, f->interrupted };
}

static int frame_resolve(Writer *writer, Process *process, Frame *f) {
        uint64_t known;
        int r;

        if (f->kernel)
                return 0;
        known = table_get(&writer->frames, frame_key(process, f));
        if (known != 0) {
                f->id = (int64_t) (known >> 1);
                f->start = known & 1;
                return 0;
        }
        r = address_space_resolve(process->space, f->address, /* return_address= */ !f->interrupted, &f->resolved);
        if (r < 0)
                return r;
        f->start = start_function_is(process->space, f->address, &f->resolved, f->interrupted);
        return 0;
}

static int chain_resolve(Writer *writer, Process *process, Chain *chain) {
        int r = 0;

        for (size_t i = chain->n_kernel; i < chain->n && r >= 0; i++)
                r = frame_resolve(writer, process, &chain->frames[i]);
        return r;
}

/*
 * Ends the chain at the function that nobody called; what the walk found beyond it was no frame. Start
 * functions that follow each other (main's caller and its callers) all belong to it.
 */
static bool chain_cut(Chain *chain) {
        for (size_t i = chain->n_kernel; i < chain->n; i++) {
                if (!chain->frames[i].start)
                        continue;
                while (i + 1 < chain->n && chain->frames[i + 1].start)
                        i++;
                chain->n = i + 1;
                return true;
        }
        return false;
}

static int store_user_frame(Writer *writer, Process *process, Frame *f) {
        const Resolved *resolved = &f->resolved;
        int64_t file_id;
        int r;

        r = get_file_id(writer, resolved->file, &file_id);
        if (r < 0)
                return r;
        r = store_add_frame(writer->store, file_id, resolved->address, resolved->name, resolved->name_offset, false,
                            &f->id);
        if (r < 0)
                return r;
        /* A name that comes from elsewhere, or is still to come, is asked for again. */
        if (!resolved->name || resolved->file->path[0] != '/')
                return 0;
        if (writer->frames.n >= FRAMES_KNOWN_MAX)
                table_clear(&writer->frames);
        return table_put(&writer->frames, frame_key(process, f), (uint64_t) f->id << 1 | f->start);
}

static int frame_store(Writer *writer, Process *process, Frame *f) {
        if (f->id > 0)
                return 0;
        return f->kernel ? kernel_frames_store(&writer->kernel, f->address, f->interrupted, &f->id)
                         : store_user_frame(writer, process, f);
}

static int chain_store(Writer *writer, Process *process, Chain *chain, int64_t *ret) {
        int64_t stack_id = 0;
        int r;

        if (chain->truncated) {
                if (writer->truncated_frame_id == 0) {
                        r = store_add_frame(writer->store, 0, 0, "[truncated]", 0, false, &writer->truncated_frame_id);
                        if (r < 0)
                                return r;
                }
                r = store_add_stack(writer->store, 0, writer->truncated_frame_id, &stack_id);
                if (r < 0)
                        return r;
        }
        for (size_t i = chain->n; i-- > 0;) {
                r = frame_store(writer, process, &chain->frames[i]);
                if (r < 0)
                        return r;
                r = store_add_stack(writer->store, stack_id, chain->frames[i].id, &stack_id);
                if (r < 0)
                        return r;
        }
        *ret = stack_id;
        return 0;
}

static bool walk_is_whole(enum RingsideWalkEnd end) {
        return end == RINGSIDE_WALK_NONE || end == RINGSIDE_WALK_COMPLETE;
}

/* Remembers an outcome for as long as the process's mappings are what they were. */
static int remember(Writer *writer, const Process *process, TableKey key, uint64_t outcome) {
        key.a = process->version << 8 | (key.a & 0xff); /* which reading the mappings may have changed */
        if (writer->resolved.n >= RESOLVED_MAX)
                table_clear(&writer->resolved);
        return table_put(&writer->resolved, key, outcome);
}

/* Callers, and a leaf unless it is 0. */
static int resolve_chain(Writer *writer, Process *process, const RingsideRecord *record, uint64_t leaf, TableKey key,
                         uint64_t *ret, bool *ret_settled) {
        const RawStack *raw = record->sample.stack != 0 ? raw_stacks_get(&writer->raw_stacks, record->sample.stack) : NULL;
        bool missing = record->sample.stack != 0 && !raw;
        Chain chain;
        int64_t stack_id;
        int r;

        chain.n = chain.n_kernel = 0;
        chain.truncated = chain.settled = false;

        if (missing)
                writer->statistics.unresolved++;
        chain_collect(&chain, record, leaf, raw);
        r = chain_settle(writer, process, &chain);
        if (r < 0)
                return r;
        r = write_mappings(writer, process, (int64_t) (record->time - writer->processes.start));
        if (r < 0)
                return r;
        r = chain_resolve(writer, process, &chain);
        if (r < 0)
                return r;
        chain.truncated = missing || (!walk_is_whole(record->sample.walk_end) && !chain_cut(&chain));
        r = chain_store(writer, process, &chain, &stack_id);
        if (r < 0)
                return r;

        *ret = outcome_pack(stack_id, chain.truncated);
        *ret_settled = chain.settled && !missing;
        key.c = leaf;
        return *ret_settled ? remember(writer, process, key, *ret) : 0;
}

/*
 * A leaf above callers that were resolved before, which is what most new pairs of both are. Returns 1 when that
 * is so, 0 when all is to be resolved together.
 */
static int resolve_leaf(Writer *writer, Process *process, const RingsideRecord *record, TableKey key, uint64_t *ret) {
        Frame leaf = frame_make(record->sample.leaf, /* interrupted= */ true);
        uint64_t callers;
        int64_t stack_id;
        int r;

        key.c = 0;
        callers = table_get(&writer->resolved, key);
        if (callers == 0 || (!leaf.kernel && !address_space_contains(process->space, leaf.address)))
                return 0;
        r = frame_resolve(writer, process, &leaf);
        if (r < 0)
                return r;
        if (leaf.start) /* then it may be where the stack begins */
                return 0;
        r = frame_store(writer, process, &leaf);
        if (r < 0)
                return r;
        r = store_add_stack(writer->store, outcome_stack(callers), leaf.id, &stack_id);
        if (r < 0)
                return r;
        *ret = outcome_pack(stack_id, outcome_truncated(callers));
        key.c = record->sample.leaf;
        r = remember(writer, process, key, *ret);
        return r < 0 ? r : 1;
}

static int resolve(Writer *writer, Process *process, const RingsideRecord *record, TableKey key, uint64_t *ret) {
        uint64_t callers;
        bool settled;
        int r;

        if (record->sample.leaf == 0 || record->sample.stack == 0)
                return resolve_chain(writer, process, record, record->sample.leaf, key, ret, &settled);
        r = process_refresh(&writer->processes, process, REFRESH_ROUTINE);
        if (r < 0)
                return r;
        if (r > 0)
                key.a = process->version << 8 | (key.a & 0xff);
        r = resolve_leaf(writer, process, record, key, ret);
        if (r != 0)
                return MIN(r, 0);
        r = resolve_chain(writer, process, record, record->sample.leaf, key, ret, &settled);
        if (r < 0 || !settled)
                return r;
        /* The next leaf then finds its callers. */
        return resolve_chain(writer, process, record, 0, key, &callers, &settled);
}

static int handle_sample(Writer *writer, const RingsideRecord *record) {
        uint64_t outcome;
        Thread *thread;
        TableKey key;
        int r;

        r = processes_get_thread(&writer->processes, record->pid, record->tid, &thread);
        if (r < 0)
                return r;

        key = (TableKey){
                .a = thread->process->version << 8 | (unsigned) record->sample.walk_end << 1 | record->sample.kernel_mode,
                .b = record->sample.stack,
                .c = record->sample.leaf,
        };
        outcome = table_get(&writer->resolved, key);
        if (outcome == 0) {
                r = resolve(writer, thread->process, record, key, &outcome);
                if (r < 0)
                        return r;
        }

        r = store_add_sample(writer->store, &(StoreSample){
                                                    .time = (int64_t) (record->time - writer->processes.start),
                                                    .thread_id = thread->id,
                                                    .stack_id = outcome_stack(outcome),
                                                    .weight = record->sample.weight,
                                                    .event = record->sample.event,
                                                    .cpu = record->cpu,
                                                    .target = record->sample.target,
                                                    .kernel_mode = record->sample.kernel_mode,
                                                    .walk_end = record->sample.walk_end,
                                            });
        if (r < 0)
                return r;
        writer->statistics.samples++;
        if (outcome_truncated(outcome))
                writer->statistics.truncated++;
        return 0;
}

static int handle_stack(Writer *writer, const RingsideRecord *record) {
        uint32_t n = MIN(record->stack.n_frames, 255U);
        int r;

        r = raw_stacks_put(&writer->raw_stacks, record->stack.id, record->stack.frames,
                           MIN(record->stack.n_kernel, n), n);
        writer->statistics.stacks = writer->raw_stacks.n_distinct;
        return r;
}

static int handle_names(Writer *writer, const RingsideRecord *record) {
        int r = kernel_frames_take_names(&writer->kernel, record);

        /* What was resolved without names is resolved again. */
        if (r > 0)
                table_clear(&writer->resolved);
        return MIN(r, 0);
}

int writer_handle(Writer *writer, const RingsideRecord *record) {
        switch (record->type) {
        case RINGSIDE_SAMPLE:
                return handle_sample(writer, record);
        case RINGSIDE_STACK:
                return handle_stack(writer, record);
        case RINGSIDE_PROCESS:
                return processes_handle(&writer->processes, record);
        case RINGSIDE_KERNEL_NAMES:
                return handle_names(writer, record);
        case RINGSIDE_MAPPING:
                return 0;
        }
        return 0;
}

void writer_get_statistics(const Writer *writer, WriterStatistics *ret) {
        *ret = writer->statistics;
        ret->processes = writer->processes.n;
}
