#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Stacks of programs without frame pointers: how many are whole, whether they are perf's, and what they cost. Each
program runs under `ringside record --unwind=table` (as an ordinary user, over the bus) and under
`perf record --call-graph dwarf` with 8 and with 64 KiB of each stack (as root); then, for the cost in the kernel by its own
statistics of BPF programs, alone under Ringside with tables, with frame pointers, and under a program that
takes the stack with bpf_get_stack().

A stack is whole if its walk said so and it begins where programs and threads do, by name. Goroutines begin with any
function: of programs in Go it is the walk's word, but for functions that none can begin with. The hundred hottest
stacks are those of all, and one that is cut is not as perf's. What perf has cut says nothing of how it should be: "as
perf" is without the weight of stacks for which perf has as many samples that are cut and otherwise the same, and with
64 KiB; what it is with them is told, too.

The tables are made anew for each program in its first run. CPU time of the profilers is that of control groups,
where the program itself is in none that counts. Runs inside bus-env; unwind.sh does that.
"""

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading

import frames
from record import BUILD, USER, Bench, Groups, goal, skip

STACK_SIZES = (8192, 65528)
COMPLETE, COMPLETE_GCM = 0.99, 0.95
AGREEMENT = 0.98
FRAME_NS, GET_STACK_TIMES = 300, 3
PERF_CPU, PERF_BYTES = 0.1, 0.01
FIRST_COLD, FIRST_CACHED = 0.2, 0.05
DEPTH = 2  # enum rs_walk_end
ENDS = ("no user stack", "begins with no root", "depth cap", "frame pointer", "unreadable", "return address", "32-bit", "no tables yet",
        "no mapping", "no rule", "unsupported rule", "CFA below", "no call before")
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"
PROGRAMS = os.path.join(BUILD, "tests/workloads/unwind")

PYTHON = """
import json, re, sys, time
def walk(tree, depth):
    return tree if depth == 0 else [walk(tree + 1, depth - 1), walk(tree * 3 % 1001, depth - 1)]
def count(tree):
    return sum(map(count, tree)) if isinstance(tree, list) else 1
class Word:
    def __init__(self, text): self.text = text
    def __lt__(self, other): return self.text[::-1] < other.text[::-1]
while time.process_time() < float(sys.argv[1]):
    tree = walk(1, 12)
    text = json.dumps(tree)
    assert count(json.loads(text)) == 1 << 12
    text = re.sub(r"[0-9]+", lambda m: format(int(m.group()), "x"), text)
    words = sorted(map(Word, text.split(",")))
    {word.text: str(i) for i, word in enumerate(words)}
"""

C = """
static int f%(i)d(int *a, int n) {
        int s = %(i)d;
        for (int i = 1; i < n; i++) {
                switch (a[i] & 7) {
                case 0: s += a[i - 1] * %(i)d; break;
                case 1: s ^= a[i] << (s & 3); break;
                case 2: for (int j = 0; j < i %% %(k)d; j++) a[j] += s; break;
                case 3: s = s > 0 ? s / 3 : -s; break;
                default: a[i] = s + %(k)d;
                }
        }
        return s;
}
int g%(i)d(int *a, int n) { return n > %(k)d ? f%(i)d(a, n) + f%(i)d(a + 1, n / 2) : 0; }
"""

CXX = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Chain {
        std::map<int, std::vector<std::string>> kept;
        int run(const std::string &s) {
                std::regex r("a" + std::to_string(N));
                kept[N].push_back(std::regex_replace(s, r, "b"));
                std::unordered_map<std::string, std::function<int(int)>> f{{s, [this](int x) { return x + (int) kept.size(); }}};
                std::sort(kept[N].begin(), kept[N].end(), [](auto &a, auto &b) { return a.size() < b.size() + N; });
                return f[s](N) + Chain<N - 1>().run(s);
        }
};
template <> struct Chain<0> { int run(const std::string &s) { return (int) s.size(); } };
int main(int argc, char **argv) { return Chain<%d>().run(argv[argc - 1]); }
"""

SQL = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %(rows)d)
    INSERT INTO t SELECT i, hex(i * 7919 %% 100003), i * 31 %% 977 FROM n;
