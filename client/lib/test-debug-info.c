/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What debug information says of addresses, for every way in which it is written; read as a worker does, and by one. The
 * programs are those of tests/fixtures/lines: labels in them are where it is known what stands there.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/landlock.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "debug-file.h"
#include "debug-worker.h"
#include "symbolizer.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
/* Far more than any of it takes, unless it should be given up on. */
#define LONG (300 * NSEC_PER_SEC)

typedef struct Expected {
        const char *name;   /* NULL: not known */
        const char *source; /* how it ends */
        unsigned line;      /* 0: none */
} Expected;

static char *fixture(char *path, const char *name) {
        (void) snprintf(path, PATH_MAX, "%s/%s", getenv("FIXTURES"), name);
        return path;
}

static bool is_there(const char *name) {
        char path[PATH_MAX];

        return access(fixture(path, name), F_OK) == 0;
}

/* By nm's output, which is kept beside each program. */
static uint64_t address_of(const char *program, const char *label) {
        char path[PATH_MAX], line[1024], name[512], type;
        unsigned long long address, found = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s.nm", getenv("FIXTURES"), program);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%llx %c %511s", &address, &type, name) == 3 && strcmp(name, label) == 0)
                        found = address;
        (void) fclose(f);
        if (found == 0)
                fail_msg("%s has no %s", program, label);
        return found;
}

static ElfFile *open_elf(const char *name) {
        char path[PATH_MAX];
        int fd = open(fixture(path, name), O_RDONLY | O_CLOEXEC);
        ElfFile *elf;

        assert_return_code(fd, errno);
        assert_return_code(elf_file_new_take_fd(&elf, fd), 0);
        return elf;
}

static void check_chain(const char *program, const DebugLines *lines, uint32_t code, const Expected *expected, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const DebugCode *c = &lines->codes[code];
                const char *name = c->routine > 0 ? lines->strings[c->routine] : NULL;
                const char *source = c->source > 0 ? lines->strings[c->source] : "";
                _cleanup_free_ char *shown = NULL;

                if (code == 0)
                        fail_msg("%s: nothing of %s", program, expected[i].name ?: "it");
                if (!expected[i].name != !name)
                        fail_msg("%s: %s where %s was expected", program, name ?: "no name", expected[i].name ?: "none");
                if (name) {
                        assert_return_code(symbol_demangle(name, &shown), 0);
                        if (strstr(shown, expected[i].name) != shown)
                                fail_msg("%s: %s is not %s", program, shown, expected[i].name);
                }
                if (c->line != expected[i].line || strlen(source) < strlen(expected[i].source) ||
                    strcmp(source + strlen(source) - strlen(expected[i].source), expected[i].source) != 0)
                        fail_msg("%s: %s is at %s:%u, not %s:%u", program, name ?: "it", source, c->line, expected[i].source,
                                 expected[i].line);
                code = c->caller;
        }
        if (code != 0)
                fail_msg("%s: %s is inlined into something", program, expected[n - 1].name ?: "it");
}

typedef int (*ReadFunc)(const DebugInfoRequest *request, DebugLines *lines);

static int read_here(const DebugInfoRequest *request, DebugLines *lines) {
        return debug_info_read(request, lines, NULL, NULL);
}

static int read_by_worker(const DebugInfoRequest *request, DebugLines *lines) {
        return debug_worker_run(lines, request, &(DebugWorkerOptions){ .deadline = now_ns(CLOCK_MONOTONIC) + LONG });
}

/* What stands at a label of a program, by the file that has its debug information. */
static void check_label(const char *program, ElfFile *debug, ElfFile *alt, const char *label, const Expected *expected,
                        size_t n) {
        static const ReadFunc funcs[] = { read_here, read_by_worker };
        uint64_t address = address_of(program, label);
        DebugInfoRequest request = {
                .fd = elf_file_get_fd(debug),
                .alt_fd = alt ? elf_file_get_fd(alt) : -1,
                .addresses = &address,
                .n_addresses = 1,
        };

        for (size_t i = 0; i < ELEMENTSOF(funcs); i++) {
                _cleanup_(debug_lines_done) DebugLines lines = {};
                int r;

                assert_return_code(debug_lines_init(&lines, 1), 0);
                r = funcs[i](&request, &lines);
                if (r < 0)
                        fail_msg("%s: %s", program, strerror(-r));
                if (n == 0)
                        assert_int_equal(lines.at[0], 0);
                else
                        check_chain(program, &lines, lines.at[0], expected, n);
        }
}

static void check(const char *program, const char *label, const Expected *expected, size_t n) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(program);

        check_label(program, elf, NULL, label, expected, n);
}

