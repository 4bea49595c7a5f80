/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When to ask for the names of kernel functions. Once a second, to notice modules that came; and at once for a
 * stack with a module that was not there before, so that its names are delivered before it. An answer with
 * the generation that was there already is no news; as a rule it comes without a memfd, which a session gives once.
 */


#include "session-internal.h"
#include "util.h"

#define NSEC_PER_MSEC 1000000ULL
#define INTERVAL (1000 * NSEC_PER_MSEC)
/* For a new module: whoever loads and unloads modules in a loop does not keep us from the ring. */
#define INTERVAL_MODULE (100 * NSEC_PER_MSEC)

static int deliver(RingsideSession *session, int fd, uint64_t size, uint64_t generation, RingsideRecordFunc func,
                   void *userdata) {
        SessionNames *names = &session->names;
        RingsideRecord record = {
                .type = RINGSIDE_KERNEL_NAMES,
                .kernel_names = { .fd = fd, .size = size, .generation = generation },
        };
        int r;

        if (names->told && names->none == (fd < 0) && (fd < 0 || names->generation == generation))
                return 0;
        names->told = true;
        names->none = fd < 0;
        if (fd >= 0)
                names->generation = generation;
        r = func(&record, userdata);
        return r < 0 ? r : 1;
}

/* A helper that refuses has none to give; that is no failure of the dispatch. */
static int ask(RingsideSession *session, RingsideRecordFunc func, void *userdata) {
        struct rs_request request = {};
        RingsideError before = session->error;
        union rs_any_message answer;
        Packet packet = {};
        int r;

        session->names.last = now_ns(CLOCK_MONOTONIC);
        session->names.next = session->names.last + INTERVAL;
        r = session_ask(session, RS_SYMBOLS, &request.m, sizeof(request), -1, &answer, sizeof(answer.symbols), &packet);
        if (r < 0 && session->ended)
                return 0; /* what is in the ring still counts */
        if (r >= 0 && packet.n_fds == 0 && answer.symbols.generation != 0 &&
            answer.symbols.generation == session->names.generation)
                return 0; /* the names are here */
        if (r < 0 || packet.n_fds != 1) {
                session->error = before;
                packet_done(&packet);
                return deliver(session, -1, 0, 0, func, userdata);
        }
        r = deliver(session, packet.fds[0], answer.symbols.size, answer.symbols.generation, func, userdata);
        packet_done(&packet);
        return r;
}

static bool may_ask(const RingsideSession *session) {
        return (session->welcome.grants & RS_GRANT_KERNEL) && !session->ended;
}

int session_names_poll(RingsideSession *session, RingsideRecordFunc func, void *userdata) {
        if (!may_ask(session) || (session->names.told && now_ns(CLOCK_MONOTONIC) < session->names.next))
                return 0;
        return ask(session, func, userdata);
}

/* Notes the numbers of a stack's modules. Returns whether one is new. */
static bool note_modules(SessionNames *names, const RingsideRecord *stack) {
        bool new = false;

        for (uint32_t i = 0; i < stack->stack.n_kernel; i++) {
                unsigned module = RINGSIDE_FRAME_MODULE(stack->stack.frames[i]);
                uint8_t bit = 1U << module % 8;

                if (module >= RS_MODULE_MAX || (names->modules[module / 8] & bit))
                        continue;
                names->modules[module / 8] |= bit;
                new = true;
        }
        return new;
}

int session_names_look(RingsideSession *session, const RingsideRecord *stack, RingsideRecordFunc func, void *userdata) {
        SessionNames *names = &session->names;

        if (!may_ask(session) || !note_modules(names, stack))
                return 0;
        if (names->told && now_ns(CLOCK_MONOTONIC) < names->last + INTERVAL_MODULE)
                names->next = MIN(names->next, names->last + INTERVAL_MODULE);
        else
                return ask(session, func, userdata);
        return 0;
}
