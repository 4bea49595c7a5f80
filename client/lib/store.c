/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One prepared statement per table, one transaction a second, and tables in memory that intern what
 * many samples share. Ids are dense: row n of a table has id n, also after a crash, since a
 * transaction is there whole or not at all. The reader relies on it.
 */

#include "store.h"

#include <string.h>

#include "branch.h"
#include "dbfile.h"
#include "error.h"
#include "schema.h"
#include "table.h"

/*
 * Entries of one interning table before it is forgotten, to bound the memory of endless recordings.
 * What comes again afterwards gets a new row with the same content, which readers merge.
 */
#define INTERN_MAX (4U << 20)
/* Rows that are inserted with one statement, which halves what each costs. */
#define ROWS 32
#define COLUMNS_MAX 9
/* Of such rows, together: at least one name of full length. */
#define BATCH_TEXT (16U << 10)
#define NO_LINE INT64_MAX

typedef enum Statement {
        PUT_META,
        PUT_EVENT,
        PUT_COUNTER,
        ADD_PROCESS,
        END_PROCESS,
        ADD_THREAD,
        RENAME_THREAD,
        ADD_FILE,
        ADD_MAPPING,
        ADD_MAPPINGS,
        ADD_FUNCTION,
        ADD_FUNCTIONS,
        ADD_PLACE,
        ADD_PLACES,
        NAME_PLACE,
        ADD_BRANCH,
        ADD_BRANCHES,
        ADD_TARGET,
        ADD_SAMPLE,
        ADD_SAMPLES,
        BEGIN,
        COMMIT,
        /* Of tables that are made where there are lines. */
        ADD_SOURCE,
        ADD_CODE,
        ADD_PLACE_CODE,
        DROP_PLACE_CODE,
        STATEMENT_MAX
} Statement;

#define VALUES_SAMPLE "(?,?,?,?,?,?,?,?,?)"
#define VALUES_FUNCTION "(?,?,?,?,?)"
#define VALUES_PLACE "(?,?,?)"
#define VALUES_BRANCH "(?,?,?,?)"
#define VALUES_MAPPING "(?,?,?,?,?,?,?)"
#define FOUR_TIMES(x) x "," x "," x "," x
#define ROWS_TIMES(x) FOUR_TIMES(FOUR_TIMES(x)) "," FOUR_TIMES(FOUR_TIMES(x))

/*
 * OR FAIL: where a row is refused, the rows before it need not be taken back, since the recording ends there. To be able
 * to, SQLite would copy each page before it is changed, with every statement.
 */
static const char *const statement_sql[STATEMENT_MAX] = {
        [PUT_META] = "INSERT OR REPLACE INTO meta VALUES(?1,?2)",
        [PUT_EVENT] = "INSERT OR REPLACE INTO event VALUES(?1,?2,?3,?4,?5)",
        [PUT_COUNTER] = "INSERT OR REPLACE INTO counter VALUES(?1,?2)",
        [ADD_PROCESS] = "INSERT INTO process VALUES(?1,?2,?3,?4,NULL,?5,?6,?7)",
        [END_PROCESS] = "UPDATE process SET end=?2 WHERE id=?1",
        [ADD_THREAD] = "INSERT INTO thread VALUES(?1,?2,?3,?4)",
        [RENAME_THREAD] = "UPDATE thread SET comm=?2 WHERE id=?1",
        [ADD_FILE] = "INSERT INTO file VALUES(?1,?2,?3,?4,?5,?6)",
        [ADD_MAPPING] = "INSERT INTO mapping VALUES" VALUES_MAPPING,
        [ADD_MAPPINGS] = "INSERT OR FAIL INTO mapping VALUES" ROWS_TIMES(VALUES_MAPPING),
        [ADD_FUNCTION] = "INSERT INTO function VALUES" VALUES_FUNCTION,
        [ADD_FUNCTIONS] = "INSERT OR FAIL INTO function VALUES" ROWS_TIMES(VALUES_FUNCTION),
        [ADD_PLACE] = "INSERT INTO place VALUES" VALUES_PLACE,
        [ADD_PLACES] = "INSERT OR FAIL INTO place VALUES" ROWS_TIMES(VALUES_PLACE),
        [NAME_PLACE] = "UPDATE place SET function=?2, offset=?3 WHERE id=?1",
        [ADD_BRANCH] = "INSERT INTO branch VALUES" VALUES_BRANCH,
        [ADD_BRANCHES] = "INSERT OR FAIL INTO branch VALUES" ROWS_TIMES(VALUES_BRANCH),
        [ADD_TARGET] = "INSERT INTO target VALUES(?1,?2,?3)",
        [ADD_SAMPLE] = "INSERT INTO sample VALUES" VALUES_SAMPLE,
        [ADD_SAMPLES] = "INSERT OR FAIL INTO sample VALUES" ROWS_TIMES(VALUES_SAMPLE),
        [BEGIN] = "BEGIN IMMEDIATE",
        [COMMIT] = "COMMIT",
        [ADD_SOURCE] = "INSERT INTO source VALUES(?1,?2)",
        [ADD_CODE] = "INSERT INTO code VALUES(?1,NULL,NULL,?2,?3)",
        [ADD_PLACE_CODE] = "INSERT OR IGNORE INTO place_code VALUES(?1,?2)",
        [DROP_PLACE_CODE] = "DELETE FROM place_code WHERE place=?1",
};

