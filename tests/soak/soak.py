# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Forty sessions of five users for a long time: six of eight on a program of the user's, two on all that the user runs;
half of them last to the end, the others are followed by the next every minute. Nothing may be lost, nothing may
grow after the first minute, and in the end nothing may be left.

usage: soak.py MINUTES
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helper"))

import harness as h

MINUTES = int(sys.argv[1])
# KiB by which they may grow after the first minute: a buffer here and there; SQLite's cache of 2,000, which fills.
ROOM = {"helper KiB": 64, "session KiB": 64, "client KiB": 2000 + 256}
SESSIONS, HZ, RING = 8, 99, "1M"
FIRST_UID = 20000000 + 4 * os.getpid()  # beyond those of any bus-env
# A twentieth of a CPU each, in two functions, for as long as it takes.
LOAD = """
import time
def a():
    b()
def b():
    end = time.process_time() + 0.01
    while time.process_time() < end: pass
while True:
    a()
    time.sleep(0.19)
"""


def more_users(n):
    """Users beside the two there are, as bus-env makes them."""
    for i in range(n):
        uid, name = FIRST_UID + i, f"ringside-soak-{i}"
        home = f"/run/ringside-test/home/{name}"
        with open("/etc/passwd", "a") as f:
            f.write(f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n")
        with open("/etc/group", "a") as f:
            f.write(f"{name}:x:{uid}:\n")
        os.mkdir(home, 0o700)
        os.chown(home, uid, uid)
        os.environ[f"SOAK_USER_{i}"] = name
        yield h.User(f"SOAK_USER_{i}")


class Seat:
    """One of a user's eight sessions, and those that follow it."""

    def __init__(self, user, number, target, lasts):
        self.user, self.lasts = user, lasts
        self.path = f"/run/ringside-test/home/{user.name}/{number}.ringside"
        self.what = ["-p", str(target.pid)] if number < SESSIONS - 2 else []
        self.samples = self.recordings = 0
        self.start()

    def start(self):
        self.process = self.user.spawn("ringside", "record", "--no-ask", "--no-kernel", "-q", "-F", str(HZ),
                                       f"--ring-size={RING}", "-o", self.path, *self.what, stderr=subprocess.PIPE, text=True)
        self.began = time.monotonic()

    def is_alive(self):
        h.check(self.process.poll() is None,
                f"{self.path} has ended: {self.process.returncode}: {self.process.poll() and self.process.stderr.read()}")

    def end(self):
        """What it has recorded is whole."""
        self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=120)[1]
        h.check(self.process.returncode == 0, f"{self.path}: {self.process.returncode}: {text}")
        p = self.user.spawn("ringside", "report", "--format=json", self.path, stdout=subprocess.PIPE, text=True)
        told = json.loads(p.communicate(timeout=120)[0])["recording"]
        h.check(told["finished"] and told["lost"] == 0, f"samples lost: {told}")
        h.check(told["samples"] > 0, f"no samples: {told}")
        self.samples += told["samples"]
        self.recordings += 1
        os.unlink(self.path)

    def turn(self):
        self.is_alive()
        if not self.lasts and time.monotonic() - self.began > 60:
            self.end()
            self.start()

    def kill(self):
        with contextlib.suppress(OSError):
            self.process.kill()
            self.process.wait()


def anonymous(pid):
    return int(h.status(pid)["RssAnon"].split()[0])


def measure(seats):
    """KiB and descriptors of front and keeper together, the largest session, and the largest client that lasts."""
    roles = h.role_pids("front") + h.role_pids("keeper")
    # One that loads its programs needs 12 MiB for as long as that takes, and has no events yet.
    sessions = [pid for pid in h.role_pids("session") if h.perf_events([pid])]
    clients = [seat.process.pid for seat in seats if seat.lasts]
    return {
        "helper KiB": sum(map(anonymous, roles)), "helper fds": sum(len(h.fds(pid)) for pid in roles),
        "session KiB": max(map(anonymous, sessions)), "session fds": max(len(h.fds(pid)) for pid in sessions),
        "client KiB": max(map(anonymous, clients)), "client fds": max(len(h.fds(pid)) for pid in clients),
    }


def all_are_there(seats):
    for seat in seats:
        seat.is_alive()
    return len(h.role_pids("session")) == len(seats)


def soak(users, stack):
    loads = [stack.enter_context(h.killed(user.spawn("/usr/bin/python3", "-c", LOAD))) for user in users]
    seats = []
    for user, load in zip(users, loads):
        h.until("the load is its user's", lambda: os.stat(f"/proc/{load.pid}").st_uid == user.uid)
    # One of each user's at a time: a user has one request.
    for number in range(SESSIONS):
        for user, load in zip(users, loads):
            seats.append(Seat(user, number, load, lasts=number % 2 == 0))
            stack.callback(seats[-1].kill)
        h.until("all have their session", lambda: all_are_there(seats), 120)
    time.sleep(60)
    first, worst, end = measure(seats), {}, time.monotonic() + (MINUTES - 1) * 60
    print(f"    {len(seats)} sessions after a minute: {first}", flush=True)
    while time.monotonic() < end:
        for seat in seats:
            seat.turn()
        # Those that are ending and starting are counted when they are there.
        h.until("all have their session", lambda: all_are_there(seats), 120)
        now = measure(seats)
        worst = {key: max(worst.get(key, 0), value) for key, value in now.items()}
        time.sleep(5)
    for seat in seats:
        seat.end()
    print(f"    at worst since: {worst}", flush=True)
    print(f"    {sum(s.recordings for s in seats)} recordings, {sum(s.samples for s in seats)} samples, none lost", flush=True)
    for key, value in worst.items():
        h.check(value <= first[key] + ROOM.get(key, 0), f"{key}: {first[key]} became {value}")


def test_soak():
    users = [*h.users(), *more_users(3)]
    with users[0].connect() as c:
        h.open_session(c).close()
    h.used()
    flat = h.Flat()
    with contextlib.ExitStack() as stack:
        soak(users, stack)
    flat.check(60)


with open("/run/test.rules", "w") as f:
    f.write("polkit.addRule(function (action, subject) { if (action.id == \"org.ringside.helper1.profile-own\") "
            "return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
h.main(test_soak)