CREATE INDEX u ON t(c, b);
SELECT count(*), sum(length(x.b)), max(y.b) FROM t x JOIN t y ON y.c = x.c AND y.a < x.a + 2000 WHERE x.b LIKE '%%3%%';
SELECT c, group_concat(DISTINCT substr(b, 1, 2)) FROM t GROUP BY c ORDER BY max(b) DESC LIMIT 5;
"""

Program = collections.namedtuple("Program", "name comm command go")


def program(name, command, go=False):
    return Program(name, os.path.basename(command[0])[:15], command, go)


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


CLANG = ["clang++", "-O2", "-c"]


def each(command, files):
    """One after the other."""
    return ["sh", "-c", 'for file in $1; do $0 "$file" || exit 1; done', " ".join(command), " ".join(files)]


def programs(directory, seconds):
    """What is measured: some `seconds` of CPU time each, but for cc1 and clang several times that: these have so many
    different stacks that in less time the hundred hottest are of a few samples each, and two runs have others,
    whoever looks."""
    units = int(90 * seconds)
    c = [write(directory, f"large-{n}.c", "".join(C % {"i": i, "k": i % 7 + 2} for i in range(n, n + 2 * units))) for n in range(3)]
    cxx = [write(directory, f"templates-{n}.cc", CXX % max(2, int(16 * seconds) + n)) for n in range(2)]
    sql = write(directory, "work.sql", SQL % {"rows": int(120000 * seconds)})
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    speed = ["openssl", "speed", "-seconds", str(max(1, int(seconds / 2)))]
    yield program("python3", ["/usr/bin/python3", write(directory, "work.py", PYTHON), str(seconds)])
    yield Program("cc1", "cc1", each([cc1, "-quiet", "-O2", "-o", "/dev/null"], c), False)
    yield Program("clang", "clang++", each([*CLANG, "-o", "/dev/null"], cxx), False)
    yield program("sqlite3", ["sqlite3", ":memory:", f".read {sql}"])
    yield program("openssl rsa2048", speed + ["rsa2048"])
    yield program("openssl chacha20", speed + ["-bytes", "8192", "-evp", "chacha20"])
    yield program("openssl aes-256-gcm", speed + ["-bytes", "8192", "-evp", "aes-256-gcm"])
    # A Go program as it is installed, without call frame information; and one with it.
    go = os.path.join(os.path.dirname(os.path.realpath(shutil.which("gofmt"))), "../src")
    yield program("gofmt", ["gofmt", "-l", *(os.path.join(go, d) for d in ("runtime", "net", "crypto", "reflect", "math"))
                            ] + [os.path.join(go, "runtime")] * int(2 * seconds), go=True)
    # One in Rust as it is installed.
    yield program("ripgrep", ["rg", "-uuu", "-c", "--no-messages", "-e", r"[a-z]+ing\W.{5,40}(return|const|struct)", "-e", r"(\w+\s){4}of$",
                              *[go] * max(1, int(seconds))])
    for name in ("goroutines", "rust", "signals", "other-stack", "realigned", "threads", "exceptions"):
        path = os.path.join(PROGRAMS, "unwind-" + name)
        if os.path.exists(path):
            yield program(name, [path, str(seconds)], go=name == "goroutines")
        else:
            print(f"not measured: {name}, for which no compiler was found", flush=True)


class UnwindBench(Bench):
    def __init__(self, directory, groups, rate):
        super().__init__(directory, groups)
        self.rate = rate
        self.images = frames.Images()
        for path in (os.path.join(groups.top, "cgroup.procs"), groups.path("load", "cgroup.procs")):
            os.chown(path, USER.pw_uid, USER.pw_gid)

    def apart(self, command):
        """The command in a control group of its own; its first instructions are the shell's."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.groups.path("load", "cgroup.procs"), *command]

    @staticmethod
    def forget_tables():
        shutil.rmtree(os.path.join(USER.pw_dir, ".cache"), ignore_errors=True)

    def by_tables(self, program, unwind="table"):
        self.examine = lambda path: frames.of_recording(path, program.comm, self.images, program.go)
        try:
            return self.ringside(self.rate, self.apart(program.command), [f"--unwind={unwind}"])
        finally:
            self.examine = None

    def by_perf(self, program, size, begins):
        """Its CPU seconds are of recording and of unwinding, which is what `perf script` does."""
        result = {}

        def unwind(path):
            before = self.groups.seconds("perf")
            printed, _ = self.spawn("perf", ["perf", "script", "--no-inline", "-F", "comm,pid,tid,ip,dso", "-i", path], as_user=False)
            result["script"] = self.groups.seconds("perf") - before
            return frames.PerfScript(self.images, program.comm, begins).read(printed.splitlines())

        self.examine = unwind
        try:
            result.update(self.perf(self.rate, self.apart(program.command), ["-m", "16M"],
                                    graph=("--call-graph", f"dwarf,{size}")))
        finally:
            self.examine = None
        return result

    @contextlib.contextmanager
    def statistics_of_programs(self):
        """{"runs", "ns"} of samplers that are loaded meanwhile, as of the last look: they go with their session."""
        found, seen, stop = {"runs": 0, "ns": 0}, self.samplers(), threading.Event()

        def look():
            while not stop.wait(0.2):
                new = {n: item for n, item in self.samplers().items() if n not in seen}
                if new:
                    found["runs"] = sum(item.get("run_cnt", 0) for item in new.values())
                    found["ns"] = sum(item.get("run_time_ns", 0) for item in new.values())

        thread = threading.Thread(target=look)
        with open(STATISTICS, "w", encoding="ascii") as f:
            f.write("1")
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join()
            with open(STATISTICS, "w", encoding="ascii") as f:
                f.write("0")

    @staticmethod
    def samplers():
        text = subprocess.run(["bpftool", "-j", "prog", "show"], stdout=subprocess.PIPE, check=True).stdout
        return {item["id"]: item for item in json.loads(text) if item["type"] == "perf_event"}

    def in_kernel(self, program, unwind):
        """ns of the sampler a sample, user frames a sample, and what was recorded."""
        with self.statistics_of_programs() as found:
            r = self.by_tables(program, unwind)
        return found["ns"] / max(1, found["runs"]), r["examined"].frames[0] / max(1, r["samples"]), r

    def get_stack(self, program):
        printed, _ = self.spawn(None, [os.path.join(BUILD, "tests/bench/get-stack"), str(self.rate), *program.command],
                                as_user=False)
        found = json.loads(printed.splitlines()[-1])
        return found["ns"] / max(1, found["runs"]), found["frames"] / max(1, found["runs"])


