/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Files are found by what a line of maps says: device and inode. Such a pair identifies a file only as
 * long as somebody holds it, so with every refresh the file is opened and compared again, and one
 * whose size or modification time is not that of the file known before is another file. Those that are met again and again,
 * as libraries where many processes are started, are held for that time, and need not be looked for.
 *
 * What keeps memory in bounds are the caps of the readers, and that files which nobody has mapped any more are dropped
 * once there are many. And since who owns a file sets its time as often as he likes, there are only so many versions of
 * one.
 */

#include "symbolizer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "file-identity.h"
#include "jitdump.h"
#include "symbolizer-internal.h"
#include "vdso.h"

#define N_BUCKETS 4096U
#define NSEC_PER_SEC UINT64_C(1000000000)
#define TICK_MAX (NSEC_PER_SEC / 100)
/* Of one file. More only a second after the last one, and each next one after twice that time. */
#define VERSIONS_MAX 8U
#define OPEN_MAX_ 256U /* files kept open at once, of the 1,024 fds a process usually has */
#define HELD_MAX 64U   /* and those that have been read */
#define FDS_MAX 64     /* of another process, looked through for a file that cannot be found otherwise */
#define JIT_MEMORY_MAX ((size_t) 512 << 20)
#define SWEEP_MIN 2048U /* files, as a desktop may have mapped: fewer need not be looked through */

typedef struct InternedName InternedName;

/* One line of maps on its way to a file. */
typedef struct FileQuery {
        Refresh *refresh;
        const MapsLine *line;
        char *path;          /* without " (deleted)" once that is known not to be part of it */
        bool deleted;
        SymbolFile **bucket; /* where it is or will be */
        FileIdentities *identities;
        bool own_path;       /* the path led to it from our own root */
        uint64_t refused_until; /* ns CLOCK_MONOTONIC: it was written too often; 0: not */
        int fd;              /* negative: could not be opened */
        struct stat st;
        uint64_t birth;      /* as a file has it, where it is a new one */
} FileQuery;

struct InternedName {
        InternedName *next;
        char text[];
};

/* An fd without which the numbers could become another's. */
typedef struct HeldFile {
        SymbolFile *file; /* NULL: none */
        int fd;
        bool met; /* since files were let go */
} HeldFile;

struct Symbolizer {
        char *proc, *symbol_dir;
        size_t maps_max;
        SymbolizerReadFunc read; /* NULL: names are read */
        void (*forget)(MappedFile *file, void *userdata);
        void *userdata;
        SymbolFile **files; /* in the order they were first seen */
        size_t n_files, allocated;
        uint64_t last_id;
        FileUser *users;
        size_t sweep_at; /* so many files */
        uint64_t swept;  /* serial of the last sweep */
        SymbolFile *buckets[N_BUCKETS];
        size_t oldest_open; /* index of the first file that may still have an fd */
        size_t n_open;
        HeldFile held[HELD_MAX];
        size_t next_held;
        SymbolFile *unknown, *jit, *vdso, *other_vdso, *vsyscall;
        size_t vdso_size;
        FileIdentities identities;
        InternedName **names; /* a hash table that doubles */
        size_t n_names, n_name_buckets;
        uint64_t serial; /* of the last refresh */
        uint64_t n_refused;
        bool no_map_files; /* we may not use them */
        JitClock jit_clock;
        JitMemory jit_memory;
};

/* A relative one is meant from where we are now. */
static int make_absolute(const char *path, char **ret) {
        _cleanup_free_ char *cwd = NULL;

        if (path[0] == '/')
                return (*ret = strdup(path)) ? 0 : -ENOMEM;
        cwd = getcwd(NULL, 0);
        if (!cwd)
                return -errno;
        return asprintf(ret, "%s/%s", cwd, path) < 0 ? -ENOMEM : 0;
}

DEFINE_CLEANUP(Symbolizer, symbolizer_free)

