/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A session from the client's side: options, the socket's requests and answers, the ring and the
 * counters. Everything here is one thread's; nothing blocks but what says so.
 */

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "decode.h"
#include "error.h"
#include "event-type.h"
#include "helper.h"
#include "packet.h"
#include "ring.h"
#include "session-internal.h"
#include "time-offset.h"
#include "unwind-table.h"
#include "util.h"

#define DEFAULT_FREQUENCY 99
#define DEFAULT_FRAMES 127
#define DEFAULT_RING_SIZE (8ULL * 1024 * 1024)
/* Of the unwind tables, at first: what all files share, and room for those of small programs. */
#define TABLES_MAPPED (2U << 20)
/* Loading the programs takes a slow machine a while; more than this is a helper that hangs. */
#define ANSWER_MSEC 60000
/* How long the helper of a direct session may take to end once its socket is closed. */
#define REAP_MSEC 5000
#define CPUS_MAX 8192
/* Counters of records that were lost are looked at so often. */
#define LOST_INTERVAL_NS UINT64_C(1000000000)

static int fail(RingsideSession *session, int code, const char *hint, const char *text) {
        return error_set(&session->error, code, hint, "%s", text);
}

/* ---- options ---- */

int ringside_session_new(RingsideSession **ret) {
        RingsideSession *session = calloc(1, sizeof(*session));

        if (!session)
                return -ENOMEM;
        session->fd = session->epoll_fd = session->ring_fd = session->tables_fd = -1;
        session->frequency = DEFAULT_FREQUENCY;
        session->request.grant.max_frames = DEFAULT_FRAMES;
        session->request.grant.ring_size = DEFAULT_RING_SIZE;
        *ret = session;
        return 0;
}

const RingsideError *ringside_session_get_error(RingsideSession *session) {
        return &session->error;
}

int ringside_session_set_helper(RingsideSession *session, enum RingsideHelper helper) {
        if (helper < RINGSIDE_HELPER_AUTO || helper > RINGSIDE_HELPER_DIRECT)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no such way to a helper");
        session->helper = helper;
        return 0;
}

int ringside_session_add_event(RingsideSession *session, const char *name, bool by_period, uint64_t value) {
        const EventType *type = event_type_by_name(name);
        struct rs_grant *grant = &session->request.grant;

        if (!type)
                return error_set(&session->error, RINGSIDE_E_NO_EVENT, "'ringside events' lists all there are.",
                                 "no event is called %s", name);
        if (grant->nr_events >= RS_EVENTS_MAX)
                return fail(session, RINGSIDE_E_INVALID, NULL, "more than 8 events");
        for (unsigned i = 0; i < grant->nr_events; i++)
                if (grant->events[i].id == type->id)
                        return error_set(&session->error, RINGSIDE_E_INVALID, "One is enough; how often is said by -F, or behind it, as in cpu-clock@999.",
                                         "%s is named twice", name);
        if (by_period)
                return error_set(&session->error, RINGSIDE_E_INVALID, "Give a frequency in Hz.",
                                 "%s: sampling by period is not offered", name);
        if (value < 1 || value > UINT32_MAX)
                return error_set(&session->error, RINGSIDE_E_INVALID, NULL, "%s: the frequency is out of range", name);
        grant->events[grant->nr_events++] = (struct rs_event){.id = type->id, .by_period = by_period, .value = value};
        return 0;
}

int ringside_session_set_frequency(RingsideSession *session, uint64_t hz) {
        if (hz < 1 || hz > UINT32_MAX)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the frequency is out of range");
        session->frequency = hz;
        return 0;
}

