/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder: a queue, and one thread behind it that writes. The pushing side only copies and
 * counts; whatever may block (/proc, the disk, a reader's lock) happens in the thread.
 */

#include "ringside.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "alive.h"
#include "error.h"
#include "machine.h"
#include "proc-file.h"
#include "queue.h"
#include "recording.h"
#include "store.h"
#include "symbolizer.h"
#include "thread.h"
#include "writer.h"

#define NSEC_PER_MSEC 1000000ULL
#define QUEUE_BYTES_DEFAULT (64U << 20)
#define QUEUE_BYTES_MIN (64U << 10)
/* The thread looks at the queue this often by itself; it is woken for what cannot wait. */
#define WAKE_INTERVAL_MS 100
#define WAKE_BYTES (1U << 20)
/* With the interval above well within the second that a crash may cost. */
#define COMMIT_INTERVAL_NS (500 * NSEC_PER_MSEC)
#define COMMIT_RETRY_NS (100 * NSEC_PER_MSEC)
/* Records between two looks at the clock. */
#define BATCH 1024
/*
 * What may wait in memory while somebody who reads keeps us from committing, as rows: these take about
 * this many bytes, and the queue's limit is the limit for both.
 */
#define ROW_BYTES 32
/* How long finishing waits for others who read the file. */
#define FINISH_WAIT_NS (10000 * NSEC_PER_MSEC)
#define ENDED_WHY_MAX 256

struct RingsideRecorder {
        char *path;
        ClockPair start;
        Store *store;
        Symbolizer *symbolizer;
        Writer *writer;

        Queue queue;
        int wake_fd;
        _Atomic(bool) woken; /* it has been written to */
        uint64_t uncommitted; /* samples; the thread's */
        _Atomic(uint64_t) dropped;
        _Atomic(int) failed; /* -errno of the thread */
        _Atomic(bool) stop;
        pthread_t thread;
        bool thread_started;

        pthread_mutex_t lock; /* what follows */
        bool lock_made;
        Alive alive;
        uint64_t hidden; /* processes that went out of sight */
        RingsideRecorderStatistics statistics;
        RingsideStatistics session_statistics;
        char ended_why[ENDED_WHY_MAX]; /* "": it has not */
        int64_t ended; /* ns since the start */
};

/* ---- the thread ---- */

static void wait_for_records(RingsideRecorder *recorder) {
        struct pollfd p = { .fd = recorder->wake_fd, .events = POLLIN };
        uint64_t value;

        if (poll(&p, 1, WAKE_INTERVAL_MS) <= 0)
                return;
        (void) !read(recorder->wake_fd, &value, sizeof(value));
        /* Before the queue is looked at: what is pushed from here on wakes again. */
        (void) atomic_exchange(&recorder->woken, false);
}

static void publish_statistics(RingsideRecorder *recorder) {
        WriterStatistics s;

        writer_get_statistics(recorder->writer, &s);
        (void) pthread_mutex_lock(&recorder->lock);
        recorder->statistics.samples = s.samples;
        recorder->statistics.unresolved = s.unresolved;
        recorder->statistics.stacks = s.stacks;
        recorder->statistics.truncated = s.truncated;
        recorder->statistics.processes = s.processes;
        recorder->statistics.bytes = store_get_size(recorder->store);
        (void) pthread_mutex_unlock(&recorder->lock);
}

/* That and why sampling has ended, if it has. Only readers know until when a recording went on. */
static int write_ended(RingsideRecorder *recorder) {
        char why[ENDED_WHY_MAX], value[32];
        int r;

        (void) pthread_mutex_lock(&recorder->lock);
        memcpy(why, recorder->ended_why, sizeof(why));
        (void) snprintf(value, sizeof(value), "%" PRId64, recorder->ended);
        (void) pthread_mutex_unlock(&recorder->lock);
        if (!why[0])
                return 0;
        r = store_put_meta(recorder->store, "ended", value);
        return r < 0 ? r : store_put_meta(recorder->store, "ended_why", why);
}

static int write_statistics(RingsideRecorder *recorder) {
        RingsideStatistics statistics;
        uint64_t truncated;
        int64_t elapsed = (int64_t) (now_ns(CLOCK_BOOTTIME) - recorder->start.boottime);
        int r;

        (void) pthread_mutex_lock(&recorder->lock);
        statistics = recorder->session_statistics;
        truncated = recorder->statistics.truncated;
        (void) pthread_mutex_unlock(&recorder->lock);
        r = write_ended(recorder);
        if (r < 0)
                return r;
        return store_put_statistics(recorder->store, elapsed, &statistics, atomic_load(&recorder->dropped), truncated);
}

/* 1: done, 0: somebody is reading, so it is done with the next one. */
static int commit(RingsideRecorder *recorder) {
        int r;

        publish_statistics(recorder);
        r = write_statistics(recorder);
        if (r < 0)
                return r;
        r = store_commit(recorder->store);
        if (r == -EBUSY)
                return 0;
        if (r < 0)
                return r;
        recorder->uncommitted = 0;
        return 1;
}

static size_t uncommitted_max(const RingsideRecorder *recorder) {
        return recorder->queue.limit / ROW_BYTES;
}

/* At regular intervals, and when much is waiting, but not over and over where it does not help. */
static int commit_if_due(RingsideRecorder *recorder, uint64_t *last, bool *last_failed) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        bool full = recorder->uncommitted >= uncommitted_max(recorder) / 2;
        int r;

        if (now - *last < (full ? *last_failed ? COMMIT_RETRY_NS : 0 : COMMIT_INTERVAL_NS))
                return 0;
        r = commit(recorder);
        writer_let_go(recorder->writer);
        *last = now_ns(CLOCK_MONOTONIC);
        *last_failed = r == 0;
        return r;
}

