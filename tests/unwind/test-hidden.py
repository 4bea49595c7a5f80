#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
With -a, where everybody is recorded: tables are for the user's own processes alone; others are unwound by frame
pointers, also where the client has put tables for them. Runs inside bus-env.
"""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

from tables import PROBES, PROCESS_SIZE, PROCESSES, Tables, slot_hash
from unwinding import COMPLETE, MAIN, check_stacks, program, stacks

import harness as h
from truth import OTHER_USER, USER, Recording, check, comm_of, exit_status

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/profile-system.rules")
PLAIN = f"{MAIN};plain_outer;plain_inner;plain_leaf"
# enum rs_walk_end: those that only walks by tables have begin here.
FIRST_OF_TABLES = 7
SECONDS = 6

# Of each sample from a time on: its process, how the walk ended, and how many frames the user's part of the stack has.
DEPTHS = """
    WITH RECURSIVE depth(id, frames) AS (
        SELECT stack.id, 1 - kernel FROM stack JOIN frame ON frame.id = frame WHERE parent IS NULL UNION ALL
        SELECT stack.id, frames + 1 - kernel FROM stack JOIN frame ON frame.id = frame JOIN depth ON depth.id = parent)
    SELECT pid, walk_end, frames, count(*) FROM sample JOIN thread ON thread.id = thread
    JOIN process ON process.id = process JOIN depth ON depth.id = stack WHERE pid = ? GROUP BY 1, 2, 3
"""


@contextlib.contextmanager
def plain(user):
    """At the same addresses each time."""
    p = subprocess.Popen(["as-user", user, "setarch", "-R", program("plain"), "300"])
    try:
        h.until("the program runs", lambda: comm_of(p.pid) == "unwind-plain")
        yield p.pid
    finally:
        p.kill()
        p.wait()


def code_of(pid):
    return [line.split()[:3] for line in h.read(f"/proc/{pid}/maps").splitlines() if "r-xp" in line and "[v" not in line]


def start_of(path, pid):
    """When a process began, as the records of a recording that is still being written say it."""
    with contextlib.suppress(sqlite3.Error), sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        row = db.execute("SELECT start + (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'start_boottime') "
                         "FROM process WHERE pid = ?", (pid,)).fetchone()
        return row and row[0]


def plant(tables, own, other, start):
    """The tables of one's own process as those of another's."""
    source = tables.slots()[own]
    first = slot_hash(other, start)
    place = next(n * PROCESS_SIZE for n in ((first + i) % PROCESSES for i in range(PROBES))
                 if tables.get("<Q", n * PROCESS_SIZE + 16) == 0)
    tables.put("<Q", place, start)
    tables.put("<I", place + 8, other)
    tables.put("<Q", place + 16, tables.get("<Q", source + 16))


def record(directory, own, others):
    path = os.path.join(directory, "all.ringside")
    p = subprocess.Popen(["as-user", USER, "ringside", "record", "-q", "--no-ask", "-F", "999", "-a", "--unwind=table", "-d",
                          str(SECONDS), "-o", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    tables = Tables(own)
    began = time.monotonic()
    for other in others:
        start = h.until("the process is in the recording", lambda pid=other: start_of(path, pid))
        plant(tables, own, other, start)
    planted = time.monotonic() - began
    check(p.wait() == 0, f"the recording ended well, with tables put there after {planted:.1f} s")
    return Recording.of_file(path)


def main():
    subprocess.run(["polkit-rules", RULES], check=True)
    with tempfile.TemporaryDirectory(prefix="ringside-hidden-") as directory, plain(USER) as own, plain(OTHER_USER) as other, \
            plain(OTHER_USER) as untouched:
        os.chmod(directory, 0o777)
        check(code_of(own) == code_of(other), "the same code at the same addresses")
        recording = record(directory, own, [other])
        check_stacks("own, with -a", stacks(recording, f"--process={own}"), {PLAIN: 95})
        for title, pid in ("another user's", untouched), ("another user's, with tables", other):
            check_hidden(title, recording, pid)
    return exit_status()


def check_hidden(title, recording, pid):
    with sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True) as db:
        walks = [row[1:] for row in db.execute(DEPTHS, (pid,))]
    total = sum(n for *_, n in walks)
    check(total > 100, f"{title}: {total} samples")
    by_tables = sum(n for end, _, n in walks if end >= FIRST_OF_TABLES)
    check(by_tables == 0, f"{title}: {by_tables} walks ended as only walks by tables do: {walks}")
    # From plain_leaf to _start there are seven; what frame pointers lead to that are none has not as many, at all.
    whole = sum(n for end, frames, n in walks if end == COMPLETE and frames >= 7)
    check(whole == 0, f"{title}: {whole} stacks are as deep as they really are")
    exact = sum(n for stack, n in stacks(recording, f"--process={pid}").items() if re.search("plain_outer;plain_inner;", stack))
    check(exact == 0, f"{title}: {exact} stacks have what called whom")


if __name__ == "__main__":
    sys.exit(main())
