/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See record-targets.h. */

#include "record-targets.h"

#include <ctype.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/pidfd.h>

#include "cli.h"
#include "text.h"

void record_targets_init(RecordTargets *targets, const RecordOptions *options) {
        *targets = (RecordTargets){ .options = options };
        for (size_t i = 0; i < RECORD_TARGETS_MAX; i++)
                targets->pidfds[i] = targets->threads[i] = -1;
}

void record_targets_done(RecordTargets *targets) {
        for (size_t i = 0; i < RECORD_TARGETS_MAX; i++) {
                close_fd(targets->pidfds[i]);
                close_fd(targets->threads[i]);
                free(targets->texts[i]);
                free(targets->cgroups[i].directory);
        }
}

/* ---- what /proc says ---- */

/* A number of /proc/PID/status, at directory or below /proc. -1: not to be had. */
static long read_status(int directory, const char *path, const char *key) {
        _cleanup_free_ char *line = NULL;
        int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
        _cleanup_fclose_ FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
        size_t n = strlen(key), size = 0;

        if (!f) {
                close_fd(fd);
                return -1;
        }
        while (getline(&line, &size, f) > 0)
                if (strncmp(line, key, n) == 0 && line[n] == ':' && isdigit((unsigned char) line[n + 1 + strspn(line + n + 1, "\t ")]))
                        return strtol(line + n + 1, NULL, 10);
        return -1;
}

static long read_status_of(pid_t pid, const char *key) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        return read_status(AT_FDCWD, path, key);
}

/* ---- finding ---- */

static int no_memory(void) {
        cli_error(NULL, "%s", strerror(ENOMEM));
        return -ENOMEM;
}

static int find_process(RecordTargets *targets, unsigned i) {
        pid_t pid = targets->options->targets[i].id;

        targets->pidfds[i] = pidfd_open(pid, 0);
        if (targets->pidfds[i] >= 0)
                return 0;
        if (errno == EINVAL || errno == ENOENT) { /* by kernel: a thread, not its process */
                cli_error("--tid records a thread; 'ps -eLo pid,tid,comm' shows its process",
                          "%d is a thread, not a process", (int) pid);
                return -EINVAL;
        }
        cli_error("'ps x' lists the processes of yours", "Process %d: %s", (int) pid,
                  errno == ESRCH ? "there is none" : strerror(errno));
        return -errno;
}

/* The directory stays that of this thread: its number may be another's by the time the process is opened. */
static int find_thread(RecordTargets *targets, unsigned i) {
        pid_t tid = targets->options->targets[i].id;
        long pid = read_status_of(tid, "Tgid");
        char path[64];

        if (pid > 0) {
                snprintf(path, sizeof(path), "/proc/%ld/task/%d", pid, (int) tid);
                targets->threads[i] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
                targets->pidfds[i] = pidfd_open((pid_t) pid, 0);
        }
        if (targets->threads[i] < 0 || targets->pidfds[i] < 0 || read_status(targets->threads[i], "status", "Tgid") != pid) {
                cli_error("'ps -Lo tid,comm x' lists the threads of yours", "Thread %d: there is none", (int) tid);
                return -ESRCH;
        }
        return 0;
}

static int find_cgroup(RecordTargets *targets, unsigned i, const char *path) {
        int r = cgroup_find(path, &targets->cgroups[i]);

        for (unsigned k = 0; r >= 0 && k < i; k++)
                if (targets->cgroups[k].id == targets->cgroups[i].id && targets->cgroups[k].v1 == targets->cgroups[i].v1) {
                        cli_error("a sample is of one of them: leave one out", "%s and %s are the same cgroup",
                                  targets->options->targets[k].name, targets->options->targets[i].name);
                        return -EINVAL;
                }
        return r;
}

static int find_unit(RecordTargets *targets, unsigned i) {
        _cleanup_free_ char *cgroup = NULL;
        RingsideError error = {};
        int r;

        r = ringside_find_unit(targets->options->targets[i].name, targets->options->user, &targets->texts[i], &cgroup,
                               &error);
        if (r < 0) {
                cli_error_library(&error, r);
                return r;
        }
        return find_cgroup(targets, i, cgroup);
}

static int put_label(RecordTargets *targets, unsigned i, const char *kind, char *text) {
        if (!text)
                return no_memory();
        targets->texts[i] = text;
        targets->labels[i] = (RingsideTarget){ .kind = kind, .label = text };
        targets->n_labels = i + 1;
        return 0;
}

static int put_number(RecordTargets *targets, unsigned i, const char *kind) {
        char *text;

        return put_label(targets, i, kind, asprintf(&text, "%d", (int) targets->options->targets[i].id) < 0 ? NULL : text);
}

static int find(RecordTargets *targets, unsigned i) {
        const RecordTarget *target = &targets->options->targets[i];
        int r;

        switch (target->kind) {
        case RECORD_PROCESS:
                r = find_process(targets, i);
                return r < 0 ? r : put_number(targets, i, "process");
        case RECORD_THREAD:
                r = find_thread(targets, i);
                return r < 0 ? r : put_number(targets, i, "thread");
        case RECORD_CGROUP:
                r = find_cgroup(targets, i, target->name);
                return r < 0 ? r : put_label(targets, i, "cgroup", strdup(target->name));
        case RECORD_UNIT:
                r = find_unit(targets, i);
                return r < 0 ? r : put_label(targets, i, "unit", targets->texts[i]);
        }
        return -EINVAL;
}

