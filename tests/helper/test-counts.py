# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the events of named targets count is told of those that the rule shows: from the moment on when one hides itself its
CPU time is in no count, though the kernel goes on counting it.
"""

import os
import struct
import subprocess

import harness as h

A, _ = h.users()
SECOND = 1000000000
# Becomes undumpable, and dumpable again, for each byte it is sent, says so, and computes.
HIDES = """
import ctypes, os, select, sys
libc, r, w = ctypes.CDLL(None), int(sys.argv[1]), int(sys.argv[2])
dumpable = 1
while True:
    if select.select([r], [], [], 0)[0]:
        if not os.read(r, 1):
            break
        dumpable = 1 - dumpable
        libc.prctl(4, dumpable, 0, 0, 0)
        os.write(w, b"x")
    for i in range(100000):
        pass
"""


class Hiding:
    def __init__(self):
        r, self.w = os.pipe()
        self.r, w = os.pipe()
        self.process = A.spawn("/usr/bin/python3", "-c", HIDES, str(r), str(w), pass_fds=[r, w])
        os.close(r)
        os.close(w)
        self.pid = self.process.pid

    def turn(self):
        os.write(self.w, b"x")
        h.check(os.read(self.r, 1) == b"x", "it has died")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.r)
        os.close(self.w)


def cpu(pid):
    """ns"""
    fields = h.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * SECOND // os.sysconf("SC_CLK_TCK")


def told(session):
    """Count and times of the event."""
    error, data = session.stats()
    h.check(error == h.OK, f"STATS: {error}")
    return [struct.unpack_from("<Q", data, 24 + 64 * i)[0] for i in range(3)]


def meanwhile(session, hiding, seen, what):
    """Two seconds of the one's CPU time later: what was told, and what each had, in seconds."""
    before = [*told(session), cpu(hiding), cpu(seen)]
    h.until("it computes", lambda: cpu(hiding) - before[3] >= 2 * SECOND)
    after = [*told(session), cpu(hiding), cpu(seen)]
    seconds = [(a - b) / SECOND for a, b in zip(after, before)]
    print("    {}: count {:.2f}, enabled {:.2f}, running {:.2f}; it had {:.2f}, the other {:.2f}".format(what, *seconds),
          flush=True)
    return seconds


def test_hidden():
    with A.connect() as c, Hiding() as hiding, h.killed(A.spin()) as seen, \
            h.open_session(c, targets=True, hz=1000) as session:
        for pid in (hiding.pid, seen.pid):
            h.until("the target is its user's", lambda: os.stat(f"/proc/{pid}").st_uid == A.uid)
        with A.act():
            h.check(session.hello() == h.OK, "HELLO")
            for pid in (hiding.pid, seen.pid):
                h.check(session.target(pid) == (h.OK, 1), "TARGET")
        h.check(session.start() == h.OK, "START")
        # What the clocks of a virtual machine were not given is missing here and there.
        for what, shown in (("shown", 1), ("hidden", 0), ("shown again", 1)):
            *counted, own, other = meanwhile(session, hiding.pid, seen.pid, what)
            for name, seconds in zip(("count", "enabled", "running"), counted):
                expected = other + shown * own
                h.check(0.7 * expected - 0.3 < seconds < 1.05 * expected + 0.3 * own + 0.3,
                        f"{what}: {name} is {seconds:.2f} s of {expected:.2f}")
            if shown:
                h.check(counted[0] > other + 0.6 * own, f"{what}: it is not counted")
            hiding.turn()


with open("/run/test.rules", "w") as f:
    f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\") "
            "return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
h.main(test_hidden)
