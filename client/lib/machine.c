/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All of it is asked for once, when the recording begins. */

#include "machine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "util.h"

#define NSEC_PER_SEC 1000000000LL

void clock_pair_now(ClockPair *ret) {
        struct timespec boottime, realtime;

        (void) clock_gettime(CLOCK_BOOTTIME, &boottime);
        (void) clock_gettime(CLOCK_REALTIME, &realtime);
        ret->boottime = boottime.tv_sec * (uint64_t) NSEC_PER_SEC + boottime.tv_nsec;
        ret->realtime = realtime.tv_sec * NSEC_PER_SEC + realtime.tv_nsec;
}

static int put_format(Store *store, const char *key, const char *format, ...) _printf_(3, 4);

static int put_format(Store *store, const char *key, const char *format, ...) {
        _cleanup_free_ char *value = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&value, format, ap);
        va_end(ap);
        if (r < 0) {
                value = NULL;
                return -ENOMEM;
        }
        return store_put_meta(store, key, value);
}

static int put_boot_id(Store *store) {
        _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        char id[37] = "";

        if (fd < 0 || read(fd, id, sizeof(id) - 1) < 0)
                return 0; /* a container may hide it */
        return store_put_meta(store, "boot_id", id);
}

static bool is_plain(const char *word) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

        return word[0] != 0 && word[strspn(word, plain)] == 0;
}

char *shell_quote(const char *const *argv) {
        char *quoted = NULL;
        size_t size;
        FILE *f = open_memstream(&quoted, &size);

        if (!f)
                return NULL;
        for (size_t i = 0; argv[i]; i++) {
                (void) fputs(i > 0 ? " " : "", f);
                if (is_plain(argv[i])) {
                        (void) fputs(argv[i], f);
                        continue;
                }
                (void) fputc('\'', f);
                for (const char *p = argv[i]; *p; p++)
                        if (*p == '\'')
                                (void) fputs("'\\''", f);
                        else
                                (void) fputc(*p, f);
                (void) fputc('\'', f);
        }
        if (fclose(f) != 0) {
                free(quoted);
                return NULL;
        }
        return quoted;
}

static int put_command(Store *store, const char *const *argv) {
        _cleanup_free_ char *quoted = NULL;

        if (!argv)
                return store_put_meta(store, "command", "");
        quoted = shell_quote(argv);
        return quoted ? store_put_meta(store, "command", quoted) : -ENOMEM;
}

static int put_labels(Store *store, const char *const *labels) {
        int r;

        for (size_t i = 0; labels && labels[i]; i++) {
                const char *equals = strchr(labels[i], '=');
                char key[STORE_COMM_MAX];
                int n;

                if (!equals || equals == labels[i])
                        return -EINVAL;
                n = snprintf(key, sizeof(key), "label.%.*s", (int) (equals - labels[i]), labels[i]);
                if (n < 0 || (size_t) n >= sizeof(key))
                        return -EINVAL;
                r = store_put_meta(store, key, equals + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Where kernel frames were granted, and there turn out to be no names for them, the writer says so. */
static const char *kernel_frames(RingsideSession *session) {
        if (session && ringside_session_has_kernel_frames(session))
                return "yes";
        return session && ringside_session_get_kernel(session) != RINGSIDE_KERNEL_NO ? "denied" : "not asked";
}

static const char *scope(RingsideSession *session) {
        return session && ringside_session_get_scope(session) == RINGSIDE_SCOPE_SYSTEM ? "system" : "own";
}

static int put_session(Store *store, RingsideSession *session) {
        unsigned n = session ? ringside_session_get_n_events(session) : 0;
        RingsideEvent event = { .name = "cpu-clock", .unit = "ns", .value = 99 };
        const char *grant = "own";
        int r;

        if (session && ringside_session_get_helper(session) == RINGSIDE_HELPER_DIRECT)
                grant = "direct";
        r = store_put_meta(store, "grant", grant);
        if (r >= 0)
                r = store_put_meta(store, "scope", scope(session));
        if (r >= 0)
                r = store_put_meta(store, "kernel_frames", kernel_frames(session));
        if (r < 0)
                return r;
        if (!session)
                return store_put_event(store, 0, &event); /* what a session has by default */
        for (unsigned i = 0; i < n; i++) {
                r = ringside_session_get_event(session, i, &event);
                if (r >= 0)
                        r = store_put_event(store, i, &event);
                if (r < 0)
                        return r;
        }
        return 0;
}

int machine_describe(Store *store, const ClockPair *start, RingsideSession *session,
                     const RingsideRecorderOptions *options) {
        struct utsname name;
        int r;

        if (uname(&name) < 0)
                return -errno;
        r = store_put_meta(store, "ringside_version", ringside_version());
        if (r >= 0)
                r = put_format(store, "start_boottime", "%" PRIu64, start->boottime);
        if (r >= 0)
                r = put_format(store, "start_realtime", "%" PRId64, start->realtime);
        if (r >= 0)
                r = store_put_meta(store, "hostname", name.nodename);
        if (r >= 0)
                r = put_format(store, "kernel", "%s %s", name.release, name.machine);
        if (r >= 0)
                r = put_format(store, "n_cpus", "%ld", sysconf(_SC_NPROCESSORS_CONF));
        if (r >= 0)
                r = put_boot_id(store);
        if (r >= 0)
                r = store_put_meta(store, "unwind", session && ringside_session_get_table_size(session) > 0 ? "table" : "fp");
        if (r >= 0)
                r = put_command(store, options->command);
        if (r >= 0)
                r = put_labels(store, options->labels);
        return r < 0 ? r : put_session(store, session);
}
