/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * elfutils' client of debuginfod servers. The library is loaded when it is needed, as elfutils itself does: linked, it would
 * bring all that speaks HTTP and TLS into every process of ours.
 */

#include "debuginfod.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <sys/stat.h>

typedef struct Library {
        __typeof__(debuginfod_begin) *begin;
        __typeof__(debuginfod_find_debuginfo) *find_debuginfo;
        __typeof__(debuginfod_set_progressfn) *set_progressfn;
        __typeof__(debuginfod_set_user_data) *set_user_data;
        __typeof__(debuginfod_get_user_data) *get_user_data;
        __typeof__(debuginfod_get_url) *get_url;
} Library;

typedef struct Finding {
        const DebuginfodClient *client;
        Library library;
        bool is_canceled;
} Finding;

/* It is never closed: this process ends. */
static int load(Library *ret) {
        void *handle = dlopen(DEBUGINFOD_SONAME, RTLD_NOW | RTLD_GLOBAL);

        if (!handle)
                return -ENOPKG;
        ret->begin = dlsym(handle, "debuginfod_begin");
        ret->find_debuginfo = dlsym(handle, "debuginfod_find_debuginfo");
        ret->set_progressfn = dlsym(handle, "debuginfod_set_progressfn");
        ret->set_user_data = dlsym(handle, "debuginfod_set_user_data");
        ret->get_user_data = dlsym(handle, "debuginfod_get_user_data");
        ret->get_url = dlsym(handle, "debuginfod_get_url");
        if (!ret->begin || !ret->find_debuginfo || !ret->set_progressfn || !ret->set_user_data || !ret->get_user_data ||
            !ret->get_url)
                return -ENOPKG;
        return 0;
}

/* Until a server has answered a is how often the library has looked, and nothing has come. */
static int report(debuginfod_client *c, long a, long b) {
        __typeof__(debuginfod_get_user_data) *get_user_data = dlsym(RTLD_DEFAULT, "debuginfod_get_user_data");
        Finding *finding = get_user_data(c);
        uint64_t done = finding->library.get_url(c) && a > 0 ? (uint64_t) a : 0;

        finding->is_canceled = finding->client->progress(done, b > 0 ? (uint64_t) b : 0, finding->client->userdata) < 0;
        return finding->is_canceled;
}

/* An empty file says for ten minutes that no server has what was asked for, also where one did not get to its end. */
static void forget_miss(const char *path) {
        struct stat st;

        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
                (void) unlink(path);
}

int debuginfod_client_find(const DebuginfodClient *client, const uint8_t *id, size_t len) {
        Finding finding = { .client = client };
        debuginfod_client *c;
        char max[32];
        int fd, r;

        r = load(&finding.library);
        if (r < 0)
                return r;
        (void) snprintf(max, sizeof(max), "%llu", (unsigned long long) DEBUGINFOD_SIZE_MAX);
        /* The user's own bound may be lower. */
        if (setenv(DEBUGINFOD_URLS_ENV_VAR, client->urls, 1) < 0 || setenv(DEBUGINFOD_MAXSIZE_ENV_VAR, max, 0) < 0)
                return -errno;
        c = finding.library.begin();
        if (!c)
                return -ENOTRECOVERABLE;
        finding.library.set_user_data(c, &finding);
        finding.library.set_progressfn(c, report);
        fd = finding.library.find_debuginfo(c, id, (int) len, NULL);
        if (fd >= 0)
                return fd;
        if (fd == -ENOENT && (finding.is_canceled || finding.library.get_url(c)))
                forget_miss(client->cache_path);
        if (finding.is_canceled)
                return -ECANCELED;
        /* A server has begun to send it: what it says of a file that it has not is no such beginning. */
        return fd == -ENOENT && finding.library.get_url(c) ? -EBADMSG : fd;
}
