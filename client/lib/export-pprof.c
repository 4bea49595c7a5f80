/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pprof's profile.proto, gzipped. Addresses are ELF virtual addresses, which a mapping with start,
 * limit and offset 0 says; each file is one mapping, the program first. Where a file has frames without a
 * name, its mapping does not claim to have functions, so that whoever has the debug file can name them.
 */

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "call-tree.h"
#include "error.h"
#include "functions.h"
#include "profile.pb-c.h"
#include "ringside.h"
#include "snapshot.h"

/* Everything of one export is freed at once. */
typedef struct Block {
        struct Block *next;
        max_align_t data[];
} Block;

typedef struct Pprof {
        Snapshot snapshot;
        Functions functions;
        Block *blocks;
        size_t block_left;
        uint8_t *block_next;

        Pprof__Profile profile;
        Table strings; /* -> index + 1 */
        size_t n_strings_allocated;
        uint64_t *mapping_ids;  /* by file; file 0 stands for the markers */
        uint64_t *location_ids; /* by frame */
        uint64_t *function_ids; /* by number of the function */
        size_t n_function_ids;  /* room for, as profile.function has */
        bool inlined;           /* show what is */
        Pprof__Label **labels;  /* that every sample has */
        unsigned n_labels;
        bool failed;            /* out of memory, looked at once at the end */
} Pprof;

#define BLOCK_SIZE (1U << 20)

static void pprof_done(Pprof *p) {
        while (p->blocks) {
                Block *block = p->blocks;

                p->blocks = block->next;
                free(block);
        }
        free(p->profile.string_table);
        free(p->profile.location);
        free(p->profile.mapping);
        free(p->profile.function);
        free(p->function_ids);
        free(p->profile.sample);
        table_done(&p->strings);
        functions_done(&p->functions);
        snapshot_done(&p->snapshot);
}

/* Zeroed; NULL where there is no memory. */
static void *take(Pprof *p, size_t n) {
        size_t rounded = (n + 15) & ~(size_t) 15;
        void *result;

        if (rounded > p->block_left) {
                size_t size = MAX(rounded, (size_t) BLOCK_SIZE);
                Block *block = calloc(1, sizeof(Block) + size);

                if (!block) {
                        p->failed = true;
                        return NULL;
                }
                block->next = p->blocks;
                p->blocks = block;
                p->block_next = (uint8_t *) block->data;
                p->block_left = size;
        }
        result = p->block_next;
        p->block_next += rounded;
        p->block_left -= rounded;
        return result;
}

/* Index in the string table of text, made harmless and valid UTF-8. */
static int64_t put_string(Pprof *p, const char *text) {
        size_t size = 4 * strnlen(text, 16384) + 1, len;
        _cleanup_free_ char *safe = malloc(size);
        uint64_t index;
        TableKey key;
        char *copy;

        if (!safe) {
                p->failed = true;
                return 0;
        }
        len = strlen(ringside_escape(safe, size, text));
        if (table_string_key(&p->strings, safe, len, &key) < 0) {
                p->failed = true;
                return 0;
        }
        index = table_get(&p->strings, key);
        if (index > 0)
                return index - 1;

        if (p->profile.n_string_table == p->n_strings_allocated) {
                size_t allocated = MAX(p->n_strings_allocated * 2, (size_t) 1024);
                char **table = reallocarray(p->profile.string_table, allocated, sizeof(char *));

                if (!table) {
                        p->failed = true;
                        return 0;
                }
                p->profile.string_table = table;
                p->n_strings_allocated = allocated;
        }
        copy = take(p, len + 1);
        if (!copy)
                return 0;
        memcpy(copy, safe, len + 1);
        p->profile.string_table[p->profile.n_string_table++] = copy;
        if (table_put(&p->strings, key, p->profile.n_string_table) < 0)
                p->failed = true;
        return p->profile.n_string_table - 1;
}

static Pprof__ValueType *value_type(Pprof *p, const char *type, const char *unit) {
        Pprof__ValueType *v = take(p, sizeof(Pprof__ValueType));

        if (!v)
                return NULL;
        pprof__value_type__init(v);
        v->type = put_string(p, type);
        v->unit = put_string(p, unit);
        return v;
}

/* ---- places ---- */

static char *hex(Pprof *p, const uint8_t *bytes, size_t n) {
        char *text = take(p, 2 * n + 1);

        for (size_t i = 0; text && i < n; i++)
                (void) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        return text;
}

