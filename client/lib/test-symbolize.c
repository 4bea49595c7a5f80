/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lines and inlined functions on their way into a recording, and out of it again. The program is one of
 * tests/fixtures/lines. Linked with --wrap, so that a process gets a signal at a chosen step of a write.
 */

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <zlib.h>

#include <cmocka.h>

#include "debug-file.h"
#include "elf-file.h"
#include "profile.pb-c.h"
#include "schema.h"
#include "test-recording-util.h"

static const char *program(char *path, const char *name) {
        (void) snprintf(path, PATH_MAX, "%s%s%s", name[0] == '/' ? "" : getenv("FIXTURES"), name[0] == '/' ? "" : "/", name);
        return path;
}

static uint64_t address_of(const char *name, const char *label) {
        char path[PATH_MAX], line[1024], symbol[512], type;
        unsigned long long address, found = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s.nm", getenv("FIXTURES"), name);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%llx %c %511s", &address, &type, symbol) == 3 && strcmp(symbol, label) == 0)
                        found = address;
        (void) fclose(f);
        assert_true(found > 0);
        return found;
}

/* As the recorder would: with its build id, if it has one. */
static int64_t add_program(Store *store, const char *name, const char *as) {
        char path[PATH_MAX];
        int fd = open(program(path, name), O_RDONLY | O_CLOEXEC);
        const uint8_t *build_id;
        struct stat st;
        ElfFile *elf;
        int64_t id;
        size_t len;

        assert_return_code(fd, errno);
        assert_return_code(fstat(fd, &st), errno);
        assert_return_code(elf_file_new_take_fd(&elf, fd), 0);
        len = elf_file_get_build_id(elf, &build_id);
        assert_return_code(store_add_file(store, as ?: path, (uint64_t) major(st.st_dev) << 32 | minor(st.st_dev), st.st_ino, st.st_size, build_id, len, &id), 0);
        elf_file_free(elf);
        return id;
}

static int64_t add_frame(Store *store, int64_t file, int64_t parent, const char *name, uint64_t address) {
        int64_t frame, stack;

        assert_return_code(store_add_frame(store, file, address, name, 0x10, false, &frame), 0);
        assert_return_code(store_add_stack(store, parent, frame, &stack), 0);
        return stack;
}

static Store *make_store(const char *path, int64_t *ret_thread) {
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 1000 };
        int64_t process;
        Store *store;

        assert_return_code(store_new(&store, path, NULL), 0);
        assert_return_code(store_put_event(store, 0, &event), 0);
        assert_return_code(store_add_process(store, 1, 0, 0, 0, "program", "", 0, &process), 0);
        assert_return_code(store_add_thread(store, process, 1, "program", ret_thread), 0);
        return store;
}

/*
 * Three samples in outer, at whose place innermost is inlined into middle into outer; two of which called [jit]; one in lonely,
 * whose name was not known. All called by main.
 */
static void make_recording(const char *path, const char *name, const char *as) {
        const char *labels = name[0] == '/' ? "c-5" : name; /* a copy is one of that */
        int64_t thread, file, jit, main_stack, outer, called, lonely;
        Store *store = make_store(path, &thread);

        file = add_program(store, name, as);
        assert_return_code(store_add_file(store, "[jit]", 0, 0, 0, NULL, 0, &jit), 0);
        main_stack = add_frame(store, file, 0, "main", 1);
        outer = add_frame(store, file, main_stack, "outer", address_of(labels, "at_innermost"));
        called = add_frame(store, jit, outer, NULL, 0x1000);
        lonely = add_frame(store, file, main_stack, NULL, address_of(labels, "at_lonely"));
        assert_return_code(store_add_sample(store, SAMPLE(.time = 1, .thread_id = thread, .stack_id = outer)), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 2, .thread_id = thread, .stack_id = called)), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 3, .thread_id = thread, .stack_id = called)), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 4, .thread_id = thread, .stack_id = lonely)), 0);
        assert_null(store_free(store));
}

static void symbolize(const char *path, RingsideSymbolizeStatistics *ret) {
        RingsideError error = {};

        if (ringside_symbolize(path, NULL, ret, &error) < 0)
                fail_msg("%s", error.text);
}

static void open_profile(const char *path, bool no_inline, RingsideRecording **ret_recording, RingsideProfile **ret) {
        RingsideFilter filter = { .size = sizeof(filter), .event = -1, .no_inline = no_inline };
        RingsideError error = {};

        if (ringside_recording_open(ret_recording, path, &error) < 0 ||
            ringside_profile_new(ret, *ret_recording, &filter, &error) < 0)
                fail_msg("%s", error.text);
}

static const RingsideRow *find_row(RingsideProfile *profile, enum RingsideGroup group, const char *name, bool inlined) {
        const RingsideRow *rows;
        size_t n;

        assert_return_code(ringside_profile_get_rows(profile, group, &rows, &n), 0);
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, name) == 0 && rows[i].inlined == inlined)
                        return &rows[i];
        return NULL;
}

static void check_row(RingsideProfile *profile, enum RingsideGroup group, const char *name, bool inlined, uint64_t self,
                      uint64_t total) {
        const RingsideRow *row = find_row(profile, group, name, inlined);

        if (!row)
                fail_msg("there is no row of %s", name);
        if (row->self_samples != self || row->total_samples != total)
                fail_msg("%s has %" PRIu64 " and %" PRIu64, name, row->self_samples, row->total_samples);
}