static int write_record(RingsideRecorder *recorder, const RingsideRecord *record) {
        if (record->type == RINGSIDE_SAMPLE) {
                if (recorder->uncommitted >= uncommitted_max(recorder)) {
                        atomic_fetch_add_explicit(&recorder->dropped, 1, memory_order_relaxed);
                        return 0;
                }
                recorder->uncommitted++;
        }
        return writer_handle(recorder->writer, record);
}

/* Returns how many records there were, at most a batch. */
static int write_batch(RingsideRecorder *recorder) {
        int n, r;

        for (n = 0; n < BATCH; n++) {
                const RingsideRecord *record = queue_pop(&recorder->queue);

                if (!record)
                        break;
                r = write_record(recorder, record);
                if (r < 0)
                        return r;
        }
        return n;
}

static void *recorder_run(void *userdata) {
        RingsideRecorder *recorder = userdata;
        uint64_t committed = now_ns(CLOCK_MONOTONIC);
        bool commit_failed = false;
        int r = 0;

        while (r >= 0) {
                /* Read before the queue is, so that what was pushed before it was set is written. */
                bool stop = atomic_load(&recorder->stop);

                r = write_batch(recorder);
                if (r == 0 && stop)
                        break;
                if (r >= 0 && r < BATCH && !stop)
                        wait_for_records(recorder);
                if (r >= 0)
                        r = writer_tick(recorder->writer);
                if (r >= 0)
                        r = commit_if_due(recorder, &committed, &commit_failed);
        }
        if (r >= 0)
                r = writer_flush(recorder->writer);
        if (r < 0)
                atomic_store(&recorder->failed, r);
        publish_statistics(recorder);
        return NULL;
}

static int start_thread(RingsideRecorder *recorder) {
        int r = thread_start(&recorder->thread, recorder_run, recorder);

        recorder->thread_started = r >= 0;
        return r;
}

/* Once for as long as it has not woken up. */
static void wake(RingsideRecorder *recorder) {
        uint64_t one = 1;

        if (!atomic_exchange(&recorder->woken, true))
                (void) !write(recorder->wake_fd, &one, sizeof(one));
}

static void stop_thread(RingsideRecorder *recorder) {
        if (!recorder->thread_started)
                return;
        atomic_store(&recorder->stop, true);
        wake(recorder);
        (void) pthread_join(recorder->thread, NULL);
        recorder->thread_started = false;
}

/* ---- the public side ---- */

DEFINE_CLEANUP(RingsideRecorder, ringside_recorder_free)

static int recorder_allocate(RingsideRecorder **ret, const char *path, const RingsideRecorderOptions *options) {
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = calloc(1, sizeof(RingsideRecorder));
        size_t bytes = options->queue_bytes > 0 ? options->queue_bytes : QUEUE_BYTES_DEFAULT;
        SymbolizerOptions symbolizer_options = { .symbol_dir = options->symbol_dir };
        int r;

        if (!recorder)
                return -ENOMEM;
        recorder->wake_fd = -1;
        r = -pthread_mutex_init(&recorder->lock, NULL);
        if (r < 0)
                return r;
        recorder->lock_made = true;
        recorder->path = strdup(path);
        if (!recorder->path)
                return -ENOMEM;
        r = queue_init(&recorder->queue, MAX(bytes, (size_t) QUEUE_BYTES_MIN));
        if (r < 0)
                return r;
        recorder->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (recorder->wake_fd < 0)
                return -errno;
        r = symbolizer_new(&recorder->symbolizer, &symbolizer_options);
        if (r < 0)
                return r;
        clock_pair_now(&recorder->start);
        *ret = TAKE_PTR(recorder);
        return 0;
}