def share(stacks, apart=0):
    """Of whole stacks in all but `apart` of them."""
    whole = sum(stacks.whole.values())
    return whole / max(1, whole + sum(stacks.cut.values()) - apart)


def measure(bench, program):
    bench.forget_tables()
    ours = bench.by_tables(program)
    begins = frames.beginnings(ours["examined"])
    theirs = [bench.by_perf(program, size, begins) for size in STACK_SIZES]
    table, table_frames, again = bench.in_kernel(program, "table")
    pointers, pointer_frames, _ = bench.in_kernel(program, "fp")
    get_stack, get_stack_frames = bench.get_stack(program)
    perf = [r["client"] + r["script"] for r in theirs]
    compared = frames.compare(ours["examined"], theirs[-1]["examined"])
    return {
        "samples": ours["samples"], "lost": ours["lost"], "complete": share(ours["examined"]),
        "but_for_depth": share(ours["examined"], ours["examined"].ends.get(DEPTH, 0)),
        "ends": {ENDS[end]: n for end, n in sorted(ours["examined"].ends.items())},
        "excluded": sum(n for end, n in ours["examined"].ends.items() if end != DEPTH) / max(1, ours["samples"]),
        "perf_samples": [r["samples"] for r in theirs], "perf_lost": [r["lost"] for r in theirs],
        "perf_complete": [share(r["examined"]) for r in theirs],
        "perf_cut": frames.where_cut(theirs[-1]["examined"]).most_common(3),
        "agreement": compared.known, "agreement_of_all": compared.all, "self_agreement": frames.compare(ours["examined"], again["examined"]).known,
        "client": ours["client"], "helper": ours["helper"], "perf": perf,
        "cpu_ratio": [ours["client"] / ours["samples"] / (cpu / max(1, r["samples"])) for cpu, r in zip(perf, theirs)],
        "cached_cpu_ratio": again["client"] / max(1, again["samples"]) / (perf[0] / max(1, theirs[0]["samples"])),
        "bytes": ours["bytes"], "perf_bytes": [r["bytes"] for r in theirs],
        "bytes_ratio": [ours["bytes"] / ours["samples"] / (r["bytes"] / max(1, r["samples"])) for r in theirs],
        "table_ns": table, "frames": table_frames, "pointers_ns": pointers, "pointer_frames": pointer_frames,
        "get_stack_ns": get_stack, "get_stack_frames": get_stack_frames,
        "frame_ns": table / max(1, table_frames),
        "missing": [(samples, shown(stack)) for samples, stack in compared.missing[:3]],
    }


