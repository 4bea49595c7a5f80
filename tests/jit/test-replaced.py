#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Code that takes the place of other code, and code that moves, many times a second: each sample has the name of what was
there at its time, or, where that is told too late to be known, none. Who called it is known for sure. Runs inside
bus-env.
"""

import concurrent.futures
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))

from truth import Recording, as_user, check, check_shares, exit_status, workload  # pylint: disable=wrong-import-position

SHARES = {"made_half": 50.0, "made_third": 33.3, "made_sixth": 16.7}
POINTS = 5.0
NAMED_LEAST = 75.0  # percent: on a busy machine it takes a while until the dump is found
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


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-replaced-") as directory:
        os.chmod(directory, 0o777)
        # At the same time, since what counts is CPU time.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            late = pool.submit(record, directory, "late", "late")
            runs = {title: pool.submit(record, directory, title, around=around) for title, around in TOLD.items()}
            recordings = {title: run.result() for title, run in runs.items()}
            late = late.result()
        for title, recording in recordings.items():
            found = shares(recording)
            named = sum(found.get(name, 0.0) for name in SHARES)
            check(named >= NAMED_LEAST, f"{title}: {named:.1f} % have a name, to be {NAMED_LEAST} % at least")
            check_shares(title, {name: share * 100.0 / named for name, share in found.items()} if named else {}, SHARES, POINTS)
            check_callers(title, recording)

        check_callers("told late", late)
        check(sum(shares(late).values()) >= 90, "told late: and are there without one")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
