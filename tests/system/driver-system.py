#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Runs in the machine: Ringside as it is installed, with systemd, polkit and logind, and with users in login sessions. A
table tells what was done in which session, and what came of it.
"""

import re
import sys

import kernel
import refusing
import running
import seeing
from machine import KERNEL, QEMU, Session, Table, check, sh, unit_property

UNIT = "ringside-helper.service"
SECURITY_SCORE = 1.3
# What the programs need came with 6.1 (README.md).
TOO_OLD = tuple(map(int, KERNEL.split(".")[:2])) < (6, 1)

# polkit's defaults (docs/polkit.md). What ask.py is to be told, in a session that is active, and in any other.
OWN, QUIET, KERNEL_FRAMES, SYSTEM = ("own", "no"), ("own", "quiet"), ("own", "ask"), ("system", "no")
BOTH = ("system", "ask")
ACTIVE = [
    (OWN, "granted", "granted"),
    (QUIET, "granted", "granted"),
    (KERNEL_FRAMES, "granted", "granted kernel after alice"),
    (SYSTEM, "refused Denied", "granted system after carol"),
]
OTHERS = [
    (OWN, "refused Denied", "granted after alice"),
    (KERNEL_FRAMES, "refused Denied", "granted kernel after alice carol"),
    (SYSTEM, "refused Denied", "granted system after carol"),
]
# What follows from these, by the same code on every kernel: where time is cheap.
MORE_ACTIVE = [(BOTH, "refused Denied", "granted kernel system after carol alice")]
MORE_OTHERS = [
    (QUIET, "refused Denied", "granted after alice"),
    (BOTH, "refused Denied", "granted kernel system after carol carol"),
]


def activation():
    sh("systemctl", "stop", UNIT)
    check(unit_property(UNIT, "ActiveState") == "inactive", "the unit does not stop")
    sh("busctl", "call", "org.ringside.Helper1", "/org/ringside/Helper1", "org.ringside.Helper1", "ListEvents")
    check(unit_property(UNIT, "ActiveState") == "active", "the unit is not active")
    return "started by the bus as " + sh("ps", "-o", "user=", "-p", unit_property(UNIT, "MainPID")).strip()


def security():
    score = re.search(r"exposure level for \S+: ([\d.]+)", sh("systemd-analyze", "--no-pager", "security", UNIT))[1]
    check(float(score) <= SECURITY_SCORE, f"{score}, not {SECURITY_SCORE}")
    return score


def policy(table, name, session, rows):
    for (scope, kernel), alone, asked in rows:
        what = f"scope {scope}, kernel {kernel}"
        for agent, expected in ((), alone), (("--agent",), asked):
            _, text = session.run("/test/ask.py", *agent, scope, kernel)
            if TOO_OLD:
                expected = refusing.OUTCOME
            table.row(name, what + (", password typed" if agent else ""), text.strip(), expected)


def in_every_class(table, alice, bob):
    active, others = (ACTIVE, OTHERS) if QEMU else (ACTIVE + MORE_ACTIVE, OTHERS + MORE_OTHERS)
    alice.bring_to_front()
    policy(table, "active", alice, active)
    bob.bring_to_front()
    check(not alice.is_active(), "alice is still in front")
    policy(table, "inactive", alice, others)
    # Not before: who has one active session is active in all that are on a seat.
    seatless = Session("alice")
    policy(table, "seatless", seatless, others)
    seatless.end()


def in_front(table, alice, bob):
    table.row("active", "another user comes to the front, scope own", running.switched(alice, bob, "own", "no"),
              "granted; goes on")
    table.row("active", "another user comes to the front, scope system",
              running.switched(alice, bob, "--agent", "system", "no", ends=True),
              "granted system after carol; ended: withdrawn")
    table.run("active", "record -a, another user comes to the front", lambda: running.withdrawn(alice, bob))
    table.run("active", "polkit restarted under a session", lambda: running.polkit_restarted(alice))
    table.run("active", "the pid of a recorded program", lambda: seeing.pid_is_right(alice.shell))
    table.run("active", "record --unit", lambda: seeing.only_the_unit(alice, ""))
    table.run("active", "record --user --unit", lambda: seeing.only_the_unit(alice, "--user"))
    if not QEMU:  # what systemd does is the same there, and slower
        table.run("active", "record --unit, started again", lambda: seeing.restarted_unit(alice))


def by_rule(table, alice, bob):
    """Where a rule grants it, as on machines without a screen."""
    seeing.allow(("alice", "bob"))
    table.run("rule", "two users record all they see", lambda: seeing.two_at_once(alice, bob))
    table.run("rule", "a user's own, readable and not", lambda: seeing.what_may_be_read(alice))
    table.run("rule", "the client in another pid namespace", lambda: seeing.in_pid_namespace("alice"))
    seeing.allow(("alice", "bob"), ("own", "kernel"))
    table.run("rule", "names of kernel functions", lambda: kernel.names(alice))
    seeing.allow(("alice", "bob"), ("own", "system"))
    table.run("rule", "record -a", lambda: seeing.everybody(alice, bob))
    if QEMU:
        # In a container there is no knowing whether the machine's CPUs ever sleep.
        seeing.allow(("alice", "bob"), ("own", "kernel", "system"))
        table.run("rule", "record -a with interrupts on an idle CPU", lambda: seeing.idle_softirqs(alice))


def on_old_kernel(table, alice):
    alice.bring_to_front()
    shell = lambda script: alice.run("sh", "-c", script)
    table.run("active", "record", lambda: refusing.refused(shell))
    seeing.allow(("alice",), ("own", "kernel", "system"))
    table.run("rule", "record --kernel", lambda: refusing.refused(shell, "--kernel"))
    table.run("rule", "record -a", lambda: refusing.refused(shell, "-a"))
    table.run("-", "record, as root without the bus", lambda: refusing.refused(refusing.as_root, "--helper=direct"))
    table.run("active", "doctor", lambda: refusing.doctor(alice))
    table.run("-", "the helper, after all of these", refusing.helper_left)


def main():
    table = Table()
    table.run("-", "activation", activation)
    table.run("-", "systemd-analyze security", security)
    alice, bob = Session("alice", 1), Session("bob", 2)
    in_every_class(table, alice, bob)
    if TOO_OLD:
        on_old_kernel(table, alice)
        sys.exit(1 if table.failed else 0)
    in_front(table, alice, bob)
    by_rule(table, alice, bob)
    if not QEMU:
        table.run("-", "nobody needs the helper", running.idle_exit)
    table.run("active", "the bus killed under a session", lambda: running.bus_lost(alice))
    sys.exit(1 if table.failed else 0)


main()
