/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stands in for the library's sessions when preloaded before it, so that the tests of `ringside record`
 * need neither helper nor bus nor kernel: the records are made up, the recorder behind is the real one.
 *
 * FAKE_LEFT=N: so many bytes of memory are left; FAKE_OPEN=memory: with tables there are none, and nothing tells how many.
 * FAKE_OPEN=denied, rate, invalid, FAKE_START=refused, FAKE_TARGET=gone: that step fails; FAKE_TARGET=slow: it waits until
 * the thread that was named is gone.
 * FAKE_END_MS=N: the session ends by itself N ms after its start.
 * FAKE_CHILD_MS=N: a descendant lives for N ms after the start.
 * FAKE_PROGRAM=hidden, leaves: nothing is told of targets, or that they go out of sight at once.
 * FAKE_BAD_FP=1: every stack ends for want of frame pointers.
 * FAKE_LINES=hang, late, unread, write: looking up lines takes for ever, or there was no time for all, or there are files that
 * cannot be read, or it is at its writing when it is told to end.
 * FAKE_LOG=FILE: what was asked for, line by line.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "ringside.h"
#include "util.h"

#define SAMPLES_A_ROUND 7

struct RingsideSession {
        RingsideError error;
        int fd;
        int targets[64];
        uint32_t pids[64];
        bool announced[64];
        unsigned n_targets;
        uint64_t start; /* ns, 0: not started */
        bool stopped;
        uint64_t emitted, processes;
        enum RingsideKernel kernel;
        enum RingsideScope scope;
        uint64_t ring_size, table_size;
        bool is_short;
        uint64_t wanted;
};

/* When the last session was started, for the recorder knows no session. */
static uint64_t last_start;

static uint64_t now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_BOOTTIME, &t);
        return (uint64_t) t.tv_sec * 1000000000U + (uint64_t) t.tv_nsec;
}

static uint64_t number(const char *name) {
        const char *e = getenv(name);

        return e ? strtoull(e, NULL, 10) : 0;
}

static bool is(const char *name, const char *value) {
        const char *e = getenv(name);

        return e && strcmp(e, value) == 0;
}

static void _printf_(1, 2) note(const char *format, ...) {
        const char *path = getenv("FAKE_LOG");
        _cleanup_fclose_ FILE *f = path ? fopen(path, "ae") : NULL;
        va_list ap;

        if (!f)
                return;
        va_start(ap, format);
        vfprintf(f, format, ap);
        va_end(ap);
}

static int fail(RingsideSession *s, int code, const char *text, const char *hint) {
        s->error.code = code;
        snprintf(s->error.text, sizeof(s->error.text), "%s", text);
        snprintf(s->error.hint, sizeof(s->error.hint), "%s", hint);
        return code;
}

/* As a commit does, which takes until then. */
static void write_to_the_end(void) {
        sigset_t all, before, pending;

        (void) sigfillset(&all);
        (void) sigprocmask(SIG_BLOCK, &all, &before);
        note("writing\n");
        do {
                (void) poll(NULL, 0, 1);
                (void) sigpending(&pending);
        } while (!sigismember(&pending, SIGTERM));
        note("written\n");
        (void) sigprocmask(SIG_SETMASK, &before, NULL);
}

int ringside_symbolize(const char *path, const RingsideSymbolizeOptions *options, RingsideSymbolizeStatistics *ret,
                       RingsideError *error) {
        int (*real)(const char *, const RingsideSymbolizeOptions *, RingsideSymbolizeStatistics *, RingsideError *);
        int r;

        note("lines within %" PRIu64 " ms\n", options->timeout / 1000000);
        note("servers '%s'\n", options->debuginfod_urls ?: "none");
        note("symbolize\n");
        if (is("FAKE_LINES", "late")) {
                ret->late = 1;
                return 0;
        }
        while (is("FAKE_LINES", "hang"))
                (void) poll(NULL, 0, -1);
        if (is("FAKE_LINES", "write"))
                write_to_the_end();
        real = (__typeof__(real)) dlsym(RTLD_NEXT, "ringside_symbolize");
        r = real(path, options, ret, error);
        if (r >= 0 && is("FAKE_LINES", "unread")) {
                ret->zstd = 1;
                ret->dwp = 2;
        }
        return r;
}

