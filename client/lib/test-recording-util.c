/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "test-recording-util.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

int place_setup(void **state) {
        Place *place = calloc(1, sizeof(Place));

        if (!place)
                return -1;
        (void) snprintf(place->dir, sizeof(place->dir), "/tmp/ringside-test-XXXXXX");
        if (!mkdtemp(place->dir) || chmod(place->dir, 0755) < 0)
                return -1;
        (void) snprintf(place->file, sizeof(place->file), "%s/x.ringside", place->dir);
        *state = place;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

int place_teardown(void **state) {
        Place *place = *state;
        int r = nftw(place->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(place);
        return r;
}

static int64_t query_number(const char *path, const char *sql) {
        sqlite3_stmt *statement = NULL;
        int64_t n = -1;
        sqlite3 *db;

        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
            sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
                n = sqlite3_column_int64(statement, 0);
        (void) sqlite3_finalize(statement);
        (void) sqlite3_close(db);
        return n;
}

int64_t count_rows(const char *path, const char *table) {
        char sql[256];

        (void) snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
        return query_number(path, sql);
}

bool is_intact(const char *path) {
        return query_number(path, "SELECT integrity_check='ok' FROM pragma_integrity_check") == 1;
}

static void run(const char *path, int flags, const char *sql) {
        char *message = NULL;
        sqlite3 *db;

        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | flags, NULL), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
                fail_msg("%s: %s", sql, message);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void run_sql(const char *path, const char *sql) {
        run(path, 0, sql);
}

void run_sql_create(const char *path, const char *sql) {
        run(path, SQLITE_OPEN_CREATE, sql);
}

int open_result(const char *path) {
        _cleanup_(ringside_recording_freep) RingsideRecording *recording = NULL;
        _cleanup_(ringside_profile_freep) RingsideProfile *profile = NULL;
        _cleanup_fclose_ FILE *null = fopen("/dev/null", "we");
        const RingsideNode *root;
        const RingsideRow *rows;
        RingsideError error = {};
        size_t n;
        int r;

        r = ringside_recording_open(&recording, path, &error);
        if (r >= 0)
                r = ringside_profile_new(&profile, recording, NULL, &error);
        if (r < 0) {
                /* A failure always says what it was. */
                assert_int_equal(error.code, r);
                assert_true(strlen(error.text) > 0);
                return r;
        }
        for (unsigned group = 0; group <= RINGSIDE_BY_LINE; group++)
                assert_return_code(ringside_profile_get_rows(profile, group, &rows, &n), 0);
        assert_return_code(ringside_profile_get_callees(profile, &root), 0);
        assert_return_code(ringside_profile_get_callers(profile, &root), 0);
        assert_return_code(ringside_export_collapsed(profile, null, &error), 0);
        assert_return_code(ringside_export_pprof(recording, NULL, null, &error), 0);
        return 0;
}

void write_bytes(const char *path, const void *bytes, size_t n) {
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
}

void write_text(const char *path, const char *text) {
        write_bytes(path, text, strlen(text));
}

char *read_bytes(const char *path, size_t *ret_n) {
        FILE *f = path ? fopen(path, "re") : NULL;
        struct stat st;
        char *bytes;

        if (!f)
                return NULL;
        assert_return_code(fstat(fileno(f), &st), errno);
        bytes = calloc(1, st.st_size + 1);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, st.st_size, f), st.st_size);
        (void) fclose(f);
        *ret_n = st.st_size;
        return bytes;
}

char *read_text(const char *path) {
        size_t n;

        return read_bytes(path, &n);
}

void write_empty_journal(const char *path) {
        static const uint8_t header[28] = {
                0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, /* magic */
                0xff, 0xff, 0xff, 0xff,                         /* as many records as there are */
                0,    0,    0,    0,                            /* nonce */
                0,    0,    0,    0,                            /* pages */
                0,    0,    2,    0,                            /* sector size */
                0,    0,    16,   0,                            /* page size */
        };
        uint8_t bytes[512] = {};

        memcpy(bytes, header, sizeof(header));
        write_bytes(path, bytes, sizeof(bytes));
}

void limit_file_size(size_t bytes) {
        struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };

        (void) signal(SIGXFSZ, SIG_IGN);
        assert_return_code(setrlimit(RLIMIT_FSIZE, &limit), errno);
}
