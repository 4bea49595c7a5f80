/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which recording is meant where none was named: the newest that opens. Of the caller's own: in a directory that
 * others write to, one of theirs that is taken for it would tell what they like.
 */

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "ringside.h"
#include "util.h"

#define SUFFIX ".ringside"

typedef struct Candidate {
        char *name;
        struct timespec modified;
} Candidate;

typedef struct Candidates {
        Candidate *items;
        size_t n, allocated;
} Candidates;

static void candidates_done(Candidates *candidates) {
        for (size_t i = 0; i < candidates->n; i++)
                free(candidates->items[i].name);
        free(candidates->items);
}

static void closedirp(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

static int newer_first(const void *a, const void *b) {
        const Candidate *x = a, *y = b;

        if (x->modified.tv_sec != y->modified.tv_sec)
                return x->modified.tv_sec > y->modified.tv_sec ? -1 : 1;
        if (x->modified.tv_nsec != y->modified.tv_nsec)
                return x->modified.tv_nsec > y->modified.tv_nsec ? -1 : 1;
        return strcmp(y->name, x->name);
}

static int candidates_add(Candidates *candidates, const char *name, const struct stat *st) {
        if (candidates->n == candidates->allocated) {
                size_t allocated = candidates->allocated ? candidates->allocated * 2 : 16;
                Candidate *items = reallocarray(candidates->items, allocated, sizeof(Candidate));

                if (!items)
                        return -ENOMEM;
                candidates->items = items;
                candidates->allocated = allocated;
        }
        candidates->items[candidates->n].name = strdup(name);
        if (!candidates->items[candidates->n].name)
                return -ENOMEM;
        candidates->items[candidates->n++].modified = st->st_mtim;
        return 0;
}

/* A link, too, says what whoever made it likes. */
static bool is_own(int dir_fd, const char *name, int flags, struct stat *ret) {
        return fstatat(dir_fd, name, ret, flags) == 0 && ret->st_uid == geteuid();
}

static int collect(DIR *dir, Candidates *candidates) {
        const struct dirent *entry;
        int r;

        while ((errno = 0, entry = readdir(dir))) {
                size_t len = strlen(entry->d_name);
                struct stat st;

                if (len <= strlen(SUFFIX) || entry->d_name[0] == '.' ||
                    strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) != 0)
                        continue;
                if (!is_own(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW, &st) ||
                    !is_own(dirfd(dir), entry->d_name, 0, &st) || !S_ISREG(st.st_mode))
                        continue;
                r = candidates_add(candidates, entry->d_name, &st);
                if (r < 0)
                        return r;
        }
        if (errno != 0)
                return -errno;
        if (candidates->n > 1)
                qsort(candidates->items, candidates->n, sizeof(Candidate), newer_first);
        return 0;
}

int ringside_recording_find_newest(const char *directory, char **ret_path, RingsideError *error) {
        _cleanup_(candidates_done) Candidates candidates = {};
        _cleanup_(closedirp) DIR *dir = opendir(directory);
        int r;

        r = dir ? 0 : -errno;
        if (r >= 0)
                r = collect(dir, &candidates);
        if (r < 0)
                return error_set(error, r, NULL, "Cannot look for recordings in %s: %s", directory, strerror(-r));

        for (size_t i = 0; i < candidates.n; i++) {
                _cleanup_free_ char *path = NULL;
                RingsideRecording *recording;

                if (asprintf(&path, "%s/%s", directory, candidates.items[i].name) < 0) {
                        path = NULL;
                        return error_set(error, -ENOMEM, NULL, "Out of memory");
                }
                if (ringside_recording_open(&recording, path, NULL) < 0)
                        continue;
                (void) ringside_recording_free(recording);
                *ret_path = TAKE_PTR(path);
                return 0;
        }
        return error_set(error, -ENOENT, "Make one with: ringside record -- COMMAND; another user's has to be named.", "There is no recording of yours in %s%s",
                         directory, candidates.n > 0 ? " that can be opened" : "");
}