int ringside_session_new(RingsideSession **ret) {
        RingsideSession *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->fd = eventfd(0, EFD_CLOEXEC);
        *ret = s;
        return 0;
}

RingsideSession *ringside_session_free(RingsideSession *s) {
        if (!s)
                return NULL;
        for (unsigned i = 0; i < s->n_targets; i++)
                close_fd(s->targets[i]);
        close_fd(s->fd);
        free(s);
        return NULL;
}

const RingsideError *ringside_session_get_error(RingsideSession *s) {
        return &s->error;
}

int ringside_session_set_helper(_unused_ RingsideSession *s, enum RingsideHelper helper) {
        note("helper %d\n", helper);
        return 0;
}

int ringside_session_add_event(RingsideSession *s, const char *name, bool by_period, uint64_t value) {
        note("event %s %s %" PRIu64 "\n", name, by_period ? "period" : "hz", value);
        if (strncmp(name, "cpu-", 4) != 0)
                return fail(s, RINGSIDE_E_NO_EVENT, "There is no event of that name", "ringside events lists them");
        return 0;
}

int ringside_session_set_frequency(_unused_ RingsideSession *s, uint64_t hz) {
        note("frequency %" PRIu64 "\n", hz);
        return 0;
}

int ringside_session_set_ring_size(RingsideSession *s, uint64_t bytes) {
        note("ring %" PRIu64 "\n", bytes);
        s->ring_size = bytes;
        return 0;
}

int ringside_session_set_table_size(RingsideSession *s, uint64_t bytes) {
        note("table %" PRIu64 "\n", bytes);
        s->table_size = bytes;
        return 0;
}

uint64_t ringside_session_get_table_size(RingsideSession *s) {
        return s->table_size;
}

int ringside_session_set_max_frames(_unused_ RingsideSession *s, unsigned frames) {
        note("frames %u\n", frames);
        return 0;
}

int ringside_session_set_interactive(_unused_ RingsideSession *s, bool interactive) {
        note("interactive %d\n", interactive);
        return 0;
}

int ringside_session_set_targeted(_unused_ RingsideSession *s, bool targeted) {
        note("targeted %d\n", targeted);
        return 0;
}

int ringside_session_set_kernel(RingsideSession *s, enum RingsideKernel kernel) {
        note("kernel %d\n", kernel);
        s->kernel = kernel;
        return 0;
}

int ringside_session_set_scope(RingsideSession *s, enum RingsideScope scope) {
        note("scope %d\n", scope);
        s->scope = scope;
        return 0;
}

bool ringside_session_has_kernel_frames(RingsideSession *s) {
        return s->kernel != RINGSIDE_KERNEL_NO && is("FAKE_KERNEL", "1");
}

enum RingsideKernel ringside_session_get_kernel(RingsideSession *s) {
        return s->kernel;
}

enum RingsideScope ringside_session_get_scope(RingsideSession *s) {
        return s->scope;
}

int ringside_session_open(RingsideSession *s) {
        if (is("FAKE_OPEN", "denied"))
                return fail(s, RINGSIDE_E_DENIED, "polkit refused org.ringside.helper1.profile-own",
                            "first line of the hint\nsecond line");
        /* To remember rules takes some, too, where there are tables. */
        s->wanted = getenv("FAKE_LEFT") ? ((s->table_size ? UINT64_C(6) : 5) << 19) + (s->ring_size ?: 8 << 20) + s->table_size : 0;
        s->is_short = s->wanted > number("FAKE_LEFT") || (is("FAKE_OPEN", "memory") && s->table_size > 0);
        if (s->is_short)
                return fail(s, RINGSIDE_E_BUDGET, "memory of one user's sessions", "its hint");
        if (is("FAKE_OPEN", "invalid"))
                return fail(s, RINGSIDE_E_INVALID, "events: 21000 Hz", "ask for what fits");
        if (is("FAKE_OPEN", "rate"))
                return fail(s, RINGSIDE_E_BUDGET, "rate of one user: 1 Hz left", "its hint");
        return 0;
}

