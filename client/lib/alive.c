/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds at SEEN, FORK and EXEC, removes at EXIT and GONE, and at a look into /proc. */

#include "alive.h"

#include "proc-file.h"
#include "util.h"

#define CHECK_INTERVAL_NS 200000000ULL

int alive_note(Alive *alive, const RingsideRecord *record) {
        TableKey key = { .a = record->pid };

        switch (record->process.kind) {
        case RINGSIDE_PROCESS_FORK:
                if (record->tid != record->pid)
                        return 0; /* a thread */
                return table_put(&alive->starts, key, record->process.start + 1);
        case RINGSIDE_PROCESS_SEEN:
        case RINGSIDE_PROCESS_EXEC:
                return table_put(&alive->starts, key, record->process.start + 1);
        case RINGSIDE_PROCESS_EXIT:
        case RINGSIDE_PROCESS_GONE:
                (void) table_remove(&alive->starts, key);
                return 0;
        case RINGSIDE_PROCESS_COMM:
                break;
        }
        return 0;
}

unsigned alive_count(Alive *alive, uint64_t now) {
        TableEntry entry;

        if (now - alive->checked_at < CHECK_INTERVAL_NS)
                return alive->starts.n;
        alive->checked_at = now;

        /* A removal moves others, so the search starts again behind each; lost exits are few. */
        for (size_t pos = 0; table_next(&alive->starts, &pos, &entry);)
                if (!proc_file_is_running(entry.key.a, entry.value - 1)) {
                        (void) table_remove(&alive->starts, entry.key);
                        pos = pos > 0 ? pos - 1 : 0;
                }
        return alive->starts.n;
}

void alive_done(Alive *alive) {
        table_done(&alive->starts);
}