static uint64_t put_mapping(Pprof *p, uint32_t file) {
        const RecordedFile *f = &p->snapshot.files[file];
        Pprof__Mapping *m;
        const char *id;

        if (p->mapping_ids[file] > 0)
                return p->mapping_ids[file];
        m = take(p, sizeof(Pprof__Mapping));
        if (!m)
                return 0;
        pprof__mapping__init(m);
        m->id = p->profile.n_mapping + 1;
        m->filename = put_string(p, file > 0 ? f->path : "[ringside]");
        m->has_functions = true;
        if (file > 0 && f->build_id_len > 0) {
                id = hex(p, f->build_id, f->build_id_len);
                m->build_id = id ? put_string(p, id) : 0;
        }
        p->profile.mapping[p->profile.n_mapping++] = m;
        return p->mapping_ids[file] = m->id;
}

/* Room for the function with this number. */
static bool grow_functions(Pprof *p, uint32_t number) {
        size_t n = MAX(p->n_function_ids * 2, (size_t) number + 256);
        Pprof__Function **functions;
        uint64_t *ids;

        if (number < p->n_function_ids)
                return true;
        functions = reallocarray(p->profile.function, n, sizeof(*functions));
        if (functions)
                p->profile.function = functions;
        ids = reallocarray(p->function_ids, n, sizeof(*ids));
        if (ids)
                p->function_ids = ids;
        if (!functions || !ids) {
                p->failed = true;
                return false;
        }
        memset(ids + p->n_function_ids, 0, (n - p->n_function_ids) * sizeof(*ids));
        p->n_function_ids = n;
        return true;
}

static uint64_t put_function(Pprof *p, uint32_t number, uint32_t symbol, uint32_t source) {
        Pprof__Function *function;

        if (!grow_functions(p, number))
                return 0;
        if (p->function_ids[number] > 0)
                return p->function_ids[number];
        function = take(p, sizeof(Pprof__Function));
        if (!function)
                return 0;
        pprof__function__init(function);
        function->id = p->profile.n_function + 1;
        function->name = put_string(p, p->functions.items[number].name);
        function->system_name = symbol > 0 ? put_string(p, p->snapshot.symbols[symbol]) : function->name;
        if (source > 0)
                function->filename = put_string(p, p->snapshot.sources[source]);
        p->profile.function[p->profile.n_function++] = function;
        return p->function_ids[number] = function->id;
}

static void put_line(Pprof *p, Pprof__Location *location, uint64_t function_id, uint32_t number) {
        Pprof__Line *line = take(p, sizeof(Pprof__Line));

        if (!line)
                return;
        pprof__line__init(line);
        line->function_id = function_id;
        line->line = number;
        location->line[location->n_line++] = line;
}

/* What is inlined there, innermost first, as far as it has names; the function itself comes behind them. */
static void put_inlined(Pprof *p, Pprof__Location *location, uint32_t frame) {
        const Snapshot *s = &p->snapshot;
        const SnapshotFrame *f = &s->frames[frame];
        const SnapshotCode *code = s->code_of && p->inlined ? &s->codes[s->code_of[frame]] : NULL;

        for (; code && code->caller > 0; code = &s->codes[code->caller]) {
                const FunctionPlace place = {
                        .symbol = s->symbols[code->symbol],
                        .path = f->file > 0 ? s->files[f->file].path : "",
                        .kernel = f->kernel,
                        .inlined = true,
                        .folded = s->folded,
                };
                uint32_t number;

                if (code->symbol == 0)
                        continue;
                if (functions_find(&p->functions, (TableKey){ code->symbol, f->file, f->kernel | 2 }, &place, &number) < 0) {
                        p->failed = true;
                        return;
                }
                put_line(p, location, put_function(p, number, code->symbol, code->source), code->line);
        }
}

static size_t count_codes(const Snapshot *s, uint32_t frame) {
        return s->code_of ? MAX(s->codes[s->code_of[frame]].depth, 1) : 1;
}

