#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A program as it is installed, which has no frame pointers: by tables its stacks are whole from exec to exit, by frame pointers
they are not, and a report says why not. Runs inside bus-env.
"""

import json
import os
import sys
import tempfile

from unwinding import COMPLETE, ends, record

from truth import as_user, check, exit_status

PYTHON = "/usr/bin/python3"
PROGRAM = """
import time
def deeper(n):
    return sum(i * i for i in range(20000)) if n == 0 else deeper(n - 1)
end = time.monotonic() + 4
while time.monotonic() < end:
    deeper(10)
"""


def report(recording, *options):
    return json.loads(as_user("ringside", "report", "--format=json", *options, recording.path))


def check_report(recording):
    """Whatever was cut short has a reason and a place."""
    told = report(recording, "--unwind")
    truncated = told["truncated"]
    check(sum(told["truncated_by"].values()) == truncated, f"{truncated} truncated samples have a reason: {told['truncated_by']}")
    check(sum(t["samples"] for t in told["truncations"]) == truncated, "and a place")
    return truncated, told["samples"], told["recording"]["unwind"]


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-python-") as directory:
        os.chmod(directory, 0o777)
        recording = record(directory, "table", PYTHON, "-c", PROGRAM)
        found = ends(recording)
        share = 100.0 * found.get(COMPLETE, 0) / max(1, sum(found.values()))
        check(share >= 99, f"by tables: {share:.2f} % of walks are complete, to be 99 %: {found}")
        truncated, samples, unwind = check_report(recording)
        check(samples > 500 and truncated <= samples / 100, f"by tables: {truncated} of {samples} are truncated")
        check(unwind == "table", f"by tables: recorded as {unwind}")

        truncated, samples, unwind = check_report(record(directory, "fp", PYTHON, "-c", PROGRAM, unwind="fp"))
        check(truncated > samples / 2, f"by frame pointers: {truncated} of {samples} are truncated")
        check(unwind == "fp", f"by frame pointers: recorded as {unwind}")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
