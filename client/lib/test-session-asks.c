/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a session asks by itself, while it dispatches and when a rate is set, against answers that lie ready in its socket, in the order
 * of its cookies. Requests pile up at the other end, where they are counted.
 */

#include "session.c"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <linux/bpf.h>

#include "proc-file.h"
#include "test-kernel-symbols.h"

#define RING_SIZE (1U << 20)
#define SEEN_MAX 64

typedef struct Fixture {
        RingsideSession *session;
        int helper;
        uint64_t cookie; /* of the next answer */
        uint8_t *producer;
        RingsideRecord seen[SEEN_MAX];
        unsigned n_seen;
        int result; /* of the callback */
        bool announced;
} Fixture;

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(Fixture));
        size_t page = sysconf(_SC_PAGESIZE);
        int pair[2];

        if (!f || ringside_session_new(&f->session) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -1;
        f->session->fd = pair[0];
        f->helper = pair[1];
        f->session->welcome.nr_events = 1;
        f->session->welcome.grants = RS_GRANT_KERNEL | RS_GRANT_SYSTEM;
        f->producer = aligned_alloc(page, 2 * page + RING_SIZE);
        memset(f->producer, 0, 2 * page + RING_SIZE);
        *state = f;
        return ring_new_from_memory(&f->session->ring, f->producer, f->producer + page, RING_SIZE);
}

static int teardown(void **state) {
        Fixture *f = *state;

        ringside_session_free(f->session);
        close_fd(f->helper);
        free(f->producer);
        free(f);
        return 0;
}

static void put_record(Fixture *f, const void *bytes, uint32_t length) {
        size_t page = sysconf(_SC_PAGESIZE);
        uint64_t *position = (uint64_t *) (f->producer + page);
        uint8_t *at = f->producer + 2 * page + *position;

        assert_true(*position + length + 16 < RING_SIZE);
        memcpy(at, &length, sizeof(length));
        memcpy(at + BPF_RINGBUF_HDR_SZ, bytes, length);
        *position += (length + BPF_RINGBUF_HDR_SZ + 7) & ~7U;
}

static void put_stack(Fixture *f, unsigned module) {
        enum { SIZE = sizeof(struct rs_stack) + sizeof(__u64) };
        _Alignas(struct rs_stack) uint8_t bytes[SIZE];
        struct rs_stack *stack = (struct rs_stack *) bytes;

        *stack = (struct rs_stack){ .r = { .type = RS_RECORD_STACK, .len = SIZE }, .id = 1, .pid = 1, .nr_kernel = 1 };
        stack->frames[0] = RS_FRAME_KERNEL_BIT | (__u64) module << RS_FRAME_MODULE_SHIFT;
        put_record(f, bytes, SIZE);
}

static void put_process(Fixture *f, unsigned kind, uint32_t pid, uint32_t ppid) {
        struct rs_process record = {
                .r = { .type = RS_RECORD_PROCESS, .event = kind, .len = sizeof(record) },
                .pid = pid, .tid = pid, .ppid = ppid,
        };

        put_record(f, &record, sizeof(record));
}

static void put_sample(Fixture *f, uint32_t pid) {
        struct rs_sample record = {
                .r = { .type = RS_RECORD_SAMPLE, .len = sizeof(record) }, .pid = pid, .tid = pid,
        };

        put_record(f, &record, sizeof(record));
}

static void answer(Fixture *f, struct rs_message *m, uint32_t type, size_t size, uint32_t error, int fd) {
        m->type = type;
        m->len = size;
        m->cookie = ++f->cookie;
        m->error = error;
        /* A dispatch begins with one look for the end, which takes what lies there. */
        if (!f->announced) {
                struct rs_request other = { .m = { .type = RS_STARTED, .len = sizeof(other), .cookie = UINT64_MAX } };

                assert_return_code(packet_send(f->helper, &other, sizeof(other), NULL, 0, MSG_DONTWAIT), 0);
                f->announced = true;
        }
        assert_return_code(packet_send(f->helper, m, size, &fd, fd >= 0, MSG_DONTWAIT), 0);
}

static void answer_names(Fixture *f, uint64_t generation) {
        struct rs_symbols a = { .generation = generation, .size = 77 };
        _cleanup_close_ int fd = memfd_create("names", MFD_CLOEXEC);

        answer(f, &a.m, RS_SYMBOL_NAMES, sizeof(a), RS_OK, fd);
}