int symbolizer_new(Symbolizer **ret, const SymbolizerOptions *options) {
        _cleanup_(symbolizer_freep) Symbolizer *s = NULL;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        r = make_absolute(options && options->proc ? options->proc : "/proc", &s->proc);
        if (r < 0)
                return r;
        r = make_absolute(options && options->symbol_dir ? options->symbol_dir : "/usr/lib/debug",
                          &s->symbol_dir);
        if (r < 0)
                return r;
        s->maps_max = options ? options->maps_max : 0;
        s->jit_memory.max = options && options->jit_max != 0 ? options->jit_max : JIT_MEMORY_MAX;
        s->sweep_at = SWEEP_MIN;
        s->read = options ? options->read : NULL;
        s->forget = options ? options->forget : NULL;
        s->userdata = options ? options->userdata : NULL;
        (void) symbolizer_get_jit_clock(s);
        *ret = TAKE_PTR(s);
        return 0;
}

static void let_go(HeldFile *held) {
        if (!held->file)
                return;
        close_fd(held->fd);
        held->file->hold = NULL;
        *held = (HeldFile){};
}

void symbolizer_let_go(Symbolizer *s) {
        for (size_t i = 0; i < HELD_MAX; i++)
                if (s->held[i].met)
                        s->held[i].met = false;
                else
                        let_go(&s->held[i]);
}

Symbolizer *symbolizer_free(Symbolizer *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < HELD_MAX; i++)
                let_go(&s->held[i]);
        for (size_t i = 0; i < s->n_files; i++)
                symbol_file_free(s->files[i]);
        for (size_t i = 0; i < s->n_name_buckets; i++)
                for (InternedName *name = s->names[i], *next; name; name = next) {
                        next = name->next;
                        free(name);
                }
        free(s->files);
        free(s->names);
        free(s->proc);
        free(s->symbol_dir);
        free(s);
        return NULL;
}

uint64_t symbolizer_get_n_refused(Symbolizer *s) {
        return s->n_refused;
}

void symbolizer_note_refused(Symbolizer *s) {
        s->n_refused++;
}

bool symbolizer_is_jit_memory_short(const Symbolizer *s) {
        return s->jit_memory.used > s->jit_memory.max / 2;
}

JitMemory *symbolizer_get_jit_memory(Symbolizer *s) {
        return &s->jit_memory;
}

const char *symbolizer_get_proc(const Symbolizer *s) {
        return s->proc;
}

size_t symbolizer_get_maps_max(const Symbolizer *s) {
        return s->maps_max;
}

bool symbolizer_wants_names(const Symbolizer *s) {
        return !s->read;
}

const JitClock *symbolizer_get_jit_clock(Symbolizer *s) {
        JitClockReading now;

        jit_clock_read(&now);
        jit_clock_note(&s->jit_clock, &now);
        return &s->jit_clock;
}

uint64_t symbolizer_get_serial(Symbolizer *s) {
        return ++s->serial;
}

/* Takes file over and gives it its number. */
static int add_file(Symbolizer *s, SymbolFile *file) {
        if (s->n_files == s->allocated) {
                size_t allocated = MAX(64, s->allocated * 2);
                SymbolFile **files = reallocarray(s->files, allocated, sizeof(SymbolFile *));

                if (!files)
                        return -ENOMEM;
                s->files = files;
                s->allocated = allocated;
        }
        file->index = s->n_files;
        s->files[s->n_files++] = file;
        file->mapped.id = ++s->last_id;
        return 0;
}

/* Those that exist once. */
static int get_special(Symbolizer *s, SymbolFile **slot, enum SymbolFileKind kind, const char *path,
                       SymbolFile **ret) {
        _cleanup_(symbol_file_freep) SymbolFile *file = NULL;
        int r;

        if (!*slot) {
                r = symbol_file_new(&file, kind, path);
                if (r < 0)
                        return r;
                r = add_file(s, file);
                if (r < 0)
                        return r;
                *slot = TAKE_PTR(file);
        }
        *ret = *slot;
        return 0;
}

int symbolizer_get_unknown(Symbolizer *s, SymbolFile **ret) {
        return get_special(s, &s->unknown, SYMBOL_FILE_OTHER, "[unknown]", ret);
}