#define CHAIN(...) ((const Expected[]){ __VA_ARGS__ }), sizeof((const Expected[]){ __VA_ARGS__ }) / sizeof(Expected)

static void check_c(const char *program, ElfFile *debug, ElfFile *alt) {
        check_label(program, debug, alt, "at_innermost",
                    CHAIN({ "innermost", "/inner.h", 101 }, { "middle", "/program.c", 203 }, { "outer", "/program.c", 303 }));
        check_label(program, debug, alt, "at_outer", CHAIN({ "outer", "/program.c", 302 }));
        check_label(program, debug, alt, "at_lonely", CHAIN({ "lonely", "/program.c", 401 }));
}

static void test_c(_unused_ void **state) {
        static const char *const programs[] = {
                "c-4", "c-5", "clang-4", "clang-5", "compressed-4", "compressed-5", "types", "nopie",
        };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = open_elf(programs[i]);

                check_c(programs[i], elf, NULL);
        }
        /* Of functions it has only those that something is inlined into. */
        check("table", "at_innermost",
              CHAIN({ "innermost", "/inner.h", 101 }, { "middle", "/program.c", 203 }, { "outer", "/program.c", 303 }));
        check("table", "at_lonely", CHAIN({ NULL, "/program.c", 401 }));
}

/* Whether a worker says so. */
static bool lacks_files(const char *program) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(program);
        _cleanup_(debug_lines_done) DebugLines lines = {};
        uint64_t address = address_of(program, "at_innermost");
        DebugInfoRequest request = {
                .fd = elf_file_get_fd(elf),
                .alt_fd = -1,
                .addresses = &address,
                .n_addresses = 1,
        };

        assert_return_code(debug_lines_init(&lines, 1), 0);
        assert_return_code(read_by_worker(&request, &lines), 0);
        return lines.lacks_files;
}

static void test_split(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *moved = open_elf("moved/split-5");
        static const char *const programs[] = { "split-4", "split-5", "clang-split-4", "clang-split-5" };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = open_elf(programs[i]);

                check_c(programs[i], elf, NULL);
        }
        check_c("split-5", moved, NULL);
        assert_false(lacks_files("split-4"));
        assert_true(lacks_files("split-lost"));
        /* Without the rest the line is known, and no function. */
        check("split-lost", "at_innermost", CHAIN({ NULL, "/inner.h", 101 }));
        check("split-fifo", "at_innermost", CHAIN({ NULL, "/inner.h", 101 }));
}

/* What line tables say without anything else: no names, and nothing where they may be of what is not there. */
static void check_table_only(const char *program, const char *label, const Expected *expected) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf(program);
        uint64_t address = address_of(program, label), end;
        DebugInfoRequest request = {
                .fd = elf_file_get_fd(elf),
                .alt_fd = -1,
                .addresses = &address,
                .n_addresses = 1,
        };
        _cleanup_(debug_lines_done) DebugLines lines = {};

        assert_true(elf_file_get_code(elf, &request.code_start, &end));
        assert_return_code(debug_lines_init(&lines, 1), 0);
        assert_int_equal(read_by_worker(&request, &lines), -ENODATA);
        assert_true(lines.lacks_files);
        if (expected)
                check_chain(program, &lines, lines.at[0], expected, 1);
        else
                assert_int_equal(lines.at[0], 0);
}

static void test_table_only(_unused_ void **state) {
        static const char *const programs[] = { "table-only-4", "table-only-5", "table-only-nopie" };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                check_table_only(programs[i], "at_innermost", &(Expected){ NULL, "inner.h", 101 });
                check_table_only(programs[i], "at_outer", &(Expected){ NULL, "program.c", 302 });
                check_table_only(programs[i], "at_lonely", &(Expected){ NULL, "program.c", 401 });
                check_table_only(programs[i], "_start", NULL);
        }
        check_table_only("table-only-mixed", "at_innermost", NULL);
        check_table_only("table-only-mixed", "at_lonely", NULL);
}

/* Packages of .dwo files elfutils reads since 0.191. */
static void test_dwp(_unused_ void **state) {
        static const char *const programs[] = { "dwp-4", "dwp-5" };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = open_elf(programs[i]);

                if (lacks_files(programs[i]))
                        check(programs[i], "at_innermost", CHAIN({ NULL, "/inner.h", 101 }));
                else
                        check_c(programs[i], elf, NULL);
        }
}

