/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Fuzz input as packets: two bytes of length (less than 2048), one of how many fds, and the bytes. */

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "packet.h"
#include "util.h"

/* Sends what fits the socket; returns when the input is used up. */
static inline void packets_send(int fd, const uint8_t *data, size_t size) {
        int memfd = memfd_create("fuzz", MFD_CLOEXEC);
        int fds[PACKET_FDS_MAX];

        for (size_t i = 0; i < PACKET_FDS_MAX; i++)
                fds[i] = memfd;
        /* As large as any ring that might be mapped from it; sparse. */
        if (ftruncate(memfd, 256L * 1024 * 1024) < 0)
                abort();
        while (size >= 3) {
                size_t length = (data[0] | data[1] << 8) & 2047, n_fds = data[2] % (PACKET_FDS_MAX + 1);

                data += 3;
                size -= 3;
                length = MIN(length, size);
                if (packet_send(fd, data, length, fds, n_fds, MSG_DONTWAIT) < 0)
                        break;
                data += length;
                size -= length;
        }
        close_fd(memfd);
}