static void test_inlined(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        const RingsideNode *node;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        assert_int_equal(statistics.places, 3); /* of main it is known that it is not there */
        assert_int_equal(statistics.found, 2);
        assert_int_equal(statistics.files, 1);
        assert_true(is_intact(place->file));

        open_profile(place->file, false, &recording, &profile);
        assert_int_equal(ringside_recording_get_info(recording)->format, SCHEMA_VERSION);
        check_row(profile, RINGSIDE_BY_FUNCTION, "innermost", true, 1, 3);
        check_row(profile, RINGSIDE_BY_FUNCTION, "middle", true, 0, 3);
        check_row(profile, RINGSIDE_BY_FUNCTION, "outer", false, 0, 3);
        check_row(profile, RINGSIDE_BY_FUNCTION, "lonely", false, 1, 1);
        check_row(profile, RINGSIDE_BY_FUNCTION, "main", false, 0, 4);

        assert_return_code(ringside_profile_get_callees(profile, &node), 0);
        for (size_t i = 0; i < 2; i++) /* the command, main */
                node = node->children[0];
        assert_string_equal(node->name, "main");
        node = node->children[0];
        assert_string_equal(node->name, "outer");
        assert_false(node->inlined);
        node = node->children[0];
        assert_string_equal(node->name, "middle");
        assert_true(node->inlined);
        node = node->children[0];
        assert_string_equal(node->name, "innermost");
        assert_true(node->inlined);
        assert_int_equal(node->self_samples, 1);
        assert_int_equal(node->children[0]->self_samples, 2);
        assert_int_equal(open_result(place->file), 0);
}

/* One function in two ways: lonely, whose name only the debug information has, takes the place of innermost. */
static void test_called_and_inlined(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        run_sql(place->file, "UPDATE code SET routine=(SELECT routine FROM code JOIN place_code ON code.id=code WHERE place=4) "
                             "WHERE id=(SELECT code FROM place_code WHERE place=2)");
        open_profile(place->file, false, &recording, &profile);
        check_row(profile, RINGSIDE_BY_FUNCTION, "lonely", true, 1, 3);
        check_row(profile, RINGSIDE_BY_FUNCTION, "lonely", false, 1, 1);
        assert_int_equal(open_result(place->file), 0);
}

static void test_folded(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        open_profile(place->file, true, &recording, &profile);
        assert_null(find_row(profile, RINGSIDE_BY_FUNCTION, "innermost", true));
        check_row(profile, RINGSIDE_BY_FUNCTION, "outer", false, 1, 3);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "outer", false)->line, 303);
}

static void test_by_line(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        const RingsideRow *row;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        open_profile(place->file, false, &recording, &profile);
        row = find_row(profile, RINGSIDE_BY_LINE, "innermost", true);
        assert_int_equal(row->line, 101);
        assert_non_null(strstr(row->source, "inner.h"));
        check_row(profile, RINGSIDE_BY_LINE, "innermost", true, 1, 3);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "middle", true)->line, 203);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "outer", false)->line, 303);
        row = find_row(profile, RINGSIDE_BY_LINE, "main", false);
        assert_int_equal(row->line, 0);
        assert_string_equal(row->source, "");
}

static void test_two_lines(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        const RingsideRow *rows;
        size_t n, found = 0;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        run_sql(place->file, "UPDATE function SET name='outer' WHERE id=(SELECT function FROM place WHERE id=4)");
        run_sql(place->file, "UPDATE code SET source=(SELECT source FROM code WHERE line=303) WHERE line=401");
        open_profile(place->file, false, &recording, &profile);
        assert_return_code(ringside_profile_get_rows(profile, RINGSIDE_BY_LINE, &rows, &n), 0);
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, "outer") == 0)
                        found += rows[i].line == 303 && rows[i].total_samples == 3 ? 1 :
                                 rows[i].line == 401 && rows[i].total_samples == 1 ? 10 : 100;
        assert_int_equal(found, 11);
        check_row(profile, RINGSIDE_BY_FUNCTION, "outer", false, 1, 4);
}

static void test_exports(void **state) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        static const struct {
                const char *name, *source;
                unsigned line;
        } expected[] = { { "innermost", "inner.h", 101 }, { "middle", "program.c", 203 }, { "outer", "program.c", 303 } };
        static uint8_t bytes[1 << 20];
        _cleanup_free_ char *text = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        char packed[PLACE_PATH_MAX + 16];
        Pprof__Profile *p;
        bool seen = false;
        size_t size;
        gzFile gz;
        FILE *out;
        int n;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        open_profile(place->file, false, &recording, &profile);
        out = open_memstream(&text, &size);
        assert_return_code(ringside_export_collapsed(profile, out, NULL), 0);
        assert_int_equal(fclose(out), 0);
        assert_non_null(strstr(text, "program;main;outer;middle_[i];innermost_[i] 1\n"));

        (void) snprintf(packed, sizeof(packed), "%s.pb.gz", place->file);
        out = fopen(packed, "we");
        assert_non_null(out);
        assert_return_code(ringside_export_pprof(recording, NULL, out, NULL), 0);
        assert_int_equal(fclose(out), 0);
        gz = gzopen(packed, "re");
        assert_non_null(gz);
        n = gzread(gz, bytes, sizeof(bytes));
        assert_int_equal(gzclose(gz), Z_OK);
        p = pprof__profile__unpack(NULL, (size_t) n, bytes);
        assert_non_null(p);
        for (size_t i = 0; i < p->n_location; i++) {
                const Pprof__Location *location = p->location[i];

                if (location->n_line < 2)
                        continue;
                assert_int_equal(location->n_line, 3);
                for (size_t k = 0; k < 3; k++) {
                        const Pprof__Function *f = p->function[location->line[k]->function_id - 1];

                        assert_string_equal(p->string_table[f->name], expected[k].name);
                        assert_non_null(strstr(p->string_table[f->filename], expected[k].source));
                        assert_int_equal(location->line[k]->line, expected[k].line);
                }
                seen = true;
        }
        assert_true(seen);
        pprof__profile__free_unpacked(p, NULL);
}

/* What was found in one recording is known for the next: nobody has to read debug information, for which there is no time. */
static void test_cached(void **state) {
        RingsideSymbolizeOptions options = { .size = sizeof(options), .file_timeout = 1 };
        RingsideSymbolizeStatistics statistics;
        Place *place = *state;
        RingsideError error;

        assert_return_code(setenv("XDG_CACHE_HOME", place->dir, 1), errno);
        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        assert_return_code(unlink(place->file), errno);
        make_recording(place->file, "c-5", NULL);
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, &error), 0);
        assert_int_equal(statistics.found, 2);
        assert_int_equal(statistics.late, 0);
        assert_int_equal(count_rows(place->file, "line WHERE depth=0 AND CAST(name AS TEXT)='innermost'"), 1);
        assert_return_code(unlink(place->file), errno);
        assert_return_code(setenv("XDG_CACHE_HOME", "/dev/null", 1), errno);
        make_recording(place->file, "c-5", NULL);
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, &error), 0);
        assert_int_equal(statistics.late, 1);
}