static uint64_t put_location(Pprof *p, uint32_t frame) {
        const SnapshotFrame *f = &p->snapshot.frames[frame];
        Pprof__Location *location;
        uint32_t number;

        if (p->location_ids[frame] > 0)
                return p->location_ids[frame];
        location = take(p, sizeof(Pprof__Location));
        if (!location || functions_get(&p->functions, &p->snapshot, frame, &number) < 0) {
                p->failed = true;
                return 0;
        }
        pprof__location__init(location);
        location->id = p->profile.n_location + 1;
        location->mapping_id = put_mapping(p, f->file);
        location->address = f->address;
        if (frame > 0 && f->symbol == 0 && location->mapping_id > 0)
                p->profile.mapping[location->mapping_id - 1]->has_functions = false;
        else {
                location->line = take(p, count_codes(&p->snapshot, frame) * sizeof(Pprof__Line *));
                if (!location->line)
                        return 0;
                put_inlined(p, location, frame);
                put_line(p, location, put_function(p, number, f->symbol, f->source), f->line);
        }
        p->profile.location[p->profile.n_location++] = location;
        return p->location_ids[frame] = location->id;
}

/* ---- samples ---- */

static Pprof__Label *make_label(Pprof *p, const char *key, const char *text, int64_t number) {
        Pprof__Label *label = take(p, sizeof(Pprof__Label));

        if (!label)
                return NULL;
        pprof__label__init(label);
        label->key = put_string(p, key);
        if (text)
                label->str = put_string(p, text);
        else
                label->num = number;
        return label;
}

static void put_label(Pprof *p, Pprof__Sample *sample, const char *key, const char *text, int64_t number) {
        Pprof__Label *label = make_label(p, key, text, number);

        if (label)
                sample->label[sample->n_label++] = label;
}

/*
 * What the user said of the recording. On every sample rather than in comments: by a sample's labels pprof focuses,
 * ignores and groups, and they survive when profiles are merged.
 */
static void make_labels(Pprof *p, const RingsideRecordingInfo *info) {
        p->labels = take(p, (info->n_labels + 1) * sizeof(Pprof__Label *));
        for (unsigned i = 0; p->labels && i < info->n_labels; i++) {
                size_t n = strcspn(info->labels[i], "=");
                _cleanup_free_ char *key = strndup(info->labels[i], n);
                Pprof__Label *label = key ? make_label(p, key, info->labels[i] + n + 1, 0) : NULL;

                if (label)
                        p->labels[p->n_labels++] = label;
                else
                        p->failed = true;
        }
}

static void put_sample(Pprof *p, const SnapshotSum *sum) {
        const Snapshot *s = &p->snapshot;
        const SnapshotThread *thread = &s->threads[sum->thread];
        const SnapshotProcess *process = &s->processes[thread->process];
        size_t depth = MAX(s->stacks[sum->stack].depth, 1);
        Pprof__Sample *sample = take(p, sizeof(Pprof__Sample));
        uint32_t stack = sum->stack;

        if (!sample)
                return;
        pprof__sample__init(sample);
        sample->location_id = take(p, depth * sizeof(uint64_t));
        sample->value = take(p, 2 * sizeof(int64_t));
        sample->label = take(p, (5 + p->n_labels) * sizeof(Pprof__Label *));
        if (!sample->location_id || !sample->value || !sample->label)
                return;

        do {
                sample->location_id[sample->n_location_id++] = put_location(p, s->stacks[stack].frame);
                stack = s->stacks[stack].parent;
        } while (stack > 0);
        sample->n_value = 2;
        sample->value[0] = (int64_t) MIN(sum->samples, (uint64_t) INT64_MAX);
        sample->value[1] = (int64_t) MIN(sum->weight, (uint64_t) INT64_MAX);
        put_label(p, sample, "command", process->comm, 0);
        put_label(p, sample, "pid", NULL, process->pid);
        put_label(p, sample, "thread", thread->comm, 0);
        put_label(p, sample, "tid", NULL, thread->tid);
        if (sum->target > 0)
                put_label(p, sample, "target", s->targets[sum->target].name, 0);
        for (unsigned i = 0; i < p->n_labels; i++)
                sample->label[sample->n_label++] = p->labels[i];
        p->profile.sample[p->profile.n_sample++] = sample;
}

/* Every table at its final size, so that ids are indices. */
static int reserve(Pprof *p) {
        const Snapshot *s = &p->snapshot;

        p->profile.sample = calloc(s->n_sums + 1, sizeof(void *));
        p->profile.mapping = calloc(s->n_files, sizeof(void *));
        p->profile.location = calloc(s->n_frames, sizeof(void *));
        p->mapping_ids = take(p, s->n_files * sizeof(uint64_t));
        p->location_ids = take(p, s->n_frames * sizeof(uint64_t));
        return p->profile.sample && p->profile.mapping && p->profile.location && !p->failed ? 0 : -ENOMEM;
}

