#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Programs whose profile is known, recorded by an ordinary user over the real bus, and the same under perf.
Runs inside bus-env.
"""

import json
import os
import subprocess
import sys
import tempfile

BUILD = os.environ["RINGSIDE_TEST_BUILD"]
USER = os.environ["RINGSIDE_TEST_USER_A"]
WORKLOADS = os.path.join(BUILD, "tests/workloads")
RATE = 999
POINTS = 2.0

failed = 0


def check(good, what):
    global failed
    print("ok" if good else "not ok", "-", what, flush=True)
    failed += not good


def as_user(*command, check_exit=True):
    r = subprocess.run(["as-user", USER, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=120)
    if check_exit and r.returncode != 0:
        print(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}", flush=True)
        sys.exit(1)
    return r.stdout


def workload(name):
    return os.path.join(WORKLOADS, "workload-" + name)


class Recording:
    def __init__(self, directory, name, seconds):
        self.path = os.path.join(directory, name + ".ringside")
        as_user("ringside", "record", "-q", "--no-ask", "-F", str(RATE), "-o", self.path, "--", workload(name),
                str(seconds))
        self.seconds = seconds

    def report(self, by):
        return json.loads(as_user("ringside", "report", "--format=json", "--threshold=0", "--limit=100000", "--by", by,
                                  self.path))

    def shares(self, by, key="total_samples"):
        report = self.report(by)
        return {row["name"]: 100.0 * row[key] / report["samples"] for row in report["rows"]}


def check_shares(title, shares, expected):
    for name, share in expected.items():
        found = shares.get(name, 0.0)
        check(abs(found - share) <= POINTS, f"{title}: {name} has {found:.1f} %, to be {share} %")


def check_count(recording):
    """Every tick of CPU time is a sample, and none is lost."""
    report = recording.report("function")
    wanted = RATE * recording.seconds
    info = report["recording"]
    check(info["lost"] == 0, "nothing lost")
    check(abs(report["samples"] - wanted) <= wanted * 0.01 + 2,
          f"{report['samples']} samples of {wanted} in {recording.seconds} s of CPU time")


def test_shares(directory):
    r = Recording(directory, "shares", 10)
    expected = {"takes_seventy": 70, "takes_twenty": 20, "takes_ten": 10}
    check_shares("functions", r.shares("function"), expected)
    check_count(r)
    check(r.report("function")["rows"][0]["file"] == "workload-shares", "functions carry their file")
    return expected


def test_perf(directory, expected):
    """The same program under perf, as root: its shares and ours describe one program."""
    data = os.path.join(directory, "perf.data")
    subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(RATE), "-o", data, "--",
                    workload("shares"), "5"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none", "-F",
                           "overhead,sym", "-t", ";"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=120).stdout
    shares = {}
    for line in text.splitlines():
        if "%" in line and not line.startswith("#"):
            share, name = line.split("%", 1)
            name = name.split("]")[-1].strip(" ;")
            shares[name] = shares.get(name, 0.0) + float(share)
    # perf charges time in the kernel to kernel functions, as self time.
    for name, share in expected.items():
        check(abs(shares.get(name, 0.0) - share) <= POINTS + 1, f"perf says {name} has {shares.get(name, 0.0):.1f} %")


def depth_of(nodes, name):
    """The longest chain of calls of one function to itself."""
    deepest = 0
    for node in nodes:
        below = depth_of(node.get("children", []), name)
        deepest = max(deepest, below + (node["name"] == name))
    return deepest


def test_recursion(directory):
    r = Recording(directory, "recursion", 2)
    sys.setrecursionlimit(10000)
    tree = r.report("callees")
    depth = depth_of(tree["tree"]["children"], "recurse")
    check(depth == 100, f"a recursion of 100 has {depth} frames")
    truncated = tree["truncated"]
    check(truncated <= tree["samples"] * 0.01, f"{truncated} of {tree['samples']} stacks are cut")
    check(r.shares("function").get("main", 0) > 99, "and they all reach main")
    check_count(r)


def test_threads(directory):
    r = Recording(directory, "threads", 4)
    check_shares("threads", r.shares("thread"), {"work-40": 40, "work-30": 30, "work-20": 20, "work-10": 10})
    check_count(r)


def test_children(directory):
    r = Recording(directory, "children", 4)
    rows = r.report("process")
    shares = sorted((100.0 * row["total_samples"] / rows["samples"] for row in rows["rows"]), reverse=True)[:3]
    for found, wanted in zip(shares + [0.0] * 3, (50, 30, 20)):
        check(abs(found - wanted) <= POINTS, f"children: one has {found:.1f} %, to be {wanted} %")
    check_count(r)


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
        expected = test_shares(directory)
        test_perf(directory, expected)
        test_recursion(directory)
        test_threads(directory)
        test_children(directory)
        test_refused(directory)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