/* Tables whose rows are many, and of numbers but for the last column of some. */
typedef enum BatchKind {
        BATCH_MAPPINGS,
        BATCH_FUNCTIONS,
        BATCH_PLACES,
        BATCH_BRANCHES,
        BATCH_SAMPLES,
        BATCH_MAX
} BatchKind;

static const struct {
        Statement one, all;
        unsigned n_columns;
        unsigned nullable; /* bits: columns in which 0 is NULL */
        enum { NUMBERS, TEXT, BYTES } last;
} batch_kinds[BATCH_MAX] = {
        [BATCH_MAPPINGS] = { ADD_MAPPING, ADD_MAPPINGS, 7, 0, NUMBERS },
        [BATCH_FUNCTIONS] = { ADD_FUNCTION, ADD_FUNCTIONS, 5, 1U << 1, BYTES },
        [BATCH_PLACES] = { ADD_PLACE, ADD_PLACES, 3, 0, NUMBERS },
        [BATCH_BRANCHES] = { ADD_BRANCH, ADD_BRANCHES, 4, 1U << 1, TEXT },
        [BATCH_SAMPLES] = { ADD_SAMPLE, ADD_SAMPLES, 9, 1U << 6 | 1U << 7 | 1U << 8, NUMBERS },
};

/* The last rows of one table, on their way. */
typedef struct Batch {
        unsigned n;
        int64_t rows[ROWS][COLUMNS_MAX];
        const char *texts[ROWS]; /* of the last column, in text; NULL: there is none */
        unsigned text_lens[ROWS];
        size_t text_len;
        char text[BATCH_TEXT];
} Batch;

struct Store {
        DbFile *file;
        sqlite3 *db;
        sqlite3_stmt *statements[STATEMENT_MAX];
        int failed; /* -errno of the first failure */
        int64_t n_processes, n_threads, n_files, n_mappings, n_functions, n_frames, n_stacks, n_targets;
        Table functions, frames, stacks;
        bool has_lines; /* their tables are there */
        int64_t n_sources, n_codes;
        Table sources, codes;
        Table lines; /* frame -> code, NO_LINE: it had several */
        Batch batches[BATCH_MAX];
};

static int store_fail(Store *store, int result) {
        int e = dbfile_get_errno(store->file);

        if (result == SQLITE_NOMEM || result == SQLITE_IOERR_NOMEM)
                store->failed = -ENOMEM;
        else if (e > 0)
                store->failed = -e;
        else
                store->failed = (result & 0xff) == SQLITE_FULL ? -ENOSPC : -EIO;
        return store->failed;
}

static int store_exec(Store *store, const char *sql) {
        int r = sqlite3_exec(store->db, sql, NULL, NULL, NULL);

        return r == SQLITE_OK ? 0 : store_fail(store, r);
}

/* Runs a statement whose parameters are bound. Bindings of text do not outlive this. */
static int store_step(Store *store, Statement statement) {
        sqlite3_stmt *s = store->statements[statement];
        int r = sqlite3_step(s);

        (void) sqlite3_reset(s);
        return r == SQLITE_DONE ? 0 : store_fail(store, r);
}

