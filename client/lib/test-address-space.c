/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Real processes where it can be: this one, and the fixture programs, which print where their functions are.
 * Trees made to look like /proc where a real one would not hold still.
 */

#include <dirent.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "process-dir.h"
#include "symbolizer.h"
#include "test-jitdump.h"
#include "util.h"

DEFINE_CLEANUP(Symbolizer, symbolizer_free)
DEFINE_CLEANUP(AddressSpace, address_space_free)

#define _cleanup_symbolizer_ _cleanup_(symbolizer_freep)
#define _cleanup_space_ _cleanup_(address_space_freep)

__attribute__((noinline, used)) static int some_function_of_ours(int n) {
        return n * 5 + 3;
}

static const char *get_fixtures(void) {
        const char *dir = getenv("FIXTURES");

        assert_non_null(dir);
        return dir;
}

_printf_(1, 2) static void run(const char *format, ...) {
        char command[2 * PATH_MAX];
        va_list ap;

        va_start(ap, format);
        vsnprintf(command, sizeof(command), format, ap);
        va_end(ap);
        assert_int_equal(system(command), 0);
}

static int set_up_directory(void **state) {
        char *dir = strdup("/tmp/test-address-space-XXXXXX");

        *state = dir;
        return mkdtemp(dir) ? 0 : -1;
}

static int tear_down_directory(void **state) {
        run("rm -rf '%s'", (char *) *state);
        free(*state);
        return 0;
}

/* ---- the fixture programs ---- */

typedef struct Program {
        pid_t pid;
        FILE *output;
        int input; /* it lives until this is closed */
        uint64_t global, local, far, main;
} Program;

static void program_read_address(Program *program, const char *name, uint64_t *ret) {
        char actual[64];
        unsigned long address;

        assert_int_equal(fscanf(program->output, "%63s %lx", actual, &address), 2);
        assert_string_equal(actual, name);
        *ret = address;
}

static void program_start(Program *program, const char *path) {
        int in[2], out[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        program->pid = fork();
        assert_true(program->pid >= 0);
        if (program->pid == 0) {
                dup2(in[0], 0);
                dup2(out[1], 1);
                execl(path, path, NULL);
                _exit(127);
        }
        close(in[0]);
        close(out[1]);
        program->input = in[1];
        program->output = fdopen(out[0], "r");
        assert_non_null(program->output);
        program_read_address(program, "fixture_global", &program->global);
        program_read_address(program, "fixture_local", &program->local);
        program_read_address(program, "fixture_far", &program->far);
        program_read_address(program, "main", &program->main);
}

static void program_stop(Program *program) {
        close(program->input);
        assert_int_equal(waitpid(program->pid, NULL, 0), program->pid);
        fclose(program->output);
}

static void assert_resolves(AddressSpace *space, uint64_t address, const char *name, uint64_t offset) {
        Resolved resolved;

        assert_int_equal(address_space_resolve(space, address, false, &resolved), 0);
        assert_non_null(resolved.file);
        if (!name) {
                assert_null(resolved.name);
                return;
        }
        assert_non_null(resolved.name);
        assert_string_equal(resolved.name, name);
        assert_int_equal(resolved.name_offset, offset);
}

static void assert_knows_program(AddressSpace *space, const Program *program, bool has_local) {
        assert_resolves(space, program->global, "fixture_global", 0);
        assert_resolves(space, program->global + 1, "fixture_global", 1);
        assert_resolves(space, program->far, "fixture_far", 0);
        assert_resolves(space, program->main, "main", 0);
        assert_resolves(space, program->local, has_local ? "fixture_local" : NULL, 0);
}

static void open_space(Symbolizer **symbolizer, AddressSpace **space, pid_t pid, const char *proc,
                       const char *symbol_dir) {
        SymbolizerOptions options = {.proc = proc, .symbol_dir = symbol_dir};

        assert_int_equal(symbolizer_new(symbolizer, &options), 0);
        assert_int_equal(address_space_new(space, *symbolizer, pid), 0);
        assert_int_equal(address_space_refresh(*space), 1);
}

static void test_every_layout(_unused_ void **state) {
        static const struct {
                const char *name;
                bool has_local;
        } fixtures[] = {
                {"pie", true},
                {"nopie", true},
                {"static", true},
                {"mini", true},
                {"lld", true},
                {"lld-separate", true},
                {"lld-base", true},
                {"base-pie", true},
                {"base", true},
                {"far", true},
                {"far-lld", true},
                {"dynamic", false},
                {"by-id", true},
                {"linked/by-link", true},
        };
        char path[PATH_MAX], symbol_dir[PATH_MAX];

        snprintf(symbol_dir, sizeof(symbol_dir), "%s/debug", get_fixtures());
        for (size_t i = 0; i < ELEMENTSOF(fixtures); i++) {
                _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
                _cleanup_space_ AddressSpace *space = NULL;
                Program program;

                snprintf(path, sizeof(path), "%s/%s", get_fixtures(), fixtures[i].name);
                program_start(&program, path);
                open_space(&symbolizer, &space, program.pid, NULL, symbol_dir);
                assert_knows_program(space, &program, fixtures[i].has_local);
                program_stop(&program);
        }
}

/* A debug file that cannot prove what it is names nothing. */
static void test_wrong_debug_files(_unused_ void **state) {
        static const char *const fixtures[] = {"by-wrong-id", "linked/by-wrong-link"};
        char path[PATH_MAX], symbol_dir[PATH_MAX];

        snprintf(symbol_dir, sizeof(symbol_dir), "%s/debug", get_fixtures());
        for (size_t i = 0; i < ELEMENTSOF(fixtures); i++) {
                _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
                _cleanup_space_ AddressSpace *space = NULL;
                Program program;
                Resolved resolved;

                snprintf(path, sizeof(path), "%s/%s", get_fixtures(), fixtures[i]);
                program_start(&program, path);
                open_space(&symbolizer, &space, program.pid, NULL, symbol_dir);
                assert_int_equal(address_space_resolve(space, program.local, false, &resolved), 0);
                assert_null(resolved.name);
                assert_string_equal(resolved.file->path, path);
                program_stop(&program);
        }
}

/* ELF addresses are those that readelf shows, whatever the load address was. */
static void test_address_in_file(_unused_ void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        char path[PATH_MAX], command[PATH_MAX + 64];
        unsigned long expected;
        Program program;
        Resolved resolved;
        FILE *nm;

        snprintf(path, sizeof(path), "%s/lld", get_fixtures());
        snprintf(command, sizeof(command), "nm '%s' | grep ' fixture_global$'", path);
        nm = popen(command, "r");
        assert_int_equal(fscanf(nm, "%lx", &expected), 1);
        pclose(nm);

        program_start(&program, path);
        open_space(&symbolizer, &space, program.pid, NULL, NULL);
        assert_int_equal(address_space_resolve(space, program.global + 3, false, &resolved), 0);
        assert_int_equal(resolved.address, expected + 3);
        /* A call that is the last instruction of its function returns to the next one. */
        assert_int_equal(address_space_resolve(space, program.global, true, &resolved), 0);
        assert_int_equal(resolved.address, expected - 1);
        assert_true(!resolved.name || strcmp(resolved.name, "fixture_global") != 0);
        program_stop(&program);
}

/* What was opened while the process was there is named when it and its file are gone. */
static void test_outlives_process_and_file(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        char path[PATH_MAX];
        Program program;

        snprintf(path, sizeof(path), "%s/program", (char *) *state);
        run("cp '%s/pie' '%s'", get_fixtures(), path);
        program_start(&program, path);
        open_space(&symbolizer, &space, program.pid, NULL, NULL);
        assert_int_equal(unlink(path), 0);
        program_stop(&program);
        assert_int_equal(address_space_refresh(space), -ESRCH);
        assert_true(address_space_contains(space, program.global));
        assert_knows_program(space, &program, true);
}

/* A tree like /proc with what an ordinary user may use of it. */
static void make_proc_of(const char *dir, pid_t pid) {
        run("mkdir '%s/%d' && for f in maps root status task; do ln -s /proc/%d/$f '%s/%d/'; done", dir, pid,
            pid, dir, pid);
}

static void check_file_that_is_gone(const char *dir, bool replaced) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL, *privileged = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *privileged_space = NULL;
        char path[PATH_MAX];
        Program program;
        Resolved resolved;

        snprintf(path, sizeof(path), "%s/program", dir);
        run("cp '%s/pie' '%s'", get_fixtures(), path);
        program_start(&program, path);
        assert_int_equal(unlink(path), 0);
        if (replaced)
                run("cp '%s/lld' '%s'", get_fixtures(), path);

        make_proc_of(dir, program.pid);
        open_space(&symbolizer, &space, program.pid, dir, NULL);
        assert_int_equal(address_space_resolve(space, program.global, false, &resolved), 0);
        assert_null(resolved.name);
        assert_string_equal(resolved.file->path, path);
        assert_true(resolved.file->deleted);
        assert_true(resolved.address < 1 << 20); /* an offset in the file */
        assert_true(symbolizer_get_n_refused(symbolizer) >= 1);

        open_space(&privileged, &privileged_space, program.pid, NULL, NULL);
        if (getuid() == 0)
                assert_knows_program(privileged_space, &program, true);
        program_stop(&program);
}