static void test_cxx(_unused_ void **state) {
        static const char *const programs[] = { "cc-4", "cc-5" };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                check(programs[i], "at_get",
                      CHAIN({ "ns::Box<int>::get", "/box.h", 101 }, { "ns::Box<int>::call", "/box.h", 202 }));
                check(programs[i], "at_lambda", CHAIN({ "", "/program.cc", 302 }, { "main", "/program.cc", 309 }));
                /* Written inside of main, and called. */
                check(programs[i], "at_apart", CHAIN({ "", "/program.cc", 306 }));
        }
}

static void test_rust(_unused_ void **state) {
        if (!is_there("rust"))
                skip();
        check("rust", "at_advance",
              CHAIN({ "program::Counter::advance", "program.rs", 15 }, { "program::outer", "program.rs", 24 }));
}

static void test_assembly(_unused_ void **state) {
        check("assembly", "at_assembly", CHAIN({ "main", "/assembly.s", 8 }));
        /* Clang's assembler says of what is a function only that it is a label. */
        check("clang-assembly", "at_assembly", CHAIN({ NULL, "/assembly.s", 8 }));
}

/* -ENOENT: it is in no file. */
static int open_separate(const char *program, ElfFile *elf, uint64_t deadline, ElfFile **ret) {
        char path[PATH_MAX], symbol_dir[PATH_MAX];

        return debug_file_open(ret, elf, &(DebugFileSearch){
                                                 .path = fixture(path, program),
                                                 .root_fd = -1,
                                                 .symbol_dir = fixture(symbol_dir, "debug"),
                                                 .deadline = deadline,
                                         });
}

static void test_separate(_unused_ void **state) {
        static const char *const programs[] = { "by-id", "linked/by-link" };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = open_elf(programs[i]), *debug = NULL;

                assert_int_equal(elf_file_has_section(elf, ".debug_info"), 0);
                assert_return_code(open_separate(programs[i], elf, 0, &debug), 0);
                assert_int_equal(elf_file_has_section(debug, ".debug_info"), 1);
                check_c(programs[i], debug, NULL);
        }
}

/* A build id is read at once; a checksum takes its time. */
static void test_separate_late(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *by_id = open_elf("by-id"), *by_link = open_elf("linked/by-link"), *debug = NULL;

        assert_int_equal(open_separate("linked/by-link", by_link, 1, &debug), -ETIMEDOUT);
        assert_int_equal(open_separate("by-id", by_id, 1, &debug), 0);
}

static void test_dwz(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL, *moved = NULL, *common = NULL, *alt = NULL;
        char symbol_dir[PATH_MAX];
        DebugFileId id;

        if (!is_there("dwz-one"))
                skip();
        elf = open_elf("dwz-one");
        assert_return_code(debug_file_open_alt(&common, elf, "/nonexistent", &id), 0);
        assert_non_null(common);
        check_c("dwz-one", elf, common);
        moved = open_elf("moved/dwz-one");
        assert_int_equal(debug_file_open_alt(&alt, moved, "/nonexistent", &id), -ENOENT);
        assert_true(elf_file_has_build_id(common, id.id, id.len));
        assert_return_code(debug_file_open_alt(&alt, moved, fixture(symbol_dir, "debug"), &id), 0);
        assert_non_null(alt);
        check_c("moved/dwz-one", moved, alt);
}

static void test_no_alt(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("c-5");
        ElfFile *alt = elf;
        DebugFileId id;

        assert_int_equal(debug_file_open_alt(&alt, elf, "/nonexistent", &id), 0);
        assert_null(alt);
        assert_int_equal(id.len, 0);
}

static void test_nothing(_unused_ void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("none"), *other = open_elf("c-5");
        uint64_t addresses[] = { 1, address_of("c-5", "at_lonely"), UINT64_MAX };
        DebugInfoRequest request = { .fd = elf_file_get_fd(elf), .alt_fd = -1, .addresses = addresses, .n_addresses = 3 };
        _cleanup_(debug_lines_done) DebugLines lines = {};

        assert_return_code(debug_lines_init(&lines, 3), 0);
        assert_int_equal(read_by_worker(&request, &lines), -EBADMSG);
        request.fd = elf_file_get_fd(other);
        debug_lines_done(&lines);
        assert_return_code(debug_lines_init(&lines, 3), 0);
        assert_int_equal(read_by_worker(&request, &lines), 0);
        assert_int_equal(lines.at[0], 0);
        assert_int_not_equal(lines.at[1], 0);
        assert_int_equal(lines.at[2], 0);
}

/* ---- the worker ---- */

static int run(int (*read)(const DebugInfoRequest *, DebugLines *, DebugInfoFunc, void *), uint64_t timeout,
               uint64_t memory_max, DebugLines *lines) {
        static const uint64_t address = 1;
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        assert_return_code(debug_lines_init(lines, 1), 0);
        return debug_worker_run(lines, &(DebugInfoRequest){ .fd = fd, .alt_fd = -1, .addresses = &address, .n_addresses = 1 },
                                &(DebugWorkerOptions){
                                        .deadline = now_ns(CLOCK_MONOTONIC) + timeout,
                                        .memory_max = memory_max,
                                        .read = read,
                                });
}

