/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kernel-table [--symbols N]: how long it takes to make the tables of a kernel's text and names, beside what
 * other programs take for less: wc -l, which only looks for the ends of lines, and awk, which takes the lines
 * apart and does nothing else. CPU time, the best of several rounds. No test: its result is a table.
 */

#include "kernel-table.h"

#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "util.h"

#define ROUNDS 7

static double cpu_seconds(int who) {
        struct rusage usage;

        getrusage(who, &usage);
        return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/*
 * As /proc/kallsyms of a distribution's kernel: four fifths in the core, the rest in modules of 200, not
 * sorted.
 */
static char *make_text(unsigned n, size_t *ret_size) {
        char *text = NULL;
        FILE *f = open_memstream(&text, ret_size);

        fputs("ffffffff81000000 T _stext\nffffffff8f000000 T _etext\n", f);
        for (unsigned i = 0; i < n / 5 * 4; i++)
                fprintf(f, "%llx %c %s_function_number_%u\n", 0xffffffff81000010ULL + i * 128ULL,
                        "tT"[i % 3 == 0], i % 2 ? "driver" : "subsystem", i);
        for (unsigned i = 0; i < n / 5; i++)
                fprintf(f, "%llx t function_number_%u\t[module_%u]\n",
                        0xffffffffc0000000ULL + (i / 200) * 65536ULL + (i * 7919 % 200) * 256, i, i / 200);
        fclose(f);
        return text;
}

static double time_peer(const char *path, char *const argv[]) {
        double before = cpu_seconds(RUSAGE_CHILDREN);
        pid_t pid = fork();

        if (pid == 0) {
                int in = open(path, O_RDONLY), out = open("/dev/null", O_WRONLY);

                if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
                        _exit(127);
                execvp(argv[0], argv);
                _exit(127);
        }
        waitpid(pid, NULL, 0);
        return cpu_seconds(RUSAGE_CHILDREN) - before;
}

static double time_build(const KernelTable *old, const char *text, size_t size) {
        double before = cpu_seconds(RUSAGE_SELF);
        static KernelTable table;

        if (kernel_table_build(old, NULL, text, size, &table) < 0)
                exit(EXIT_FAILURE);
        kernel_table_done(&table);
        return cpu_seconds(RUSAGE_SELF) - before;
}

int main(int argc, char *argv[]) {
        static const struct option options[] = {{"symbols", required_argument, NULL, 's'}, {}};
        static char *const peers[][4] = {
                {(char *) "wc", (char *) "-l", NULL},
                {(char *) "awk", (char *) "{ n += length($3) } END { print n }", NULL}};
        char path[] = "/tmp/kernel-table-XXXXXX";
        double build = 1e9, rebuild = 1e9, peer[2] = {1e9, 1e9};
        static KernelTable first;
        unsigned n = 150000;
        size_t size;
        char *text;
        int fd;

        while (getopt_long(argc, argv, "", options, NULL) == 's')
                n = strtoul(optarg, NULL, 10);
        text = make_text(n, &size);
        fd = mkstemp(path);
        if (fd < 0 || write(fd, text, size) != (ssize_t) size ||
            kernel_table_build(NULL, NULL, text, size, &first) < 0)
                return EXIT_FAILURE;
        for (int i = 0; i < ROUNDS; i++) {
                build = MIN(build, time_build(NULL, text, size));
                rebuild = MIN(rebuild, time_build(&first, text, size));
                for (int j = 0; j < 2; j++)
                        peer[j] = MIN(peer[j], time_peer(path, peers[j]));
        }
        unlink(path);
        printf("%u symbols, %zu modules, %zu bytes of text, %zu of names\n", first.names->nr_symbols,
               (size_t) first.ranges.nr, size, first.size);
        printf("tables %23.1f ms\ntables, next generation %6.1f ms\n", build * 1e3, rebuild * 1e3);
        for (int j = 0; j < 2; j++)
                printf("%-23s %6.1f ms, we take %.1f times that\n", peers[j][0], peer[j] * 1e3,
                       build / peer[j]);
        kernel_table_done(&first);
        free(text);
        return EXIT_SUCCESS;
}