/* A function that is inlined is asked for: where it is a frame, and where it is a part of one. */
static void test_chosen(void **state) {
        static const struct {
                const char *name;
                bool no_inline;
                uint64_t samples;
                const char *first; /* below the command */
        } cases[] = { { "middle", false, 3, "middle" }, { "middle", true, 3, "outer" }, { "lonely", true, 1, "lonely" } };
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
                _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
                RingsideFilter filter = { .size = sizeof(filter), .event = -1, .no_inline = cases[i].no_inline,
                                          .function = cases[i].name };
                const RingsideNode *root;

                assert_return_code(ringside_recording_open(&recording, place->file, NULL), 0);
                assert_return_code(ringside_profile_new(&profile, recording, &filter, NULL), 0);
                assert_int_equal(ringside_profile_get_samples(profile), cases[i].samples);
                assert_return_code(ringside_profile_get_callees(profile, &root), 0);
                assert_string_equal(root->children[0]->children[0]->name, cases[i].first);
        }
}

/* What is there stays, and is not looked for again. */
static void test_twice(void **state) {
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        int64_t n;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        n = count_rows(place->file, "code");
        symbolize(place->file, &statistics);
        assert_int_equal(statistics.places, 1);
        assert_int_equal(statistics.found, 0);
        assert_int_equal(count_rows(place->file, "code"), n);
        assert_int_equal(count_rows(place->file, "line WHERE depth=2 AND CAST(name AS TEXT)='outer' AND line=303"), 1);
        assert_int_equal(count_rows(place->file, "line WHERE depth=0 AND CAST(name AS TEXT)='innermost' AND CAST(path AS TEXT) LIKE '%/inner.h'"), 1);
}

static int64_t format_of(const char *path) {
        return count_rows(path, "pragma_user_version WHERE user_version=4") == 1 ? 4 : 3;
}

/* Nothing is found, for another reason each; and the file is as it was. */
static void test_nothing(void **state) {
        static const struct {
                const char *program, *as;
                uint64_t missing, without;
        } cases[] = {
                { "none", NULL, 0, 1 },
                { "c-5", "/nonexistent/c-5", 1, 0 },
                { "c-5", "/dev/null", 1, 0 },
                { "c-4", "c-5", 1, 0 }, /* another build id */
        };
        Place *place = *state;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                RingsideSymbolizeStatistics statistics;
                char path[PATH_MAX];

                make_recording(place->file, cases[i].program,
                               cases[i].as && cases[i].as[0] != '/' ? program(path, cases[i].as) : cases[i].as);
                symbolize(place->file, &statistics);
                assert_int_equal(statistics.found, 0);
                assert_int_equal(statistics.missing, cases[i].missing);
                assert_int_equal(statistics.without, cases[i].without);
                assert_int_equal(format_of(place->file), 3);
                assert_int_equal(open_result(place->file), 0);
                assert_return_code(unlink(place->file), errno);
        }
}

/* Nothing but number and size says which file it is: then it must not have changed since. Seconds, from now. */
static void test_no_build_id(void **state) {
        static const struct {
                time_t written, recorded;
                uint64_t found;
        } cases[] = {
                { -60, 3600, 2 },
                { 7200, 3600, 0 },   /* written to afterwards */
                { -7200, -3600, 0 }, /* and that it was is hidden, but not that something has changed */
        };
        Place *place = *state;
        char command[PATH_MAX + 256], copy[PLACE_PATH_MAX], path[PATH_MAX], sql[128];
        time_t now = time(NULL);

        assert_return_code(setenv("XDG_CACHE_HOME", place->dir, 1), errno);
        (void) snprintf(copy, sizeof(copy), "%s/program", place->dir);
        (void) snprintf(command, sizeof(command), "objcopy --remove-section=.note.gnu.build-id %s %s", program(path, "c-5"), copy);
        assert_int_equal(system(command), 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct timespec times[2] = { { .tv_sec = now }, { .tv_sec = now + cases[i].written } };
                RingsideSymbolizeStatistics statistics;

                assert_return_code(utimensat(AT_FDCWD, copy, times, 0), errno);
                make_recording(place->file, copy, NULL);
                (void) snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES('start_realtime','%lld000000000')",
                                (long long) (now + cases[i].recorded));
                run_sql(place->file, sql);
                symbolize(place->file, &statistics);
                assert_int_equal(statistics.found, cases[i].found);
                assert_int_equal(statistics.missing, cases[i].found == 0);
                assert_return_code(unlink(place->file), errno);
        }
        assert_return_code(setenv("XDG_CACHE_HOME", "/dev/null", 1), errno);
}

/* A copy whose sections named so, or all, claim to be compressed in another way than they are. */
static void write_zstd(const char *name, const char *only, const char *to) {
        char path[PATH_MAX];
        size_t n;
        _cleanup_free_ char *bytes = read_bytes(program(path, name), &n);
        const Elf64_Ehdr *header = (const Elf64_Ehdr *) bytes;
        const Elf64_Shdr *sections = (const Elf64_Shdr *) (bytes + header->e_shoff);
        const char *names = bytes + sections[header->e_shstrndx].sh_offset;
        unsigned changed = 0;

        for (unsigned i = 0; i < header->e_shnum; i++)
                if ((sections[i].sh_flags & SHF_COMPRESSED) && (!only || strcmp(names + sections[i].sh_name, only) == 0)) {
                        ((Elf64_Chdr *) (bytes + sections[i].sh_offset))->ch_type = 2;
                        changed++;
                }
        assert_true(changed > 0);
        write_bytes(to, bytes, n);
}

