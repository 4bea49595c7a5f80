/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Adds lines and inlined functions to a recording. Of each file that has places without, what is there under its path is
 * opened and must be what was recorded; what its debug information says of the addresses is found out by a worker
 * (debug-worker.h), and written. All of it is one transaction, so that numbers stay dense, and a recording is as it was
 * wherever this ends early.
 */

#include <elf.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "debug-file.h"
#include "debug-worker.h"
#include "debuginfod.h"
#include "error.h"
#include "lines-cache.h"
#include "recorded-file.h"
#include "recording.h"
#include "schema.h"
#include "store.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define FILE_TIMEOUT (20 * NSEC_PER_SEC)
#define FETCH_TIMEOUT (60 * NSEC_PER_SEC)
#define ID_MAX INT32_MAX
#define BUSY_BEGIN_MS 100
#define BUSY_COMMIT_MS 5000

typedef struct Place {
        uint32_t id, file;
        uint64_t address;
} Place;

typedef enum Statement { ADD_SOURCE, ADD_ROUTINE, ADD_CODE, ADD_PLACE_CODE, STATEMENT_MAX } Statement;

static const char *const statement_sql[STATEMENT_MAX] = {
        [ADD_SOURCE] = "INSERT INTO source VALUES(?1,?2)",
        [ADD_ROUTINE] = "INSERT INTO routine VALUES(?1,?2)",
        [ADD_CODE] = "INSERT INTO code VALUES(?1,?2,?3,?4,?5)",
        [ADD_PLACE_CODE] = "INSERT INTO place_code VALUES(?1,?2)",
};

typedef struct Symbolize {
        RingsideRecording *recording;
        LinesCache *cache; /* NULL: none can be had */
        const char *symbol_dir;
        uint64_t file_timeout, deadline; /* ns CLOCK_MONOTONIC, UINT64_MAX: none */
        __int128 recorded;               /* ns CLOCK_REALTIME: when the recording ended */
        RingsideSymbolizeStatistics statistics;
        RingsideError *error;
        Debuginfod debuginfod;
        const RingsideSymbolizeOptions *options;
        const char *fetching; /* the path of the file whose debug information is asked for */

        RecordedFile *files; /* by id - 1 */
        size_t n_files, n_files_allocated;
        Place *places; /* by file, then address */
        size_t n_places, n_places_allocated;

        sqlite3_stmt *statements[STATEMENT_MAX];
        int64_t n_sources, n_routines, n_codes;
        Table sources, routines; /* of this time: string -> id */
} Symbolize;

static void symbolize_done(Symbolize *s) {
        for (size_t i = 0; i < s->n_files; i++)
                free(s->files[i].path);
        free(s->files);
        free(s->places);
        for (size_t i = 0; i < STATEMENT_MAX; i++)
                (void) sqlite3_finalize(s->statements[i]);
        table_done(&s->sources);
        table_done(&s->routines);
        lines_cache_free(s->cache);
        (void) ringside_recording_free(s->recording);
}

static int no_memory(Symbolize *s) {
        return error_set(s->error, -ENOMEM, NULL, "Out of memory");
}

/* ---- what is to be looked up ---- */

/* Makes room for one more. */
static int grow(void *array, size_t n, size_t *allocated, size_t size) {
        void **p = array, *bigger;
        size_t more = MAX(*allocated * 2, (size_t) 64);

        if (n < *allocated)
                return 0;
        bigger = reallocarray(*p, more, size);
        if (!bigger)
                return -ENOMEM;
        *p = bigger;
        *allocated = more;
        return 0;
}

static int file_row(sqlite3_stmt *row, void *userdata) {
        Symbolize *s = userdata;
        RecordedFile *file;

        if (row_integer(row, 0, 1, ID_MAX) != (int64_t) s->n_files + 1)
                return RINGSIDE_E_RECORDING;
        if (grow(&s->files, s->n_files, &s->n_files_allocated, sizeof(RecordedFile)) < 0)
                return -ENOMEM;
        file = &s->files[s->n_files];
        *file = (RecordedFile){
                .path = row_string(row, 1),
                .device = (uint64_t) sqlite3_column_int64(row, 2),
                .inode = (uint64_t) sqlite3_column_int64(row, 3),
                .size = (uint64_t) sqlite3_column_int64(row, 4),
        };
        if (!file->path)
                return -ENOMEM;
        s->n_files++;
        if (sqlite3_column_type(row, 5) == SQLITE_BLOB) {
                size_t len = (size_t) sqlite3_column_bytes(row, 5);

                if (len > sizeof(file->build_id))
                        return RINGSIDE_E_RECORDING;
                if (len > 0)
                        memcpy(file->build_id, sqlite3_column_blob(row, 5), len);
                file->build_id_len = len;
        }
        return 0;
}