static int get_vdso(Symbolizer *s, const MapsLine *line, SymbolFile **ret) {
        ElfFile *elf;
        int r;

        if (!s->vdso) {
                r = get_special(s, &s->vdso, SYMBOL_FILE_VDSO, "[vdso]", ret);
                if (r < 0)
                        return r;
        }
        /* Where it could not be had before, for want of memory or a descriptor, it may be now. */
        if (s->vdso_size == 0) {
                r = vdso_open(&elf, &s->vdso_size);
                if (r == -ENOMEM)
                        return r;
                if (r == 0) {
                        symbol_file_take_elf(s->vdso, elf);
                        s->vdso->mapped.size = s->vdso_size;
                }
        }
        if (vdso_is_ours(line->start, line->end, s->vdso_size)) {
                *ret = s->vdso;
                return 0;
        }
        return get_special(s, &s->other_vdso, SYMBOL_FILE_OTHER, "[vdso]", ret);
}

static bool has_prefix(const char *path, const char *prefix) {
        return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* No file: all but the kernel's own is memory that a program may have filled with code. */
static int get_memory(Symbolizer *s, const MapsLine *line, const char *path, SymbolFile **ret) {
        if (strcmp(path, "[vdso]") == 0)
                return get_vdso(s, line, ret);
        if (strcmp(path, "[vsyscall]") == 0)
                return get_special(s, &s->vsyscall, SYMBOL_FILE_OTHER, "[vsyscall]", ret);
        return get_special(s, &s->jit, SYMBOL_FILE_JIT, "[jit]", ret);
}

/* Files without a name, as some JITs map code: twice, writable and executable. */
static bool is_memory_file(const char *path) {
        return has_prefix(path, "/memfd:") || has_prefix(path, "/dev/zero") || has_prefix(path, "/SYSV") ||
               has_prefix(path, "/anon_hugepage");
}

static SymbolFile **get_bucket(Symbolizer *s, uint32_t dev_major, uint32_t dev_minor, uint64_t inode) {
        uint64_t device = (uint64_t) dev_major << 40 ^ (uint64_t) dev_minor << 20;
        uint64_t hash = (inode ^ device) * UINT64_C(0x9e3779b97f4a7c15);

        return &s->buckets[hash >> 52 & (N_BUCKETS - 1)];
}

static bool is_file_of(const SymbolFile *file, const MapsLine *line) {
        return file->mapped.inode == line->inode && file->mapped.dev_major == line->dev_major &&
               file->mapped.dev_minor == line->dev_minor;
}

static bool is_same_inode(const SymbolFile *file, const struct stat *st) {
        return file->opened && file->st_dev == st->st_dev && file->st_ino == st->st_ino;
}

static bool is_same_file(const SymbolFile *file, const struct stat *st) {
        return is_same_inode(file, st) && file->mapped.size == (uint64_t) st->st_size &&
               file->mtime.tv_sec == st->st_mtim.tv_sec && file->mtime.tv_nsec == st->st_mtim.tv_nsec;
}

static uint64_t to_ns(int64_t seconds, uint64_t ns) {
        return seconds < 0 ? 0 : (uint64_t) seconds * NSEC_PER_SEC + ns;
}

/*
 * A file that was made or written after the mapping was seen is not what was mapped, though it may have got
 * the same inode. Times in inodes are as exact as the kernel's tick. mtime, birth: ns CLOCK_REALTIME.
 */
static bool is_younger(const Refresh *refresh, uint64_t mtime, uint64_t birth) {
        struct timespec boot, real;
        uint64_t limit;

        if (refresh->told_at == 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0 || clock_gettime(CLOCK_REALTIME, &real) < 0)
                return false;
        limit = to_ns(real.tv_sec, (uint64_t) real.tv_nsec) - to_ns(boot.tv_sec, (uint64_t) boot.tv_nsec) +
                refresh->told_at + TICK_MAX;
        return mtime > limit || birth > limit;
}

static bool is_too_young(const Refresh *refresh, int fd) {
        struct statx stx;

        if (refresh->told_at == 0 || statx(fd, "", AT_EMPTY_PATH, STATX_BTIME | STATX_MTIME, &stx) < 0)
                return false;
        return is_younger(refresh, to_ns(stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec),
                          stx.stx_mask & STATX_BTIME ? to_ns(stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec) : 0);
}

/* It was opened since, by what is mapped now. */
static bool is_younger_file(const Refresh *refresh, const SymbolFile *file) {
        return file->opened && is_younger(refresh, to_ns(file->mtime.tv_sec, (uint64_t) file->mtime.tv_nsec), file->birth);
}

/* What fstat() says is what it said of a file that was opened for the same numbers. */
static SymbolFile *find_opened(const FileQuery *q) {
        for (SymbolFile *file = *q->bucket; file; file = file->next)
                if (is_file_of(file, q->line) && !file->written_over && is_same_file(file, &q->st))
                        return file;
        return NULL;
}

static uint64_t get_birth(int fd) {
        struct statx stx;

        if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) < 0 || !(stx.stx_mask & STATX_BTIME))
                return 0;
        return to_ns(stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
}

