/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Makes the recording that the tests of the reading commands look at, through the library, without
 * sampling anything: 1000 samples in functions of this very program, shared out 700, 200 and 50, of which some
 * of the stack was guessed, with 50 in the kernel; a recursion a hundred deep; names meant to do harm to terminals and pages.
 *
 * make-recording FILE [empty | wide]: with wide, a tree of many branches
 */

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ringside.h"
#include "util.h"

#define DEPTH 100
#define STEP 10000000U /* ns between samples */
#define WIDE 11        /* bits of the number of stacks of a wide tree */

__attribute__((noinline)) static int cli_hot_a(int x) {
        __asm__ volatile("" : "+r"(x));
        return x + 1;
}

__attribute__((noinline)) static int cli_hot_b(int x) {
        __asm__ volatile("" : "+r"(x));
        return x + 2;
}

__attribute__((noinline)) static int cli_caller(int x) {
        x = cli_hot_a(x) + cli_hot_b(x);
        __asm__ volatile("" : "+r"(x));
        return x;
}

static const char hostile[] = "evil\033[2J</script>\"'\xe2\x80\xae;x";

typedef struct Maker {
        RingsideRecorder *recorder;
        uint64_t time;
        uint32_t pid;
        uint64_t pushed;
} Maker;

static int process(Maker *m, enum RingsideProcessKind kind, uint32_t tid, const char *comm) {
        RingsideRecord r = { .type = RINGSIDE_PROCESS, .time = m->time, .pid = m->pid, .tid = tid };

        /* Without a start, which is then looked up: a machine at work may have begun with us long before. */
        r.process.kind = kind;
        snprintf(r.process.comm, sizeof(r.process.comm), "%s", comm);
        return ringside_recorder_push(&r, m->recorder);
}

static int stack(Maker *m, uint64_t id, const uint64_t *frames, uint32_t n, bool guessed) {
        RingsideRecord r = { .type = RINGSIDE_STACK, .pid = m->pid, .tid = m->pid };

        r.stack.id = id;
        r.stack.frames = frames;
        r.stack.n_frames = n;
        r.stack.guessed = guessed;
        return ringside_recorder_push(&r, m->recorder);
}

static int samples(Maker *m, unsigned n, uint32_t tid, uint64_t leaf, uint64_t id, enum RingsideWalkEnd end) {
        for (unsigned i = 0; i < n; i++) {
                RingsideRecord r = { .type = RINGSIDE_SAMPLE, .time = m->time += STEP, .pid = m->pid, .tid = tid };
                int e;

                r.sample.kernel_mode = RINGSIDE_FRAME_IS_KERNEL(leaf);
                r.sample.walk_end = end;
                r.sample.leaf = leaf;
                r.sample.stack = id;
                e = ringside_recorder_push(&r, m->recorder);
                if (e < 0)
                        return e;
                m->pushed++;
        }
        return 0;
}

/* A page that could be a JIT compiler's, and the map that gives what is in it a name. */
static uint64_t hostile_code(char *map, size_t size) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _cleanup_fclose_ FILE *f = NULL;

        snprintf(map, size, "/tmp/perf-%d.map", (int) getpid());
        f = fopen(map, "wxe");
        if (page == MAP_FAILED || !f)
                return 0;
        fprintf(f, "%" PRIxPTR " 1000 %s\n", (uintptr_t) page, hostile);
        return (uint64_t) (uintptr_t) page;
}

static int fill(Maker *m, uint64_t code) {
        uint64_t caller = (uint64_t) (uintptr_t) cli_caller + 4, deep[DEPTH];
        int r;

        for (size_t i = 0; i < DEPTH; i++)
                deep[i] = caller;
        r = stack(m, 1, &caller, 1, false);
        if (r >= 0)
                r = stack(m, 2, deep, DEPTH, false);
        if (r >= 0)
                r = stack(m, 3, &caller, 1, true);
        if (r >= 0)
                r = samples(m, 700, m->pid, (uint64_t) (uintptr_t) cli_hot_a + 1, 1, RINGSIDE_WALK_COMPLETE);
        if (r >= 0)
                r = samples(m, 120, m->pid + 1, (uint64_t) (uintptr_t) cli_hot_b + 1, 2, RINGSIDE_WALK_BAD_FP);
        if (r >= 0)
                r = samples(m, 80, m->pid + 1, (uint64_t) (uintptr_t) cli_hot_b + 1, 2, RINGSIDE_WALK_NO_RULE);
        if (r >= 0)
                r = samples(m, 50, m->pid, code, 3, RINGSIDE_WALK_COMPLETE);
        if (r >= 0)
                r = samples(m, 50, m->pid, RINGSIDE_FRAME_KERNEL, 1, RINGSIDE_WALK_COMPLETE);
        return r;
}

/* Each stack's outermost functions are the bits of its number. */
static int fill_wide(Maker *m) {
        const uint64_t functions[] = { (uint64_t) (uintptr_t) cli_hot_a + 1, (uint64_t) (uintptr_t) cli_hot_b + 1 };
        uint64_t deep[DEPTH];
        int r = 0;

        for (size_t i = 0; i < DEPTH; i++)
                deep[i] = functions[0];
        for (unsigned id = 1; r >= 0 && id < 1U << WIDE; id++) {
                for (unsigned bit = 0; bit < WIDE; bit++)
                        deep[DEPTH - 1 - bit] = functions[id >> bit & 1];
                r = stack(m, id, deep, DEPTH, false);
                if (r >= 0)
                        r = samples(m, 1, m->pid, functions[0], id, RINGSIDE_WALK_COMPLETE);
        }
        return r;
}

int main(int argc, char **argv) {
        static const char *const command[] = { "./program", "its 'argument", "\033[31mred", NULL };
        RingsideRecorderOptions options = { .size = sizeof(options), .command = command };
        RingsideStatistics statistics = {};
        RingsideError error = {};
        struct timespec now;
        Maker m = {};
        char map[64];
        uint64_t code;
        int r;

        if (argc < 2)
                return 2;
        (void) clock_gettime(CLOCK_BOOTTIME, &now);
        m.time = (uint64_t) now.tv_sec * 1000000000U + (uint64_t) now.tv_nsec;
        m.pid = (uint32_t) getpid();
        code = hostile_code(map, sizeof(map));

        r = ringside_recorder_new(&m.recorder, argv[1], NULL, &options, &error);
        if (r >= 0)
                r = process(&m, RINGSIDE_PROCESS_SEEN, m.pid, "a\033[31mb;c\n");
        if (r >= 0)
                r = process(&m, RINGSIDE_PROCESS_FORK, m.pid + 1, "worker");
        if (r >= 0 && argc < 3)
                r = fill(&m, code);
        else if (r >= 0 && strcmp(argv[2], "wide") == 0)
                r = fill_wide(&m);
        statistics.taken = statistics.emitted = m.pushed;
        statistics.walk_end[RINGSIDE_WALK_COMPLETE] = m.pushed;
        if (r >= 0)
                r = ringside_recorder_put_statistics(m.recorder, &statistics);
        if (r >= 0)
                r = ringside_recorder_finish(m.recorder, 0, &error);
        ringside_recorder_free(m.recorder);
        (void) unlink(map);
        if (r < 0)
                fprintf(stderr, "%d: %s\n", r, error.text);
        return r < 0 || cli_caller(1) == 0;
}
