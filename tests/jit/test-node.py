#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A JIT as it is: node's functions have their names from what node writes for perf, whichever way, and where it writes nothing
their frames are there all the same. Runs inside bus-env.
"""

import concurrent.futures
import glob
import os
import pwd
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))

from truth import USER, Recording, as_user, check, exit_status  # pylint: disable=wrong-import-position

# One calls the other; the time each takes itself is not to be in any ratio to the sampling period.
SCRIPT = """
function hot_inner(n) {
    let x = n;
    for (let i = 0; i < n; i++)
        x = (x * 31 + i) % 1000003;
    return x;
}
function hot_outer(n) {
    let x = hot_inner(n);
    for (let i = 0; i < n; i++)
        x = (x * 17 + i) % 1000033;
    return x;
}
let sum = 0, n = 1;
while (process.cpuUsage().user < 1000000) {
    n = (n * 7919 + 13) % 65537;
    sum += hot_outer(n);
}
process.exitCode = sum < 0 ? 1 : 0;
"""
COMMON = ["--no-turbo-inlining"]  # else there is but one function
OPTIONS = {"map": ["--perf-basic-prof"], "dump": ["--perf-prof", "--perf-prof-delete-file"], "none": []}
FUNCTIONS = ["hot_inner", "hot_outer"]
LEAST = 15.0  # percent of all samples, far below what either has
UNNAMED_MOST = 10.0


def called(name):
    """JS:*hot_inner /path:2:18 and LazyCompile:*hot_inner ..., or without any name [jit]+0x1234."""
    return name.split()[0].lstrip("*").split(":")[-1].lstrip("~^+*") if " " in name else name


def record(directory, name, *options):
    return Recording(directory, name, "--", "env", "-C", directory, "node", *COMMON, *options, "script.js")


def remove_perf_maps():
    """Those that this test's user has left, who has no other files."""
    for path in glob.glob("/tmp/perf-*.map"):
        if os.lstat(path).st_uid == pwd.getpwnam(USER).pw_uid:
            os.unlink(path)


def shares(recording):
    """{function: percent of samples it was in}, and the percent that ended in code without a name."""
    report = recording.report("function")
    rows = [row for row in report["rows"] if row["file"] == "[jit]"]
    totals = {}
    for row in rows:
        totals[called(row["name"])] = totals.get(called(row["name"]), 0) + 100.0 * row["total_samples"] / report["samples"]
    unnamed = sum(row["self_samples"] for row in rows if row["name"].startswith("[jit]+0x"))
    return totals, 100.0 * unnamed / report["samples"]


def check_named(title, recording):
    totals, unnamed = shares(recording)
    for function in FUNCTIONS:
        share = totals.get(function, 0.0)
        check(share >= LEAST, f"{title}: {function} has {share:.1f} %, to be {LEAST} % at least")
    check(unnamed <= UNNAMED_MOST, f"{title}: {unnamed:.1f} % in code without a name, to be {UNNAMED_MOST} % at most")
    stacks = as_user("ringside", "export", "--format=collapsed", recording.path).splitlines()
    both = sum(int(line.rpartition(" ")[2]) for line in stacks
               if 0 <= line.find("hot_outer") < line.find("hot_inner"))
    check(both > 0, f"{title}: {both} samples show who called hot_inner")


def check_lines(recording):
    """What node tells of lines is of its own scripts; a name that it has already freed when it writes it is none."""
    rows = [row for row in recording.report("line")["rows"] if row["file"] == "[jit]" and row.get("source")]
    wrong = {row["source"] for row in rows if not row["source"].startswith(("node:", "file:", "/"))}
    check(not wrong, f"jitdump: lines of {len(rows)} places are of sources, not of {sorted(wrong)}")


def check_unnamed(recording):
    """Frames of code that nobody tells of stay, so that who called it and what it calls do not look adjacent."""
    totals, unnamed = shares(recording)
    check(unnamed >= 2 * LEAST, f"nothing written: {unnamed:.1f} % in code without a name")
    check(not any(function in totals for function in FUNCTIONS), "nothing written: and nothing is made up")


def main():
    if not shutil.which("node"):
        print("not installed: node (tests/setup.sh installs it)")
        return 1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77
    with tempfile.TemporaryDirectory(prefix="ringside-node-") as directory:
        os.chmod(directory, 0o777)
        with open(directory + "/script.js", "w", encoding="ascii") as f:
            f.write(SCRIPT)
        # At the same time, since what counts is CPU time.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = {name: pool.submit(record, directory, name, *options) for name, options in OPTIONS.items()}
            recordings = {name: run.result() for name, run in runs.items()}
        remove_perf_maps()
        check_named("perf map", recordings["map"])
        check_named("jitdump without a name", recordings["dump"])
        check(not any(name.startswith("jit-") for name in os.listdir(directory)), "jitdump without a name: it has none")
        check_lines(recordings["dump"])
        check_unnamed(recordings["none"])
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
