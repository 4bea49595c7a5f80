#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Programs whose profile is known, recorded by an ordinary user over the real bus, and the same under perf.
Runs inside bus-env.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile

from truth import POINTS, SHARES, USER, Recording, check, check_count, check_shares, depth_of, exit_status
from truth import record_workload, workload

# Two samplings of 20,000 each: of 70 % they differ by 0.5 points of standard deviation.
RATE = 1999
SECONDS = 10


def test_shares(directory):
    r = Recording(directory, "shares", "--", workload("shares"), str(SECONDS), rate=RATE)
    check_shares("functions", r.shares("function"), SHARES)
    check_count(r, SECONDS, RATE)
    check(r.report("function")["rows"][0]["file"] == "workload-shares", "functions carry their file")
    return r.shares("function", "self_samples")


def perf_shares(data, column, *options):
    """The shares of functions in a column of perf's report."""
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", *options, "-g", "none", "-F",
                           f"{column},sym", "-t", ";"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=120).stdout
    shares = {}
    for line in text.splitlines():
        if "%" in line and not line.startswith("#"):
            share, name = line.split("%", 1)
            name = name.split("]")[-1].strip(" ;")
            shares[name] = shares.get(name, 0.0) + float(share)
    return shares


def test_perf(directory, ours):
    """The same program under perf, as root: its shares and ours describe one program."""
    data = os.path.join(directory, "perf.data")
    subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(RATE), "-o", data, "--",
                    workload("shares"), str(SECONDS)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)
    # Self time: either takes the kernel's share from the function that was interrupted.
    shares = perf_shares(data, "overhead", "--no-children")
    check_shares("perf, beside ours", shares, {name: ours.get(name, 0.0) for name in SHARES})
    main_share = perf_shares(data, "overhead_children", "--children").get("main", 0.0)
    check(main_share > 95, f"perf says main with what it calls has {main_share:.1f} %")


def test_recursion(directory):
    r = record_workload(directory, "recursion", 2)
    tree = r.report("callees")
    depth = depth_of(tree["tree"]["children"], "recurse")
    check(depth == 100, f"a recursion of 100 has {depth} frames")
    truncated = tree["truncated"]
    check(truncated <= tree["samples"] * 0.01, f"{truncated} of {tree['samples']} stacks are cut")
    check(r.shares("function").get("main", 0) > 99, "and they all reach main")
    check_count(r, 2)


def test_highest(directory):
    """The last 16 bytes of what a user has are read as any others."""
    r = record_workload(directory, "highest", 0.5, "--unwind=fp")
    with sqlite3.connect(f"file:{r.path}?mode=ro", uri=True) as db:
        whole, samples = db.execute("SELECT sum(walk_end & 15 = 1), count(*) FROM sample").fetchone()
    check(whole > samples * 0.9, f"{whole} of {samples} chains end where those of a program may end last")
    root = r.shares("function").get("highest_root", 0)
    check(root > 90, f"and {root:.1f} % begin there")


def test_threads(directory):
    r = record_workload(directory, "threads", 4)
    check_shares("threads", r.shares("thread"), {"work-40": 40, "work-30": 30, "work-20": 20, "work-10": 10})
    check_count(r, 4)


def test_children(directory):
    r = record_workload(directory, "children", 4)
    rows = r.report("process")
    shares = sorted((100.0 * row["total_samples"] / rows["samples"] for row in rows["rows"]), reverse=True)[:3]
    for found, wanted in zip(shares + [0.0] * 3, (50, 30, 20)):
        check(abs(found - wanted) <= POINTS, f"children: one has {found:.1f} %, to be {wanted} %")
    check_count(r, 4)


def test_refused(directory):
    """With the rule gone the same call ends in the documented error, and the command is not run."""
    subprocess.run(["polkit-rules", "none"], check=True)
    marker = os.path.join(directory, "ran")
    r = subprocess.run(["as-user", USER, "ringside", "record", "--no-ask", "-o", os.path.join(directory, "no.ringside"),
                        "--", "touch", marker], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=60)
    check(r.returncode == 125, f"refused: exit status {r.returncode}")
    check("org.ringside.helper1.profile-own" in r.stderr, "refused: the message names the action")
    check(not os.path.exists(marker), "refused: the command was not run")
    check(not os.path.exists(os.path.join(directory, "no.ringside")), "refused: no recording is left")
    subprocess.run(["polkit-rules", "default"], check=True)


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-truth-") as directory:
        os.chmod(directory, 0o777)
        ours = test_shares(directory)
        test_perf(directory, ours)
        test_recursion(directory)
        test_highest(directory)
        test_threads(directory)
        test_children(directory)
        test_refused(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