/* Says something that is to be kept. */
static void say(DebugLines *lines, uint32_t line, DebugInfoFunc progress, void *userdata) {
        uint32_t code;

        if (debug_lines_add_code(lines, &(DebugCode){ .line = line }, &code) < 0)
                _exit(1);
        debug_lines_set(lines, 0, code);
        if (progress(lines, userdata) < 0)
                _exit(1);
}

static uint32_t said(const DebugLines *lines) {
        return lines->at[0] > 0 ? lines->codes[lines->at[0]].line : 0;
}

static int hang(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        say(lines, 7, progress, userdata);
        for (volatile bool end = false; !end;)
                ;
        return 0;
}

/* Does not count as time of the CPU, of which a worker has little more than its deadline. */
static int sleep_on(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        uint32_t word = 0;

        (void) request;
        (void) lines;
        (void) progress;
        (void) userdata;
        for (volatile bool end = false; !end;)
                (void) syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
        return 0;
}

static int fall(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        say(lines, 8, progress, userdata);
        _exit(0);
}

static int fail_with(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        say(lines, 9, progress, userdata);
        return -EFBIG;
}

static void test_worker_fails(_unused_ void **state) {
        static const struct {
                int (*read)(const DebugInfoRequest *, DebugLines *, DebugInfoFunc, void *);
                uint64_t timeout;
                int result;
                uint32_t said;
        } cases[] = {
                { hang, NSEC_PER_SEC, -ETIMEDOUT, 7 },
                { hang, 0, -ETIMEDOUT, 0 },
                { fall, LONG, -EBADMSG, 8 },
                { fail_with, LONG, -EFBIG, 9 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(debug_lines_done) DebugLines lines = {};

                assert_int_equal(run(cases[i].read, cases[i].timeout, 0, &lines), cases[i].result);
                /* A machine that is slow enough has said nothing within the second. */
                if (cases[i].result != -ETIMEDOUT || said(&lines) != 0)
                        assert_int_equal(said(&lines), cases[i].said);
        }
}

/* Also those it might get, but for those of programs that it may not execute. */
static bool has_capabilities(pid_t pid) {
        static const char *const keys[] = { "\nCapInh:\t", "\nCapPrm:\t", "\nCapEff:\t", "\nCapAmb:\t" };
        _cleanup_close_ int fd = -1;
        char path[64], text[8192];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = read(fd, text, sizeof(text) - 1);
        text[MAX(n, 0)] = 0;
        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                const char *line = strstr(text, keys[i]);

                if (!line || strtoull(line + strlen(keys[i]), NULL, 16) != 0)
                        return true;
        }
        return false;
}

/* Whom a signal was kept from; 0: nobody is to be spared, -1: the next. The wrapper has no argument to find it by. */
static pid_t spared;

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal) {
        if (spared >= 0)
                return __real_kill(pid, signal);
        spared = pid;
        return 0;
}

