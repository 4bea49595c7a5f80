/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One packet of a SOCK_SEQPACKET socket with the file descriptors and credentials that came along.
 * The only place that reads control messages: what arrives is counted, and closed where it was not
 * asked for.
 */

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* As many as one message carries in either direction. */
#define PACKET_FDS_MAX 32

typedef struct Packet {
        size_t size;   /* bytes of data */
        int fds[PACKET_FDS_MAX];
        size_t n_fds;
        struct ucred credentials; /* pid 0: none came */
} Packet;

/* fds are borrowed. flags: MSG_DONTWAIT or 0. Returns 0 or -errno. */
int packet_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds, int flags);
/*
 * Reads one packet into data. Returns 1, 0: the other side has closed, -EAGAIN, -EBADMSG: longer
 * than size or more fds than max_fds (all are closed then), or another -errno. The caller owns ret->fds.
 */
int packet_receive(int fd, void *data, size_t size, size_t max_fds, int flags, Packet *ret);
/* Closes what was not taken out with TAKE_FD(). */
void packet_done(Packet *packet);
