#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What is gone before anybody looks has names all the same: hundreds of programs of some milliseconds each, with the
client asleep meanwhile, too; and each address is named by what was mapped there at that time: a library in the
place of another, a program in the place of another, a file in the place of another. As an ordinary user over the real
bus; runs inside bus-env.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from truth import RATE, USER, WORKLOADS, Recording, check, check_shares, comm_of, exit_status, stat_of, workload

KERNEL_RULES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib/profile-kernel.rules")
N = 500
BRIEF = [workload(f"brief-{i}") for i in range(1, 6)]
NAMED_PERCENT = 99.0
POINTS = 4.0
# What kernel code is called that nobody may know, or that there is no name for.
NAMELESS = ("[kernel]", "[unknown kernel code]")

# Every sample: the name of its process, and file and function of its innermost frame.
LEAVES = """
    SELECT CAST(process.comm AS TEXT), CAST(path AS TEXT), CAST(name AS TEXT), sample.kernel FROM sample
    JOIN thread ON thread.id = thread JOIN process ON process.id = process LEFT JOIN stack ON stack.id = stack
    LEFT JOIN frame ON frame.id = frame LEFT JOIN file ON file.id = file LEFT JOIN symbol ON symbol.id = symbol
"""


def leaves(path, where=""):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute(LEAVES + where).fetchall()