static void test_deleted_file(void **state) {
        check_file_that_is_gone(*state, false);
}

static void test_replaced_file(void **state) {
        check_file_that_is_gone(*state, true);
}

/* Deleted after we had seen it: the process had it all the time. */
static void test_deleted_later(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        char path[PATH_MAX];
        Program program;

        snprintf(path, sizeof(path), "%s/program", (char *) *state);
        run("cp '%s/pie' '%s'", get_fixtures(), path);
        program_start(&program, path);
        make_proc_of(*state, program.pid);
        open_space(&symbolizer, &space, program.pid, *state, NULL);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(address_space_refresh(space), 0);
        assert_knows_program(space, &program, true);
        program_stop(&program);
}

static void test_name_that_looks_deleted(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        char path[PATH_MAX];
        Program program;
        Resolved resolved;

        snprintf(path, sizeof(path), "%s/new\nline (deleted)", (char *) *state);
        run("cp '%s/pie' '%s'", get_fixtures(), path);
        program_start(&program, path);
        open_space(&symbolizer, &space, program.pid, NULL, NULL);
        assert_knows_program(space, &program, true);
        assert_int_equal(address_space_resolve(space, program.main, false, &resolved), 0);
        assert_string_equal(resolved.file->path, path);
        assert_false(resolved.file->deleted);
        assert_int_equal(address_space_refresh(space), 0);
        program_stop(&program);
}

/* ---- this process ---- */

static void test_ourselves(_unused_ void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *child = NULL;
        Resolved resolved, again;
        uint64_t generation;

        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_resolves(space, (uint64_t) (uintptr_t) some_function_of_ours + 1, "some_function_of_ours", 1);
        assert_resolves(space, (uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "cmocka_set_message_output"),
                        "cmocka_set_message_output", 0);
        generation = address_space_get_generation(space);
        assert_int_equal(address_space_refresh(space), 0);
        assert_int_equal(address_space_get_generation(space), generation);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);

        assert_int_equal(address_space_fork(&child, space, getpid(), 1), 0);
        assert_int_equal(address_space_resolve(space, (uintptr_t) some_function_of_ours, false, &resolved),
                         0);
        assert_int_equal(address_space_resolve(child, (uintptr_t) some_function_of_ours, false, &again), 0);
        assert_ptr_equal(resolved.file, again.file);
        assert_true(resolved.file->id >= 1);
        assert_true(resolved.file->size > 0);
        assert_int_equal(address_space_refresh(child), 0);
        assert_int_equal(address_space_get_n_mappings(child), address_space_get_n_mappings(space));

        address_space_clear(space);
        assert_int_equal(address_space_get_n_mappings(space), 0);
        assert_false(address_space_contains(space, (uintptr_t) some_function_of_ours));
        assert_true(address_space_get_generation(space) != generation);
        generation = address_space_get_generation(space);
        assert_int_equal(address_space_resolve(space, (uintptr_t) some_function_of_ours, false, &resolved),
                         0);
        assert_string_equal(resolved.file->path, "[unknown]");
        assert_int_equal(resolved.address, (uintptr_t) some_function_of_ours);
        assert_int_equal(address_space_refresh(space), 1);
        assert_true(address_space_get_generation(space) != generation);
        assert_int_equal(address_space_resolve(space, (uintptr_t) some_function_of_ours, false, &again), 0);
        assert_string_equal(again.name, "some_function_of_ours");
}

static void test_vdso(_unused_ void **state) {
        void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        Resolved resolved;
        void *function;

        if (!vdso)
                skip(); /* started with vdso=0 */
        function = dlsym(vdso, "__vdso_clock_gettime");
        if (!function)
                function = dlsym(vdso, "__kernel_clock_gettime");
        assert_non_null(function);
        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(address_space_resolve(space, (uintptr_t) function, false, &resolved), 0);
        assert_string_equal(resolved.file->path, "[vdso]");
        assert_non_null(resolved.name);
        assert_non_null(strstr(resolved.name, "clock_gettime"));
        dlclose(vdso);
}

static void append_function(const char *path, uint64_t address, const char *name) {
        FILE *file = fopen(path, "ae");

        assert_non_null(file);
        fprintf(file, "%" PRIx64 " 40 %s\n", address, name);
        fclose(file);
}

