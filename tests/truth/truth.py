# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the tests of known profiles share: an ordinary user's commands, recordings, and what is to be in them.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

BUILD = os.environ["RINGSIDE_TEST_BUILD"]
USER = os.environ["RINGSIDE_TEST_USER_A"]
OTHER_USER = os.environ["RINGSIDE_TEST_USER_B"]
WORKLOADS = os.path.join(BUILD, "tests/workloads")
RATE = 999
POINTS = 2.0
SHARES = {"takes_seventy": 70, "takes_twenty": 20, "takes_ten": 10}

failed = 0

# Chains of calls become chains of objects.
sys.setrecursionlimit(20000)


def check(good, what):
    global failed
    print("ok" if good else "not ok", "-", what, flush=True)
    failed += not good


def exit_status():
    return 1 if failed else 0


def run_as_user(*command):
    """Runs a command that must succeed; its output is in the result."""
    r = subprocess.run(["as-user", USER, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=120)
    if r.returncode != 0:
        print(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}", flush=True)
        sys.exit(1)
    return r


def as_user(*command):
    return run_as_user(*command).stdout


def workload(name):
    return os.path.join(WORKLOADS, "workload-" + name)


@contextlib.contextmanager
def running(user, program, *arguments):
    """A program of this user's that has begun to use CPU time; its PID."""
    p = subprocess.Popen(["as-user", user, program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        # as-user executes it in its own place.
        comm = os.path.basename(program)[:15]
        deadline = time.monotonic() + 100
        while comm_of(p.pid) != comm or cpu_seconds(p.pid) < 0.05:
            if p.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{program} does not run")
            time.sleep(0.02)
        yield p.pid
    finally:
        p.kill()
        p.wait()


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return None


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def cpu_seconds(pid):
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


class Recording:
    """A recording by `ringside record` with these arguments; printed is what the command wrote."""

    def __init__(self, directory, name, *arguments, rate=RATE):
        self.path = os.path.join(directory, name + ".ringside")
        self.printed = as_user("ringside", "record", "-q", "--no-ask", "-F", str(rate), "-o", self.path, *arguments)

    @classmethod
    def of_file(cls, path, printed=""):
        """One that was made in another way."""
        recording = cls.__new__(cls)
        recording.path, recording.printed = path, printed
        return recording

    def report(self, by, *options):
        return json.loads(as_user("ringside", "report", "--format=json", "--threshold=0", "--limit=100000", "--by", by,
                                  *options, self.path))

    def shares(self, by, key="total_samples"):
        """What is inlined into a function is its own share, as its source has it."""
        report = self.report(by, "--no-inline")
        return {row["name"]: 100.0 * row[key] / report["samples"] for row in report["rows"]}


def record_workload(directory, name, seconds, *arguments):
    return Recording(directory, name, *arguments, "--", workload(name), str(seconds))


def check_shares(title, shares, expected, points=POINTS):
    for name, share in expected.items():
        found = shares.get(name, 0.0)
        check(abs(found - share) <= points, f"{title}: {name} has {found:.1f} %, to be {share:.1f} %")


def check_count(recording, seconds, rate=RATE):
    """Every tick of CPU time is a sample, and none is lost."""
    report = recording.report("function")
    wanted = rate * seconds
    check(report["recording"]["lost"] == 0, "nothing lost")
    check(abs(report["samples"] - wanted) <= wanted * 0.01 + 2,
          f"{report['samples']} samples of {wanted} in {seconds} s of CPU time")


def depth_of(nodes, name):
    """The longest chain of calls of one function to itself."""
    deepest = 0
    for node in nodes:
        below = depth_of(node.get("children", []), name)
        deepest = max(deepest, below + (node["name"] == name))
    return deepest