static void bind_text(sqlite3_stmt *s, int i, const char *text, size_t max) {
        (void) sqlite3_bind_text(s, i, text, strnlen(text, max), SQLITE_STATIC);
}

/* What may hold any byte is no text to SQLite. */
static void bind_bytes(sqlite3_stmt *s, int i, const char *bytes, size_t len) {
        (void) sqlite3_bind_blob(s, i, len > 0 ? bytes : "", len, SQLITE_STATIC);
}

static void bind_id(sqlite3_stmt *s, int i, int64_t id) {
        if (id > 0)
                (void) sqlite3_bind_int64(s, i, id);
        else
                (void) sqlite3_bind_null(s, i);
}

/* Makes the tables that version has and the one before had not, and prepares statements. */
static int create_tables(Store *store, unsigned version, Statement first, Statement end) {
        int r;

        for (size_t i = 0; i < ELEMENTSOF(schema_tables); i++) {
                const SchemaTable *table = &schema_tables[i];

                if (!schema_table_is_in(table, version) ||
                    (version > SCHEMA_VERSION_RECORDED && schema_table_is_in(table, SCHEMA_VERSION_RECORDED)))
                        continue;
                r = store_exec(store, table->sql);
                if (r < 0)
                        return r;
        }
        for (Statement i = first; i < end; i++) {
                r = sqlite3_prepare_v3(store->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                       &store->statements[i], NULL);
                if (r != SQLITE_OK)
                        return store_fail(store, r);
        }
        return 0;
}

static int store_create(Store *store) {
        char pragmas[512];
        int r;

        (void) snprintf(pragmas, sizeof(pragmas),
                        "PRAGMA page_size=1024;" /* a table takes a page at least, and there are twelve of them */
                        "PRAGMA journal_mode=TRUNCATE;" /* dbfile.c keeps it in memory, TRUNCATE keeps it open */
                        "PRAGMA synchronous=OFF;"
                        "PRAGMA cache_spill=OFF;" /* nothing reaches the file before the commit */
                        "PRAGMA cache_size=-8192;"
                        "PRAGMA temp_store=MEMORY;"
                        "PRAGMA application_id=%d;"
                        "PRAGMA user_version=%d;",
                        SCHEMA_APPLICATION_ID, SCHEMA_VERSION_RECORDED);
        r = store_exec(store, pragmas);
        if (r < 0)
                return r;
        r = store_exec(store, "BEGIN IMMEDIATE");
        if (r < 0)
                return r;
        r = create_tables(store, SCHEMA_VERSION_RECORDED, 0, ADD_SOURCE);
        if (r < 0)
                return r;
        /* For who reads a row or two; others are waited for by calling again. */
        (void) sqlite3_busy_timeout(store->db, 20);
        return store_commit(store);
}

DEFINE_CLEANUP(Store, store_free)

int store_new(Store **ret, const char *path, RingsideError *error) {
        _cleanup_(store_freep) Store *store = calloc(1, sizeof(Store));
        int r;

        if (!store)
                return error_set(error, -ENOMEM, NULL, "Out of memory");
        r = dbfile_create(&store->file, path, error);
        if (r < 0)
                return r;
        r = dbfile_connect(store->file, &store->db);
        r = r == SQLITE_OK ? store_create(store) : store_fail(store, r);
        if (r < 0) {
                dbfile_unlink(store->file);
                return error_set(error, r, NULL, "Cannot write %s: %s", path, strerror(-r));
        }
        *ret = TAKE_PTR(store);
        return 0;
}

Store *store_free(Store *store) {
        if (!store)
                return NULL;
        if (store->statements[COMMIT] && !store->failed)
                (void) store_commit(store);
        for (size_t i = 0; i < STATEMENT_MAX; i++)
                (void) sqlite3_finalize(store->statements[i]);
        (void) sqlite3_close(store->db);
        store->file = dbfile_free(store->file);
        table_done(&store->functions);
        table_done(&store->frames);
        table_done(&store->stacks);
        table_done(&store->sources);
        table_done(&store->codes);
        table_done(&store->lines);
        free(store);
        return NULL;
}