/* What is mapped has a path, or other names. */
static bool is_kernel(const RecordedFile *file) {
        return strcmp(file->path, "[kernel]") == 0;
}

static bool is_module(const RecordedFile *file) {
        return file->path[0] == '[' && !is_kernel(file);
}

/*
 * Of a module's code neither its file nor anybody else knows how far from the first function another one is. What is known is
 * how far it is from the beginning of its own, which has a name: so these two are its address until the file is there.
 */
static int64_t module_address(sqlite3_stmt *row) {
        int64_t function = row_integer(row, 4, 1, ID_MAX), offset = row_integer(row, 5, 0, UINT32_MAX);

        return function < 1 || offset < 0 ? -1 : function << 32 | offset;
}

/* In the kernel there are also names for what is at no address. */
static bool is_marker(sqlite3_stmt *row) {
        return sqlite3_column_bytes(row, 3) > 0 && *(const char *) sqlite3_column_blob(row, 3) == '[';
}

/* An address that is no integer is of no sound file. */
static int place_row(sqlite3_stmt *row, void *userdata) {
        Symbolize *s = userdata;
        int64_t id = row_integer(row, 0, 1, ID_MAX), file = row_integer(row, 1, 1, (int64_t) s->n_files);
        int64_t address = sqlite3_column_int64(row, 2);
        const RecordedFile *f;

        if (id < 1 || file < 1)
                return RINGSIDE_E_RECORDING;
        f = &s->files[file - 1];
        if (sqlite3_column_type(row, 2) != SQLITE_INTEGER)
                return 0;
        /* What is no file can be found again only where it is known which one it was. */
        if (f->path[0] != '/' && (f->build_id_len == 0 || sqlite3_column_type(row, 3) == SQLITE_NULL || is_marker(row)))
                return 0;
        if (is_module(f))
                address = module_address(row);
        if (is_module(f) && address < 0)
                return 0;
        if (grow(&s->places, s->n_places, &s->n_places_allocated, sizeof(Place)) < 0)
                return -ENOMEM;
        s->places[s->n_places++] =
                (Place){ .id = (uint32_t) id, .file = (uint32_t) file, .address = (uint64_t) address };
        return 0;
}

static int compare_places(const void *a, const void *b) {
        const Place *x = a, *y = b;

        if (x->file != y->file)
                return x->file < y->file ? -1 : 1;
        if (x->address != y->address)
                return x->address < y->address ? -1 : 1;
        return x->id < y->id ? -1 : x->id > y->id;
}

static int count_row(sqlite3_stmt *row, void *userdata) {
        int64_t n = row_integer(row, 0, 0, ID_MAX);

        *(int64_t *) userdata = n;
        return n < 0 ? RINGSIDE_E_RECORDING : 0;
}

static int load(Symbolize *s) {
        const struct {
                const char *sql;
                RecordingRowFunc func;
                void *userdata;
        } queries[] = {
                { "SELECT id,path,device,inode,size,build_id FROM file ORDER BY id", file_row, s },
                { "SELECT place.id,file,start+offset,CASE kernel WHEN 1 THEN name END,function.id,offset FROM place "
                  "JOIN function ON function.id=place.function WHERE file IS NOT NULL AND place.id NOT IN (SELECT place FROM place_code)",
                  place_row, s },
                { "SELECT count(*) FROM source", count_row, &s->n_sources },
                { "SELECT count(*) FROM routine", count_row, &s->n_routines },
                { "SELECT count(*) FROM code", count_row, &s->n_codes },
        };

        for (size_t i = 0; i < ELEMENTSOF(queries); i++) {
                int r = recording_query(s->recording, queries[i].sql, queries[i].func, queries[i].userdata, s->error);

                if (r < 0)
                        return r;
        }
        if (s->n_places > 1)
                qsort(s->places, s->n_places, sizeof(Place), compare_places);
        s->statistics.places = s->n_places;
        return 0;
}

