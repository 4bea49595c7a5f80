/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks arrive as addresses, leaf apart from its callers, and leave as nodes of a tree of frames. In
 * between they are cut where they begin (start-function.h), or hung below [truncated] where they do
 * not show their beginning, so that the half of a stack is never taken for a whole one.
 *
 * A sample with an address in no mapping waits: for the maps to be read again, which is not done all the time, or for
 * the mapping to be told, which comes with one of the next samples. What lies in no mapping after
 * that is remembered, and waits no more.
 */

#include "writer.h"

#include <string.h>

#include "jitdump.h"
#include "kernel-frames.h"
#include "late-names.h"
#include "processes.h"
#include "raw-stacks.h"
#include "self-counts.h"
#include "start-function.h"
#include "table.h"
#include "util.h"
#include "waiting.h"

#define RAW_STACKS_BYTES (128U << 20)
/* Resolved stacks that are remembered; then all are forgotten, and found again in the store's own tables. */
#define RESOLVED_MAX (1U << 20)
#define MAPPED_MAX (1U << 20)
#define PLACES_MAX (1U << 20)
#define GIVEN_UP_MAX (1U << 18)
#define PAGE_SIZE_MIN 4096
/* What stands above a stack that does not show its beginning. */
#define TRUNCATED "[truncated]"
/* How long a sample waits: by what comes after it, and where nothing comes; both ns. */
#define WAIT_STREAM UINT64_C(200000000)
#define WAIT_WALL UINT64_C(350000000)
/* Names that came late, of a process that goes: so long they are read, and so long given, ns; and of all, at the end. */
#define LAST_NAMES UINT64_C(100000000)
#define LAST_NAMES_OF_ALL UINT64_C(2000000000)
/* A stack as in a record, and its leaf. */
#define FRAMES_MAX (255 + 1)

typedef struct Step {
        uint64_t address;
        int64_t frame_id, stack_id;
        bool interrupted, start;
} Step;

/* A chain that was stored, outermost first, as far as its frames are final. */
typedef struct Trail {
        uint64_t version; /* of the process */
        bool truncated;
        size_t n;
        Step steps[FRAMES_MAX];
} Trail;

struct Writer {
        Store *store;
        Processes processes;
        RawStacks raw_stacks;
        Table resolved; /* what raw stacks have no room for, as Asked has it -> outcome_pack() */
        Table places;   /* final frames: file, address in it, interrupted -> id << 1 | start */
        Table mapped;   /* process, start, end and file: what is in the store already */
        Table given_up; /* version of the process, page: nothing is mapped there */
        Waiting waiting;
        uint64_t stream_time; /* of the newest record, ns CLOCK_BOOTTIME */
        KernelFrames kernel;
        int64_t truncated_frame_id;
        SelfCounts self;
        LateNames late;
        bool renamed; /* what was counted had another name, or none */
        uint64_t period; /* the weight of a sample without one */
        Trail last;
        WriterStatistics statistics;
};

/* One frame on its way into the store. */
typedef struct Frame {
        uint64_t address;
        int64_t id;        /* 0: not in the store yet */
        Resolved resolved; /* of user code, unless shared; without a name where the id is known */
        bool shared;       /* with the chain before */
        bool kernel;
        bool interrupted;
        bool start; /* nobody called it */
        bool final; /* looking it up again would give the same */
} Frame;

/* Innermost first. */
typedef struct Chain {
        Frame frames[FRAMES_MAX];
        size_t n;
        size_t n_kernel;
        size_t n_shared; /* of the outermost: as in the one before */
        bool truncated;
        bool settled; /* resolving it again would give the same */
        bool waits;   /* a mapping may still be told */
} Chain;

/* What is to be found out. */
typedef struct Asked {
        TableKey key;  /* version of the process and walk end, id of the raw stack, leaf (0: without) */
        RawStack *raw; /* NULL: there is none */
} Asked;

/* What is done with a sample that has an address in no mapping. */
typedef enum Patience {
        PATIENCE_WAIT,    /* nothing, for now */
        PATIENCE_GIVE_UP, /* it has waited long enough: there is no mapping */
        PATIENCE_NONE,    /* it cannot wait any longer, but others can */
} Patience;

/*
 * What became of a stack: its id, of which a file of 100 GiB would need more than 36 bits, and the number of its
 * innermost function in the counts, 0: not known.
 */
#define OUTCOME_FUNCTION_SHIFT 3
#define OUTCOME_STACK_SHIFT 28
_Static_assert(SELF_NUMBER_MAX <= 1U << (OUTCOME_STACK_SHIFT - OUTCOME_FUNCTION_SHIFT), "a function fits");

