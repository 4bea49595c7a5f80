# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's own names, and its modules."""

import re

import running
from machine import check, collapsed, sh


def names(session):
    """A program that has the kernel fill buffers: in core text."""
    session.shell("rm -f r.ringside; ringside record -q -F 499 -o r.ringside -- "
                  "dd if=/dev/zero of=/dev/null bs=1M count=20000 2>&1")
    stacks = collapsed(session, "r.ringside")
    total = sum(stacks.values())
    reading = sum(n for stack, n in stacks.items() if "vfs_read" in stack)
    check(reading > total / 2, f"{reading} of {total} samples are in vfs_read: {list(stacks)[:5]}")
    return "vfs_read and what it calls"


def load(*modules):
    for module in modules:
        sh("modprobe", module)


def modules(session):
    """
    One was loaded before the recording, and in the middle another takes its place, perhaps its very addresses. It is
    named once the change has been noticed, which takes until the client asks again.
    """
    load("algif_hash", "wp512")
    recorded = running.Recorded(session, running.record_command("-F 99", "/test/hash.py wp512 2",
                                                                "sleep 10; /test/hash.py rmd160 2"))
    sh("modprobe", "-r", "wp512")
    load("rmd160")
    status, text, stacks = recorded.resume()
    sh("modprobe", "-r", "rmd160", "algif_hash")
    check(status == 0, f"{status}: {text}")
    report = session.shell("ringside report --format=text --threshold=0 r.ringside")
    for name in "wp512", "rmd160":
        found = re.findall(rf"^ *([0-9.]+) % .*\b(\w*{name}\w*) +\[{name}\]", report, re.M)
        check(found, f"no function of [{name}]: {report}")
    return "functions of [wp512], then of [rmd160]"