/* ---- writing ---- */

static int write_failed(Symbolize *s, int result) {
        int e = dbfile_get_errno(s->recording->file);

        if ((result & 0xff) == SQLITE_CORRUPT || (result & 0xff) == SQLITE_CONSTRAINT || (result & 0xff) == SQLITE_BUSY ||
            (result & 0xff) == SQLITE_NOMEM)
                return recording_fail(s->recording, result, s->error);
        e = e > 0 ? e : (result & 0xff) == SQLITE_FULL ? ENOSPC : EIO;
        return error_set(s->error, -e, NULL, "Cannot write %s: %s", s->recording->path, strerror(e));
}

static int execute(Symbolize *s, const char *sql) {
        int r = sqlite3_exec(s->recording->db, sql, NULL, NULL, NULL);

        return r == SQLITE_OK ? 0 : write_failed(s, r);
}

/* A signal that ends us does so afterwards: in between there is a journal that somebody would have to put back. */
static int commit(Symbolize *s) {
        sigset_t all, before;
        int r;

        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_BLOCK, &all, &before);
        r = execute(s, "COMMIT");
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* Until it is committed only others that write have to wait. */
static int begin(Symbolize *s) {
        char version[64];
        int r;

        s->recording->work = INT64_MAX; /* writes do not depend on what is in it */
        /* A recorder goes on for long; who reads is soon done. */
        (void) sqlite3_busy_timeout(s->recording->db, BUSY_BEGIN_MS);
        r = execute(s, "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF; PRAGMA cache_spill=OFF; BEGIN IMMEDIATE");
        for (size_t i = 0; i < ELEMENTSOF(schema_tables) && s->recording->info.format < SCHEMA_VERSION && r >= 0; i++)
                if (schema_table_is_in(&schema_tables[i], SCHEMA_VERSION) &&
                    !schema_table_is_in(&schema_tables[i], s->recording->info.format))
                        r = execute(s, schema_tables[i].sql);
        (void) sqlite3_busy_timeout(s->recording->db, BUSY_COMMIT_MS);
        if (r < 0)
                return r;
        (void) snprintf(version, sizeof(version), "PRAGMA user_version=%d", SCHEMA_VERSION);
        return execute(s, version);
}

static int prepare(Symbolize *s) {
        s->recording->work = INT64_MAX;
        for (size_t i = 0; i < STATEMENT_MAX; i++) {
                int r = sqlite3_prepare_v2(s->recording->db, statement_sql[i], -1, &s->statements[i], NULL);

                if (r != SQLITE_OK)
                        return write_failed(s, r);
        }
        return 0;
}

static int step(Symbolize *s, Statement statement) {
        int r = sqlite3_step(s->statements[statement]);

        (void) sqlite3_reset(s->statements[statement]);
        return r == SQLITE_DONE ? 0 : write_failed(s, r);
}

static void bind_number(sqlite3_stmt *statement, int i, int64_t number) {
        if (number > 0)
                (void) sqlite3_bind_int64(statement, i, number);
        else
                (void) sqlite3_bind_null(statement, i);
}

static int add_text(Symbolize *s, Statement statement, Table *known, int64_t *n, const char *text, size_t max, int64_t *ret) {
        size_t len = text ? strnlen(text, max) : 0;
        TableKey key;
        int r;

        *ret = 0;
        if (len == 0)
                return 0;
        if (table_string_key(known, text, len, &key) < 0)
                return no_memory(s);
        *ret = (int64_t) table_get(known, key);
        if (*ret > 0)
                return 0;
        (void) sqlite3_bind_int64(s->statements[statement], 1, *n + 1);
        (void) sqlite3_bind_blob(s->statements[statement], 2, text, (int) len, SQLITE_STATIC);
        r = step(s, statement);
        if (r < 0)
                return r;
        *ret = ++*n;
        return table_put(known, key, (uint64_t) *ret) < 0 ? no_memory(s) : 0;
}