/* As a session does whose names the client has got. */
static void answer_nothing_new(Fixture *f, uint64_t generation) {
        struct rs_symbols a = { .generation = generation, .size = 77 };

        answer(f, &a.m, RS_SYMBOL_NAMES, sizeof(a), RS_OK, -1);
}

static int remember(const RingsideRecord *record, void *userdata) {
        Fixture *f = userdata;

        assert_in_range(f->n_seen, 0, SEEN_MAX - 1);
        f->seen[f->n_seen++] = *record;
        if (record->type == RINGSIDE_KERNEL_NAMES && record->kernel_names.fd >= 0)
                assert_return_code(fcntl(record->kernel_names.fd, F_GETFD), errno);
        if (record->type == RINGSIDE_MAPPING)
                assert_string_equal(record->mapping.path, "/x");
        return f->result;
}

static int dispatch(Fixture *f) {
        f->n_seen = 0;
        f->announced = false;
        return ringside_session_dispatch(f->session, remember, f);
}

static unsigned count_requests(Fixture *f, uint32_t type) {
        union rs_any_message m;
        Packet packet;
        unsigned n = 0;

        while (packet_receive(f->helper, &m, sizeof(m), PACKET_FDS_MAX, MSG_DONTWAIT, &packet) == 1) {
                n += m.m.type == type;
                packet_done(&packet);
        }
        return n;
}

static unsigned count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

void __wrap_unwinder_get_statistics(Unwinder *unwinder, UnwinderStatistics *ret);

void __wrap_unwinder_get_statistics(_unused_ Unwinder *unwinder, UnwinderStatistics *ret) {
        *ret = (UnwinderStatistics){ .images = { .refused = 3, .no_room = 5, .unknown_rules = 7 }, .no_slot = 8, .no_list = 9, .lost = 11 };
}

static unsigned n_noted_lost;

void __wrap_unwinder_note_lost(Unwinder *unwinder);

void __wrap_unwinder_note_lost(_unused_ Unwinder *unwinder) {
        n_noted_lost++;
}