/* Debug information that is there, and of which libelf or libdw makes nothing, is told from what is not there. */
static void test_unread(void **state) {
        static const struct {
                const char *program, *only;
                uint64_t found;
        } cases[] = {
                { "compressed-4", NULL, 0 },
                { "compressed-5", NULL, 0 },
                { "compressed-nopie", ".debug_info", 2 }, /* line tables are there */
        };
        Place *place = *state;
        char to[PLACE_PATH_MAX + 8];

        (void) snprintf(to, sizeof(to), "%s.program", place->file);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                RingsideSymbolizeStatistics statistics;

                write_zstd(cases[i].program, cases[i].only, to);
                make_recording(place->file, cases[i].program, to);
                symbolize(place->file, &statistics);
                assert_int_equal(statistics.zstd, 1);
                assert_int_equal(statistics.refused + statistics.without + statistics.missing, 0);
                assert_int_equal(statistics.found, cases[i].found);
                assert_return_code(unlink(place->file), errno);
        }
        assert_return_code(unlink(to), errno);
}

/* One that is so in truth, which later ones can read. */
static void test_zstd(void **state) {
        RingsideSymbolizeStatistics statistics;
        Place *place = *state;
        char path[PATH_MAX];

        if (access(program(path, "zstd"), F_OK) < 0)
                skip();
        make_recording(place->file, "zstd", NULL);
        symbolize(place->file, &statistics);
        assert_int_equal(statistics.found, statistics.zstd == 0 ? 2 : 0);
        assert_int_equal(statistics.refused + statistics.without + statistics.missing, 0);
}

/* What two programs have in common, in a third file: as symbolize finds it, and where another one has its name. */
static void test_dwz(void **state) {
        static const struct {
                const char *program;
                bool by_id;
                uint64_t found;
        } cases[] = { { "dwz-one", false, 2 }, { "moved/dwz-one", false, 0 }, { "moved/dwz-one", true, 2 } };
        char symbol_dir[PATH_MAX];
        Place *place = *state;

        if (access(program(symbol_dir, "dwz-one"), F_OK) < 0)
                skip();
        (void) program(symbol_dir, "debug");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                RingsideSymbolizeOptions options = { .size = sizeof(options), .symbol_dir = cases[i].by_id ? symbol_dir : NULL };
                RingsideSymbolizeStatistics statistics;

                make_recording(place->file, cases[i].program, NULL);
                assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
                assert_int_equal(statistics.found, cases[i].found);
                assert_int_equal(statistics.without, cases[i].found == 0);
                if (cases[i].found > 0)
                        assert_int_equal(count_rows(place->file, "line WHERE depth=0 AND CAST(name AS TEXT)='innermost'"), 1);
                assert_return_code(unlink(place->file), errno);
        }
}

static const uint8_t vmlinux_id[20] = { 0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed,
                                        0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed, 0xfe, 0xed };

/* One sample in outer, another in what the kernel is called where it is not told more of it. Offsets, as the helper tells them. */
static void make_kernel_recording(const char *path, const uint8_t *build_id, size_t len) {
        uint64_t start = address_of("vmlinux", "_stext"), address = address_of("vmlinux", "at_innermost") - start;
        int64_t thread, file, frame, stack;
        Store *store = make_store(path, &thread);

        assert_return_code(store_put_meta(store, "kernel", "6.1.0-test x86_64"), 0);
        assert_return_code(store_add_file(store, "[kernel]", 0, 0, 0, build_id, len, &file), 0);
        assert_return_code(store_add_frame(store, file, address, "outer", address_of("vmlinux", "at_innermost") -
                                           address_of("vmlinux", "outer"), true, &frame), 0);
        assert_return_code(store_add_stack(store, 0, frame, &stack), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 1, .thread_id = thread, .stack_id = stack, .kernel_mode = true)), 0);
        assert_return_code(store_add_frame(store, file, 0, "[kernel]", 0, true, &frame), 0);
        assert_return_code(store_add_stack(store, 0, frame, &stack), 0);
        assert_return_code(store_add_sample(store, SAMPLE(.time = 2, .thread_id = thread, .stack_id = stack, .kernel_mode = true)), 0);
        assert_null(store_free(store));
}

/* By its build id, or by its release where that has this build id; nowhere else, and never without one. */
static void test_kernel(void **state) {
        static const struct {
                const char *symbol_dir;
                uint8_t first;
                size_t len;
                uint64_t places, found, without;
        } cases[] = {
                { "debug", 0xfe, 20, 1, 1, 0 },
                { "kernels", 0xfe, 20, 1, 1, 0 },
                { "kernels", 0xff, 20, 1, 0, 1 },
                { "moved", 0xfe, 20, 1, 0, 1 },
                { "kernels", 0xfe, 0, 0, 0, 0 },
        };
        Place *place = *state;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
                _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
                RingsideSymbolizeOptions options = { .size = sizeof(options) };
                RingsideSymbolizeStatistics statistics;
                char symbol_dir[PATH_MAX];
                uint8_t id[20];

                memcpy(id, vmlinux_id, sizeof(id));
                id[0] = cases[i].first;
                make_kernel_recording(place->file, id, cases[i].len);
                options.symbol_dir = program(symbol_dir, cases[i].symbol_dir);
                assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
                assert_int_equal(statistics.places, cases[i].places);
                assert_int_equal(statistics.found, cases[i].found);
                assert_int_equal(statistics.without, cases[i].without);
                assert_int_equal(statistics.files, cases[i].places);
                open_profile(place->file, false, &recording, &profile);
                check_row(profile, RINGSIDE_BY_FUNCTION, "outer", false, cases[i].found == 0, 1);
                check_row(profile, RINGSIDE_BY_FUNCTION, "[kernel]", false, 1, 1);
                if (cases[i].found > 0) {
                        check_row(profile, RINGSIDE_BY_FUNCTION, "innermost", true, 1, 1);
                        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "innermost", true)->line, 101);
                        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "outer", false)->line, 303);
                        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "[kernel]", false)->line, 0);
                }
                /* Where the kernel's file has it, or any address, is not written down. */
                assert_int_equal(count_rows(place->file, "frame WHERE address NOT BETWEEN 0 AND 1000000"), 0);
                assert_return_code(unlink(place->file), errno);
        }
}

static const uint8_t module_id[20] = { 0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef,
                                       0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef, 0xbe, 0xef };