class Sleepy(Recording):
    """A recording of a command whose client is stopped for a while in the middle."""

    def __init__(self, directory, name, *arguments):  # pylint: disable=super-init-not-called
        self.path = os.path.join(directory, name + ".ringside")
        p = subprocess.Popen(["as-user", USER, "ringside", "record", "-q", "--no-ask", "-F", str(RATE), "-o",
                              self.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        while comm_of(p.pid) != "ringside" or not self.command_of(p.pid):
            time.sleep(0.01)
        time.sleep(2)
        command = self.command_of(p.pid)
        self.slept = [self.runs(command)]
        os.kill(p.pid, signal.SIGSTOP)
        time.sleep(2)
        self.slept.append(self.runs(command))
        os.kill(p.pid, signal.SIGCONT)
        self.printed = p.communicate()[0]
        if p.returncode != 0:
            raise RuntimeError(f"{name}: exit {p.returncode}")

    @staticmethod
    def command_of(pid):
        """What it started for us to see: the only child that is not of its own kind."""
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = [int(child) for child in f.read().split()]
        return next((child for child in children if comm_of(child) != "ringside"), None)

    @staticmethod
    def runs(pid):
        """Nobody waits for it while its parent is stopped: what has ended is a zombie."""
        fields = stat_of(pid) if pid else None
        return bool(fields) and fields[0] not in "ZX"


def check_brief(title, recording, kernel=False):
    """
    Each of the short-lived processes has samples, and nearly all samples have file and function. kernel: it was granted,
    and all there are count, of whoever starts the processes, too. Without it those in the kernel do not: they are
    [kernel] and no more, whatever is known of the process, and would only make that share greater.
    """
    used = float(recording.printed.split()[0])
    rows = leaves(recording.path)
    processes = [row for row in recording.report("process")["rows"] if row["name"].startswith("workload-brief")]
    sampled = sum(row["self_samples"] > 0 for row in processes)
    check(sampled == N, f"{title}: {sampled} of {N} processes have samples")
    own = [(path, name) for comm, path, name, in_kernel in rows
           if kernel or comm.startswith("workload-brief") and not in_kernel]
    named = sum(bool(path and name and path[0] in "/[" and path != "[unknown]" and name not in NAMELESS)
                for path, name in own)
    check(named >= NAMED_PERCENT / 100 * len(own) > 0,
          f"{title}: {named} of {len(own)} samples have file and function, {100 * named / max(1, len(own)):.2f} %")
    functions = {name for _, _, name, in_kernel in rows if in_kernel and name not in (None, *NAMELESS)}
    check(not kernel or len(functions) > 20, f"{title}: they are in {len(functions)} functions of the kernel")
    unnamed = {}
    for path, name in own:
        if not (path and name):
            unnamed[path, name] = unnamed.get((path, name), 0) + 1
    print(f"   without: {unnamed}")
    check(len(rows) >= 0.95 * RATE * used, f"{title}: {len(rows)} samples of {used:.2f} s")
    for i, program in enumerate(BRIEF, 1):
        files = {os.path.join(WORKLOADS, f"libbrief-{part}-{i}.so"): f"brief_{part}_{i}" for part in ("first", "second")}
        for path, function in (files | {program: f"brief_program_{i}"}).items():
            n = sum((os.path.realpath(p or ""), f) == (path, function) for p, f in own)
            check(n > 0, f"{title}: {function} of {os.path.basename(path)} is in {n} samples")
    report = recording.report("function")
    check(report["recording"]["lost"] == 0, f"{title}: nothing lost")


def test_brief(directory):
    subprocess.run(["polkit-rules", KERNEL_RULES], check=True)
    check_brief("short-lived", Recording(directory, "brief", "--", workload("swarm"), str(N), *BRIEF), kernel=True)
    subprocess.run(["polkit-rules", "default"], check=True)
    asleep = Sleepy(directory, "asleep", "--", workload("swarm"), str(N), *BRIEF)
    check(asleep.slept == [True, True], f"asleep: the command runs before and after that: {asleep.slept}")
    check_brief("short-lived, asleep", asleep)


def test_swap(directory):
    """dlopen, dlclose, and another library at the same address."""
    libraries = [os.path.join(WORKLOADS, f"libswap-{name}.so") for name in "ab"]
    r = Recording(directory, "swap", "--", workload("swap"), *libraries)
    own = r.shares("function", "self_samples")
    # What the machine does meanwhile comes in between, in any of them.
    user = 100 - own.get("[kernel]", 0)
    check_shares("swap", {name: 100 * share / user for name, share in own.items()},
                 {"swapped_a": 30, "swapped_b": 20, "called_back": 50}, POINTS)
    check_shares("swap, with what is called", r.shares("function"), {"swapped_a": 60, "swapped_b": 40}, POINTS)
    # Nothing is ever seen in the libraries but their calls: the stacks' addresses are the same all the time.
    libraries = [os.path.join(WORKLOADS, f"libswap-caller-{name}.so") for name in "ab"]
    for title, options in (("callers", ()), ("remapping", ("--remap",))):
        r = Recording(directory, "swap-" + title, "--", workload("swap"), *libraries, *options)
        own = r.shares("function", "self_samples")
        seen = own.get("swapped_a", 0) + own.get("swapped_b", 0)
        check(seen < 1, f"swap, {title}: the libraries themselves are seen in {seen:.1f} %")
        shares = r.shares("function")
        called = sum(shares.get(name, 0) for name in ("swapped_a", "swapped_b"))
        check(called > 90, f"swap, {title}: what they call has {called:.1f} %")
        check_shares(f"swap, {title}", {name: 100 * share / called for name, share in shares.items()},
                     {"swapped_a": 60, "swapped_b": 40}, POINTS)


def test_again(directory):
    """A program that removes its file, replaces it, or becomes another program."""
    def prepare(name):
        path = os.path.join(directory, name)
        shutil.copy(workload("again"), path)
        shutil.copy(workload("brief-1"), path + ".new")
        for file in (path, path + ".new"):
            os.chmod(file, 0o755)
        return path

    whole = {"again_before": 50, "again_after": 50}
    for name in ("unlink", "replace"):
        path = prepare(name)
        r = Recording(directory, name, "--", path, path)
        check_shares(name, r.shares("function", "self_samples"), whole, POINTS)
        check(os.path.exists(path) == (name == "replace"), f"{name}: it did")
        files = {p for _, p, f, _ in leaves(r.path) if f and f.startswith("again_")}
        check(files == {path}, f"{name}: the file is called {', '.join(files)}")
    path = prepare("exec")
    r = Recording(directory, "exec", "--", path, path, BRIEF[1], "4.0")
    # Its clock goes on through the exec: half a second of the one, and of the other the rest, less what starting it takes.
    shares = r.shares("function", "self_samples")
    brief = {name: shares.get(name, 0) for name in ("brief_program_2", "brief_first_2", "brief_second_2")}
    check_shares("exec", shares, {"again_before": 12.5}, POINTS)
    check(sum(brief.values()) >= 87.5 - POINTS, f"exec: {sum(brief.values()):.1f} % are of the second program")
    check_shares("exec, of that", {name: 100 * share / max(1, sum(brief.values())) for name, share in brief.items()},
                 {"brief_program_2": 50, "brief_first_2": 25, "brief_second_2": 25}, POINTS)
    check("again_after" not in r.shares("function"), "exec: what was never run is not in")


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-gone-") as directory:
        os.chmod(directory, 0o777)
        test_brief(directory)
        test_swap(directory)
        test_again(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