/* From its start on a session fills its tables, by the records that are dispatched, and tells what of them it could not have. */
static void test_tables(void **state) {
        Fixture *f = *state;
        struct rs_process record = {
                .r = { .type = RS_RECORD_PROCESS, .event = RS_PROCESS_SEEN, .len = sizeof(record) },
                .pid = (uint32_t) getpid(), .tid = (uint32_t) getpid(), .start = proc_file_read_start(getpid()),
        };
        struct rs_request started = {};
        struct rs_statistics told = {};
        const struct rs_table_process *slot;
        struct rs_counters *counters;
        RingsideStatistics s;
        void *tables = mmap(NULL, RS_TABLE_SIZE_MIN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(tables, MAP_FAILED);
        assert_int_equal(ringside_session_get_table_size(f->session), 0);
        f->session->welcome.grants = 0; /* nothing is asked for on the way */
        f->session->tables = tables;
        f->session->tables_size = f->session->tables_mapped = RS_TABLE_SIZE_MIN;
        assert_int_equal(ringside_session_get_table_size(f->session), RS_TABLE_SIZE_MIN);
        assert_null(f->session->unwinder);
        f->announced = true;
        answer(f, &started.m, RS_STARTED, sizeof(started), RS_OK, -1);
        assert_return_code(ringside_session_start(f->session), 0);
        assert_non_null(f->session->unwinder);

        put_record(f, &record, sizeof(record));
        assert_int_equal(dispatch(f), 1);
        slot = (const struct rs_table_process *) tables + rs_table_slot(record.pid, record.start);
        for (unsigned i = 0; i < 10000 && __atomic_load_n(&slot->list, __ATOMIC_ACQUIRE) == 0; i++)
                (void) usleep(1000);
        assert_int_equal(slot->pid, record.pid);
        assert_int_not_equal(__atomic_load_n(&slot->list, __ATOMIC_ACQUIRE), 0);

        answer(f, &told.m, RS_STATISTICS, sizeof(told), RS_OK, -1);
        assert_return_code(ringside_session_get_statistics(f->session, &s), 0);
        assert_int_equal(s.tables_refused, 3);
        assert_int_equal(s.tables_no_room, 5);
        assert_int_equal(s.rules_no_room, 7);
        assert_int_equal(s.processes_no_room, 17);
        assert_int_equal(s.tables_lost, 11);

        /* Of processes that nobody was told of some may be over. */
        f->session->counters_size = sysconf(_SC_PAGESIZE);
        counters = mmap(NULL, f->session->counters_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(counters, MAP_FAILED);
        f->session->counters = counters;
        f->session->welcome.nr_cpus = 2;
        for (unsigned i = 0; i < 3; i++) {
                counters[1].processes_lost += i == 1;
                f->session->lost_next = 0;
                assert_int_equal(dispatch(f), 0);
                assert_int_equal(n_noted_lost, i > 0);
        }
        counters[0].processes_lost++;
        assert_int_equal(dispatch(f), 0); /* so soon it is not looked at */
        assert_int_equal(n_noted_lost, 1);
}

static void test_names(void **state) {
        Fixture *f = *state;
        unsigned fds = count_fds();

        answer_names(f, 5);
        put_stack(f, 0);
        assert_int_equal(dispatch(f), 2);
        assert_int_equal(f->seen[0].type, RINGSIDE_KERNEL_NAMES);
        assert_int_equal(f->seen[0].kernel_names.size, 77);
        assert_int_equal(f->seen[0].kernel_names.generation, 5);
        assert_int_equal(f->seen[1].type, RINGSIDE_STACK);

        /* Later, the same names are no news; others are. */
        assert_int_equal(dispatch(f), 0);
        answer_nothing_new(f, 5);
        f->session->names.next = 0;
        assert_int_equal(dispatch(f), 0);
        answer_names(f, 5);
        f->session->names.next = 0;
        assert_int_equal(dispatch(f), 0);
        answer_names(f, 6);
        f->session->names.next = 0;
        assert_int_equal(dispatch(f), 1);
        assert_int_equal(count_requests(f, RS_SYMBOLS), 4);
        assert_int_equal(count_fds(), fds);
}

/* Names of a module that was not there before come before the stack that needs them. */
static void test_new_module(void **state) {
        Fixture *f = *state;

        answer_names(f, 1);
        assert_int_equal(dispatch(f), 1);
        answer_names(f, 2);
        f->session->names.last = 0;
        put_stack(f, 7);
        put_stack(f, 7);
        assert_int_equal(dispatch(f), 3);
        assert_int_equal(f->seen[0].type, RINGSIDE_KERNEL_NAMES);
        assert_int_equal(f->seen[1].type, RINGSIDE_STACK);
        assert_int_equal(f->seen[2].type, RINGSIDE_STACK);
        /* A moment later the next is not asked for at once. Markers are no modules. */
        put_stack(f, 8);
        put_stack(f, 0x7fff);
        assert_int_equal(dispatch(f), 2);
        assert_int_equal(count_requests(f, RS_SYMBOLS), 2);
        assert_true(f->session->names.next <= f->session->names.last + 100000000U);
}

static void test_no_names(void **state) {
        Fixture *f = *state;
        struct rs_symbols a = {};

        answer(f, &a.m, RS_SYMBOL_NAMES, sizeof(a), RS_ERROR_NO_KERNEL_NAMES, -1);
        assert_int_equal(dispatch(f), 1);
        assert_int_equal(f->seen[0].kernel_names.fd, -1);
        assert_int_equal(ringside_session_get_error(f->session)->code, 0);
        answer(f, &a.m, RS_SYMBOL_NAMES, sizeof(a), RS_ERROR_NO_KERNEL_NAMES, -1);
        f->session->names.next = 0;
        assert_int_equal(dispatch(f), 0);
        answer_names(f, 1);
        f->session->names.next = 0;
        assert_int_equal(dispatch(f), 1);
}

/* An answer that promises what was never given has nothing to give, and is not asked again at once. */
static void test_names_not_given(void **state) {
        const uint64_t first[] = { 0, 1, UINT64_MAX }, then[] = { 0, 1, 3, UINT64_MAX };
        Fixture *f = *state;

        for (size_t i = 0; i < ELEMENTSOF(first); i++) {
                answer_nothing_new(f, first[i]);
                f->session->names.next = 0;
                assert_int_equal(dispatch(f), i == 0);
                assert_int_equal(dispatch(f), 0);
        }
        assert_int_equal(f->session->names.generation, 0);
        assert_int_equal(count_requests(f, RS_SYMBOLS), ELEMENTSOF(first));
        for (size_t i = 0; i < ELEMENTSOF(then); i++) {
                answer_names(f, 2);
                f->session->names.next = 0;
                assert_int_equal(dispatch(f), 1);
                assert_true(f->seen[0].kernel_names.fd >= 0);
                answer_nothing_new(f, then[i]);
                f->session->names.next = 0;
                assert_int_equal(dispatch(f), 1);
                assert_int_equal(f->seen[0].kernel_names.fd, -1);
                answer_nothing_new(f, 2);
                f->session->names.next = 0;
                assert_int_equal(dispatch(f), 0);
        }
        assert_int_equal(ringside_session_get_error(f->session)->code, 0);
        assert_int_equal(count_requests(f, RS_SYMBOLS), 3 * ELEMENTSOF(then));
}

static void test_not_granted(void **state) {
        Fixture *f = *state;

        f->session->welcome.grants = 0;
        put_stack(f, 3);
        put_process(f, RS_PROCESS_SEEN, 1, 0);
        put_sample(f, 1);
        assert_int_equal(dispatch(f), 3);
        f->session->welcome.grants = RS_GRANT_KERNEL;
        put_stack(f, 4);
        shutdown(f->helper, SHUT_WR);
        /* Whoever closes tells nothing more, and what is in the ring still comes. */
        assert_int_equal(dispatch(f), 1);
        assert_int_equal(dispatch(f), RINGSIDE_E_ENDED);
        assert_int_equal(count_requests(f, RS_SYMBOLS) + count_requests(f, RS_MAPS), 0);
}

/* ---- mappings ---- */

static void add_mapping(struct rs_mappings *a, uint32_t pid, uint64_t start) {
        struct rs_mapping *m = (struct rs_mapping *) (a->records + a->size);

        *m = (struct rs_mapping){
                .r = { .type = RS_RECORD_MAPPING, .len = sizeof(*m) + 8 },
                .start = start, .end = start + 4096, .pid = pid, .path_len = 3,
        };
        memcpy(m->path, "/x\0\0\0\0\0", 8);
        a->size += m->r.len;
}

/* Somebody else's, for who is not root: pid 1. */
static int maps_setup(void **state) {
        int r = setup(state);

        ((Fixture *) *state)->session->welcome.grants = RS_GRANT_SYSTEM;
        if (geteuid() == 0)
                assert_return_code(seteuid(65534), errno);
        return r;
}

static int maps_teardown(void **state) {
        if (getuid() == 0)
                assert_return_code(seteuid(0), errno);
        return teardown(state);
}

static void skip_where_all_is_ours(void) {
        _cleanup_close_ int fd = open("/proc/1/maps", O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
                skip();
}

static void test_maps(void **state) {
        Fixture *f = *state;
        struct rs_mappings first = { .next = 0x3000 }, second = {};
        unsigned fds = count_fds();

        skip_where_all_is_ours();
        add_mapping(&first, 1, 0x1000);
        add_mapping(&first, 1, 0x2000);
        answer(f, &first.m, RS_MAPPINGS, sizeof(first), RS_OK, -1);
        add_mapping(&second, 1, 0x3000);
        answer(f, &second.m, RS_MAPPINGS, sizeof(second), RS_OK, -1);
        put_process(f, RS_PROCESS_SEEN, 1, 0); /* has no sample yet */
        put_process(f, RS_PROCESS_SEEN, getpid(), 1);
        put_sample(f, getpid()); /* can be read without */
        put_sample(f, 1);
        put_process(f, RS_PROCESS_FORK, 1, getpid()); /* has what its parent has */
        put_process(f, RS_PROCESS_COMM, 1, 0);
        put_sample(f, 1);
        assert_int_equal(dispatch(f), 10);
        assert_int_equal(f->seen[3].type, RINGSIDE_SAMPLE);
        for (unsigned i = 4; i < 7; i++) {
                assert_int_equal(f->seen[i].type, RINGSIDE_MAPPING);
                assert_int_equal(f->seen[i].mapping.start, (i - 3) * 0x1000);
                assert_true(f->seen[i].time > 0);
        }
        assert_int_equal(f->session->maps.n, 0);
        assert_int_equal(count_requests(f, RS_MAPS), 2);
        assert_int_equal(count_fds(), fds);
}

/* Of one process until there is no more, or for long; then it is another's turn. */
static void test_large_maps(void **state) {
        static const unsigned turns[][3] = { { 1, 1, 2 }, { 1, 2, 1 } };
        Fixture *f = *state;
        int ready[2];
        pid_t pid;
        char byte;

        skip_where_all_is_ours();
        assert_return_code(pipe(ready), errno);
        pid = fork();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void) prctl(PR_SET_DUMPABLE, 0);
                (void) !write(ready[1], "", 1);
                pause();
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        for (size_t i = 0; i < ELEMENTSOF(turns); i++) {
                for (size_t j = 0; j < ELEMENTSOF(turns[i]); j++) {
                        struct rs_mappings a = { .next = j == 0 ? 0x2000 : 0 };

                        add_mapping(&a, turns[i][j] == 1 ? 1 : pid, 0x1000 * (j + 1));
                        answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1);
                }
                f->session->maps.n = 2;
                f->session->maps.pending[f->session->maps.first] = (SessionMapsRequest){ .pid = 1, .n = i * 15 };
                f->session->maps.pending[f->session->maps.first + 1] = (SessionMapsRequest){ .pid = pid };
                assert_int_equal(dispatch(f), 3);
                assert_int_equal(f->session->maps.n, 0);
                assert_int_equal(f->session->malformed, 0);
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        close(ready[0]);
        close(ready[1]);
}

/* The programs' clock is not ours: what they tell is told by our own. */
static void test_other_times(void **state) {
        const uint64_t ahead = 1000000000000;
        Fixture *f = *state;

        f->session->welcome.grants = 0;
        for (int i = 0; i < 2; i++) {
                struct rs_process process = {
                        .r = { .type = RS_RECORD_PROCESS, .event = RS_PROCESS_EXEC, .len = sizeof(process) },
                        .time = 2 * ahead, .start = 2 * ahead - 7, .pid = 5, .tid = 5,
                };
                uint64_t bytes[sizeof(struct rs_mapping) / sizeof(uint64_t) + 1] = {};
                struct rs_mapping *mapping = (struct rs_mapping *) bytes;
                uint64_t own = i == 0 ? 3 * ahead : ahead;

                f->session->time_offset = i == 0 ? (int64_t) ahead : -(int64_t) ahead;
                put_record(f, &process, sizeof(process));
                *mapping = (struct rs_mapping){
                        .r = { .type = RS_RECORD_MAPPING, .len = sizeof(bytes) },
                        .time = 2 * ahead + 1, .process_start = i == 0 ? 0 : 2 * ahead - 7, .start = 1, .end = 2,
                        .pid = 5, .path_len = sizeof("/x"),
                };
                memcpy(mapping->path, "/x", sizeof("/x"));
                put_record(f, mapping, sizeof(bytes));
                assert_int_equal(dispatch(f), 2);
                assert_true(f->seen[0].time == own && f->seen[0].process.start == own - 7);
                assert_true(f->seen[1].time == own + 1);
                /* What is not known stays so. */
                assert_true(f->seen[1].mapping.process_start == (i == 0 ? 0 : own - 7));
        }
}

/* What was never asked for is no child's either; the kernel's own threads have nothing; nobody knows who is forgotten. */
static void test_whose_maps(void **state) {
        static const struct {
                unsigned kind, flags, sampled, asked;
        } steps[] = {
                { RS_PROCESS_FORK, 0, 1, 1 }, { RS_PROCESS_FORK, 0, 1, 2 }, { RS_PROCESS_EXEC, 0, 0, 2 },
                { RS_PROCESS_EXIT, 0, 1, 3 }, { RS_PROCESS_SEEN, RS_PROCESS_KERNEL, 1, 3 },
                { RS_PROCESS_SEEN, 0, 1, 4 }, { RS_PROCESS_COMM, 0, 1, 4 },
        };
        Fixture *f = *state;

        skip_where_all_is_ours();
        put_process(f, RS_PROCESS_SEEN, 77, 0);
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                struct rs_process record = {
                        .r = { .type = RS_RECORD_PROCESS, .event = steps[i].kind, .len = sizeof(record),
                               .flags = steps[i].flags },
                        .pid = 1, .tid = 1, .ppid = 77,
                };
                struct rs_mappings a = {};

                if (i == 0 || steps[i].asked > steps[i - 1].asked)
                        answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1);
                put_record(f, &record, sizeof(record));
                for (unsigned n = 0; n < 2 * steps[i].sampled; n++)
                        put_sample(f, 1);
                assert_return_code(dispatch(f), 0);
                assert_int_equal(f->cookie, steps[i].asked);
                assert_int_equal(f->session->cookie, steps[i].asked);
        }
        assert_int_equal(count_requests(f, RS_MAPS), 4);
}