/* A value within its section; 0 is one. */
static uint64_t value_of(const char *label) {
        char path[PATH_MAX], line[1024], symbol[512], type;
        unsigned long long value;
        bool found = false;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/module.ko.nm", getenv("FIXTURES"));
        f = fopen(path, "re");
        assert_non_null(f);
        while (!found && fgets(line, sizeof(line), f))
                found = sscanf(line, "%llx %c %511s", &value, &type, symbol) == 3 && strcmp(symbol, label) == 0;
        (void) fclose(f);
        assert_true(found);
        return value;
}

/* Places in functions of a module: how far they are from its first one is another thing than where they are in its file. */
static void make_module_recording(const char *path, const uint8_t *build_id) {
        const struct {
                const char *function, *label;
        } places[] = { { "lonely", "at_lonely" }, { "outer", "at_innermost" }, { "nosuch", "at_outer" }, { "outer", "at_outer" } };
        int64_t thread, file, frame, stack;
        Store *store = make_store(path, &thread);

        assert_return_code(store_add_file(store, "[module]", 0, 0, 0, build_id, 20, &file), 0);
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                uint64_t base = strcmp(places[i].function, "outer") == 0 ? 0x40 : 0x4000 * (i + 1);
                uint64_t offset = value_of(places[i].label) -
                                  value_of(strcmp(places[i].function, "nosuch") == 0 ? "outer" : places[i].function);

                assert_return_code(store_add_frame(store, file, base + offset, places[i].function, offset, true, &frame), 0);
                assert_return_code(store_add_stack(store, 0, frame, &stack), 0);
                assert_return_code(store_add_sample(store, SAMPLE(.time = (int64_t) i, .thread_id = thread, .stack_id = stack,
                                                                  .kernel_mode = true)), 0);
        }
        assert_null(store_free(store));
}

static void test_module(void **state) {
        RingsideSymbolizeOptions options = { .size = sizeof(options) };
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        RingsideSymbolizeStatistics statistics;
        char symbol_dir[PATH_MAX];
        Place *place = *state;

        make_module_recording(place->file, vmlinux_id);
        options.symbol_dir = program(symbol_dir, "kernels");
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
        assert_int_equal(statistics.places, 4);
        assert_int_equal(statistics.without, 1);
        run_sql(place->file, "UPDATE function SET kernel=0"); /* that would be no module */
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
        assert_int_equal(statistics.places, 0);
        assert_return_code(unlink(place->file), errno);

        make_module_recording(place->file, module_id);
        options.symbol_dir = program(symbol_dir, "debug");
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
        assert_int_equal(statistics.places, 4);
        assert_int_equal(statistics.found, 3);
        assert_int_equal(statistics.files, 1);
        open_profile(place->file, false, &recording, &profile);
        check_row(profile, RINGSIDE_BY_FUNCTION, "innermost", true, 1, 1);
        check_row(profile, RINGSIDE_BY_FUNCTION, "outer", false, 1, 2);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "innermost", true)->line, 101);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "lonely", false)->line, 401);
        assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "nosuch", false)->line, 0);
        assert_int_equal(count_rows(place->file, "line WHERE CAST(name AS TEXT)='outer' AND line IN (302,303)"), 2);
        assert_int_equal(count_rows(place->file, "frame WHERE address NOT BETWEEN 0 AND 1000000"), 0);
        assert_int_equal(open_result(place->file), 0);
}

/* A recording can claim to have been anywhere in it. */
static void test_hostile_kernel(void **state) {
        static const char *const offsets[] = { "9223372036854775807", "-1", "-9223372036854775807" };
        RingsideSymbolizeOptions options = { .size = sizeof(options) };
        char symbol_dir[PATH_MAX];
        Place *place = *state;

        options.symbol_dir = program(symbol_dir, "debug");
        for (size_t i = 0; i < ELEMENTSOF(offsets); i++) {
                RingsideSymbolizeStatistics statistics;
                char sql[128];

                make_kernel_recording(place->file, vmlinux_id, sizeof(vmlinux_id));
                (void) snprintf(sql, sizeof(sql), "UPDATE function SET start=%s WHERE CAST(name AS TEXT)='outer'", offsets[i]);
                run_sql(place->file, sql);
                run_sql(place->file, "UPDATE place SET offset=0");
                assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
                assert_int_equal(statistics.found, 0);
                if (strcmp(offsets[i], "-1") == 0)
                        assert_int_equal(statistics.refused, 1);
                assert_int_equal(open_result(place->file), 0);
                assert_return_code(unlink(place->file), errno);
        }
}

/* Where libdw reads packages, nothing is told of them; with a cache as without. */
static void test_package(void **state) {
        static const char *const programs[] = { "dwp-4", "dwp-5", "split-lost", "types" };
        Place *place = *state;

        for (size_t i = 0; i < 2 * ELEMENTSOF(programs); i++) {
                const char *name = programs[i % ELEMENTSOF(programs)];
                RingsideSymbolizeStatistics statistics;

                assert_return_code(setenv("XDG_CACHE_HOME", i < ELEMENTSOF(programs) ? "/dev/null" : place->dir, 1), errno);
                make_recording(place->file, name, NULL);
                symbolize(place->file, &statistics);
                assert_int_equal(statistics.found, 2);
                if (strncmp(name, "dwp", 3) != 0)
                        assert_int_equal(statistics.dwp, 0);
                else
                        assert_int_equal(count_rows(place->file, "line WHERE depth=0 AND CAST(name AS TEXT)='innermost'"),
                                         statistics.dwp == 0);
                assert_return_code(unlink(place->file), errno);
        }
        assert_return_code(setenv("XDG_CACHE_HOME", "/dev/null", 1), errno);
}

/* Line tables alone; in the last one they cannot be told from those of what was thrown away. */
static void test_table_only(void **state) {
        static const struct {
                const char *program;
                uint64_t found;
        } cases[] = { { "table-only-4", 2 }, { "table-only-5", 2 }, { "table-only-nopie", 2 }, { "table-only-mixed", 0 } };
        Place *place = *state;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
                _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
                RingsideSymbolizeStatistics statistics;

                make_recording(place->file, cases[i].program, NULL);
                symbolize(place->file, &statistics);
                assert_int_equal(statistics.found, cases[i].found);
                assert_int_equal(statistics.without, cases[i].found == 0);
                assert_int_equal(statistics.refused + statistics.zstd + statistics.dwp, 0);
                open_profile(place->file, false, &recording, &profile);
                assert_int_equal(find_row(profile, RINGSIDE_BY_LINE, "outer", false)->line, cases[i].found > 0 ? 101 : 0);
                assert_return_code(unlink(place->file), errno);
        }
}