/* first: the number of code 1, less 1. */
static int write_code(Symbolize *s, const DebugLines *lines, const DebugCode *code, int64_t first) {
        sqlite3_stmt *statement = s->statements[ADD_CODE];
        int64_t source, routine;
        int r;

        r = add_text(s, ADD_SOURCE, &s->sources, &s->n_sources, code->source > 0 ? lines->strings[code->source] : NULL,
                     STORE_PATH_MAX, &source);
        if (r >= 0)
                r = add_text(s, ADD_ROUTINE, &s->routines, &s->n_routines,
                             code->routine > 0 ? lines->strings[code->routine] : NULL, STORE_NAME_MAX, &routine);
        if (r < 0)
                return r;
        (void) sqlite3_bind_int64(statement, 1, ++s->n_codes);
        bind_number(statement, 2, code->caller > 0 ? first + code->caller : 0);
        bind_number(statement, 3, routine);
        bind_number(statement, 4, source);
        (void) sqlite3_bind_int64(statement, 5, code->line);
        return step(s, ADD_CODE);
}

/* places: all of the file's; those of one address follow each other, and addresses are numbered in their order. */
static int write_lines(Symbolize *s, const DebugLines *lines, const Place *places, size_t n) {
        int64_t first = s->n_codes;
        int r = 0;

        if (first + (int64_t) lines->n_codes > ID_MAX)
                return error_set(s->error, -EOVERFLOW, NULL, "%s has no room for more lines", s->recording->path);
        for (size_t i = 1; i < lines->n_codes && r >= 0; i++)
                r = write_code(s, lines, &lines->codes[i], first);
        for (size_t i = 0, address = 0; i < n && r >= 0; i++) {
                address += i > 0 && places[i].address != places[i - 1].address;
                if (lines->at[address] == 0)
                        continue;
                (void) sqlite3_bind_int64(s->statements[ADD_PLACE_CODE], 1, places[i].id);
                (void) sqlite3_bind_int64(s->statements[ADD_PLACE_CODE], 2, first + lines->at[address]);
                r = step(s, ADD_PLACE_CODE);
                s->statistics.found++;
        }
        return r;
}

/* ---- files ---- */

static uint64_t file_deadline(const Symbolize *s) {
        return MIN(s->deadline, now_ns(CLOCK_MONOTONIC) + s->file_timeout);
}

static int open_kernel(const Symbolize *s, const RecordedFile *file, ElfFile **ret) {
        const char *kernel = s->recording->info.kernel;
        _cleanup_free_ char *release = strndup(kernel, strcspn(kernel, " "));

        if (!release)
                return -ENOMEM;
        return debug_file_open_kernel(ret, file->build_id, file->build_id_len, release, s->symbol_dir);
}

static int open_file(const Symbolize *s, const RecordedFile *file, ElfFile **ret) {
        int r;

        if (is_kernel(file))
                r = open_kernel(s, file, ret);
        else if (is_module(file))
                r = debug_file_open_module(ret, file->build_id, file->build_id_len, s->symbol_dir);
        else
                r = recorded_file_open(file, s->recorded, ret);
        if (r >= 0 || r == -ENOMEM)
                return r;
        return file->path[0] == '/' ? -ENOENT : -ENODATA;
}

static void tell_progress(uint64_t done, uint64_t total, void *userdata) {
        const Symbolize *s = userdata;

        s->options->fetch_progress(s->fetching, done, total, s->options->userdata);
}

static int fetch(Symbolize *s, const RecordedFile *file, const DebuginfodRequest *request, ElfFile **ret) {
        s->fetching = file->path;
        return debuginfod_open(&s->debuginfod, request, ret);
}

static int fetch_debug(Symbolize *s, const RecordedFile *file, ElfFile **ret) {
        return fetch(s, file,
                     &(DebuginfodRequest){
                             .id = file->build_id,
                             .id_len = file->build_id_len,
                             .alt = is_module(file),
                             .deadline = s->deadline,
                     },
                     ret);
}

static int name_row(sqlite3_stmt *row, void *userdata) {
        char **name = userdata;

        free(*name);
        *name = row_string(row, 0);
        return *name ? 0 : -ENOMEM;
}

/* Where a function of a module begins, as debug-info.h counts it. -ENOENT: it is not known which one that is. */
static int find_function(Symbolize *s, ElfFile *elf, uint32_t id, uint64_t *ret) {
        _cleanup_free_ char *name = NULL;
        unsigned section;
        char sql[64];
        int r;

        (void) snprintf(sql, sizeof(sql), "SELECT name FROM function WHERE id=%" PRIu32, id);
        r = recording_query(s->recording, sql, name_row, &name, s->error);
        s->recording->work = INT64_MAX; /* as before: what is written next has no end to it */
        if (r >= 0)
                r = name && *name ? elf_file_find_symbol(elf, name, ret, &section) : -ENOENT;
        if (r < 0)
                return r;
        if (section >= SHN_LORESERVE)
                return -ENOENT;
        *ret = DEBUG_INFO_SECTION_ADDRESS(section, *ret);
        return 0;
}

