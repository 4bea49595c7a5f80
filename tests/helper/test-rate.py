# SPDX-License-Identifier: LGPL-2.1-or-later
"""
SET_RATE takes as many samples as it says, of whatever is watched, and their weights are the time they stand for: with
targets against what the kernel counted in the same while, without against a session whose rate stays as it is.
"""

import math
import os
import struct
import subprocess

import harness as h

A, B = h.users()
# Neither in step with the scheduler, whose ticks are a multiple of 1 ms.
HZ, STEADY, RING = 499, 487, 1 << 22
SECOND = 1000000000
# Forks where it is told to; parent and child compute until the parent is gone.
FAMILY = """
import os, sys
parent = os.getpid()
os.read(int(sys.argv[1]), 1)
for i in range(2):
    if os.fork() == 0:
        break
while os.getpid() == parent or os.getppid() == parent:
    pass
"""


class Family:
    """A process and what it forks once fork() is called, after it has become a target."""

    def __init__(self):
        self.r, self.w = os.pipe()
        self.process = A.spawn("/usr/bin/python3", "-c", FAMILY, str(self.r), pass_fds=[self.r])
        os.close(self.r)
        h.until("the target is its user's", lambda: os.stat(f"/proc/{self.process.pid}").st_uid == A.uid)

    def fork(self):
        os.write(self.w, b"x")
        h.until("it has forked", lambda: len(self.pids()) == 3)

    def pids(self):
        pid = self.process.pid
        return [pid, *map(int, h.read(f"/proc/{pid}/task/{pid}/children").split())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.w)


def counted(session):
    """ns of CPU time by the event's own count."""
    error, data = session.stats()
    h.check(error == h.OK, f"STATS: {error}")
    return struct.unpack_from("<Q", data, 24)[0]


def samples(session, pids):
    """[(pid, weight or 0)] of all so far."""
    found = []
    for r in h.ring_records(session, RING)[0]:
        pid, = struct.unpack_from("<I", r, 16)
        if r[0] in (h.RECORD_SAMPLE, h.RECORD_WSAMPLE) and pid in pids:
            found.append((pid, struct.unpack_from("<Q", r, 40)[0] if r[0] == h.RECORD_WSAMPLE else 0))
    return found


def check_weights(rate, new):
    told = {weight for _, weight in new}
    h.check(told == ({0} if rate == HZ else {SECOND // HZ * HZ // rate}), f"at {rate} Hz weights are {told}")


def computed(session, seconds=1):
    """Waits until the targets have had so many seconds of CPU time more."""
    mark = counted(session)
    h.until("they compute", lambda: counted(session) - mark >= seconds * SECOND, 200)


def at_rate(session, rate, pids):
    """What is sampled while they compute at one rate; begins and ends stopped."""
    h.check(session.set_rate(rate) == h.OK, f"SET_RATE to {rate} Hz")
    before, began = len(samples(session, pids)), counted(session)
    h.check(session.start() == h.OK, "START")
    computed(session)
    h.check(session.stop() == h.OK, "STOP")
    expected = (counted(session) - began) * rate / SECOND
    new = samples(session, pids)[before:]
    print(f"    {rate} Hz: {len(new)} samples of {expected:.1f}", flush=True)
    check_weights(rate, new)
    # Ticks that a virtual machine was not given, and for each CPU one that is under way.
    h.check(0.9 * expected - os.cpu_count() <= len(new) <= 1.01 * expected + os.cpu_count(),
            f"at {rate} Hz {len(new)} samples, {expected} were expected")
    return {pid for pid, _ in new}


def check_changes(session, pids):
    """Changed while it runs: all samples together make up the time."""
    before, began = len(samples(session, pids)), counted(session)
    h.check(session.set_rate(HZ) == h.OK and session.start() == h.OK, "START")
    for rate in (HZ // 2, 49, 100, HZ):
        computed(session, 0.5)
        h.check(session.set_rate(rate) == h.OK, f"SET_RATE to {rate} Hz, running")
    h.check(session.stop() == h.OK, "STOP")
    ns = counted(session) - began
    whole = sum(weight or SECOND // HZ for _, weight in samples(session, pids)[before:])
    print(f"    in turn: weights are {whole / ns:.3f} of the time", flush=True)
    slack = os.cpu_count() * SECOND // 49
    h.check(0.9 * ns - slack <= whole <= 1.01 * ns + slack, f"weights are {whole} ns of {ns}")


def test_targets():
    """A process, its children from before a change, and another target that is named after it."""
    for way in ways():
        with Family() as first, Family() as second, way.ready(targets=True, hz=HZ, ring=RING) as session:
            with way.act():
                h.check(session.target(first.process.pid) == (h.OK, 1), "TARGET")
            first.fork()
            at_rate(session, HZ // 2, first.pids())
            with way.act():
                h.check(session.target(second.process.pid) == (h.OK, 1), "TARGET after SET_RATE")
            second.fork()
            pids = [*first.pids(), *second.pids()]
            for rate in (HZ // 2, 49, HZ, 70):
                seen = at_rate(session, rate, pids)
                h.check(seen == set(pids), f"{way.name}: of {pids} only {seen} have samples")
            h.check(session.set_rate(HZ + 1) == h.E_RATE and session.set_rate(0) == h.E_RATE, "out of range")
            at_rate(session, 70, pids)
            check_changes(session, pids)


def test_untargeted():
    """On every CPU. Others have none of it, and it has none of theirs."""
    with A.connect() as c, Family() as family, h.killed(B.spin()), \
            h.open_session(c, hz=HZ, ring=RING) as session, h.open_session(c, hz=STEADY, ring=RING) as steady:
        with A.act():
            h.check(session.hello() == h.OK and steady.hello() == h.OK, "HELLO")
        family.fork()
        pids = family.pids()
        h.check(steady.start() == h.OK and session.start() == h.OK, "START")
        for rate in (HZ, HZ // 2, 49):
            h.check(session.set_rate(rate) == h.OK, f"SET_RATE to {rate} Hz")
            before = [len(samples(s, pids)) for s in (session, steady)]
            h.until("they compute", lambda: len(samples(steady, pids)) >= before[1] + 2 * HZ, 200)
            new = samples(session, pids)[before[0]:]
            expected = (len(samples(steady, pids)) - before[1]) * rate / STEADY
            print(f"    {rate} Hz: {len(new)} samples of {expected:.1f}", flush=True)
            check_weights(rate, new)
            # They see different moments, so that both are what chance makes of it.
            h.check(abs(len(new) - expected) <= 5 * math.sqrt(2 * expected), f"{len(new)} at {rate} Hz for {expected}")


def ways():
    yield h.Way("bus", A, A.connect())
    yield h.Way("direct", A)


with open("/run/test.rules", "w") as f:
    f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\") "
            "return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
h.main(test_targets, test_untargeted)
