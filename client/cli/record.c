/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ringside record: asks for a session, names its targets, and carries records from the session to the
 * recorder until whatever is recorded has ended. One epoll loop; signals, the end of processes and the
 * time that is up all arrive in it as readable fds.
 *
 * Signals. From the terminal, INT, QUIT and HUP reach the recorded command by themselves, for it is in
 * our process group: we wait for what it makes of them. Sent to us alone they are handed on, and so is
 * TERM. The second Ctrl-C ends the recording at once, TERM and HUP do after a second at most.
 */

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "agent.h"
#include "cli.h"
#include "command.h"
#include "live.h"
#include "record-lines.h"
#include "record-memory.h"
#include "record-options.h"
#include "record-path.h"
#include "record-targets.h"
#include "summary.h"
#include "text.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define DISPATCH_NS (NSEC_PER_SEC / 4)
#define LINGER_NS (NSEC_PER_SEC / 10) /* how often we look whether the command's descendants have ended */
#define TERM_GRACE_NS NSEC_PER_SEC
#define DRAIN_ROUNDS 100

/* What an epoll event means. */
enum { SOURCE_SESSION, SOURCE_SIGNAL, SOURCE_TICK, SOURCE_DEADLINE, SOURCE_COMMAND, SOURCE_TARGET };

typedef struct Record {
        const RecordOptions *options;
        char *path;
        int file_fd; /* of the file that was made there, whatever is there later */
        RingsideSession *session;
        RingsideRecorder *recorder;
        Command *command;
        sigset_t signals, original_mask;
        int epoll_fd, signal_fd, tick_fd, deadline_fd;
        RecordTargets targets;
        Live live;
        uint64_t statistics_due; /* ns CLOCK_MONOTONIC */
        RingsideStatistics statistics;
        unsigned interrupts;
        int end_signal;   /* TERM or HUP that ends us, 0: none */
        bool done;
        bool time_is_up;  /* -d */
        bool ended;       /* the session is over before we ended it */
        bool command_ended;
        bool wrong_usage; /* what was asked for is nothing that could ever be had */
        int status;       /* of the command, as from waitpid() */
        int exec_errno;
} Record;

static void record_init(Record *record, const RecordOptions *options) {
        *record = (Record){
                .options = options,
                .file_fd = -1,
                .epoll_fd = -1,
                .signal_fd = -1,
                .tick_fd = -1,
                .deadline_fd = -1,
                .status = -1,
        };
        record_targets_init(&record->targets, options);
        (void) sigprocmask(SIG_SETMASK, NULL, &record->original_mask);
}

static void record_done(Record *record) {
        command_free(record->command);
        ringside_recorder_free(record->recorder);
        ringside_session_free(record->session);
        record_targets_done(&record->targets);
        close_fd(record->file_fd);
        close_fd(record->epoll_fd);
        close_fd(record->signal_fd);
        close_fd(record->tick_fd);
        close_fd(record->deadline_fd);
        free(record->path);
}

/* Our own failures, told apart from those of the command. */
static int own_failure(const Record *record) {
        return record->options->command ? EXIT_OWN_FAILURE : EXIT_FAILURE;
}

static int fail(const char *what, int r) {
        cli_error(NULL, "%s: %s", what, strerror(-r));
        return r;
}

static int session_fail(Record *record, int r) {
        cli_error_library(ringside_session_get_error(record->session), r);
        return r;
}

/* ---- the session ---- */

static int configure_events(Record *record) {
        const RecordOptions *o = record->options;
        int r = 0;

        if (o->frequency > 0)
                r = ringside_session_set_frequency(record->session, o->frequency);
        for (unsigned i = 0; r >= 0 && i < o->n_events; i++) {
                const RecordEvent *e = &o->events[i];
                uint64_t value = e->value ? e->value : o->frequency ? o->frequency : 99;

                r = ringside_session_add_event(record->session, e->name, e->by_period, value);
        }
        return r;
}