/*
 * Until when it is one that is written too often, 0: it is none. A file that only has the number of one that was
 * removed, as compilers' do, is none of its versions.
 */
static uint64_t too_often_until(const FileQuery *q, uint64_t now) {
        uint64_t last = 0, until;
        unsigned n = 0;

        for (const SymbolFile *file = *q->bucket; file; file = file->next)
                if (is_file_of(file, q->line) && is_same_inode(file, &q->st) && file->birth == q->birth) {
                        last = MAX(last, file->made);
                        n++;
                }
        until = n < VERSIONS_MAX ? 0 : last + (NSEC_PER_SEC << MIN(n - VERSIONS_MAX, 30U));
        return now < until ? until : 0;
}

/*
 * Takes what a path led to over, and opens it only where it is what is mapped. What was opened before need not be
 * opened again, and how devices are called, which takes long to ask, was looked up then.
 */
static int open_proven(FileQuery *q, int path_fd_) {
        _cleanup_close_ int path_fd = path_fd_;
        const SymbolFile *opened;

        if (path_fd < 0)
                return path_fd;
        if (fstat(path_fd, &q->st) < 0)
                return -errno;
        if (is_too_young(q->refresh, path_fd))
                return -ESTALE;
        opened = find_opened(q);
        if (opened && !opened->forgotten)
                return TAKE_FD(path_fd);
        if (!opened && !file_identity_fits(q->identities, path_fd, &q->st, q->line, &q->refresh->dir))
                return -ESTALE;
        return reopen_regular(TAKE_FD(path_fd), &q->st);
}

/* A program whose file has no name any more, while it runs. */
static int open_by_exe(FileQuery *q) {
        int fd;

        if (q->refresh->dir.fd < 0)
                return -ENOENT;
        fd = openat(q->refresh->dir.fd, "exe", O_PATH | O_CLOEXEC);
        return open_proven(q, fd < 0 ? -errno : fd);
}

/* Where no path leads to it any more; but only the privileged may use it. */
static int open_by_range(Symbolizer *s, FileQuery *q) {
        char name[64];
        int fd;

        if (s->no_map_files || q->refresh->dir.fd < 0)
                return -EPERM;
        snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, q->line->start, q->line->end);
        fd = openat(q->refresh->dir.fd, name, O_PATH | O_CLOEXEC);
        if (fd < 0 && errno == EPERM)
                s->no_map_files = true;
        if (fd < 0)
                return -errno;
        /* What was told may have been of another process with this number. */
        return q->refresh->told_at == 0 ? reopen_regular(fd, &q->st) : open_proven(q, fd);
}

/* One that has no name any more, while the process has it open. */
static int open_by_fd(FileQuery *q) {
        for (int i = 0; i < FDS_MAX && q->refresh->dir.fd >= 0; i++) {
                struct statx stx;
                char name[32];
                int fd;

                snprintf(name, sizeof(name), "fd/%d", i);
                fd = openat(q->refresh->dir.fd, name, O_PATH | O_CLOEXEC);
                if (fd >= 0 && statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &stx) == 0 &&
                    stx.stx_ino == q->line->inode) {
                        fd = open_proven(q, fd);
                        if (fd >= 0)
                                return fd;
                }
                close_fd(fd);
        }
        return -ENOENT;
}

