/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Half of the CPU time in one function's own instructions, half in the system calls of another. How the kernel
 * itself divides the time is printed at the end, in one line of JSON.
 */

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "spin.h"

#define SLICE 0.01 /* CPU seconds */

static double seconds_of(struct timeval t) {
        return (double) t.tv_sec + (double) t.tv_usec / 1e6;
}

static NOINLINE uint64_t in_user(uint64_t x, double until) {
        while (spin_cpu_seconds() < until)
                x = spin(x, 10);
        return x;
}

/* The C library's read() has no frame, so whoever calls it is not seen: let that be this function. */
static NOINLINE ssize_t read_zeros(int fd) {
        static char buffer[1 << 20];

        return read(fd, buffer, sizeof(buffer)) + 1;
}

static NOINLINE int in_kernel(int fd, double until) {
        while (spin_cpu_seconds() < until)
                if (read_zeros(fd) <= 0)
                        return -1;
        return 0;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv), now;
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        struct rusage usage;
        uint64_t x = 1;

        if (fd < 0)
                return 1;
        while ((now = spin_cpu_seconds()) < seconds) {
                x = in_user(x, now + SLICE);
                if (in_kernel(fd, spin_cpu_seconds() + SLICE) < 0)
                        return 1;
        }
        close(fd);
        getrusage(RUSAGE_SELF, &usage);
        printf("{\"user\": %.6f, \"system\": %.6f}\n", seconds_of(usage.ru_utime), seconds_of(usage.ru_stime));
        return spin_end(x);
}
