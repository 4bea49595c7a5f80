/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * All that a session without targets, or with some, hands to its client: each record as the library tells it,
 * and the ring's memory itself, byte for byte.
 *
 *      ring-dump --raw FD [--hz N] [--direct] [--system] [--pid PID]...
 *
 * Opens the session and says "open"; from the first line on standard input on it samples, and says "started";
 * until its end. Targets that are refused are told and passed over. What goes to --raw: the position the
 * kernel has written to and the size of the ring (two u64), its memory as it was at the end, and then whatever
 * was seen to stand in it before and was overwritten.
 */

#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "record.h"
#include "ring.h"
#include "ringside.h"
#include "util.h"

#define TARGETS_MAX 64
#define TICK_MSEC 5

/* A second mapping of the session's ring. */
typedef struct Copy {
        const volatile uint64_t *producer;
        const uint64_t *data;
        uint64_t *last;    /* what stood there at the last look */
        uint64_t size;
        FILE *overwritten;
} Copy;

typedef struct Options {
        int raw_fd;
        uint64_t hz;
        bool direct, system;
        pid_t pids[TARGETS_MAX];
        size_t n_pids;
} Options;

int __wrap_ring_new(Ring **ret, int fd, uint64_t size);
int __real_ring_new(Ring **ret, int fd, uint64_t size);

/* The only way in: the session keeps its ring to itself. One session, one thread. */
static Copy copy;

int __wrap_ring_new(Ring **ret, int fd, uint64_t size) {
        size_t page = sysconf(_SC_PAGESIZE);
        char *memory = mmap(NULL, page + size, PROT_READ, MAP_SHARED, fd, page);

        copy.last = calloc(1, size);
        copy.overwritten = tmpfile();
        if (memory == MAP_FAILED || !copy.last || !copy.overwritten)
                return -ENOMEM;
        copy.producer = (const volatile uint64_t *) (void *) memory;
        copy.data = (const uint64_t *) (void *) (memory + page);
        copy.size = size;
        return __real_ring_new(ret, fd, size);
}

/* Looks at all that has been written or reserved, and a page beyond. */
static void copy_look(void) {
        uint64_t end = MIN(copy.size, *copy.producer + 4096);

        for (size_t i = 0; i < end / 8; i++) {
                uint64_t now = __atomic_load_n(&copy.data[i], __ATOMIC_RELAXED);

                if (now == copy.last[i])
                        continue;
                if (copy.last[i] != 0)
                        (void) fwrite(&copy.last[i], sizeof(uint64_t), 1, copy.overwritten);
                copy.last[i] = now;
        }
}

static int copy_write(int fd) {
        const uint64_t head[2] = {*copy.producer, copy.size};
        FILE *out = fdopen(fd, "w");
        uint64_t word;

        if (!out || fwrite(head, sizeof(head), 1, out) != 1 || fwrite(copy.data, copy.size, 1, out) != 1)
                return -errno;
        rewind(copy.overwritten);
        while (fread(&word, sizeof(word), 1, copy.overwritten) == 1)
                (void) fwrite(&word, sizeof(word), 1, out);
        return fclose(out) != 0 ? -errno : 0;
}

static void print_process(const RingsideRecord *r) {
        static const char *const kinds[] = {"?", "seen", "fork", "exec", "comm", "exit", "gone"};
        char comm[4 * sizeof(r->process.comm)];

        printf("process %s %" PRIu64 " %u %u %u %s\n",
               r->process.kind < ELEMENTSOF(kinds) ? kinds[r->process.kind] : "?", r->time, r->pid, r->tid,
               r->process.ppid, ringside_escape(comm, sizeof(comm), r->process.comm));
}

static void print_mapping(const RingsideRecord *r) {
        char path[4 * RS_PATH_MAX];

        printf("mapping %" PRIu64 " %u %" PRIx64 "-%" PRIx64 " %" PRIx64 " %x:%x %" PRIu64 " %d %d %s\n", r->time, r->pid,
               r->mapping.start, r->mapping.end, r->mapping.offset, r->mapping.dev_major, r->mapping.dev_minor,
               r->mapping.inode, r->mapping.deleted, r->mapping.incomplete,
               ringside_escape(path, sizeof(path), r->mapping.path));
}

static int print_record(const RingsideRecord *r, _unused_ void *userdata) {
        switch (r->type) {
        case RINGSIDE_SAMPLE:
                printf("sample %" PRIu64 " %u %u %s %d %" PRIx64 " %" PRIx64 "\n", r->time, r->pid, r->tid,
                       r->sample.idle ? "idle" : r->sample.kernel_mode ? "kernel" : "user", r->sample.walk_end, r->sample.leaf,
                       r->sample.stack);
                break;
        case RINGSIDE_STACK:
                printf("stack %u %" PRIx64, r->pid, r->stack.id);
                for (uint32_t i = 0; i < r->stack.n_frames; i++)
                        printf(" %" PRIx64, r->stack.frames[i]);
                putchar('\n');
                break;
        case RINGSIDE_PROCESS:
                print_process(r);
                break;
        case RINGSIDE_MAPPING:
                print_mapping(r);
                break;
        case RINGSIDE_KERNEL_NAMES:
                break;
        }
        return 0;
}