static int put_targets(Store *store, const RingsideRecorderOptions *options) {
        int r = 0;

        for (size_t i = 0; options->targets && i < options->n_targets && r >= 0; i++)
                r = store_add_target(store, i + 1, options->targets[i].kind, options->targets[i].label);
        return r;
}

/* The first event's, whose functions are counted. */
static uint64_t get_period(RingsideSession *session) {
        RingsideEvent event;

        return session && ringside_session_get_event(session, 0, &event) >= 0 ? recording_period_of(&event) : 1;
}

static bool is_by_counter(RingsideSession *session) {
        RingsideEvent event;

        for (unsigned i = 0; session && ringside_session_get_event(session, i, &event) >= 0; i++)
                if (strcmp(event.name, "cpu-clock") != 0)
                        return true;
        return false;
}

static bool labels_are_valid(const char *const *labels) {
        for (size_t i = 0; labels && labels[i]; i++) {
                const char *equals = strchr(labels[i], '=');

                if (!equals || equals == labels[i] || equals - labels[i] > STORE_COMM_MAX - 8)
                        return false;
        }
        return true;
}

int ringside_recorder_new(RingsideRecorder **ret, const char *path, RingsideSession *session,
                          const RingsideRecorderOptions *options, RingsideError *error) {
        _cleanup_(ringside_recorder_freep) RingsideRecorder *recorder = NULL;
        RingsideRecorderOptions o = {};
        int r;

        if (options)
                memcpy(&o, options, MIN(options->size, sizeof(o)));
        if (!labels_are_valid(o.labels))
                return error_set(error, RINGSIDE_E_INVALID, NULL, "A label must be KEY=VALUE with a short KEY");

        if (proc_file_is_foreign())
                return error_set(error, -EXDEV, "Mount one that is its own, as unshare --mount-proc does.",
                                 "/proc is of another pid namespace, with other processes' numbers");

        r = recorder_allocate(&recorder, path, &o);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot set up the recorder: %s", strerror(-r));
        r = store_new(&recorder->store, path, error);
        if (r < 0)
                return r;
        r = writer_new(&recorder->writer, recorder->store, recorder->symbolizer, recorder->start.boottime);
        if (r >= 0)
                writer_set_period(recorder->writer, get_period(session));
        if (r >= 0 && is_by_counter(session))
                writer_set_by_counter(recorder->writer);
        if (r >= 0)
                r = machine_describe(recorder->store, &recorder->start, session, &o);
        if (r >= 0)
                r = put_targets(recorder->store, &o);
        if (r >= 0)
                r = store_commit(recorder->store);
        if (r >= 0)
                r = start_thread(recorder);
        if (r < 0) {
                (void) unlink(path); /* created just above */
                return error_set(error, r, NULL, "Cannot start recording to %s: %s", path, strerror(-r));
        }
        *ret = TAKE_PTR(recorder);
        return 0;
}

RingsideRecorder *ringside_recorder_free(RingsideRecorder *recorder) {
        if (!recorder)
                return NULL;
        stop_thread(recorder);
        (void) writer_free(recorder->writer);
        (void) store_free(recorder->store);
        (void) symbolizer_free(recorder->symbolizer);
        queue_done(&recorder->queue);
        alive_done(&recorder->alive);
        if (recorder->lock_made)
                (void) pthread_mutex_destroy(&recorder->lock);
        close_fd(recorder->wake_fd);
        free(recorder->path);
        free(recorder);
        return NULL;
}

/* A new program may be gone before the interval is over, and its mappings with it. */
static bool is_urgent(const RingsideRecord *record) {
        return record->type == RINGSIDE_PROCESS &&
               (record->process.kind == RINGSIDE_PROCESS_EXEC || record->process.kind == RINGSIDE_PROCESS_SEEN);
}