/*
 * Gives the places of a module the addresses that they have in its file; all that have none get the same. Each function is
 * looked for among all symbols, and a recording can claim to have any number of them.
 */
static int count_by_sections(Symbolize *s, Place *places, size_t n) {
        const RecordedFile *file = &s->files[places[0].file - 1];
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        uint64_t deadline;
        int r;

        r = open_file(s, file, &elf);
        if (r == -ENODATA)
                r = fetch_debug(s, file, &elf);
        if (r < 0)
                return r == -ENOMEM ? r : -ENODATA;
        deadline = file_deadline(s);
        for (size_t i = 0, end; i < n; i = end) {
                uint32_t function = (uint32_t) (places[i].address >> 32);
                uint64_t start;

                if (now_ns(CLOCK_MONOTONIC) >= deadline)
                        return -ETIMEDOUT;
                r = find_function(s, elf, function, &start);
                if (r < 0 && r != -ENOENT)
                        return r;
                for (end = i; end < n && places[end].address >> 32 == function; end++)
                        places[end].address = r < 0 ? UINT64_MAX : start + (uint32_t) places[end].address;
        }
        qsort(places, n, sizeof(Place), compare_places);
        return 0;
}

/* Of the kernel's code a recording says only how far behind its beginning it is; where that was while it ran nobody was told. */
static int count_from_start(ElfFile *elf, uint64_t *addresses, size_t n) {
        uint64_t start;
        int r;

        r = elf_file_find_symbol(elf, "_stext", &start, NULL);
        if (r < 0)
                return r;
        if (addresses[n - 1] > UINT64_MAX - start)
                return -EBADMSG;
        for (size_t i = 0; i < n; i++)
                addresses[i] += start;
        return 0;
}

/* 1 or 0, or a negative errno. */
static int has_debug_info(ElfFile *elf) {
        int r = elf_file_has_section(elf, ".debug_info");

        return r != 0 ? r : elf_file_has_section(elf, ".zdebug_info");
}

/* The same. Line tables alone are better than nothing. */
static int has_lines(ElfFile *elf) {
        int r = has_debug_info(elf);

        return r != 0 ? r : elf_file_has_section(elf, ".debug_line");
}

/* elf itself, or the file that has its debug information: *ret_separate, NULL at first. -ENODATA: there is none here. */
static int find_debug_info(const Symbolize *s, const RecordedFile *file, ElfFile *elf, ElfFile **ret_separate) {
        int r;

        r = has_debug_info(elf);
        if (r != 0)
                return MIN(r, 0);
        r = debug_file_open(ret_separate, elf, &(DebugFileSearch){
                                                       .path = file->path,
                                                       .root_fd = -1,
                                                       .symbol_dir = s->symbol_dir,
                                                       .deadline = file_deadline(s),
                                               });
        if (r == -ENOMEM || r == -ETIMEDOUT)
                return r;
        if (r >= 0) {
                r = has_lines(*ret_separate);
                if (r != 0)
                        return MIN(r, 0);
                *ret_separate = elf_file_free(*ret_separate);
        }
        r = elf_file_has_section(elf, ".debug_line");
        return r == 0 ? -ENODATA : MIN(r, 0);
}

/* What is read of a file: it itself, where it is there, its debug information, where that is in another, and what both refer to. */
typedef struct Opened {
        ElfFile *program, *separate, *alt; /* each may be NULL */
} Opened;

static void opened_done(Opened *o) {
        elf_file_free(o->program);
        elf_file_free(o->separate);
        elf_file_free(o->alt);
}

static ElfFile *opened_get_debug(const Opened *o) {
        return o->separate ?: o->program;
}

