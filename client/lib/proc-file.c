/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each of these may be gone, or somebody else by now: every answer is only as good as its moment. */

#include "proc-file.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "process-dir.h"
#include "util.h"

#define NSEC_PER_SEC 1000000000ULL
/* Of include/linux/sched.h; ps(1) goes by it, too. */
#define PF_KTHREAD 0x00200000
#define STATUS_SIZE_MAX 16384U

bool proc_file_is_there(pid_t pid) {
        return kill(pid, 0) == 0 || errno != ESRCH;
}

ssize_t proc_file_read(pid_t pid, const char *name, void *buffer, size_t size) {
        _cleanup_close_ int fd = -1;
        char path[128];
        size_t done = 0;

        if (!proc_file_is_there(pid))
                return -ESRCH;
        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        while (done < size) {
                ssize_t n = RETRY_ON_EINTR(read(fd, (char *) buffer + done, size - done));

                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                done += n;
        }
        return done;
}

int proc_file_read_comm(pid_t pid, pid_t tid, char *ret, size_t size) {
        char name[64] = "comm";
        ssize_t n;

        if (tid != 0)
                (void) snprintf(name, sizeof(name), "task/%d/comm", (int) tid);
        n = proc_file_read(pid, name, ret, size - 1);
        if (n < 0)
                return n;
        if (n > 0 && ret[n - 1] == '\n')
                n--;
        ret[n] = 0;
        return 0;
}

/* Fields 3, 9, 20 and 22 of /proc/PID/stat. */
typedef struct Stat {
        char state;
        unsigned long flags;
        long threads;
        unsigned long long start; /* ticks */
} Stat;

static int read_stat(pid_t pid, Stat *ret) {
        char buffer[1024], *p;
        ssize_t n = proc_file_read(pid, "stat", buffer, sizeof(buffer) - 1);

        if (n < 0)
                return n;
        buffer[n] = 0;
        p = strrchr(buffer, ')'); /* the name before may hold anything */
        if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                         &ret->state, &ret->flags, &ret->threads, &ret->start) != 4)
                return -EBADMSG;
        return 0;
}

static uint64_t ticks_to_ns(unsigned long long ticks) {
        long hz = sysconf(_SC_CLK_TCK);

        return hz > 0 ? ticks * (NSEC_PER_SEC / hz) : 0;
}

bool proc_file_is_foreign(void) {
        char text[32];
        ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

        if (n < 0) /* where there is none, nothing is mistaken; a number we do not have there leads nowhere */
                return errno != ENOENT || access("/proc/version", F_OK) == 0;
        text[n] = 0;
        return strtol(text, NULL, 10) != getpid();
}

uint32_t proc_file_read_inner_pid(pid_t pid) {
        char buffer[STATUS_SIZE_MAX];
        ssize_t n = proc_file_read(pid, "status", buffer, sizeof(buffer) - 1);
        pid_t inner;

        if (n < 0)
                return 0;
        buffer[n] = 0;
        inner = process_status_get_inner_pid(buffer);
        return inner > 0 && inner != pid ? (uint32_t) inner : 0;
}

bool proc_file_is_running(pid_t pid, uint64_t start) {
        Stat stat;

        if (read_stat(pid, &stat) < 0)
                return proc_file_is_there(pid);
        /* The leader may have ended while its threads go on. */
        if ((stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1)
                return false;
        /* A pid that is used again started later; less than a tick is rounding. */
        return start == 0 || ticks_to_ns(stat.start) < start + NSEC_PER_SEC / 10;
}

uint64_t proc_file_read_start(pid_t pid) {
        Stat stat;

        return read_stat(pid, &stat) < 0 ? 0 : ticks_to_ns(stat.start);
}

bool proc_file_is_kernel_thread(pid_t pid) {
        Stat stat;

        return read_stat(pid, &stat) >= 0 && (stat.flags & PF_KTHREAD);
}