/*
 * By its path in the process's root; or in our own, where the kernel's name for it starts if the
 * process lives in a chroot. The path is as in maps: " (deleted)" may be part of the name.
 */
static int open_by_path(FileQuery *q) {
        int fd;

        fd = open_proven(q, process_dir_find_file(&q->refresh->dir, q->path, /* nofollow= */ false));
        if (fd >= 0)
                return fd;
        fd = openat(AT_FDCWD, q->path, O_PATH | O_CLOEXEC);
        fd = open_proven(q, fd < 0 ? -errno : fd);
        q->own_path = fd >= 0;
        return fd;
}

/*
 * Whether a line can only mean this file, if it is still there as it was. Where devices are not those of files the same
 * numbers may be of several, one of them at each path; and where a path leads in a process has to be looked at, while it
 * can be.
 */
static bool is_nothing_else(const SymbolFile *file, const FileQuery *q) {
        if (!is_file_of(file, q->line) || !file->opened || file->forgotten || strcmp(file->mapped.path, q->path) != 0 ||
            (q->refresh->told_at != 0 && q->refresh->told_at < file->proven))
                return false;
        return (file->st_ino == q->line->inode && major(file->st_dev) == q->line->dev_major &&
                minor(file->st_dev) == q->line->dev_minor) ||
               (q->refresh->gone && file->own_path);
}

static SymbolFile *find_held(const FileQuery *q) {
        for (SymbolFile *file = *q->bucket; file; file = file->next) {
                struct stat st;

                if (!is_nothing_else(file, q) ||
                    (file->hold ? fstat(file->hold->fd, &st) : file->elf ? elf_file_stat(file->elf, &st) : -1) < 0 ||
                    !is_same_file(file, &st))
                        continue;
                if (file->hold)
                        file->hold->met = true;
                return file;
        }
        return NULL;
}

bool symbolizer_forget_rewritten(Symbolizer *s, SymbolFile *file, Refresh *refresh) {
        _cleanup_close_ int path_fd = -1;
        int fd = file->hold ? file->hold->fd : -1;
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        struct stat st;

        if (!file->opened) {
                if (file->refused_until == 0 || now < file->refused_until)
                        return false;
                file->forgotten = true;
                return true;
        }
        /* Another one stood in it then, whatever was read of what is mapped now. */
        if (is_younger_file(refresh, file))
                return true;
        /* It was still that after it was told of. */
        if ((refresh->told_at != 0 && refresh->told_at <= file->same) ||
            (file->checked != 0 && now < file->checked + TICK_MAX))
                return false;
        if (fd < 0) {
                if (!refresh->gone)
                        process_dir_find(&refresh->dir, s->proc, refresh->pid);
                fd = path_fd = process_dir_find_file(&refresh->dir, file->mapped.path, /* nofollow= */ false);
        }
        /* What this process's path leads to, if anywhere, says nothing to others that have the file. */
        if (fd < 0 || fstat(fd, &st) < 0 || !is_same_inode(file, &st))
                return false;
        if (is_same_file(file, &st) && !file->written_over) {
                file->checked = now;
                file->same = now_ns(CLOCK_BOOTTIME);
                return false;
        }
        file->forgotten = file->written_over = true;
        return true;
}

/* Takes fd over. */
static void hold(Symbolizer *s, SymbolFile *file, int fd) {
        HeldFile *held = file->hold ?: &s->held[s->next_held++ % HELD_MAX];

        let_go(held);
        *held = (HeldFile){ .file = file, .fd = fd, .met = true };
        file->hold = held;
}

/* Met in this very refresh: nothing needs to be opened again. */
static SymbolFile *find_seen(const FileQuery *q) {
        for (SymbolFile *file = *q->bucket; file; file = file->next)
                if (is_file_of(file, q->line) && file->seen == q->refresh->serial && !file->forgotten)
                        return file;
        return NULL;
}

/*
 * The file that was opened. Where none could be, the process must have had it all the time, or
 * it is one that could not be opened before either.
 */
