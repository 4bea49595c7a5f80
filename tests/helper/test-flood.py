# SPDX-License-Identifier: LGPL-2.1-or-later
"""
User A asks for more than there is for one user, in every way there is, while user B works: B loses nothing, and
nothing of the helper grows. How much slower B's program gets is measured by tests/bench/flood.py.
"""

import mmap
import os
import pwd
import re
import signal
import subprocess
import sys
import time

import harness as h
from dbus_client import DBusError

A, B = h.users()
LATER = h.ERROR + "Later"
MIB = 1 << 20
OPENS, OPENS_MINUTE = 60, 30  # helper/budget.h


def allow_own():
    with open("/run/test.rules", "w") as f:
        f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\") "
                "return polkit.Result.YES; });\n")
    subprocess.run(["polkit-rules", "/run/test.rules"], check=True)


def test_opens():
    """One session after the other: so many at once, then as they come back; nobody else's, and the library waits."""
    opened, began = 0, time.monotonic()
    with A.connect() as c:
        while True:
            h.check(opened < 5 * OPENS, f"{opened} sessions in {time.monotonic() - began:.0f} s")
            try:
                h.open_session(c, targets=True, patient=False).close()
            except DBusError as e:
                if e.name == LATER:
                    text = e.text
                    break
                h.check(e.name == h.ERROR + "Budget", str(e))  # the one before has not ended yet
            else:
                opened += 1
        seconds = time.monotonic() - began
        h.check(OPENS <= opened <= OPENS + 1 + seconds * OPENS_MINUTE / 60, f"{opened} sessions in {seconds} s")
        wait = re.search(r"; the next in (\d+) s$", text)
        h.check(wait and 1 <= int(wait[1]) <= 60 // OPENS_MINUTE, text)
        time.sleep(int(wait[1]))
        h.open_session(c, targets=True, patient=False).close()
    with B.connect() as c:
        h.open_session(c, targets=True, patient=False).close()
    # What is due sooner than a person loses patience is waited for.
    output = os.path.join(pwd.getpwnam(A.name).pw_dir, "flood.ringside")
    r = A.spawn("ringside", "record", "--no-ask", "-q", "-o", output, "--", "true", stderr=subprocess.PIPE)
    text = r.communicate(timeout=60)[1]
    h.check(r.returncode == 0, f"ringside record: {text}")


def opened(c, **kwargs):
    """A session, or None where it is over a budget."""
    try:
        return h.open_session(c, **kwargs)
    except DBusError as e:
        h.check(e.name == h.ERROR + "Budget", str(e))


def test_restart():
    """Rings that are kept mapped are charged to their user by the next helper, too, and by no name but theirs."""
    rings = []
    with A.connect() as a, B.connect() as b:
        for size in (64 * MIB, 16 * MIB):
            with h.open_session(a, ring=size) as session, A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
                rings.append(mmap.mmap(session.fds[0], 4096 + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=4096))
        # One session is at work, and ends with its helper.
        with h.open_session(a, hz=49) as session:
            with A.act():
                h.check(session.hello() == h.OK and session.start() == h.OK, "no session")
            os.kill(h.only("front"), signal.SIGKILL)
            h.until("the helper has ended", lambda: not h.helpers())
        # The first session that ends makes the next helper look.
        h.open_session(b).close()
        h.used()
        name, text = h.open_error(a, h.options(ring=16 * MIB))
        h.check(name == h.ERROR + "Budget" and "memory of one user" in text, f"{name}: {text}")
        left = int(re.search(r"(\d+) of \d+ left", text)[1])
        h.check(16 * MIB - 2 * MIB < left < 16 * MIB, text)
        h.open_session(b, ring=64 * MIB).close()
        rings.pop().close()
        h.until("the smaller one is given back", lambda: opened(a, ring=16 * MIB), timeout=12).close()
        h.check(not opened(a, ring=64 * MIB), "the larger one is not charged any more")
        rings.pop().close()
        h.until("all of it is given back", lambda: opened(a, ring=64 * MIB), timeout=12).close()


allow_own()
TESTS = [test_opens, test_restart]
names = sys.argv[1:]  # all without
h.main(*[t for t in TESTS if not names or t.__name__ in names])
