/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See record-memory.h. */

#include "record-memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "util.h"

#define RING_DEFAULT (UINT64_C(8) << 20)
#define RING_ENOUGH (UINT64_C(2) << 20) /* samples of 250 ms at all rates there are, and hundreds of new stacks */
#define RING_LEAST (UINT64_C(1) << 20)
#define TABLE_LEAST (UINT64_C(4) << 20)
/* As many as there are steps, where it is not known how much is left. */
#define TRIES_MAX 8

typedef struct Sizes {
        uint64_t ring, table;
} Sizes;

/*
 * The next best. A ring is only as large as it is for when the recorder has to wait for long, but a program without a table
 * has hardly a whole stack.
 */
static bool sizes_step_down(Sizes *sizes, const RecordOptions *o) {
        bool any_table = !o->table_size_named, any_ring = o->ring_size == 0;

        if (any_ring && sizes->ring > RING_ENOUGH)
                sizes->ring /= 2;
        else if (any_table && sizes->table > TABLE_LEAST)
                sizes->table /= 2;
        else if (any_table && sizes->table > 0 && o->unwind == RECORD_UNWIND_AUTO)
                sizes->table = 0;
        else if (any_ring && sizes->ring > RING_LEAST)
                sizes->ring /= 2;
        else
                return false;
        return true;
}

/*
 * The best that takes no more than half of what is left, so that there is something for the next session; else the least
 * there is, if there is room for that. Without tables the helper counts somewhat less than is known here, so then it is
 * the one to say. False: there is not.
 */
static bool sizes_fit(Sizes *sizes, const RecordOptions *o, uint64_t wanted, uint64_t left) {
        const uint64_t rest = wanted - MIN(wanted, sizes->ring + sizes->table);

        if (!sizes_step_down(sizes, o))
                return false;
        if (wanted == 0)
                return true; /* not known: it is tried */
        while (rest + sizes->ring + sizes->table > left / 2 && sizes_step_down(sizes, o))
                ;
        return sizes->table == 0 || rest + sizes->ring + sizes->table <= left;
}

static int set_sizes(RingsideSession *session, const Sizes *sizes) {
        int r = ringside_session_set_ring_size(session, sizes->ring);

        return r < 0 ? r : ringside_session_set_table_size(session, sizes->table);
}

/* In the words in which it could have been asked for. */
static void say(const Sizes *sizes, const Sizes *first) {
        fputs("Memory for sessions is short: recording as with", stderr);
        if (sizes->table == 0 && first->table > 0)
                fputs(" --unwind=fp", stderr);
        else if (sizes->table != first->table)
                fprintf(stderr, " --table-size=%" PRIu64 "M", sizes->table >> 20);
        if (sizes->ring != first->ring)
                fprintf(stderr, " --ring-size=%" PRIu64 "M", sizes->ring >> 20);
        fputc('\n', stderr);
}

int record_memory_open(RingsideSession *session, const RecordOptions *o) {
        const Sizes first = {o->ring_size ?: RING_DEFAULT, o->table_size};
        uint64_t wanted, left;
        Sizes sizes = first;
        int r;

        r = ringside_session_open(session);
        for (int i = 0; i < TRIES_MAX && r == RINGSIDE_E_BUDGET && ringside_session_is_short_of_memory(session, &wanted, &left); i++) {
                int e;

                if (!sizes_fit(&sizes, o, wanted, left))
                        break;
                e = set_sizes(session, &sizes);
                if (e < 0)
                        return e;
                r = ringside_session_open(session);
        }
        if (r >= 0 && !o->quiet && (sizes.ring != first.ring || sizes.table != first.table))
                say(&sizes, &first);
        return r;
}
