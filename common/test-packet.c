/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Packets of every size with any number of descriptors: what is not wanted is refused, and never left open. */

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "packet.h"
#include "util.h"

/* As many as the kernel takes in one message. */
#define SCM_MAX 253

typedef struct Pair {
        int a, b;
} Pair;

static int set_up(void **state) {
        Pair *pair = malloc(sizeof(*pair));
        int fds[2];

        if (!pair || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return -1;
        *pair = (Pair){fds[0], fds[1]};
        *state = pair;
        return 0;
}

static int tear_down(void **state) {
        Pair *pair = *state;

        close_fd(pair->a);
        close_fd(pair->b);
        free(pair);
        return 0;
}

static unsigned count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* More than packet_send() would. */
static void send_many(int fd, size_t n) {
        static const char byte = 'x';
        char control[CMSG_SPACE(sizeof(int) * SCM_MAX)] = {};
        struct iovec iov = {.iov_base = (void *) &byte, .iov_len = 1};
        struct msghdr message = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control,
                .msg_controllen = CMSG_SPACE(sizeof(int) * n),
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        for (size_t i = 0; i < n; i++)
                memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
        assert_int_equal(sendmsg(fd, &message, 0), 1);
}

static void test_sizes(void **state) {
        char out[64], in[32];
        const Pair *pair = *state;
        Packet packet;

        memset(out, 'x', sizeof(out));
        for (size_t size = 1; size <= sizeof(out); size++) {
                int r;

                assert_int_equal(packet_send(pair->a, out, size, NULL, 0, 0), 0);
                memset(in, 0, sizeof(in));
                r = packet_receive(pair->b, in, sizeof(in), 0, 0, &packet);
                if (size > sizeof(in)) {
                        assert_int_equal(r, -EBADMSG);
                        continue;
                }
                assert_int_equal(r, 1);
                assert_int_equal(packet.size, size);
                assert_int_equal(packet.n_fds, 0);
                assert_memory_equal(in, out, size);
                for (size_t i = size; i < sizeof(in); i++)
                        assert_int_equal(in[i], 0);
        }
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 0, MSG_DONTWAIT, &packet), -EAGAIN);
}

static void test_descriptors(void **state) {
        const Pair *pair = *state;
        unsigned before = count_fds();
        char in[8];

        for (size_t n = 1; n <= SCM_MAX; n++) {
                Packet packet = {};
                int r;

                send_many(pair->a, n);
                r = packet_receive(pair->b, in, sizeof(in), PACKET_FDS_MAX, 0, &packet);
                if (n > PACKET_FDS_MAX) {
                        assert_int_equal(r, -EBADMSG);
                } else {
                        assert_int_equal(r, 1);
                        assert_int_equal(packet.n_fds, n);
                        for (size_t i = 0; i < n; i++)
                                assert_int_equal(fcntl(packet.fds[i], F_GETFD), FD_CLOEXEC);
                        packet_done(&packet);
                        assert_int_equal(packet.n_fds, 0);
                }
                assert_int_equal(count_fds(), before);

                /* One more than the caller takes. */
                if (n > PACKET_FDS_MAX)
                        continue;
                send_many(pair->a, n);
                assert_int_equal(packet_receive(pair->b, in, sizeof(in), n - 1, 0, &packet), -EBADMSG);
                assert_int_equal(count_fds(), before);
        }
}

/* With credentials in the same buffer. */
static void test_credentials(void **state) {
        const Pair *pair = *state;
        unsigned before = count_fds();
        const int on = 1;
        Packet packet = {};
        char in[8];

        assert_int_equal(packet_send(pair->a, "x", 1, NULL, 0, 0), 0);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 0, 0, &packet), 1);
        assert_int_equal(packet.credentials.pid, 0);

        assert_int_equal(setsockopt(pair->b, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
        for (size_t n = 1; n <= 40; n++) {
                int r;

                send_many(pair->a, n);
                r = packet_receive(pair->b, in, sizeof(in), PACKET_FDS_MAX, 0, &packet);
                assert_int_equal(r, n <= PACKET_FDS_MAX ? 1 : -EBADMSG);
                if (r == 1) {
                        assert_int_equal(packet.credentials.pid, getpid());
                        assert_int_equal(packet.credentials.uid, getuid());
                        packet_done(&packet);
                }
                assert_int_equal(count_fds(), before);
        }
}

static void test_send(void **state) {
        const Pair *pair = *state;
        int fds[PACKET_FDS_MAX + 1], r;
        Packet packet = {};
        char in[8];

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = pair->a;
        assert_int_equal(packet_send(pair->a, "x", 1, fds, ELEMENTSOF(fds), 0), -EINVAL);
        assert_int_equal(packet_send(pair->a, "x", 1, fds, PACKET_FDS_MAX, 0), 0);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), PACKET_FDS_MAX, 0, &packet), 1);
        assert_int_equal(packet.n_fds, PACKET_FDS_MAX);
        packet_done(&packet);
        fds[0] = -1;
        assert_int_equal(packet_send(pair->a, "x", 1, fds, 1, 0), -EBADF);
        while ((r = packet_send(pair->a, "x", 1, NULL, 0, MSG_DONTWAIT)) == 0)
                ;
        assert_int_equal(r, -EAGAIN);
}

static void test_end(void **state) {
        Pair *pair = *state;
        Packet packet = {};
        char in[8];

        /* An empty packet is taken for the end, unless it carries something. */
        assert_int_equal(packet_send(pair->a, NULL, 0, NULL, 0, 0), 0);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 1, 0, &packet), 0);
        assert_int_equal(packet_send(pair->a, NULL, 0, &pair->a, 1, 0), 0);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 1, 0, &packet), 1);
        assert_int_equal(packet.size, 0);
        assert_int_equal(packet.n_fds, 1);
        packet_done(&packet);

        pair->a = close_fd(pair->a);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 1, 0, &packet), 0);
        /* No signal, an error. */
        assert_int_equal(packet_send(pair->b, "x", 1, NULL, 0, 0), -EPIPE);
        /* Unread packets at the other end: a reset is an end as well. */
        tear_down(state);
        assert_int_equal(set_up(state), 0);
        pair = *state;
        assert_int_equal(packet_send(pair->b, "x", 1, NULL, 0, 0), 0);
        pair->a = close_fd(pair->a);
        assert_int_equal(packet_receive(pair->b, in, sizeof(in), 1, 0, &packet), 0);
        assert_int_equal(packet_receive(-1, in, sizeof(in), 1, 0, &packet), -EBADF);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_descriptors, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_credentials, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_send, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
