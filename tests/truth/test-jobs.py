#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What people do with a profiler, as an ordinary user over the real bus: record what runs already, or all of
theirs; follow what a command leaves behind; see the kernel's part. Runs inside bus-env.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from truth import OTHER_USER, RATE, SHARES, USER, Recording, check, check_shares, exit_status, workload

# Short recordings beside other load have few samples.
SHORT_POINTS = 5.0


@contextlib.contextmanager
def running(user, program, *arguments):
    """A program of this user's that has begun to use CPU time; its PID."""
    p = subprocess.Popen(["as-user", user, program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        # as-user executes it in its own place.
        comm = os.path.basename(program)[:15]
        deadline = time.monotonic() + 30
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


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ids(recording, by):
    return {row["id"] for row in recording.report(by)["rows"]}


def test_attach(directory):
    """Programs that run already, by their PID."""
    with running(USER, workload("shares"), "300") as pid:
        before = cpu_seconds(pid)
        r = Recording(directory, "attach-shares", "-p", str(pid), "-d", "2")
        used = cpu_seconds(pid) - before
        samples = r.report("function")["samples"]
        check(RATE * used * 0.5 <= samples <= RATE * used * 1.05 + 20,
              f"attached: {samples} samples while it used {used:.2f} s of CPU time")
        check(ids(r, "process") == {pid}, "attached: only that process is in")
        check_shares("attached", r.shares("function"), SHARES | {"main": 100}, SHORT_POINTS)

    with running(USER, workload("threads"), "300") as pid:
        r = Recording(directory, "attach-threads", "-p", str(pid), "-d", "2")
        workers = {int(tid) for tid in os.listdir(f"/proc/{pid}/task")} - {pid}
        check(ids(r, "thread") == workers, "attached: all four threads are in")
        check(set(r.shares("thread")) == {"work-40", "work-30", "work-20", "work-10"}, "attached: by their names")
        check_shares("attached threads", r.shares("function"), {"thread_work": 100, "worker_run": 100}, SHORT_POINTS)


def test_all_of_mine(directory):
    """Without a target: everything of the caller's, nothing of anybody else's."""
    theirs = os.path.join(directory, "somebody-elses")
    shutil.copy(workload("busy"), theirs)
    with running(OTHER_USER, theirs, "300") as other, running(USER, workload("busy"), "300") as mine:
        other_before, before = cpu_seconds(other), cpu_seconds(mine)
        r = Recording(directory, "all", "-d", "2", rate=99)
        used = cpu_seconds(mine) - before
        check(cpu_seconds(other) > other_before, "all of mine: the other user's program ran meanwhile")
        processes = r.report("process")["rows"]
        found = {row["id"]: row["total_samples"] for row in processes}
        check(found.get(mine, 0) >= 99 * used * 0.4 > 0,
              f"all of mine: my program has {found.get(mine, 0)} samples and used {used:.2f} s")
        functions = {row["name"]: row["self_samples"] for row in r.report("function")["rows"]}
        check(functions.get("busy_loop", 0) >= found.get(mine, 0) * 0.8 > 0,
              f"all of mine: {functions.get('busy_loop', 0)} of them in its function")
        check(other not in found and other not in ids(r, "thread"), "all of mine: no other user's process")
        names = {row["name"] for by in ("process", "thread", "file") for row in r.report(by)["rows"]}
        check("somebody-elses" not in names, "all of mine: nor its name")
    with open(r.path, "rb") as f:
        check(b"somebody-elses" not in f.read(), "all of mine: nor its name anywhere in the file")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-jobs-") as directory:
        os.chmod(directory, 0o777)
        test_attach(directory)
        test_all_of_mine(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
