# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What happens under a running session: polkit restarted, the seat given to another user, the bus lost; and the helper
that nobody needs any longer.
"""

import os
import time

from machine import Failure, check, collapsed, sh, unit_property, until

UNIT = "ringside-helper.service"
MEETING = "/run/ringside-half-way"  # where the recorded program and the driver wait for each other
IDLE = 60


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


def record_command(options, before, after):
    return f"ringside record {options} -o r.ringside -- sh -c '{before}; meet; {after}'"


class Recorded:
    """
    A program that is being recorded in a session. It comes half-way, where it calls meet; the rest happens when
    resume() is called. `before` and `after` are workload-busy under another name, so that a recording tells from which
    time it has samples.
    """

    def __init__(self, session, script=None):
        self.session = session
        sh("rm", "-rf", MEETING)
        sh("install", "-d", "-m", "1777", MEETING)
        for name in "before", "after":
            sh("cp", "--remove-destination", "/test/workload-busy", f"/test/{name}")
        script = script or record_command("-F 99", "/test/before 0.5", "/test/after 0.5")
        meet = f"touch {MEETING}/middle; until test -e {MEETING}/go; do sleep 0.1; done"
        self.command = session.start("sh", "-c", "rm -f r.ringside; " + script.replace("meet", meet))
        until("the recorded program is half-way", self.is_half_way)

    def is_half_way(self):
        if self.command.ended():
            raise Failure(f"it has ended before that: {self.command.wait()}")
        return os.path.exists(f"{MEETING}/middle")

    def go(self):
        touch(f"{MEETING}/go")

    def end(self):
        """(exit status, output, stacks) of the recording"""
        status, text = self.command.wait()
        return status, text, collapsed(self.session, "r.ringside")

    def resume(self):
        self.go()
        return self.end()


def has(stacks, name):
    return any(name in stack for stack in stacks)


def polkit_restarted(session):
    recorded = Recorded(session)
    sh("systemctl", "restart", "polkit")
    status, text, stacks = recorded.resume()
    check(status == 0, f"{status}: {text}")
    check(has(stacks, "before;") and has(stacks, "after;"), f"samples: {list(stacks)[:5]}")
    return "goes on"


def switched(session, other, *ask, ends=False):
    """What becomes of a session when its user's seat has another user in front."""
    session.bring_to_front()
    command = session.start("/test/ask.py", "--stay", *ask)
    granted = command.line()
    other.bring_to_front()
    # Once another session is open, the helper has heard of it. What has not ended soon after that is taken to go on.
    opened = other.run("/test/ask.py", "own", "no")[1].strip()
    check(opened == "granted", f"the user in front: {opened}")
    command.readable(240 if ends else 2)
    command.terminate()
    session.bring_to_front()
    ended = command.wait()[1].strip()
    return "; ".join([granted, ended or "goes on"])


def bus_lost(session):
    recorded = Recorded(session)
    sh("systemctl", "kill", "--signal=KILL", "dbus.service")
    until("the helper has ended", lambda: unit_property(UNIT, "ActiveState") in ("inactive", "failed"))
    status, text, stacks = recorded.resume()
    check("the helper has ended" in text, f"the reason is not told: {status}: {text}")
    check(has(stacks, "before;"), f"the recording is not kept: {stacks}")
    check(not has(stacks, "after;"), "the session went on")
    return f"the helper has ended, recording kept, exit status {status}"


def idle_exit():
    sh("systemctl", "stop", UNIT)
    began = time.monotonic()
    sh("busctl", "get-property", "org.ringside.Helper1", "/org/ringside/Helper1", "org.ringside.Helper1", "Version")
    check(unit_property(UNIT, "ActiveState") == "active", "not started")
    until("it has ended", lambda: unit_property(UNIT, "ActiveState") != "active")
    took = time.monotonic() - began
    check(took >= IDLE, f"after {took:.0f} s")
    check(unit_property(UNIT, "ActiveState") == "inactive", "failed")
    sh("busctl", "get-property", "org.ringside.Helper1", "/org/ringside/Helper1", "org.ringside.Helper1", "Version")
    check(unit_property(UNIT, "ActiveState") == "active", "not started again")
    return "ended by itself after a minute, started again"