static void put_head(Pprof *p, const RingsideRecording *recording) {
        const RingsideEvent *event = &recording->events[p->snapshot.event];
        bool is_time = strcmp(event->unit, "ns") == 0;
        char name[sizeof(event->name)];
        Pprof__ValueType **types = take(p, 2 * sizeof(*types));
        int64_t *comment = take(p, sizeof(int64_t));

        (void) snprintf(name, sizeof(name), "%s", is_time ? "cpu" : event->name);
        for (char *c = name; (c = strchr(c, '-'));)
                *c = '_'; /* some stores refuse it in the name of a type */
        if (!types || !comment)
                return;
        (void) put_string(p, "");
        types[0] = value_type(p, "samples", "count");
        types[1] = value_type(p, name, is_time ? "nanoseconds" : event->unit);
        p->profile.sample_type = types;
        p->profile.n_sample_type = 2;
        p->profile.period_type = value_type(p, name, is_time ? "nanoseconds" : event->unit);
        p->profile.period = (int64_t) MIN(recording_get_period(recording, p->snapshot.event), (uint64_t) INT64_MAX);
        p->profile.time_nanos = recording->info.start_realtime;
        p->profile.duration_nanos = (int64_t) MIN(recording->info.duration, (uint64_t) INT64_MAX);
        comment[0] = put_string(p, "Recorded by Ringside");
        p->profile.comment = comment;
        p->profile.n_comment = 1;
}

/* ---- writing ---- */

/* Takes packed bytes and compresses them on their way to the file. */
typedef struct GzipBuffer {
        ProtobufCBuffer base;
        z_stream stream;
        FILE *out;
        int error; /* the first there was, negative */
} GzipBuffer;

static void gzip_write(GzipBuffer *buffer, const uint8_t *data, size_t n, int flush) {
        uint8_t chunk[65536];

        buffer->stream.next_in = (Bytef *) data;
        buffer->stream.avail_in = n;
        do {
                buffer->stream.next_out = chunk;
                buffer->stream.avail_out = sizeof(chunk);
                errno = EIO; /* not every stream says why */
                (void) deflate(&buffer->stream, flush);
                if (fwrite(chunk, 1, sizeof(chunk) - buffer->stream.avail_out, buffer->out) !=
                            sizeof(chunk) - buffer->stream.avail_out &&
                    buffer->error == 0)
                        buffer->error = -errno;
        } while (buffer->stream.avail_out == 0);
}

static void gzip_append(ProtobufCBuffer *base, size_t n, const uint8_t *data) {
        gzip_write((GzipBuffer *) base, data, n, Z_NO_FLUSH);
}

static int pack(const Pprof *p, FILE *out) {
        GzipBuffer buffer = { .base = { .append = gzip_append }, .out = out };

        /* 16 more window bits mean gzip. Its header has no time, so the same recording gives the same bytes. */
        if (deflateInit2(&buffer.stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
                return -ENOMEM;
        (void) pprof__profile__pack_to_buffer(&p->profile, &buffer.base);
        gzip_write(&buffer, NULL, 0, Z_FINISH);
        (void) deflateEnd(&buffer.stream);
        errno = EIO;
        if (buffer.error == 0 && fflush(out) != 0)
                buffer.error = -errno;
        return buffer.error;
}

int ringside_export_pprof(RingsideRecording *recording, const RingsideFilter *filter, FILE *out, RingsideError *error) {
        _cleanup_(pprof_done) Pprof p = { .profile = PPROF__PROFILE__INIT };
        RingsideFilter f = { .event = -1 };
        int r;

        if (filter)
                memcpy(&f, filter, MIN(filter->size, sizeof(f)));
        f.size = sizeof(f);
        p.inlined = !f.no_inline;
        f.no_inline = true; /* to pprof they are no frames, but lines of one */
        r = snapshot_load(&p.snapshot, recording, &f, error);
        if (r < 0)
                return r;
        r = reserve(&p);
        if (r < 0)
                return error_set(error, r, NULL, "Out of memory");

        put_head(&p, recording);
        make_labels(&p, &recording->info);
        if (p.snapshot.main_file > 0)
                (void) put_mapping(&p, p.snapshot.main_file);
        for (size_t i = 0; i < p.snapshot.n_sums && !p.failed; i++)
                put_sample(&p, &p.snapshot.sums[i]);
        if (p.failed)
                return error_set(error, -ENOMEM, NULL, "Out of memory");

        r = pack(&p, out);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot write the profile: %s", strerror(-r));
        return 0;
}
