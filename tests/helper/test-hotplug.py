# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A CPU that goes offline takes its events along: when it is back it is sampled again, and how long it was without is
told. Skipped where no CPU can be taken offline.
"""

import os
import signal
import struct
import sys
import time

import harness as h

A, _ = h.users()
RING_SIZE = 65536
KNOB = "/sys/devices/system/cpu/cpu1/online"


def set_online(online):
    with open(KNOB, "w") as f:
        f.write(str(int(online)))


def counts_of(session):
    """Of a session on every CPU: what it missed, in seconds."""
    error, data = session.stats()
    h.check(error == h.OK, f"STATS: error {error}")
    return struct.unpack_from("<Q", data, 24 + 3 * 8 * 8)[0] / 1e9


def cpus_of(session, pid):
    """Where this process was sampled."""
    records = h.ring_records(session, RING_SIZE)[0]
    samples = [r for r in records if r[0] == h.RECORD_SAMPLE and struct.unpack_from("<I", r, 16)[0] == pid]
    return {struct.unpack_from("<H", r, 4)[0] for r in samples}


def events_of(session):
    return h.perf_events(h.role_pids("session"))


def test_cpu_comes_back():
    with A.connect() as connection, h.open_session(connection, ring=RING_SIZE) as session:
        with A.act():
            h.check(session.hello() == h.OK and session.start() == h.OK, "no session")
        cpus = os.sysconf("SC_NPROCESSORS_ONLN")
        h.check(events_of(session) == cpus, f"{events_of(session)} events on {cpus} CPUs")
        time.sleep(0.2)
        h.check(counts_of(session) == 0, "something was missed already")
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        set_online(False)
        # Though nobody asks: its client may be stopped. Two looks show that it stands still.
        h.until("the event is gone", lambda: events_of(session) == cpus - 1)
        set_online(True)
        h.until("it is there again", lambda: events_of(session) == cpus)
        # Since the look before it was there.
        h.until("that is told", lambda: counts_of(session) > 0)
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        missed = counts_of(session)
        h.check(0.1 <= missed <= after - before, f"{missed} s missed in {after - before} s")
        with h.killed(A.spin()) as p:
            os.sched_setaffinity(p.pid, {1})
            h.until("a process is sampled on it", lambda: 1 in cpus_of(session, p.pid))
        # And it counts: nothing more is missed.
        time.sleep(0.3)
        h.check(counts_of(session) == missed, "the new event does not count")
        h.check(session.stop() == h.OK and session.start() == h.OK, "STOP and START")
        time.sleep(0.3)
        h.check(counts_of(session) == missed, "a session that was stopped has missed nothing")


def test_tasks_need_nothing():
    """A process's events go where it goes."""
    with h.killed(A.spin()) as p, A.connect() as connection, h.open_session(connection, targets=True) as session:
        with A.act():
            h.check(session.hello() == h.OK, "HELLO")
            h.until("it is its user's", lambda: os.stat(f"/proc/{p.pid}").st_uid == A.uid)
            h.check(session.target(p.pid) == (h.OK, 1) and session.start() == h.OK, "TARGET")
        os.sched_setaffinity(p.pid, {1})
        set_online(False)
        set_online(True)
        os.sched_setaffinity(p.pid, {1})
        count = lambda: struct.unpack_from("<Q", session.stats()[1], 24)[0]
        first = count()
        h.until("it is counted on", lambda: count() > first)
        h.check(counts_of(session) == 0, "something was missed")


if not os.path.exists(KNOB) or os.sysconf("SC_NPROCESSORS_ONLN") < 2:
    print("no CPU here that can be taken offline")
    sys.exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
# Whatever becomes of this process, the CPU comes back.
lifeline, alive = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.close(alive)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.read(lifeline, 1)
    set_online(True)
    os._exit(0)
os.close(lifeline)
h.main(test_cpu_comes_back, test_tasks_need_nothing)