/* As one that reads a file on a file system which does not answer: that is killed, and ends when there is an answer. */
static void test_worker_does_not_end(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        pid_t pid;

        spared = -1;
        assert_int_equal(run(sleep_on, NSEC_PER_SEC / 10, 0, &lines), -ETIMEDOUT);
        pid = spared;
        spared = 0;
        assert_true(pid > 0);
        assert_return_code(kill(pid, SIGKILL), errno);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Each bit: something that must not be possible is. */
static int attack(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        uint32_t possible = 0;
        char path[64];

        (void) snprintf(path, sizeof(path), "/tmp/ringside-worker-%d", (int) getpid());
        possible |= open(path, O_WRONLY | O_CREAT, 0600) >= 0;
        possible |= (open("/dev/null", O_RDWR) >= 0) << 1;
        possible |= (open("/dev/null", O_RDONLY | O_TRUNC) >= 0) << 2;
        possible |= (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) << 3;
        possible |= (socket(AF_INET, SOCK_STREAM, 0) >= 0) << 4;
        possible |= (kill(getppid(), 0) >= 0) << 5;
        possible |= (fork() >= 0) << 6;
        possible |= (unlink(path) >= 0 || errno == ENOENT) << 7;
        possible |= (mkdir(path, 0700) >= 0) << 8;
        possible |= (ptrace(PTRACE_TRACEME, 0, NULL, NULL) >= 0) << 9;
        possible |= (write(2, "x", 1) >= 0) << 10;
        possible |= (dup(request->fd) >= 0) << 11;
        possible |= (chmod("/dev/null", 0666) >= 0) << 12;
        /* Memory that is shared is not counted as what one writes to. */
        possible |= (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) << 15;
        execl("/bin/true", "true", (char *) NULL);
        for (int i = 3; i < 100; i++)
                possible |= (i != request->fd && i != fileno(userdata) && lseek(i, 0, SEEK_CUR) >= 0) << 14;
        say(lines, possible, progress, userdata);
        return 0;
}

static void test_worker_is_confined(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        int inherited = open("/dev/null", O_RDWR);

        assert_return_code(inherited, errno);
        assert_int_equal(run(attack, LONG, 0, &lines), 0);
        assert_int_equal(lines.at[0], 1);
        assert_int_equal(said(&lines), 0);
        (void) close(inherited);
}

/* The last two have what a worker may ask for; the last is named as from the file that is read. */
static const char *const others[] = { "/etc/passwd", "c-4", "split-5.dwo", "split-4.dwo" };

static const char *other(char *path, size_t i) {
        return others[i][0] == '/' ? others[i] : fixture(path, others[i]);
}

/* Each bit: one of them that can be opened. */
static int open_others(_unused_ const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        uint32_t possible = 0;
        char path[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                possible |= (uint32_t) (open(other(path, i), O_RDONLY | O_CLOEXEC) >= 0) << i;
        say(lines, possible, progress, userdata);
        return 0;
}

static int wish_for_others(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        char path[PATH_MAX];

        if (!request->ask_first)
                return open_others(request, lines, progress, userdata);
        for (size_t i = 0; i + 1 < ELEMENTSOF(others); i++)
                assert_return_code(debug_lines_add_wish(lines, other(path, i)), 0);
        assert_return_code(debug_lines_add_wish(lines, others[ELEMENTSOF(others) - 1]), 0);
        return progress(lines, userdata) < 0 ? -EPIPE : -EAGAIN;
}

static uint32_t ask_worker_for_others(int (*read)(const DebugInfoRequest *, DebugLines *, DebugInfoFunc, void *)) {
        static const uint64_t address = 1;
        _cleanup_(debug_lines_done) DebugLines lines = {};
        _cleanup_(elf_file_freep) ElfFile *elf = open_elf("c-4");
        DebugInfoRequest request = { .fd = elf_file_get_fd(elf), .alt_fd = -1, .addresses = &address, .n_addresses = 1 };

        assert_return_code(debug_lines_init(&lines, 1), 0);
        assert_return_code(
                debug_worker_run(&lines, &request,
                                 &(DebugWorkerOptions){ .deadline = now_ns(CLOCK_MONOTONIC) + LONG, .read = read }),
                0);
        return said(&lines);
}

/* No file of its user's, but one that the debug information names and that has some itself. */
static void test_worker_opens_no_other(_unused_ void **state) {
        bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1;

        assert_int_equal(ask_worker_for_others(open_others), landlock ? 0 : 0xf);
        assert_int_equal(ask_worker_for_others(wish_for_others), landlock ? 0xc : 0xf);
}

static int wish_again(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        assert_return_code(debug_lines_add_wish(lines, "/nowhere"), 0);
        return progress(lines, userdata) < 0 ? -EPIPE : -EAGAIN;
}

/* It is asked twice, whatever it wishes for then. */
static void test_worker_wishes_again(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};

        assert_int_equal(run(wish_again, LONG, 0, &lines), -EAGAIN);
        assert_int_equal(lines.at[0], 0);
}

static int speak(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        say(lines, 10, progress, userdata);
        return 0;
}

/* Whoever started us allows less than a worker's own limits, which nobody but root may raise. */
static void test_worker_under_limits(_unused_ void **state) {
        static const struct rlimit memory = { UINT64_C(1) << 29, UINT64_C(1) << 29 };
        static const struct rlimit space = { UINT64_C(32) << 30, UINT64_C(32) << 30 };
        int status;
        pid_t pid;

#if defined(__SANITIZE_ADDRESS__)
        skip(); /* it reserves more than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
        skip();
#endif
#endif
        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                _cleanup_(debug_lines_done) DebugLines lines = {};

                if (setrlimit(RLIMIT_DATA, &memory) < 0 || setrlimit(RLIMIT_AS, &space) < 0 ||
                    (geteuid() == 0 && setuid(65534) < 0))
                        _exit(2);
                _exit(run(speak, LONG, 0, &lines) == 0 && said(&lines) == 10 ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static int tell_and_hang(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        pid_t pid = getpid();

        if (write(request->fd, &pid, sizeof(pid)) != sizeof(pid))
                return -EIO;
        return hang(request, lines, progress, userdata);
}

/* It has no capability. Whoever asked is killed: the worker is the only one that still has the pipe then, until it is gone. */
static void test_worker_ends_with_us(_unused_ void **state) {
        static const uint64_t address = 1;
        struct pollfd p = { .events = POLLIN };
        pid_t pid, worker;
        char byte;
        int fds[2];

        assert_return_code(pipe2(fds, O_CLOEXEC), errno);
        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                DebugLines lines;

                if (debug_lines_init(&lines, 1) < 0)
                        _exit(1);
                (void) debug_worker_run(&lines,
                                        &(DebugInfoRequest){ .fd = fds[1], .alt_fd = -1, .addresses = &address, .n_addresses = 1 },
                                        &(DebugWorkerOptions){ .deadline = now_ns(CLOCK_MONOTONIC) + LONG, .read = tell_and_hang });
                _exit(1);
        }
        (void) close(fds[1]);
        assert_int_equal(read(fds[0], &worker, sizeof(worker)), sizeof(worker));
        assert_false(has_capabilities(worker));
        assert_return_code(kill(pid, SIGKILL), errno);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        p.fd = fds[0];
        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(read(fds[0], &byte, 1), 0);
        (void) close(fds[0]);
}

static int use_memory(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        (void) request;
        for (uint32_t i = 0; i < 4096; i++) {
                char *p = malloc(1U << 20);

                if (!p) {
                        say(lines, i, progress, userdata);
                        return -ENOMEM;
                }
                memset(p, 1, 1U << 20);
                __asm__ volatile("" : : "r"(p) : "memory"); /* or a compiler finds that nobody needs it */
        }
        return 0;
}

static void test_worker_memory(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        void *ours;

#if defined(__SANITIZE_ADDRESS__)
        skip(); /* it reserves more than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
        skip();
#endif
#endif
        /* What we have ourselves does not count. */
        ours = mmap(NULL, 256U << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(ours, MAP_FAILED);
        assert_int_equal(run(use_memory, LONG, 64U << 20, &lines), -EFBIG);
        assert_in_range(said(&lines), 1, 80); /* there may be some left of what was given back before */
        assert_return_code(munmap(ours, 256U << 20), errno);
}

/* ---- what a worker may say ---- */

/* A stream as debug_lines_send() makes it: "x", code 1 in it, code 2 inlined into that, address 0 is 2. */
static size_t make_stream(uint8_t *ret, size_t size) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        FILE *f = fmemopen(ret, size, "w");
        uint32_t string, code;
        size_t n;

        assert_non_null(f);
        assert_return_code(debug_lines_init(&lines, 1), 0);
        assert_return_code(debug_lines_add_string(&lines, "x", &string), 0);
        assert_return_code(debug_lines_add_code(&lines, &(DebugCode){ .routine = string, .line = 5 }, &code), 0);
        assert_return_code(debug_lines_add_code(&lines, &(DebugCode){ .caller = code, .source = string }, &code), 0);
        debug_lines_set(&lines, 0, code);
        assert_return_code(debug_lines_add_wish(&lines, "y.dwo"), 0);
        assert_return_code(debug_lines_send(&lines, f), 0);
        assert_return_code(debug_lines_send_end(0, f), 0);
        n = (size_t) ftell(f);
        (void) fclose(f);
        return n;
}

static void test_stream(_unused_ void **state) {
        uint8_t stream[1024];
        size_t n = make_stream(stream, sizeof(stream));

        /* In two parts, cut everywhere. */
        for (size_t cut = 0; cut <= n; cut++) {
                _cleanup_(debug_lines_done) DebugLines lines = {};
                size_t used, rest;

                assert_return_code(debug_lines_init(&lines, 1), 0);
                assert_int_equal(debug_lines_take(&lines, stream, cut, &used), 0);
                assert_true(used <= cut);
                assert_int_equal(debug_lines_take(&lines, stream + used, n - used, &rest), 0);
                assert_int_equal(used + rest, n);
                assert_true(lines.ended);
                assert_int_equal(lines.at[0], 2);
                assert_int_equal(lines.codes[2].caller, 1);
                assert_string_equal(lines.strings[lines.codes[1].routine], "x");
                assert_int_equal(lines.n_wishes, 1);
                assert_string_equal(lines.wishes[0], "y.dwo");
        }
}

/* Whatever is changed, nothing in it points to what is not there. */
static void test_stream_is_hostile(_unused_ void **state) {
        static const uint8_t values[] = { 0, 1, 2, 3, 4, 5, 6, 0x7f, 0x80, 0xff };
        uint8_t stream[1024], changed[1024];
        size_t n = make_stream(stream, sizeof(stream)), refused = 0, used;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                        _cleanup_(debug_lines_done) DebugLines lines = {};

                        memcpy(changed, stream, n);
                        changed[i] = values[k];
                        assert_return_code(debug_lines_init(&lines, 1), 0);
                        refused += debug_lines_take(&lines, changed, n, &used) < 0;
                        assert_true(lines.at[0] < lines.n_codes);
                        for (size_t j = 0; j < lines.n_wishes; j++)
                                assert_in_range(strlen(lines.wishes[j]), 1, PATH_MAX - 1);
                        for (size_t j = 1; j < lines.n_codes; j++) {
                                assert_true(lines.codes[j].caller < j);
                                assert_true(lines.codes[j].routine < lines.n_strings);
                                assert_true(lines.codes[j].source < lines.n_strings);
                                assert_true(lines.codes[j].line <= INT32_MAX);
                        }
                }
        assert_true(refused > n);
}