bool ringside_session_is_short_of_memory(RingsideSession *s, uint64_t *ret_wanted, uint64_t *ret_left) {
        *ret_wanted = s->wanted;
        *ret_left = number("FAKE_LEFT");
        return s->is_short;
}

static uint32_t pid_of(int pidfd) {
        char path[64], line[128];
        _cleanup_fclose_ FILE *f = NULL;
        unsigned pid = 0;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Pid: %u", &pid) == 1)
                        break;
        return pid;
}

int ringside_session_add_cgroup(_unused_ RingsideSession *s, uint64_t id, bool v1) {
        note("cgroup %" PRIu64 " v%d\n", id, v1 ? 1 : 2);
        return 0;
}

static void wait_for_end_of(uint32_t pid, pid_t tid) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%d", pid, (int) tid);
        while (access(path, F_OK) == 0)
                (void) poll(NULL, 0, 10);
}

int ringside_session_add_target(RingsideSession *s, int pidfd, pid_t tid, unsigned flags) {
        if (is("FAKE_TARGET", "gone"))
                return fail(s, RINGSIDE_E_TARGET, "The process is gone", "");
        if (is("FAKE_TARGET", "hidden"))
                return fail(s, RINGSIDE_E_TARGET, "that process is not yours to see", "its hint");
        if (tid != 0)
                note("thread %d\n", (int) tid);
        if (is("FAKE_TARGET", "slow"))
                wait_for_end_of(pid_of(pidfd), tid);
        note("target %u flags %u\n", pid_of(pidfd), flags);
        s->pids[s->n_targets] = pid_of(pidfd);
        s->targets[s->n_targets++] = dup(pidfd);
        return 1;
}

int ringside_session_start(RingsideSession *s) {
        if (is("FAKE_START", "refused"))
                return fail(s, RINGSIDE_E_BUDGET, "Over the budget of 1000 Hz", "use -F 500");
        s->start = last_start = now();
        note("start\n");
        return 0;
}

int ringside_session_stop(RingsideSession *s) {
        s->stopped = true;
        return 0;
}

int ringside_session_get_fd(RingsideSession *s) {
        return s->fd;
}

static int process(RingsideRecordFunc func, void *userdata, enum RingsideProcessKind kind, uint32_t pid, uint32_t ppid) {
        RingsideRecord r = { .type = RINGSIDE_PROCESS, .time = now(), .pid = pid, .tid = pid };

        r.process.kind = kind;
        r.process.ppid = ppid;
        r.process.start = r.time;
        strcpy(r.process.comm, "\033[31mfake\n");
        return func(&r, userdata);
}

static int dispatch_target(RingsideSession *s, unsigned i, RingsideRecordFunc func, void *userdata) {
        struct pollfd p = { .fd = s->targets[i], .events = POLLIN };
        bool ended = poll(&p, 1, 0) > 0;
        const uint64_t frames[] = { 0x1111, 0x2222 };
        RingsideRecord r = { .type = RINGSIDE_STACK, .pid = s->pids[i], .tid = s->pids[i] };

        if (s->pids[i] == 0 || is("FAKE_PROGRAM", "hidden"))
                return 0;
        if (!s->announced[i]) {
                s->announced[i] = true;
                (void) process(func, userdata, RINGSIDE_PROCESS_EXEC, s->pids[i], 0);
                s->processes++;
                if (is("FAKE_PROGRAM", "leaves")) {
                        (void) process(func, userdata, RINGSIDE_PROCESS_GONE, s->pids[i], 0);
                        s->pids[i] = 0;
                        return 0;
                }
                r.stack.id = i + 1;
                r.stack.frames = frames;
                r.stack.n_frames = ELEMENTSOF(frames);
                (void) func(&r, userdata);
        }
        for (int n = 0; n < SAMPLES_A_ROUND; n++) {
                r = (RingsideRecord){ .type = RINGSIDE_SAMPLE, .time = now(), .pid = s->pids[i], .tid = s->pids[i] };
                r.sample.walk_end = is("FAKE_BAD_FP", "1") ? RINGSIDE_WALK_BAD_FP : RINGSIDE_WALK_COMPLETE;
                r.sample.leaf = 0x3333;
                r.sample.stack = i + 1;
                (void) func(&r, userdata);
                s->emitted++;
        }
        if (ended) {
                (void) process(func, userdata, RINGSIDE_PROCESS_EXIT, s->pids[i], 0);
                s->pids[i] = 0;
        }
        return SAMPLES_A_ROUND;
}

