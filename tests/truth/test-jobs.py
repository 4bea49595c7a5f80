#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What people do with a profiler, as an ordinary user over the real bus: record what runs already, or all of
theirs; follow what a command leaves behind; see the kernel's part. Runs inside bus-env.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from truth import OTHER_USER, RATE, SHARES, USER, Recording, check, check_shares, exit_status, workload

# Short recordings have few samples, and other load may bring a program's rounds into step with the clock.
SHORT_POINTS = 8.0
KERNEL_POINTS = 5.0


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


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def cpu_seconds(pid):
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


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


def children_of(node, names):
    """The names along every chain below a node, in one set."""
    for child in node.get("children", []):
        names.add(child["name"])
        children_of(child, names)
    return names


def test_kernel(directory):
    """The kernel's time is one frame, in the share the kernel itself accounts, below whoever called it."""
    r = Recording(directory, "halves", "--", workload("halves"), "4")
    usage = json.loads(r.printed)
    share = 100.0 * usage["system"] / (usage["system"] + usage["user"])
    check_shares("kernel", r.shares("function", "self_samples"), {"[kernel]": share}, KERNEL_POINTS)
    check(30 < share < 70, f"kernel: the program spent {share:.1f} % there")

    leaves = {node["name"]: node for node in r.report("callers")["tree"]["children"]}
    kernel = leaves.get("[kernel]", {})
    callers = children_of(kernel, set())
    check({"in_kernel", "main"} <= callers, f"kernel: its callers are {', '.join(sorted(callers))}")
    total = r.shares("function")
    check_shares("kernel, with callers", total, {"in_kernel": share, "in_user": 100 - share}, KERNEL_POINTS)


def duration(recording):
    return recording.report("function")["recording"]["duration_ns"] / 1e9


def left_running(pid, comm):
    """Whether this process still runs; it does not after this."""
    deadline = time.monotonic() + 30
    found = comm_of(pid)
    while found == "sh" and time.monotonic() < deadline:
        time.sleep(0.02)
        found = comm_of(pid)
    if found is None:
        return False
    fields = stat_of(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return found == comm and fields is not None and fields[0] not in "ZX"


def test_descendants(directory):
    """A command that ends before what it has started, and one that is left running."""
    shell = '"$0" "$1" >/dev/null 2>&1 & echo $!'
    r = Recording(directory, "waits", "--", "sh", "-c", shell, workload("shares"), "2")
    pid = int(r.printed)
    samples = {row["id"]: row["total_samples"] for row in r.report("process")["rows"]}.get(pid, 0)
    check(duration(r) >= 2, f"descendant: the recording lasts {duration(r):.1f} s, until it has ended")
    check(abs(samples - 2 * RATE) <= 2 * RATE * 0.02 + 20, f"descendant: it has {samples} samples of {2 * RATE}")
    check(not left_running(pid, "workload-shares"), "descendant: it has ended")
    check_shares("descendant", r.shares("function"), SHARES, SHORT_POINTS)

    r = Recording(directory, "no-wait", "--no-wait", "--", "sh", "-c", shell, workload("shares"), "300")
    check(left_running(int(r.printed), "workload-shares"), "--no-wait: the recording ends before the descendant")

    shell = 'echo $$; exec "$0" "$1" >/dev/null 2>&1'
    r = Recording(directory, "duration", "-d", "1", "--", "sh", "-c", shell, workload("shares"), "300")
    check(left_running(int(r.printed), "workload-shares"), "-d: the command is left running")
    check(0.9 <= duration(r) <= 10, f"-d 1: the recording lasts {duration(r):.2f} s")
    check(r.shares("function").get("takes_seventy", 0) > 50, "-d: and has the command's samples")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-jobs-") as directory:
        os.chmod(directory, 0o777)
        test_attach(directory)
        test_all_of_mine(directory)
        test_kernel(directory)
        test_descendants(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