uint64_t store_get_size(const Store *store) {
        return dbfile_get_size(store->file);
}

static void bind_row(sqlite3_stmt *s, BatchKind kind, unsigned index, const Batch *batch, unsigned k) {
        unsigned n = batch_kinds[kind].n_columns, n_numbers = n - (batch_kinds[kind].last != NUMBERS);
        int first = (int) (index * n + 1), last = first + (int) n_numbers;
        const int64_t *row = batch->rows[k];

        for (unsigned i = 0; i < n_numbers; i++)
                if (row[i] == 0 && (batch_kinds[kind].nullable & 1U << i))
                        (void) sqlite3_bind_null(s, first + (int) i);
                else
                        (void) sqlite3_bind_int64(s, first + (int) i, row[i]);
        if (batch_kinds[kind].last == TEXT)
                (void) sqlite3_bind_text(s, last, batch->texts[k], (int) batch->text_lens[k], SQLITE_STATIC);
        else if (batch_kinds[kind].last == BYTES && batch->texts[k])
                bind_bytes(s, last, batch->texts[k], batch->text_lens[k]);
        else if (batch_kinds[kind].last == BYTES)
                (void) sqlite3_bind_null(s, last);
}

static int batch_flush(Store *store, BatchKind kind) {
        Batch *batch = &store->batches[kind];
        Statement one = batch_kinds[kind].one, all = batch_kinds[kind].all;
        unsigned n = batch->n;
        int r = 0;

        batch->n = 0;
        batch->text_len = 0;
        if (n == ROWS) {
                for (unsigned i = 0; i < n; i++)
                        bind_row(store->statements[all], kind, i, batch, i);
                return store_step(store, all);
        }
        for (unsigned i = 0; i < n && r >= 0; i++) {
                bind_row(store->statements[one], kind, 0, batch, i);
                r = store_step(store, one);
        }
        return r;
}

/* row: as many numbers as there are columns of them. text: at most STORE_NAME_MAX bytes, or NULL. */
static int batch_add(Store *store, BatchKind kind, const int64_t *row, const char *text, size_t len) {
        Batch *batch = &store->batches[kind];
        int r;

        if (len > sizeof(batch->text) - batch->text_len) {
                r = batch_flush(store, kind);
                if (r < 0)
                        return r;
        }
        memcpy(batch->rows[batch->n], row, (batch_kinds[kind].n_columns - (batch_kinds[kind].last != NUMBERS)) * sizeof(*row));
        if (batch_kinds[kind].last != NUMBERS) {
                batch->texts[batch->n] = text ? batch->text + batch->text_len : NULL;
                batch->text_lens[batch->n] = len;
                if (len > 0)
                        memcpy(batch->text + batch->text_len, text, len);
                batch->text_len += len;
        }
        return ++batch->n == ROWS ? batch_flush(store, kind) : 0;
}

int store_commit(Store *store) {
        int r = store->failed;

        for (unsigned kind = 0; kind < BATCH_MAX && r >= 0; kind++)
                r = batch_flush(store, kind);
        if (r < 0)
                return r;

        if (!sqlite3_get_autocommit(store->db)) {
                r = sqlite3_step(store->statements[COMMIT]);
                (void) sqlite3_reset(store->statements[COMMIT]);
                if (r == SQLITE_BUSY)
                        return -EBUSY;
                if (r != SQLITE_DONE)
                        return store_fail(store, r);
        }
        return store_step(store, BEGIN);
}

int store_put_meta(Store *store, const char *key, const char *value) {
        sqlite3_stmt *s = store->statements[PUT_META];

        if (store->failed)
                return store->failed;
        bind_text(s, 1, key, STORE_COMM_MAX);
        bind_text(s, 2, value, STORE_META_MAX);
        return store_step(store, PUT_META);
}

int store_put_event(Store *store, unsigned index, const RingsideEvent *event) {
        sqlite3_stmt *s = store->statements[PUT_EVENT];

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, index);
        bind_text(s, 2, event->name, sizeof(event->name));
        bind_text(s, 3, event->unit, sizeof(event->unit));
        (void) sqlite3_bind_int64(s, 4, event->by_period);
        (void) sqlite3_bind_int64(s, 5, (int64_t) event->value);
        return store_step(store, PUT_EVENT);
}

