/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See record-options.h. */

#include "record-options.h"

#include <limits.h>
#include <string.h>

#include "cli.h"
#include "text.h"

#define FREQUENCY_MAX 1000000
#define RING_MIN (64 * 1024)
#define RING_MAX (UINT64_C(64) << 20) /* the helper gives no more */
#define FRAMES_MAX 255
#define TABLE_MIN (UINT64_C(4) << 20)
#define TABLE_MAX (UINT64_C(64) << 20)
#define TABLE_DEFAULT (UINT64_C(16) << 20)
#define TABLE_DEFAULT_ALL (UINT64_C(32) << 20) /* with everybody's programs */

static const char help_text[] =
        "Usage: ringside record [OPTION...] [--] COMMAND [ARGUMENT...]\n"
        "       ringside record [OPTION...] -p PID[,PID...] | -t TID[,TID...]\n"
        "       ringside record [OPTION...] --cgroup=PATH... | --unit=NAME...\n"
        "       ringside record [OPTION...]\n"
        "\n"
        "Records a command with what it starts, or running processes, or those of\n"
        "cgroups or units, or all processes of mine, until they end, Ctrl-C or -d.\n"
        "\n"
        "  -F, --frequency=HZ     Samples a second of CPU time, default 99\n"
        "  -e, --event=EVENT      Event to sample by: EVENT, EVENT@HZ or EVENT/PERIOD;\n"
        "                         may be repeated ('ringside events' lists them)\n"
        "  -p, --pid=PID[,PID...] Record these processes and what they start from now on\n"
        "  -t, --tid=TID[,TID...] Record these threads alone\n"
        "      --cgroup=PATH      Record processes of mine in this cgroup and those below\n"
        "                         it; may be repeated\n"
        "      --unit=NAME        Record processes of mine in this systemd unit; may be\n"
        "                         repeated; .service if there is no other suffix\n"
        "      --user             The units are those of my own systemd\n"
        "  -a, --all              Everybody's processes, and the kernel's own; needs an\n"
        "                         administrator's yes. With a command: all of them while\n"
        "                         it runs; with -p, --unit, ...: only those\n"
        "      --kernel           Ask for kernel frames where they take a password\n"
        "      --no-kernel        No kernel frames, even where they are granted\n"
        "  -o, --output=FILE      Default: ringside-COMMAND-DATE.ringside here\n"
        "  -d, --duration=TIME    End after TIME (5, 0.5, 250ms, 2m, 1h; plain: seconds);\n"
        "                         a command is left running\n"
        "      --no-inherit       Do not follow the children\n"
        "      --no-wait          End with the command, not with what it has started\n"
        "      --helper=WHICH     bus, direct or auto (default): direct for root\n"
        "      --no-ask           Never ask for a password, fail instead\n"
        "      --ring-size=BYTES  Buffer between kernel and recorder: a power of two,\n"
        "                         at least 64K; K and M may follow; default 8M, or less\n"
        "                         if there is less\n"
        "      --max-frames=N     Callers in a stack, 1 to 255, default 127\n"
        "      --unwind=HOW       How stacks are walked. table: by tables of programs'\n"
        "                         files; fp: by frame pointers, where programs have them;\n"
        "                         auto (default): table, if memory is left for it\n"
        "      --table-size=BYTES Memory for these tables: a power of two from 4M to 64M,\n"
        "                         default 16M, with -a 32M, or less if there is less\n"
        "      --no-lines         Do not look up lines and inlined functions at the end\n"
        "      --label=KEY=VALUE  Kept in the recording; may be repeated\n"
        "  -q, --quiet            No live line and no summary\n"
        "  -h, --help             Show this help\n"
        "\n"
        "Exit status: that of the command, 128+N where signal N ended it; 127 not found,\n"
        "126 not runnable, 125 recording failed; where it goes on 0 after -d, 130 after a\n"
        "second Ctrl-C. Without a command 0, or 1 for failure. Wrong usage: 2.\n";

enum {
        OPT_NO_INHERIT = 256,
        OPT_NO_WAIT,
        OPT_HELPER,
        OPT_NO_ASK,
        OPT_RING_SIZE,
        OPT_MAX_FRAMES,
        OPT_UNWIND,
        OPT_TABLE_SIZE,
        OPT_LABEL,
        OPT_CGROUP,
        OPT_UNIT,
        OPT_USER,
        OPT_KERNEL,
        OPT_NO_KERNEL,
        OPT_NO_LINES,
};