/* As elfutils' client keeps what it has fetched. */
static void put_fetched(const char *dir, const char *name, const uint8_t *id, size_t len) {
        char from[PATH_MAX], hex[2 * ELF_BUILD_ID_MAX + 1], command[2 * PATH_MAX + PLACE_PATH_MAX];

        for (size_t i = 0; i < len; i++)
                (void) snprintf(hex + 2 * i, 3, "%02x", id[i]);
        (void) snprintf(command, sizeof(command), "mkdir -p '%s/%s' && cp '%s' '%s/%s/debuginfo'", dir, hex,
                        program(from, name), dir, hex);
        assert_int_equal(system(command), 0);
        assert_return_code(setenv("DEBUGINFOD_CACHE_PATH", dir, 1), errno);
}

static void check_found(Place *place, const char *name, const char *as, RingsideSymbolizeOptions options, uint64_t found,
                        uint64_t missing, uint64_t without) {
        RingsideSymbolizeStatistics statistics;
        RingsideError error = {};

        options.size = sizeof(options);
        make_recording(place->file, name, as);
        if (ringside_symbolize(place->file, &options, &statistics, &error) < 0)
                fail_msg("%s", error.text);
        if (statistics.found != found || statistics.missing != missing || statistics.without != without)
                fail_msg("%s: %" PRIu64 " found, %" PRIu64 " missing, %" PRIu64 " without", name, statistics.found,
                         statistics.missing, statistics.without);
        assert_int_equal(statistics.asked, 0);
        assert_return_code(unlink(place->file), errno);
}

/* What is not in the file is found by its build id: in a directory, or where it was fetched to; also where there is no file. */
static void test_elsewhere(void **state) {
        static const uint8_t by_id[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23,
                                         0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67 };
        static const char *const as[] = { NULL, "/nonexistent/by-id" };
        static const char debug_file[] = "debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug";
        char symbol_dir[PATH_MAX];
        Place *place = *state;

        (void) program(symbol_dir, "debug");
        assert_return_code(setenv("DEBUGINFOD_CACHE_PATH", "/nonexistent", 1), errno);
        for (size_t i = 0; i < ELEMENTSOF(as); i++) {
                check_found(place, "by-id", as[i], (RingsideSymbolizeOptions){}, 0, i == 1, i == 0);
                check_found(place, "by-id", as[i], (RingsideSymbolizeOptions){ .symbol_dir = symbol_dir }, 2, 0, 0);
        }
        put_fetched(place->dir, "none", by_id, sizeof(by_id)); /* which is another */
        check_found(place, "by-id", NULL, (RingsideSymbolizeOptions){ .debuginfod_urls = "" }, 0, 0, 1);
        put_fetched(place->dir, debug_file, by_id, sizeof(by_id));
        for (size_t i = 0; i < ELEMENTSOF(as); i++) {
                check_found(place, "by-id", as[i], (RingsideSymbolizeOptions){ .debuginfod_urls = "" }, 2, 0, 0);
                check_found(place, "by-id", as[i], (RingsideSymbolizeOptions){}, 0, i == 1, i == 0);
        }
}

static void check_kernel_found(Place *place, const char *urls, uint64_t found) {
        RingsideSymbolizeOptions options = { .size = sizeof(options), .symbol_dir = "/nonexistent", .debuginfod_urls = urls };
        RingsideSymbolizeStatistics statistics;

        assert_return_code(ringside_symbolize(place->file, &options, &statistics, NULL), 0);
        assert_int_equal(statistics.found, found);
        assert_int_equal(statistics.without, found == 0);
        assert_return_code(unlink(place->file), errno);
}

/* So are the kernel's and its modules'. */
static void test_kernel_elsewhere(void **state) {
        static const char vmlinux[] = "debug/.build-id/fe/edfeedfeedfeedfeedfeedfeedfeedfeedfeed.debug";
        static const char module[] = "debug/.build-id/be/efbeefbeefbeefbeefbeefbeefbeefbeefbeef.debug";
        Place *place = *state;

        put_fetched(place->dir, vmlinux, vmlinux_id, sizeof(vmlinux_id));
        put_fetched(place->dir, module, module_id, sizeof(module_id));
        for (unsigned i = 0; i < 2; i++) {
                make_kernel_recording(place->file, vmlinux_id, sizeof(vmlinux_id));
                check_kernel_found(place, i == 0 ? NULL : "", i == 0 ? 0 : 1);
                make_module_recording(place->file, module_id);
                check_kernel_found(place, i == 0 ? NULL : "", i == 0 ? 0 : 3);
        }
}

/* What dwz has made of several is a file of its own, which is to be had in the same way. */
static void test_common_elsewhere(void **state) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL, *alt = NULL;
        Place *place = *state;
        char path[PATH_MAX];
        DebugFileId id;

        if (access(program(path, "dwz-common"), F_OK) < 0)
                skip();
        assert_return_code(elf_file_new_take_fd(&elf, open(program(path, "moved/dwz-one"), O_RDONLY | O_CLOEXEC)), 0);
        assert_int_equal(debug_file_open_alt(&alt, elf, "/nonexistent", &id), -ENOENT);
        check_found(place, "moved/dwz-one", NULL, (RingsideSymbolizeOptions){}, 0, 0, 1);
        put_fetched(place->dir, "dwz-common", id.id, id.len);
        check_found(place, "moved/dwz-one", NULL, (RingsideSymbolizeOptions){ .debuginfod_urls = "" }, 2, 0, 0);
}

static void test_no_time(void **state) {
        RingsideSymbolizeOptions options = { .size = sizeof(options), .timeout = 1 };
        RingsideSymbolizeStatistics statistics;
        Place *place = *state;
        RingsideError error;

        make_recording(place->file, "c-5", NULL);
        assert_return_code(ringside_symbolize(place->file, &options, &statistics, &error), 0);
        assert_int_equal(statistics.late, 1);
        assert_int_equal(statistics.found, 0);
        assert_int_equal(format_of(place->file), 3);
}

