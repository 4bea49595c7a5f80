/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process is stopped after each of its instructions, and its stack is walked by tables and by libdw. Its functions
 * are built without frame pointers, and it goes through prologues, the PLT, the C library, a realigned stack, a signal
 * handler on a stack of its own and a thread of makecontext().
 */

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <cmocka.h>

#include "maps.h"
#include "test-unwind-walk.h"
#include "unwind-table-builder.h"
#include "vdso.h"

#ifndef __x86_64__

static void test_live(_unused_ void **state) {
        skip(); /* registers have other names */
}

#else

/* The exit status of a child that nobody may trace. */
#define MAY_NOT_TRACE 77
#define FRAMES_MAX 64
#define MAPPINGS_MAX 256
#define STEPS_MAX 60000
/* Every so many instructions; no number of instructions of a loop. */
#define EVERY 7

/* What is walked. */

static volatile unsigned long sink;

__attribute__((noinline)) static int compare(const void *a, const void *b) {
        return *(const int *) a - *(const int *) b;
}

__attribute__((noinline)) static void sort(int n) {
        int numbers[16];

        for (int i = 0; i < n; i++)
                numbers[i] = i * 7919 % 31;
        qsort(numbers, (size_t) n, sizeof(numbers[0]), compare);
        sink += (unsigned long) numbers[0];
}

__attribute__((noinline)) static void realigned(int n) {
        _Alignas(64) char text[64];
        char *more = __builtin_alloca((size_t) n * 16);

        snprintf(text, sizeof(text), "%d %s %p", n, "live", (void *) text);
        memset(more, n, (size_t) n * 16);
        sink += (unsigned long) text[0] + (unsigned long) more[1];
        sort(n);
}

__attribute__((noinline)) static void recursion(int n) {
        if (n > 0)
                recursion(n - 1);
        else
                realigned(9);
        sink++;
}

static void handle_signal(_unused_ int signal) {
        sort(5);
}

/* Two contexts, and no way to pass them. */
static ucontext_t main_context, coroutine_context;

static void coroutine(void) {
        recursion(2);
        (void) swapcontext(&coroutine_context, &main_context);
}

static _Alignas(16) char coroutine_stack[64 << 10], signal_stack[64 << 10];

__attribute__((noinline)) static void work(void) {
        const stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
        const struct sigaction action = { .sa_handler = handle_signal, .sa_flags = SA_ONSTACK };

        recursion(5);
        (void) sigaltstack(&stack, NULL);
        (void) sigaction(SIGUSR1, &action, NULL);
        (void) raise(SIGUSR1);
        (void) getcontext(&coroutine_context);
        coroutine_context.uc_stack = (stack_t){ .ss_sp = coroutine_stack, .ss_size = sizeof(coroutine_stack) };
        makecontext(&coroutine_context, coroutine, 0);
        (void) swapcontext(&main_context, &coroutine_context);
        sink++;
}

/* What a context returns to, here as in the child; libdw does not know that nothing called it. */
static uint64_t find_start_context(void) {
        static uint64_t stack[64];
        ucontext_t context;

        (void) getcontext(&context);
        context.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = sizeof(stack) };
        context.uc_link = NULL;
        makecontext(&context, coroutine, 0);
        return *(uint64_t *) (uintptr_t) context.uc_mcontext.gregs[REG_RSP];
}

static pid_t start_worker(void) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid > 0)
                return pid;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(errno == EPERM || errno == EACCES ? MAY_NOT_TRACE : 1);
        (void) raise(SIGSTOP);
        work();
        _exit(0);
}

/* The tables of all that is mapped. */

typedef struct LiveMapping {
        uint64_t start, end, bias;
        UnwindTable *table; /* NULL: none can be made */
} LiveMapping;

typedef struct Live {
        pid_t pid;
        LiveMapping mappings[MAPPINGS_MAX];
        size_t n;
        uint64_t start_context;
} Live;

