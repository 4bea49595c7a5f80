# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A helper that nobody needs ends after a minute, and the next call starts another; one that somebody needs stays. Takes
that minute, asleep.

test-idle.py unused|session|ring
"""

import os
import sys
import time

import harness as h

A, _ = h.users()
IDLE = 60


def gone():
    return not h.helpers()


def test_unused():
    """Calls that open nothing do not keep it; and what calls at the very end is served."""
    with A.connect() as c:
        h.call(c, "ListEvents")
        h.Way("bus", A, c).works()
        h.used()
        front, began = h.only("front"), time.monotonic()
        while time.monotonic() - began < IDLE - 5:
            time.sleep(5)
            h.check(h.role_pids("front") == [front], f"ended after {time.monotonic() - began:.0f} s")
        h.until("the helper has ended", gone, timeout=15)
        h.check(IDLE - 3 < time.monotonic() - began < IDLE + 8, f"ended after {time.monotonic() - began:.0f} s")
        h.Way("bus", A, c).works()
        h.check(h.only("front") != front, "the same helper")


def test_session():
    """A session that nobody has said HELLO to is a session."""
    with A.connect() as c, h.open_session(c) as session:
        front = h.only("front")
        time.sleep(IDLE + 5)
        h.check(h.role_pids("front") == [front], "ended under its session")
        with A.act():
            h.check(session.hello() == h.OK, "HELLO refused after a minute")


def test_ring():
    """So is the ring of one that has ended, for its budget."""
    with A.connect() as c:
        with h.open_session(c) as session, A.act():
            h.check(session.hello() == h.OK, "HELLO refused")
            ring = os.dup(session.fds[0])
        front = h.only("front")
        time.sleep(IDLE + 5)
        h.check(h.role_pids("front") == [front], "ended, and nobody knows of the ring")
        os.close(ring)


h.main({"unused": test_unused, "session": test_session, "ring": test_ring}[sys.argv[1]])