static SymbolFile *find_known(const FileQuery *q) {
        if (q->fd >= 0)
                return find_opened(q);
        for (SymbolFile *file = *q->bucket; file; file = file->next)
                if (is_file_of(file, q->line) && !file->written_over && !is_younger_file(q->refresh, file) &&
                    (!file->opened || (file->held == q->refresh->serial && q->refused_until == 0)) &&
                    strcmp(file->mapped.path, q->path) == 0)
                        return file;
        return NULL;
}

static int read_other(Symbolizer *s, SymbolFile *file) {
        int r;

        if (file->loaded || !file->elf)
                return 0;
        r = s->read(&file->mapped, file->elf, s->userdata);
        if (r == -ENOMEM)
                return r;
        file->loaded = true;
        elf_file_close(file->elf);
        return r;
}

/* What stands in it by now is not what was mapped, and that is gone: it has no names. It is opened again where it is met. */
static bool has_changed(const SymbolFile *file) {
        struct stat st;

        return file->written_over || (elf_file_stat(file->elf, &st) >= 0 && !is_same_file(file, &st));
}

static int load(Symbolizer *s, SymbolFile *file) {
        bool open = file->elf && !file->loaded && file->kind == SYMBOL_FILE_ELF;
        int r;

        if (open && has_changed(file)) {
                file->loaded = file->forgotten = true;
                elf_file_close(file->elf);
                s->n_open--;
                return 0;
        }
        r = s->read ? read_other(s, file) : symbol_file_load(file, s->proc, s->symbol_dir);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                s->n_refused++;
        if (open)
                s->n_open--;
        return 0;
}

int symbolizer_read_file(Symbolizer *s, MappedFile *file) {
        return load(s, (SymbolFile *) file);
}

void symbolizer_forget_file(MappedFile *mapped) {
        SymbolFile *file = (SymbolFile *) mapped;

        if (file->kind == SYMBOL_FILE_VDSO)
                file->loaded = false; /* it is in our own memory */
        else if (file->loaded)
                file->forgotten = true;
}

/* Those that have been open for longest read their symbols now. */
static int limit_open(Symbolizer *s) {
        while (s->n_open > OPEN_MAX_ && s->oldest_open < s->n_files) {
                int r = load(s, s->files[s->oldest_open]);

                if (r < 0)
                        return r;
                s->oldest_open++;
        }
        return 0;
}

/* A file that is no ELF file is mapped all the same, without names. Keeps the fd where it is one. */
static int read_elf(SymbolFile *file, FileQuery *q) {
        ElfFile *elf;
        int r;

        file->opened = true;
        file->st_dev = q->st.st_dev;
        file->st_ino = q->st.st_ino;
        file->mtime = q->st.st_mtim;
        file->made = now_ns(CLOCK_MONOTONIC);
        file->same = now_ns(CLOCK_BOOTTIME);
        file->mapped.size = (uint64_t) q->st.st_size;
        r = elf_file_new_take_fd(&elf, q->fd);
        if (r < 0)
                return r;
        TAKE_FD(q->fd);
        symbol_file_take_elf(file, elf);
        return 0;
}

static int new_file(Symbolizer *s, FileQuery *q, SymbolFile **ret) {
        _cleanup_(symbol_file_freep) SymbolFile *file = NULL;
        int r;

        r = symbol_file_new(&file, SYMBOL_FILE_ELF, q->path);
        if (r < 0)
                return r;
        file->mapped.dev_major = q->line->dev_major;
        file->mapped.dev_minor = q->line->dev_minor;
        file->mapped.inode = q->line->inode;
        file->mapped.deleted = q->deleted;
        file->birth = q->birth;
        r = q->fd >= 0 ? read_elf(file, q) : -ESTALE;
        if (r == -ENOMEM)
                return r;
        /* A program may be started from memory; what is no ELF file there is a JIT's. */
        if (r < 0 && is_memory_file(q->path))
                file->kind = SYMBOL_FILE_JIT;
        else if (r < 0 && jitdump_path_get_pid(q->path, strlen(q->path)) > 0)
                file->kind = SYMBOL_FILE_OTHER; /* mapped to be found, not to be run */
        else if (r < 0)
                s->n_refused++;
        r = add_file(s, file);
        if (r < 0)
                return r;
        file->next = *q->bucket;
        *q->bucket = file;
        s->n_open += file->elf != NULL;
        *ret = TAKE_PTR(file);
        return limit_open(s);
}

