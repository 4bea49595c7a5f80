/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The client's end of the protocol, with a helper that answers anything. */

#include "../../client/lib/session.c"
#include "fuzz.h"
#include "packets.h"

static int ignore(_unused_ const RingsideRecord *record, _unused_ void *userdata) {
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        RingsideStatistics statistics;
        RingsideSession *session;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return 0;
        if (ringside_session_new(&session) < 0)
                abort();
        session->fd = pair[0];
        packets_send(pair[1], data, size);
        /* The requests pile up unread, and the answers end. */
        shutdown(pair[1], SHUT_WR);
        if (session_hello(session) >= 0) {
                (void) ringside_session_add_target(session, pair[1], 0, 0);
                if (ringside_session_start(session) >= 0) {
                        (void) ringside_session_dispatch(session, ignore, NULL);
                        (void) ringside_session_get_statistics(session, &statistics);
                }
                (void) ringside_session_stop(session);
                (void) ringside_session_set_rate(session, 0, 1);
        }
        ringside_session_free(session);
        close_fd(pair[1]);
        return 0;
}
