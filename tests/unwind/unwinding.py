# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the tests of stacks without frame pointers share: recordings by tables, and whose stacks are as they must be.
"""

import collections
import os
import re
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))

from truth import BUILD, Recording, as_user, check  # pylint: disable=wrong-import-position

PROGRAMS = os.path.join(BUILD, "tests/workloads/unwind")
EXACT_PERCENT = 99.0
COMPLETE = 1  # enum rs_walk_end
COMPAT = 6

# Where stacks begin, as names of a C library that was stripped allow: nothing below is left away in silence.
MAIN = "_start;__libc_start_main;__libc_start_call_main;main"
THREAD = "clone3;start_thread"
# Code of other files, whatever its name: a library, the vdso, or what has no name.
OTHER = r"(?!\[truncated\]|\[unknown\])[^;]+"


def program(name):
    return os.path.join(PROGRAMS, "unwind-" + name)


def record(directory, name, *command, options=(), unwind="table"):
    return Recording(directory, name, f"--unwind={unwind}", *options, "--", *command)


def stacks(recording, *options):
    """{names from the outermost to the innermost, without the process and the kernel: samples}."""
    found = collections.Counter()
    for line in as_user("ringside", "export", "--format=collapsed", "--no-inline", *options, recording.path).splitlines():
        stack, _, samples = line.rpartition(" ")
        names = stack.split(";")[1:]
        while names and names[-1].endswith("_[k]"):
            names.pop()
        if names:
            found[";".join(names)] += int(samples)
    return found


def ends(recording):
    """{enum rs_walk_end: samples}."""
    with sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True) as db:
        return dict(db.execute("SELECT walk_end & 15, count(*) FROM sample GROUP BY 1"))


def guessed(recording):
    """The share of samples in percent of which some of the stack was found by frame pointer, for want of a rule."""
    with sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True) as db:
        return 100 * db.execute("SELECT avg(walk_end & 16 != 0) FROM sample").fetchone()[0]


def show_others(found, patterns, n=5):
    others = [(count, stack) for stack, count in found.items() if not any(re.fullmatch(p, stack) for p in patterns)]
    for count, stack in sorted(others, reverse=True)[:n]:
        print(f"   {count}: {stack}")


def check_stacks(title, found, expected, percent=EXACT_PERCENT):
    """
    expected: {pattern of a whole stack: the least share in percent}. All samples together have to be of these, but for
    one in a hundred, which is what starts and ends a program, and the moments in which the clock is read.
    """
    total = sum(found.values())
    matched = 0
    check(total > 0, f"{title}: {total} samples")
    for pattern, least in expected.items():
        samples = sum(count for stack, count in found.items() if re.fullmatch(pattern, stack))
        share = 100.0 * samples / max(1, total)
        check(share >= least, f"{title}: {share:.1f} % are {pattern}, to be {least} % or more")
    matched = sum(count for stack, count in found.items() if any(re.fullmatch(p, stack) for p in expected))
    share = 100.0 * matched / max(1, total)
    check(share >= percent, f"{title}: {share:.2f} % of {total} stacks are exact, to be {percent} %")
    show_others(found, expected)