static uint64_t outcome_pack(int64_t stack_id, uint32_t function, bool truncated, bool guessed) {
        return (uint64_t) stack_id << OUTCOME_STACK_SHIFT | (uint64_t) function << OUTCOME_FUNCTION_SHIFT | guessed << 2 |
               truncated << 1 | 1;
}

static int64_t outcome_stack(uint64_t outcome) {
        return (int64_t) (outcome >> OUTCOME_STACK_SHIFT);
}

static uint32_t outcome_function(uint64_t outcome) {
        return outcome >> OUTCOME_FUNCTION_SHIFT & ((1U << (OUTCOME_STACK_SHIFT - OUTCOME_FUNCTION_SHIFT)) - 1);
}

static bool outcome_truncated(uint64_t outcome) {
        return outcome & 2;
}

static bool outcome_guessed(uint64_t outcome) {
        return outcome & 4;
}

static int leave_process(Process *process, void *userdata);

DEFINE_CLEANUP(Writer, writer_free)

int writer_new(Writer **ret, Store *store, Symbolizer *symbolizer, uint64_t start) {
        _cleanup_(writer_freep) Writer *writer = calloc(1, sizeof(Writer));

        if (!writer)
                return -ENOMEM;
        writer->store = store;
        writer->period = 1;
        processes_init(&writer->processes, store, symbolizer, start);
        writer->processes.leaving = leave_process;
        writer->processes.userdata = writer;
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
        self_counts_done(&writer->self);
        late_names_done(&writer->late);
        kernel_frames_done(&writer->kernel);
        table_done(&writer->resolved);
        table_done(&writer->places);
        table_done(&writer->mapped);
        table_done(&writer->given_up);
        waiting_done(&writer->waiting);
        free(writer);
        return NULL;
}

void writer_set_period(Writer *writer, uint64_t period) {
        writer->period = period;
}

void writer_set_by_counter(Writer *writer) {
        writer->processes.by_counter = true;
}

