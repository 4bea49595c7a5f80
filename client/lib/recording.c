/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opening a recording. It may come from anywhere, so before a single query it must have our header and
 * exactly our schema, byte for byte: then no view, trigger, virtual table, index or expression of
 * somebody else's is ever run; nor are our own views, which are there for others. SQLite is told to distrust it, nothing is written, text has a maximal
 * length, and queries a maximal number of steps in proportion to the file's size.
 */

#include "recording.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "schema.h"

/* Of a row, in bytes. The store writes less. */
#define LENGTH_MAX (256 << 10)
/* How long a commit may take that is under way. */
#define BUSY_MS 5000
/* SQLite's steps are counted in thousands. A row of a sample takes about fifteen, and has 20 bytes. */
#define WORK_STEPS 1000
#define WORK_MIN 2000
/* More than a session has, and than `ringside record` takes. */
#define TARGETS_MAX 255
#define LABELS_MAX 255
#define LABEL_PREFIX "label."

int recording_damaged(const RingsideRecording *recording, RingsideError *error, const char *what) {
        return error_set(error, RINGSIDE_E_RECORDING,
                         dbfile_ignores_journal(recording->file)
                                 ? "The -journal file beside it was not used: it is another user's, or no journal."
                                 : "It was cut off or changed after it had been written.",
                         "%s is damaged: %s", recording->path, what);
}

int recording_fail(RingsideRecording *recording, int result, RingsideError *error) {
        switch (result & 0xff) {
        case SQLITE_NOMEM:
                return error_set(error, -ENOMEM, NULL, "Out of memory reading %s", recording->path);
        case SQLITE_BUSY:
                return error_set(error, -EBUSY, "Try again.", "%s is being written", recording->path);
        case SQLITE_INTERRUPT:
                return recording_damaged(recording, error, "it takes more work to read than its size allows");
        case SQLITE_CANTOPEN:
                return error_set(error, dbfile_get_errno(recording->file) > 0 ? -dbfile_get_errno(recording->file) : -EIO,
                                 "Its recorder died while writing: who opens it must be able to read the -journal file beside it.",
                                 "Cannot open %s with its journal", recording->path);
        default:
                /* sqlite3_errmsg() is longer: it has whole statements of somebody else's in it. */
                return recording_damaged(recording, error, sqlite3_errstr(result));
        }
}

static int count_work(void *userdata) {
        RingsideRecording *recording = userdata;

        return --recording->work < 0;
}

int recording_query(RingsideRecording *recording, const char *sql, RecordingRowFunc func, void *userdata,
                    RingsideError *error) {
        sqlite3_stmt *statement = NULL;
        int result, r = 0;

        recording->work = WORK_MIN + (int64_t) (dbfile_get_size(recording->file) / WORK_STEPS) * 4;
        result = sqlite3_prepare_v2(recording->db, sql, -1, &statement, NULL);
        if (result != SQLITE_OK)
                return recording_fail(recording, result, error);
        while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
                r = func(statement, userdata);
                if (r < 0)
                        break;
        }
        if (result != SQLITE_ROW && result != SQLITE_DONE)
                r = recording_fail(recording, result, error);
        else if (r == RINGSIDE_E_RECORDING)
                (void) recording_damaged(recording, error, "a row in it makes no sense");
        else if (r < 0)
                (void) error_set(error, r, NULL, "Cannot read %s: %s", recording->path, strerror(-r));
        (void) sqlite3_finalize(statement);
        return r;
}

int recording_begin(RingsideRecording *recording, RingsideError *error) {
        int r = sqlite3_exec(recording->db, "BEGIN", NULL, NULL, NULL);

        return r == SQLITE_OK ? 0 : recording_fail(recording, r, error);
}

void recording_end(RingsideRecording *recording) {
        (void) sqlite3_exec(recording->db, "ROLLBACK", NULL, NULL, NULL);
}

