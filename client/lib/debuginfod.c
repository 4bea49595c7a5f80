/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "debuginfod.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "process-dir.h"
#include "regular-file.h"
#include "sandbox.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
/*
 * The library looks up once a second at least. It is to end by itself, and so to remove what has come so far: that long
 * before it is killed, or a quarter of its time.
 */
#define GRACE (2 * NSEC_PER_SEC)

typedef struct Message {
        uint32_t is_end;
        int32_t result; /* of the end: 0, with the file's descriptor, or a negative errno */
        uint64_t done, total;
} Message;

static int new_elf(const DebuginfodRequest *request, int fd, ElfFile **ret) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_close_ int file_fd = -1;
        struct stat st;
        int r;

        file_fd = reopen_regular(fd, &st);
        if (file_fd < 0)
                return file_fd;
        r = (request->alt ? elf_file_new_alt_take_fd : elf_file_new_take_fd)(&elf, file_fd);
        if (r < 0)
                return r;
        TAKE_FD(file_fd);
        if (!elf_file_has_build_id(elf, request->id, request->id_len))
                return -EBADMSG;
        *ret = TAKE_PTR(elf);
        return 0;
}

/* ---- the cache ---- */

static bool is_set(const char *value) {
        return value && *value;
}

/* As the library chooses it. */
static int get_cache_path(const DebuginfodRequest *request, char ret[static PATH_MAX]) {
        const char *path = getenv("DEBUGINFOD_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME") ?: "/";
        char hex[2 * DEBUGINFOD_ID_MAX + 1], old[PATH_MAX];
        int n;

        for (size_t i = 0; i < request->id_len; i++)
                (void) snprintf(hex + 2 * i, 3, "%02x", request->id[i]);
        n = snprintf(old, sizeof(old), "%s/.debuginfod_client_cache", home);
        if (!is_set(path) && n < (int) sizeof(old) && access(old, F_OK) == 0)
                path = old;
        if (is_set(path))
                n = snprintf(ret, PATH_MAX, "%s/%s/debuginfo", path, hex);
        else if (is_set(cache))
                n = snprintf(ret, PATH_MAX, "%s/debuginfod_client/%s/debuginfo", cache, hex);
        else
                n = snprintf(ret, PATH_MAX, "%s/.cache/debuginfod_client/%s/debuginfo", home, hex);
        return n < PATH_MAX ? 0 : -ENOENT;
}

static int open_cached(const DebuginfodRequest *request, const char *path, ElfFile **ret) {
        int fd = open(path, O_PATH | O_CLOEXEC);

        return fd < 0 ? -errno : new_elf(request, fd, ret);
}

/* ---- the process that asks ---- */

typedef struct Asking {
        int fd;
        uint64_t deadline;
} Asking;

static int send_message(int fd, const Message *message, int file_fd) {
        struct iovec iov = { .iov_base = (void *) message, .iov_len = sizeof(*message) };
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (file_fd >= 0) {
                msg.msg_control = &control;
                msg.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS,
                        .cmsg_len = CMSG_LEN(sizeof(int)),
                };
                memcpy(CMSG_DATA(&control.header), &file_fd, sizeof(int));
        }
        return RETRY_ON_EINTR(sendmsg(fd, &msg, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

/* Fails when whoever asked is gone, too: the library then removes what it has not got to its end. */
static int report(uint64_t done, uint64_t total, void *userdata) {
        const Asking *asking = userdata;

        if (now_ns(CLOCK_MONOTONIC) >= asking->deadline)
                return -ECANCELED;
        return send_message(asking->fd, &(Message){ .done = done, .total = total }, -1);
}

/* What a terminal sends is for whoever asked, too, and we end with that; at the latest when our time is over. */
static int set_signals(uint64_t seconds) {
        static const int ignored[] = { SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGXFSZ };
        sigset_t none;

        (void) sigemptyset(&none);
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
                if (signal(ignored[i], SIG_IGN) == SIG_ERR)
                        return -errno;
        if (signal(SIGALRM, SIG_DFL) == SIG_ERR || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                return -errno;
        (void) alarm((unsigned) MIN(seconds, (uint64_t) INT_MAX));
        return 0;
}

static int prepare(Asking *asking) {
        uint64_t now = now_ns(CLOCK_MONOTONIC), left = asking->deadline > now ? asking->deadline - now : 0;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), r;

        if (null < 0)
                return -errno;
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        if (asking->fd <= 2)
                return -EBADF;
        close_fds_but(&asking->fd, 1);
        asking->deadline -= MIN(GRACE, left / 4);
        r = set_signals(left / NSEC_PER_SEC + 1);
        /* A server need not say how much there is to come, and what it says before a file has no end, either. */
        if (r >= 0)
                r = sandbox_limit(now + left, /* memory_max= */ 0, DEBUGINFOD_SIZE_MAX);
        if (r >= 0)
                r = sandbox_drop_capabilities();
        if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = -errno;
        return r;
}

/* What is not what was asked for does not stay in the cache, where it would be found again and again. */
static int find(const Debuginfod *debuginfod, const DebuginfodRequest *request, const DebuginfodClient *client) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        _cleanup_close_ int fd = -1;
        int r, copy;

        fd = (debuginfod->find ?: debuginfod_client_find)(client, request->id, request->id_len);
        copy = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return fd < 0 ? fd : -errno;
        r = new_elf(request, copy, &elf);
        if (r < 0 && r != -ENOMEM && r != -EIO)
                (void) unlink(client->cache_path);
        return r < 0 ? r : TAKE_FD(fd);
}

static int work(const Debuginfod *debuginfod, const DebuginfodRequest *request, const char *cache_path, Asking *asking) {
        DebuginfodClient client = {
                .urls = debuginfod->urls, .cache_path = cache_path, .progress = report, .userdata = asking,
        };
        _cleanup_close_ int fd = -1;
        int r;

        r = prepare(asking);
        if (r >= 0)
                r = fd = find(debuginfod, request, &client);
        return send_message(asking->fd, &(Message){ .is_end = true, .result = MIN(r, 0) }, fd);
}

/* ---- ours ---- */

/* -1 unless there is one. There is room for two, the way these are aligned, and so two may have come. */
static int get_fd(struct msghdr *msg) {
        const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
        int fds[2];
        size_t n;

        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
                return -1;
        n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), ELEMENTSOF(fds));
        memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        if (n == 1)
                return fds[0];
        for (size_t i = 0; i < n; i++)
                close_fd(fds[i]);
        return -1;
}