/* As in the store. */
static int64_t sample_time(const Writer *writer, const RingsideRecord *record) {
        return (int64_t) (record->time - writer->processes.start);
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

static int write_mapping(Writer *writer, const Process *process, const MappedRange *range, int64_t time) {
        int64_t file_id;
        TableKey key;
        int r;

        r = get_file_id(writer, range->file, &file_id);
        if (r < 0)
                return r;
        /* Addresses are multiples of a page, and file ids far below 2^52. */
        key = (TableKey){ process->id, range->start | (file_id & 0xfff), range->end ^ ((uint64_t) file_id >> 12) };
        if (table_get(&writer->mapped, key))
                return 0;
        r = store_add_mapping(writer->store, process->id, range->start, range->end, range->offset, file_id, time);
        if (r < 0)
                return r;
        if (writer->mapped.n >= MAPPED_MAX)
                table_clear(&writer->mapped);
        return table_put(&writer->mapped, key, 1);
}

/* What is mapped lowest tells which program it is, whether or not it has a sample. */
static int write_lowest(Writer *writer, Process *process, int64_t time) {
        uint64_t generation = address_space_get_generation(process->space);
        MappedRange lowest;
        int r;

        if (process->lowest_written && process->written_generation == generation)
                return 0;
        if (address_space_get_n_mappings(process->space) > 0) {
                address_space_get_mapping(process->space, 0, &lowest);
                r = write_mapping(writer, process, &lowest, time);
                if (r < 0)
                        return r;
        }
        process->lowest_written = true;
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

static void chain_add_caller(Chain *chain, uint64_t frame, bool interrupted) {
        if (!RINGSIDE_FRAME_IS_KERNEL(frame) && (frame & RINGSIDE_FRAME_EXACT))
                chain_add(chain, frame & ~RINGSIDE_FRAME_EXACT, /* interrupted= */ true);
        else
                chain_add(chain, frame, interrupted);
}

static void chain_collect(Chain *chain, const RingsideRecord *record, const RawStack *raw) {
        if (record->sample.leaf != 0)
                chain_add(chain, record->sample.leaf, /* interrupted= */ true);
        for (size_t i = 0; raw && i < raw->n_frames; i++)
                /* Below the kernel part stands the instruction that entered it. */
                chain_add_caller(chain, raw->frames[i], record->sample.kernel_mode && i == raw->n_kernel);
        while (chain->n_kernel < chain->n && chain->frames[chain->n_kernel].kernel)
                chain->n_kernel++;
}

/* Two stacks in a row of a program have most of their callers in common: these need not be looked up again. */
static void chain_share(const Trail *last, const Process *process, Chain *chain) {
        size_t max = MIN(last->n, chain->n > 0 ? chain->n - 1 : 0); /* the innermost is always looked up */

        if (last->version != process->version)
                return;
        for (; chain->n_shared < max; chain->n_shared++) {
                Frame *f = &chain->frames[chain->n - 1 - chain->n_shared];
                const Step *step = &last->steps[chain->n_shared];

                if (f->address != step->address || f->interrupted != step->interrupted)
                        break;
                f->id = step->frame_id;
                f->start = step->start;
                f->shared = f->final = true;
        }
}

static void chain_unshare(Chain *chain) {
        for (; chain->n_shared > 0; chain->n_shared--) {
                Frame *f = &chain->frames[chain->n - chain->n_shared];

                *f = frame_make(f->address, f->interrupted);
        }
}

static TableKey given_up_key(const Process *process, uint64_t address) {
        return (TableKey){ process->version, address / PAGE_SIZE_MIN };
}

static bool frame_is_mapped(const Frame *f, const Process *process) {
        return f->kernel || f->shared || address_space_contains(process->space, f->address);
}

static bool chain_is_mapped(const Chain *chain, const Process *process) {
        for (size_t i = chain->n_kernel; i < chain->n; i++)
                if (!frame_is_mapped(&chain->frames[i], process))
                        return false;
        return true;
}

/* What is not mapped was waited for before. */
static bool chain_is_given_up(const Writer *writer, const Chain *chain, const Process *process) {
        for (size_t i = chain->n_kernel; i < chain->n; i++) {
                const Frame *f = &chain->frames[i];

                if (!frame_is_mapped(f, process) && table_get(&writer->given_up, given_up_key(process, f->address)) == 0)
                        return false;
        }
        return true;
}

static int chain_give_up(Writer *writer, Process *process, const Chain *chain) {
        for (size_t i = chain->n_kernel; i < chain->n; i++) {
                const Frame *f = &chain->frames[i];
                int r;

                if (frame_is_mapped(f, process))
                        continue;
                if (writer->given_up.n >= GIVEN_UP_MAX)
                        table_clear(&writer->given_up);
                r = table_put(&writer->given_up, given_up_key(process, f->address), 1);
                if (r < 0)
                        return r;
                process->gave_up = true;
        }
        return 0;
}

/* Reads the mappings if the chain suggests that they are not what they were. */
static int chain_settle(Writer *writer, Process *process, Chain *chain, Patience patience) {
        uint64_t version = process->version;
        bool mapped = chain_is_mapped(chain, process);
        int r;

        /* While the last reading is too recent, the next sample asks again. */
        r = process_refresh(&writer->processes, process, mapped ? REFRESH_ROUTINE : REFRESH_MISSING);
        if (r < 0)
                return r;
        if (process->version != version)
                chain_unshare(chain);
        if (mapped) {
                chain->settled = true;
                return 0;
        }
        chain->settled = r > 0 || process->gone;
        if (patience == PATIENCE_GIVE_UP)
                return chain_give_up(writer, process, chain);
        chain->waits = patience == PATIENCE_WAIT && !chain_is_mapped(chain, process) &&
                       !chain_is_given_up(writer, chain, process);
        chain->settled = chain->settled && (patience != PATIENCE_NONE || chain_is_mapped(chain, process));
        return 0;
}

static TableKey place_key(const Frame *f) {
        return (TableKey){ (uintptr_t) f->resolved.file, f->resolved.address, f->interrupted };
}

static int frame_locate(const Writer *writer, Process *process, Frame *f) {
        int r;

        r = address_space_locate(process->space, f->address, /* return_address= */ !f->interrupted, &f->resolved);
        if (r >= 0)
                table_prefetch(&writer->places, place_key(f));
        return r;
}

/* After it was located. What was met in any process has its id. */
static int frame_resolve(const Writer *writer, Process *process, Frame *f) {
        uint64_t known = table_get(&writer->places, place_key(f));
        int r;

        f->final = f->resolved.final;
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

static int chain_resolve(const Writer *writer, Process *process, Chain *chain) {
        int r = 0;

        for (size_t i = chain->n_kernel; i < chain->n && r >= 0; i++)
                if (!chain->frames[i].shared)
                        r = frame_locate(writer, process, &chain->frames[i]);
        for (size_t i = chain->n_kernel; i < chain->n && r >= 0; i++)
                if (!chain->frames[i].shared)
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

static int store_place(Writer *writer, Frame *f) {
        const Resolved *resolved = &f->resolved;
        int64_t file_id;
        int r;

        r = get_file_id(writer, resolved->file, &file_id);
        if (r >= 0)
                r = (f->final ? store_add_frame_once : store_add_frame)(writer->store, file_id, resolved->address, resolved->name,
                                                                        resolved->name_offset, false, &f->id);
        if (r >= 0 && resolved->source)
                r = store_set_line(writer->store, f->id, resolved->source, resolved->line);
        if (r < 0 || !f->final)
                return r;
        if (writer->places.n >= PLACES_MAX)
                table_clear(&writer->places);
        return table_put(&writer->places, place_key(f), (uint64_t) f->id << 1 | f->start);
}

/* By a name that may still turn out to be another's; where there are too many of these, without one. */
static int store_late(Writer *writer, Process *process, Frame *f, int64_t time) {
        const Resolved *resolved = &f->resolved;
        bool full = late_names_is_full(&writer->late, process, resolved->late_until);
        LateFrame late = {
                .program = process->program,
                .address = resolved->address,
                .window = resolved->late_until,
                .first = (uint64_t) time + writer->processes.start,
                .until = resolved->late_until,
                .name = full ? NULL : resolved->name,
        };
        int r;

        f->id = late_names_get(&writer->late, process, late.address, late.window);
        if (f->id != 0)
                return 0;
        r = get_file_id(writer, resolved->file, &late.file_id);
        if (r >= 0)
                r = (full ? store_add_frame : store_add_frame_once)(writer->store, late.file_id, late.address, late.name,
                                                                    resolved->name_offset, false, &late.frame_id);
        if (r < 0)
                return r;
        f->id = late.frame_id;
        return full ? 0 : late_names_add(&writer->late, process, &late);
}

/* With its mapping: one may have tens of thousands of which hardly any is ever sampled. */
static int frame_store(Writer *writer, Process *process, Frame *f, int64_t time) {
        int r = 0;

        if (f->shared)
                return 0;
        if (f->kernel)
                return kernel_frames_store(&writer->kernel, f->address, f->interrupted, &f->id);
        if (f->resolved.mapped.file)
                r = write_mapping(writer, process, &f->resolved.mapped, time);
        if (r < 0 || f->id != 0)
                return r;
        return f->resolved.late_until != 0 ? store_late(writer, process, f, time) : store_place(writer, f);
}

static int store_truncated(Writer *writer, int64_t *ret) {
        int r;

        if (writer->truncated_frame_id == 0) {
                r = store_add_frame(writer->store, 0, 0, TRUNCATED, 0, false, &writer->truncated_frame_id);
                if (r < 0)
                        return r;
        }
        return store_add_stack(writer->store, 0, writer->truncated_frame_id, ret);
}

/* *ret_callers: where the innermost is called from, 0: there is nothing else. */
static int chain_store(Writer *writer, Process *process, Chain *chain, int64_t time, int64_t *ret,
                       int64_t *ret_callers) {
        int64_t frame_ids[FRAMES_MAX], stack_ids[FRAMES_MAX], root_id = 0, stack_id;
        Trail *last = &writer->last;
        size_t known = chain->n_shared, n_last = last->truncated == chain->truncated ? last->n : 0;
        int r = 0;

        if (chain->n_shared > 0)
                root_id = last->steps[chain->n_shared - 1].stack_id;
        else if (chain->truncated)
                r = store_truncated(writer, &root_id);
        if (r < 0)
                return r;
        last->version = process->version;
        last->truncated = chain->truncated;
        last->n = chain->n_shared;
        *ret_callers = 0;
        for (size_t depth = chain->n_shared; depth < chain->n; depth++) {
                Frame *f = &chain->frames[chain->n - 1 - depth];

                r = frame_store(writer, process, f, time);
                if (r < 0)
                        return r;
                frame_ids[depth] = f->id;
        }
        /* Frames as in the stack before are the same part of the tree, though of another process or elsewhere. */
        for (; known < MIN(chain->n, n_last) && last->steps[known].frame_id == frame_ids[known]; known++)
                stack_ids[known] = last->steps[known].stack_id;
        r = store_add_stacks(writer->store, known > chain->n_shared ? stack_ids[known - 1] : root_id, frame_ids + known,
                             chain->n - known, stack_ids + known);
        if (r < 0)
                return r;
        stack_id = root_id;
        for (size_t depth = chain->n_shared; depth < chain->n; depth++) {
                const Frame *f = &chain->frames[chain->n - 1 - depth];

                *ret_callers = stack_id;
                stack_id = stack_ids[depth];
                if (last->n == depth && (f->kernel || f->final)) {
                        last->steps[depth] = (Step){ f->address, f->id, stack_id, f->interrupted, f->start };
                        last->n++;
                }
        }
        *ret = stack_id;
        return 0;
}

/*
 * Which function a stack ends in, by its innermost frame, which is stored; NULL: it has none. What is called as
 * it was in any process was not looked up this time.
 */
static int count_as(Writer *writer, Process *process, const Frame *f, bool truncated, uint32_t *ret) {
        int64_t id = f ? f->id : truncated ? writer->truncated_frame_id : 0;
        FunctionPlace place = { .symbol = truncated ? TRUNCATED : FUNCTION_NO_STACK, .path = "" };
        Symbolizer *symbolizer = writer->processes.symbolizer;
        KernelPlace kernel;
        Resolved resolved;
        int r = 0;

        *ret = self_counts_get(&writer->self, id);
        if (*ret != 0)
                return 0;
        if (f && f->kernel) {
                r = kernel_frames_find(&writer->kernel, f->address, f->interrupted, &kernel);
                if (r >= 0)
                        place = (FunctionPlace){ .symbol = kernel.name, .path = kernel.path, .address = kernel.address, .kernel = true };
        } else if (f) {
                resolved = f->resolved;
                if (f->final && !resolved.name)
                        r = address_space_resolve(process->space, f->address, !f->interrupted, &resolved);
                /* Which are needed when the file may have gone. */
                place = (FunctionPlace){ .address = resolved.address };
                if (r >= 0 && resolved.name)
                        r = symbolizer_intern(symbolizer, resolved.name, &place.symbol);
                if (r >= 0)
                        r = symbolizer_intern(symbolizer, resolved.file->path, &place.path);
        }
        if (r < 0)
                return r;
        /* Names stay where they are. */
        return self_counts_add(&writer->self, id,
                               (TableKey){ (uintptr_t) place.symbol, (uintptr_t) place.path, place.kernel }, &place, ret);
}

static bool walk_is_whole(enum RingsideWalkEnd end) {
        return end == RINGSIDE_WALK_NONE || end == RINGSIDE_WALK_COMPLETE;
}

/* A program of which nothing was remembered yet is not looked for in the table: of short-lived ones most samples are the first. */
static uint64_t recall(const Writer *writer, const Process *process, const Asked *asked) {
        uint64_t outcome = asked->raw ? raw_stack_find(asked->raw, asked->key.a, asked->key.c) : 0;

        if (outcome != 0 || (asked->raw && !asked->raw->overflowed) || process->remembered != process->version)
                return outcome;
        return table_get(&writer->resolved, asked->key);
}

/* Remembers an outcome for as long as the process's mappings are what they were. */
static int remember(Writer *writer, Process *process, const Asked *asked, uint64_t leaf, uint64_t outcome) {
        TableKey key = asked->key;

        key.a = process->version << 8 | (key.a & 0xff); /* which reading the mappings may have changed */
        key.c = leaf;
        if (asked->raw && raw_stack_keep(asked->raw, key.a, key.c, outcome))
                return 0;
        process->remembered = process->version;
        if (writer->resolved.n >= RESOLVED_MAX)
                table_clear(&writer->resolved);
        return table_put(&writer->resolved, key, outcome);
}

/* Returns 0 as the outcome where the sample waits. */
static int resolve_chain(Writer *writer, Process *process, const RingsideRecord *record, const Asked *asked,
                         Patience patience, uint64_t *ret) {
        const RawStack *raw = asked->raw;
        bool missing = record->sample.stack != 0 && !raw, guessed = raw && raw->guessed;
        int64_t time = sample_time(writer, record);
        Chain chain;
        size_t n;
        int64_t stack_id, callers;
        uint32_t function;
        int r;

        chain.n = chain.n_kernel = chain.n_shared = 0;
        chain.truncated = chain.settled = chain.waits = false;

        *ret = 0;
        chain_collect(&chain, record, raw);
        chain_share(&writer->last, process, &chain);
        r = chain_settle(writer, process, &chain, patience);
        if (r < 0)
                return r;
        if (chain.waits)
                return 0;
        if (missing)
                writer->statistics.unresolved++;
        r = write_lowest(writer, process, time);
        if (r < 0)
                return r;
        r = chain_resolve(writer, process, &chain);
        if (r < 0)
                return r;
        n = chain.n;
        chain.truncated = missing || (!walk_is_whole(record->sample.walk_end) && !chain_cut(&chain));
        /* The same frames below another one are others of the tree. */
        if (chain.n != n || chain.truncated != writer->last.truncated)
                chain.n_shared = 0;
        r = chain_store(writer, process, &chain, time, &stack_id, &callers);
        if (r >= 0)
                r = count_as(writer, process, chain.n > 0 ? &chain.frames[0] : NULL, chain.truncated, &function);
        if (r < 0)
                return r;

        *ret = outcome_pack(stack_id, function, chain.truncated, guessed);
        if (!chain.settled || missing)
                return 0;
        /* The next leaf finds its callers; a start function has none. */
        if (record->sample.leaf != 0 && callers != 0 && !chain.frames[0].start) {
                r = remember(writer, process, asked, /* leaf= */ 0,
                             outcome_pack(callers, /* function= */ 0, chain.truncated, guessed));
                if (r < 0)
                        return r;
        }
        return remember(writer, process, asked, record->sample.leaf, *ret);
}

/*
 * A leaf above callers that were resolved before, which is what most new pairs of both are. Returns 1 when that
 * is so, 0 when all is to be resolved together.
 */
static int resolve_leaf(Writer *writer, Process *process, const RingsideRecord *record, const Asked *asked,
                        uint64_t *ret) {
        Frame leaf = frame_make(record->sample.leaf, /* interrupted= */ true);
        Asked without = *asked;
        uint64_t callers;
        int64_t stack_id;
        uint32_t function;
        int r;

        without.key.c = 0;
        callers = recall(writer, process, &without);
        if (callers == 0 || (!leaf.kernel && !address_space_contains(process->space, leaf.address)))
                return 0;
        if (!leaf.kernel) {
                r = frame_locate(writer, process, &leaf);
                if (r >= 0)
                        r = frame_resolve(writer, process, &leaf);
                if (r < 0)
                        return r;
        }
        if (leaf.start) /* then it may be where the stack begins */
                return 0;
        r = frame_store(writer, process, &leaf, sample_time(writer, record));
        if (r < 0)
                return r;
        r = store_add_stack(writer->store, outcome_stack(callers), leaf.id, &stack_id);
        if (r >= 0)
                r = count_as(writer, process, &leaf, outcome_truncated(callers), &function);
        if (r < 0)
                return r;
        *ret = outcome_pack(stack_id, function, outcome_truncated(callers), outcome_guessed(callers));
        r = remember(writer, process, asked, record->sample.leaf, *ret);
        return r < 0 ? r : 1;
}

static int resolve(Writer *writer, Process *process, const RingsideRecord *record, Asked *asked, Patience patience,
                   uint64_t *ret) {
        int r;

        if (record->sample.leaf == 0 || record->sample.stack == 0)
                return resolve_chain(writer, process, record, asked, patience, ret);
        r = process_refresh(&writer->processes, process, REFRESH_ROUTINE);
        if (r < 0)
                return r;
        if (r > 0)
                asked->key.a = process->version << 8 | (asked->key.a & 0xff);
        r = resolve_leaf(writer, process, record, asked, ret);
        if (r != 0)
                return MIN(r, 0);
        return resolve_chain(writer, process, record, asked, patience, ret);
}

/* ---- samples ---- */

/* What it takes is a share of the time, as it is to read what is told. */
static int settle_names(Writer *writer, Process *process) {
        uint64_t start;
        int r;

        if (!process->late || address_space_get_late_end(process->space) == UINT64_MAX)
                return 0;
        start = now_ns(CLOCK_MONOTONIC);
        r = late_names_settle(&writer->late, writer->store, process, /* final= */ false, start + LAST_NAMES);
        address_space_note_names_cost(process->space, now_ns(CLOCK_MONOTONIC) - start);
        writer->renamed |= r > 0;
        return MIN(r, 0);
}

/* By the deadline, ns CLOCK_MONOTONIC, however much there is. */
static int settle_last_names(Writer *writer, Process *process, uint64_t deadline) {
        int r;

        if (!process->late)
                return 0;
        r = address_space_read_last_names(process->space, MIN(deadline, now_ns(CLOCK_MONOTONIC) + LAST_NAMES));
        if (r >= 0)
                r = late_names_settle(&writer->late, writer->store, process, /* final= */ true,
                                      MIN(deadline, now_ns(CLOCK_MONOTONIC) + LAST_NAMES));
        writer->renamed |= r > 0;
        return MIN(r, 0);
}

/* outcome 0: the sample waits. */
static int sample_resolve(Writer *writer, Process *process, const RingsideRecord *record, Patience patience,
                          uint64_t *ret) {
        Asked asked = {
                .key = { .b = record->sample.stack, .c = record->sample.leaf },
                .raw = record->sample.stack != 0 ? raw_stacks_get(&writer->raw_stacks, record->sample.stack) : NULL,
        };
        int r;

        r = address_space_update_names(process->space, record->time);
        if (r < 0)
                return r;
        if (r > 0) {
                process_invalidate(&writer->processes, process);
                r = settle_names(writer, process);
                if (r < 0)
                        return r;
        }
        asked.key.a = process->version << 8 | (unsigned) record->sample.walk_end << 1 | record->sample.kernel_mode;
        *ret = recall(writer, process, &asked);
        if (outcome_function(*ret) != 0) /* else it is that of callers alone */
                return 0;
        if (address_space_pass(process->space, record->time)) {
                process_invalidate(&writer->processes, process);
                asked.key.a = process->version << 8 | (asked.key.a & 0xff);
        }
        return resolve(writer, process, record, &asked, patience, ret);
}

static int sample_store(Writer *writer, const RingsideRecord *record, int64_t thread_id, uint64_t outcome) {
        int r;

        r = store_add_sample(writer->store, &(StoreSample){
                                                    .time = sample_time(writer, record),
                                                    .thread_id = thread_id,
                                                    .stack_id = outcome_stack(outcome),
                                                    .weight = record->sample.weight,
                                                    .event = record->sample.event,
                                                    .cpu = record->cpu,
                                                    .target = record->sample.target,
                                                    .kernel_mode = record->sample.kernel_mode,
                                                    .guessed = outcome_guessed(outcome),
                                                    .walk_end = record->sample.walk_end,
                                            });
        if (r < 0)
                return r;
        writer->statistics.samples++;
        if (record->sample.event == 0)
                self_counts_count(&writer->self, outcome_function(outcome), record->sample.weight ?: writer->period);
        if (outcome_truncated(outcome))
                writer->statistics.truncated++;
        return 0;
}

static int waiting_resolve(Writer *writer, WaitingSample *sample, Patience patience) {
        int r = sample_resolve(writer, sample->process, &sample->record, patience, &sample->outcome);

        if (r < 0)
                return r;
        sample->generation = address_space_get_generation(sample->process->space);
        if (sample->outcome != 0) {
                sample->process->n_waiting--;
                sample->process = NULL;
        }
        return 0;
}

/* A process is about to change what its addresses mean: its samples are resolved as it is now. */
static int settle_process(Process *process, Writer *writer) {
        for (size_t i = 0; i < writer->waiting.n && process->n_waiting > 0; i++) {
                WaitingSample *sample = waiting_get(&writer->waiting, i);
                int r;

                if (sample->process != process)
                        continue;
                r = waiting_resolve(writer, sample, PATIENCE_NONE);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* It is about to go, or to be another program: what is not known of it by now never will be. */
static int leave_process(Process *process, void *userdata) {
        int r = settle_process(process, userdata);

        return r < 0 ? r : settle_last_names(userdata, process, UINT64_MAX);
}

/* Stores what has waited, up to the first that still does. now: ns CLOCK_MONOTONIC, 0: not looked at. */
static int drain(Writer *writer, uint64_t now, bool all) {
        while (writer->waiting.n > 0) {
                WaitingSample *sample = waiting_get(&writer->waiting, 0);
                int r;

                if (sample->outcome == 0) {
                        bool late = all || writer->stream_time >= sample->record.time + WAIT_STREAM ||
                                    (now != 0 && now >= sample->arrived + WAIT_WALL);

                        if (!late && now == 0 &&
                            sample->generation == address_space_get_generation(sample->process->space))
                                return 0;
                        r = waiting_resolve(writer, sample, late ? PATIENCE_GIVE_UP : PATIENCE_WAIT);
                        if (r < 0 || sample->outcome == 0)
                                return r;
                }
                r = sample_store(writer, &sample->record, sample->thread_id, sample->outcome);
                if (r < 0)
                        return r;
                waiting_pop(&writer->waiting);
        }
        return 0;
}

static int wait_for_mappings(Writer *writer, const RingsideRecord *record, const Thread *thread, uint64_t outcome) {
        WaitingSample sample = {
                .record = *record,
                .process = outcome == 0 ? thread->process : NULL,
                .thread_id = thread->id,
                .outcome = outcome,
                .arrived = now_ns(CLOCK_MONOTONIC),
                .generation = address_space_get_generation(thread->process->space),
        };
        int r;

        r = waiting_push(&writer->waiting, &sample);
        if (r == -ENOBUFS) {
                r = drain(writer, 0, /* all= */ true);
                if (r >= 0)
                        r = waiting_push(&writer->waiting, &sample);
        }
        if (r < 0)
                return r;
        thread->process->n_waiting += outcome == 0;
        return drain(writer, 0, /* all= */ false);
}

static int handle_sample(Writer *writer, const RingsideRecord *record) {
        uint64_t outcome;
        Thread *thread;
        int r;

        r = processes_get_thread(&writer->processes, record->pid, record->tid, &thread);
        if (r < 0)
                return r;
        r = sample_resolve(writer, thread->process, record, PATIENCE_WAIT, &outcome);
        if (r < 0)
                return r;
        if (outcome == 0 || writer->waiting.n > 0)
                return wait_for_mappings(writer, record, thread, outcome);
        return sample_store(writer, record, thread->id, outcome);
}

/* ---- the other records ---- */

static int handle_stack(Writer *writer, const RingsideRecord *record) {
        uint32_t n = MIN(record->stack.n_frames, 255U);
        int r;

        r = raw_stacks_put(&writer->raw_stacks, record->stack.id, record->stack.frames,
                           MIN(record->stack.n_kernel, n), n, record->stack.guessed);
        writer->statistics.stacks = writer->raw_stacks.n_distinct;
        return r;
}

static int handle_names(Writer *writer, const RingsideRecord *record) {
        int r = kernel_frames_take_names(&writer->kernel, record);

        /* What was resolved without names is resolved again. */
        if (r > 0) {
                table_clear(&writer->resolved);
                raw_stacks_forget_outcomes(&writer->raw_stacks);
                writer->last.n = 0;
        }
        return MIN(r, 0);
}

/* Memory in which a JIT may have code, or the file in which it says what code that is; that is found by reading maps. */
static bool is_of_jit(const ToldMapping *told) {
        return told->path[0] == 0 || jitdump_path_get_pid(told->path, strlen(told->path)) > 0;
}

static int handle_mapping(Writer *writer, const RingsideRecord *record) {
        ToldMapping told = {
                .time = record->time,
                .start = record->mapping.start,
                .end = record->mapping.end,
                .offset = record->mapping.offset,
                .inode = record->mapping.inode,
                .dev_major = record->mapping.dev_major,
                .dev_minor = record->mapping.dev_minor,
                .deleted = record->mapping.deleted,
                .path = record->mapping.path,
        };
        Process *process;
        int r;

        r = processes_get(&writer->processes, record->pid, record->mapping.process_start, &process);
        if (r < 0 || process->kernel)
                return r;
        told.gone = process->gone;
        if (address_space_contradicts(process->space, &told) || address_space_forget_rewritten(process->space, &told)) {
                r = settle_process(process, writer);
                if (r < 0)
                        return r;
        }
        if (address_space_pass(process->space, writer->stream_time))
                process_invalidate(&writer->processes, process);
        r = address_space_tell(process->space, &told);
        if (r == -ENOMEM)
                return r;
        /* What was looked up in vain may be there now. */
        if (r == TOLD_OTHER || (r == TOLD_NEW && process->gave_up))
                process_invalidate(&writer->processes, process);
        if (r != TOLD_KNOWN && is_of_jit(&told)) {
                r = process_refresh(&writer->processes, process, REFRESH_MISSING);
                if (r < 0)
                        return r;
        }
        return drain(writer, 0, /* all= */ false);
}

int writer_handle(Writer *writer, const RingsideRecord *record) {
        /* Mappings that were asked for are as new as the answer, and the stream may be far behind. */
        if (record->type == RINGSIDE_SAMPLE || record->type == RINGSIDE_PROCESS)
                writer->stream_time = MAX(writer->stream_time, record->time);
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
                return handle_mapping(writer, record);
        }
        return 0;
}

int writer_tick(Writer *writer) {
        return writer->waiting.n > 0 ? drain(writer, now_ns(CLOCK_MONOTONIC), /* all= */ false) : 0;
}

void writer_let_go(Writer *writer) {
        symbolizer_let_go(writer->processes.symbolizer);
        /* Places are known by their files, and another may be where one was. */
        if (symbolizer_sweep(writer->processes.symbolizer))
                table_clear(&writer->places);
}

int writer_flush(Writer *writer) {
        uint64_t deadline = now_ns(CLOCK_MONOTONIC) + LAST_NAMES_OF_ALL;
        TableEntry entry;
        size_t pos = 0;
        int r;

        r = drain(writer, 0, /* all= */ true);
        while (r >= 0 && writer->late.n > 0 && table_next(&writer->processes.by_pid, &pos, &entry))
                r = settle_last_names(writer, (Process *) (uintptr_t) entry.value, deadline);
        return r;
}

int writer_get_rows(Writer *writer, const RingsideRow **ret, size_t *ret_n) {
        return writer->renamed ? -EFBIG : self_counts_get_rows(&writer->self, ret, ret_n);
}

void writer_get_statistics(const Writer *writer, WriterStatistics *ret) {
        *ret = writer->statistics;
        ret->processes = writer->processes.n;
}
