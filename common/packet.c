/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "packet.h"

#include <stdbool.h>
#include <string.h>

#include "util.h"

/* Room for every fd the kernel may install at once, so that none is lost unseen, and credentials. */
#define CONTROL_SIZE (CMSG_SPACE(sizeof(int) * PACKET_FDS_MAX) + CMSG_SPACE(sizeof(struct ucred)))

int packet_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds, int flags) {
        union {
                struct cmsghdr header;
                char bytes[CONTROL_SIZE];
        } control = {};
        struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

        if (n_fds > PACKET_FDS_MAX)
                return -EINVAL;
        if (n_fds > 0) {
                message.msg_control = control.bytes;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
        }
        return RETRY_ON_EINTR(sendmsg(fd, &message, flags | MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

/* False where there were more descriptors than a packet holds: the kernel may find room in the padding. */
static bool packet_take_control(Packet *packet, struct msghdr *message) {
        bool complete = true;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                size_t size = c->cmsg_len - CMSG_LEN(0);

                if (c->cmsg_level != SOL_SOCKET)
                        continue;
                if (c->cmsg_type == SCM_RIGHTS) {
                        const int *fds = (const int *) CMSG_DATA(c);

                        for (size_t i = 0; i < size / sizeof(int); i++)
                                if (packet->n_fds < PACKET_FDS_MAX)
                                        packet->fds[packet->n_fds++] = fds[i];
                                else {
                                        close_fd(fds[i]);
                                        complete = false;
                                }
                } else if (c->cmsg_type == SCM_CREDENTIALS && size == sizeof(struct ucred))
                        memcpy(&packet->credentials, CMSG_DATA(c), sizeof(struct ucred));
        }
        return complete;
}

int packet_receive(int fd, void *data, size_t size, size_t max_fds, int flags, Packet *ret) {
        union {
                struct cmsghdr header;
                char bytes[CONTROL_SIZE];
        } control = {};
        struct iovec iov = {.iov_base = data, .iov_len = size};
        struct msghdr message = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control.bytes,
                .msg_controllen = sizeof(control.bytes),
        };
        Packet packet = {};
        bool complete;
        ssize_t n;

        n = RETRY_ON_EINTR(recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC));
        /* Said once, where the other side has closed without reading all of ours; its last words follow. */
        if (n < 0 && errno == ECONNRESET)
                n = RETRY_ON_EINTR(recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC));
        if (n < 0)
                return errno == ECONNRESET ? 0 : -errno;
        complete = packet_take_control(&packet, &message);
        /* An empty packet and the end of the stream look alike, but only one of them has control data. */
        if (n == 0 && packet.n_fds == 0)
                return 0;
        if (!complete || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || packet.n_fds > max_fds) {
                packet_done(&packet);
                return -EBADMSG;
        }
        packet.size = n;
        *ret = packet;
        return 1;
}

void packet_done(Packet *packet) {
        for (size_t i = 0; i < packet->n_fds; i++)
                packet->fds[i] = close_fd(packet->fds[i]);
        packet->n_fds = 0;
}