static int store_put_counter(Store *store, const char *name, uint64_t value) {
        sqlite3_stmt *s = store->statements[PUT_COUNTER];

        if (store->failed)
                return store->failed;
        bind_text(s, 1, name, STORE_COMM_MAX);
        (void) sqlite3_bind_int64(s, 2, (int64_t) value);
        return store_step(store, PUT_COUNTER);
}

int store_put_statistics(Store *store, int64_t time, const RingsideStatistics *statistics, uint64_t dropped,
                         uint64_t truncated) {
        const struct {
                const char *name;
                uint64_t value;
        } counters[] = {
                { "time", (uint64_t) time },
                { "taken", statistics->taken },
                { "emitted", statistics->emitted },
                { "lost", statistics->lost },
                { "stacks", statistics->stacks },
                { "stacks_lost", statistics->stacks_lost },
                { "processes", statistics->processes },
                { "processes_lost", statistics->processes_lost },
                { "unknown", statistics->unknown },
                { "malformed", statistics->malformed },
                { "ring_peak", statistics->ring_peak },
                { "ring_size", statistics->ring_size },
                { "expected", statistics->expected },
                { "missed", statistics->missed },
                { "dropped", dropped },
                { "truncated", truncated },
        };
        /* Seldom there, and not written then. */
        const struct {
                const char *name;
                uint64_t value;
        } rare_counters[] = {
                { "tables_refused", statistics->tables_refused },
                { "tables_no_room", statistics->tables_no_room },
                { "rules_no_room", statistics->rules_no_room },
                { "processes_no_room", statistics->processes_no_room },
                { "tables_lost", statistics->tables_lost },
                { "untracked", statistics->untracked },
        };
        int r = store->failed;

        for (size_t i = 0; i < ELEMENTSOF(counters) && r >= 0; i++)
                r = store_put_counter(store, counters[i].name, counters[i].value);
        for (size_t i = 0; i < ELEMENTSOF(rare_counters) && r >= 0; i++)
                if (rare_counters[i].value > 0)
                        r = store_put_counter(store, rare_counters[i].name, rare_counters[i].value);
        for (unsigned i = 0; i < RINGSIDE_WALK_END_MAX && r >= 0; i++) {
                char name[STORE_COMM_MAX];

                (void) snprintf(name, sizeof(name), "walk_end.%u", i);
                r = store_put_counter(store, name, statistics->walk_end[i]);
        }
        return r;
}

int store_add_process(Store *store, uint32_t pid, uint32_t inner_pid, int64_t parent_id, int64_t start, const char *comm,
                      const char *cmdline, size_t cmdline_len, int64_t *ret_id) {
        sqlite3_stmt *s = store->statements[ADD_PROCESS];
        int r;

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, store->n_processes + 1);
        (void) sqlite3_bind_int64(s, 2, pid);
        bind_id(s, 3, parent_id);
        (void) sqlite3_bind_int64(s, 4, start);
        bind_bytes(s, 5, comm, strnlen(comm, STORE_COMM_MAX));
        bind_bytes(s, 6, cmdline, MIN(cmdline_len, (size_t) STORE_CMDLINE_MAX));
        bind_id(s, 7, inner_pid);
        r = store_step(store, ADD_PROCESS);
        if (r < 0)
                return r;
        *ret_id = ++store->n_processes;
        return 0;
}

int store_end_process(Store *store, int64_t process_id, int64_t time) {
        sqlite3_stmt *s = store->statements[END_PROCESS];

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, process_id);
        (void) sqlite3_bind_int64(s, 2, time);
        return store_step(store, END_PROCESS);
}

int store_add_thread(Store *store, int64_t process_id, uint32_t tid, const char *comm, int64_t *ret_id) {
        sqlite3_stmt *s = store->statements[ADD_THREAD];
        int r;

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, store->n_threads + 1);
        (void) sqlite3_bind_int64(s, 2, process_id);
        (void) sqlite3_bind_int64(s, 3, tid);
        bind_bytes(s, 4, comm, strnlen(comm, STORE_COMM_MAX));
        r = store_step(store, ADD_THREAD);
        if (r < 0)
                return r;
        *ret_id = ++store->n_threads;
        return 0;
}

