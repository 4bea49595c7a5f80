/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ringside: finds the command and hands the rest of the line to it. Everything it knows about profiles
 * comes from libringside's public header.
 */

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "cli.h"
#include "config.h"

typedef struct Verb {
        const char *name;
        int (*run)(int argc, char **argv);
} Verb;

static const Verb verbs[] = {
        { "record", command_record },
        { "report", command_report },
        { "annotate", command_annotate },
        { "symbolize", command_symbolize },
        { "flamegraph", command_flamegraph },
        { "export", command_export },
        { "events", command_events },
        { "doctor", command_doctor },
};

static const char help_text[] =
        "Usage: ringside COMMAND [OPTION...]\n"
        "\n"
        "Records where programs spend their CPU time, without root.\n"
        "\n"
        "  record      Record a program, a process or all of mine\n"
        "  report      Show where the time went\n"
        "  annotate    Show what each line of a function took\n"
        "  symbolize   Look up lines and inlined functions again, or elsewhere\n"
        "  flamegraph  Write a flame graph, one HTML file\n"
        "  export      Write collapsed stacks or pprof for other tools\n"
        "  events      List what can be sampled here\n"
        "  doctor      Check this machine and say what to do\n"
        "  help        Show the manual page of a command\n"
        "\n"
        "  -h, --help     Show this help; 'ringside COMMAND --help' that of a command\n"
        "      --version  Show the version\n"
        "\n"
        "Start with:\n"
        "  ringside record -- ./program its arguments\n"
        "  ringside report\n"
        "\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage; 'record' with a command\n"
        "passes that of the command on, see 'ringside record --help'.\n";

static const Verb *find_verb(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (strcmp(verbs[i].name, name) == 0)
                        return &verbs[i];
        return NULL;
}

static int unknown_command(const char *name) {
        cli_error("'ringside --help' lists the commands\n"
                  "to record a program: ringside record -- PROGRAM",
                  "There is no command %s", *name ? name : "''");
        return EXIT_USAGE;
}

/* Whether man(1) showed a page of that name. */
static bool show_page(const char *name) {
        int status;
        pid_t pid;

        if (!isatty(STDOUT_FILENO))
                return false;
        pid = fork();
        if (pid < 0)
                return false;
        if (pid == 0) {
                int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

                if (fd >= 0)
                        (void) dup2(fd, STDERR_FILENO);
                execlp("man", "man", name, (char *) NULL);
                _exit(EXIT_FAILURE);
        }
        return RETRY_ON_EINTR(waitpid(pid, &status, 0)) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int command_help(int argc, char **argv) {
        char *help[] = { NULL, (char[]){ "--help" }, NULL };
        const Verb *verb;
        char page[64];

        if (argc < 2) {
                if (!show_page("ringside"))
                        fputs(help_text, stdout);
                return EXIT_SUCCESS;
        }
        verb = find_verb(argv[1]);
        if (!verb)
                return unknown_command(argv[1]);
        snprintf(page, sizeof(page), "ringside-%s", verb->name);
        if (show_page(page))
                return EXIT_SUCCESS;
        help[0] = argv[1];
        return verb->run(2, help);
}

/* What went to stdout counts only once it is out: a full disk is a failure. */
static int finish(int status) {
        if (status != EXIT_SUCCESS) /* was told already */
                return status;
        errno = EIO;
        if (fflush(stdout) != 0 || ferror(stdout)) {
                cli_error(NULL, "Cannot write to standard output: %s", strerror(errno));
                return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        const Verb *verb;

        (void) setlocale(LC_CTYPE, "");
        /* Where whoever started us ignores it, how our own children end would not be known. */
        (void) signal(SIGCHLD, SIG_DFL);
        if (argc < 2) {
                fputs(help_text, stderr);
                return EXIT_USAGE;
        }
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
                fputs(help_text, stdout);
                return finish(EXIT_SUCCESS);
        }
        if (strcmp(argv[1], "--version") == 0) {
                printf("ringside %s\n", RINGSIDE_VERSION);
                return finish(EXIT_SUCCESS);
        }
        if (strcmp(argv[1], "help") == 0)
                return finish(command_help(argc - 1, argv + 1));
        verb = find_verb(argv[1]);
        if (!verb)
                return unknown_command(argv[1]);
        return finish(verb->run(argc - 1, argv + 1));
}
