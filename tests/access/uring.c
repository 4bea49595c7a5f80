/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Work that the kernel does for a process through io_uring: by threads of its own that count as the process's
 * (io workers), or by the process itself with credentials that it has been lent (personalities).
 */

#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target.h"
#include "util.h"

#define ENTRIES 2
#define READ_SIZE (1U << 20)

typedef struct Uring {
        int fd;
        unsigned *sq_tail, *sq_mask, *sq_array;
        unsigned *cq_head, *cq_tail;
        struct io_uring_sqe *sqes;
} Uring;

static int uring_init(Uring *uring) {
        struct io_uring_params p = {};
        char *sq, *cq;
        void *sqes;

        uring->fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
        if (uring->fd < 0)
                return -errno;
        sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, uring->fd,
                  IORING_OFF_SQ_RING);
        cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                  MAP_SHARED, uring->fd, IORING_OFF_CQ_RING);
        sqes = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
                    uring->fd, IORING_OFF_SQES);
        if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
                return -errno;
        uring->sq_tail = (void *) (sq + p.sq_off.tail);
        uring->sq_mask = (void *) (sq + p.sq_off.ring_mask);
        uring->sq_array = (void *) (sq + p.sq_off.array);
        uring->cq_head = (void *) (cq + p.cq_off.head);
        uring->cq_tail = (void *) (cq + p.cq_off.tail);
        uring->sqes = sqes;
        return 0;
}

/* One request, to its end; its result does not matter, but that it is long. */
static int uring_run(Uring *uring, const struct io_uring_sqe *sqe) {
        unsigned tail = *uring->sq_tail, index = tail & *uring->sq_mask;

        uring->sqes[index] = *sqe;
        uring->sq_array[index] = index;
        __atomic_store_n(uring->sq_tail, tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, uring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
                return -errno;
        __atomic_store_n(uring->cq_head, __atomic_load_n(uring->cq_tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
        return 0;
}

static int read_zeros(Uring *uring, unsigned flags, unsigned personality) {
        _cleanup_close_ int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *buffer = malloc(READ_SIZE);
        struct io_uring_sqe sqe = {
                .opcode = IORING_OP_READ,
                .flags = flags,
                .fd = zero,
                .addr = (uintptr_t) buffer,
                .len = READ_SIZE,
                .personality = personality,
        };
        int r = 0;

        if (zero < 0 || !buffer)
                return -errno;
        while (r >= 0) {
                gate_wait();
                r = uring_run(uring, &sqe);
        }
        return r;
}

int step_uring_worker(_unused_ char *argument, _unused_ char **rest) {
        Uring uring;
        int r = uring_init(&uring);

        return r < 0 ? r : read_zeros(&uring, IOSQE_ASYNC, 0);
}

/* The lender registers its credentials with a ring it shares, and ends. */
static _Noreturn void lend(const Uring *uring, unsigned uid, unsigned gid) {
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
            syscall(SYS_setresuid, uid, uid, uid) < 0)
                _exit(0);
        _exit(syscall(SYS_io_uring_register, uring->fd, IORING_REGISTER_PERSONALITY, NULL, 0));
}

int step_uring_borrow(char *argument, _unused_ char **rest) {
        unsigned uid, gid;
        int status, r;
        Uring uring;
        pid_t pid;

        if (!argument || sscanf(argument, "%u,%u", &uid, &gid) != 2)
                return -EINVAL;
        r = uring_init(&uring);
        if (r < 0)
                return r;
        pid = fork();
        if (pid == 0)
                lend(&uring, uid, gid);
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
                return -EPERM;
        return read_zeros(&uring, 0, WEXITSTATUS(status));
}