char *row_string(sqlite3_stmt *row, int i) {
        int type = sqlite3_column_type(row, i);
        const char *bytes;

        if (type != SQLITE_TEXT && type != SQLITE_BLOB)
                return strdup("");
        bytes = sqlite3_column_blob(row, i);
        return strndup(bytes ? bytes : "", bytes ? sqlite3_column_bytes(row, i) : 0);
}

int64_t row_integer(sqlite3_stmt *row, int i, int64_t min, int64_t max) {
        int64_t value;

        if (sqlite3_column_type(row, i) != SQLITE_INTEGER)
                return min - 1;
        value = sqlite3_column_int64(row, i);
        return value < min || value > max ? min - 1 : value;
}

uint64_t recording_period_of(const RingsideEvent *event) {
        if (event->by_period)
                return event->value;
        /* With a frequency only time has a period that is known. */
        return strcmp(event->unit, "ns") == 0 && event->value > 0 ? 1000000000ULL / event->value : 1;
}

uint64_t recording_get_period(const RingsideRecording *recording, unsigned event) {
        return recording_period_of(&recording->events[event]);
}

/* ---- opening ---- */

static uint32_t header_field(const uint8_t *header, size_t offset) {
        uint32_t v;

        memcpy(&v, header + offset, sizeof(v));
        return be32toh(v);
}

/* Before SQLite looks at it: anything that is no recording gets a clear answer. */
static int check_header(RingsideRecording *recording, RingsideError *error) {
        static const char magic[16] = "SQLite format 3";
        uint8_t header[100];
        ssize_t n = dbfile_peek(recording->file, header, sizeof(header));

        if (n < 0)
                return error_set(error, n, NULL, "Cannot read %s: %s", recording->path, strerror(-n));
        if (n < (ssize_t) sizeof(header) || memcmp(header, magic, sizeof(magic)) != 0 ||
            header_field(header, 68) != SCHEMA_APPLICATION_ID)
                return error_set(error, RINGSIDE_E_RECORDING, "A recording is what 'ringside record' writes, *.ringside.",
                                 "%s is not a recording of Ringside", recording->path);
        /* Ours never is, and what is in the WAL beside it we would not see. */
        if (header[18] != 1 || header[19] != 1)
                return error_set(error, RINGSIDE_E_RECORDING, "Turn it back with PRAGMA journal_mode=DELETE.",
                                 "%s was turned into another mode of SQLite (WAL)", recording->path);
        return 0;
}

static int number_row(sqlite3_stmt *row, void *userdata) {
        *(int64_t *) userdata = row_integer(row, 0, 1, UINT32_MAX);
        return 0;
}

/* By SQLite: a writer that was killed, or is at work, may just have raised what the first page of the file says. */
static int check_version(RingsideRecording *recording, RingsideError *error) {
        int64_t version = 0;
        int r;

        r = recording_query(recording, "PRAGMA user_version", number_row, &version, error);
        if (r < 0)
                return r;
        if (version > SCHEMA_VERSION)
                return error_set(error, RINGSIDE_E_RECORDING, "Use a newer version of Ringside.",
                                 "%s has format %" PRId64 ", and this version reads up to %d", recording->path, version,
                                 SCHEMA_VERSION);
        if (version < 1)
                return recording_damaged(recording, error, "it has no format version");
        recording->info.format = (unsigned) version;
        return 0;
}

/* SQLite takes missing pages at the end for empty ones, if only the last is cut. */
static int check_size(RingsideRecording *recording, RingsideError *error) {
        int64_t pages = 0, page_size = 0;
        int r;

        r = recording_query(recording, "PRAGMA page_count", number_row, &pages, error);
        if (r >= 0)
                r = recording_query(recording, "PRAGMA page_size", number_row, &page_size, error);
        if (r < 0)
                return r;
        if (pages < 1 || page_size < 1 || (uint64_t) (pages * page_size) > dbfile_get_size(recording->file))
                return recording_damaged(recording, error, "it is cut off");
        return 0;
}

