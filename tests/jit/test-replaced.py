#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Code that takes the place of other code, and code that moves, many times a second: each sample has the name of what was
there at its time, or, where that is told too late to be known, none, which on a busy machine may be most of them. Who
called it is known for sure. And in a child it is what was there when it was forked. Runs inside bus-env.
"""

import concurrent.futures
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))

from truth import Recording, as_user, check, exit_status, workload  # pylint: disable=wrong-import-position

SHARES = {"made_half": 50.0, "made_third": 33.3, "made_sixth": 16.7}
FORKED = {"made_half": 50.0, "made_third": 50.0}
POINTS = 5.0
NAMED_LEAST = 10.0  # percent, however late the dump is found, and read
SECONDS = 2
# In a time namespace, where the times that are told are another clock's.
OTHER_TIME = ["unshare", "--user", "--map-root-user", "--fork", "--time", "--monotonic=100000"]
TOLD = {"told at once": [], "told by another clock": OTHER_TIME}


def record(directory, name, *arguments, around=()):
    return Recording(directory, name, "--", "env", "-C", directory, *around, workload("replaced"), str(SECONDS), *arguments)


def shares(recording):
    """{function of the JIT: percent of samples that ended in it}."""
    report = recording.report("function")
    check(report["samples"] > 500, f"{report['samples']} samples")
    return {row["name"]: 100.0 * row["self_samples"] / report["samples"] for row in report["rows"] if row["file"] == "[jit]"}


def check_named(title, found, expected):
    """Those without a name may be of any of the functions, and no others."""
    samples = sum(found.values())
    named = {name: 100.0 * found.get(name, 0.0) / samples if samples else 0.0 for name in expected}
    unnamed = max(0.0, 100.0 - sum(named.values()))
    check(unnamed <= 100.0 - NAMED_LEAST, f"{title}: {unnamed:.1f} % have no name, to be {100.0 - NAMED_LEAST} % at most")
    for name, share in expected.items():
        check(share - unnamed - POINTS <= named[name] <= share + POINTS,
              f"{title}: {name} has {named[name]:.1f} %, to be {share:.1f} % but for those without a name")


def check_callers(title, recording):
    """Where the caller is in the stack, the name is that of the function that it calls."""
    right = wrong = 0
    for line in as_user("ringside", "export", "--format=collapsed", recording.path).splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame.partition("_") for frame in stack.split(";")]
        for (first, _, caller), (second, _, called) in zip(frames, frames[1:]):
            if first == "calls" and second == "made":
                right += int(count) * (caller == called)
                wrong += int(count) * (caller != called)
    check(wrong == 0, f"{title}: {wrong} samples have another function's name, {right} the right one's")


def check_lines(title, recording):
    """What has a name has the line that was told with it, wherever it was moved to."""
    rows = [row for row in recording.report("line")["rows"] if row["file"] == "[jit]" and row["name"] in SHARES]
    named = sum(row["self_samples"] for row in rows)
    right = sum(row["self_samples"] for row in rows if (row.get("source"), row.get("line")) == (row["name"], len(row["name"])))
    check(named == right > 0, f"{title}: {right} of {named} samples with a name are at the right line")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-replaced-") as directory:
        os.chmod(directory, 0o777)
        # At the same time, since what counts is CPU time.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            late = pool.submit(record, directory, "late", "late")
            forked = pool.submit(record, directory, "forked", "forked")
            runs = {title: pool.submit(record, directory, title, around=around) for title, around in TOLD.items()}
            recordings = {title: run.result() for title, run in runs.items()}
            late, forked = late.result(), forked.result()
        for title, recording in recordings.items():
            check_named(title, shares(recording), SHARES)
            check_callers(title, recording)
            check_lines(title, recording)

        check_named("forked", shares(forked), FORKED)
        check_callers("forked", forked)

        check_callers("told late", late)
        check(sum(shares(late).values()) >= 90, "told late: and are there without one")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
