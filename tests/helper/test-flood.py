# SPDX-License-Identifier: LGPL-2.1-or-later
"""
User A asks for more than there is for one user, in every way there is, while user B works: B loses nothing, and
nothing of the helper grows. How much slower B's program gets is measured by tests/bench/flood.py.
"""

import contextlib
import glob
import json
import mmap
import os
import pwd
import re
import signal
import sqlite3
import subprocess
import sys
import time

import flood
import harness as h
from dbus_client import DBusError

A, B = h.users()
LATER = h.ERROR + "Later"
MIB = 1 << 20
OPENS, OPENS_MINUTE = 60, 30  # helper/budget.h
SHARE, SHARE_SYSTEM = 64, 4  # helper/session.h
TICK = os.sysconf("SC_CLK_TCK")
HZ, BUSY_SECONDS, FLOODS = 499, 3, 7
BUSY = f"import time\nwhile time.process_time() < {BUSY_SECONDS}: pass\n"


def allow():
    """Both users their own; and whoever floods all there is."""
    with open("/run/test.rules", "w") as f:
        f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\" || "
                f"subject.user == \"{A.name}\") return polkit.Result.YES; }});\n")
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
                    break
                h.check(e.name == h.ERROR + "Budget", str(e))  # the one before has not ended yet
            else:
                opened += 1
        seconds = time.monotonic() - began
        h.check(OPENS <= opened <= OPENS + 1 + seconds * OPENS_MINUTE / 60, f"{opened} sessions in {seconds} s")
        # Until the next is due, to refuse it again is no news to the bus.
        monitor = h.Monitor()
        with monitor.connection:
            said = []
            while LATER not in said:
                try:
                    h.open_session(c, targets=True, patient=False).close()
                except DBusError as e:
                    text = e.text
                said = monitor.said(c)
            h.check(said == [LATER], f"to refuse it again the helper says {said}")
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
            # What was recorded before may not have ended yet.
            with h.until("there is room", lambda size=size: opened(a, ring=size)) as session, A.act():
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
        h.until("the smaller one is given back", lambda: opened(a, ring=16 * MIB)).close()
        h.check(not opened(a, ring=64 * MIB), "the larger one is not charged any more")
        rings.pop().close()
        h.until("all of it is given back", lambda: opened(a, ring=64 * MIB)).close()


class Recording:
    """`ringside record` of a program of B's that computes for so many seconds of its CPU time."""

    def __init__(self, name):
        self.path = os.path.join(pwd.getpwnam(B.name).pw_dir, name)
        self.process = B.spawn("ringside", "record", "--no-ask", "-q", "-F", str(HZ), "-o", self.path, "--",
                               "/usr/bin/python3", "-c", BUSY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self):
        """Nothing is missing."""
        _, text = self.process.communicate(timeout=200)
        h.check(self.process.returncode == 0 and not text, f"B's recording: {self.process.returncode}: {text}")
        p = B.spawn("ringside", "report", "--format=json", self.path, stdout=subprocess.PIPE, text=True)
        report = json.loads(p.communicate(timeout=60)[0])
        told = report["recording"]
        h.check(told["finished"] and told["lost"] == 0, f"B has lost samples: {told}")
        # To the last one: what the kernel counted is what the file has.
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            counters = dict(db.execute("SELECT name, value FROM counter"))
            samples, = db.execute("SELECT count(*) FROM sample").fetchone()
        lost = {name: n for name, n in counters.items() if name.endswith("lost") and n}
        h.check(counters["taken"] == counters["emitted"] == samples == report["samples"] and not lost,
                f"B has {samples} samples, the kernel counted {counters}")
        # A tenth for ticks that a virtual machine was not given.
        h.check(report["samples"] >= BUSY_SECONDS * HZ * 0.9, f"B has {report['samples']} samples")
        os.unlink(self.path)


def memory(pids):
    """KiB that these have to themselves."""
    return sum(int(h.status(pid)["RssAnon"].split()[0]) for pid in pids)


def map_memory(pids):
    """Bytes of all maps of these, counted once."""
    found = {}
    for pid in pids:
        for info in glob.glob(f"/proc/{pid}/fdinfo/*"):
            with contextlib.suppress(OSError):
                text = h.read(info)
                number, size = re.search(r"^map_id:\s*(\d+)", text, re.M), re.search(r"^memlock:\s*(\d+)", text, re.M)
                if number and size:
                    found[number[1]] = int(size[1])
    return sum(found.values())


def check_sessions():
    """Each within its CPU time, and all of A's within A's memory."""
    used = {}
    for pid in h.role_pids("session"):
        with contextlib.suppress(OSError):
            fields = h.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / TICK
            used[pid] = (int(fields[11]) + int(fields[12])) / TICK, age
    # A second at first, and half a one for its start and the request that it was at. One of them sees everybody.
    over = [pid for pid, (seconds, age) in used.items() if seconds > 1.5 + age / SHARE]
    h.check(len(over) <= 1 and all(used[pid][0] <= 1.5 + used[pid][1] / SHARE_SYSTEM for pid in over),
            f"sessions have used (s, in s) {used}")
    h.check(map_memory(h.role_pids("session")) <= 2 * 96 * MIB, "more memory than two users may have")


def test_flood():
    """Everything at once. What is left of it is nothing, and there is a flood that needs no more than the one before."""
    def flood_beside(recording):
        with flood.Flood(A) as f:
            while recording.process.poll() is None:
                counts = f.counts()
                check_sessions()
                time.sleep(0.2)
            recording.finish()
            h.until("A has been heard on every way", lambda: all(f.counts().values()))
            print(f"    {counts}", flush=True)

    # The kernel's names, once asked for, are kept for the next.
    with A.connect() as a, A.act(), h.open_session(a, scope=("s", "system"), kernel=("s", "quiet")) as session:
        h.check(session.hello() == h.OK and session.ask(h.SYMBOLS)[0] == h.OK, "no names")
    h.used()
    h.until("all sessions have ended", lambda: not h.role_pids("session"))
    flat = h.Flat()
    roles = [h.only("front"), h.only("keeper")]
    sizes = []
    # The heap keeps what the worst moment needed, and the worst is not in every flood. What leaks grows in each: 40,000
    # sessions are refused in one, and as many calls answered.
    while len(sizes) < 2 or sizes[-1] > sizes[-2] + 8:
        h.check(len(sizes) < FLOODS, f"front and keeper grow in every flood: {sizes} KiB")
        flood_beside(Recording("flood.ringside"))
        flat.check(30)
        sizes.append(memory(roles))
    h.check([h.only("front"), h.only("keeper")] == roles, "the helper was started again")
    print(f"    front and keeper: {sizes} KiB", flush=True)
    with B.connect() as b:
        h.open_session(b, patient=False).close()


allow()
TESTS = [test_opens, test_restart, test_flood]
names = sys.argv[1:]  # all without
h.main(*[t for t in TESTS if not names or t.__name__ in names])