static void test_too_many_wishes(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        char path[PATH_MAX + 1];

        memset(path, 'x', PATH_MAX);
        path[PATH_MAX] = 0;
        assert_return_code(debug_lines_init(&lines, 1), 0);
        assert_return_code(debug_lines_add_wish(&lines, path), 0);
        assert_int_equal(lines.n_wishes, 0);
        for (size_t i = 0; i < DEBUG_LINES_WISHES_MAX + 1; i++)
                assert_return_code(debug_lines_add_wish(&lines, path + 1), 0);
        assert_int_equal(lines.n_wishes, DEBUG_LINES_WISHES_MAX);
}

static void test_too_deep(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        uint32_t code = 0;

        assert_return_code(debug_lines_init(&lines, 2), 0);
        for (uint32_t i = 0; i < DEBUG_LINES_DEPTH_MAX; i++)
                assert_return_code(debug_lines_add_code(&lines, &(DebugCode){ .caller = code, .line = i }, &code), 0);
        assert_int_equal(debug_lines_add_code(&lines, &(DebugCode){ .caller = code }, &code), -EFBIG);
}

/* No more than the addresses that were asked for can need. */
static void test_too_much(_unused_ void **state) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        uint32_t number;
        char name[32];

        assert_return_code(debug_lines_init(&lines, 3), 0);
        for (uint32_t i = 0; i < 3 * DEBUG_LINES_DEPTH_MAX; i++)
                assert_return_code(debug_lines_add_code(&lines, &(DebugCode){ .line = i }, &number), 0);
        assert_int_equal(debug_lines_add_code(&lines, &(DebugCode){ .line = INT32_MAX }, &number), -EFBIG);
        assert_return_code(debug_lines_add_code(&lines, &(DebugCode){ .line = 1 }, &number), 0);
        for (uint32_t i = 0; i < 6 * DEBUG_LINES_DEPTH_MAX; i++) {
                (void) snprintf(name, sizeof(name), "%u", i);
                assert_return_code(debug_lines_add_string(&lines, name, &number), 0);
        }
        assert_int_equal(debug_lines_add_string(&lines, "one more", &number), -EFBIG);
        assert_return_code(debug_lines_add_string(&lines, "0", &number), 0);
}