static const struct option options[] = {
        { "frequency", required_argument, NULL, 'F' },
        { "event", required_argument, NULL, 'e' },
        { "pid", required_argument, NULL, 'p' },
        { "tid", required_argument, NULL, 't' },
        { "cgroup", required_argument, NULL, OPT_CGROUP },
        { "unit", required_argument, NULL, OPT_UNIT },
        { "user", no_argument, NULL, OPT_USER },
        { "all", no_argument, NULL, 'a' },
        { "kernel", no_argument, NULL, OPT_KERNEL },
        { "no-kernel", no_argument, NULL, OPT_NO_KERNEL },
        { "output", required_argument, NULL, 'o' },
        { "duration", required_argument, NULL, 'd' },
        { "no-inherit", no_argument, NULL, OPT_NO_INHERIT },
        { "no-wait", no_argument, NULL, OPT_NO_WAIT },
        { "helper", required_argument, NULL, OPT_HELPER },
        { "no-ask", no_argument, NULL, OPT_NO_ASK },
        { "ring-size", required_argument, NULL, OPT_RING_SIZE },
        { "max-frames", required_argument, NULL, OPT_MAX_FRAMES },
        { "unwind", required_argument, NULL, OPT_UNWIND },
        { "table-size", required_argument, NULL, OPT_TABLE_SIZE },
        { "no-lines", no_argument, NULL, OPT_NO_LINES },
        { "label", required_argument, NULL, OPT_LABEL },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        {},
};

static int wrong(const char *option, const char *value, const char *wanted) {
        return cli_error_value("record", option, value, wanted);
}

static int add_event(RecordOptions *o, const char *s) {
        static const char wanted[] = "EVENT, EVENT@HZ or EVENT/PERIOD, as in cpu-clock@999";
        size_t n = strcspn(s, "@/");
        RecordEvent *event;

        if (o->n_events == RECORD_EVENTS_MAX)
                return wrong("--event", s, "one of at most 8 events");
        event = &o->events[o->n_events];
        if (n == 0 || n >= sizeof(event->name))
                return wrong("--event", s, wanted);
        memcpy(event->name, s, n);
        event->name[n] = 0;
        event->by_period = s[n] == '/';
        if (s[n] && parse_number(s + n + 1, 1, event->by_period ? INT64_MAX : FREQUENCY_MAX, &event->value) < 0)
                return wrong("--event", s, wanted);
        o->n_events++;
        return 0;
}

static const char *const target_options[] = {
        [RECORD_PROCESS] = "--pid",
        [RECORD_THREAD] = "--tid",
        [RECORD_CGROUP] = "--cgroup",
        [RECORD_UNIT] = "--unit",
};

/* Named twice is named. */
static int add_target(RecordOptions *o, const RecordTarget *target, const char *value) {
        for (unsigned i = 0; i < o->n_targets; i++) {
                const RecordTarget *t = &o->targets[i];

                if (t->kind == target->kind && t->id == target->id &&
                    (t->name == target->name || (t->name && target->name && strcmp(t->name, target->name) == 0)))
                        return 0;
        }
        if (o->n_targets == RECORD_TARGETS_MAX)
                return wrong(target_options[target->kind], value, "one of at most 63 in all");
        o->targets[o->n_targets++] = *target;
        return 0;
}

static int add_name(RecordOptions *o, enum RecordTargetKind kind, const char *s) {
        if (!*s)
                return wrong(target_options[kind], s,
                             kind == RECORD_UNIT ? "the name of a unit, as in nginx.service" :
                                                   "the path of a cgroup, as in /system.slice/nginx.service");
        return add_target(o, &(RecordTarget){ .kind = kind, .name = s }, s);
}

