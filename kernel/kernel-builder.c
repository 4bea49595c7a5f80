/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-builder.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "kernel-table.h"
#include "util.h"

/* Several times what any kernel has. */
#define TEXT_MAX (256U << 20)

int kernel_builder_open(void) {
        _cleanup_close_ int fd = -1, null = -1;
        struct statfs fs;

        if (fstatfs(STDIN_FILENO, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
                return open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
        fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        /* What has addresses is not left where children inherit it. */
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
                close(STDIN_FILENO);
        return TAKE_FD(fd);
}

/* With a zero at its end. */
static int read_all(int fd, char **ret, size_t *ret_size) {
        size_t size = 0, capacity = 1 << 20;
        char *text = NULL, *more;
        ssize_t n = 1;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        while (n > 0 && capacity <= TEXT_MAX && (more = realloc(text, capacity *= 2))) {
                text = more;
                while (size < capacity && (n = RETRY_ON_EINTR(read(fd, text + size, capacity - size))) > 0)
                        size += n;
        }
        if (n == 0)
                text[size] = 0;
        *ret = text;
        *ret_size = size;
        return n == 0 ? 0 : n < 0 ? -errno : -ENOMEM;
}

/* The generation before this one, as its tables tell it. */
static int last_table(const KernelGeneration *last, KernelTable *table) {
        table->ranges = last->ranges;
        table->size = lseek(last->names_fd, 0, SEEK_END);
        table->names = mmap(NULL, table->size, PROT_READ, MAP_PRIVATE, last->names_fd, 0);
        if (table->names == MAP_FAILED)
                return -errno;
        table->next_module = last->next_module;
        return 0;
}

static int write_names(const KernelTable *table, int fd) {
        const char *p = (const char *) table->names;
        ssize_t n;

        for (size_t left = table->size; left > 0; left -= n, p += n)
                if ((n = RETRY_ON_EINTR(write(fd, p, left))) <= 0)
                        return -errno;
        /* Everybody who has it has the same file: nobody may change it, not even its attributes. */
        return fchmod(fd, 0444) < 0 || fcntl(fd, F_ADD_SEALS, KERNEL_NAMES_SEALS) < 0 ? -errno : 0;
}

int kernel_builder_run(int symbols_fd, int modules_fd, const KernelGeneration *last, KernelGeneration *next) {
        /* The process ends after this: nothing is given back. */
        static KernelTable old, table;
        char *text = NULL, *modules = NULL;
        size_t size = 0;
        int r;

        r = modules_fd < 0 ? 0 : read_all(modules_fd, &modules, &size);
        if (r == 0)
                r = read_all(symbols_fd, &text, &size);
        if (r == 0 && last->number > 0)
                r = last_table(last, &old);
        if (r == 0)
                r = kernel_table_build(last->number > 0 ? &old : NULL, modules, text, size, &table);
        if (r == 0)
                r = write_names(&table, next->names_fd);
        next->number = table.ranges.generation;
        next->ranges = table.ranges;
        next->next_module = table.next_module;
        return r;
}

uint64_t kernel_modules_hash(int fd) {
        uint64_t hash = 0xcbf29ce484222325;
        unsigned field = 0;
        char buffer[4096];
        ssize_t n;

        (void) lseek(fd, 0, SEEK_SET);
        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t i = 0; i < n; i++) {
                        if (field != 2 && field != 3)
                                hash = (hash ^ (unsigned char) buffer[i]) * 0x100000001b3;
                        field = buffer[i] == '\n' ? 0 : field + (buffer[i] == ' ');
                }
        return hash | 1;
}