int ringside_session_set_ring_size(RingsideSession *session, uint64_t bytes) {
        if (bytes < RS_RING_SIZE_MIN || bytes > RS_RING_SIZE_MAX || (bytes & (bytes - 1)) != 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the ring size must be a power of two from 64K to 64M");
        session->request.grant.ring_size = bytes;
        return 0;
}

int ringside_session_set_table_size(RingsideSession *session, uint64_t bytes) {
        if (bytes != 0 && (bytes < RS_TABLE_SIZE_MIN || bytes > RS_TABLE_SIZE_MAX || (bytes & (bytes - 1)) != 0))
                return fail(session, RINGSIDE_E_INVALID, NULL, "the size of the unwind tables must be 0, or a power of two from 4M to 64M");
        session->request.grant.table_size = bytes;
        return 0;
}

int ringside_session_set_max_frames(RingsideSession *session, unsigned frames) {
        if (frames < 1 || frames > RS_FRAMES_MAX)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the number of frames must be 1 to 255");
        session->request.grant.max_frames = frames;
        return 0;
}

int ringside_session_set_interactive(RingsideSession *session, bool interactive) {
        session->request.interactive = interactive;
        return 0;
}

int ringside_session_set_targeted(RingsideSession *session, bool targeted) {
        if (targeted)
                session->request.grant.grants |= RS_GRANT_TARGETS;
        else
                session->request.grant.grants &= ~RS_GRANT_TARGETS;
        return 0;
}

int ringside_session_set_kernel(RingsideSession *session, enum RingsideKernel kernel) {
        if (kernel < RINGSIDE_KERNEL_QUIET || kernel > RINGSIDE_KERNEL_NO)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no such way to ask for kernel frames");
        session->request.kernel = kernel;
        return 0;
}

int ringside_session_set_scope(RingsideSession *session, enum RingsideScope scope) {
        if (scope != RINGSIDE_SCOPE_OWN && scope != RINGSIDE_SCOPE_SYSTEM)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no such scope");
        if (scope == RINGSIDE_SCOPE_SYSTEM)
                session->request.grant.grants |= RS_GRANT_SYSTEM;
        else
                session->request.grant.grants &= ~RS_GRANT_SYSTEM;
        return 0;
}

/* ---- the socket ---- */

static int session_ended(RingsideSession *session) {
        return helper_error(&session->error, session->end_error ?: RS_ERROR_HELPER_GONE, 0);
}

/* Takes what has arrived: the answer to cookie, or END. Returns 1: ret is the answer, 0: it was something else. */
static int session_receive(RingsideSession *session, uint64_t cookie, union rs_any_message *ret, Packet *ret_packet) {
        Packet packet;
        int r;

        memset(ret, 0, sizeof(*ret));
        r = packet_receive(session->fd, ret, sizeof(*ret), RS_RINGS_MAX + 16, MSG_DONTWAIT, &packet);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0 || packet.size < sizeof(ret->m) || packet.size != ret->m.len || ret->m.type == RS_END) {
                session->ended = true;
                if (r > 0) {
                        session->end_error = ret->m.type == RS_END ? ret->m.error : RS_ERROR_PROTOCOL;
                        packet_done(&packet);
                }
                return session_ended(session);
        }
        if (ret->m.cookie != cookie || cookie == 0) {
                packet_done(&packet);
                return 0;
        }
        *ret_packet = packet;
        return 1;
}

int session_ask(RingsideSession *session, uint32_t type, struct rs_message *request, size_t size, int fd,
                union rs_any_message *ret, size_t answer_size, Packet *ret_packet) {
        int r;

        if (session->fd < 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the session is not open");
        if (session->ended)
                return session_ended(session);
        request->type = type;
        request->len = size;
        request->cookie = ++session->cookie;
        r = packet_send(session->fd, request, size, &fd, fd >= 0, 0);
        /* Closed already: why, it may have said before. */
        if (r < 0 && r != -EPIPE && r != -ECONNRESET)
                return error_set(&session->error, r, NULL, "the helper's socket: %s", strerror(-r));
        for (;;) {
                struct pollfd p = {.fd = session->fd, .events = POLLIN};

                r = poll(&p, 1, ANSWER_MSEC);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0) {
                        session->ended = true;
                        return fail(session, RINGSIDE_E_PROTOCOL, "Its journal has more.", "the helper does not answer");
                }
                r = session_receive(session, session->cookie, ret, ret_packet);
                if (r != 0)
                        break;
        }
        if (r < 0)
                return r;
        if (ret->m.type != type + 1 || ret_packet->size != answer_size) {
                packet_done(ret_packet);
                session->ended = true;
                return helper_error(&session->error, RS_ERROR_PROTOCOL, 0);
        }
        if (ret->m.error != RS_OK) {
                packet_done(ret_packet);
                return helper_error(&session->error, ret->m.error, ret->m.detail);
        }
        return 0;
}