static int add_numbers(RecordOptions *o, enum RecordTargetKind kind, const char *s) {
        for (const char *p = s;; p++) {
                size_t n = strcspn(p, ",");
                char number[16];
                uint64_t id;
                int r;

                snprintf(number, sizeof(number), "%.*s", (int) MIN(n, sizeof(number) - 1), p);
                if (parse_number(number, 1, INT_MAX, &id) < 0)
                        return wrong(target_options[kind], s, kind == RECORD_PROCESS ?
                                             "the number of a process, or several with commas between them" :
                                             "the number of a thread, or several with commas between them");
                r = add_target(o, &(RecordTarget){ .kind = kind, .id = (pid_t) id }, s);
                if (r < 0)
                        return r;
                p += n;
                if (!*p)
                        return 0;
        }
}

static int add_label(RecordOptions *o, const char *s) {
        const char *equals = strchr(s, '=');
        size_t n = 0;

        while (o->labels[n])
                n++;
        if (!equals || equals == s)
                return wrong("--label", s, "KEY=VALUE");
        if (n == RECORD_LABELS_MAX)
                return wrong("--label", s, "one of at most 32 labels");
        o->labels[n] = s;
        return 0;
}

static bool parse_power(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        return parse_size(s, ret) >= 0 && *ret >= min && *ret <= max && (*ret & (*ret - 1)) == 0;
}

static int set_sizes(RecordOptions *o, int c, const char *s) {
        if (c == OPT_RING_SIZE)
                return parse_power(s, RING_MIN, RING_MAX, &o->ring_size) ?
                               0 : wrong("--ring-size", s, "a power of two from 64K to 64M, as in 8M");
        return parse_power(s, TABLE_MIN, TABLE_MAX, &o->table_size) ?
                       0 : wrong("--table-size", s, "a power of two from 4M to 64M, as in 16M");
}

static int set_unwind(RecordOptions *o, const char *s) {
        static const char *const ways[] = {
                [RECORD_UNWIND_AUTO] = "auto", [RECORD_UNWIND_TABLE] = "table", [RECORD_UNWIND_FP] = "fp",
        };

        for (size_t i = 0; i < ELEMENTSOF(ways); i++)
                if (strcmp(s, ways[i]) == 0) {
                        o->unwind = (enum RecordUnwind) i;
                        return 0;
                }
        return wrong("--unwind", s, "auto, table or fp");
}

static int set_numbers(RecordOptions *o, int c, const char *s) {
        uint64_t n = 0;

        switch (c) {
        case 'F':
                if (parse_number(s, 1, FREQUENCY_MAX, &o->frequency) < 0)
                        return wrong("--frequency", s, "a number of samples a second, as in 999");
                return 0;
        case 'd':
                if (parse_duration(s, &o->duration) < 0)
                        return wrong("--duration", s, "seconds, or a number with ms, s, m or h, as in 2.5 or 10m");
                return 0;
        default:
                if (parse_number(s, 1, FRAMES_MAX, &n) < 0)
                        return wrong("--max-frames", s, "a number from 1 to 255");
                o->max_frames = (unsigned) n;
                return 0;
        }
}

static int set_output(RecordOptions *o, const char *s) {
        if (!*s)
                return wrong("--output", s, "the name of a file");
        if (strcmp(s, "-") == 0)
                return wrong("--output", s, "a file: a recording is a database and cannot go to standard output");
        o->output = s;
        return 0;
}

static int set_kernel(RecordOptions *o, enum RingsideKernel kernel) {
        if (o->kernel != RINGSIDE_KERNEL_QUIET && o->kernel != kernel) {
                cli_error("without either there are kernel frames where they take no question",
                          "Either --kernel or --no-kernel, not both");
                return -EINVAL;
        }
        o->kernel = kernel;
        return 0;
}