static void test_jit(_unused_ void **state) {
        const struct timespec past_interval = {.tv_nsec = 250000000};
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        const char *kept;
        Resolved resolved;
        char path[64];
        void *page;

        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        append_function(path, (uintptr_t) page, "js:first");

        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page + 4, false, &resolved), 0);
        assert_string_equal(resolved.file->path, "[jit]");
        assert_int_equal(resolved.address, (uintptr_t) page + 4);
        assert_string_equal(resolved.name, "js:first");
        assert_int_equal(resolved.name_offset, 4);
        kept = resolved.name;
        assert_resolves(space, (uintptr_t) page + 0x40, NULL, 0);

        append_function(path, (uintptr_t) page + 0x40, "js:second");
        nanosleep(&past_interval, NULL);
        assert_resolves(space, (uintptr_t) page + 0x40, "js:second", 0);

        /* A file that was written anew, as after a restart of the engine. */
        assert_int_equal(unlink(path), 0);
        append_function(path, (uintptr_t) page, "js:third");
        nanosleep(&past_interval, NULL);
        assert_resolves(space, (uintptr_t) page, "js:third", 0);
        assert_string_equal(kept, "js:first");
        assert_int_equal(unlink(path), 0);
        munmap(page, 4096);
}

static void write_dump(int fd, TestDump *dump) {
        assert_int_equal(write(fd, dump->data, dump->size), dump->size);
        dump->size = 0;
}

static void wait_for_clock(void) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* What is asked at a time, as samples are. ret: whether names may be other ones than before. */
static int assert_name_at(AddressSpace *space, uint64_t time, uint64_t address, const char *name, uint64_t offset) {
        int r = address_space_update_names(space, time);

        assert_true(r >= 0);
        assert_resolves(space, address, name, offset);
        return r;
}

/* Found where it is mapped, wherever that is; each name is that of its time, and one that comes late is found later. */
static void test_jitdump(void **state) {
        const struct timespec past_interval = { .tv_nsec = 250000000 };
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        _cleanup_close_ int fd = -1;
        static TestDump dump;
        uint64_t before, first, second, missing, offset, late_until;
        char path[PATH_MAX];
        const char *name;
        Resolved resolved;
        uint8_t *page, *marker;
        uint32_t line;

        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        snprintf(path, sizeof(path), "%s/jit-%d.dump", (char *) *state, getpid());
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        before = now_ns(CLOCK_BOOTTIME);
        wait_for_clock();
        dump_header(&dump, 0);
        dump_debug_info(&dump, (uintptr_t) page, (TestLine[]){ { (uintptr_t) page, 11, "/first.js" } }, 1);
        dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) page, 0x40, 0, "js:first");
        write_dump(fd, &dump);
        marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        assert_ptr_not_equal(marker, MAP_FAILED);
        wait_for_clock();
        first = now_ns(CLOCK_BOOTTIME);

        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page + 4, false, &resolved), 0);
        assert_string_equal(resolved.file->path, "[jit]");
        assert_string_equal(resolved.name, "js:first");
        assert_string_equal(resolved.source, "/first.js");
        assert_int_equal(resolved.line, 11);
        assert_int_equal(assert_name_at(space, first, (uintptr_t) page + 4, "js:first", 4), 1);
        assert_int_equal(assert_name_at(space, first, (uintptr_t) page + 4, "js:first", 4), 0);
        assert_name_at(space, before, (uintptr_t) page + 4, NULL, 0);

        /* Replaced, and something beside it; the time at which it was comes first. */
        missing = first;
        /* All of the time before was told of, and this is not. */
        assert_int_equal(assert_name_at(space, missing, (uintptr_t) page + 0x80, NULL, 0), 1);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page + 0x80, false, &resolved), 0);
        assert_true(resolved.late_until > first);
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page, first, first + 1, false, &name, &offset), -EAGAIN);
        dump_debug_info(&dump, (uintptr_t) page, (TestLine[]){ { (uintptr_t) page, 22, "/second.js" } }, 1);
        dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) page, 0x40, 1, "js:second");
        dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) page + 0x80, 0x40, 2, "js:beside");
        write_dump(fd, &dump);
        wait_for_clock();
        second = now_ns(CLOCK_BOOTTIME);
        nanosleep(&past_interval, NULL);
        assert_int_equal(assert_name_at(space, first, (uintptr_t) page + 4, "js:first", 4), 0); /* is not read for that */
        assert_int_equal(assert_name_at(space, second, (uintptr_t) page + 4, "js:second", 4), 1);
        assert_int_equal(assert_name_at(space, first, (uintptr_t) page + 4, "js:first", 4), 1);
        assert_int_equal(assert_name_at(space, second, (uintptr_t) page + 4, "js:second", 4), 1);
        assert_int_equal(assert_name_at(space, second, (uintptr_t) page + 0x84, "js:beside", 4), 0);

        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page + 1, first, first + 1, false, &name, &offset), 1);
        assert_string_equal(name, "js:first");
        assert_int_equal(offset, 1);
        assert_int_equal(address_space_find_late_line(space, (uintptr_t) page + 1, first, first + 1, &name, &line), 1);
        assert_string_equal(name, "/first.js");
        assert_int_equal(line, 11);
        assert_int_equal(address_space_find_late_line(space, (uintptr_t) page + 1, second, second, &name, &line), 1);
        assert_string_equal(name, "/second.js");
        assert_int_equal(line, 22);
        assert_int_equal(address_space_find_late_line(space, (uintptr_t) page + 0x84, second, second, &name, &line), 0);
        assert_int_equal(address_space_find_late_line(space, (uintptr_t) page, first, second, &name, &line), 0);
        /* Both were there in that time, or none at first. */
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page, first, second, true, &name, &offset), 0);
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page, before, first, true, &name, &offset), 0);

        /* Where much was spent it is not read again so soon; but the last of it is, at once. */
        address_space_note_names_cost(space, UINT64_C(1000000000000));
        dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) page + 0xc0, 0x40, 3, "js:last");
        write_dump(fd, &dump);
        wait_for_clock();
        assert_name_at(space, now_ns(CLOCK_BOOTTIME), (uintptr_t) page + 0xc4, NULL, 0);
        assert_int_equal(address_space_read_last_names(space, UINT64_MAX), 0);
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page + 0xc0, now_ns(CLOCK_BOOTTIME), UINT64_MAX, true,
                                                      &name, &offset), 1);
        assert_string_equal(name, "js:last");

        /* Silent for long, it is asked less often of which time what is. */
        assert_int_equal(address_space_update_names(space, second + UINT64_C(100000000000)), 1);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page + 4, false, &resolved), 0);
        assert_string_equal(resolved.name, "js:second");
        assert_true(resolved.late_until > second + UINT64_C(100000000000));
        late_until = resolved.late_until;
        assert_int_equal(address_space_update_names(space, late_until - 1), 0);
        assert_int_equal(address_space_update_names(space, late_until), 1);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page + 4, false, &resolved), 0);
        assert_true(resolved.late_until > late_until + UINT64_C(20000000000));
        munmap(marker, 4096);
        munmap(page, 4096);
}