/* What it says is believed as little as if a server had said it. */
static int take(const Message *message, int fd_, const Debuginfod *debuginfod, const DebuginfodRequest *request,
                ElfFile **ret) {
        _cleanup_close_ int fd = fd_;

        if (!message->is_end) {
                if (debuginfod->progress)
                        debuginfod->progress(message->done, message->total, debuginfod->userdata);
                return 1;
        }
        if (message->result < 0)
                return message->result != -ENOMEM ? message->result : -EIO; /* ours is another matter */
        return fd < 0 ? -EBADMSG : new_elf(request, TAKE_FD(fd), ret);
}

/* Whether there is more. */
static int receive(int sock, uint64_t deadline, const Debuginfod *debuginfod, const DebuginfodRequest *request,
                   ElfFile **ret) {
        struct pollfd p = { .fd = sock, .events = POLLIN };
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        Message message;
        struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        struct timespec timeout;
        int r, file_fd;
        ssize_t n;

        if (now >= deadline)
                return -ETIMEDOUT;
        timeout.tv_sec = (time_t) ((deadline - now) / NSEC_PER_SEC);
        timeout.tv_nsec = (long) ((deadline - now) % NSEC_PER_SEC);
        r = ppoll(&p, 1, &timeout, NULL);
        if (r < 0)
                return errno == EINTR ? 1 : -errno;
        if (r == 0)
                return -ETIMEDOUT;
        n = RETRY_ON_EINTR(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC));
        if (n < 0)
                return -errno;
        file_fd = get_fd(&msg);
        if (n != sizeof(message)) { /* 0: it fell */
                close_fd(file_fd);
                return -EBADMSG;
        }
        return take(&message, file_fd, debuginfod, request, ret);
}

static int fetch(const Debuginfod *debuginfod, const DebuginfodRequest *request, const char *cache_path, ElfFile **ret) {
        uint64_t deadline = MIN(request->deadline, now_ns(CLOCK_MONOTONIC) + debuginfod->timeout);
        Asking asking = { .deadline = deadline };
        int socks[2], r;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                asking.fd = socks[1];
                _exit(work(debuginfod, request, cache_path, &asking) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        r = pid < 0 ? -errno : 1;
        close_fd(socks[1]);
        while (r > 0)
                r = receive(socks[0], deadline, debuginfod, request, ret);
        close_fd(socks[0]);
        if (pid < 0)
                return r;
        sandbox_end(pid); /* it may not have ended, whatever it said */
        return r;
}

static void count(Debuginfod *debuginfod, int r) {
        debuginfod->asked++;
        /* Of one that always says too much none has come to its end. */
        if (r != -EFBIG)
                debuginfod->failures = r >= 0 || r == -ENOENT ? 0 : debuginfod->failures + 1;
        if (r >= 0)
                debuginfod->fetched++;
        else if (r == -ENOENT)
                debuginfod->unknown++;
        else if (r == -ETIMEDOUT || r == -ECANCELED)
                debuginfod->given_up++;
        else
                debuginfod->failed++;
}

int debuginfod_open(Debuginfod *debuginfod, const DebuginfodRequest *request, ElfFile **ret) {
        char cache_path[PATH_MAX];
        int r;

        if (!debuginfod->urls || request->id_len < DEBUGINFOD_ID_MIN || request->id_len > DEBUGINFOD_ID_MAX)
                return -ENOENT;
        r = get_cache_path(request, cache_path);
        if (r < 0)
                return r;
        r = open_cached(request, cache_path, ret);
        if (r >= 0 || r == -ENOMEM)
                return r;
        if (!*debuginfod->urls || debuginfod->is_missing)
                return -ENOENT;
        if (debuginfod->failures >= DEBUGINFOD_FAILURES_MAX || debuginfod->asked >= DEBUGINFOD_ASKED_MAX) {
                debuginfod->not_asked++;
                return -ENOENT;
        }
        r = fetch(debuginfod, request, cache_path, ret);
        if (r == -ENOMEM)
                return r;
        if (r == -ENOPKG)
                debuginfod->is_missing = true;
        else
                count(debuginfod, r);
        return r < 0 ? -ENOENT : 0;
}
