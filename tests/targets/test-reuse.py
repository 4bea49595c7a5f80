# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A number that another process has after a target is not the target: not its samples, not its name, not that it began.
The number is asked for, which root may do (clone3 with set_tid).
"""

import contextlib
import ctypes
import errno
import os
import signal
import sqlite3
import struct

import targets as t
from targets import h

SYS_CLONE3 = 435


def clone_as(pid):
    """fork() to a child of this number in the initial pid namespace; OSError where somebody has it already."""
    wanted = (ctypes.c_int * 1)(pid)
    arguments = struct.pack("<11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    r = h.libc.syscall(SYS_CLONE3, arguments, len(arguments))
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


def run_as(pid, *command):
    """A program of user A's under this number."""
    child = clone_as(pid)
    if child == 0:
        try:
            t.A.become()
            os.execv(command[0], command)
        finally:
            os._exit(1)
    return child


def reuse(pid, *command):
    """Until it is ours: others start processes as well, and may be first."""
    for _ in range(100):
        try:
            return run_as(pid, *command)
        except OSError as e:
            if e.errno != errno.EEXIST:
                raise
    raise h.Failure(f"{pid} is always taken")


def test_reuse():
    with h.killed(t.burner()) as stays, h.killed(t.burner()) as p, \
            t.Recording("-p", f"{p.pid},{stays.pid}") as recording:
        t.burns(p.pid, 0.2)
        p.kill()
        p.wait()
        # A shell that executes another program: a new process, two names, and much CPU time.
        again = reuse(p.pid, "/bin/sh", "-c", f"sleep 0.1; exec {h.workload('gated')} 1000 </dev/null")
        try:
            h.until("the other program", lambda: h.read(f"/proc/{again}/comm") == "workload-gated\n")
            t.burns(again, 0.4)
            recording.stop()
        finally:
            os.kill(again, signal.SIGKILL)
            os.waitpid(again, 0)
        found = recording.samples("process", f"--target=process {p.pid}")
        h.check(set(found) == {"workload-busy"} and found["workload-busy"] >= 0.1 * t.RATE, f"samples {found}")
        names = recording.samples("function")
        h.check("gated_work" not in names, f"the second program is there: {names}")
        h.check(recording.pids() == {p.pid, stays.pid}, f"processes {recording.pids()}")
        # One row: the number was not told to begin again.
        h.check(rows_of(recording, p.pid) == 1, "the second process is told of")


def rows_of(recording, pid):
    with contextlib.closing(sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM process WHERE pid=?", [pid]).fetchone()[0]


t.main(test_reuse)
