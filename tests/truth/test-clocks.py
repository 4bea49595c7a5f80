#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A recorder in a time namespace, whose clocks are days ahead of or behind what the kernel's programs tell the time by, the
way containers that are moved have them. As an ordinary user over the bus, and as root without it. Runs inside bus-env.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from truth import SHARES, USER, Recording, check, check_shares, exit_status, workload

SECONDS = 2
DAY = 86400
NS = 10**9


def record(directory, name, offsets, options, *command):
    """Records in a time namespace; the user's process, or root's where that is in options."""
    path = os.path.join(directory, name + ".ringside")
    unshare = ["unshare", "-T", "-f", f"--boottime={offsets[0]}", f"--monotonic={offsets[1]}"]
    user = [] if "--helper=direct" in options else ["as-user", USER]
    r = subprocess.run([*unshare, *user, "ringside", "record", "-q", "--no-ask", "-F", "999", "-o", path, *options, "--",
                        *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(r.returncode == 0, f"{name}: exit status {r.returncode} {r.stdout.strip()}")
    if not user:
        shutil.chown(path, USER)
    return Recording.of_file(path)


def check_times(name, recording, offset, before, after):
    db = sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)
    start, = db.execute("select value from meta where key = 'start_boottime'").fetchone()
    first, last = db.execute("select min(time), max(time) from sample").fetchone()
    db.close()
    begun = int(start) / NS - offset
    check(before <= begun <= after, f"{name}: begins at {begun - before:.1f} of {after - before:.1f} s")
    check(0 <= first <= last <= (after - before) * NS, f"{name}: samples from {first / NS:.1f} to {last / NS:.1f} s")


def unwound(recording):
    """The share of stacks that were walked to their end."""
    db = sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)
    total, whole = db.execute("select count(*), sum(walk_end & 15 = 1) from sample").fetchone()
    db.close()
    return 100.0 * whole / total


def main():
    if not os.path.exists("/proc/self/timens_offsets"):
        print("skipped: this kernel has no time namespaces")
        sys.exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
    with tempfile.TemporaryDirectory(prefix="ringside-clocks-", dir="/run") as directory:
        os.chmod(directory, 0o777)
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        # None is before the machine was started.
        behind = -int(min(uptime, time.clock_gettime(time.CLOCK_MONOTONIC)) / 2)
        for name, options in (("bus", ["--helper=bus"]), ("direct", ["--helper=direct"])):
            for offsets in ((3 * DAY, 2 * DAY), (behind, behind)):
                title = f"{name}, {offsets[0]} s"
                before = time.clock_gettime(time.CLOCK_BOOTTIME)
                recording = record(directory, f"{name}{offsets[0]}", offsets, [*options, "--unwind=table"],
                                   workload("shares"), str(SECONDS))
                check_times(title, recording, offsets[0], before, time.clock_gettime(time.CLOCK_BOOTTIME))
                check_shares(title, recording.shares("function"), SHARES, points=5.0)
                check(unwound(recording) > 90, f"{title}: {unwound(recording):.1f} % of the stacks are whole")
                # Short-lived ones, whose mappings the ring has to tell.
                brief = record(directory, f"{name}{offsets[0]}-brief", offsets, options, "sh", "-c",
                               f"for i in 1 2 3 4 5 6 7 8 9 10; do {workload('shares')} 0.05; done")
                check_shares(title + ", brief", brief.shares("function"), SHARES, points=15.0)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