int store_rename_thread(Store *store, int64_t thread_id, const char *comm) {
        sqlite3_stmt *s = store->statements[RENAME_THREAD];

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, thread_id);
        bind_bytes(s, 2, comm, strnlen(comm, STORE_COMM_MAX));
        return store_step(store, RENAME_THREAD);
}

int store_add_file(Store *store, const char *path, uint64_t device, uint64_t inode, uint64_t size,
                   const void *build_id, size_t build_id_len, int64_t *ret_id) {
        sqlite3_stmt *s = store->statements[ADD_FILE];
        int r;

        if (store->failed)
                return store->failed;
        (void) sqlite3_bind_int64(s, 1, store->n_files + 1);
        bind_bytes(s, 2, path, strnlen(path, STORE_PATH_MAX));
        (void) sqlite3_bind_int64(s, 3, (int64_t) device);
        (void) sqlite3_bind_int64(s, 4, (int64_t) inode);
        (void) sqlite3_bind_int64(s, 5, (int64_t) size);
        if (build_id_len > 0)
                (void) sqlite3_bind_blob(s, 6, build_id, build_id_len, SQLITE_STATIC);
        else
                (void) sqlite3_bind_null(s, 6);
        r = store_step(store, ADD_FILE);
        if (r < 0)
                return r;
        *ret_id = ++store->n_files;
        return 0;
}

int store_add_mapping(Store *store, int64_t process_id, uint64_t start, uint64_t end, uint64_t offset,
                      int64_t file_id, int64_t time) {
        if (store->failed)
                return store->failed;
        return batch_add(store, BATCH_MAPPINGS,
                         (int64_t[]){ ++store->n_mappings, process_id, (int64_t) start, (int64_t) end, (int64_t) offset,
                                      file_id, time }, NULL, 0);
}

/* Remembers the row that was just added, or gives up remembering where there is no memory for it. */
static int intern(Table *table, TableKey key, int64_t id) {
        if (table->n >= INTERN_MAX)
                table_clear(table);
        return table_put(table, key, (uint64_t) id);
}

/* What is interned is the whole row: two functions of one name are two. raw_name NULL: all that has no name, start is 0. */
static int store_add_function(Store *store, int64_t file_id, uint64_t start, bool kernel, const char *raw_name, int64_t *ret_id) {
        size_t len = raw_name ? strnlen(raw_name, STORE_NAME_MAX) : 0;
        char row[2 * sizeof(int64_t) + 1 + STORE_NAME_MAX];
        size_t n = 2 * sizeof(int64_t) + 1;
        TableKey key;
        int r;

        memcpy(row, &file_id, sizeof(file_id));
        memcpy(row + sizeof(file_id), &start, sizeof(start));
        row[n - 1] = (char) (kernel | !raw_name << 1);
        if (len > 0)
                memcpy(row + n, raw_name, len);
        r = table_string_key(&store->functions, row, n + len, &key);
        if (r < 0)
                return r;
        *ret_id = (int64_t) table_get(&store->functions, key);
        if (*ret_id > 0)
                return 0;

        r = batch_add(store, BATCH_FUNCTIONS, (int64_t[]){ store->n_functions + 1, file_id, (int64_t) start, kernel }, raw_name, len);
        if (r < 0)
                return r;
        *ret_id = ++store->n_functions;
        return intern(&store->functions, key, *ret_id);
}

static int add_place(Store *store, int64_t function_id, uint64_t offset, int64_t *ret_id) {
        int r;

        r = batch_add(store, BATCH_PLACES, (int64_t[]){ store->n_frames + 1, function_id, (int64_t) offset }, NULL, 0);
        if (r < 0)
                return r;
        *ret_id = ++store->n_frames;
        return 0;
}

int store_add_frame_once(Store *store, int64_t file_id, uint64_t address, const char *raw_name, uint64_t name_offset,
                         bool kernel, int64_t *ret_id) {
        uint64_t offset = raw_name ? name_offset : address;
        int64_t function_id;
        int r;

        if (store->failed)
                return store->failed;
        r = store_add_function(store, file_id, address - offset, kernel, raw_name, &function_id);
        return r < 0 ? r : add_place(store, function_id, offset, ret_id);
}