/* Of a hostile answer what makes sense is taken, and it is never asked in circles. */
static void test_hostile_maps(void **state) {
        Fixture *f = *state;
        struct rs_mappings a;

        skip_where_all_is_ours();
        for (unsigned i = 0; i < 8; i++) {
                struct rs_mapping *second;
                unsigned taken = 1;

                a = (struct rs_mappings){};
                add_mapping(&a, 1, 0x1000);
                second = (struct rs_mapping *) (a.records + a.size);
                add_mapping(&a, 1, 0x2000);
                switch (i) {
                case 0: second->r.len = 0; break;
                case 1: second->r.len += 4; break;
                case 2: second->r.len = 0xfff8; break;
                case 3: second->pid = 2; break;
                case 4: second->r.type = RS_RECORD_SAMPLE; break;
                case 5: second->path_len = 0xffffffff; break;
                case 6: a.size = RS_MAPPINGS_SIZE + 1; taken = 0; break;
                case 7: a.next = 0; a.size -= 4; break;
                }
                answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1);
                put_process(f, RS_PROCESS_EXEC, 1, 0);
                put_sample(f, 1);
                assert_int_equal(dispatch(f), 2 + taken);
                assert_int_equal(f->session->malformed, i + 1);
        }
        a = (struct rs_mappings){ .next = 1 };
        answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1);
        answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1); /* as far as before */
        put_process(f, RS_PROCESS_EXEC, 1, 0);
        put_sample(f, 1);
        assert_int_equal(dispatch(f), 2);
        a.next = 0;
        answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_ERROR_TARGET_GONE, -1);
        put_process(f, RS_PROCESS_EXEC, 1, 0);
        put_sample(f, 1);
        assert_int_equal(dispatch(f), 2);
        assert_int_equal(ringside_session_get_error(f->session)->code, 0);
}

