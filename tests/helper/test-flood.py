# SPDX-License-Identifier: LGPL-2.1-or-later
"""
User A asks for more than there is for one user, in every way there is, while user B works: B loses nothing, and
nothing of the helper grows. How much slower B's program gets is measured by tests/bench/flood.py.
"""

import os
import pwd
import re
import subprocess
import sys
import time

import harness as h
from dbus_client import DBusError

A, B = h.users()
LATER = h.ERROR + "Later"
OPENS, OPENS_MINUTE = 60, 30  # helper/budget.h


def allow_all():
    with open("/run/test.rules", "w") as f:
        f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
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


allow_all()
TESTS = [test_opens]
names = sys.argv[1:]  # all without
h.main(*[t for t in TESTS if not names or t.__name__ in names])
