/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CPU time in the kernel, by a handful of ways into it that a function each takes: so its profile has many kernel
 * functions, and each belongs below one of ours.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

#define SLICE 0.005 /* CPU seconds */

typedef struct Files {
        int zero, pipe[2];
} Files;

static char buffer[16384];

/* The C library's functions have no frame, so whoever calls them is not seen: these are, as who calls those. */
static NOINLINE long read_zeros(const Files *files) {
        return read(files->zero, buffer, sizeof(buffer)) + 1;
}

static NOINLINE long through_pipe(const Files *files) {
        return write(files->pipe[1], buffer, 4096) + read(files->pipe[0], buffer, 4096);
}

static NOINLINE long look_at_file(void) {
        struct stat st;

        return stat("/usr/bin/env", &st) + 1;
}

static NOINLINE long ask_parent(void) {
        return syscall(SYS_getppid) + 1;
}

static NOINLINE int zeros(const Files *files, double until) {
        while (spin_cpu_seconds() < until)
                for (int i = 0; i < 10; i++)
                        if (read_zeros(files) <= 0)
                                return -1;
        return 0;
}

static NOINLINE int pipes(const Files *files, double until) {
        while (spin_cpu_seconds() < until)
                for (int i = 0; i < 20; i++)
                        if (through_pipe(files) <= 0)
                                return -1;
        return 0;
}

static NOINLINE int stats(double until) {
        while (spin_cpu_seconds() < until)
                for (int i = 0; i < 20; i++)
                        if (look_at_file() <= 0)
                                return -1;
        return 0;
}

static NOINLINE int parents(double until) {
        while (spin_cpu_seconds() < until)
                for (int i = 0; i < 100; i++)
                        if (ask_parent() <= 0)
                                return -1;
        return 0;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);
        Files files = {.zero = open("/dev/zero", O_RDONLY | O_CLOEXEC)};

        if (files.zero < 0 || pipe2(files.pipe, O_CLOEXEC) < 0)
                return 1;
        while (spin_cpu_seconds() < seconds)
                if (zeros(&files, spin_cpu_seconds() + SLICE) < 0 || pipes(&files, spin_cpu_seconds() + SLICE) < 0 ||
                    stats(spin_cpu_seconds() + SLICE) < 0 || parents(spin_cpu_seconds() + SLICE) < 0)
                        return 1;
        return 0;
}