/* What is on this machine. -ENOENT: neither the file nor any with its build id; -ENODATA: none has debug information. */
static int open_here(const Symbolize *s, const RecordedFile *file, Opened *o) {
        int r;

        r = open_file(s, file, &o->program);
        if (r >= 0)
                return find_debug_info(s, file, o->program, &o->separate);
        if (r != -ENOENT)
                return r;
        r = debug_file_open_by_id(&o->separate, file->build_id, file->build_id_len, s->symbol_dir);
        if (r < 0)
                return r == -ENOMEM ? r : -ENOENT;
        r = has_lines(o->separate);
        if (r == 0)
                o->separate = elf_file_free(o->separate);
        return r == 0 ? -ENODATA : MIN(r, 0);
}

static int open_debug(Symbolize *s, const RecordedFile *file, Opened *o) {
        int r, k;

        r = open_here(s, file, o);
        if (r != -ENOENT && r != -ENODATA)
                return r;
        k = fetch_debug(s, file, &o->separate);
        if (k < 0)
                return k == -ENOMEM ? k : r;
        r = has_lines(o->separate);
        return r == 0 ? -ENODATA : MIN(r, 0);
}

/* Names that are in a file which is not there would be missing, or another's. */
static int open_alt(Symbolize *s, const RecordedFile *file, Opened *o) {
        DebugFileId id;
        int r;

        r = debug_file_open_alt(&o->alt, opened_get_debug(o), s->symbol_dir, &id);
        if (r == -ENOENT)
                r = fetch(s, file, &(DebuginfodRequest){ .id = id.id, .id_len = id.len, .alt = true, .deadline = s->deadline },
                          &o->alt);
        return r < 0 && r != -ENOMEM ? -ENODATA : r;
}

typedef struct Reading {
        const Symbolize *symbolize;
        const Opened *opened;
} Reading;

static int read_debug_info(const uint64_t *addresses, DebugLines *lines, void *userdata) {
        const Reading *reading = userdata;
        const Symbolize *s = reading->symbolize;
        const Opened *o = reading->opened;
        const ElfFile *debug = opened_get_debug(o);
        uint64_t code_start = 0, code_end;

        if (now_ns(CLOCK_MONOTONIC) >= s->deadline)
                return -ETIMEDOUT;
        (void) elf_file_get_code(o->program ?: debug, &code_start, &code_end);
        return debug_worker_run(lines,
                                &(DebugInfoRequest){
                                        .fd = elf_file_get_fd(debug),
                                        .alt_fd = o->alt ? elf_file_get_fd(o->alt) : -1,
                                        .addresses = addresses,
                                        .n_addresses = lines->n_at,
                                        .relocatable = elf_file_is_relocatable(debug),
                                        .code_start = code_start,
                                },
                                &(DebugWorkerOptions){ .deadline = file_deadline(s) });
}

static bool is_any_known(const DebugLines *lines) {
        for (size_t i = 0; i < lines->n_at; i++)
                if (lines->at[i] > 0)
                        return true;
        return false;
}

/* addresses: lines->n_at, ascending; those of the kernel become what they are in its file. */
static int read_lines(Symbolize *s, const RecordedFile *file, uint64_t *addresses, DebugLines *lines) {
        _cleanup_(opened_done) Opened o = {};
        int r;

        if (now_ns(CLOCK_MONOTONIC) >= s->deadline)
                return -ETIMEDOUT;
        r = open_debug(s, file, &o);
        if (r < 0)
                return r;
        if (is_kernel(file)) {
                r = count_from_start(opened_get_debug(&o), addresses, lines->n_at);
                if (r < 0)
                        return r == -ENOENT ? -ENODATA : r;
        }
        r = open_alt(s, file, &o);
        if (r < 0)
                return r;
        r = lines_cache_get(s->cache, opened_get_debug(&o), addresses, lines, read_debug_info,
                            &(Reading){ .symbolize = s, .opened = &o });
        /* What libdw cannot uncompress is to it as if it was not there. */
        if ((r == -ENODATA || r == -EBADMSG) && elf_file_is_zstd(opened_get_debug(&o), ".debug_info"))
                return -EOPNOTSUPP;
        return r == -ENODATA && is_any_known(lines) ? 0 : r;
}