static int configure_session(Record *record) {
        const RecordOptions *o = record->options;
        int r;

        r = ringside_session_set_helper(record->session, o->helper);
        if (r >= 0)
                r = configure_events(record);
        if (r >= 0 && o->ring_size > 0)
                r = ringside_session_set_ring_size(record->session, o->ring_size);
        if (r >= 0 && o->max_frames > 0)
                r = ringside_session_set_max_frames(record->session, o->max_frames);
        if (r >= 0)
                r = ringside_session_set_table_size(record->session, o->table_size);
        if (r >= 0)
                r = ringside_session_set_kernel(record->session, o->kernel);
        if (r >= 0)
                r = ringside_session_set_scope(record->session, o->all ? RINGSIDE_SCOPE_SYSTEM : RINGSIDE_SCOPE_OWN);
        if (r >= 0)
                r = ringside_session_set_targeted(record->session, (o->command && !o->all) ||
                                                                         (o->n_targets > 0 && !record_options_by_cgroup(o)));
        return r;
}

/* root is not asked, and without the bus nobody asks. */
static bool may_ask(const RecordOptions *o) {
        return !o->no_ask && o->helper != RINGSIDE_HELPER_DIRECT && geteuid() != 0 && agent_somebody_there();
}

/* Signals are not blocked yet: Ctrl-C at the password ends everything, and nothing exists yet. */
static int open_session(Record *record) {
        bool ask = may_ask(record->options);
        Agent agent = {};
        int r;

        r = ringside_session_new(&record->session);
        if (r < 0)
                return fail("Cannot prepare a session", r);
        r = configure_session(record);
        record->wrong_usage = r < 0 && r != -ENOMEM;
        if (r >= 0)
                r = ringside_session_set_interactive(record->session, ask);
        if (r < 0)
                return session_fail(record, r);
        if (ask)
                agent_start(&agent);
        r = record_memory_open(record->session, record->options);
        agent_stop(&agent);
        record->wrong_usage = r == RINGSIDE_E_INVALID;
        return r < 0 ? session_fail(record, r) : 0;
}

/* ---- targets ---- */