int record_targets_find(RecordTargets *targets) {
        int r = 0;

        for (unsigned i = 0; i < targets->options->n_targets && r >= 0; i++)
                r = find(targets, i);
        return r;
}

/* ---- the session's targets ---- */

static int session_fail(RingsideSession *session, int r) {
        cli_error_library(ringside_session_get_error(session), r);
        return r;
}

/* Names the target, and its user where that is why: /proc/PID may belong to root for other reasons. */
static int refused(const RecordTarget *target, RingsideSession *session, int r) {
        const RingsideError *error = ringside_session_get_error(session);
        const char *what = target->kind == RECORD_THREAD ? "Thread" : "Process";
        long uid = read_status_of(target->id, "Uid");
        const struct passwd *user = uid >= 0 ? getpwuid((uid_t) uid) : NULL;

        if (error->code == RINGSIDE_E_TARGET && uid >= 0 && (uid_t) uid != geteuid())
                cli_error("'ringside record -a' records everybody's, where an administrator allows it",
                          "%s %d is not yours to see: it belongs to %s%s", what, (int) target->id,
                          user ? user->pw_name : "user ", user ? "" : "without a name");
        else
                cli_error(error->hint, "%s %d: %s", what, (int) target->id, error->text);
        return r;
}

static int add_task(RecordTargets *targets, RingsideSession *session, unsigned i) {
        const RecordTarget *target = &targets->options->targets[i];
        bool thread = target->kind == RECORD_THREAD;
        int r;

        /* A thread is itself, and not what it starts. */
        r = ringside_session_add_target(session, targets->pidfds[i], thread ? target->id : 0,
                                        thread || targets->options->no_inherit ? RINGSIDE_TARGET_NO_INHERIT : 0);
        if (r < 0)
                return refused(target, session, r);
        /* The session takes the number for whoever has it then; its directory is still that of the one we found. */
        if (thread && read_status(targets->threads[i], "status", "Tgid") < 0) {
                cli_error("'ps -Lo tid,comm x' lists the threads of yours",
                          "Thread %d ended before it could be recorded", (int) target->id);
                return -ESRCH;
        }
        targets->n_running++;
        return 0;
}

int record_targets_add(RecordTargets *targets, RingsideSession *session) {
        for (unsigned i = 0; i < targets->options->n_targets; i++) {
                int r;

                if (targets->pidfds[i] >= 0)
                        r = add_task(targets, session, i);
                else {
                        r = ringside_session_add_cgroup(session, targets->cgroups[i].id, targets->cgroups[i].v1);
                        if (r < 0)
                                session_fail(session, r);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

int record_targets_add_command(RecordTargets *targets, RingsideSession *session, int pidfd) {
        unsigned flags = RINGSIDE_TARGET_ON_EXEC | (targets->options->no_inherit ? RINGSIDE_TARGET_NO_INHERIT : 0);
        int r;

        r = ringside_session_add_target(session, pidfd, 0, flags);
        return r < 0 ? session_fail(session, r) : put_label(targets, 0, "command", strdup(targets->options->command[0]));
}

/* ---- until they have ended ---- */

int record_targets_get_fd(const RecordTargets *targets, unsigned i) {
        return i < RECORD_TARGETS_MAX ? targets->pidfds[i] : -1;
}

void record_targets_note_end(RecordTargets *targets, unsigned i) {
        if (i >= RECORD_TARGETS_MAX || targets->pidfds[i] < 0)
                return;
        targets->pidfds[i] = close_fd(targets->pidfds[i]); /* which takes it out of an epoll set, too */
        targets->threads[i] = close_fd(targets->threads[i]);
        targets->n_running--;
}

void record_targets_look(RecordTargets *targets) {
        for (unsigned i = 0; i < targets->options->n_targets; i++)
                if (targets->threads[i] >= 0 && read_status(targets->threads[i], "status", "Tgid") < 0)
                        record_targets_note_end(targets, i);
}

int record_targets_find_replaced(RecordTargets *targets) {
        for (unsigned i = 0; i < targets->options->n_targets; i++)
                if (!targets->replaced[i] && cgroup_is_replaced(&targets->cgroups[i])) {
                        targets->replaced[i] = true;
                        return (int) i;
                }
        return -1;
}

/* How a cgroup came to be another one. */
static const char *replaced_text(const RecordTargets *targets, unsigned i) {
        return targets->options->targets[i].kind == RECORD_UNIT ? "was started again" : "was removed and made again";
}

void record_targets_say_replaced(const RecordTargets *targets, unsigned i) {
        cli_error("end the recording and begin another, for that", "The %s %s %s: what it does from now on is not recorded",
                  targets->labels[i].kind, targets->labels[i].label, replaced_text(targets, i));
}

void record_targets_sum_up_replaced(RecordTargets *targets) {
        while (record_targets_find_replaced(targets) >= 0)
                ; /* just before the end */
        for (unsigned i = 0; i < targets->options->n_targets; i++) {
                _cleanup_free_ char *name = targets->replaced[i] ? text_escape(targets->labels[i].label) : NULL;

                if (name)
                        fprintf(stderr, "The %s %s %s meanwhile: what it did from then on is not in the recording\n",
                                targets->labels[i].kind, name, replaced_text(targets, i));
        }
}

bool record_targets_have_ended(const RecordTargets *targets) {
        const RecordOptions *o = targets->options;

        return o->n_targets > 0 && !record_options_by_cgroup(o) && targets->n_running == 0;
}