def shown(stack):
    return ";".join(f"{name}+{start:#x}" for name, start in stack)


FIRST = """
    SELECT min(sample.time) + (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'start_boottime')
    FROM sample JOIN thread ON thread.id = thread JOIN process ON process.id = process
    WHERE CAST(process.comm AS TEXT) = 'clang++' AND walk_end & 15 = 1
"""

# Says when it executes what follows, by the clock that samples have.
EXECUTE = """
import os, sys, time
with open(sys.argv[1], "w") as f:
    f.write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def first_sample(bench, program):
    """Seconds from a program's exec to its first sample with a whole stack, at 999 Hz or more."""
    def look(path):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return db.execute(FIRST).fetchone()[0]

    when = os.path.join(bench.directory, "executed")
    bench.examine = look
    try:
        whole = bench.ringside(max(999, bench.rate), ["/usr/bin/python3", "-SE", "-c", EXECUTE, when, *program.command],
                               ["--unwind=table"])["examined"]
    finally:
        bench.examine = None
    with open(when, encoding="ascii") as f:
        executed = int(f.read())
    return (whole - executed) / 1e9 if whole is not None else float("inf")


def measure_first(bench, program, rounds):
    """With tables to be made, and with those that are in the cache."""
    cold, cached = [], []
    for _ in range(rounds):
        bench.forget_tables()
        cold.append(first_sample(bench, program))
        cached.append(first_sample(bench, program))
    return cold, cached


HEADINGS = ("program", "samples", "whole", "perf 8K", "64K", "as perf", "frames", "ns/sample", "/frame", "fp ns", "get_stack",
            "client s", "helper s", "perf 8K s", "64K s", "KiB", "8K MiB", "64K MiB")


def row(name, r):
    return (name, str(r["samples"]), f"{100 * r['complete']:.2f} %", *(f"{100 * c:.2f} %" for c in r["perf_complete"]),
            f"{100 * r['agreement']:.1f} %", f"{r['frames']:.1f}", f"{r['table_ns']:.0f}", f"{r['frame_ns']:.0f}",
            f"{r['pointers_ns']:.0f}", f"{r['get_stack_ns']:.0f}", f"{r['client']:.3f}", f"{r['helper']:.3f}",
            *(f"{s:.2f}" for s in r["perf"]), f"{r['bytes'] / 1024:.0f}", *(f"{b / 2**20:.1f}" for b in r["perf_bytes"]))


def print_table(results):
    table = [HEADINGS, *(row(name, r) for name, r in results.items())]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    for line in table:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))))
    print("\nnot whole, by how the walk ended:")
    for name, r in results.items():
        print(f"  {name}: {', '.join(f'{n} {end}' for end, n in r['ends'].items()) or 'none'}; {r['lost']} lost"
              f" (perf: {r['perf_lost'][0]}, {r['perf_lost'][1]})")
    print("\nnot whole in perf with 64K, by what is outermost, the three most frequent:")
    for name, r in results.items():
        print(f"  {name}: {', '.join(f'{n} {what}' for what, n in r['perf_cut']) or 'none'}")
    print("\nthe hottest stacks that perf did not have, neither whole nor cut, of the hundred hottest:")
    for name, r in results.items():
        for samples, stack in r["missing"]:
            print(f"  {name}: {samples}: {stack[-240:]}")


