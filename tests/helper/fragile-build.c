/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A helper whose child that makes the kernel's names does as the list of symbols says: where that begins with
 * "crash" it dies, with "stay" it never comes to an end. Each child writes a line to standard error. Linked in place
 * of kernel_builder_run().
 */

#include <poll.h>
#include <string.h>

#include "kernel-builder.h"
#include "util.h"

int __real_kernel_builder_run(int symbols_fd, int modules_fd, const KernelGeneration *last, KernelGeneration *next);
int __wrap_kernel_builder_run(int symbols_fd, int modules_fd, const KernelGeneration *last, KernelGeneration *next);

int __wrap_kernel_builder_run(int symbols_fd, int modules_fd, const KernelGeneration *last, KernelGeneration *next) {
        char begin[8] = "";

        if (write(STDERR_FILENO, "build\n", 6) < 0 || lseek(symbols_fd, 0, SEEK_SET) < 0 ||
            read(symbols_fd, begin, sizeof(begin) - 1) < 0)
                return -EIO;
        if (strncmp(begin, "crash", 5) == 0)
                abort();
        while (strncmp(begin, "stay", 4) == 0)
                (void) poll(NULL, 0, /* timeout= */ -1);
        return __real_kernel_builder_run(symbols_fd, modules_fd, last, next);
}