int store_add_frame(Store *store, int64_t file_id, uint64_t address, const char *raw_name, uint64_t name_offset,
                    bool kernel, int64_t *ret_id) {
        uint64_t offset = raw_name ? name_offset : address;
        int64_t function_id;
        TableKey key;
        int r;

        if (store->failed)
                return store->failed;
        r = store_add_function(store, file_id, address - offset, kernel, raw_name, &function_id);
        if (r < 0)
                return r;
        key = (TableKey){ (uint64_t) function_id, offset, 0 };
        *ret_id = (int64_t) table_get(&store->frames, key);
        if (*ret_id > 0)
                return 0;
        r = add_place(store, function_id, offset, ret_id);
        return r < 0 ? r : intern(&store->frames, key, *ret_id);
}

int store_name_frame(Store *store, int64_t frame_id, int64_t file_id, uint64_t address, const char *raw_name,
                     uint64_t name_offset) {
        sqlite3_stmt *s = store->statements[NAME_PLACE];
        uint64_t offset = raw_name ? name_offset : address;
        int64_t function_id;
        int r;

        if (store->failed)
                return store->failed;
        r = store_add_function(store, file_id, address - offset, /* kernel= */ false, raw_name, &function_id);
        /* Its row may still be on its way. */
        if (r >= 0 && frame_id > store->n_frames - (int64_t) store->batches[BATCH_PLACES].n)
                r = batch_flush(store, BATCH_PLACES);
        if (r < 0)
                return r;
        (void) sqlite3_bind_int64(s, 1, frame_id);
        (void) sqlite3_bind_int64(s, 2, function_id);
        (void) sqlite3_bind_int64(s, 3, (int64_t) offset);
        return store_step(store, NAME_PLACE);
}

static int add_source(Store *store, const char *path, int64_t *ret_id) {
        sqlite3_stmt *s = store->statements[ADD_SOURCE];
        size_t len = strnlen(path, STORE_PATH_MAX);
        TableKey key;
        int r;

        r = table_string_key(&store->sources, path, len, &key);
        if (r < 0)
                return r;
        *ret_id = (int64_t) table_get(&store->sources, key);
        if (*ret_id > 0)
                return 0;
        (void) sqlite3_bind_int64(s, 1, store->n_sources + 1);
        bind_bytes(s, 2, path, len);
        r = store_step(store, ADD_SOURCE);
        if (r < 0)
                return r;
        *ret_id = ++store->n_sources;
        return intern(&store->sources, key, *ret_id);
}

static int add_code(Store *store, int64_t source_id, uint32_t line, int64_t *ret_id) {
        sqlite3_stmt *s = store->statements[ADD_CODE];
        TableKey key = { (uint64_t) source_id, line, 0 };
        int r;

        *ret_id = (int64_t) table_get(&store->codes, key);
        if (*ret_id > 0)
                return 0;
        (void) sqlite3_bind_int64(s, 1, store->n_codes + 1);
        (void) sqlite3_bind_int64(s, 2, source_id);
        (void) sqlite3_bind_int64(s, 3, line);
        r = store_step(store, ADD_CODE);
        if (r < 0)
                return r;
        *ret_id = ++store->n_codes;
        return intern(&store->codes, key, *ret_id);
}

static int set_line(Store *store, int64_t frame_id, int64_t code_id) {
        TableKey key = { (uint64_t) frame_id, 0, 0 };
        int64_t known = (int64_t) table_get(&store->lines, key);
        Statement statement = known == 0 ? ADD_PLACE_CODE : DROP_PLACE_CODE;
        int r;

        if (known == code_id || known == NO_LINE)
                return 0;
        (void) sqlite3_bind_int64(store->statements[statement], 1, frame_id);
        if (known == 0)
                (void) sqlite3_bind_int64(store->statements[statement], 2, code_id);
        r = store_step(store, statement);
        return r < 0 ? r : intern(&store->lines, key, known == 0 ? code_id : NO_LINE);
}