def print_goals(results, cold, cached):
    def percent(v):
        return f"{100 * v:.2f} %"

    def seconds(v):
        return f"{1e3 * v:.0f} ms"

    def at_least(text, values, limit):
        """goal() knows limits from above."""
        good = values and all(v >= limit for _, v in values)
        print(f"{'reached' if good else 'NOT reached'}: {text}: " + (", ".join(f"{percent(v)} at {w}" for w, v in values) or "of none"))

    def values(key, *names):
        return [(name, r[key]) for name, r in results.items() if not names or name in names]

    print()
    gcm = "openssl aes-256-gcm"
    at_least(f"whole stacks, the depth cap apart, {percent(COMPLETE)} or more",
             [v for v in values("but_for_depth") if v[0] != gcm], COMPLETE)
    at_least(f"of aes-256-gcm {percent(COMPLETE_GCM)}", values("but_for_depth", gcm), COMPLETE_GCM)
    goal("not whole, but for the depth cap, less than 1 %", values("excluded"), 0.01, percent)
    # Where perf has none there is nothing to be like.
    known = {name: r for name, r in results.items() if r["perf_complete"][1] > 0.05}
    at_least(f"of the hundred hottest stacks that perf has not only cut it has {percent(AGREEMENT)}",
             [(name, r["agreement"]) for name, r in known.items()], AGREEMENT)
    print("   of all of them: " + ", ".join(f"{percent(r['agreement_of_all'])} at {name}" for name, r in known.items()))
    print("   of these a second run of Ringside's has: " +
          ", ".join(f"{percent(r['self_agreement'])} at {name}" for name, r in known.items()))
    print("   left out, since perf has next to none that are whole: " + (", ".join(r for r in results if r not in known) or "none"))
    goal(f"in the kernel at most {FRAME_NS} ns a frame, all of a sample counted", values("frame_ns"), FRAME_NS,
         lambda v: f"{v:.0f}")
    print("   of these, what is more than with frame pointers, by the frames that are more: " + ", ".join(
        f"{(r['table_ns'] - r['pointers_ns']) / max(0.1, r['frames'] - r['pointer_frames']):.0f} at {name}"
        for name, r in results.items()))
    goal(f"at most {GET_STACK_TIMES} times bpf_get_stack()",
         [(name, r["table_ns"] / max(1, r["get_stack_ns"])) for name, r in results.items() if name in ("python3", "cc1")],
         GET_STACK_TIMES, lambda v: f"{v:.1f}")
    goal(f"CPU of the client a sample at most {PERF_CPU} of perf's with 8K, to record and to unwind",
         [(name, r["cpu_ratio"][0]) for name, r in results.items()], PERF_CPU, lambda v: f"{v:.3f}")
    print("   with tables from the cache: " + ", ".join(f"{r['cached_cpu_ratio']:.3f} at {name}" for name, r in results.items()))
    goal(f"bytes a sample at most {PERF_BYTES} of perf's with 8K", [(name, r["bytes_ratio"][0]) for name, r in results.items()],
         PERF_BYTES, lambda v: f"{v:.4f}")
    if not cold:
        return
    goal(f"clang's first whole stack at most {seconds(FIRST_COLD)} after its exec",
         [(f"a median of {len(cold)}, {seconds(max(cold))} at most", statistics.median(cold))], FIRST_COLD, seconds)
    goal(f"with cached tables {seconds(FIRST_CACHED)}",
         [(f"a median of {len(cached)}, {seconds(max(cached))} at most", statistics.median(cached))], FIRST_CACHED, seconds)


def parse(argv):
    p = argparse.ArgumentParser(prog="unwind.sh [--build DIR]", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="a second of each: that it works, not what it costs")
    p.add_argument("--seconds", type=float, default=5, help="of CPU time that each program takes, roughly")
    p.add_argument("--rate", type=int, default=999, help="Hz")
    p.add_argument("--only", action="append", help="this program; may be given again")
    p.add_argument("--json", help="also write all results to this file")
    args = p.parse_args(argv)
    if args.quick:
        args.seconds = 1
    return args


def main():
    args = parse(sys.argv[1:])
    missing = [tool for tool in ("perf", "clang++", "sqlite3", "openssl", "gcc", "gofmt", "rg", "bpftool", "nm") if not shutil.which(tool)]
    if missing:
        skip(f"not installed: {', '.join(missing)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the control groups go
    groups = Groups()
    directory = tempfile.mkdtemp(prefix="ringside-bench-", dir="/var/tmp")
    os.chown(directory, USER.pw_uid, USER.pw_gid)
    results = {}
    try:
        print(f"{args.rate} Hz; Linux {os.uname().release}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} (a busy machine "
              "gives wrong numbers)", flush=True)
        bench = UnwindBench(directory, groups, args.rate)
        bench.warm_up()
        chosen = {p.name: p for p in programs(directory, args.seconds)}
        for name, p in chosen.items():
            if not args.only or name in args.only:
                results[name] = measure(bench, p)
                print(f"{name}: {results[name]['samples']} samples", file=sys.stderr, flush=True)
        cold, cached = [], []
        if not args.only or "clang" in args.only:
            file = write(directory, "first.cc", CXX % max(2, int(4 * args.seconds)))
            cold, cached = measure_first(bench, program("clang", [*CLANG, file, "-o", "/dev/null"]), 1 if args.quick else 5)
    finally:
        shutil.rmtree(directory)
        groups.remove()
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump({"programs": results, "cold": cold, "cached": cached}, f, indent=1)
    print_table(results)
    print_goals(results, cold, cached)


main()
