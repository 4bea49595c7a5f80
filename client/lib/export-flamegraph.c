/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A call tree as one HTML page that needs nothing else: template, style and script come from
 * flamegraph/ (embedded at build time, allowed by their hashes in the page's content security
 * policy), the tree goes in as JSON inside a <script type="application/json">, which nothing runs.
 *
 * The JSON, where fn is an index into functions and frames are in preorder:
 *
 *   { "info": {...},
 *     "functions": [[name, file, 1: kernel; 2: inlined; 0: neither], ...],
 *     "frames": [depth, fn, self samples, total samples, self weight, total weight, ...] }
 *
 * Strings come from processes and files: they are escaped for the eye by ringside_escape(), for JSON
 * by json-c, and for HTML by writing what could end the element as \u00XX.
 */

#include "export-flamegraph.h"

#include <inttypes.h>
#include <json.h>
#include <string.h>

#include "error.h"
#include "flamegraph-frames.h"
#include "flamegraph-page.h"
#include "util.h"

/* Names of C++ templates run to many kilobytes; nobody reads them that far. */
#define NAME_MAX_BYTES 1024
#define INFO_MAX_BYTES 4096
/* More are neither seen nor drawn in time. */
#define FRAMES_MAX 50000
/* What info may take: a few strings of INFO_MAX_BYTES, each byte of which may become six, and numbers. */
#define INFO_RESERVE (6 * INFO_MAX_BYTES * 6)

#define JSON_FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

static inline void json_object_putp(json_object **object) {
        if (*object)
                json_object_put(*object);
}

/* Consumes value, on failure too. */
static bool add(json_object *array, json_object *value) {
        if (value && json_object_array_add(array, value) == 0)
                return true;
        json_object_put(value);
        return false;
}

static bool set(json_object *object, const char *key, json_object *value) {
        if (value && json_object_object_add(object, key, value) == 0)
                return true;
        json_object_put(value);
        return false;
}

static json_object *new_string(const char *s, size_t max_bytes) {
        char escaped[INFO_MAX_BYTES];

        return json_object_new_string(ringside_escape(escaped, MIN(max_bytes, sizeof(escaped)), s ?: ""));
}

/* What stands in a script element for c, NULL: itself. ringside_escape() leaves no U+2028 and U+2029. */
static const char *html_safe(char c) {
        switch (c) {
        case '<':
                return "\\u003c";
        case '>':
                return "\\u003e";
        case '&':
                return "\\u0026";
        default:
                return NULL;
        }
}

/* Serialises object into out, or only measures it where out is NULL. Outside strings JSON has none of these. */
static int put_json(json_object *object, FILE *out, size_t *ret_size) {
        const char *json = json_object_to_json_string_ext(object, JSON_FLAGS);
        size_t size = 0;

        if (!json)
                return -ENOMEM;
        for (; *json; json++) {
                const char *safe = html_safe(*json);

                size += safe ? strlen(safe) : 1;
                if (!out)
                        continue;
                if (safe)
                        fputs(safe, out);
                else
                        putc(*json, out);
        }
        if (ret_size)
                *ret_size = size;
        return 0;
}

static json_object *new_function(const RingsideNode *node) {
        _cleanup_(json_object_putp) json_object *function = json_object_new_array();

        if (!function || !add(function, new_string(node->name, NAME_MAX_BYTES)) ||
            !add(function, new_string(node->file, NAME_MAX_BYTES)) ||
            !add(function, json_object_new_int(node->kernel ? 1 : node->inlined ? 2 : 0)))
                return NULL;
        return TAKE_PTR(function);
}

static size_t function_cost(const RingsideNode *node) {
        _cleanup_(json_object_putp) json_object *function = new_function(node);
        size_t size;

        /* Without memory for one string the page will not come to be; put_functions() says so. */
        if (!function || put_json(function, NULL, &size) < 0)
                return 0;
        return size + strlen(",\n");
}

/* Depth and function have five digits at most; samples stand for weights where there are none. */
static size_t frame_cost(const RingsideNode *node) {
        return (size_t) snprintf(NULL, 0, "99999,99999,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",\n",
                                 node->self_samples, node->total_samples,
                                 MAX(node->self_weight, node->self_samples), MAX(node->total_weight, node->total_samples));
}

/* Writes each function that a kept frame is in, and its place in the list to ret_ids. */
static int put_functions(const FlamegraphFrames *frames, FILE *out, uint32_t **ret_ids) {
        _cleanup_free_ uint32_t *ids = calloc(frames->n_functions, sizeof(*ids));
        uint32_t n = 0;

        if (!ids)
                return -ENOMEM;
        for (size_t i = 0; i < frames->n_frames; i++) {
                const FlamegraphFrame *frame = &frames->frames[i];
                _cleanup_(json_object_putp) json_object *function = NULL;
                int r;

                if (!frame->kept || ids[frame->function] > 0)
                        continue;
                function = new_function(frame->node);
                if (!function)
                        return -ENOMEM;
                if (n > 0)
                        fputs(",\n", out);
                r = put_json(function, out, NULL);
                if (r < 0)
                        return r;
                ids[frame->function] = ++n; /* 0: not written yet */
        }
        *ret_ids = TAKE_PTR(ids);
        return 0;
}

