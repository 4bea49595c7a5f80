# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What happens under a running session: polkit restarted, the seat given to another user, the bus lost; and the helper
that nobody needs any longer.
"""

import os
import re
import time

from machine import Failure, check, collapsed, sh, unit_property, until

UNIT = "ringside-helper.service"
NAME, OBJECT = "org.ringside.Helper1", "/org/ringside/Helper1"
MEETING = "/run/ringside-half-way"  # where recorded programs and the driver wait for each other
IDLE = 60


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


def record_command(options="-F 99", before="/test/before 0.5", after="/test/after 0.5", name="r"):
    return f"ringside record {options} -o {name}.ringside -- sh -c '{before}; meet; {after}'"


class Recorded:
    """
    A program that is being recorded in a session. It comes half-way, where it calls meet; the rest happens when
    resume() is called. `before` and `after` are workload-busy under another name, so that a recording tells from which
    time it has samples. The recording is NAME.ringside.
    """

    def __init__(self, session, script=None, name="r"):
        self.session, self.name = session, name
        self.middle, self.resumed = f"{MEETING}/{name}-middle", f"{MEETING}/{name}-go"
        sh("install", "-d", "-m", "1777", MEETING)
        sh("rm", "-f", self.middle, self.resumed)
        for program in "before", "after":
            sh("cp", "--remove-destination", "/test/workload-busy", f"/test/{program}")
        script = script or record_command(name=name)
        meet = f"touch {self.middle}; until test -e {self.resumed}; do sleep 0.1; done"
        self.command = session.start("sh", "-c", f"rm -f {name}.ringside; " + script.replace("meet", meet))
        until("the recorded program is half-way", self.is_half_way)

    def is_half_way(self):
        if self.command.ended():
            raise Failure(f"it has ended before that: {self.command.wait()}")
        return os.path.exists(self.middle)

    def go(self):
        touch(self.resumed)

    def end(self):
        """(exit status, output, stacks) of the recording"""
        status, text = self.command.wait()
        return status, text, collapsed(self.session, self.name + ".ringside")

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


def withdrawn(session, other):
    """What `ringside record -a` says and keeps when its user's seat has another user in front."""
    session.bring_to_front()
    own = Recorded(session, name="own")
    everybody = Recorded(session, "/test/terminal.py " + record_command("-a -F 99", name="all"), name="all")
    try:
        other.bring_to_front()
        # It says so at once, and then waits for its command.
        said = everybody.command.until_said("waiting for the command to end")
        status, text, stacks = everybody.resume()
        own_status, own_text, own_stacks = own.resume()
    finally:
        session.bring_to_front()
    said = " ".join((said + text).split())
    asked = re.findall(r"Authenticating as: (\w+) Password:", said)
    check(status == 125 and asked == ["carol"], f"{status}: {said}")
    check("the permission to profile was withdrawn: your seat is no longer active" in said
          and "What was recorded is kept" in said, f"the reason is not told: {status}: {said}")
    check(has(stacks, "before;"), f"the recording is not kept: {list(stacks)[:10]}")
    check(not has(stacks, "after;"), "the session went on")
    check(own_status == 0, f"the user's own: {own_status}: {own_text}")
    check(has(own_stacks, "before;") and has(own_stacks, "after;"), f"the user's own: {list(own_stacks)[:5]}")
    return f"withdrawn, recording kept, exit status {status}; one of their own goes on"


def bus_lost(session):
    recorded = Recorded(session)
    sh("systemctl", "kill", "--signal=KILL", "dbus.service")
    until("the helper has ended", lambda: unit_property(UNIT, "ActiveState") in ("inactive", "failed"))
    status, text, stacks = recorded.resume()
    check("the helper has ended" in text, f"the reason is not told: {status}: {text}")
    check(has(stacks, "before;"), f"the recording is not kept: {stacks}")
    check(not has(stacks, "after;"), "the session went on")
    # The next caller has a bus again, and by that a helper.
    until("a bus starts the helper again", lambda: "Version" in sh("busctl", "introspect", NAME, OBJECT, ok=False))
    check(unit_property(UNIT, "ActiveState") == "active", "not started again")
    return f"the helper has ended, recording kept, exit status {status}; the next bus has one"


def idle_exit():
    sh("systemctl", "stop", UNIT)
    began = time.monotonic()
    sh("busctl", "get-property", NAME, OBJECT, NAME, "Version")
    check(unit_property(UNIT, "ActiveState") == "active", "not started")
    until("it has ended", lambda: unit_property(UNIT, "ActiveState") != "active")
    took = time.monotonic() - began
    check(took >= IDLE, f"after {took:.0f} s")
    check(unit_property(UNIT, "ActiveState") == "inactive", "failed")
    sh("busctl", "get-property", NAME, OBJECT, NAME, "Version")
    check(unit_property(UNIT, "ActiveState") == "active", "not started again")
    return "ended by itself after a minute, started again"
