#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Code that takes the place of other code, and code that moves, many times a second: each sample has the name of what was
there at its time, or, where that is told too late to be known, none. Who called it is known for sure. Runs inside
bus-env.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))

from truth import Recording, as_user, check, check_shares, exit_status, workload  # pylint: disable=wrong-import-position

SHARES = {"made_half": 50.0, "made_third": 33.3, "made_sixth": 16.7}
POINTS = 5.0
OTHER_MOST = 5.0  # percent without a name
SECONDS = 2
# In a time namespace, where the times that are told are another clock's.
OTHER_TIME = ["unshare", "--user", "--map-root-user", "--fork", "--time", "--monotonic=100000"]


def record(directory, name, *arguments, around=()):
    return Recording(directory, name, "--", "env", "-C", directory, *around, workload("replaced"), str(SECONDS), *arguments)


def shares(recording):
    """{function of the JIT: percent of samples that ended in it}."""
    report = recording.report("function")
    check(report["samples"] > 500, f"{report['samples']} samples")
    return {row["name"]: 100.0 * row["self_samples"] / report["samples"] for row in report["rows"] if row["file"] == "[jit]"}


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
    return right


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-replaced-") as directory:
        os.chmod(directory, 0o777)
        for title, around in {"told at once": (), "told by another clock": OTHER_TIME}.items():
            recording = record(directory, title, around=around)
            found = shares(recording)
            check_shares(title, found, SHARES, POINTS)
            other = sum(share for name, share in found.items() if name not in SHARES)
            check(other <= OTHER_MOST, f"{title}: {other:.1f} % in other code, to be {OTHER_MOST} % at most")
            check(check_callers(title, recording) > 500, f"{title}: and are most")

        recording = record(directory, "late", "late")
        check_callers("told late", recording)
        check(sum(shares(recording).values()) >= 90, "told late: and are there without one")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
