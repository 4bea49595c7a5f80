#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
With -a, where everybody is recorded: tables are for the user's own processes alone; others are unwound by frame
pointers, whatever the client would like. Runs inside bus-env.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile

from unwinding import COMPLETE, MAIN, check_stacks, program, stacks

from truth import OTHER_USER, USER, Recording, check, exit_status, running

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/profile-system.rules")
PLAIN = f"{MAIN};plain_outer;plain_inner;plain_leaf"
# enum rs_walk_end: those that only walks by tables have begin here.
FIRST_OF_TABLES = 7

# Of each sample: its process, how the walk ended, and how many frames the user's part of the stack has.
DEPTHS = """
    WITH RECURSIVE depth(id, frames) AS (
        SELECT stack.id, 1 - kernel FROM stack JOIN frame ON frame.id = frame WHERE parent IS NULL UNION ALL
        SELECT stack.id, frames + 1 - kernel FROM stack JOIN frame ON frame.id = frame JOIN depth ON depth.id = parent)
    SELECT pid, walk_end, frames, count(*) FROM sample JOIN thread ON thread.id = thread
    JOIN process ON process.id = process JOIN depth ON depth.id = stack GROUP BY 1, 2, 3
"""


def walks_of(recording, pid):
    with sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True) as db:
        return [row[1:] for row in db.execute(DEPTHS) if row[0] == pid]


def main():
    subprocess.run(["polkit-rules", RULES], check=True)
    with tempfile.TemporaryDirectory(prefix="ringside-hidden-") as directory, \
            running(USER, program("plain"), "300") as own, running(OTHER_USER, program("plain"), "300") as other:
        os.chmod(directory, 0o777)
        recording = Recording(directory, "all", "-a", "--unwind=table", "-d", "4")
        # It ran before anybody had seen it.
        check_stacks("own, with -a", stacks(recording, f"--process={own}"), {PLAIN: 95}, percent=95)
        walks = walks_of(recording, other)
        total = sum(n for *_, n in walks)
        check(total > 500, f"another user's: {total} samples")
        by_tables = sum(n for end, _, n in walks if end >= FIRST_OF_TABLES)
        check(by_tables == 0, f"another user's: {by_tables} walks ended as only walks by tables do: {walks}")
        # plain_leaf, plain_inner, plain_outer, main, and what called it; frame pointers that are none may lead anywhere.
        whole = sum(n for end, frames, n in walks if end == COMPLETE and frames >= 5)
        check(whole < total / 100, f"another user's: {whole} stacks are as deep as they really are")
        found = stacks(recording, f"--process={other}")
        exact = sum(n for stack, n in found.items() if re.fullmatch(PLAIN, stack))
        check(exact == 0, f"another user's: {exact} stacks are whole")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
