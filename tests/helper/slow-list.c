/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A helper whose sessions stop between looking whether a process's mappings can be read and reading them: they tell
 * the client, and go on when it sends something. Linked in place of setitimer(), which stands just there.
 */

#include <poll.h>
#include <sys/time.h>

#include "keeper.h"
#include "packet.h"
#include "util.h"

int __real_setitimer(int which, const struct itimerval *value, struct itimerval *old);
int __wrap_setitimer(int which, const struct itimerval *value, struct itimerval *old);

int __wrap_setitimer(int which, const struct itimerval *value, struct itimerval *old) {
        char anything[64];
        Packet packet;

        /* The keeper's is of milliseconds. */
        if (value->it_value.tv_sec > 0 && packet_send(SESSION_CLIENT_FD, "reading", 7, NULL, 0, 0) == 0 &&
            packet_receive(SESSION_CLIENT_FD, anything, sizeof(anything), 0, 0, &packet) > 0)
                packet_done(&packet);
        return __real_setitimer(which, value, old);
}