/* What was looked up before a dump was found may be settled by it. */
static void test_jitdump_is_found_later(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        _cleanup_close_ int fd = -1;
        static TestDump dump;
        uint64_t made, first, offset;
        char path[PATH_MAX];
        const char *name;
        Resolved resolved;
        uint8_t *page, *marker;

        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page, false, &resolved), 0);
        assert_true(resolved.late_until == 0); /* of no certain time */
        made = now_ns(CLOCK_MONOTONIC);
        wait_for_clock();
        first = now_ns(CLOCK_BOOTTIME);
        assert_int_equal(address_space_update_names(space, first), 0);
        assert_int_equal(address_space_resolve(space, (uintptr_t) page, false, &resolved), 0);
        assert_null(resolved.name);
        assert_true(resolved.late_until == UINT64_MAX);

        snprintf(path, sizeof(path), "%s/jit-%d.dump", (char *) *state, getpid());
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        dump_header(&dump, 0);
        dump_load(&dump, made, (uintptr_t) page, 0x40, 0, "js:first");
        write_dump(fd, &dump);
        marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        assert_ptr_not_equal(marker, MAP_FAILED);
        assert_int_equal(address_space_refresh(space), 1);
        assert_int_equal(address_space_update_names(space, first + 1), 1);
        assert_true(address_space_get_late_end(space) == first);
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page + 1, first, first, false, &name, &offset), -EAGAIN);
        assert_int_equal(address_space_find_late_name(space, (uintptr_t) page + 1, first, first, true, &name, &offset), 1);
        assert_string_equal(name, "js:first");
        (void) address_space_update_names(space, first + 2);
        assert_true(address_space_get_late_end(space) == UINT64_MAX);
        munmap(marker, 4096);
        munmap(page, 4096);
}

/* ---- forked ---- */

/* A child that goes on with what is mapped here, and maps the file of that path, too, when it is told to. */
typedef struct Child {
        pid_t pid;
        int input, output;
} Child;

static void child_start(Child *child) {
        int in[2], out[2];
        char path[PATH_MAX] = {};

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        child->pid = fork();
        assert_true(child->pid >= 0);
        if (child->pid == 0) {
                close(in[1]);
                while (read(in[0], path, sizeof(path) - 1) > 0) {
                        int fd = open(path, O_RDONLY | O_CLOEXEC);

                        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED || write(out[1], "", 1) != 1)
                                _exit(1);
                }
                _exit(0);
        }
        close(in[0]);
        close(out[1]);
        child->input = in[1];
        child->output = out[0];
}

static void child_map(Child *child, const char *path) {
        char done;

        assert_int_equal(write(child->input, path, strlen(path) + 1), strlen(path) + 1);
        assert_int_equal(read(child->output, &done, 1), 1);
}

static void child_stop(Child *child) {
        int status;

        close(child->input);
        close(child->output);
        assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
        assert_int_equal(status, 0);
}

static uint8_t *map_code(void) {
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(page, MAP_FAILED);
        return page;
}

static uint8_t *map_dump(int fd) {
        uint8_t *marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

        assert_ptr_not_equal(marker, MAP_FAILED);
        return marker;
}

static int make_dump(char path[static PATH_MAX], const char *dir, pid_t pid) {
        static TestDump dump;
        int fd;

        snprintf(path, PATH_MAX, "%s/jit-%d.dump", dir, (int) pid);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        dump_header(&dump, 0);
        write_dump(fd, &dump);
        return fd;
}

static void add_code(int fd, uint64_t time, const uint8_t *code, uint64_t index, const char *name) {
        static TestDump dump;

        dump.size = 0;
        dump_load(&dump, time, (uintptr_t) code, 0x40, index, name);
        write_dump(fd, &dump);
}

/* However late it is read. */
static void wait_for_name(AddressSpace *space, const uint8_t *address, const char *name) {
        const struct timespec pause = { .tv_nsec = 20000000 };
        Resolved resolved = {};

        for (unsigned i = 0; i < 1500; i++) {
                assert_true(address_space_update_names(space, now_ns(CLOCK_BOOTTIME)) >= 0);
                assert_int_equal(address_space_resolve(space, (uintptr_t) address, false, &resolved), 0);
                if (resolved.name && strcmp(resolved.name, name) == 0)
                        return;
                nanosleep(&pause, NULL);
        }
        fail_msg("%s", name);
}

/* Whoever has read it: names that were looked up before may be others now. */
static void wait_until_told(AddressSpace *space) {
        const struct timespec pause = { .tv_nsec = 20000000 };

        for (unsigned i = 0; i < 1500; i++) {
                assert_true(address_space_update_names(space, now_ns(CLOCK_BOOTTIME)) >= 0);
                if (address_space_get_late_end(space) != UINT64_MAX)
                        return;
                nanosleep(&pause, NULL);
        }
        fail();
}

static void wait_for_refused(AddressSpace *space, Symbolizer *symbolizer, uint64_t n) {
        const struct timespec pause = { .tv_nsec = 20000000 };

        for (unsigned i = 0; i < 1500 && symbolizer_get_n_refused(symbolizer) < n; i++) {
                assert_true(address_space_update_names(space, now_ns(CLOCK_BOOTTIME)) >= 0);
                nanosleep(&pause, NULL);
        }
        assert_int_equal(symbolizer_get_n_refused(symbolizer), n);
}

static bool is_settled(AddressSpace *space, const uint8_t *address) {
        Resolved resolved;

        assert_int_equal(address_space_resolve(space, (uintptr_t) address, false, &resolved), 0);
        return resolved.late_until == 0;
}

