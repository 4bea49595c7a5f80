#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Measures what recording costs: one workload under nothing, `ringside record` (as an ordinary user, over the
bus) and `perf record -g` (as root), one after the other in each round, and the medians in a table; and the whole
machine under `ringside record -a` and `perf record -a -g`, kernel frames included, with that workload and with one
that mostly starts processes.

Both walk stacks by frame pointers; what walks by tables cost is unwind.py's. Ringside finds names, and tells stacks from
each other, while it records; perf leaves that to `perf report`. So the report's CPU time is measured as well, in one round.

CPU time of the profilers is that of control groups: whatever a profiler starts is in, however short its life.
The workload's own time, which the kernel's sampling is part of, is what it says itself, and is taken out
again. Runs inside bus-env; record.sh does that.
"""

import argparse
import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["RINGSIDE_TEST_BUILD"]
USER = pwd.getpwnam(os.environ["RINGSIDE_TEST_USER_A"])
RATES = (99, 999, 4999)
EVENT = "cpu-clock"
GOAL_BYTES = 40
GOAL_CPU = 0.5
GOAL_CPU_SYSTEM = 1 / 3
GOAL_START = 5


def skip(reason):
    print(f"{os.path.basename(sys.argv[0])}: {reason}", file=sys.stderr)
    sys.exit(77)


class Groups:
    """Control groups that count the CPU time of all who were ever in them."""

    NAMES = ("bus", "helper", "client", "perf", "load")

    def __init__(self):
        with open("/proc/self/mounts") as f:
            mounts = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
        if not mounts:
            skip("needs cgroup2, which counts the CPU time of the profilers")
        self.top = os.path.join(mounts[0], f"ringside-bench-{os.getpid()}")
        try:
            os.mkdir(self.top)
        except OSError as e:
            skip(f"{self.top}: {e.strerror}")
        for name in self.NAMES:
            os.mkdir(os.path.join(self.top, name))

    def path(self, name, what):
        return os.path.join(self.top, name, what)

    def members(self, name):
        with open(self.path(name, "cgroup.procs")) as f:
            return [int(line) for line in f]

    def move(self, pid, name):
        with open(self.path(name, "cgroup.procs"), "w") as f:
            f.write(str(pid))

    def seconds(self, name):
        with open(self.path(name, "cpu.stat")) as f:
            return int(f.readline().split()[1]) / 1e6

    def remove(self):
        top = os.path.join(self.top, "..", "cgroup.procs")
        for name in self.NAMES:
            for pid in self.members(name):
                with open(top, "w") as f:
                    f.write(str(pid))
            os.rmdir(os.path.join(self.top, name))
        os.rmdir(self.top)


def comm(pid):
    with open(f"/proc/{pid}/comm") as f:
        return f.read().strip()


def find_bus():
    """The dbus-daemon of this mount namespace."""
    ours = os.stat("/proc/self/ns/mnt").st_ino
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if comm(entry) == "dbus-daemon" and os.stat(f"/proc/{entry}/ns/mnt").st_ino == ours:
                return int(entry)
        except OSError:
            pass
    sys.exit("there is no dbus-daemon")


class Bench:
    def __init__(self, directory, groups):
        self.directory = directory
        self.groups = groups
        self.reports = False
        self.examine = None  # called with the path of a recording, or of perf's data, before that is removed
        groups.move(find_bus(), "bus")

    def spawn(self, group, command, as_user):
        """Returns what it printed, and its wall-clock seconds."""
        fd = os.open(self.groups.path(group, "cgroup.procs"), os.O_WRONLY) if group else -1
        env = dict(os.environ)
        identity = {}
        if as_user:
            env.update(HOME=USER.pw_dir, USER=USER.pw_name, LOGNAME=USER.pw_name)
            identity = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []}
        begin = time.monotonic()
        r = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, errors="replace", env=env, cwd=self.directory, **identity,
                           preexec_fn=lambda: os.write(fd, b"0") if fd >= 0 else None)
        seconds = time.monotonic() - begin
        if fd >= 0:
            os.close(fd)
        if r.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
        return r.stdout, seconds

    def settle(self):
        """Sessions end after their client: all of their time is to be in."""
        for _ in range(500):
            if len(self.groups.members("helper")) <= 2:
                return
            time.sleep(0.01)
        sys.exit("a session did not end")

    def warm_up(self):
        """Helper and polkit are started by the first to ask; both stay. Each goes where it is counted."""
        self.ringside(99, ["true"])
        for pid in self.groups.members("bus"):
            with contextlib.suppress(OSError):  # gone
                if "ringside" in comm(pid):
                    self.groups.move(pid, "helper")
        if not self.groups.members("helper"):
            sys.exit("no helper was started")
        self.settle()

    def nothing(self, _, command):
        return {"run": self.spawn(None, command, as_user=True)}

    def ringside(self, rate, command, options=()):
        path = os.path.join(self.directory, "bench.ringside")
        before = [self.groups.seconds(g) for g in ("client", "helper", "bus")]
        # No lines: perf's part that is compared looks for none.
        run = self.spawn("client", ["ringside", "record", "--no-ask", "--no-lines", "--unwind=fp", *options, "-e", EVENT, "-F", str(rate),
                                    "-o", path, "--", *command], as_user=True)
        self.settle()
        client, helper, bus = (self.groups.seconds(g) - b for g, b in zip(("client", "helper", "bus"), before))
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        counter = dict(db.execute("SELECT name, value FROM counter"))
        result = {
            "run": run, "client": client, "helper": helper, "bus": bus,
            "samples": db.execute("SELECT count(*) FROM sample").fetchone()[0],
            "stacks": db.execute("SELECT count(DISTINCT stack) FROM sample").fetchone()[0],
            "lost": counter["lost"] + counter["dropped"] + counter["stacks_lost"],
            "bytes": os.path.getsize(path),
        }
        db.close()
        if self.reports:
            result["report"] = self.report(["ringside", "report", path], as_user=True)
        if self.examine:
            result["examined"] = self.examine(path)
        os.unlink(path)
        return result

    def report(self, command, as_user):
        """CPU seconds of a whole report, none of it shown."""
        before = os.times()
        self.spawn(None, command, as_user)
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    def perf(self, rate, command, options=(), graph=("-g",)):
        path = os.path.join(self.directory, "perf.data")
        before = self.groups.seconds("perf")
        run = self.spawn("perf", ["perf", "record", *graph, *options, "-e", EVENT, "-F", str(rate), "-o", path, "--",
                                  *command], as_user=False)
        result = {"run": run, "client": self.groups.seconds("perf") - before, "helper": 0.0, "bus": 0.0,
                  "bytes": os.path.getsize(path)}
        stats = subprocess.run(["perf", "report", "--stats", "-i", path], check=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        found = {name: int(n) for name, n in re.findall(r"^\s*(\w+) events:\s+(\d+)", stats, re.M)}
        result["samples"] = found.get("SAMPLE", 0)
        result["lost"] = found.get("LOST", 0) + found.get("LOST_SAMPLES", 0)
        if self.reports:
            result["report"] = self.report(["perf", "report", "--stdio", "-i", path], as_user=False)
        if self.examine:
            result["examined"] = self.examine(path)
        os.unlink(path)
        return result


TOOLS = ("nothing", "ringside", "perf")


def finish(result):
    """Tells the workload's time from the profiler's."""
    printed, result["elapsed"] = result.pop("run")
    lines = [line for line in printed.splitlines() if line.startswith('{"wall"')]
    if lines:
        own = json.loads(lines[0])
        result["wall"], result["cpu"] = own["wall"], own["user"] + own["system"]
    return result


ALL = {"ringside": ["-a", "--kernel"], "perf": ["-a"]}


def measure_tree(bench, args, options=None):
    results = {}
    command = [os.path.join(BUILD, "tests/workloads/workload-tree"), str(args.units), "2"]
    for i in range(args.rounds):
        bench.reports = i == 0
        for rate in RATES:
            # No tool is always the one that comes after a pause, or after a certain other.
            for tool in TOOLS[i % 3:] + TOOLS[:i % 3]:
                if tool == "nothing":
                    r = finish(bench.nothing(rate, command))
                else:
                    r = finish(getattr(bench, tool)(rate, command, (options or {}).get(tool, ())))
                if tool != "nothing":
                    r["client"] -= r["cpu"]
                results.setdefault((rate, tool), []).append(r)
    return results


def measure_shares(bench, args):
    """It runs for as much CPU time as it is told to: its own slowdown cannot be seen, all else can."""
    results = {}
    seconds = args.units / 80000
    command = [os.path.join(BUILD, "tests/workloads/workload-shares"), str(seconds)]
    for i in range(args.rounds):
        bench.reports = i == 0
        for rate in RATES:
            for tool in TOOLS[1:] if i % 2 else TOOLS[:0:-1]:
                r = finish(getattr(bench, tool)(rate, command))
                r["client"] -= seconds
                results.setdefault((rate, tool), []).append(r)
    return results


class Load:
    """A machine at work: user code, system calls, page faults, and hundreds of processes a second that live for 1 ms."""

    def __init__(self, bench):
        busy = "while :; do /bin/true; head -c 4000000 /dev/zero | wc -c >/dev/null; done"
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=bench.directory,
                             start_new_session=True)
            for command in ([os.path.join(BUILD, "tests/workloads/workload-tree"), "100000000", "1"],
                            ["dd", "if=/dev/zero", "of=/dev/null", "bs=512"], ["sh", "-c", busy])]

    def __enter__(self):
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        for p in self.processes:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def measure_busy(bench, args):
    """The load is nobody's child: a profiler's group has the profiler alone."""
    results = {}
    command = ["sleep", str(args.units / 80000)]
    with Load(bench):
        for i in range(args.rounds):
            bench.reports = i == 0
            for rate in RATES:
                for tool in TOOLS[1:] if i % 2 else TOOLS[:0:-1]:
                    results.setdefault((rate, tool), []).append(
                        finish(getattr(bench, tool)(rate, command, ALL[tool])))
    return results


def measure_start(bench, args):
    results = {}
    for _ in range(max(3, args.rounds)):
        for tool in TOOLS[1:]:
            results.setdefault(tool, []).append(finish(getattr(bench, tool)(99, ["true"])))
    return results


def median(results, key):
    return statistics.median(key(r) for r in results)


def profiler(r):
    return r["client"] + r["helper"]


def per_sample(results):
    return median(results, lambda r: 1e6 * profiler(r) / max(1, r["samples"]))


def with_report(results):
    """CPU a sample of recording and report together, of the round that has both."""
    return per_sample(results) + 1e6 * results[0]["report"] / max(1, results[0]["samples"])


def bytes_per_sample(results):
    return median(results, lambda r: r["bytes"] / max(1, r["samples"]))


HEADINGS = ("rate", "under", "wall s", "CPU s", "wall +", "CPU +", "us/sample", "client s", "helper s", "bus s",
            "us/sample", "KiB", "B/sample", "samples", "lost")


def rows(results, with_workload):
    for rate in RATES:
        base = results.get((rate, "nothing"))
        for tool in TOOLS:
            r = results.get((rate, tool))
            if not r:
                continue
            row = [str(rate) if tool == TOOLS[0] or not base and tool == TOOLS[1] else "", tool]
            own = ["-"] * 5
            if with_workload:
                wall, cpu = median(r, lambda x: x["wall"]), median(r, lambda x: x["cpu"])
                own[:2] = [f"{wall:.3f}", f"{cpu:.3f}"]
                if tool != "nothing":
                    base_wall, base_cpu = median(base, lambda x: x["wall"]), median(base, lambda x: x["cpu"])
                    own[2:] = [f"{100 * (wall / base_wall - 1):.1f} %", f"{100 * (cpu / base_cpu - 1):.1f} %",
                               f"{1e6 * (cpu - base_cpu) / median(r, lambda x: x['samples']):.1f}"]
            row += own
            if tool == "nothing":
                row += ["-"] * 8
            else:
                row += [f"{median(r, lambda x, k=k: x[k]):.3f}" for k in ("client", "helper", "bus")]
                row += [f"{per_sample(r):.1f}", f"{median(r, lambda x: x['bytes']) / 1024:.0f}",
                        f"{bytes_per_sample(r):.1f}", f"{median(r, lambda x: x['samples']):.0f}",
                        str(sum(x["lost"] for x in r))]
            yield row


def print_table(title, results, with_workload=True):
    table = [HEADINGS, *rows(results, with_workload)]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADINGS))]
    print(f"\n{title}")
    for row in table:
        print("  ".join(c.ljust(w) if i == 1 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))


def marginal(results, tool, key):
    """What a sample costs without what a recording costs anyhow: the slope between the lowest and the highest rate."""
    low, high = results[(RATES[0], tool)], results[(RATES[-1], tool)]
    samples = median(high, lambda r: r["samples"]) - median(low, lambda r: r["samples"])
    return (median(high, key) - median(low, key)) / max(1, samples)


def print_slopes(results):
    for tool in TOOLS[1:]:
        print(f"{tool}: {1e6 * marginal(results, tool, profiler):.2f} us of CPU and "
              f"{marginal(results, tool, lambda r: r['bytes']):.1f} bytes for each further sample "
              f"({RATES[0]} to {RATES[-1]} Hz)")


def goal(text, values, limit, form):
    """values: (where, value). Reached where all are; and where not, it says so."""
    good = values and all(v <= limit for _, v in values)
    print(f"{'reached' if good else 'NOT reached'}: {text}: " + (", ".join(f"{form(v)} at {w}" for w, v in values) or "of none"))


def print_goals(measured, start):
    cpu, cpu_system, both, size, lost = [], [], [], [], []
    for name, results in measured.items():
        for rate in RATES:
            ours, theirs = results[(rate, "ringside")], results[(rate, "perf")]
            where = f"{name} {rate} Hz"
            (cpu if name in ("tree", "shares") else cpu_system).append((where, per_sample(ours) / per_sample(theirs)))
            both.append((where, with_report(ours) / with_report(theirs)))
            size.append((where, bytes_per_sample(ours)))
            lost.append((where, sum(r["lost"] for r in ours)))
    print()
    goal(f"CPU of client and helper a sample at most {GOAL_CPU} of perf's", cpu, GOAL_CPU, lambda v: f"{v:.2f}")
    goal(f"with -a and kernel frames at most {GOAL_CPU_SYSTEM:.2f}", cpu_system, GOAL_CPU_SYSTEM, lambda v: f"{v:.2f}")
    print("recording and one report, of perf's CPU for both: " + ", ".join(f"{v:.2f} at {w}" for w, v in both))
    goal(f"at most {GOAL_BYTES} bytes a sample on disk", size, GOAL_BYTES, lambda v: f"{v:.1f}")
    goal("nothing lost", lost, 0, str)
    ours, theirs = (median(start[t], lambda r: r["elapsed"]) for t in TOOLS[1:])
    goal(f"recording 'true' at most {GOAL_START} times as long as perf", [(f"{1e3 * ours:.0f} ms", ours / theirs)],
         GOAL_START, lambda v: f"{v:.1f} times")


def print_start(start):
    print("\n'true' alone, from the start of the profiler to its end")
    for tool in TOOLS[1:]:
        r = start[tool]
        print(f"  {tool:8}  {1e3 * median(r, lambda x: x['elapsed']):6.1f} ms"
              f"  CPU: client {1e3 * median(r, lambda x: x['client']):.1f} ms,"
              f" helper {1e3 * median(r, lambda x: x['helper']):.1f} ms, bus and polkit"
              f" {1e3 * median(r, lambda x: x['bus']):.1f} ms; {median(r, lambda x: x['bytes']) / 1024:.0f} KiB")


def parse(argv):
    p = argparse.ArgumentParser(prog="record.sh [--build DIR]", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="one short round: that it works, not what it costs")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--units", type=int, default=400000, help="of work, some 15 us of CPU each")
    p.add_argument("--json", help="also write every single result to this file")
    args = p.parse_args(argv)
    if args.quick:
        args.rounds, args.units = 1, 60000
    return args


def main():
    args = parse(sys.argv[1:])
    if not shutil.which("perf"):
        skip("perf is not installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the control groups go
    groups = Groups()
    directory = tempfile.mkdtemp(prefix="ringside-bench-", dir="/var/tmp")
    os.chown(directory, USER.pw_uid, USER.pw_gid)
    try:
        print(f"{args.rounds} rounds of {args.units} units; Linux {os.uname().release}, {os.cpu_count()} CPUs, load "
              f"{os.getloadavg()[0]:.1f} (a busy machine gives wrong numbers)")
        bench = Bench(directory, groups)
        bench.warm_up()
        start = measure_start(bench, args)
        tree, shares = measure_tree(bench, args), measure_shares(bench, args)
        subprocess.run(["polkit-rules", os.path.join(os.path.dirname(os.path.abspath(__file__)), "profile-all.rules")],
                       check=True)
        system, busy = measure_tree(bench, args, ALL), measure_busy(bench, args)
    finally:
        shutil.rmtree(directory)
        groups.remove()
    if args.json:
        with open(args.json, "w") as f:
            json.dump([[*key, r] for t in (tree, shares, system, busy) for key, r in t.items()], f, indent=1)
    stacks = median(tree[(RATES[-1], "ringside")], lambda r: r["stacks"])
    print_table(f"tree: two threads, recursive, {stacks:.0f} different stacks; the workload's own time, the profiler's, "
                "the recording", tree)
    print_slopes(tree)
    print_table("shares: one thread, three functions", shares, with_workload=False)
    print_slopes(shares)
    print_table("system: -a with kernel frames, tree alone", system)
    print_slopes(system)
    print_table("busy: -a with kernel frames, a machine at work", busy, with_workload=False)
    print_slopes(busy)
    print_start(start)
    print_goals({"tree": tree, "shares": shares, "system": system, "busy": busy}, start)


if __name__ == "__main__":
    main()
