/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The VFS: one struct per connection, registered under a name of its own only while the connection is
 * being opened, so that nothing is shared between connections.
 */

#include "dbfile.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "rollback.h"

/* SQLite's own lock bytes (os.h): any other program that opens the file honours them. */
#define PENDING_BYTE 0x40000000
#define RESERVED_BYTE (PENDING_BYTE + 1)
#define SHARED_FIRST (PENDING_BYTE + 2)
#define SHARED_SIZE 510

#define PAGES_SIZE (64U << 10)

/* The names SQLite sees. The real ones are known by fd. */
#define DB_NAME "recording"
#define JOURNAL_NAME "recording-journal"

struct DbFile {
        sqlite3_vfs vfs;
        char vfs_name[32];
        int dir_fd;
        int fd;
        char *name;         /* in dir_fd */
        char *journal_name; /* likewise */
        uid_t owner;
        bool writable;
        int lock; /* SQLITE_LOCK_* */
        int last_errno;

        /* Writer: the journal so far, and its file while it is on disk. */
        uint8_t *journal;
        size_t journal_len, journal_allocated;
        int journal_fd;
        /* And pages that follow each other, to be written at once. */
        uint8_t pages[PAGES_SIZE];
        size_t pages_len;
        uint64_t pages_at;

        /* Reader: a journal that was left behind, and what it looked like when it was read. */
        Rollback rollback;
        struct stat journal_stat;
        bool ignores_journal;
};

/* What SQLite allocates for each file it opens: both kinds lead to the same DbFile. */
typedef struct OpenFile {
        sqlite3_file base;
        DbFile *file;
} OpenFile;

static DbFile *from_file(sqlite3_file *f) {
        return ((OpenFile *) f)->file;
}

static int fail(DbFile *file, int error, int result) {
        file->last_errno = error;
        return error == ENOSPC || error == EDQUOT ? SQLITE_FULL : result;
}

static int write_all(int fd, const void *data, size_t n, uint64_t offset) {
        const uint8_t *p = data;

        while (n > 0) {
                ssize_t k = RETRY_ON_EINTR(pwrite(fd, p, n, offset));

                if (k < 0)
                        return -errno;
                if (k == 0)
                        return -EIO;
                p += k;
                n -= k;
                offset += k;
        }
        return 0;
}

static ssize_t read_all(int fd, void *data, size_t n, uint64_t offset) {
        size_t done = 0;

        while (done < n) {
                ssize_t k = RETRY_ON_EINTR(pread(fd, (uint8_t *) data + done, n - done, offset + done));

                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                done += k;
        }
        return done;
}

/* ---- the writer's journal ---- */

static int journal_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 offset) {
        DbFile *file = from_file(f);
        size_t end = (size_t) offset + n;
        int r;

        if (end > file->journal_allocated) {
                size_t allocated = MAX(end, MAX(file->journal_allocated * 2, 65536U));
                uint8_t *p = realloc(file->journal, allocated);

                if (!p)
                        return SQLITE_IOERR_NOMEM;
                file->journal = p;
                file->journal_allocated = allocated;
        }
        if ((size_t) offset > file->journal_len)
                memset(file->journal + file->journal_len, 0, offset - file->journal_len);
        memcpy(file->journal + offset, data, n);
        file->journal_len = MAX(file->journal_len, end);

        if (file->journal_fd >= 0) {
                r = write_all(file->journal_fd, data, n, offset);
                if (r < 0)
                        return fail(file, -r, SQLITE_IOERR_WRITE);
        }
        return SQLITE_OK;
}

/* Puts the journal on disk: from here on a death in between can be undone. */
static int journal_flush(DbFile *file) {
        int r;

        if (file->journal_len == 0 || file->journal_fd >= 0)
                return SQLITE_OK;

        file->journal_fd = openat(file->dir_fd, file->journal_name,
                                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file->journal_fd < 0)
                return fail(file, errno, SQLITE_IOERR_WRITE);
        r = write_all(file->journal_fd, file->journal, file->journal_len, 0);
        if (r < 0)
                return fail(file, -r, SQLITE_IOERR_WRITE);
        return SQLITE_OK;
}