/* Many processes at once: the time for asking is used up, the ring is read on, and the line is short. */
static void test_flood(void **state) {
        Fixture *f = *state;
        int n = 0;

        skip_where_all_is_ours();
        f->session->maps.credited = 1;
        f->session->maps.credit = INT64_MIN / 2;
        for (int round = 0; round < 20; round++) {
                for (int i = 0; i < 25; i++) {
                        put_process(f, RS_PROCESS_EXEC, 1, 0);
                        put_sample(f, 1);
                }
                n += dispatch(f);
        }
        assert_int_equal(n, 1000);
        assert_int_equal(f->session->maps.n, SESSION_MAPS_PENDING_MAX);
        assert_int_equal(count_requests(f, RS_MAPS), 0);
        /* Later the line is worked off. */
        for (int i = 0; i < 3; i++) {
                struct rs_mappings a = {};

                answer(f, &a.m, RS_MAPPINGS, sizeof(a), RS_OK, -1);
        }
        shutdown(f->helper, SHUT_WR);
        f->session->maps.credit = 50000000;
        assert_int_equal(dispatch(f), RINGSIDE_E_ENDED);
        assert_int_equal(count_requests(f, RS_MAPS), 4);
}

static void answer_rate(Fixture *f, uint64_t count, uint32_t error) {
        struct rs_statistics statistics = { .count[0] = count };
        struct rs_request set = {};

        answer(f, &statistics.m, RS_STATISTICS, sizeof(statistics), RS_OK, -1);
        answer(f, &set.m, RS_RATE_SET, sizeof(set), error, -1);
}