static void distrust(sqlite3 *db) {
        static const struct {
                int limit, value;
        } limits[] = {
                { SQLITE_LIMIT_LENGTH, LENGTH_MAX },      { SQLITE_LIMIT_SQL_LENGTH, 16 << 10 },
                { SQLITE_LIMIT_COLUMN, 64 },              { SQLITE_LIMIT_EXPR_DEPTH, 32 },
                { SQLITE_LIMIT_COMPOUND_SELECT, 4 },      { SQLITE_LIMIT_VDBE_OP, 25000 },
                { SQLITE_LIMIT_FUNCTION_ARG, 8 },         { SQLITE_LIMIT_ATTACHED, 0 },
                { SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64 }, { SQLITE_LIMIT_VARIABLE_NUMBER, 16 },
                { SQLITE_LIMIT_TRIGGER_DEPTH, 1 },        { SQLITE_LIMIT_WORKER_THREADS, 0 },
        };
        static const struct {
                int option, value;
        } options[] = {
                { SQLITE_DBCONFIG_DEFENSIVE, 1 },      { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
                { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 }, { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
                { SQLITE_DBCONFIG_DQS_DDL, 0 },        { SQLITE_DBCONFIG_DQS_DML, 0 },
                { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                (void) sqlite3_limit(db, limits[i].limit, limits[i].value);
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                (void) sqlite3_db_config(db, options[i].option, options[i].value, NULL);
        (void) sqlite3_busy_timeout(db, BUSY_MS);
}

/* What our queries do, and nothing else. */
static int authorize(void *userdata, int action, const char *a, const char *b, const char *db, const char *trigger) {
        (void) userdata;
        (void) a;
        (void) b;
        (void) db;
        if (trigger)
                return SQLITE_DENY;
        return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_TRANSACTION ? SQLITE_OK
                                                                                                  : SQLITE_DENY;
}

typedef struct SchemaCheck {
        unsigned version;
        uint32_t seen; /* bit i: schema_tables[i] */
} SchemaCheck;

static int check_schema_row(sqlite3_stmt *row, void *userdata) {
        SchemaCheck *check = userdata;
        const char *type = (const char *) sqlite3_column_text(row, 0);
        const char *name = (const char *) sqlite3_column_text(row, 1);
        const char *table = (const char *) sqlite3_column_text(row, 2);
        const char *sql = (const char *) sqlite3_column_text(row, 3);

        if (!type || !name || !table || !sql || strcmp(name, table) != 0)
                return RINGSIDE_E_RECORDING;
        for (size_t i = 0; i < ELEMENTSOF(schema_tables); i++)
                if (schema_table_is_in(&schema_tables[i], check->version) && strcmp(name, schema_tables[i].name) == 0) {
                        if (strcmp(type, schema_tables[i].view ? "view" : "table") != 0 ||
                            strcmp(sql, schema_tables[i].sql) != 0 || (check->seen & 1U << i))
                                return RINGSIDE_E_RECORDING;
                        check->seen |= 1U << i;
                        return 0;
                }
        return RINGSIDE_E_RECORDING;
}

static int check_schema(RingsideRecording *recording, RingsideError *error) {
        SchemaCheck check = { .version = recording->info.format };
        uint32_t expected = 0;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(schema_tables); i++)
                expected |= (uint32_t) schema_table_is_in(&schema_tables[i], check.version) << i;
        r = recording_query(recording, "SELECT type,name,tbl_name,sql FROM sqlite_schema", check_schema_row, &check, error);
        if (r == RINGSIDE_E_RECORDING || (r >= 0 && check.seen != expected))
                return recording_damaged(recording, error, "its tables are not those of a recording");
        return r;
}

/* ---- what it says of itself ---- */

static bool parse_number(const char *s, int64_t min, int64_t *ret) {
        char *end;
        long long v;

        errno = 0;
        v = strtoll(s, &end, 10);
        if (errno != 0 || end == s || *end != 0 || v < min)
                return false;
        *ret = v;
        return true;
}

char *recording_target_name(const char *kind, const char *label) {
        char *name;

        return asprintf(&name, "%s %s", kind, label) < 0 ? NULL : name;
}

/* Takes the string, whatever becomes of it. */
static int list_add(char ***list, unsigned *n, char *string) {
        char **grown = string ? reallocarray(*list, *n + 1, sizeof(char *)) : NULL;

        if (!grown) {
                free(string);
                return -ENOMEM;
        }
        grown[(*n)++] = string;
        *list = grown;
        return 0;
}

static void list_free(char **list, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                free(list[i]);
        free(list);
}

static int target_row(sqlite3_stmt *row, void *userdata) {
        RingsideRecording *recording = userdata;
        _cleanup_free_ char *kind = row_string(row, 1), *label = row_string(row, 2);

        if (!kind || !label)
                return -ENOMEM;
        if (row_integer(row, 0, 1, TARGETS_MAX) != recording->info.n_targets + 1)
                return RINGSIDE_E_RECORDING;
        return list_add(&recording->targets, &recording->info.n_targets, recording_target_name(kind, label));
}

static int add_label(RingsideRecording *recording, const char *key, const char *value) {
        char *label;

        if (recording->info.n_labels >= LABELS_MAX)
                return RINGSIDE_E_RECORDING;
        if (asprintf(&label, "%s=%s", key, value) < 0)
                return -ENOMEM;
        return list_add(&recording->labels, &recording->info.n_labels, label);
}

static int meta_row(sqlite3_stmt *row, void *userdata) {
        RingsideRecording *recording = userdata;
        RingsideRecordingInfo *info = &recording->info;
        const struct {
                const char *key;
                char **target;
        } texts[] = {
                { "command", &recording->command },
                { "hostname", &recording->hostname },
                { "kernel", &recording->kernel },
                { "grant", &recording->grant },
                { "scope", &recording->scope },
                { "kernel_frames", &recording->kernel_frames },
                { "unwind", &recording->unwind },
                { "ended_why", &recording->ended_why },
        };
        _cleanup_free_ char *key = row_string(row, 0), *value = row_string(row, 1);
        int64_t n;

        if (!key || !value)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (strcmp(key, texts[i].key) == 0) {
                        free(*texts[i].target);
                        *texts[i].target = TAKE_PTR(value);
                        return 0;
                }
        if (strncmp(key, LABEL_PREFIX, strlen(LABEL_PREFIX)) == 0)
                return add_label(recording, key + strlen(LABEL_PREFIX), value);
        if (strcmp(key, "start_boottime") == 0 && parse_number(value, 0, &n))
                info->start = n;
        else if (strcmp(key, "start_realtime") == 0 && parse_number(value, INT64_MIN, &n))
                info->start_realtime = n;
        else if (strcmp(key, "n_cpus") == 0 && parse_number(value, 0, &n))
                info->n_cpus = MIN(n, 1 << 20);
        else if (strcmp(key, "hidden") == 0 && parse_number(value, 0, &n))
                info->hidden = n;
        else if (strcmp(key, "names_refused") == 0 && parse_number(value, 0, &n))
                info->names_refused = n;
        else if (strcmp(key, "ended") == 0 && parse_number(value, 0, &n))
                info->ended = n;
        else if (strcmp(key, "exit_status") == 0 && parse_number(value, -1, &n))
                info->exit_status = MIN(n, INT32_MAX);
        else if (strcmp(key, "finished") == 0 && parse_number(value, 0, &n)) {
                info->finished = true;
                info->duration = MAX(info->duration, (uint64_t) n);
        }
        return 0;
}

static int event_row(sqlite3_stmt *row, void *userdata) {
        RingsideRecording *recording = userdata;
        _cleanup_free_ char *name = row_string(row, 1), *unit = row_string(row, 2);
        int64_t by_period = row_integer(row, 3, 0, 1), value = row_integer(row, 4, 0, INT64_MAX);
        unsigned n = recording->info.n_events;
        RingsideEvent *events;

        if (!name || !unit)
                return -ENOMEM;
        if (row_integer(row, 0, 0, 255) != n || by_period < 0 || value < 0)
                return RINGSIDE_E_RECORDING;
        events = reallocarray(recording->events, n + 1, sizeof(RingsideEvent));
        if (!events)
                return -ENOMEM;
        recording->events = events;
        events[n] = (RingsideEvent){ .by_period = by_period, .value = value };
        /* Ours are short; another's may be cut. */
        (void) snprintf(events[n].name, sizeof(events[n].name), "%.31s", name);
        (void) snprintf(events[n].unit, sizeof(events[n].unit), "%.15s", unit);
        recording->info.n_events++;
        return 0;
}

static int counter_row(sqlite3_stmt *row, void *userdata) {
        RingsideRecordingInfo *info = userdata;
        RingsideStatistics *s = &info->statistics;
        const struct {
                const char *name;
                uint64_t *target;
        } counters[] = {
                { "taken", &s->taken },
                { "emitted", &s->emitted },
                { "lost", &s->lost },
                { "stacks", &s->stacks },
                { "stacks_lost", &s->stacks_lost },
                { "processes", &s->processes },
                { "processes_lost", &s->processes_lost },
                { "unknown", &s->unknown },
                { "malformed", &s->malformed },
                { "ring_peak", &s->ring_peak },
                { "ring_size", &s->ring_size },
                { "expected", &s->expected },
                { "missed", &s->missed },
                { "tables_refused", &s->tables_refused },
                { "tables_no_room", &s->tables_no_room },
                { "rules_no_room", &s->rules_no_room },
                { "processes_no_room", &s->processes_no_room },
                { "tables_lost", &s->tables_lost },
                { "untracked", &s->untracked },
                { "truncated", &info->truncated },
        };
        _cleanup_free_ char *name = row_string(row, 0);
        int64_t value = row_integer(row, 1, INT64_MIN + 1, INT64_MAX);
        unsigned i;
        int end = -1;

        if (!name)
                return -ENOMEM;
        if (strcmp(name, "time") == 0)
                info->duration = MAX(info->duration, (uint64_t) MAX(value, 0));
        for (i = 0; i < ELEMENTSOF(counters); i++)
                if (strcmp(name, counters[i].name) == 0)
                        *counters[i].target = (uint64_t) value;
        if (sscanf(name, "walk_end.%u%n", &i, &end) == 1 && end == (int) strlen(name) && i < RINGSIDE_WALK_END_MAX)
                s->walk_end[i] = (uint64_t) value;
        return 0;
}

static int last_sample_row(sqlite3_stmt *row, void *userdata) {
        RingsideRecordingInfo *info = userdata;
        int64_t n = row_integer(row, 0, 1, INT64_MAX), time = row_integer(row, 1, 0, INT64_MAX);

        if (n < 1)
                return RINGSIDE_E_RECORDING;
        info->samples = n;
        info->duration = MAX(info->duration, (uint64_t) MAX(time, 0));
        return 0;
}

static int read_info(RingsideRecording *recording, RingsideError *error) {
        RingsideRecordingInfo *info = &recording->info;
        char **const texts[] = { &recording->command, &recording->hostname, &recording->kernel,
                                &recording->grant,   &recording->scope,    &recording->kernel_frames,
                                &recording->unwind,  &recording->ended_why };
        int r;

        info->exit_status = -1;
        r = recording_begin(recording, error);
        if (r < 0)
                return r;
        r = recording_query(recording, "SELECT key,value FROM meta", meta_row, recording, error);
        if (r >= 0)
                r = recording_query(recording, "SELECT id,name,unit,by_period,value FROM event ORDER BY id", event_row,
                                    recording, error);
        if (r >= 0 && info->format >= 2)
                r = recording_query(recording, "SELECT id,kind,label FROM target ORDER BY id", target_row, recording,
                                    error);
        if (r >= 0)
                r = recording_query(recording, "SELECT name,value FROM counter", counter_row, info, error);
        if (r >= 0)
                r = recording_query(recording, "SELECT rowid,time FROM sample ORDER BY rowid DESC LIMIT 1",
                                    last_sample_row, info, error);
        recording_end(recording);
        if (r < 0)
                return r;

        /* No row of a sample has fewer bytes than its columns. */
        if (info->samples > dbfile_get_size(recording->file) / 8)
                return recording_damaged(recording, error, "it claims more samples than fit into it");
        if (info->n_events == 0)
                return recording_damaged(recording, error, "it has no event");
        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (!*texts[i] && !(*texts[i] = strdup("")))
                        return error_set(error, -ENOMEM, NULL, "Out of memory");
        info->command = recording->command;
        info->hostname = recording->hostname;
        info->kernel = recording->kernel;
        info->grant = recording->grant;
        info->scope = recording->scope;
        info->kernel_frames = recording->kernel_frames;
        info->ended_why = recording->ended_why;
        info->unwind = strcmp(recording->unwind, "table") == 0 ? "table" : "fp"; /* "frame-pointer" in older ones */
        info->events = recording->events;
        info->targets = (const char *const *) recording->targets;
        info->labels = (const char *const *) recording->labels;
        return 0;
}

DEFINE_CLEANUP(RingsideRecording, ringside_recording_free)

static int open_checked(RingsideRecording **ret, const char *path,
                        int (*open_file)(DbFile **ret, const char *path, RingsideError *error), RingsideError *error) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = calloc(1, sizeof(RingsideRecording));
        int r;

        if (!recording || !(recording->path = strdup(path)))
                return error_set(error, -ENOMEM, NULL, "Out of memory");
        r = open_file(&recording->file, path, error);
        if (r < 0)
                return r;
        r = check_header(recording, error);
        if (r < 0)
                return r;
        r = dbfile_connect(recording->file, &recording->db);
        if (r != SQLITE_OK)
                return recording_fail(recording, r, error);
        distrust(recording->db);
        r = sqlite3_exec(recording->db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY", NULL,
                         NULL, NULL);
        if (r != SQLITE_OK)
                return recording_fail(recording, r, error);
        sqlite3_progress_handler(recording->db, WORK_STEPS, count_work, recording);
        /* Its tables are those of its version at one time. */
        r = recording_begin(recording, error);
        if (r >= 0)
                r = check_version(recording, error);
        if (r >= 0)
                r = check_size(recording, error);
        if (r < 0)
                return r;

        (void) sqlite3_set_authorizer(recording->db, authorize, NULL);
        r = check_schema(recording, error);
        if (r < 0)
                return r;
        recording_end(recording);
        r = read_info(recording, error);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(recording);
        return 0;
}

int ringside_recording_open(RingsideRecording **ret, const char *path, RingsideError *error) {
        return open_checked(ret, path, dbfile_open, error);
}

/* Only what is a recording then is written back, by whomever the journal is. */
static int roll_back(const char *path, RingsideError *error) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        int r = open_checked(&recording, path, dbfile_open_for_rollback, error);

        return r < 0 ? r : dbfile_roll_back(recording->file, path, error);
}

int recording_open_for_update(RingsideRecording **ret, const char *path, RingsideError *error) {
        int r = open_checked(ret, path, dbfile_open_for_update, error);

        if (r == -EEXIST) {
                r = roll_back(path, error);
                if (r >= 0)
                        r = open_checked(ret, path, dbfile_open_for_update, error);
        }
        /* What it holds is known to be tables of ours, which run nothing. */
        if (r >= 0)
                (void) sqlite3_set_authorizer((*ret)->db, NULL, NULL);
        return r;
}

RingsideRecording *ringside_recording_free(RingsideRecording *recording) {
        if (!recording)
                return NULL;
        (void) sqlite3_close(recording->db);
        (void) dbfile_free(recording->file);
        free(recording->command);
        free(recording->hostname);
        free(recording->kernel);
        free(recording->grant);
        free(recording->scope);
        free(recording->kernel_frames);
        free(recording->unwind);
        free(recording->ended_why);
        free(recording->events);
        list_free(recording->targets, recording->info.n_targets);
        list_free(recording->labels, recording->info.n_labels);
        free(recording->path);
        free(recording);
        return NULL;
}

const RingsideRecordingInfo *ringside_recording_get_info(RingsideRecording *recording) {
        return &recording->info;
}
