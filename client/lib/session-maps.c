/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings of processes whose /proc/PID/maps the client may not read, from the session. Asking takes time in
 * which the ring fills, and whoever starts processes fastest decides how much there is to ask: so only those that
 * have a sample are asked for, time is a budget, and what does not fit waits in a short line, or is left to the
 * mappings that samples bring.
 */

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "decode.h"
#include "proc-file.h"
#include "session-internal.h"
#include "util.h"

/* A fifth of the time, and no more than this at once. */
#define SHARE 5
#define CREDIT_MAX (50 * 1000000LL)
/* Of one process: more than 100,000 mappings. */
#define ANSWERS_MAX 1024
/* So many in a row, since only whom it told of last the session need not look at from the beginning. */
#define ANSWERS_IN_A_ROW 16
#define KNOWN_MAX (1U << 16)

/* What is known of a process. */
enum {
        MAPS_KNOWN = 1, /* all that will be */
        MAPS_WANTED = 2,
};

/* ---- whom to ask for ---- */

/* The kernel checks when it is opened. */
static bool can_read_maps(uint32_t pid) {
        _cleanup_close_ int fd = -1;
        char path[64];

        if (!proc_file_is_there((pid_t) pid))
                return true;
        (void) snprintf(path, sizeof(path), "/proc/%u/maps", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return fd >= 0 || errno == ENOENT || errno == ESRCH;
}

static void enqueue(SessionMaps *maps, SessionMapsRequest request) {
        if (maps->n < SESSION_MAPS_PENDING_MAX)
                maps->pending[(maps->first + maps->n++) % SESSION_MAPS_PENDING_MAX] = request;
}

/* There is room: it is where one was taken. */
static void put_back(SessionMaps *maps, SessionMapsRequest request) {
        maps->first = (maps->first + SESSION_MAPS_PENDING_MAX - 1) % SESSION_MAPS_PENDING_MAX;
        maps->pending[maps->first] = request;
        maps->n++;
}

static SessionMapsRequest dequeue(SessionMaps *maps) {
        SessionMapsRequest request = maps->pending[maps->first];

        maps->first = (maps->first + 1) % SESSION_MAPS_PENDING_MAX;
        maps->n--;
        return request;
}

static int set_known(SessionMaps *maps, uint32_t pid, uint64_t known) {
        if (maps->known.n >= KNOWN_MAX)
                table_clear(&maps->known);
        return table_put(&maps->known, (TableKey){ .a = pid }, known);
}

static int note_process(SessionMaps *maps, const RingsideRecord *process) {
        uint64_t known;

        switch (process->process.kind) {
        case RINGSIDE_PROCESS_SEEN:
        case RINGSIDE_PROCESS_EXEC:
                known = process->process.kernel ? MAPS_KNOWN : MAPS_WANTED;
                break;
        case RINGSIDE_PROCESS_FORK:
                if (process->tid != process->pid)
                        return 0;
                /* The child of one that was asked for has its parent's mappings. */
                known = table_get(&maps->known, (TableKey){ .a = process->process.ppid }) ?: MAPS_WANTED;
                break;
        case RINGSIDE_PROCESS_EXIT:
        case RINGSIDE_PROCESS_GONE:
                (void) table_remove(&maps->known, (TableKey){ .a = process->pid });
                return 0;
        default:
                return 0;
        }
        /* Its next sample is the first of what it is now. */
        maps->sampled = 0;
        return set_known(maps, process->pid, known);
}

static int note_sample(SessionMaps *maps, uint32_t pid) {
        int r;

        if (pid == maps->sampled)
                return 0;
        maps->sampled = pid;
        /* One that is not known at all was forgotten, of too many. */
        if (table_get(&maps->known, (TableKey){ .a = pid }) == MAPS_KNOWN)
                return 0;
        r = set_known(maps, pid, MAPS_KNOWN);
        if (r < 0 || can_read_maps(pid))
                return r;
        enqueue(maps, (SessionMapsRequest){ .pid = pid });
        return 1;
}

int session_maps_note(RingsideSession *session, const RingsideRecord *record) {
        if (!(session->welcome.grants & RS_GRANT_SYSTEM))
                return 0;
        if (record->type == RINGSIDE_PROCESS)
                return note_process(&session->maps, record);
        return record->type == RINGSIDE_SAMPLE ? note_sample(&session->maps, record->pid) : 0;
}

/* ---- asking ---- */

static int deliver(RingsideSession *session, const struct rs_mappings *answer, uint32_t pid, RingsideRecordFunc func,
                   void *userdata) {
        uint64_t time = now_ns(CLOCK_BOOTTIME);
        int n = 0;

        for (uint32_t at = 0; at < answer->size;) {
                const struct rs_record *r = (const struct rs_record *) (answer->records + at);
                uint32_t left = answer->size - at;
                RingsideRecord record;
                int e;

                /* Where it ends is not known where its length makes no sense: the rest is left. */
                if (left < sizeof(*r) || r->len < sizeof(*r) || r->len > left || r->len % 8 != 0) {
                        session->malformed++;
                        break;
                }
                at += r->len;
                if (r->type != RS_RECORD_MAPPING ||
                    decode_record(r, r->len, session->welcome.nr_events, &record) != DECODE_OK || record.pid != pid) {
                        session->malformed++;
                        continue;
                }
                session_own_times(session, &record);
                record.time = time;
                e = func(&record, userdata);
                if (e < 0)
                        return e;
                n++;
        }
        return n;
}

/* One answer's worth. What is left is next, unless it has been for long: then it goes to the end of the line. */
static int ask(RingsideSession *session, SessionMapsRequest wanted, RingsideRecordFunc func, void *userdata) {
        struct rs_maps request = { .from = wanted.from };
        _cleanup_close_ int pidfd = syscall(SYS_pidfd_open, (pid_t) wanted.pid, 0);
        RingsideError before = session->error;
        union rs_any_message answer;
        Packet packet = {};
        int r;

        if (pidfd < 0)
                return 0; /* gone */
        r = session_ask(session, RS_MAPS, &request.m, sizeof(request), pidfd, &answer, sizeof(answer.mappings), &packet);
        packet_done(&packet);
        if (r < 0) {
                /* A process that is gone, or a session that ended: what is in the ring still counts. */
                if (!session->ended)
                        session->error = before;
                return 0;
        }
        if (answer.mappings.size > RS_MAPPINGS_SIZE) {
                session->malformed++;
                return 0;
        }
        if (answer.mappings.next > wanted.from && ++wanted.n < ANSWERS_MAX) {
                wanted.from = answer.mappings.next;
                if (wanted.n % ANSWERS_IN_A_ROW != 0)
                        put_back(&session->maps, wanted);
                else
                        enqueue(&session->maps, wanted);
        }
        return deliver(session, &answer.mappings, wanted.pid, func, userdata);
}

static void earn(SessionMaps *maps) {
        uint64_t t = now_ns(CLOCK_MONOTONIC);

        maps->credit = maps->credited == 0 ? CREDIT_MAX
                                           : MIN(maps->credit + (int64_t) ((t - maps->credited) / SHARE), CREDIT_MAX);
        maps->credited = t;
}

int session_maps_serve(RingsideSession *session, RingsideRecordFunc func, void *userdata) {
        SessionMaps *maps = &session->maps;
        int n = 0;

        if (maps->n == 0)
                return 0;
        earn(maps);
        while (maps->n > 0 && maps->credit > 0 && !session->ended) {
                uint64_t before = now_ns(CLOCK_MONOTONIC);
                int r = ask(session, dequeue(maps), func, userdata);

                maps->credit -= (int64_t) (now_ns(CLOCK_MONOTONIC) - before);
                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}