/* ---- hostile files ---- */

static int read_bytes_of(const char *name, uint8_t **ret, size_t *ret_n) {
        char path[PATH_MAX];
        int fd = open(fixture(path, name), O_RDONLY | O_CLOEXEC);
        struct stat st;

        assert_return_code(fd, errno);
        assert_return_code(fstat(fd, &st), errno);
        *ret_n = (size_t) st.st_size;
        *ret = malloc(*ret_n);
        assert_non_null(*ret);
        assert_int_equal(read(fd, *ret, *ret_n), *ret_n);
        return close(fd);
}

static int read_memory(const uint8_t *bytes, size_t n, const uint64_t *addresses, size_t n_addresses) {
        _cleanup_(debug_lines_done) DebugLines lines = {};
        _cleanup_close_ int fd = memfd_create("hostile", MFD_CLOEXEC);
        int r;

        assert_return_code(fd, errno);
        assert_int_equal(write(fd, bytes, n), n);
        assert_return_code(debug_lines_init(&lines, n_addresses), 0);
        r = debug_worker_run(&lines,
                             &(DebugInfoRequest){ .fd = fd, .alt_fd = -1, .addresses = addresses, .n_addresses = n_addresses },
                             &(DebugWorkerOptions){ .deadline = now_ns(CLOCK_MONOTONIC) + 10 * NSEC_PER_SEC });
        assert_true(r == 0 || r == -EBADMSG || r == -ENODATA || r == -EFBIG || r == -ENOMEM || r == -ETIMEDOUT);
        return r;
}