int store_set_line(Store *store, int64_t frame_id, const char *path, uint32_t line) {
        int64_t source_id, code_id;
        char version[64];
        int r = 0;

        if (store->failed)
                return store->failed;
        if (!store->has_lines) {
                (void) snprintf(version, sizeof(version), "PRAGMA user_version=%d", SCHEMA_VERSION);
                r = create_tables(store, SCHEMA_VERSION, ADD_SOURCE, STATEMENT_MAX);
                if (r >= 0)
                        r = store_exec(store, version);
                store->has_lines = r >= 0;
        }
        if (r >= 0)
                r = add_source(store, path, &source_id);
        if (r >= 0)
                r = add_code(store, source_id, line, &code_id);
        return r < 0 ? r : set_line(store, frame_id, code_id);
}

static TableKey stack_key(int64_t parent_id, int64_t frame_id) {
        return (TableKey){ (uint64_t) parent_id, (uint64_t) frame_id, 0 };
}

/* As many as fit into one row; returns how many. */
static int add_branch(Store *store, int64_t parent_id, const int64_t *frame_ids, size_t n, const int64_t *ids) {
        char text[BRANCH_FRAMES_MAX * BRANCH_BYTES_MAX];
        int64_t base = branch_base(frame_ids[0]);
        size_t len = 0;
        int i, r;

        n = MIN(n, (size_t) BRANCH_FRAMES_MAX);
        for (i = 0; i < (int) n && branch_base(frame_ids[i]) == base; i++)
                len += branch_put(text + len, (uint32_t) (frame_ids[i] - base));
        r = batch_add(store, BATCH_BRANCHES, (int64_t[]){ ids[0], parent_id, base }, text, len);
        if (r < 0)
                return r;
        store->n_stacks += i;
        for (int j = 0; j < i; j++) {
                r = intern(&store->stacks, stack_key(j == 0 ? parent_id : ids[j - 1], frame_ids[j]), ids[j]);
                if (r < 0)
                        return r;
        }
        return i;
}

int store_add_stacks(Store *store, int64_t parent_id, const int64_t *frame_ids, size_t n, int64_t *ret_ids) {
        size_t i;
        int r;

        if (store->failed)
                return store->failed;
        for (i = 0; i < n; i++, parent_id = ret_ids[i - 1]) {
                ret_ids[i] = (int64_t) table_get(&store->stacks, stack_key(parent_id, frame_ids[i]));
                if (ret_ids[i] == 0)
                        break;
        }
        /* What is called from a new one is new as well, and has the number that comes next. */
        for (size_t j = i; j < n; j++) {
                ret_ids[j] = store->n_stacks + 1 + (int64_t) (j - i);
                table_prefetch(&store->stacks, stack_key(j == i ? parent_id : ret_ids[j - 1], frame_ids[j]));
        }
        for (; i < n; i += r, parent_id = ret_ids[i - 1]) {
                r = add_branch(store, parent_id, frame_ids + i, n - i, ret_ids + i);
                if (r < 0)
                        return r;
        }
        return 0;
}

int store_add_stack(Store *store, int64_t parent_id, int64_t frame_id, int64_t *ret_id) {
        return store_add_stacks(store, parent_id, &frame_id, 1, ret_id);
}

int store_add_target(Store *store, unsigned index, const char *kind, const char *label) {
        sqlite3_stmt *s = store->statements[ADD_TARGET];
        int r;

        if (store->failed)
                return store->failed;
        if (index != store->n_targets + 1)
                return -EINVAL;
        (void) sqlite3_bind_int64(s, 1, index);
        bind_text(s, 2, kind, STORE_COMM_MAX);
        bind_bytes(s, 3, label, strnlen(label, STORE_LABEL_MAX));
        r = store_step(store, ADD_TARGET);
        if (r < 0)
                return r;
        store->n_targets++;
        return 0;
}

int store_add_sample(Store *store, const StoreSample *sample) {
        if (store->failed)
                return store->failed;
        return batch_add(store, BATCH_SAMPLES,
                         (int64_t[]){
                                 sample->time,
                                 sample->thread_id,
                                 sample->event,
                                 sample->cpu,
                                 sample->kernel_mode,
                                 sample->walk_end | (sample->guessed ? SCHEMA_WALK_GUESSED : 0),
                                 sample->stack_id,
                                 sample->weight <= INT64_MAX ? (int64_t) sample->weight : INT64_MAX,
                                 sample->target <= store->n_targets ? sample->target : 0,
                         },
                         NULL, 0);
}