static void name_targets(RingsideSession *session, const Options *options) {
        for (size_t i = 0; i < options->n_pids; i++) {
                _cleanup_close_ int pidfd = syscall(SYS_pidfd_open, options->pids[i], 0);
                int r = pidfd < 0 ? -errno : ringside_session_add_target(session, pidfd, 0, 0);

                printf("target %d %d %s\n", options->pids[i], r,
                       r < 0 && pidfd >= 0 ? ringside_session_get_error(session)->text : "");
        }
}

/* Reads until standard input ends. */
static int sample(RingsideSession *session) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        char c;
        int r;

        r = ringside_session_start(session);
        if (r < 0)
                return r;
        puts("started");
        (void) fflush(stdout);
        while (!(input.revents & (POLLIN | POLLHUP)) || read(STDIN_FILENO, &c, 1) > 0) {
                copy_look();
                r = ringside_session_dispatch(session, print_record, NULL);
                if (r < 0)
                        return r;
                input.revents = 0;
                (void) poll(&input, 1, TICK_MSEC);
        }
        r = ringside_session_stop(session);
        if (r < 0)
                return r;
        copy_look();
        return ringside_session_dispatch(session, print_record, NULL);
}

static int run(RingsideSession *session, const Options *options) {
        RingsideStatistics s;
        char line[16];
        int r;

        (void) ringside_session_set_helper(session,
                                           options->direct ? RINGSIDE_HELPER_DIRECT : RINGSIDE_HELPER_BUS);
        (void) ringside_session_set_targeted(session, options->n_pids > 0);
        /* Whom it shows is the question here; frames of the kernel would hide that a stack has none of a user. */
        (void) ringside_session_set_kernel(session, RINGSIDE_KERNEL_NO);
        (void) ringside_session_set_scope(session, options->system ? RINGSIDE_SCOPE_SYSTEM : RINGSIDE_SCOPE_OWN);
        r = ringside_session_add_event(session, "cpu-clock", false, options->hz);
        if (r >= 0)
                r = ringside_session_open(session);
        if (r < 0)
                return r;
        name_targets(session, options);
        puts("open");
        (void) fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
                return 0;
        r = sample(session);
        if (r >= 0)
                r = ringside_session_get_statistics(session, &s);
        if (r < 0)
                return r;
        printf("statistics taken=%" PRIu64 " emitted=%" PRIu64 " lost=%" PRIu64 " processes=%" PRIu64
               " processes_lost=%" PRIu64 " unknown=%" PRIu64 " malformed=%" PRIu64 "\n",
               s.taken, s.emitted, s.lost, s.processes, s.processes_lost, s.unknown, s.malformed);
        return copy_write(options->raw_fd);
}

static int parse(Options *options, int argc, char *argv[]) {
        static const struct option known[] = {
                {"raw", required_argument, NULL, 'r'},
                {"hz", required_argument, NULL, 'z'},
                {"pid", required_argument, NULL, 'p'},
                {"direct", no_argument, NULL, 'd'},
                {"system", no_argument, NULL, 's'},
                {},
        };
        int c;

        *options = (Options){.raw_fd = -1, .hz = 999};
        while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
                if (c == 'r')
                        options->raw_fd = atoi(optarg);
                else if (c == 'z')
                        options->hz = strtoull(optarg, NULL, 10);
                else if (c == 'd')
                        options->direct = true;
                else if (c == 's')
                        options->system = true;
                else if (c == 'p' && options->n_pids < TARGETS_MAX)
                        options->pids[options->n_pids++] = atoi(optarg);
                else
                        return -EINVAL;
        }
        return options->raw_fd >= 0 && optind == argc ? 0 : -EINVAL;
}

int main(int argc, char *argv[]) {
        RingsideSession *session = NULL;
        Options options;
        int r;

        /* Unbuffered: the byte that ends the sampling must not be swallowed with the line that starts it. */
        setvbuf(stdin, NULL, _IONBF, 0);
        if (parse(&options, argc, argv) < 0 || ringside_session_new(&session) < 0) {
                fprintf(stderr, "usage: ring-dump --raw FD [--hz N] [--direct] [--system] [--pid PID]...\n");
                return 2;
        }
        r = run(session, &options);
        if (r < 0)
                fprintf(stderr, "ring-dump: %s (%d) %s\n", ringside_session_get_error(session)->text, r,
                        ringside_session_get_error(session)->hint);
        ringside_session_free(session);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