static int set_option(RecordOptions *o, int c, const char *value) {
        switch (c) {
        case 'F':
        case 'd':
        case OPT_MAX_FRAMES:
                return set_numbers(o, c, value);
        case 'e':
                return add_event(o, value);
        case 'p':
                return add_numbers(o, RECORD_PROCESS, value);
        case 't':
                return add_numbers(o, RECORD_THREAD, value);
        case OPT_CGROUP:
                return add_name(o, RECORD_CGROUP, value);
        case OPT_UNIT:
                return add_name(o, RECORD_UNIT, value);
        case OPT_USER:
                o->user = true;
                return 0;
        case 'a':
                o->all = true;
                return 0;
        case OPT_KERNEL:
                return set_kernel(o, RINGSIDE_KERNEL_ASK);
        case OPT_NO_KERNEL:
                return set_kernel(o, RINGSIDE_KERNEL_NO);
        case 'o':
                return set_output(o, value);
        case 'q':
                o->quiet = true;
                return 0;
        case OPT_NO_INHERIT:
                o->no_inherit = true;
                return 0;
        case OPT_NO_LINES:
                o->no_lines = true;
                return 0;
        case OPT_NO_WAIT:
                o->no_wait = true;
                return 0;
        case OPT_NO_ASK:
                o->no_ask = true;
                return 0;
        case OPT_HELPER:
                return cli_parse_helper(value, &o->helper) < 0 ? wrong("--helper", value, "auto, bus or direct") : 0;
        case OPT_RING_SIZE:
        case OPT_TABLE_SIZE:
                return set_sizes(o, c, value);
        case OPT_UNWIND:
                return set_unwind(o, value);
        default:
                return add_label(o, value);
        }
}

static int check_targets(const RecordOptions *o) {
        static const char hint[] = "'ringside record --help' shows the ways to record";
        bool unit = false;

        if (o->command && o->n_targets > 0) {
                cli_error(hint, "Either %s or a command, not both", target_options[o->targets[0].kind]);
                return -EINVAL;
        }
        for (unsigned i = 0; i < o->n_targets; i++) {
                unit |= o->targets[i].kind == RECORD_UNIT;
                if ((o->targets[i].kind >= RECORD_CGROUP) != record_options_by_cgroup(o)) {
                        cli_error("make two recordings: processes and threads are watched by clocks of their own,\n"
                                  "cgroups narrow what a clock on every CPU sees",
                                  "%s and %s do not go together", target_options[o->targets[0].kind],
                                  target_options[o->targets[i].kind]);
                        return -EINVAL;
                }
        }
        if (o->user && !unit) {
                cli_error("as in: ringside record --user --unit=app.service\n"
                          "all processes of yours are recorded without any of these options",
                          "--user says whose units, and no --unit is named");
                return -EINVAL;
        }
        return 0;
}

/* What makes no sense together is refused: ignoring an option would answer another question. */
static int check_combination(const RecordOptions *o) {
        static const char hint[] = "'ringside record --help' shows the ways to record";
        int r;

        r = check_targets(o);
        if (r < 0)
                return r;
        if (o->no_wait && !o->command) {
                cli_error(hint, "--no-wait goes with a command only");
                return -EINVAL;
        }
        if (o->no_inherit && !o->command && (o->n_targets == 0 || record_options_by_cgroup(o))) {
                cli_error(hint, "--no-inherit goes with a command, --pid or --tid only");
                return -EINVAL;
        }
        if (o->no_inherit && o->command && o->all) {
                cli_error("with --all everything is recorded while the command runs",
                          "--no-inherit does not go with --all and a command");
                return -EINVAL;
        }
        if (o->unwind == RECORD_UNWIND_FP && o->table_size > 0) {
                cli_error("leave one of them out", "--table-size does not go with --unwind=fp, which needs no tables");
                return -EINVAL;
        }
        return 0;
}

int record_options_parse(RecordOptions *ret, int argc, char **argv) {
        RecordOptions o = {};
        int c, r;

        opterr = 0;
        optind = 0; /* glibc's way to start afresh */
        /* "+": what follows the command's name is the command's. */
        while ((c = getopt_long(argc, argv, "+:F:e:p:t:ao:d:qh", options, NULL)) != -1) {
                if (c == 'h') {
                        fputs(help_text, stdout);
                        return 0;
                }
                if (c == '?' || c == ':')
                        return cli_error_option(c, argv, options);
                r = set_option(&o, c, optarg);
                if (r < 0)
                        return r;
        }
        if (optind < argc)
                o.command = argv + optind;
        else if (strcmp(argv[argc - 1], "--") == 0) {
                cli_error("as in: ringside record -- ./program its arguments", "No command follows --");
                return -EINVAL;
        }
        r = check_combination(&o);
        if (r < 0)
                return r;
        o.table_size_named = o.table_size > 0;
        if (o.table_size == 0 && o.unwind != RECORD_UNWIND_FP)
                o.table_size = o.all ? TABLE_DEFAULT_ALL : TABLE_DEFAULT;
        *ret = o;
        return 1;
}