/* Which gdb would find by that name, too. */
static bool has_package(const RecordedFile *file) {
        char path[STORE_PATH_MAX + 8];
        struct stat st;

        return file->path[0] == '/' && snprintf(path, sizeof(path), "%s.dwp", file->path) < (int) sizeof(path) &&
               stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void count(RingsideSymbolizeStatistics *statistics, int r) {
        statistics->files++;
        if (r == -ENOENT)
                statistics->missing++;
        else if (r == -ENODATA)
                statistics->without++;
        else if (r == -ETIMEDOUT)
                statistics->late++;
        else if (r == -EOPNOTSUPP)
                statistics->zstd++;
        else if (r < 0)
                statistics->refused++;
}

static void copy_counts(RingsideSymbolizeStatistics *ret, const Debuginfod *debuginfod) {
        ret->asked = debuginfod->asked;
        ret->fetched = debuginfod->fetched;
        ret->unknown = debuginfod->unknown;
        ret->failed = debuginfod->failed;
        ret->given_up = debuginfod->given_up;
        ret->not_asked = debuginfod->not_asked;
        ret->no_debuginfod = debuginfod->is_missing;
}

/* What a file has come to, also where it was not all, is kept. */
static int symbolize_file(Symbolize *s, Place *places, size_t n) {
        _cleanup_free_ uint64_t *addresses = calloc(n, sizeof(uint64_t));
        _cleanup_(debug_lines_done) DebugLines lines = {};
        size_t n_addresses = 0;
        int r = 0;

        if (is_module(&s->files[places[0].file - 1]))
                r = count_by_sections(s, places, n);
        if (!addresses || r == -ENOMEM)
                return no_memory(s);
        if (r < 0) {
                count(&s->statistics, r);
                return r < -4095 ? r : 0; /* of the recording itself */
        }
        for (size_t i = 0; i < n; i++)
                if (i == 0 || places[i].address != places[i - 1].address)
                        addresses[n_addresses++] = places[i].address;
        if (debug_lines_init(&lines, n_addresses) < 0)
                return no_memory(s);
        r = read_lines(s, &s->files[places[0].file - 1], addresses, &lines);
        if (r == -ENOMEM)
                return no_memory(s);
        count(&s->statistics, r);
        if (lines.lacks_files && has_package(&s->files[places[0].file - 1]))
                s->statistics.dwp++;
        return write_lines(s, &lines, places, n);
}

static int symbolize(Symbolize *s) {
        const RingsideRecordingInfo *info = &s->recording->info;
        int r;

        if (info->format < SCHEMA_VERSION_RECORDED)
                return error_set(s->error, RINGSIDE_E_RECORDING, "Record it anew.",
                                 "%s has format %u, which has no room for lines", s->recording->path, info->format);
        s->recorded = (__int128) info->start_realtime + info->duration;
        r = begin(s);
        if (r >= 0)
                r = load(s);
        if (r >= 0)
                r = prepare(s);
        for (size_t i = 0, n; i < s->n_places && r >= 0; i += n) {
                for (n = 1; i + n < s->n_places && s->places[i + n].file == s->places[i].file;)
                        n++;
                r = symbolize_file(s, &s->places[i], n);
        }
        if (r < 0)
                return r;
        return s->statistics.found > 0 ? commit(s) : 0;
}

int ringside_symbolize(const char *path, const RingsideSymbolizeOptions *options, RingsideSymbolizeStatistics *ret,
                       RingsideError *error) {
        RingsideSymbolizeOptions o = {};
        Symbolize s = { .error = error };
        int r;

        if (options)
                memcpy(&o, options, MIN(options->size, sizeof(o)));
        s.symbol_dir = o.symbol_dir ?: "/usr/lib/debug";
        s.file_timeout = o.file_timeout ?: FILE_TIMEOUT;
        s.options = &o;
        s.debuginfod = (Debuginfod){
                .urls = o.debuginfod_urls,
                .timeout = o.fetch_timeout ?: FETCH_TIMEOUT,
                .progress = o.fetch_progress ? tell_progress : NULL,
                .userdata = &s,
        };
        if (lines_cache_new(&s.cache, NULL, LINES_CACHE_SIZE_MAX) == -ENOMEM)
                return no_memory(&s);
        s.deadline = o.timeout > 0 ? now_ns(CLOCK_MONOTONIC) + o.timeout : UINT64_MAX;
        r = recording_open_for_update(&s.recording, path, error);
        if (r >= 0)
                r = symbolize(&s);
        if (r >= 0) {
                copy_counts(&s.statistics, &s.debuginfod);
                *ret = s.statistics;
        }
        symbolize_done(&s);
        return r;
}