int ringside_recorder_push(const RingsideRecord *record, void *userdata) {
        RingsideRecorder *recorder = userdata;
        int r = atomic_load_explicit(&recorder->failed, memory_order_relaxed);

        if (r < 0)
                return r;

        if (record->type == RINGSIDE_PROCESS) {
                (void) pthread_mutex_lock(&recorder->lock);
                recorder->hidden += record->process.kind == RINGSIDE_PROCESS_GONE;
                r = alive_note(&recorder->alive, record);
                (void) pthread_mutex_unlock(&recorder->lock);
                if (r < 0)
                        return r;
        }

        r = queue_push(&recorder->queue, record);
        if (r == -ENOBUFS) {
                if (record->type == RINGSIDE_SAMPLE)
                        atomic_fetch_add_explicit(&recorder->dropped, 1, memory_order_relaxed);
                return 0;
        }
        if (r < 0)
                return r;
        if (is_urgent(record) || queue_get_bytes(&recorder->queue) > MIN(WAKE_BYTES, recorder->queue.limit / 2))
                wake(recorder);
        return 0;
}

int ringside_recorder_put_statistics(RingsideRecorder *recorder, const RingsideStatistics *statistics) {
        (void) pthread_mutex_lock(&recorder->lock);
        recorder->session_statistics = *statistics;
        (void) pthread_mutex_unlock(&recorder->lock);
        return atomic_load(&recorder->failed);
}

int ringside_recorder_put_ended(RingsideRecorder *recorder, const char *why) {
        if (!why[0])
                return -EINVAL;
        (void) pthread_mutex_lock(&recorder->lock);
        if (!recorder->ended_why[0]) {
                (void) snprintf(recorder->ended_why, sizeof(recorder->ended_why), "%s", why);
                recorder->ended = (int64_t) (now_ns(CLOCK_BOOTTIME) - recorder->start.boottime);
        }
        (void) pthread_mutex_unlock(&recorder->lock);
        return atomic_load(&recorder->failed);
}

unsigned ringside_recorder_get_n_alive(RingsideRecorder *recorder) {
        unsigned n;

        (void) pthread_mutex_lock(&recorder->lock);
        n = alive_count(&recorder->alive, now_ns(CLOCK_MONOTONIC));
        (void) pthread_mutex_unlock(&recorder->lock);
        return n;
}

int ringside_recorder_get_rows(RingsideRecorder *recorder, const RingsideRow **ret_rows, size_t *ret_n) {
        return recorder->thread_started ? -EBUSY : writer_get_rows(recorder->writer, ret_rows, ret_n);
}

int ringside_recorder_get_statistics(RingsideRecorder *recorder, RingsideRecorderStatistics *ret) {
        (void) pthread_mutex_lock(&recorder->lock);
        *ret = recorder->statistics;
        (void) pthread_mutex_unlock(&recorder->lock);
        ret->dropped = atomic_load(&recorder->dropped);
        return 0;
}

/* Missing: none. */
static int put_count(RingsideRecorder *recorder, const char *key, uint64_t n) {
        char value[32];

        (void) snprintf(value, sizeof(value), "%" PRIu64, n);
        return n > 0 ? store_put_meta(recorder->store, key, value) : 0;
}

static int put_end(RingsideRecorder *recorder, int exit_status) {
        char value[32];
        int r;

        r = write_statistics(recorder);
        if (r < 0)
                return r;
        (void) snprintf(value, sizeof(value), "%d", exit_status);
        r = store_put_meta(recorder->store, "exit_status", value);
        if (r >= 0)
                r = put_count(recorder, "hidden", recorder->hidden);
        if (r >= 0)
                r = put_count(recorder, "names_refused", symbolizer_get_n_refused(recorder->symbolizer));
        if (r < 0)
                return r;
        (void) snprintf(value, sizeof(value), "%" PRIu64, now_ns(CLOCK_BOOTTIME) - recorder->start.boottime);
        return store_put_meta(recorder->store, "finished", value);
}

int ringside_recorder_finish(RingsideRecorder *recorder, int exit_status, RingsideError *error) {
        uint64_t give_up = now_ns(CLOCK_MONOTONIC) + FINISH_WAIT_NS;
        int r;

        stop_thread(recorder);
        if (!recorder->store)
                return 0; /* it is finished */
        r = atomic_load(&recorder->failed);
        if (r >= 0)
                r = put_end(recorder, exit_status);
        if (r >= 0)
                do
                        r = store_commit(recorder->store);
                while (r == -EBUSY && now_ns(CLOCK_MONOTONIC) < give_up);
        publish_statistics(recorder);
        if (r >= 0)
                recorder->store = store_free(recorder->store); /* nobody writes any more */
        if (r == -EBUSY)
                return error_set(error, r, "End the program that is reading it.",
                                 "Cannot finish %s: somebody has been reading it for long", recorder->path);
        if (r < 0)
                return error_set(error, r, r == -ENOSPC ? "What was written before is there." : NULL,
                                 "Cannot write %s: %s", recorder->path, strerror(-r));
        return 0;
}