static size_t count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* What a parent's JIT had made by then is a child's, and not what it makes later, which may be at the same addresses. */
static void test_forked_with_jitdump(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *child = NULL, *sibling = NULL, *grandchild = NULL;
        _cleanup_space_ AddressSpace *seen = NULL, *stranger = NULL;
        _cleanup_close_ int fd = -1, own_fd = -1;
        uint8_t *page = map_code(), *marker;
        uint64_t made, fork_time, now, offset;
        char path[PATH_MAX], own[PATH_MAX];
        const char *name;
        Child process;
        size_t n_fds;

        fd = make_dump(path, *state, getpid());
        add_code(fd, now_ns(CLOCK_MONOTONIC), page, 0, "js:first");
        marker = map_dump(fd);
        made = now_ns(CLOCK_MONOTONIC);
        wait_for_clock();
        child_start(&process);
        fork_time = now_ns(CLOCK_BOOTTIME);
        wait_for_clock();

        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(address_space_fork(&child, space, process.pid, fork_time), 0);
        assert_int_equal(address_space_fork(&sibling, space, 1, fork_time), 0);
        now = now_ns(CLOCK_BOOTTIME);
        for (unsigned i = 0; i < 2; i++) {
                assert_true(address_space_update_names(space, now) >= 0);
                assert_true(address_space_update_names(sibling, now) >= 0);
        }
        assert_true(address_space_get_late_end(space) == UINT64_MAX && address_space_get_late_end(sibling) == UINT64_MAX);
        assert_name_at(child, now, (uintptr_t) page + 4, "js:first", 4);
        /* The dump has not told of all that was before the fork. */
        assert_false(is_settled(child, page));
        assert_false(is_settled(child, page + 0x40));
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page, now, now, false, &name, &offset), -EAGAIN);
        add_code(fd, made, page + 0x40, 1, "js:late");
        add_code(fd, now_ns(CLOCK_MONOTONIC), page, 2, "js:second");
        add_code(fd, now_ns(CLOCK_MONOTONIC), page + 0x80, 3, "js:other");
        wait_for_clock();
        wait_for_name(child, page + 0x40, "js:late");
        wait_until_told(space);
        wait_until_told(sibling);
        now = now_ns(CLOCK_BOOTTIME);
        assert_name_at(sibling, now, (uintptr_t) page + 0x40, "js:late", 0);
        assert_name_at(child, now, (uintptr_t) page + 4, "js:first", 4);
        assert_true(is_settled(child, page));
        assert_name_at(child, now, (uintptr_t) page + 0x40, "js:late", 0);
        assert_name_at(child, now, (uintptr_t) page + 0x80, NULL, 0);
        assert_false(is_settled(child, page + 0x80)); /* it may have one of its own, that is not known */
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page + 1, now, now, false, &name, &offset), 1);
        assert_string_equal(name, "js:first");
        assert_int_equal(offset, 1);
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page + 0x80, now, now, false, &name, &offset), -EAGAIN);
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page + 0x80, now, now, true, &name, &offset), 0);
        assert_name_at(space, now, (uintptr_t) page, "js:second", 0);

        n_fds = count_fds();
        /* What it reads for itself is the same, by which it is known when it was forked. */
        assert_true(address_space_refresh(child) >= 0);
        assert_int_equal(count_fds(), n_fds); /* it is not opened once more */
        assert_name_at(child, now, (uintptr_t) page, "js:first", 0);
        assert_int_equal(address_space_new(&seen, symbolizer, process.pid), 0);
        address_space_set_start(seen, fork_time);
        assert_int_equal(address_space_refresh(seen), 1);
        assert_name_at(seen, now, (uintptr_t) page, "js:first", 0);
        assert_name_at(seen, now, (uintptr_t) page + 0x80, NULL, 0);
        assert_int_equal(address_space_new(&stranger, symbolizer, process.pid), 0);
        assert_int_equal(address_space_refresh(stranger), 1);
        assert_name_at(stranger, now, (uintptr_t) page, NULL, 0);

        /* Its own comes first, and what it has not made again is still its parent's. Its parent's end is not its own. */
        space = address_space_free(space);
        own_fd = make_dump(own, *state, process.pid);
        add_code(own_fd, now_ns(CLOCK_MONOTONIC), page, 0, "js:own");
        child_map(&process, own);
        wait_for_clock();
        assert_int_equal(address_space_refresh(child), 1);
        now = now_ns(CLOCK_BOOTTIME);
        assert_name_at(child, now, (uintptr_t) page, "js:own", 0);
        assert_name_at(child, now, (uintptr_t) page + 0x44, "js:late", 4);
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page + 0x44, now, now, true, &name, &offset), 1);
        assert_string_equal(name, "js:late");

        assert_int_equal(address_space_fork(&grandchild, child, 1, now), 0);
        assert_name_at(grandchild, now, (uintptr_t) page, "js:own", 0);
        assert_name_at(grandchild, now, (uintptr_t) page + 0x44, "js:late", 4);
        assert_name_at(grandchild, now, (uintptr_t) page + 0x80, NULL, 0);
        address_space_clear(child);
        assert_true(address_space_refresh(child) >= 0);
        assert_name_at(child, now, (uintptr_t) page + 0x44, NULL, 0);
        child_stop(&process);
        munmap(marker, 4096);
        munmap(page, 4096);
}

/* What was written when the child is gone: names that were provisional are settled. */
static void test_forked_and_told_at_last(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *child = NULL;
        _cleanup_close_ int fd = -1;
        uint8_t *page = map_code(), *marker;
        uint64_t made, fork_time, offset;
        char path[PATH_MAX];
        const char *name;

        fd = make_dump(path, *state, getpid());
        marker = map_dump(fd);
        made = now_ns(CLOCK_MONOTONIC);
        wait_for_clock();
        fork_time = now_ns(CLOCK_BOOTTIME);
        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_int_equal(address_space_fork(&child, space, 1, fork_time), 0);
        assert_name_at(child, fork_time + 1, (uintptr_t) page, NULL, 0);
        add_code(fd, made, page, 0, "js:first");
        assert_int_equal(address_space_read_last_names(child, UINT64_MAX), 0);
        assert_int_equal(address_space_find_late_name(child, (uintptr_t) page, fork_time + 1, UINT64_MAX, true, &name, &offset), 1);
        assert_string_equal(name, "js:first");
        munmap(marker, 4096);
        munmap(page, 4096);
}

static void test_forked_with_perf_map(_unused_ void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *child = NULL, *grandchild = NULL;
        uint8_t *page = map_code();
        char path[64], own[64];
        Child process;

        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        append_function(path, (uintptr_t) page, "js:first");
        open_space(&symbolizer, &space, getpid(), NULL, NULL);
        assert_resolves(space, (uintptr_t) page, "js:first", 0);
        child_start(&process);
        assert_int_equal(address_space_fork(&child, space, process.pid, now_ns(CLOCK_BOOTTIME)), 0);
        append_function(path, (uintptr_t) page, "js:second");
        append_function(path, (uintptr_t) page + 0x40, "js:third");
        wait_for_name(space, page, "js:second");
        assert_resolves(child, (uintptr_t) page + 4, "js:first", 4);
        assert_resolves(child, (uintptr_t) page + 0x40, NULL, 0);

        snprintf(own, sizeof(own), "/tmp/perf-%d.map", process.pid);
        append_function(own, (uintptr_t) page + 0x40, "js:own");
        assert_int_equal(unlink(path), 0);
        wait_for_name(child, page + 0x40, "js:own");
        assert_resolves(child, (uintptr_t) page + 4, "js:first", 4);
        assert_int_equal(unlink(own), 0);
        assert_int_equal(address_space_fork(&grandchild, child, 1, now_ns(CLOCK_BOOTTIME)), 0);
        assert_resolves(grandchild, (uintptr_t) page + 0x40, "js:own", 0);
        assert_resolves(grandchild, (uintptr_t) page, "js:first", 0);
        child_stop(&process);
        munmap(page, 4096);
}