int ringside_session_dispatch(RingsideSession *s, RingsideRecordFunc func, void *userdata) {
        uint64_t end = number("FAKE_END_MS");
        int n = 0;

        if (end > 0 && now() > s->start + end * 1000000)
                return fail(s, RINGSIDE_E_ENDED, "The helper ended the session", "look into its journal");
        for (unsigned i = 0; i < s->n_targets; i++)
                n += dispatch_target(s, i, func, userdata);
        return s->stopped ? 0 : n;
}

int ringside_session_get_statistics(RingsideSession *s, RingsideStatistics *ret) {
        *ret = (RingsideStatistics){ .taken = s->emitted, .emitted = s->emitted, .processes = s->processes };
        ret->walk_end[is("FAKE_BAD_FP", "1") ? RINGSIDE_WALK_BAD_FP : RINGSIDE_WALK_COMPLETE] = s->emitted;
        return 0;
}

unsigned ringside_session_get_n_events(_unused_ RingsideSession *s) {
        return 1;
}

int ringside_session_get_event(_unused_ RingsideSession *s, _unused_ unsigned index, RingsideEvent *ret) {
        *ret = (RingsideEvent){ .name = "cpu-clock", .unit = "ns", .value = 99 };
        return 0;
}

enum RingsideHelper ringside_session_get_helper(_unused_ RingsideSession *s) {
        return RINGSIDE_HELPER_BUS;
}

int ringside_list_events(_unused_ enum RingsideHelper helper, RingsideEventInfo **ret_events, size_t *ret_n,
                         RingsideError *error) {
        static const RingsideEventInfo events[] = {
                { "cpu-clock", "ns", "software", "The kernel's clock of CPU time", true, "" },
                { "cpu-\033[31mcycles", "cycles", "hardware", "Cycles of the CPU", false,
                  "This machine has no PMU, as most virtual machines have none; cpu-clock works" },
        };

        if (is("FAKE_LIST", "no-bus")) {
                *error = (RingsideError){ RINGSIDE_E_NO_BUS, "There is no system bus", "start one" };
                return error->code;
        }
        *ret_events = malloc(sizeof(events));
        if (!*ret_events)
                return -ENOMEM;
        memcpy(*ret_events, events, sizeof(events));
        *ret_n = ELEMENTSOF(events);
        return 0;
}

int ringside_check_system(RingsideCheck **ret_checks, size_t *ret_n) {
        static const RingsideCheck checks[] = {
                { "kernel", RINGSIDE_CHECK_OK, "Linux 6.12 has what it takes", "" },
                { "pmu", RINGSIDE_CHECK_NOTE, "There is no PMU, so cpu-cycles cannot be counted on this machine",
                  "cpu-clock is used" },
                { "bus", RINGSIDE_CHECK_FAILED, "The system bus does not answer", "start dbus\nor use --helper=direct" },
        };

        *ret_n = is("FAKE_CHECK", "fine") ? 2 : 3;
        *ret_checks = malloc(sizeof(checks));
        if (!*ret_checks)
                return -ENOMEM;
        memcpy(*ret_checks, checks, sizeof(checks));
        return 0;
}

/* The real one would look into a session of its own making. */
int ringside_recorder_new(RingsideRecorder **ret, const char *path, _unused_ RingsideSession *session,
                          const RingsideRecorderOptions *options, RingsideError *error) {
        __typeof__(&ringside_recorder_new) real = (__typeof__(real)) dlsym(RTLD_NEXT, "ringside_recorder_new");

        return real ? real(ret, path, NULL, options, error) : -ENOSYS;
}

unsigned ringside_recorder_get_n_alive(RingsideRecorder *recorder) {
        __typeof__(&ringside_recorder_get_n_alive) real =
                (__typeof__(real)) dlsym(RTLD_NEXT, "ringside_recorder_get_n_alive");

        return (real ? real(recorder) : 0) + (now() < last_start + number("FAKE_CHILD_MS") * 1000000);
}
