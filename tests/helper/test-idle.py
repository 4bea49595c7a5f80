# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A helper that nobody needs ends after a minute, and the next call starts another; one that somebody needs stays. Takes
that minute, asleep.

test-idle.py unused|session|ring|named
"""

import os
import subprocess
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
        began = time.monotonic()
        h.Way("bus", A, c).works()
        h.used()
        front, used = h.only("front"), time.monotonic()
        # Its minute has begun in between.
        # Maps of others' sessions, of a test that runs at the same time, may be taken for what is left of its own.
        h.until("the helper has ended", gone, timeout=4 * IDLE)
        now = time.monotonic()
        print(f"    ended {now - used:.1f} to {now - began:.1f} s after its use", flush=True)
        h.check(now - began >= IDLE, "ended before its time")
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


def test_named():
    """Who has the kernel's names may have kept them; only this helper knows."""
    subprocess.run(["polkit-rules", os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/profile-kernel.rules"], check=True)
    with A.connect() as c:
        with h.open_session(c, kernel=("s", "quiet")) as session, A.act():
            h.check(session.hello() == h.OK and session.ask(h.SYMBOLS)[0] == h.OK, "no names")
        front = h.only("front")
        time.sleep(IDLE + 5)
        h.check(h.role_pids("front") == [front], "ended, and nobody knows of the names")


TESTS = {"unused": test_unused, "session": test_session, "ring": test_ring, "named": test_named}
h.main(TESTS[sys.argv[1]])
