/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs a fuzz target over every file of a directory, so that corpora are unit tests with any
 * compiler: run-corpus DIRECTORY. An empty corpus fails, since it tests nothing.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "util.h"

#define INPUT_MAX (16U << 20)

/* Exactly as much memory as there is input, so that a sanitizer sees the first byte too many. */
static int run_file(int dir_fd, const char *name) {
        _cleanup_free_ uint8_t *data = NULL;
        _cleanup_close_ int fd = -1;
        struct stat st;

        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return 0;
        if (st.st_size > (off_t) INPUT_MAX)
                return -EFBIG;
        data = malloc(MAX((size_t) st.st_size, 1));
        if (!data)
                return -ENOMEM;
        if (read(fd, data, (size_t) st.st_size) != st.st_size)
                return -EIO;
        (void) LLVMFuzzerTestOneInput(data, (size_t) st.st_size);
        return 1;
}

int main(int argc, char **argv) {
        const struct dirent *entry;
        unsigned n = 0;
        DIR *dir;

        dir = argc == 2 ? opendir(argv[1]) : NULL;
        if (!dir) {
                fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
                return 2;
        }
        while ((entry = readdir(dir))) {
                int r = run_file(dirfd(dir), entry->d_name);

                if (r < 0) {
                        fprintf(stderr, "%s/%s: %s\n", argv[1], entry->d_name, strerror(-r));
                        return 1;
                }
                n += (unsigned) r;
        }
        closedir(dir);
        printf("%u inputs\n", n);
        return n == 0;
}