static int pages_flush(DbFile *file) {
        size_t len = file->pages_len;
        int r;

        file->pages_len = 0;
        r = write_all(file->fd, file->pages, len, file->pages_at);
        return r < 0 ? fail(file, -r, SQLITE_IOERR_WRITE) : SQLITE_OK;
}

/* The commit itself: without the journal the new pages are what counts. */
static int journal_drop(DbFile *file) {
        file->journal_len = 0;
        if (file->journal_fd < 0)
                return SQLITE_OK;

        file->journal_fd = close_fd(file->journal_fd);
        if (unlinkat(file->dir_fd, file->journal_name, 0) < 0 && errno != ENOENT)
                return fail(file, errno, SQLITE_IOERR_DELETE);
        return SQLITE_OK;
}

static int journal_read(sqlite3_file *f, void *data, int n, sqlite3_int64 offset) {
        DbFile *file = from_file(f);
        size_t have = (size_t) offset < file->journal_len ? MIN(file->journal_len - offset, (size_t) n) : 0;

        if (have > 0)
                memcpy(data, file->journal + offset, have);
        memset((uint8_t *) data + have, 0, n - have);
        return have == (size_t) n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int journal_truncate(sqlite3_file *f, sqlite3_int64 size) {
        DbFile *file = from_file(f);

        if (size == 0)
                return journal_drop(file);
        if ((size_t) size < file->journal_len)
                file->journal_len = size;
        if (file->journal_fd >= 0 && ftruncate(file->journal_fd, size) < 0)
                return fail(file, errno, SQLITE_IOERR_TRUNCATE);
        return SQLITE_OK;
}

static int journal_size(sqlite3_file *f, sqlite3_int64 *ret) {
        *ret = from_file(f)->journal_len;
        return SQLITE_OK;
}

/* ---- the database ---- */

static int main_read(sqlite3_file *f, void *data, int n, sqlite3_int64 offset) {
        DbFile *file = from_file(f);
        ssize_t k;
        int r;

        r = pages_flush(file);
        if (r != SQLITE_OK)
                return r;
        k = read_all(file->fd, data, n, offset);
        if (k < 0)
                return fail(file, -k, SQLITE_IOERR_READ);
        memset((uint8_t *) data + k, 0, n - k);

        if (file->rollback.page_size > 0) {
                r = rollback_apply(&file->rollback, data, n, offset);
                if (r < 0)
                        return fail(file, -r, SQLITE_IOERR_READ);
        }
        return k == n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int main_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 offset) {
        DbFile *file = from_file(f);
        int r;

        r = journal_flush(file);
        if (r != SQLITE_OK)
                return r;
        if ((uint64_t) offset != file->pages_at + file->pages_len || (size_t) n > PAGES_SIZE - file->pages_len) {
                r = pages_flush(file);
                if (r != SQLITE_OK)
                        return r;
                file->pages_at = offset;
        }
        if ((size_t) n > PAGES_SIZE)
                return SQLITE_IOERR_WRITE; /* larger than any page */
        memcpy(file->pages + file->pages_len, data, n);
        file->pages_len += n;
        return SQLITE_OK;
}

static int main_truncate(sqlite3_file *f, sqlite3_int64 size) {
        DbFile *file = from_file(f);
        int r;

        r = journal_flush(file);
        if (r == SQLITE_OK)
                r = pages_flush(file);
        if (r != SQLITE_OK)
                return r;
        return ftruncate(file->fd, size) < 0 ? fail(file, errno, SQLITE_IOERR_TRUNCATE) : SQLITE_OK;
}

static int main_size(sqlite3_file *f, sqlite3_int64 *ret) {
        DbFile *file = from_file(f);
        struct stat st;
        int r;

        if (file->rollback.page_size > 0) {
                *ret = (sqlite3_int64) (file->rollback.n_pages * file->rollback.page_size);
                return SQLITE_OK;
        }
        r = pages_flush(file);
        if (r != SQLITE_OK)
                return r;
        if (fstat(file->fd, &st) < 0)
                return fail(file, errno, SQLITE_IOERR_FSTAT);
        *ret = st.st_size;
        return SQLITE_OK;
}

/* ---- locks ---- */

/* Locks of the open file, so that another connection in this process counts as another. */
static int set_lock(DbFile *file, short type, off_t start, off_t len) {
        struct flock fl = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

        if (fcntl(file->fd, F_OFD_SETLK, &fl) == 0)
                return SQLITE_OK;
        if (errno == EAGAIN || errno == EACCES)
                return SQLITE_BUSY;
        if (errno == ENOLCK || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)
                return SQLITE_OK; /* a file system without locks */
        return fail(file, errno, SQLITE_IOERR_LOCK);
}

static bool is_reserved(DbFile *file) {
        struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = RESERVED_BYTE, .l_len = 1 };

        return fcntl(file->fd, F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

static bool is_as_read(const DbFile *file, const struct stat *st) {
        return file->rollback.page_size > 0 && st->st_ino == file->journal_stat.st_ino &&
               st->st_size == file->journal_stat.st_size &&
               memcmp(&st->st_mtim, &file->journal_stat.st_mtim, sizeof(st->st_mtim)) == 0;
}

/* Somebody else's journal must not rewrite what this user recorded. */
static bool is_own(const DbFile *file, const struct stat *st) {
        return S_ISREG(st->st_mode) && st->st_uid == file->owner;
}

/* Looks whether a writer died while it wrote. Called with the shared lock, so no live one is writing. */
static int look_for_journal(DbFile *file) {
        struct stat st;
        int fd, r;

        file->ignores_journal = false;
        fd = openat(file->dir_fd, file->journal_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) {
                /* Where it is a symlink or not there, it is not SQLite's. */
                if (errno == ENOENT || errno == ELOOP || errno == ENXIO) {
                        file->ignores_journal = errno != ENOENT;
                        rollback_done(&file->rollback);
                        return SQLITE_OK;
                }
                return fail(file, errno, SQLITE_CANTOPEN);
        }
        if (fstat(fd, &st) < 0 || !is_own(file, &st) || st.st_size == 0 || is_reserved(file)) {
                file->ignores_journal = !is_own(file, &st);
                close_fd(fd);
                rollback_done(&file->rollback);
                return SQLITE_OK;
        }
        if (is_as_read(file, &st)) {
                close_fd(fd);
                return SQLITE_OK;
        }

        rollback_done(&file->rollback);
        file->journal_stat = st;
        r = rollback_load(&file->rollback, fd, st.st_size);
        file->ignores_journal = file->rollback.page_size == 0;
        return r < 0 ? SQLITE_IOERR_NOMEM : SQLITE_OK;
}

static int lock_shared(DbFile *file) {
        int r;

        r = set_lock(file, F_RDLCK, PENDING_BYTE, 1);
        if (r != SQLITE_OK)
                return r;
        r = set_lock(file, F_RDLCK, SHARED_FIRST, SHARED_SIZE);
        (void) set_lock(file, F_UNLCK, PENDING_BYTE, 1);
        if (r != SQLITE_OK)
                return r;

        if (!file->writable) {
                r = look_for_journal(file);
                if (r != SQLITE_OK) {
                        (void) set_lock(file, F_UNLCK, SHARED_FIRST, SHARED_SIZE);
                        return r;
                }
        }
        file->lock = SQLITE_LOCK_SHARED;
        return SQLITE_OK;
}

static int main_lock(sqlite3_file *f, int level) {
        DbFile *file = from_file(f);
        int r;

        if (file->lock >= level)
                return SQLITE_OK;
        if (level == SQLITE_LOCK_SHARED)
                return lock_shared(file);
        if (!file->writable)
                return SQLITE_READONLY;

        if (level == SQLITE_LOCK_RESERVED) {
                r = set_lock(file, F_WRLCK, RESERVED_BYTE, 1);
                if (r == SQLITE_OK)
                        file->lock = level;
                return r;
        }

        /* Pending stays when the readers are not gone yet: no new ones come. */
        if (file->lock < SQLITE_LOCK_PENDING) {
                r = set_lock(file, F_WRLCK, PENDING_BYTE, 1);
                if (r != SQLITE_OK)
                        return r;
                file->lock = SQLITE_LOCK_PENDING;
        }
        r = set_lock(file, F_WRLCK, SHARED_FIRST, SHARED_SIZE);
        if (r == SQLITE_OK)
                file->lock = SQLITE_LOCK_EXCLUSIVE;
        return r;
}

static int main_unlock(sqlite3_file *f, int level) {
        DbFile *file = from_file(f);

        if (file->lock <= level)
                return SQLITE_OK;
        if (level == SQLITE_LOCK_SHARED) {
                (void) set_lock(file, F_RDLCK, SHARED_FIRST, SHARED_SIZE);
                (void) set_lock(file, F_UNLCK, PENDING_BYTE, 2);
        } else
                (void) set_lock(file, F_UNLCK, PENDING_BYTE, 2 + SHARED_SIZE);
        file->lock = level;
        return SQLITE_OK;
}

static int main_check_reserved(sqlite3_file *f, int *ret) {
        DbFile *file = from_file(f);

        *ret = file->lock >= SQLITE_LOCK_RESERVED || is_reserved(file);
        return SQLITE_OK;
}

/* ---- what both have in common ---- */

static int file_close(sqlite3_file *f) {
        (void) f;
        return SQLITE_OK; /* dbfile_free() does */
}

static int file_sync(sqlite3_file *f, int flags) {
        (void) f;
        (void) flags;
        return SQLITE_OK;
}

static int no_lock(sqlite3_file *f, int level) {
        (void) f;
        (void) level;
        return SQLITE_OK;
}

static int no_check_reserved(sqlite3_file *f, int *ret) {
        (void) f;
        *ret = 0;
        return SQLITE_OK;
}

/* Of a commit, or of its undoing, all pages are written, also where nothing is synced. What fails here fails that. */
static int main_control(sqlite3_file *f, int operation, void *argument) {
        (void) argument;
        return operation == SQLITE_FCNTL_SYNC ? pages_flush(from_file(f)) : SQLITE_NOTFOUND;
}

static int file_control(sqlite3_file *f, int operation, void *argument) {
        (void) f;
        (void) operation;
        (void) argument;
        return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *f) {
        (void) f;
        return 512;
}

static int characteristics(sqlite3_file *f) {
        (void) f;
        return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods main_methods = {
        .iVersion = 1, /* no shared memory: a database in WAL mode does not open */
        .xClose = file_close,
        .xRead = main_read,
        .xWrite = main_write,
        .xTruncate = main_truncate,
        .xSync = file_sync,
        .xFileSize = main_size,
        .xLock = main_lock,
        .xUnlock = main_unlock,
        .xCheckReservedLock = main_check_reserved,
        .xFileControl = main_control,
        .xSectorSize = sector_size,
        .xDeviceCharacteristics = characteristics,
};

static const sqlite3_io_methods journal_methods = {
        .iVersion = 1,
        .xClose = file_close,
        .xRead = journal_read,
        .xWrite = journal_write,
        .xTruncate = journal_truncate,
        .xSync = file_sync,
        .xFileSize = journal_size,
        .xLock = no_lock,
        .xUnlock = no_lock,
        .xCheckReservedLock = no_check_reserved,
        .xFileControl = file_control,
        .xSectorSize = sector_size,
        .xDeviceCharacteristics = characteristics,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags) {
        DbFile *file = vfs->pAppData;
        OpenFile *open_file = (OpenFile *) f;

        open_file->base.pMethods = NULL;
        open_file->file = file;
        if ((flags & SQLITE_OPEN_MAIN_DB) && name && strcmp(name, DB_NAME) == 0)
                open_file->base.pMethods = &main_methods;
        else if ((flags & SQLITE_OPEN_MAIN_JOURNAL) && file->writable)
                open_file->base.pMethods = &journal_methods;
        else
                return SQLITE_CANTOPEN; /* temporary files and everything attached */
        if (ret_flags)
                *ret_flags = flags;
        return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_dir) {
        (void) sync_dir;
        return strcmp(name, JOURNAL_NAME) == 0 ? journal_drop(vfs->pAppData) : SQLITE_IOERR_DELETE_NOENT;
}

/* SQLite asks for journals and WALs. The reader has its own way with the one, and the other is never ours. */
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret) {
        DbFile *file = vfs->pAppData;

        (void) flags;
        *ret = strcmp(name, JOURNAL_NAME) == 0 && file->journal_len > 0;
        return SQLITE_OK;
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *ret) {
        (void) vfs;
        sqlite3_snprintf(size, ret, "%s", name);
        return SQLITE_OK;
}

int dbfile_connect(DbFile *file, sqlite3 **ret) {
        sqlite3_vfs *base = sqlite3_vfs_find(NULL);
        int r;

        if (!base)
                return SQLITE_ERROR;
        file->vfs = *base; /* time, randomness and sleep are as good as any */
        file->vfs.iVersion = 1;
        file->vfs.pNext = NULL;
        file->vfs.szOsFile = sizeof(OpenFile);
        file->vfs.mxPathname = 64;
        file->vfs.zName = file->vfs_name;
        file->vfs.pAppData = file;
        file->vfs.xOpen = vfs_open;
        file->vfs.xDelete = vfs_delete;
        file->vfs.xAccess = vfs_access;
        file->vfs.xFullPathname = vfs_full_pathname;
        file->vfs.xDlOpen = NULL;
        (void) snprintf(file->vfs_name, sizeof(file->vfs_name), "ringside-%p", (void *) file);

        r = sqlite3_vfs_register(&file->vfs, /* makeDflt= */ 0);
        if (r != SQLITE_OK)
                return r;
        r = sqlite3_open_v2(DB_NAME, ret,
                            SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                                    (file->writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY),
                            file->vfs_name);
        (void) sqlite3_vfs_unregister(&file->vfs); /* the connection keeps the pointer */
        return r;
}

/* ---- by name ---- */

static int dbfile_new(DbFile **ret, const char *path) {
        _cleanup_(dbfile_freep) DbFile *file = calloc(1, sizeof(DbFile));
        _cleanup_free_ char *dir = strdup(path), *base = strdup(path);

        if (!file || !dir || !base)
                return -ENOMEM;
        file->dir_fd = file->fd = file->journal_fd = -1;

        if (path[0] == 0 || path[strlen(path) - 1] == '/')
                return path[0] == 0 ? -ENOENT : -EISDIR;
        file->name = strdup(basename(base));
        if (!file->name || asprintf(&file->journal_name, "%s-journal", file->name) < 0)
                return -ENOMEM;
        file->dir_fd = open(dirname(dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (file->dir_fd < 0)
                return -errno;
        *ret = TAKE_PTR(file);
        return 0;
}

/* With one of these beside a new database, SQLite would take it for a part of it. */
static int find_planted(const DbFile *file, const char **ret) {
        static const char *const suffixes[] = { "-journal", "-wal", "-shm" };

        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                _cleanup_free_ char *name = NULL;
                struct stat st;

                if (asprintf(&name, "%s%s", file->name, suffixes[i]) < 0)
                        return -ENOMEM;
                if (fstatat(file->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                        *ret = suffixes[i];
                        return -EEXIST;
                }
                if (errno != ENOENT)
                        return -errno;
        }
        return 0;
}

int dbfile_create(DbFile **ret, const char *path, RingsideError *error) {
        _cleanup_(dbfile_freep) DbFile *file = NULL;
        const char *suffix = NULL;
        struct stat st;
        int r;

        r = dbfile_new(&file, path);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot create %s: %s", path, strerror(-r));
        r = find_planted(file, &suffix);
        if (r < 0)
                return suffix ? error_set(error, r, "Remove it, or choose another name.",
                                          "Refusing to create %s: %s%s lies beside it", path, path, suffix)
                              : error_set(error, r, NULL, "Cannot create %s: %s", path, strerror(-r));

        file->fd = openat(file->dir_fd, file->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file->fd < 0) {
                r = -errno;
                return error_set(error, r,
                                 r == -EEXIST ? "Choose another name with -o, or remove it."
                                              : "Choose a place you may write to with -o.",
                                 "Cannot create %s: %s", path, strerror(-r));
        }
        if (fstat(file->fd, &st) < 0)
                return error_set(error, -errno, NULL, "Cannot stat %s: %s", path, strerror(errno));
        file->owner = st.st_uid;
        file->writable = true;
        *ret = TAKE_PTR(file);
        return 0;
}

static int open_existing(DbFile **ret, const char *path, int mode, RingsideError *error) {
        _cleanup_(dbfile_freep) DbFile *file = NULL;
        _cleanup_free_ char *real = realpath(path, NULL); /* the journal lies beside the file, not beside a link to it */
        struct stat st;
        int r;

        r = real ? dbfile_new(&file, real) : -errno;
        if (r < 0)
                return error_set(error, r, NULL, "Cannot open %s: %s", path, strerror(-r));
        file->fd = openat(file->dir_fd, file->name, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file->fd < 0) {
                r = -errno;
                return error_set(error, r, NULL, "Cannot open %s: %s", path, strerror(-r));
        }
        if (fstat(file->fd, &st) < 0)
                return error_set(error, -errno, NULL, "Cannot stat %s: %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return error_set(error, RINGSIDE_E_RECORDING, NULL, "%s is no recording: not a regular file", path);
        file->owner = st.st_uid;
        *ret = TAKE_PTR(file);
        return 0;
}

int dbfile_open(DbFile **ret, const char *path, RingsideError *error) {
        return open_existing(ret, path, O_RDONLY, error);
}

int dbfile_open_for_update(DbFile **ret, const char *path, RingsideError *error) {
        _cleanup_(dbfile_freep) DbFile *file = NULL;
        const char *suffix = NULL;
        int r;

        r = open_existing(&file, path, O_RDWR, error);
        if (r < 0)
                return r;
        r = find_planted(file, &suffix);
        if (r < 0)
                return suffix ? error_set(error, r, "Close what has it open, or remove it where nothing has.",
                                          "Cannot add to %s: %s%s lies beside it", path, path, suffix)
                              : error_set(error, r, NULL, "Cannot open %s: %s", path, strerror(-r));
        file->writable = true;
        *ret = TAKE_PTR(file);
        return 0;
}

int dbfile_open_for_rollback(DbFile **ret, const char *path, RingsideError *error) {
        return open_existing(ret, path, O_RDWR, error);
}

/* ---- undoing on disk ---- */

static int lock_for_rollback(DbFile *file) {
        int r = set_lock(file, F_WRLCK, PENDING_BYTE, 2 + SHARED_SIZE);

        return r == SQLITE_OK ? 0 : r == SQLITE_BUSY ? -EBUSY : -file->last_errno;
}

/* Can be done again if it ends half-way: the journal has all that is needed until it is removed. */
static int write_back(DbFile *file) {
        const Rollback *rollback = &file->rollback;
        uint64_t size = rollback->n_pages * rollback->page_size;
        _cleanup_free_ uint8_t *page = malloc(rollback->page_size);
        TableEntry entry;
        size_t pos = 0;

        if (!page)
                return -ENOMEM;
        if (size > dbfile_get_size(file))
                return -EBADMSG; /* no writer of ours makes it smaller */
        while (table_next(&rollback->pages, &pos, &entry)) {
                ssize_t n;
                int r;

                if (entry.key.a > rollback->n_pages)
                        continue;
                n = read_all(rollback->fd, page, rollback->page_size, entry.value);
                if (n != (ssize_t) rollback->page_size)
                        return n < 0 ? (int) n : -EIO;
                r = write_all(file->fd, page, rollback->page_size, (entry.key.a - 1) * rollback->page_size);
                if (r < 0)
                        return r;
        }
        return ftruncate(file->fd, (off_t) size) < 0 ? -errno : 0;
}

/* -EEXIST: it is not one to be undone. */
static int undo(DbFile *file) {
        struct stat st;
        int r;

        r = lock_for_rollback(file);
        if (r < 0)
                return r;
        if (fstatat(file->dir_fd, file->journal_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!is_own(file, &st))
                return -EEXIST;
        /* Its writer was killed before it had written anything, or this is what was checked. */
        if (st.st_size > 0) {
                if (file->rollback.page_size == 0 || !file->rollback.is_unsynced)
                        return -EEXIST;
                if (!is_as_read(file, &st))
                        return -EBUSY;
                r = write_back(file);
                if (r < 0)
                        return r;
        }
        return unlinkat(file->dir_fd, file->journal_name, 0) < 0 ? -errno : 0;
}

int dbfile_roll_back(DbFile *file, const char *path, RingsideError *error) {
        int r = undo(file);

        switch (r) {
        case 0:
                return 0;
        case -EEXIST:
                if (file->rollback.page_size > 0)
                        return error_set(error, r, "Another program left it: sqlite3 rolls it back.",
                                         "Cannot add to %s: %s-journal lies beside it", path, path);
                return error_set(error, r, "It is no journal of the owner of the recording: remove it, or move it away.",
                                 "Cannot add to %s: %s-journal lies beside it", path, path);
        case -EBUSY:
                return error_set(error, r, "Try again.", "%s is being read or written", path);
        case -EBADMSG:
                return error_set(error, RINGSIDE_E_RECORDING, "They are not of one recording.",
                                 "%s is damaged: it is smaller than %s-journal says", path, path);
        default:
                return error_set(error, r, NULL, "Cannot undo what was begun in %s: %s", path, strerror(-r));
        }
}

bool dbfile_ignores_journal(const DbFile *file) {
        return file->ignores_journal;
}

DbFile *dbfile_free(DbFile *file) {
        if (!file)
                return NULL;
        close_fd(file->journal_fd); /* still there: a commit that could be neither finished nor undone. A reader can. */
        close_fd(file->fd);
        close_fd(file->dir_fd);
        rollback_done(&file->rollback);
        free(file->journal);
        free(file->journal_name);
        free(file->name);
        free(file);
        return NULL;
}

int dbfile_get_errno(const DbFile *file) {
        return file->last_errno;
}

uint64_t dbfile_get_size(const DbFile *file) {
        struct stat st;

        return fstat(file->fd, &st) < 0 ? 0 : (uint64_t) st.st_size;
}

ssize_t dbfile_peek(const DbFile *file, void *buffer, size_t size) {
        return read_all(file->fd, buffer, size, 0);
}

void dbfile_unlink(DbFile *file) {
        (void) unlinkat(file->dir_fd, file->name, 0);
}