static size_t count_descriptors(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        (void) closedir(dir);
        return n;
}

static void test_cannot(void **state) {
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        RingsideError error = {};
        char journal[PLACE_PATH_MAX + 16];
        _cleanup_free_ char *old = NULL;
        int64_t thread;
        Store *store;
        size_t n, n_open;

        assert_return_code(setenv("XDG_CACHE_HOME", place->dir, 1), errno);
        n_open = count_descriptors();
        assert_int_equal(ringside_symbolize(place->file, NULL, &statistics, &error), -ENOENT);
        assert_int_equal(count_descriptors(), n_open);
        old = read_bytes(getenv("RECORDING_VERSION_2"), &n);
        write_bytes(place->file, old, n);
        assert_int_equal(ringside_symbolize(place->file, NULL, &statistics, &error), RINGSIDE_E_RECORDING);
        assert_non_null(strstr(error.text, "format 2"));
        assert_return_code(unlink(place->file), errno);
        store = make_store(place->file, &thread);
        assert_return_code(store_commit(store), 0);
        assert_int_equal(ringside_symbolize(place->file, NULL, &statistics, &error), -EBUSY);
        assert_null(store_free(store));
        symbolize(place->file, &statistics);
        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        write_text(journal, "x");
        assert_int_equal(ringside_symbolize(place->file, NULL, &statistics, &error), -EEXIST);
        assert_return_code(unlink(journal), errno);
        run_sql(place->file, "CREATE TRIGGER t AFTER INSERT ON file BEGIN SELECT 1; END");
        assert_int_equal(ringside_symbolize(place->file, NULL, &statistics, &error), RINGSIDE_E_RECORDING);
}

/* ---- ended while it writes ---- */

/* Writes and removals of this process until it gets a signal in the midst of one; below 0: it gets none. */
static long steps_left = -1;
static int step_signal;

static bool is_step(void) {
        return steps_left >= 0 && steps_left-- == 0;
}

ssize_t __real_pwrite64(int fd, const void *data, size_t n, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t offset);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t offset) {
        if (is_step()) {
                (void) !__real_pwrite64(fd, data, n / 2, offset);
                (void) raise(step_signal);
        }
        return __real_pwrite64(fd, data, n, offset);
}

int __wrap_unlinkat(int fd, const char *name, int flags) {
        if (is_step())
                (void) raise(step_signal);
        return __real_unlinkat(fd, name, flags);
}