/* What is kept of it stays the same file's; only its fd was closed. */
static int open_again(Symbolizer *s, SymbolFile *file, FileQuery *q) {
        ElfFile *before = file->elf;
        int r;

        r = read_elf(file, q);
        if (r == -ENOMEM)
                return r;
        file->forgotten = false;
        if (r < 0)
                return 0;
        elf_file_free(before);
        file->loaded = false;
        s->n_open++;
        s->oldest_open = MIN(s->oldest_open, file->index);
        return limit_open(s);
}

/* It says nothing of the file. */
static bool is_for_now(int r) {
        return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

static int get_mapped(Symbolizer *s, FileQuery *q, SymbolFile **ret) {
        uint64_t time = q->refresh->told_at ?: now_ns(CLOCK_BOOTTIME), now = now_ns(CLOCK_MONOTONIC);
        bool for_now, found;
        SymbolFile *file;
        int r;

        q->fd = open_by_path(q);
        for_now = is_for_now(q->fd);
        if (q->fd < 0) {
                q->deleted = maps_path_strip_deleted(q->path);
                q->fd = open_by_range(s, q);
                if (q->fd < 0)
                        q->fd = open_by_exe(q);
        }
        file = find_known(q);
        if (!file && q->fd >= 0) {
                q->birth = get_birth(q->fd);
                q->refused_until = too_often_until(q, now);
        }
        if (q->refused_until != 0) {
                /* Then it has no names: those of another version would be wrong. */
                q->fd = close_fd(q->fd);
                file = find_known(q);
        }
        found = q->fd >= 0;
        if (file)
                r = file->forgotten && q->fd >= 0 ? open_again(s, file, q) : 0;
        else
                r = new_file(s, q, &file);
        if (r >= 0 && q->fd >= 0 && !s->read)
                hold(s, file, TAKE_FD(q->fd));
        close_fd(q->fd);
        if (r < 0)
                return r;
        if (!file->opened) {
                file->forgotten = for_now;
                /* Where it could not be opened now that it may be, it is tried again, but not all the time. */
                if (q->refused_until != 0 || (file->refused_until != 0 && now >= file->refused_until))
                        file->refused_until = q->refused_until ?: now + NSEC_PER_SEC;
        }
        if (found) {
                file->proven = file->proven == 0 ? time : MIN(file->proven, time);
                file->own_path |= q->own_path;
        }
        *ret = file;
        return 0;
}

int symbolizer_get_file(Symbolizer *s, Refresh *refresh, const MapsLine *line, SymbolFile **ret) {
        char path[PATH_MAX + 32];
        FileQuery q = {
                .refresh = refresh,
                .line = line,
                .path = path,
                .bucket = get_bucket(s, line->dev_major, line->dev_minor, line->inode),
                .identities = &s->identities,
                .fd = -1,
        };
        SymbolFile *file;
        int r;

        file = line->inode > 0 ? find_seen(&q) : NULL;
        if (file) {
                *ret = file;
                return 0;
        }
        if (maps_line_get_path(line, path, sizeof(path)) < 0)
                return symbolizer_get_unknown(s, ret);
        if (line->inode == 0 || path[0] != '/')
                return get_memory(s, line, path, ret);
        file = find_held(&q);
        if (!file) {
                r = get_mapped(s, &q, &file);
                if (r < 0)
                        return r;
        }
        if (!file->loaded)
                file->pid = refresh->pid;
        file->seen = refresh->serial;
        *ret = file;
        return 0;
}

int symbolizer_open(Symbolizer *s, Refresh *refresh, const MapsLine *line) {
        char path[PATH_MAX + 32];
        SymbolFile *none = NULL; /* it is opened anew, whatever is known of it */
        FileQuery q = {
                .refresh = refresh,
                .line = line,
                .path = path,
                .bucket = &none,
                .identities = &s->identities,
        };
        int r, fd;

        r = maps_line_get_path(line, path, sizeof(path));
        if (r < 0)
                return r;
        fd = open_by_path(&q);
        if (fd >= 0 || !maps_path_strip_deleted(path))
                return fd;
        fd = open_by_range(s, &q);
        return fd >= 0 ? fd : open_by_fd(&q);
}

int symbolizer_find_name(Symbolizer *s, SymbolFile *file, uint64_t address, const char **ret_name,
                         uint64_t *ret_offset) {
        int r;

        r = load(s, file);
        if (r < 0)
                return r;
        *ret_name = file->symbols ? symbol_table_find(file->symbols, address, ret_offset) : NULL;
        return 0;
}

/* ---- what is forgotten ---- */

void symbolizer_add_user(Symbolizer *s, FileUser *user) {
        user->next = s->users;
        user->previous = &s->users;
        if (user->next)
                user->next->previous = &user->next;
        s->users = user;
}

void symbolizer_remove_user(FileUser *user) {
        *user->previous = user->next;
        if (user->next)
                user->next->previous = user->previous;
}

/* What is not of a file, as [vdso], exists once. */
static bool may_go(const Symbolizer *s, const SymbolFile *file, uint64_t serial) {
        return file->mapped.inode != 0 && file->held != serial && !file->hold && file->seen <= s->swept;
}

static void drop(Symbolizer *s, SymbolFile *file) {
        SymbolFile **p = get_bucket(s, file->mapped.dev_major, file->mapped.dev_minor, file->mapped.inode);

        while (*p != file)
                p = &(*p)->next;
        *p = file->next;
        if (s->forget)
                s->forget(&file->mapped, s->userdata);
        s->n_open -= file->elf && !file->loaded;
        symbol_file_free(file);
}

bool symbolizer_sweep(Symbolizer *s) {
        size_t n = 0, before = s->n_files;
        uint64_t serial;

        if (before < s->sweep_at)
                return false;
        serial = symbolizer_get_serial(s);
        for (const FileUser *user = s->users; user; user = user->next)
                user->hold(user, serial);
        for (size_t i = 0; i < before; i++) {
                SymbolFile *file = s->files[i];

                if (may_go(s, file, serial)) {
                        drop(s, file);
                        continue;
                }
                file->index = n;
                s->files[n++] = file;
        }
        s->n_files = n;
        s->oldest_open = 0;
        s->swept = serial;
        s->sweep_at = MAX(2 * n, (size_t) SWEEP_MIN);
        return n < before;
}

/* ---- names that stay ---- */

static uint64_t hash_string(const char *text) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (; *text; text++)
                hash = (hash ^ (uint8_t) *text) * UINT64_C(0x100000001b3);
        return hash;
}