static int watch(Record *record, int fd, uint32_t source) {
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = source };

        if (epoll_ctl(record->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
                return fail("Cannot watch a file descriptor", -errno);
        return 0;
}

static int add_command(Record *record) {
        int r;

        r = command_new(&record->command, record->options->command, &record->original_mask);
        if (r < 0)
                return fail("Cannot start another process", r);
        /* With --all it only says for how long. */
        if (!record->options->all)
                r = record_targets_add_command(&record->targets, record->session, command_get_pidfd(record->command));
        return r < 0 ? r : watch(record, command_get_pidfd(record->command), SOURCE_COMMAND);
}

static int add_targets(Record *record) {
        int r;

        if (record->options->command)
                return add_command(record);
        r = record_targets_add(&record->targets, record->session);
        for (unsigned i = 0; i < record->options->n_targets && r >= 0; i++) {
                int fd = record_targets_get_fd(&record->targets, i);

                if (fd >= 0)
                        r = watch(record, fd, SOURCE_TARGET + i);
        }
        return r;
}

/* ---- the loop's sources ---- */

static int block_signals(Record *record) {
        struct sigaction hup;

        sigemptyset(&record->signals);
        sigaddset(&record->signals, SIGINT);
        sigaddset(&record->signals, SIGQUIT);
        sigaddset(&record->signals, SIGTERM);
        /* Under nohup a hangup means nothing. */
        if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
                sigaddset(&record->signals, SIGHUP);
        record->signal_fd = signalfd(-1, &record->signals, SFD_CLOEXEC | SFD_NONBLOCK);
        if (record->signal_fd < 0)
                return fail("Cannot receive signals", -errno);

        /* A reader of our stderr that went away must not cost the recording. */
        sigaddset(&record->signals, SIGPIPE);
        if (sigprocmask(SIG_BLOCK, &record->signals, NULL) < 0)
                return fail("Cannot block signals", -errno);
        return watch(record, record->signal_fd, SOURCE_SIGNAL);
}

static int set_timer(int fd, uint64_t first, uint64_t interval) {
        struct itimerspec spec = {
                .it_value = { .tv_sec = (time_t) (first / NSEC_PER_SEC), .tv_nsec = (long) (first % NSEC_PER_SEC) },
                .it_interval = { .tv_sec = (time_t) (interval / NSEC_PER_SEC),
                                 .tv_nsec = (long) (interval % NSEC_PER_SEC) },
        };

        return timerfd_settime(fd, 0, &spec, NULL) < 0 ? fail("Cannot set a timer", -errno) : 0;
}

static int open_sources(Record *record) {
        int r;

        record->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        record->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        record->deadline_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (record->epoll_fd < 0 || record->tick_fd < 0 || record->deadline_fd < 0)
                return fail("Cannot prepare the event loop", -errno);
        r = block_signals(record);
        if (r >= 0)
                r = watch(record, record->tick_fd, SOURCE_TICK);
        if (r >= 0)
                r = watch(record, record->deadline_fd, SOURCE_DEADLINE);
        if (r >= 0)
                r = watch(record, ringside_session_get_fd(record->session), SOURCE_SESSION);
        return r;
}

/* ---- what happens ---- */

/*
 * The session ended, not we: said at once. A command is still waited for, since it has the terminal;
 * what was recorded until then is kept.
 */
static void session_ended(Record *record, int r) {
        const RingsideError *error = ringside_session_get_error(record->session);
        const char *why = error->code == r ? error->text : r > -4096 ? strerror(-r) : "damaged data";

        live_clear(&record->live);
        record->ended = true;
        (void) epoll_ctl(record->epoll_fd, EPOLL_CTL_DEL, ringside_session_get_fd(record->session), NULL);
        if (error->code == r)
                cli_error_library(error, r);
        else
                cli_error(NULL, "The recording cannot be continued: %s", why);
        (void) ringside_recorder_put_ended(record->recorder, why);
        record->done = !record->command || record->command_ended;
        cli_error(NULL, "What was recorded is kept%s", record->done ? "" : "; waiting for the command to end");
}

/* Number of records, or negative when there will be no more. */
static int drain(Record *record) {
        int r;

        if (record->ended)
                return 0;
        r = ringside_session_dispatch(record->session, ringside_recorder_push, record->recorder);
        if (r < 0)
                session_ended(record, r);
        return r;
}

static void put_statistics(Record *record, bool now) {
        uint64_t time = live_now();

        if (!now && time < record->statistics_due)
                return;
        record->statistics_due = time + NSEC_PER_SEC;
        if (ringside_session_get_statistics(record->session, &record->statistics) >= 0)
                (void) ringside_recorder_put_statistics(record->recorder, &record->statistics);
}

/* The command has ended: has what it started, too? */
static unsigned count_left(Record *record) {
        if (!record->command_ended || record->options->no_wait || record->options->all || record->ended ||
            record->exec_errno != 0)
                return 0;
        return ringside_recorder_get_n_alive(record->recorder);
}

/* Systemd gives a unit that is started again a new cgroup. */
static void look_for_replaced(Record *record) {
        int i;

        while ((i = record_targets_find_replaced(&record->targets)) >= 0) {
                live_clear(&record->live);
                record_targets_say_replaced(&record->targets, (unsigned) i);
        }
}

static void on_tick(Record *record) {
        RingsideRecorderStatistics written = {};
        unsigned left;
        uint64_t count;

        (void) RETRY_ON_EINTR(read(record->tick_fd, &count, sizeof(count)));
        (void) drain(record);
        put_statistics(record, false);
        left = count_left(record);
        record_targets_look(&record->targets);
        look_for_replaced(record);
        if ((record->command_ended && left == 0) || record_targets_have_ended(&record->targets))
                record->done = true;
        if (!record->done && ringside_recorder_get_statistics(record->recorder, &written) >= 0)
                live_update(&record->live, written.samples, record->statistics.lost + written.dropped, left);
}

static void on_command(Record *record) {
        int r;

        (void) epoll_ctl(record->epoll_fd, EPOLL_CTL_DEL, command_get_pidfd(record->command), NULL);
        r = command_reap(record->command, &record->status, &record->exec_errno);
        if (r < 0)
                fail("Cannot collect the command", r);
        record->command_ended = true;
        (void) drain(record);
        put_statistics(record, true);
        if (record->interrupts > 1 || record->end_signal || count_left(record) == 0)
                record->done = true;
        else
                (void) set_timer(record->tick_fd, LINGER_NS, LINGER_NS);
}

static void on_target(Record *record, unsigned i) {
        record_targets_note_end(&record->targets, i);
        if (record_targets_have_ended(&record->targets))
                record->done = true;
}

static void on_interrupt(Record *record) {
        record->interrupts++;
        /* With a command it is the command's first; when only descendants are left, one is enough. */
        if (!record->command || record->command_ended || record->interrupts > 1)
                record->done = true;
}

static void on_end_signal(Record *record, int signal) {
        record->end_signal = signal;
        if (!record->command || record->command_ended)
                record->done = true;
        else
                (void) set_timer(record->deadline_fd, TERM_GRACE_NS, 0);
}

static void on_signal(Record *record) {
        struct signalfd_siginfo info;

        while (RETRY_ON_EINTR(read(record->signal_fd, &info, sizeof(info))) == sizeof(info)) {
                int signal = (int) info.ssi_signo;

                /* What the terminal sends the whole foreground group gets. */
                if (record->command && !record->command_ended && info.ssi_code != SI_KERNEL)
                        (void) command_signal(record->command, signal);
                if (signal == SIGINT || signal == SIGQUIT)
                        on_interrupt(record);
                else
                        on_end_signal(record, signal);
        }
}

static void on_event(Record *record, uint32_t source) {
        switch (source) {
        case SOURCE_SESSION:
                (void) drain(record);
                break;
        case SOURCE_SIGNAL:
                on_signal(record);
                break;
        case SOURCE_TICK:
                on_tick(record);
                break;
        case SOURCE_DEADLINE:
                record->time_is_up = !record->end_signal;
                record->done = true;
                break;
        case SOURCE_COMMAND:
                on_command(record);
                break;
        default:
                on_target(record, source - SOURCE_TARGET);
        }
}

static int run_loop(Record *record) {
        while (!record->done) {
                struct epoll_event events[16];
                int n = (int) RETRY_ON_EINTR(epoll_wait(record->epoll_fd, events, ELEMENTSOF(events), -1));

                if (n < 0)
                        return fail("Cannot wait for events", -errno);
                for (int i = 0; i < n && !record->done; i++)
                        on_event(record, events[i].data.u32);
        }
        return 0;
}

/* ---- start and end ---- */

static int start(Record *record) {
        const char *program = record->options->command ? record->options->command[0] : NULL;
        RingsideRecorderOptions options = {
                .size = sizeof(options),
                .command = (const char *const *) record->options->command,
                .labels = record->options->labels[0] ? record->options->labels : NULL,
                .targets = record->targets.labels,
                .n_targets = record->targets.n_labels,
        };
        RingsideError error = {};
        int r;

        r = ringside_recorder_new(&record->recorder, record->path, record->session, &options, &error);
        if (r < 0) {
                cli_error_library(&error, r);
                return r;
        }
        live_init(&record->live, record->options->quiet);
        r = record->file_fd = record_path_pin(record->path);
        if (r < 0)
                fail("Cannot look at the recording", r);
        if (r >= 0) {
                r = ringside_session_start(record->session);
                if (r < 0)
                        session_fail(record, r);
        }
        if (r >= 0)
                r = set_timer(record->tick_fd, DISPATCH_NS, DISPATCH_NS);
        if (r >= 0 && record->options->duration > 0)
                r = set_timer(record->deadline_fd, record->options->duration, 0);
        if (r >= 0 && program) {
                r = command_release(record->command);
                if (r < 0)
                        fail("Cannot start the command", r);
        }
        if (r < 0) { /* nothing is in it */
                record->recorder = ringside_recorder_free(record->recorder);
                record_path_remove(record->path);
        }
        return r;
}

/* The last records, the last counters, and the file is whole. */
static int end(Record *record) {
        RingsideError error = {};
        int r;

        if (!record->ended) {
                (void) ringside_session_stop(record->session);
                /* Each call takes all there is; bounded in case that the sampler did not hear us. */
                for (unsigned i = 0; i < DRAIN_ROUNDS; i++)
                        if (ringside_session_dispatch(record->session, ringside_recorder_push, record->recorder) <= 0)
                                break;
        }
        put_statistics(record, true);
        live_clear(&record->live);
        r = ringside_recorder_finish(record->recorder, record->status, &error);
        if (r < 0)
                cli_error_library(&error, r);
        else
                r = record_path_check(record->path, record->file_fd);
        if (r >= 0 && record->exec_errno == 0 && !record->options->no_lines)
                record_lines_look_up(record->path, record->signal_fd, &record->original_mask, record->options->quiet);
        return r;
}

static int command_failed(const Record *record) {
        const char *name = record->options->command[0];

        record_path_remove(record->path); /* nothing ran, nothing is in it */
        if (!command_is_there(name)) {
                bool here = *name && !strchr(name, '/') && access(name, F_OK) == 0;

                cli_error(here ? "a program in this directory needs its path, as in ./program" : NULL, "%s: %s",
                          *name ? name : "''", strchr(name, '/') ? "no such file" : "command not found");
                return EXIT_NOT_FOUND;
        }
        if (record->exec_errno == ENOENT)
                cli_error("a script names it in its first line; of other programs 'file' tells it",
                          "Cannot run %s: its interpreter is missing", name);
        else
                cli_error(record->exec_errno == EACCES ? "only files that are executable can be run: see chmod(1)" : NULL,
                          "Cannot run %s: %s", name, strerror(record->exec_errno));
        return EXIT_NOT_RUNNABLE;
}

static int exit_status(const Record *record) {
        if (record->ended)
                return own_failure(record);
        if (!record->command)
                return EXIT_SUCCESS;
        if (record->command_ended)
                return WIFSIGNALED(record->status) ? EXIT_SIGNAL + WTERMSIG(record->status) :
                                                     WEXITSTATUS(record->status);
        if (record->time_is_up)
                return EXIT_SUCCESS; /* left running, as was asked for */
        return EXIT_SIGNAL + (record->end_signal ? record->end_signal : SIGINT);
}

/* Nobody else knows its number any more, and the shell that waits for us does not know that it is there. */
static void print_left_running(const Record *record) {
        _cleanup_free_ char *name = text_escape(record->options->command[0]);

        fprintf(stderr, "%s goes on, as process %d\n", name ? name : "", (int) command_get_pid(record->command));
}

static int run(Record *record) {
        RingsideError error;
        int r;

        r = record_path_choose(&record->path, record->options);
        if (r >= 0)
                r = record_targets_find(&record->targets);
        if (r >= 0)
                r = open_session(record);
        if (r >= 0)
                r = open_sources(record);
        if (r >= 0)
                r = add_targets(record);
        if (r >= 0)
                r = start(record);
        if (r < 0)
                return record->wrong_usage ? EXIT_USAGE : own_failure(record);

        r = run_loop(record);
        if (end(record) < 0 || r < 0)
                return own_failure(record);
        if (record->exec_errno != 0)
                return command_failed(record);
        if (!record->options->quiet) {
                bool asked = record->options->kernel == RINGSIDE_KERNEL_ASK && may_ask(record->options);

                r = summary_print(record->path, record->recorder, asked, &error);
                if (r < 0)
                        cli_error_library(&error, r);
                record_targets_sum_up_replaced(&record->targets);
        }
        if (!record->options->quiet && record->command && !record->command_ended)
                print_left_running(record);
        return exit_status(record);
}

/*
 * What is read of a file is megabytes for milliseconds, by each of the threads. Given back to the kernel every time, and
 * with memory of each thread's own, a tenth of all CPU time would go into pages that are new and empty.
 */
static void keep_memory(void) {
        (void) mallopt(M_ARENA_MAX, 1);
        (void) mallopt(M_MMAP_THRESHOLD, 32 << 20);
        (void) mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

int command_record(int argc, char **argv) {
        RecordOptions options;
        Record record;
        int r;

        r = record_options_parse(&options, argc, argv);
        if (r <= 0)
                return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
        keep_memory();
        record_init(&record, &options);
        r = run(&record);
        record_done(&record);
        return r;
}