/* Cut short, and changed here and there: our own process goes on, whatever comes of the worker. */
static void test_hostile_files(_unused_ void **state) {
        static const char *const programs[] = { "c-5", "clang-4", "compressed-5", "table-only-5" };
        size_t sound = 0, late = 0;

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                uint64_t addresses[] = { address_of(programs[i], "at_innermost"), address_of(programs[i], "at_lonely") };
                _cleanup_free_ uint8_t *bytes = NULL;
                uint64_t random = 88172645463325252U;
                size_t n;

                if (addresses[0] > addresses[1]) {
                        uint64_t swapped = addresses[0];

                        addresses[0] = addresses[1];
                        addresses[1] = swapped;
                }
                read_bytes_of(programs[i], &bytes, &n);
                for (size_t size = 0; size < n; size += n / 40)
                        late += read_memory(bytes, size, addresses, 2) == -ETIMEDOUT;
                for (size_t round = 0; round < 40; round++) {
                        _cleanup_free_ uint8_t *changed = malloc(n);
                        int r;

                        assert_non_null(changed);
                        memcpy(changed, bytes, n);
                        for (size_t k = 0; k < 64; k++) {
                                random ^= random << 13;
                                random ^= random >> 7;
                                random ^= random << 17;
                                changed[64 + random % (n - 64)] = (uint8_t) (random >> 32);
                        }
                        r = read_memory(changed, n, addresses, 2);
                        late += r == -ETIMEDOUT;
                        sound += r == 0;
                }
        }
        /* None is, but for a machine that stands still. */
        assert_true(late < 4);
        assert_true(sound > 20);
}

/* A relocatable one is changed by its relocations, which are as hostile as the rest. */
static void test_hostile_module(_unused_ void **state) {
        uint64_t addresses[16], random = 88172645463325252U;
        _cleanup_free_ uint8_t *bytes = NULL;
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(addresses); i++)
                addresses[i] = DEBUG_INFO_SECTION_ADDRESS(i + 1, 8);
        read_bytes_of("module.ko", &bytes, &n);
        for (size_t round = 0; round < 80; round++) {
                _cleanup_free_ uint8_t *changed = malloc(n);
                _cleanup_(debug_lines_done) DebugLines lines = {};
                _cleanup_close_ int fd = memfd_create("hostile", MFD_CLOEXEC);
                size_t size = round < 40 ? n * round / 40 : n;
                int r;

                assert_non_null(changed);
                memcpy(changed, bytes, n);
                for (size_t k = 0; k < 64 && round >= 40; k++) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        changed[64 + random % (n - 64)] = (uint8_t) (random >> 32);
                }
                assert_return_code(fd, errno);
                assert_int_equal(write(fd, changed, size), size);
                assert_return_code(debug_lines_init(&lines, ELEMENTSOF(addresses)), 0);
                r = debug_worker_run(&lines,
                                     &(DebugInfoRequest){
                                             .fd = fd,
                                             .alt_fd = -1,
                                             .addresses = addresses,
                                             .n_addresses = ELEMENTSOF(addresses),
                                             .relocatable = true,
                                     },
                                     &(DebugWorkerOptions){ .deadline = now_ns(CLOCK_MONOTONIC) + LONG });
                assert_true(r == 0 || r == -EBADMSG || r == -ENODATA || r == -EFBIG || r == -ENOMEM);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_c),
                cmocka_unit_test(test_split),
                cmocka_unit_test(test_table_only),
                cmocka_unit_test(test_dwp),
                cmocka_unit_test(test_cxx),
                cmocka_unit_test(test_rust),
                cmocka_unit_test(test_assembly),
                cmocka_unit_test(test_separate),
                cmocka_unit_test(test_separate_late),
                cmocka_unit_test(test_dwz),
                cmocka_unit_test(test_no_alt),
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_worker_fails),
                cmocka_unit_test(test_worker_does_not_end),
                cmocka_unit_test(test_worker_is_confined),
                cmocka_unit_test(test_worker_opens_no_other),
                cmocka_unit_test(test_worker_wishes_again),
                cmocka_unit_test(test_worker_under_limits),
                cmocka_unit_test(test_worker_ends_with_us),
                cmocka_unit_test(test_worker_memory),
                cmocka_unit_test(test_stream),
                cmocka_unit_test(test_stream_is_hostile),
                cmocka_unit_test(test_too_many_wishes),
                cmocka_unit_test(test_too_deep),
                cmocka_unit_test(test_too_much),
                cmocka_unit_test(test_hostile_files),
                cmocka_unit_test(test_hostile_module),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