/* One with another process's number where it is not known when it was forked, and one that is no such file. */
static void test_no_jitdump(void **state) {
        static TestDump dump;
        uint8_t *page, *marker;
        char path[PATH_MAX];

        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        for (int i = 0; i < 2; i++) {
                _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
                _cleanup_space_ AddressSpace *space = NULL;
                _cleanup_close_ int fd = -1;
                Resolved resolved;

                snprintf(path, sizeof(path), "%s/jit-%d.dump", (char *) *state, i == 0 ? 1 : getpid());
                fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
                assert_true(fd >= 0);
                dump_header(&dump, 0);
                dump_load(&dump, 0, (uintptr_t) page, 0x40, 0, "not ours");
                if (i == 1)
                        dump.data[0] = 'x';
                write_dump(fd, &dump);
                marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
                assert_ptr_not_equal(marker, MAP_FAILED);
                open_space(&symbolizer, &space, getpid(), NULL, NULL);
                assert_resolves(space, (uintptr_t) page, NULL, 0);
                assert_int_equal(address_space_resolve(space, (uintptr_t) marker, false, &resolved), 0);
                assert_string_equal(resolved.file->path, path);
                assert_null(resolved.name);
                assert_int_equal(symbolizer_get_n_refused(symbolizer), i);
                munmap(marker, 4096);
        }
        munmap(page, 4096);
}

/* Appends n records of code, which is holes, so that each is read for itself, and little of its time is spent on it. */
static void append_code(int fd, unsigned n, const uint8_t *at) {
        static TestDump dump;

        for (unsigned i = 0; i < n; i++) {
                off_t end = lseek(fd, 0, SEEK_END);
                size_t size = 20000;

                dump.size = 0;
                dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) at, size, i, "js:large");
                assert_int_equal(write(fd, dump.data, dump.size - size), dump.size - size);
                assert_int_equal(ftruncate(fd, end + (off_t) dump.size), 0);
        }
}

/* What is not read, for want of time or of memory, is counted, and what was read is there. */
static void test_too_much_of_jitdump(void **state) {
        static TestDump dump;
        uint8_t *page, *marker;
        char path[PATH_MAX];

        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        snprintf(path, sizeof(path), "%s/jit-%d.dump", (char *) *state, getpid());
        for (int i = 0; i < 2; i++) {
                const SymbolizerOptions options = { .jit_max = i == 0 ? 0 : 64 << 10 };
                _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
                _cleanup_space_ AddressSpace *space = NULL;
                _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

                assert_true(fd >= 0);
                dump_header(&dump, 0);
                dump_load(&dump, now_ns(CLOCK_MONOTONIC), (uintptr_t) page, 0x40, 0, "js:first");
                write_dump(fd, &dump);
                marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
                assert_ptr_not_equal(marker, MAP_FAILED);
                assert_int_equal(symbolizer_new(&symbolizer, &options), 0);
                assert_int_equal(address_space_new(&space, symbolizer, getpid()), 0);
                assert_int_equal(address_space_refresh(space), 1);
                append_code(fd, 400, page + 4096);
                assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);
                for (unsigned j = 0; j < 2; j++) {
                        assert_int_equal(address_space_read_last_names(space, i == 0 ? 0 : UINT64_MAX), 0);
                        assert_int_equal(symbolizer_get_n_refused(symbolizer), i == 0 ? j + 1 : 1);
                }
                assert_resolves(space, (uintptr_t) page + 4, "js:first", 4);
                assert_int_equal(address_space_read_last_names(space, UINT64_MAX), 0);
                assert_int_equal(symbolizer_get_n_refused(symbolizer), i == 0 ? 2 : 1);
                munmap(marker, 4096);
        }
        munmap(page, 4096);
}

/* Of those of perf maps, too, each of which is counted once, a child's with the next reading. */
static void test_too_much_of_perf_map(_unused_ void **state) {
        const SymbolizerOptions options = { .jit_max = 1 };
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL, *child = NULL;
        uint8_t *page = map_code();
        char path[64];

        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        append_function(path, (uintptr_t) page, "js:first");
        assert_int_equal(symbolizer_new(&symbolizer, &options), 0);
        assert_int_equal(address_space_new(&space, symbolizer, getpid()), 0);
        assert_false(symbolizer_is_jit_memory_short(symbolizer));
        assert_int_equal(address_space_refresh(space), 1);
        wait_for_name(space, page, "js:first");
        assert_true(symbolizer_is_jit_memory_short(symbolizer));
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);
        assert_int_equal(address_space_fork(&child, space, 1, now_ns(CLOCK_BOOTTIME)), 0);
        append_function(path, (uintptr_t) page + 0x40, "js:second");
        wait_for_refused(space, symbolizer, 1);
        assert_resolves(space, (uintptr_t) page + 4, "js:first", 4);
        assert_resolves(space, (uintptr_t) page + 0x40, NULL, 0);
        assert_resolves(child, (uintptr_t) page, NULL, 0);
        wait_for_refused(child, symbolizer, 2);
        for (unsigned i = 0; i < 3; i++) {
                wait_for_clock();
                assert_true(address_space_update_names(space, now_ns(CLOCK_BOOTTIME)) >= 0);
                assert_int_equal(address_space_read_last_names(child, 0), 0);
                assert_resolves(child, (uintptr_t) page, NULL, 0);
        }
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 2);
        address_space_clear(space);
        assert_false(symbolizer_is_jit_memory_short(symbolizer));
        assert_int_equal(unlink(path), 0);
        munmap(page, 4096);
}

/* Its clock is ahead by what its namespace says, beside ours; what is told of its children's is not its own. */
static void test_ahead(void **state) {
        static const struct {
                const char *own, *children, *offsets;
                int r;
                int64_t ahead;
        } cases[] = {
                { "time:[1]", "time:[1]", "monotonic       86400         5\nboottime         7         0\n", 0, 86400000000005 },
                { "time:[1]", "time:[1]", "monotonic          -2 900000000\n", 0, -1100000000 },
                { "time:[1]", "time:[2]", "monotonic           1         0\n", -EOPNOTSUPP, 0 },
                { "time:[1]", "time:[1]", "monotonic           1\n", -EBADMSG, 0 },
                { "time:[1]", "time:[1]", "monotonic           1 1000000000\n", -EBADMSG, 0 },
                { "time:[1]", "time:[1]", "monotonic 99999999999999999999 0\n", -EBADMSG, 0 },
                { "time:[1]", "time:[1]", "boottime            1         0\n", -EBADMSG, 0 },
                { "time:[1]", "time:[1]", "", -EBADMSG, 0 },
        };
        ProcessDir dir = PROCESS_DIR_INIT;
        int64_t ahead;

        dir.fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(process_dir_read_ahead(&dir, &ahead), 0);
        assert_int_equal(ahead, 0);
        process_dir_done(&dir);
        dir.fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                run("cd '%s' && rm -rf ns timens_offsets && mkdir ns && ln -s '%s' ns/time && ln -s '%s' ns/time_for_children && "
                    "printf '%%s' '%s' >timens_offsets",
                    (char *) *state, cases[i].own, cases[i].children, cases[i].offsets);
                assert_int_equal(process_dir_read_ahead(&dir, &ahead), cases[i].r);
                if (cases[i].r == 0)
                        assert_int_equal(ahead, cases[i].ahead);
        }
        process_dir_done(&dir);
}