static int grow_names(Symbolizer *s) {
        size_t n = MAX(256, s->n_name_buckets * 2);
        InternedName **names;

        if (s->n_names < s->n_name_buckets)
                return 0;
        names = calloc(n, sizeof(*names));
        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_name_buckets; i++)
                for (InternedName *name = s->names[i], *next; name; name = next) {
                        InternedName **bucket = &names[hash_string(name->text) & (n - 1)];

                        next = name->next;
                        name->next = *bucket;
                        *bucket = name;
                }
        free(s->names);
        s->names = names;
        s->n_name_buckets = n;
        return 0;
}

int symbolizer_intern(Symbolizer *s, const char *text, const char **ret) {
        size_t size = strlen(text) + 1;
        InternedName *name, **bucket;
        int r;

        r = grow_names(s);
        if (r < 0)
                return r;
        bucket = &s->names[hash_string(text) & (s->n_name_buckets - 1)];
        for (name = *bucket; name; name = name->next)
                if (strcmp(name->text, text) == 0) {
                        *ret = name->text;
                        return 0;
                }
        name = malloc(sizeof(*name) + size);
        if (!name)
                return -ENOMEM;
        memcpy(name->text, text, size);
        name->next = *bucket;
        *bucket = name;
        s->n_names++;
        *ret = name->text;
        return 0;
}