static void add_table(LiveMapping *mapping, ElfFile *elf, uint64_t offset) {
        uint64_t address;

        if (elf_file_get_address(elf, offset, &address) && unwind_table_new(&mapping->table, elf) == 0)
                mapping->bias = mapping->start - address;
}

static void add_mapping(Live *live, const MapsLine *line, const char *path) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        LiveMapping *mapping = &live->mappings[live->n];
        size_t size;
        int fd;

        assert_true(live->n++ < MAPPINGS_MAX);
        *mapping = (LiveMapping){ .start = line->start, .end = line->end };
        if (strcmp(path, "[vdso]") == 0) {
                assert_int_equal(vdso_open(&elf, &size), 0);
                add_table(mapping, elf, 0);
        } else if (path[0] == '/') {
                fd = open(path, O_RDONLY | O_CLOEXEC);
                assert_true(fd >= 0);
                assert_int_equal(elf_file_new_take_fd(&elf, fd), 0);
                add_table(mapping, elf, line->offset);
        }
}

static void live_init(Live *live, pid_t pid) {
        _cleanup_fclose_ FILE *maps = NULL;
        char path[64], line[PATH_MAX + 256];

        *live = (Live){ .pid = pid, .start_context = find_start_context() };
        snprintf(path, sizeof(path), "/proc/%d/maps", pid);
        maps = fopen(path, "re");
        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps)) {
                MapsCursor cursor = { .next = line, .left = strlen(line) };
                char permissions[8], name[PATH_MAX] = "";
                MapsLine mapping;

                if (sscanf(line, "%*x-%*x %7s %*x %*s %*d %4095s", permissions, name) < 1 || permissions[2] != 'x')
                        continue;
                assert_int_equal(maps_cursor_next(&cursor, &mapping), 1);
                add_mapping(live, &mapping, name);
        }
}

static void live_done(Live *live) {
        for (size_t i = 0; i < live->n; i++)
                unwind_table_free(live->mappings[i].table);
}

static int read_word(void *userdata, uint64_t address, uint64_t *ret) {
        const Live *live = userdata;
        struct iovec local = { .iov_base = ret, .iov_len = 8 }, remote = { .iov_base = (void *) address, .iov_len = 8 };

        return process_vm_readv(live->pid, &local, 1, &remote, 1, 0) == 8 ? 0 : -EFAULT;
}

static const struct rs_table_rule *find_rule(void *userdata, uint64_t address) {
        static const struct rs_table_rule none = {};
        const Live *live = userdata;

        for (size_t i = 0; i < live->n; i++) {
                const LiveMapping *m = &live->mappings[i];

                if (address >= m->start && address < m->end)
                        return m->table ? unwind_table_find(m->table, address - m->bias) : &none;
        }
        return NULL;
}

/* The same stack by both. */

typedef struct Frames {
        uint64_t pcs[FRAMES_MAX];
        size_t n;
} Frames;

static int add_frame(Dwfl_Frame *frame, void *userdata) {
        Frames *frames = userdata;
        Dwarf_Addr pc;

        if (!dwfl_frame_pc(frame, &pc, NULL) || frames->n == FRAMES_MAX)
                return DWARF_CB_ABORT;
        frames->pcs[frames->n++] = pc;
        return DWARF_CB_OK;
}

static int find_no_debuginfo(_unused_ Dwfl_Module *module, _unused_ void **userdata, _unused_ const char *name,
                             _unused_ Dwarf_Addr base, _unused_ const char *file, _unused_ const char *link,
                             _unused_ GElf_Word crc, _unused_ char **ret) {
        return -1;
}

static Dwfl *open_dwfl(pid_t pid) {
        static const Dwfl_Callbacks callbacks = {
                .find_elf = dwfl_linux_proc_find_elf,
                .find_debuginfo = find_no_debuginfo,
        };
        Dwfl *dwfl = dwfl_begin(&callbacks);

        assert_non_null(dwfl);
        assert_int_equal(dwfl_linux_proc_report(dwfl, pid), 0);
        assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
        assert_int_equal(dwfl_linux_proc_attach(dwfl, pid, true), 0);
        return dwfl;
}