static void *sleep_on(void *pipe_fd) {
        char c;

        (void) !read(*(int *) pipe_fd, &c, 1);
        _exit(0);
}

/* The directory of the leader shows no mappings any more. */
static void test_leader_is_gone(_unused_ void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        int end[2], status = 0;
        char path[64], text[512];
        pthread_t thread;
        pid_t pid;

        assert_int_equal(pipe(end), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                close(end[1]);
                pthread_create(&thread, NULL, sleep_on, &end[0]);
                pthread_exit(NULL);
        }
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        for (unsigned i = 0; i < 500 && !status; i++) {
                FILE *stat = fopen(path, "re");

                assert_non_null(stat);
                status = fgets(text, sizeof(text), stat) && strstr(text, ") Z ");
                fclose(stat);
                usleep(10000);
        }
        assert_true(status);
        open_space(&symbolizer, &space, pid, NULL, NULL);
        assert_resolves(space, (uint64_t) (uintptr_t) some_function_of_ours, "some_function_of_ours", 0);
        close(end[0]);
        close(end[1]);
        waitpid(pid, NULL, 0);
}

/* A process that has exited and was not waited for has a directory, and no memory. */
static void test_zombie(_unused_ void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        siginfo_t info;
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(symbolizer_new(&symbolizer, NULL), 0);
        assert_int_equal(address_space_new(&space, symbolizer, pid), 0);
        assert_int_equal(address_space_refresh(space), -ESRCH);
        waitpid(pid, NULL, 0);
        assert_int_equal(address_space_refresh(space), -ESRCH);
}

/* ---- trees that look like /proc ---- */

static FILE *create_maps(const char *dir) {
        char path[PATH_MAX];
        FILE *maps;

        run("mkdir -p '%s/42' && ln -sfn / '%s/42/root'", dir, dir);
        snprintf(path, sizeof(path), "%s/42/maps", dir);
        maps = fopen(path, "we");
        assert_non_null(maps);
        return maps;
}

static void test_fds_are_bounded(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        size_t before = count_fds();
        FILE *maps = create_maps(*state);
        char path[PATH_MAX];

        run("for i in $(seq 400); do cp '%s/tiny' '%s/'f$i; done", get_fixtures(), (char *) *state);
        for (unsigned i = 1; i <= 400; i++) {
                struct stat st;

                snprintf(path, sizeof(path), "%s/f%u", (char *) *state, i);
                assert_int_equal(stat(path, &st), 0);
                fprintf(maps, "%x000-%x000 r-xp 00000000 %02x:%02x %lu %s\n", i, i + 1, major(st.st_dev),
                        minor(st.st_dev), (unsigned long) st.st_ino, path);
        }
        fclose(maps);
        open_space(&symbolizer, &space, 42, *state, NULL);
        assert_int_equal(address_space_get_n_mappings(space), 400);
        assert_true(count_fds() > before);
        assert_true(count_fds() <= before + 256);
        for (unsigned i = 1; i <= 400; i++) {
                Resolved resolved;

                assert_int_equal(address_space_resolve(space, (uint64_t) i << 12, false, &resolved), 0);
                assert_int_equal(resolved.file->build_id_len, 20);
                assert_int_equal(resolved.file->id, i);
        }
        assert_int_equal(count_fds(), before);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);
}

/* The file is deleted, and then the process maps another part of it. */
/* ---- what else is read of files ---- */

static int count_reading(_unused_ MappedFile *file, _unused_ struct ElfFile *elf, void *userdata) {
        ++*(unsigned *) userdata;
        return 0;
}

/* The file that has what address is of. */
static MappedFile *find_file(const AddressSpace *space, uint64_t address) {
        for (size_t i = 0; i < address_space_get_n_mappings(space); i++) {
                MappedRange range;

                address_space_get_mapping(space, i, &range);
                if (range.start <= address && address < range.end)
                        return range.file;
        }
        return NULL;
}

/* As often as it is wanted, and it stays the same file. */
static void test_read_again(_unused_ void **state) {
        uint64_t address = (uintptr_t) some_function_of_ours;
        unsigned n = 0;
        SymbolizerOptions options = { .read = count_reading, .userdata = &n };
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        MappedFile *file;

        assert_int_equal(symbolizer_new(&symbolizer, &options), 0);
        assert_int_equal(address_space_new(&space, symbolizer, getpid()), 0);
        assert_int_equal(address_space_refresh(space), 1);
        file = find_file(space, address);
        assert_non_null(file);
        symbolizer_forget_file(file); /* there is nothing to forget */
        for (unsigned i = 1; i < 1000; i++) {
                assert_return_code(symbolizer_read_file(symbolizer, file), 0);
                assert_return_code(symbolizer_read_file(symbolizer, file), 0);
                assert_int_equal(n, i);
                symbolizer_forget_file(file);
                assert_return_code(symbolizer_read_file(symbolizer, file), 0);
                assert_int_equal(n, i);
                assert_int_equal(address_space_refresh(space), 0);
                assert_ptr_equal(find_file(space, address), file);
        }
}

static void limit_fds(rlim_t n) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = n;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* That there were no fds for a file says nothing of it. */
static void test_no_fds(_unused_ void **state) {
        uint64_t address = (uintptr_t) some_function_of_ours;
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        struct rlimit before;
        int lowest;

        assert_int_equal(symbolizer_new(&symbolizer, NULL), 0);
        assert_int_equal(address_space_new(&space, symbolizer, getpid()), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        lowest = dup(0);
        assert_true(lowest >= 0);
        close(lowest);
        limit_fds((rlim_t) lowest + 2); /* maps can be read */
        assert_int_equal(address_space_refresh(space), 1);
        limit_fds(before.rlim_cur);
        assert_int_equal(find_file(space, address)->size, 0);
        assert_int_equal(address_space_refresh(space), 1);
        assert_int_not_equal(find_file(space, address)->size, 0);
        assert_int_equal(address_space_refresh(space), 0);
}

static void test_moved_after_deletion(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        FILE *maps = create_maps(*state);
        Resolved before, after;
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s/file", (char *) *state);
        run("cp '%s/tiny' '%s'", get_fixtures(), path);
        assert_int_equal(stat(path, &st), 0);
        fprintf(maps, "1000-2000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev), minor(st.st_dev),
                (unsigned long) st.st_ino, path);
        fclose(maps);
        open_space(&symbolizer, &space, 42, *state, NULL);
        assert_int_equal(address_space_resolve(space, 0x1000, false, &before), 0);

        assert_int_equal(unlink(path), 0);
        maps = create_maps(*state);
        fprintf(maps, "5000-6000 r-xp 00000000 %02x:%02x %lu %s (deleted)\n", major(st.st_dev),
                minor(st.st_dev), (unsigned long) st.st_ino, path);
        fclose(maps);
        assert_int_equal(address_space_refresh(space), 1);
        assert_int_equal(address_space_resolve(space, 0x5000, false, &after), 0);
        assert_ptr_equal(before.file, after.file);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 0);

        /* Another process never had it. */
        space = address_space_free(space);
        assert_int_equal(address_space_new(&space, symbolizer, 42), 0);
        assert_int_equal(address_space_refresh(space), 1);
        assert_int_equal(address_space_resolve(space, 0x5000, false, &after), 0);
        assert_ptr_not_equal(before.file, after.file);
        assert_int_equal(after.file->build_id_len, 0);
}

