#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Runs in the machine: what takes a kernel of one's own, one with modules, with CPUs that can be taken away and with a
sleep. The same table as that of driver-system.py.
"""

import os
import socket
import sys

import cpus
import kernel
import leaks
import seeing
from machine import Session, Table, sh


# Since 7.2: which algorithms a user gets, of those that are modules here, and are the work.
RESTRICTED = "/proc/sys/crypto/af_alg_restrict"


def main():
    # It belongs to a module, which is there as long as somebody has a socket of it.
    pin = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    if os.path.exists(RESTRICTED):
        with open(RESTRICTED, "w", encoding="utf-8") as f:
            f.write("0")
    table = Table()
    alice, bob = Session("alice", 1), Session("bob")
    seeing.allow(("alice",), ("own", "kernel"))
    for action, func in (("modules loaded, unloaded, loaded again", lambda: kernel.modules(alice)),
                         ("one module after the other in one place", lambda: kernel.swaps(alice)),
                         ("BPF programs come and go, then a module", leaks.generations),
                         ("addresses in what a user is given", leaks.nothing),
                         ("addresses in a recording of a module", lambda: leaks.recording(alice))):
        # Each list of modules that is met is a file of names, of which a user has so many from one helper (docs/budgets.md).
        sh("systemctl", "stop", "ringside-helper.service")
        table.run("rule", action, func)
    table.run("rule", "addresses that are given away on purpose", leaks.planted)
    seeing.allow(("alice", "bob"), ("own", "system"))
    table.run("rule", "a CPU goes and comes back under record -a", lambda: cpus.hotplug(alice))
    # Not on the seat: for its sleep the kernel switches to a console of its own, and whoever was in front is not.
    table.run("seatless", "suspend and resume under record -a", lambda: cpus.suspend(bob))
    pin.close()
    sys.exit(1 if table.failed else 0)


main()
