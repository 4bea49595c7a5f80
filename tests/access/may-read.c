/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The kernel's own answer: which processes may this user, here, without any capability, read? Tries every
 * thread there is in /proc, and prints for each
 *
 *      pid tid environ maps parent comm
 *
 * environ and maps are 1 where the file opens and reads. Both ask ptrace_may_access() with PTRACE_MODE_READ;
 * environ can only be opened by its owner besides, maps by anybody. --with-capabilities: with those it has.
 */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "util.h"

static void closedirp(DIR **dir) {
        if (*dir)
                closedir(*dir);
}

static int drop_capabilities(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[2] = {};

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static ssize_t read_file(int dir, const char *name, char *buffer, size_t size) {
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

        return fd < 0 ? -1 : RETRY_ON_EINTR(read(fd, buffer, size));
}

/* The ppid, the second field behind the name, which may hold anything. */
static int parent_of(int dir) {
        char stat[1024] = "", *end;

        if (read_file(dir, "stat", stat, sizeof(stat) - 1) < 0)
                return 0;
        end = strrchr(stat, ')');
        return end && strlen(end) > 4 ? atoi(end + 4) : 0;
}

static void try_thread(const char *pid, const char *tid) {
        _cleanup_close_ int dir = -1;
        char path[64], comm[64] = "", c;

        (void) snprintf(path, sizeof(path), "/proc/%.16s/task/%.16s", pid, tid);
        dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || read_file(dir, "comm", comm, sizeof(comm) - 1) <= 0)
                return;
        comm[strcspn(comm, "\n")] = '\0';
        printf("%s %s %d %d %d %s\n", pid, tid, read_file(dir, "environ", &c, 1) >= 0,
               read_file(dir, "maps", &c, 1) > 0, parent_of(dir), comm);
}

int main(int argc, char *argv[]) {
        bool keep = argc == 2 && strcmp(argv[1], "--with-capabilities") == 0;
        _cleanup_(closedirp) DIR *proc = opendir("/proc");
        const struct dirent *p, *t;

        if (!proc || (!keep && drop_capabilities() < 0)) {
                perror("may-read");
                return EXIT_FAILURE;
        }
        while ((p = readdir(proc))) {
                _cleanup_(closedirp) DIR *tasks = NULL;
                char path[64];

                if (!isdigit((unsigned char) p->d_name[0]))
                        continue;
                (void) snprintf(path, sizeof(path), "/proc/%.16s/task", p->d_name);
                tasks = opendir(path);
                while (tasks && (t = readdir(tasks)))
                        if (isdigit((unsigned char) t->d_name[0]))
                                try_thread(p->d_name, t->d_name);
        }
        return EXIT_SUCCESS;
}