static void test_other_inode_or_device(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        FILE *maps = create_maps(*state);
        Resolved resolved[3];
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s/tiny", get_fixtures());
        assert_int_equal(stat(path, &st), 0);
        fprintf(maps, "1000-2000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev), minor(st.st_dev),
                (unsigned long) st.st_ino, path);
        fprintf(maps, "2000-3000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev), minor(st.st_dev),
                (unsigned long) st.st_ino + 1, path);
        fprintf(maps, "3000-4000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev), minor(st.st_dev) + 1,
                (unsigned long) st.st_ino, path);
        fclose(maps);
        open_space(&symbolizer, &space, 42, *state, NULL);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(address_space_resolve(space, (i + 1) << 12, false, &resolved[i]), 0);
                assert_string_equal(resolved[i].file->path, path);
        }
        assert_int_equal(resolved[0].file->build_id_len, 20);
        assert_int_equal(resolved[1].file->build_id_len, 0);
        assert_int_equal(resolved[2].file->build_id_len, 0);
        assert_true(resolved[0].file != resolved[1].file);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 2);
}

/* Devices, FIFOs and directories that a line names are not touched, and nothing blocks. */
static void test_no_regular_files(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        FILE *maps = create_maps(*state);
        const char *dir = *state;

        run("mkfifo '%s/fifo'", dir);
        fprintf(maps, "1000-2000 r-xp 00000000 00:05 5 /dev/zero\n");
        fprintf(maps, "2000-3000 r-xp 00000000 fe:00 6 %s/fifo\n", dir);
        fprintf(maps, "3000-4000 r-xp 00000000 fe:00 7 %s\n", dir);
        fprintf(maps, "4000-5000 r-xp 00000000 fe:00 8 relative\n");
        fprintf(maps, "5000-6000 r-xp 00000000 00:01 9 /memfd:doublemapper (deleted)\n");
        fclose(maps);
        open_space(&symbolizer, &space, 42, dir, NULL);
        for (uint64_t address = 0x1000; address < 0x6000; address += 0x1000)
                assert_resolves(space, address, NULL, 0);
        assert_int_equal(symbolizer_get_n_refused(symbolizer), 2);
}

/* A 32-bit process has another vDSO than we. */
static void test_other_vdso(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        FILE *maps = create_maps(*state);
        Resolved resolved;

        fprintf(maps, "f7f00000-f7f02000 r-xp 00000000 00:00 0 [vdso]\n");
        fclose(maps);
        open_space(&symbolizer, &space, 42, *state, NULL);
        assert_int_equal(address_space_resolve(space, 0xf7f00a10, false, &resolved), 0);
        assert_string_equal(resolved.file->path, "[vdso]");
        if (sizeof(void *) == 8)
                assert_int_equal(resolved.file->build_id_len, 0);
}

static void test_many_mappings(void **state) {
        _cleanup_symbolizer_ Symbolizer *symbolizer = NULL;
        _cleanup_space_ AddressSpace *space = NULL;
        FILE *maps = create_maps(*state);
        clock_t start = clock();
        Resolved resolved;

        /* Every second one another file that is not there. */
        for (unsigned i = 1; i <= 100000; i++)
                if (i % 2 == 0)
                        fprintf(maps, "%x000-%x000 r-xp 00000000 00:00 0 \n", i, i + 1);
                else
                        fprintf(maps, "%x000-%x000 r-xp 00000000 fe:00 %u /nowhere/%u\n", i, i + 1, i, i);
        fclose(maps);
        open_space(&symbolizer, &space, 42, *state, NULL);
        assert_int_equal(address_space_get_n_mappings(space), 100000);
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(address_space_refresh(space), 0);
        assert_int_equal(address_space_resolve(space, 0x1235567, false, &resolved), 0);
        assert_int_equal(resolved.address, 0x567);
        assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_layout),
                cmocka_unit_test(test_wrong_debug_files),
                cmocka_unit_test(test_address_in_file),
                cmocka_unit_test_setup_teardown(test_outlives_process_and_file, set_up_directory,
                                                tear_down_directory),
                cmocka_unit_test_setup_teardown(test_deleted_file, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_replaced_file, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_deleted_later, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_name_that_looks_deleted, set_up_directory,
                                                tear_down_directory),
                cmocka_unit_test(test_ourselves),
                cmocka_unit_test(test_vdso),
                cmocka_unit_test(test_jit),
                cmocka_unit_test_setup_teardown(test_jitdump, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_jitdump_is_found_later, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_too_much_of_jitdump, set_up_directory, tear_down_directory),
                cmocka_unit_test(test_too_much_of_perf_map),
                cmocka_unit_test_setup_teardown(test_no_jitdump, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_forked_with_jitdump, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_forked_and_told_at_last, set_up_directory, tear_down_directory),
                cmocka_unit_test(test_forked_with_perf_map),
                cmocka_unit_test_setup_teardown(test_ahead, set_up_directory, tear_down_directory),
                cmocka_unit_test(test_leader_is_gone),
                cmocka_unit_test(test_zombie),
                cmocka_unit_test_setup_teardown(test_fds_are_bounded, set_up_directory, tear_down_directory),
                cmocka_unit_test(test_read_again),
                cmocka_unit_test(test_no_fds),
                cmocka_unit_test_setup_teardown(test_moved_after_deletion, set_up_directory,
                                                tear_down_directory),
                cmocka_unit_test_setup_teardown(test_other_inode_or_device, set_up_directory,
                                                tear_down_directory),
                cmocka_unit_test_setup_teardown(test_no_regular_files, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_other_vdso, set_up_directory, tear_down_directory),
                cmocka_unit_test_setup_teardown(test_many_mappings, set_up_directory, tear_down_directory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
