# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CPUs that go and come back under a recording of the whole machine: one by itself, and all of them in suspend. What
follows is sampled again, times go on, and the recording tells how long it was blind.
"""

import contextlib
import glob
import os
import re
import time

import running
from machine import check, database, sh, until

CPU = "/sys/devices/system/cpu/cpu1"
RTC = "/sys/class/rtc/rtc0"
# Seconds of CPU time.
PINNED = "taskset -c 1 /test/{} {}"
# The alarm may not ring before the machine sleeps, however slow it is at that; then it is tried with more.
ALARMS = (10, 60)


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def session_events():
    """How many events the one session of the helper has open."""
    n = 0
    for pid in sh("pgrep", "-f", "^[^ ]*ringside-helper --session").split():
        for fd in glob.glob(f"/proc/{pid}/fd/*"):
            with contextlib.suppress(OSError):
                n += os.readlink(fd) == "anon_inode:[perf_event]"
    return n


def start(session, after=1):
    recorded = running.Recorded(session, running.record_command("-a -F 99", PINNED.format("before", 1),
                                                                PINNED.format("after", after)))
    until("there is an event on each CPU", lambda: session_events() == os.cpu_count())
    return recorded


class Result:
    """What a recording has of the two programs, in seconds on the boot clock since its beginning."""

    def __init__(self, session, recorded):
        until("there is an event on each CPU again", lambda: session_events() == os.cpu_count())
        status, self.text, _ = recorded.resume()
        check(status == 0, f"{status}: {self.text}")
        self.db = database(session)
        self.missed = self.one("SELECT value FROM counter WHERE name = 'missed'") / 1e9
        self.told = "of CPU time no sample could be taken" in re.sub(r"\s+", " ", self.text)

    def one(self, query, *arguments):
        return self.db.execute(query, arguments).fetchone()[0]

    def samples(self, name, what):
        return self.one(f"SELECT {what} FROM sample JOIN thread ON thread.id = sample.thread JOIN process ON "
                        "process.id = thread.process WHERE process.comm = ? AND cpu = 1", name.encode())

    def blind(self):
        """How long lies between the two."""
        check(self.samples("before", "count(*)") and self.samples("after", "count(*)"), "no samples of both on CPU 1")
        return (self.samples("after", "min(time)") - self.samples("before", "max(time)")) / 1e9


def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def hotplug(session):
    recorded = start(session)
    began = boot_time()
    write(CPU + "/online", "0")
    until("its event is gone", lambda: session_events() == os.cpu_count())
    write(CPU + "/online", "1")
    result = Result(session, recorded)
    took = boot_time() - began
    check(0 < result.missed <= took, f"{result.missed} s missed in {took} s")
    check(result.told, f"nothing is said of it: {result.text}")
    check(0 < result.blind() <= took, f"nothing for {result.blind()} s of {took}")
    return "sampled again, what was missed is told"


def sleep():
    """Suspends to RAM until the clock rings; how long it was away."""
    for seconds in ALARMS:
        before = boot_time() - time.monotonic()
        write(RTC + "/wakealarm", "0")
        write(RTC + "/wakealarm", f"+{seconds}")
        with contextlib.suppress(OSError):  # it rang too early
            write("/sys/power/state", "mem")
        slept = boot_time() - time.monotonic() - before
        if slept > 1:
            return slept
    check(False, f"does not sleep: {sh('dmesg')[-2000:]}")


def suspend(session):
    # The event that went with its CPU looks as if it were there until the next time somebody asks, once a second.
    recorded = start(session, after=10)
    began = boot_time()
    slept = sleep()
    result = Result(session, recorded)
    took = boot_time() - began
    # Of both CPUs: one whose event went away, and one whose event has not seen the time pass.
    check(2 * slept <= result.missed <= 2 * took, f"{result.missed} s missed in {slept} s of sleep, {took} s in all")
    check(result.told, f"nothing is said of it: {result.text}")
    check(slept <= result.blind() <= took, f"nothing for {result.blind()} s, {slept} of them asleep, {took} in all")
    return "goes on on the boot clock, what was missed is told"