/* The signal that ended it; 0: there were fewer steps. */
static int symbolize_until(const char *path, int signal, long steps) {
        int status;
        pid_t pid;

        pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0) {
                RingsideSymbolizeStatistics statistics;

                step_signal = signal;
                steps_left = steps;
                _exit(ringside_symbolize(path, NULL, &statistics, NULL) < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || status == 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A recording with all its samples and lines, and nothing beside it. */
static void check_whole(const Place *place, const char *journal) {
        assert_int_equal(open_result(place->file), 0);
        assert_int_equal(access(journal, F_OK), -1);
        assert_int_equal(count_rows(place->file, "sample"), 4);
        assert_int_equal(count_rows(place->file, "code"), 4);
        assert_true(is_intact(place->file));
}

/* What was begun is as if it had not been, to whoever reads, and is undone by the next that writes. */
static void test_killed(void **state) {
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        RingsideSymbolizeStatistics statistics;
        long steps = 0;
        int ended;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        do {
                make_recording(place->file, "c-5", NULL);
                ended = symbolize_until(place->file, SIGKILL, steps++);
                if (ended != 0) {
                        assert_return_code(access(journal, F_OK), errno);
                        assert_int_equal(open_result(place->file), 0);
                        symbolize(place->file, &statistics);
                        assert_int_equal(statistics.found, 2);
                }
                check_whole(place, journal);
                assert_return_code(unlink(place->file), errno);
        } while (ended != 0);
        assert_in_range(steps, 4, 100);
}

/* Leaves what one leaves that is killed when it has written all, and has only the journal to remove. */
static void leave_journal(const Place *place, char **ret, size_t *ret_n, char **ret_journal, size_t *ret_journal_n,
                          const char *journal) {
        long steps = 0;

        for (make_recording(place->file, "c-5", NULL); symbolize_until(place->file, SIGKILL, steps) != 0; steps++) {
                free(*ret);
                free(*ret_journal);
                *ret = read_bytes(place->file, ret_n);
                *ret_journal = read_bytes(journal, ret_journal_n);
                assert_return_code(unlink(place->file), errno);
                assert_return_code(unlink(journal), errno);
                make_recording(place->file, "c-5", NULL);
        }
        assert_non_null(*ret_journal);
        write_bytes(place->file, *ret, *ret_n);
        write_bytes(journal, *ret_journal, *ret_journal_n);
}

/* Who undoes it may be killed as well. */
static void test_killed_twice(void **state) {
        _cleanup_free_ char *bytes = NULL, *journal_bytes = NULL;
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        RingsideSymbolizeStatistics statistics;
        size_t n = 0, journal_n = 0;
        long steps = 0;
        int ended;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        leave_journal(place, &bytes, &n, &journal_bytes, &journal_n, journal);
        do {
                write_bytes(place->file, bytes, n);
                write_bytes(journal, journal_bytes, journal_n);
                ended = symbolize_until(place->file, SIGKILL, steps++);
                if (ended != 0) {
                        assert_int_equal(open_result(place->file), 0);
                        symbolize(place->file, &statistics);
                }
                check_whole(place, journal);
        } while (ended != 0);
        /* Those of the first, and two pages and the journal at least to undo it. */
        assert_in_range(steps, 7, 100);
}

/* A signal that can wait does. */
static void test_ended(void **state) {
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16];
        long steps = 0;
        int ended;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        do {
                make_recording(place->file, "c-5", NULL);
                ended = symbolize_until(place->file, SIGTERM, steps++);
                check_whole(place, journal);
                assert_return_code(unlink(place->file), errno);
        } while (ended != 0);
        assert_in_range(steps, 4, 100);
}

static int symbolize_result(const char *path, RingsideError *error) {
        RingsideSymbolizeStatistics statistics;

        return ringside_symbolize(path, NULL, &statistics, error);
}

static void put_be32(char *bytes, uint32_t v) {
        for (size_t i = 0; i < 4; i++)
                bytes[i] = (char) (v >> (24 - 8 * i));
}

/* Refused, and nothing is written. */
static void check_refused(const Place *place, const char *journal, int code, const char *hint) {
        _cleanup_free_ char *before = NULL, *after = NULL;
        size_t n, after_n;
        RingsideError error = {};
        struct stat st;

        before = read_bytes(place->file, &n);
        assert_int_equal(symbolize_result(place->file, &error), code);
        if (!strstr(error.hint, hint))
                fail_msg("%s: %s", error.text, error.hint);
        after = read_bytes(place->file, &after_n);
        assert_int_equal(after_n, n);
        assert_memory_equal(after, before, n);
        assert_return_code(lstat(journal, &st), errno);
}

/* Of a journal: how many records, and pages before it. */
#define N_RECORDS 8
#define N_PAGES 16

static void test_other_journals(void **state) {
        _cleanup_free_ char *bytes = NULL, *journal_bytes = NULL;
        Place *place = *state;
        char journal[PLACE_PATH_MAX + 16], victim[PLACE_PATH_MAX + 16], wal[PLACE_PATH_MAX + 16];
        RingsideError error = {};
        size_t n = 0, journal_n = 0;

        (void) snprintf(journal, sizeof(journal), "%s-journal", place->file);
        (void) snprintf(victim, sizeof(victim), "%s-victim", place->file);
        (void) snprintf(wal, sizeof(wal), "%s-wal", place->file);
        leave_journal(place, &bytes, &n, &journal_bytes, &journal_n, journal);

        /* By another name it would be a sound one: of this file, but not where anybody looks for it. */
        assert_return_code(rename(journal, victim), errno);
        assert_return_code(symlink(victim, journal), errno);
        check_refused(place, journal, -EEXIST, "remove it");
        assert_return_code(unlink(journal), errno);
        assert_return_code(rename(victim, journal), errno);

        /* What is all there is not damaged by another user's; what is not tells of it. */
        if (geteuid() == 0) {
                assert_return_code(chown(journal, 65534, 65534), errno);
                check_refused(place, journal, -EEXIST, "remove it");
                assert_return_code(truncate(place->file, (off_t) n - 2048), errno);
                check_refused(place, journal, RINGSIDE_E_RECORDING, "another user's");
                assert_return_code(chown(journal, geteuid(), getegid()), errno);
                write_bytes(place->file, bytes, n);
        }

        /* One with which it would be no recording, and one that would have it grow. */
        write_empty_journal(journal);
        check_refused(place, journal, RINGSIDE_E_RECORDING, "");
        put_be32(journal_bytes + N_PAGES, UINT32_MAX);
        write_bytes(journal, journal_bytes, journal_n);
        check_refused(place, journal, RINGSIDE_E_RECORDING, "");

        /* sqlite3 may write several segments, and says how many records are in one. */
        put_be32(journal_bytes + N_PAGES, (uint32_t) (n / 1024));
        put_be32(journal_bytes + N_RECORDS, 0);
        write_bytes(journal, journal_bytes, journal_n);
        check_refused(place, journal, -EEXIST, "sqlite3");

        /* Its writer was killed when it had made it. */
        write_bytes(journal, "", 0);
        assert_int_equal(symbolize_result(place->file, &error), 0);
        assert_int_equal(access(journal, F_OK), -1);
        write_bytes(wal, "x", 1);
        assert_int_equal(symbolize_result(place->file, &error), -EEXIST);
        assert_non_null(strstr(error.text, "-wal"));
        assert_return_code(unlink(wal), errno);
}

/* Rows that point to what is not there, and to themselves. */
static void test_planted(void **state) {
        static const char *const rows[] = {
                "UPDATE place_code SET code=99",
                "UPDATE place_code SET code=0",
                "UPDATE place_code SET code='x'",
                "UPDATE place_code SET place=99 WHERE place=2",
                "UPDATE code SET caller=id",
                "UPDATE code SET caller=3 WHERE id=2",
                "UPDATE code SET caller=-1 WHERE id=2",
                "UPDATE code SET routine=99 WHERE id=1",
                "UPDATE code SET source=99 WHERE id=1",
                "UPDATE code SET line=-1 WHERE id=1",
                "UPDATE code SET line='x' WHERE id=1",
                "DELETE FROM code WHERE id=1",
                "DELETE FROM source WHERE id=1",
                "UPDATE routine SET id=99 WHERE id=1",
                "WITH RECURSIVE n(i) AS (SELECT 5 UNION ALL SELECT i+1 FROM n WHERE i<100) INSERT INTO code SELECT i,i-1,1,1,1 FROM n",
                "DROP VIEW line",
                "DROP TABLE source",
                "PRAGMA user_version=3",
        };
        _cleanup_free_ char *bytes = NULL;
        Place *place = *state;
        RingsideSymbolizeStatistics statistics;
        size_t n;

        make_recording(place->file, "c-5", NULL);
        symbolize(place->file, &statistics);
        assert_int_equal(count_rows(place->file, "code"), 4);
        bytes = read_bytes(place->file, &n);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                write_bytes(place->file, bytes, n);
                run_sql(place->file, rows[i]);
                if (open_result(place->file) != RINGSIDE_E_RECORDING)
                        fail_msg("accepted: %s", rows[i]);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_inlined, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_called_and_inlined, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_folded, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_by_line, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_two_lines, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_exports, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_chosen, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_cached, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_twice, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_nothing, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_no_build_id, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_unread, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_zstd, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_dwz, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_kernel, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_module, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_hostile_kernel, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_package, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_table_only, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_elsewhere, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_kernel_elsewhere, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_common_elsewhere, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_no_time, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_cannot, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_planted, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_killed, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_killed_twice, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_ended, place_setup, place_teardown),
                cmocka_unit_test_setup_teardown(test_other_journals, place_setup, place_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