static uint64_t expected(Fixture *f, uint64_t count) {
        struct rs_statistics statistics = { .count[0] = count };
        RingsideStatistics s;

        answer(f, &statistics.m, RS_STATISTICS, sizeof(statistics), RS_OK, -1);
        assert_int_equal(ringside_session_get_statistics(f->session, &s), 0);
        return s.expected;
}

/* What was counted under each rate is expected by that rate. */
static void test_rate(void **state) {
        const uint64_t second = 1000000000;
        Fixture *f = *state;
        struct rs_set_rate asked;
        RingsideEvent event;
        Packet packet;

        f->session->welcome.events[0] = (struct rs_event){ .id = RS_EVENT_CPU_CLOCK, .value = 1000 };
        assert_int_equal(expected(f, 2 * second), 2000);
        answer_rate(f, 3 * second, RS_OK);
        assert_int_equal(ringside_session_set_rate(f->session, 0, 100), 0);
        assert_int_equal(expected(f, 3 * second), 3000);
        assert_int_equal(expected(f, 5 * second), 3200);
        /* Refused: all is as before. */
        answer_rate(f, 6 * second, RS_ERROR_RATE);
        assert_int_equal(ringside_session_set_rate(f->session, 0, 500), RINGSIDE_E_INVALID);
        assert_int_equal(expected(f, 7 * second), 3400);
        answer_rate(f, 7 * second, RS_OK);
        assert_int_equal(ringside_session_set_rate(f->session, 0, 1000), 0);
        assert_int_equal(expected(f, 8 * second), 4400);
        /* A count that goes back is the helper's nonsense. */
        assert_int_equal(expected(f, second), 3400);
        /* Samples without a weight are of this. */
        assert_int_equal(ringside_session_get_event(f->session, 0, &event), 0);
        assert_int_equal(event.value, 1000);

        while (packet_receive(f->helper, &asked, sizeof(asked), 0, MSG_DONTWAIT, &packet) > 0 && asked.m.type != RS_SET_RATE)
                ;
        assert_int_equal(packet.size, sizeof(asked));
        assert_int_equal(asked.event, 0);
        assert_int_equal(asked.rate, 100);
}