static void put_frames(const FlamegraphFrames *frames, const uint32_t *ids, FILE *out) {
        const char *separator = "";

        for (size_t i = 0; i < frames->n_frames; i++) {
                const FlamegraphFrame *frame = &frames->frames[i];
                const RingsideNode *node = frame->node;

                if (!frame->kept)
                        continue;
                fprintf(out, "%s%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, separator,
                        frame->depth, ids[frame->function] - 1, node->self_samples, node->total_samples,
                        frames->by_samples ? node->self_samples : node->self_weight,
                        frames->by_samples ? node->total_samples : node->total_weight);
                separator = ",\n";
        }
}

/* In the ring, and once the recording is complete also what the recorder's full queue dropped. */
static uint64_t count_lost(const RingsideRecordingInfo *info) {
        const RingsideStatistics *s = &info->statistics;

        return s->lost + (info->finished && s->emitted > info->samples ? s->emitted - info->samples : 0);
}

static json_object *new_info(const RingsideRecordingInfo *info, const FlamegraphFrames *frames, uint64_t truncated) {
        _cleanup_(json_object_putp) json_object *object = json_object_new_object();
        const RingsideEvent *event = info->n_events > 0 ? &info->events[0] : &(const RingsideEvent){0};
        const RingsideStatistics *statistics = &info->statistics;

        if (!object || !set(object, "version", json_object_new_string(ringside_version())) ||
            !set(object, "command", new_string(info->command, INFO_MAX_BYTES)) ||
            !set(object, "host", new_string(info->hostname, INFO_MAX_BYTES)) ||
            !set(object, "kernel", new_string(info->kernel, INFO_MAX_BYTES)) ||
            !set(object, "event", new_string(event->name, sizeof(event->name) * 4)) ||
            !set(object, "unit", new_string(frames->by_samples ? "samples" : event->unit, sizeof(event->unit) * 4)) ||
            !set(object, "byPeriod", json_object_new_boolean(event->by_period)) ||
            !set(object, "rate", json_object_new_uint64(event->value)) ||
            !set(object, "start", json_object_new_int64(info->start_realtime / 1000000)) ||
            !set(object, "duration", json_object_new_uint64(info->duration)) ||
            !set(object, "finished", json_object_new_boolean(info->finished)) ||
            !set(object, "ended", json_object_new_uint64(info->ended)) ||
            !set(object, "endedWhy", new_string(info->ended_why ?: "", INFO_MAX_BYTES)) ||
            !set(object, "recorded", json_object_new_uint64(info->samples)) ||
            !set(object, "taken", json_object_new_uint64(statistics->taken)) ||
            !set(object, "lost", json_object_new_uint64(count_lost(info))) ||
            !set(object, "emitted", json_object_new_uint64(statistics->emitted)) ||
            !set(object, "badFramePointers", json_object_new_uint64(statistics->walk_end[RINGSIDE_WALK_BAD_FP])) ||
            !set(object, "truncated", json_object_new_uint64(truncated)) ||
            !set(object, "leftOut", json_object_new_uint64(frames->n_frames - frames->n_kept)) ||
            !set(object, "leftOutMax", json_object_new_uint64(frames->largest_left_out)))
                return NULL;
        return TAKE_PTR(object);
}

static int put_page(const FlamegraphFrames *frames, json_object *info, FILE *out) {
        _cleanup_free_ uint32_t *ids = NULL;
        int r;

        fputs(flamegraph_page_head, out);
        fputs("{\"info\":", out);
        r = put_json(info, out, NULL);
        if (r < 0)
                return r;
        fputs(",\n\"functions\":[\n", out);
        r = put_functions(frames, out, &ids);
        if (r < 0)
                return r;
        fputs("],\n\"frames\":[\n", out);
        put_frames(frames, ids, out);
        fputs("]}", out);
        fputs(flamegraph_page_tail, out);
        return fflush(out) == EOF || ferror(out) ? -(errno ?: EIO) : 0;
}

static int write_page(const RingsideNode *root, const RingsideRecordingInfo *info, uint64_t truncated, FILE *out) {
        _cleanup_(flamegraph_frames_freep) FlamegraphFrames *frames = NULL;
        _cleanup_(json_object_putp) json_object *object = NULL;
        const size_t fixed = strlen(flamegraph_page_head) + strlen(flamegraph_page_tail) + INFO_RESERVE;
        int r;

        r = flamegraph_frames_new(&frames, root);
        if (r < 0)
                return r;
        r = flamegraph_frames_keep(frames, FRAMES_MAX, FLAMEGRAPH_PAGE_MAX - fixed, frame_cost, function_cost);
        if (r < 0)
                return r;
        object = new_info(info, frames, truncated);
        if (!object)
                return -ENOMEM;
        return put_page(frames, object, out);
}

int flamegraph_write(const RingsideNode *root, const RingsideRecordingInfo *info, uint64_t truncated,
                     FILE *out, RingsideError *error) {
        int r;

        errno = 0;
        r = write_page(root, info, truncated, out);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot write the flame graph: %s", strerror(-r));
        return 0;
}

int ringside_export_flamegraph(RingsideProfile *profile, const RingsideRecordingInfo *info, FILE *out,
                               RingsideError *error) {
        const RingsideNode *root;
        int r = ringside_profile_get_callees(profile, &root);

        if (r < 0)
                return error_set(error, r, NULL, "Cannot build the call tree: %s", strerror(-r));
        return flamegraph_write(root, info, ringside_profile_get_truncated(profile), out, error);
}