/* A request of nothing but its type. */
static int session_ask_simple(RingsideSession *session, uint32_t type, union rs_any_message *ret, size_t answer_size) {
        struct rs_request request = {};
        Packet packet = {};
        int r;

        r = session_ask(session, type, &request.m, sizeof(request), -1, ret, answer_size, &packet);
        packet_done(&packet);
        return r;
}

/* ---- opening ---- */

static bool welcome_is_sound(const struct rs_welcome *w, size_t n_fds) {
        bool sound = w->version == RS_PROTOCOL_VERSION && w->layout == RS_LAYOUT_VERSION && w->nr_cpus >= 1 &&
                     w->nr_cpus <= CPUS_MAX && w->counter_size == sizeof(struct rs_counters) && w->nr_events >= 1 &&
                     w->nr_events <= RS_EVENTS_MAX && w->nr_fds == n_fds && n_fds <= ELEMENTSOF(w->fd_kind) &&
                     w->max_frames >= 1 && w->max_frames <= RS_FRAMES_MAX && w->ring_size >= RS_RING_SIZE_MIN &&
                     w->ring_size <= RS_RING_SIZE_MAX && (w->ring_size & (w->ring_size - 1)) == 0 &&
                     w->clock == CLOCK_BOOTTIME && w->table_size <= RS_TABLE_SIZE_MAX &&
                     (w->table_size == 0 || (w->table_size >= RS_TABLE_SIZE_MIN && (w->table_size & (w->table_size - 1)) == 0));

        for (unsigned i = 0; sound && i < w->nr_events; i++)
                sound = event_type_by_id(w->events[i].id) != NULL;
        return sound;
}

static int session_map_counters(RingsideSession *session, int fd) {
        size_t page = sysconf(_SC_PAGESIZE);
        size_t size = (session->welcome.nr_cpus * sizeof(struct rs_counters) + page - 1) / page * page;
        void *counters = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

        if (counters == MAP_FAILED)
                return -errno;
        session->counters = counters;
        session->counters_size = size;
        return 0;
}

/*
 * What the programs walk stacks by, which is ours to write. Most sessions use a small part of it, and the kernel enters
 * each page at once, which takes a microsecond for each: the unwinder maps what it needs.
 */
static int session_map_tables(RingsideSession *session, int fd) {
        const size_t size = session->welcome.table_size, mapped = MIN(size, TABLES_MAPPED);
        void *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int r;

        if (place == MAP_FAILED)
                return -errno;
        if (mmap(place, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
                r = -errno;
                (void) munmap(place, size);
                return r;
        }
        (void) madvise(place, mapped, MADV_DONTFORK); /* as the ring */
        session->tables = place;
        session->tables_size = size;
        session->tables_mapped = mapped;
        return 0;
}

/* Ring, counters and tables, found by kind: a later helper may send more than we know. */
static int session_take_fds(RingsideSession *session, Packet *packet) {
        struct epoll_event event = {.events = EPOLLIN};
        int r;

        session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (session->epoll_fd < 0 || epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, session->fd, &event) < 0)
                return -errno;
        for (size_t i = 0; i < packet->n_fds; i++) {
                if (session->welcome.fd_kind[i] == RS_FD_RING && !session->ring) {
                        r = ring_new(&session->ring, packet->fds[i], session->welcome.ring_size);
                        if (r < 0)
                                return r;
                        if (epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, packet->fds[i], &event) < 0)
                                return -errno;
                        /* epoll forgets a file with its last descriptor; kept until the session is freed. */
                        session->ring_fd = TAKE_FD(packet->fds[i]);
                } else if (session->welcome.fd_kind[i] == RS_FD_COUNTERS && !session->counters) {
                        r = session_map_counters(session, packet->fds[i]);
                        if (r < 0)
                                return r;
                } else if (session->welcome.fd_kind[i] == RS_FD_TABLES && session->welcome.table_size > 0 && !session->tables) {
                        r = session_map_tables(session, packet->fds[i]);
                        if (r < 0)
                                return r;
                        session->tables_fd = TAKE_FD(packet->fds[i]);
                }
        }
        return session->ring && session->counters && (session->tables || session->welcome.table_size == 0) ? 0 : -EBADMSG;
}