/* Nothing of this is asked at all. */
static void test_rate_refused(void **state) {
        const uint64_t rates[] = { 0, 1001, UINT32_MAX, (1ULL << 32) + 1, UINT64_MAX };
        Fixture *f = *state;

        f->session->welcome.events[0] = (struct rs_event){ .id = RS_EVENT_CPU_CLOCK, .value = 1000 };
        for (size_t i = 0; i < ELEMENTSOF(rates); i++)
                assert_int_equal(ringside_session_set_rate(f->session, 0, rates[i]), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_rate(f->session, 1, 100), RINGSIDE_E_INVALID);
        assert_int_equal(ringside_session_set_rate(f->session, UINT32_MAX, 100), RINGSIDE_E_INVALID);
        assert_int_equal(count_requests(f, RS_SET_RATE) + count_requests(f, RS_STATS), 0);
        shutdown(f->helper, SHUT_RDWR);
        assert_int_equal(ringside_session_set_rate(f->session, 0, 100), RINGSIDE_E_ENDED);
}

/* What the callback refuses ends the dispatch, wherever it comes from. */
static void test_callback_fails(void **state) {
        Fixture *f = *state;

        f->result = -EIO;
        answer_names(f, 1);
        put_process(f, RS_PROCESS_EXEC, 1, 0);
        assert_int_equal(dispatch(f), -EIO);
        assert_int_equal(f->n_seen, 1);
        assert_int_equal(dispatch(f), -EIO);
        assert_int_equal(f->seen[0].type, RINGSIDE_PROCESS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_tables, setup, teardown),
                cmocka_unit_test_setup_teardown(test_names, setup, teardown),
                cmocka_unit_test_setup_teardown(test_new_module, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_names, setup, teardown),
                cmocka_unit_test_setup_teardown(test_names_not_given, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_granted, setup, teardown),
                cmocka_unit_test_setup_teardown(test_maps, maps_setup, maps_teardown),
                cmocka_unit_test_setup_teardown(test_large_maps, maps_setup, maps_teardown),
                cmocka_unit_test_setup_teardown(test_other_times, setup, teardown),
                cmocka_unit_test_setup_teardown(test_whose_maps, maps_setup, maps_teardown),
                cmocka_unit_test_setup_teardown(test_hostile_maps, maps_setup, maps_teardown),
                cmocka_unit_test_setup_teardown(test_flood, maps_setup, maps_teardown),
                cmocka_unit_test_setup_teardown(test_callback_fails, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rate, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rate_refused, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
