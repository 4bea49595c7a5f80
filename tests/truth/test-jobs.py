#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What people do with a profiler, as an ordinary user over the real bus: record what runs already, or all of
theirs; follow what a command leaves behind; see the kernel's part, deep stacks and the first instructions;
take the result elsewhere. Runs inside bus-env.
"""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time

from truth import BUILD, OTHER_USER, RATE, SHARES, USER, Recording, as_user, check, check_shares, comm_of
from truth import cpu_seconds, depth_of, exit_status, run_as_user, running, stat_of, workload

# Short recordings have few samples, and other load may bring a program's rounds into step with the clock.
SHORT_POINTS = 8.0
KERNEL_POINTS = 5.0


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
        functions = {row["name"]: row["self_samples"] for row in r.report("function", "--no-inline")["rows"]}
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
    deadline = time.monotonic() + 100
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
    # A row each for what a process was before and after it executed something.
    samples = sum(row["total_samples"] for row in r.report("process")["rows"] if row["id"] == pid)
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


def deepest(node):
    """Frames of user code in the longest chain; what stands for a cut is none."""
    below = max((deepest(child) for child in node.get("children", [])), default=0)
    return below + (node["file"] != "" and not node["kernel"])


def test_depth(directory):
    """Stacks up to the greatest number of frames are whole, longer ones are cut and counted."""
    r = Recording(directory, "deep", "--max-frames=255", "--", workload("recursion"), "1", "200")
    tree = r.report("callees")
    depth = depth_of(tree["tree"]["children"], "recurse")
    check(depth == 200, f"depth: a recursion of 200 has {depth} frames")
    check(tree["truncated"] <= tree["samples"] * 0.01, f"depth: {tree['truncated']} of {tree['samples']} are cut")
    check(r.shares("function").get("main", 0) > 99, "depth: and they reach main")

    r = Recording(directory, "deeper", "--max-frames=255", "--", workload("recursion"), "1", "400")
    tree = r.report("callees", "--no-inline")
    # The limit is of the callers; where the program stood is in each sample itself.
    callers = deepest(tree["tree"]) - 1
    check(240 <= callers <= 255, f"depth: a recursion of 400 has {callers} callers")
    check(tree["truncated"] >= tree["samples"] * 0.99, f"depth: {tree['truncated']} of {tree['samples']} are cut")
    check(r.shares("function").get("main", 0) < 1, "depth: and they do not reach main")


def test_early(directory):
    """A command is recorded from its first instruction: a constructor's 50 ms, before main()."""
    r = Recording(directory, "early", "--", workload("early"), "0.05")
    samples = {row["name"]: row["total_samples"] for row in r.report("function")["rows"]}.get("before_main", 0)
    check(40 <= samples <= 60, f"early: {samples} samples of 50 before main()")


def test_summary(directory):
    """What record says at its end, to somebody who asked for nothing."""
    path = os.path.join(directory, "summary.ringside")
    text = run_as_user("ringside", "record", "--no-ask", "-o", path, "--", workload("shares"), "2").stderr
    head, _, table = text.partition("  self   function\n")
    top, _, rest = table.partition("\n\n")
    lines = top.splitlines()
    check(1 <= len(lines) <= 5 and any(line.endswith("  takes_seventy") for line in lines),
          f"summary: takes_seventy is among the first {len(lines)}")
    check(re.search(r"^Recorded .* samples, 0 lost$", head, re.M), "summary: samples, and how many were lost")
    check(f"Next: ringside report {path}\n" in rest, "summary: what to do next")


def test_export(directory):
    r = Recording(directory, "export", "--", workload("shares"), "1")
    collapsed = as_user("ringside", "export", "--format=collapsed", r.path)
    lines = [line for line in collapsed.splitlines() if "main;takes_seventy" in line]
    counted = sum(int(line.rpartition(" ")[2]) for line in lines)
    total = sum(int(line.rpartition(" ")[2]) for line in collapsed.splitlines())
    check(total > 0 and abs(100.0 * counted / total - 70) <= SHORT_POINTS,
          f"collapsed: {counted} of {total} in takes_seventy")

    pprof = os.path.join(directory, "export.pb.gz")
    as_user("ringside", "export", "--format=pprof", "-o", pprof, r.path)
    with gzip.open(pprof) as f:
        names = f.read()
    check(all(name.encode() in names for name in SHARES), "pprof: the functions are in")


def test_moved(directory):
    """A recording says the same elsewhere, when the program it is of is gone."""
    program = os.path.join(directory, "copied")
    shutil.copy(workload("shares"), program)
    r = Recording(directory, "stays", "--", program, "2")
    before = r.report("function")
    os.unlink(program)
    elsewhere = os.path.join(directory, "elsewhere")
    os.mkdir(elsewhere)
    os.chmod(elsewhere, 0o777)
    r.path = shutil.move(r.path, os.path.join(elsewhere, "moved.ringside"))
    check(r.report("function")["rows"] == before["rows"], "moved: the same functions")
    check_shares("moved", r.shares("function"), SHARES, SHORT_POINTS)


def test_example():
    """The example of the documentation profiles a program."""
    with running(USER, workload("busy"), "300") as pid:
        text = as_user(os.path.join(BUILD, "docs/example"), str(pid), "2")
    samples = re.match(r"(\d+) samples taken, 0 lost\n", text)
    check(samples and int(samples[1]) > 0, f"example: {text.partition(chr(10))[0]}")
    check(re.search(r"^ *\d+\.\d %  busy_loop$", text, re.M), "example: the function is in its table")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-jobs-") as directory:
        os.chmod(directory, 0o777)
        test_attach(directory)
        test_all_of_mine(directory)
        test_kernel(directory)
        test_descendants(directory)
        test_depth(directory)
        test_early(directory)
        test_summary(directory)
        test_export(directory)
        test_moved(directory)
        test_example()
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