static int session_hello(RingsideSession *session) {
        struct rs_hello hello = {.version = RS_PROTOCOL_VERSION};
        _cleanup_close_ int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
        union rs_any_message answer;
        Packet packet = {};
        int r;

        if (pidfd < 0)
                return error_set(&session->error, -errno, NULL, "no pidfd of this process: %s", strerror(errno));
        r = session_ask(session, RS_HELLO, &hello.m, sizeof(hello), pidfd, &answer, sizeof(answer.welcome), &packet);
        if (r < 0)
                return r;
        session->welcome = answer.welcome;
        if (!welcome_is_sound(&session->welcome, packet.n_fds))
                r = helper_error(&session->error, RS_ERROR_VERSION, 0);
        else {
                r = session_take_fds(session, &packet);
                if (r < 0)
                        error_set(&session->error, r, NULL, "the helper's ring cannot be mapped: %s", strerror(-r));
        }
        packet_done(&packet);
        return r;
}

/* cpu-cycles where it works, else cpu-clock. */
static int session_choose_event(RingsideSession *session) {
        _cleanup_free_ RingsideEventInfo *events = NULL;
        const char *name = "cpu-clock";
        size_t n;
        int r;

        r = ringside_list_events(session->helper, &events, &n, &session->error);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (strcmp(events[i].name, "cpu-cycles") == 0 && events[i].available)
                        name = "cpu-cycles";
        return ringside_session_add_event(session, name, false, session->frequency);
}