static void read_state(pid_t pid, WalkState *ret) {
        struct user_regs_struct regs;

        assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
        *ret = (WalkState){
                .pc = regs.rip, .known = UINT32_MAX, .exact = 1,
                .regs = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8, regs.r9,
                         regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rip},
        };
}

typedef struct Totals {
        size_t by_end[RS_WALK_END_MAX];
        size_t n, n_frames, n_signals, n_deepest;
} Totals;

/* Where a walk by tables does not come to the end, it is right as far as it goes. */
static void compare_stacks(Live *live, Dwfl *dwfl, Totals *totals) {
        const Walk walk = { .read = read_word, .find = find_rule, .userdata = live };
        enum rs_walk_end end;
        Frames own, other = {};
        WalkState leaf;

        read_state(live->pid, &leaf);
        own.n = walk_stack(walk_step_x86_64, &walk, leaf, own.pcs, FRAMES_MAX, &end);
        (void) dwfl_getthread_frames(dwfl, live->pid, add_frame, &other);
        totals->n++;
        totals->n_frames += own.n;
        totals->n_deepest = MAX(totals->n_deepest, own.n);
        totals->by_end[end]++;
        for (size_t i = 0; i < MAX(own.n, other.n); i++) {
                if (i < own.n && i < other.n && own.pcs[i] == other.pcs[i])
                        continue;
                if (i >= own.n && (end != RS_WALK_COMPLETE || own.pcs[own.n - 1] - live->start_context < 32))
                        break;
                print_message("end %d\n", end);
                for (size_t k = 0; k < MAX(own.n, other.n); k++)
                        print_message("%zu %jx %jx\n", k, k < own.n ? (uintmax_t) own.pcs[k] : 0,
                                      k < other.n ? (uintmax_t) other.pcs[k] : 0);
                fail();
        }
}

/* false: it has ended. */
static bool step_once(pid_t pid) {
        int status, signal = 0;

        while (true) {
                assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *) (intptr_t) signal), 0);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_false(WIFSIGNALED(status));
                if (WIFEXITED(status))
                        assert_int_equal(WEXITSTATUS(status), 0);
                if (!WIFSTOPPED(status))
                        return false;
                if (WSTOPSIG(status) == SIGTRAP)
                        return true;
                signal = WSTOPSIG(status);
        }
}

static void test_live(_unused_ void **state) {
        const char *must_run = getenv("RINGSIDE_MUST_RUN");
        _cleanup_(live_done) Live live;
        Totals totals = {};
        size_t n = 0;
        Dwfl *dwfl;
        int status;
        pid_t pid;

        pid = start_worker();
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == MAY_NOT_TRACE) {
                if (must_run && strcmp(must_run, "1") == 0)
                        fail_msg("nobody may trace here");
                print_message("nobody may trace here\n");
                skip();
        }
        assert_true(WIFSTOPPED(status));
        assert_int_equal(WSTOPSIG(status), SIGSTOP);
        live_init(&live, pid);
        dwfl = open_dwfl(pid);
        while (step_once(pid) && n++ < STEPS_MAX)
                if (n % EVERY == 0)
                        compare_stacks(&live, dwfl, &totals);
        dwfl_end(dwfl);
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, &status, 0);
        print_message("%zu instructions, %zu stacks of %zu frames, the deepest of %zu\n", n, totals.n, totals.n_frames,
                      totals.n_deepest);
        for (unsigned i = 0; i < RS_WALK_END_MAX; i++)
                if (totals.by_end[i] > 0)
                        print_message("end %u: %zu\n", i, totals.by_end[i]);
        assert_true(totals.n > 500);
        /* All of them have CFI here. */
        assert_true(totals.by_end[RS_WALK_COMPLETE] * 100 >= totals.n * 98);
}

#endif

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_live),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