int ringside_session_open(RingsideSession *session) {
        int r;

        if (session->fd >= 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the session is open already");
        session->time_offset = time_offset("boottime");
        session->request.short_of_memory = false;
        session->request.memory_wanted = session->request.memory_left = 0;
        session->helper = helper_choose(session->helper);
        if (session->request.grant.nr_events == 0) {
                r = session_choose_event(session);
                if (r < 0)
                        return r;
        }
        if (session->helper == RINGSIDE_HELPER_BUS)
                r = helper_open_bus(&session->request, &session->fd, &session->error);
        else
                r = helper_open_direct(&session->request, &session->fd, &session->pid, &session->error);
        return r < 0 ? r : session_hello(session);
}

bool ringside_session_is_short_of_memory(RingsideSession *session, uint64_t *ret_wanted, uint64_t *ret_left) {
        *ret_wanted = session->request.memory_wanted;
        *ret_left = session->request.memory_left;
        return session->request.short_of_memory;
}

/* The helper ends when it sees the socket closed. */
static void session_reap(RingsideSession *session) {
        _cleanup_close_ int pidfd = syscall(SYS_pidfd_open, session->pid, 0);
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        if (pidfd >= 0)
                (void) poll(&p, 1, REAP_MSEC);
        (void) waitpid(session->pid, NULL, WNOHANG);
}

RingsideSession *ringside_session_free(RingsideSession *session) {
        if (!session)
                return NULL;
        close_fd(session->fd);
        (void) unwinder_free(session->unwinder);
        if (session->pid > 0)
                session_reap(session);
        ring_free(session->ring);
        table_done(&session->maps.known);
        if (session->counters)
                munmap((void *) session->counters, session->counters_size);
        if (session->tables && !session->unwinder) { /* whose they are */
                munmap(session->tables, session->tables_size);
                close_fd(session->tables_fd);
        }
        close_fd(session->epoll_fd);
        close_fd(session->ring_fd);
        free(session);
        return NULL;
}

/* ---- targets, start, stop ---- */

int ringside_session_add_target(RingsideSession *session, int pidfd, pid_t tid, unsigned flags) {
        struct rs_target target = {.flags = flags, .tid = tid};
        union rs_any_message answer;
        Packet packet = {};
        int r;

        if (pidfd < 0 || tid < 0 || (flags & ~(RS_TARGET_ON_EXEC | RS_TARGET_NO_INHERIT)))
                return fail(session, RINGSIDE_E_INVALID, NULL, "the target's pidfd, tid or flags are out of range");
        r = session_ask(session, RS_TARGET, &target.m, sizeof(target), pidfd, &answer, sizeof(answer.targeted), &packet);
        packet_done(&packet);
        return r < 0 ? r : (int) MIN(answer.targeted.threads, (uint32_t) RS_TASK_EVENTS_MAX);
}

int ringside_session_add_cgroup(RingsideSession *session, uint64_t id, bool v1) {
        struct rs_target target = {.flags = RS_TARGET_CGROUP | (v1 ? RS_TARGET_CGROUP_V1 : 0), .cgroup = id};
        union rs_any_message answer;
        Packet packet = {};
        int r;

        if (id == 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no cgroup has the number 0");
        r = session_ask(session, RS_TARGET, &target.m, sizeof(target), -1, &answer, sizeof(answer.targeted), &packet);
        packet_done(&packet);
        return r;
}

bool ringside_session_has_kernel_frames(RingsideSession *session) {
        return session->welcome.grants & RS_GRANT_KERNEL;
}

enum RingsideKernel ringside_session_get_kernel(RingsideSession *session) {
        return session->request.kernel;
}

enum RingsideScope ringside_session_get_scope(RingsideSession *session) {
        return session->welcome.grants & RS_GRANT_SYSTEM ? RINGSIDE_SCOPE_SYSTEM : RINGSIDE_SCOPE_OWN;
}

uint64_t ringside_session_get_table_size(RingsideSession *session) {
        return session->tables_size;
}

int ringside_session_start(RingsideSession *session) {
        union rs_any_message answer;
        int r;

        /* Not before it is needed: until then the caller is free to fork. */
        if (session->tables && !session->unwinder) {
                r = unwinder_new(&session->unwinder, session->tables, session->tables_size, session->tables_fd,
                                 session->tables_mapped);
                if (r < 0)
                        return error_set(&session->error, r, NULL, "the unwind tables cannot be set up: %s", strerror(-r));
        }
        r = session_ask_simple(session, RS_START, &answer, sizeof(answer.request));
        if (r >= 0)
                session->started = true;
        return r;
}

int ringside_session_stop(RingsideSession *session) {
        union rs_any_message answer;
        int r;

        if (!session->started)
                return 0;
        r = session_ask_simple(session, RS_STOP, &answer, sizeof(answer.request));
        if (r >= 0)
                session->started = false;
        return r;
}

/* ---- records ---- */

int ringside_session_get_fd(RingsideSession *session) {
        return session->epoll_fd;
}

void session_own_times(const RingsideSession *session, RingsideRecord *record) {
        uint64_t *start = record->type == RINGSIDE_PROCESS   ? &record->process.start
                          : record->type == RINGSIDE_MAPPING ? &record->mapping.process_start
                                                             : NULL;

        if (session->time_offset == 0)
                return;
        if (record->time != 0)
                record->time += (uint64_t) session->time_offset;
        if (start && *start != 0)
                *start += (uint64_t) session->time_offset;
}

/* Delivers a record, and what has to come before or after it. Returns how many that were. */
static int session_deliver(RingsideSession *session, const RingsideRecord *record, RingsideRecordFunc func,
                           void *userdata) {
        int n = 1, r = 0;

        if (record->type == RINGSIDE_STACK)
                r = session_names_look(session, record, func, userdata);
        if (r < 0)
                return r;
        n += r;
        if (session->unwinder)
                unwinder_note(session->unwinder, record); /* first: until there is a table stacks are cut short */
        r = func(record, userdata);
        if (r >= 0)
                r = session_maps_note(session, record);
        if (r > 0)
                r = session_maps_serve(session, func, userdata); /* at once: it may be short-lived */
        return r < 0 ? r : n + r;
}

static int session_drain(RingsideSession *session, RingsideRecordFunc func, void *userdata) {
        _Alignas(8) uint8_t bytes[DECODE_RECORD_MAX];
        int n = 0, size;

        while ((size = ring_read(session->ring, bytes, sizeof(bytes))) > 0) {
                RingsideRecord record;
                int r = decode_record(bytes, size, session->welcome.nr_events, &record);

                if (r == DECODE_UNKNOWN)
                        session->unknown++;
                else if (r == DECODE_MALFORMED)
                        session->malformed++;
                else {
                        session_own_times(session, &record);
                        r = session_deliver(session, &record, func, userdata);
                        if (r < 0) {
                                ring_release(session->ring);
                                return r;
                        }
                        n += r;
                }
        }
        return size < 0 ? fail(session, RINGSIDE_E_PROTOCOL, NULL, "the ring is corrupt") : n;
}

/* Who is not told of processes' ends keeps what it has for them. */
static void session_look_for_lost(RingsideSession *session) {
        uint64_t t = now_ns(CLOCK_MONOTONIC), lost = 0;

        if (!session->unwinder || t < session->lost_next)
                return;
        session->lost_next = t + LOST_INTERVAL_NS;
        for (unsigned i = 0; i < session->welcome.nr_cpus; i++) {
                const volatile struct rs_counters *c = &session->counters[i];

                lost += c->processes_lost;
        }
        if (lost != session->processes_lost)
                unwinder_note_lost(session->unwinder);
        session->processes_lost = lost;
}

int ringside_session_dispatch(RingsideSession *session, RingsideRecordFunc func, void *userdata) {
        union rs_any_message message;
        Packet packet;
        int n = 0, r;

        if (session->fd < 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the session is not open");
        /* The end first, the ring after it: then all that was written before the end is seen. */
        if (!session->ended)
                (void) session_receive(session, 0, &message, &packet);
        session_look_for_lost(session);
        for (int step = 0; step < 3; step++) {
                r = step == 0   ? session_names_poll(session, func, userdata)
                    : step == 1 ? session_drain(session, func, userdata)
                                : session_maps_serve(session, func, userdata);
                if (r < 0)
                        return r;
                n += r;
        }
        return n == 0 && session->ended ? session_ended(session) : n;
}

/* ---- statistics ---- */

/* What the count of an event should have given, if it is one of time. */
static uint64_t session_expected_of(const RingsideSession *session, unsigned event) {
        const SessionRate *r = &session->rates[event];
        uint64_t rate = r->rate ?: session->welcome.events[event].value;
        uint64_t count = session->kernel.count[event];

        return r->expected + (uint64_t) ((__uint128_t) (count - MIN(count, r->counted)) * rate / 1000000000U);
}

/* What the counted events should have given: only where the count is time, so that the rate is known. */
static uint64_t session_expected(const RingsideSession *session) {
        uint64_t expected = 0;

        for (unsigned i = 0; i < session->welcome.nr_events; i++) {
                const struct rs_event *e = &session->welcome.events[i];

                if (e->id != RS_EVENT_CPU_CLOCK || e->by_period)
                        return 0;
                expected += session_expected_of(session, i);
        }
        return expected;
}

int ringside_session_set_rate(RingsideSession *session, unsigned event, uint64_t hz) {
        struct rs_set_rate request = {.event = event, .rate = hz};
        union rs_any_message answer;
        RingsideStatistics ignored;
        Packet packet = {};
        int r;

        if (session->fd < 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the session is not open");
        if (event >= session->welcome.nr_events)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no such event in this session");
        if (hz < 1 || hz > session->welcome.events[event].value)
                return helper_error(&session->error, RS_ERROR_RATE, 0);
        /* How much was counted under the rate that ends here. */
        r = ringside_session_get_statistics(session, &ignored);
        if (r < 0)
                return r;
        r = session_ask(session, RS_SET_RATE, &request.m, sizeof(request), -1, &answer, sizeof(answer.request), &packet);
        packet_done(&packet);
        if (r < 0)
                return r;
        session->rates[event] = (SessionRate){session_expected_of(session, event), session->kernel.count[event], hz};
        return 0;
}

int ringside_session_get_statistics(RingsideSession *session, RingsideStatistics *ret) {
        RingsideStatistics sum = {
                .unknown = session->unknown,
                .malformed = session->malformed,
                .ring_size = session->welcome.ring_size,
        };
        union rs_any_message answer;

        if (session->fd < 0)
                return fail(session, RINGSIDE_E_INVALID, NULL, "the session is not open");
        /* A session that is over has told its last; the counters are still mapped. */
        if (!session->ended && session_ask_simple(session, RS_STATS, &answer, sizeof(answer.statistics)) >= 0)
                session->kernel = answer.statistics;
        for (unsigned i = 0; i < session->welcome.nr_cpus; i++) {
                const volatile struct rs_counters *c = &session->counters[i];

                sum.taken += c->taken;
                sum.emitted += c->emitted;
                sum.lost += c->lost;
                sum.stacks += c->stacks;
                sum.stacks_lost += c->stacks_lost;
                sum.processes += c->processes;
                sum.processes_lost += c->processes_lost;
                sum.untracked += c->untracked;
                sum.ring_peak = MAX(sum.ring_peak, c->ring_peak);
                for (unsigned w = 0; w < RINGSIDE_WALK_END_MAX; w++)
                        sum.walk_end[w] += c->walk_end[w];
        }
        sum.expected = session_expected(session);
        sum.missed = session->kernel.missed;
        if (session->unwinder) {
                UnwinderStatistics tables;

                unwinder_get_statistics(session->unwinder, &tables);
                sum.tables_refused = tables.images.refused;
                sum.tables_no_room = tables.images.no_room;
                sum.rules_no_room = tables.images.unknown_rules;
                sum.processes_no_room = tables.no_slot + tables.no_list;
                sum.tables_lost = tables.lost;
        }
        *ret = sum;
        return 0;
}

unsigned ringside_session_get_n_events(RingsideSession *session) {
        return session->welcome.nr_events;
}

int ringside_session_get_event(RingsideSession *session, unsigned index, RingsideEvent *ret) {
        const EventType *type;

        if (index >= session->welcome.nr_events)
                return fail(session, RINGSIDE_E_INVALID, NULL, "no such event in this session");
        type = event_type_by_id(session->welcome.events[index].id);
        *ret = (RingsideEvent){
                .by_period = session->welcome.events[index].by_period,
                .value = session->welcome.events[index].value,
        };
        (void) snprintf(ret->name, sizeof(ret->name), "%s", type->name);
        (void) snprintf(ret->unit, sizeof(ret->unit), "%s", type->unit);
        return 0;
}

enum RingsideHelper ringside_session_get_helper(RingsideSession *session) {
        return session->helper;
}

int ringside_list_events(enum RingsideHelper helper, RingsideEventInfo **ret_events, size_t *ret_n,
                         RingsideError *error) {
        return helper_choose(helper) == RINGSIDE_HELPER_BUS ? helper_list_events_bus(ret_events, ret_n, error)
                                                            : helper_list_events_direct(ret_events, ret_n, error);
}
