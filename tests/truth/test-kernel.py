#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Kernel frames, as an ordinary user who was granted them sees them: the shares of kernel functions beside perf's,
stacks that lead from a program's main() into the kernel, and what is said where they were not granted or have no
names. And with profile-system, the processes of somebody else. Run by bus-env.
"""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../helper"))

import harness as h  # noqa: E402
from truth import OTHER_USER, RATE, USER, Recording, as_user, check, comm_of, exit_status, running, workload  # noqa: E402

SECONDS = 8
TOP = 20
# Twenty comparisons, each of which may be off by chance: four standard errors are, once in some hundred runs.
SIGMA = 4
KPTR = "/proc/sys/kernel/kptr_restrict"
LIB = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib")
RULES = os.path.join(LIB, "profile-kernel.rules")
EVERYTHING = os.path.join(LIB, "profile-system.rules")


def rules(path):
    subprocess.run(["polkit-rules", path], check=True)


def perf_self(data):
    """The samples of each kernel function where the CPU was in it, and of all, as perf counts them."""
    text = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    counts, total = {}, 0
    for stack in text.split("\n\n"):
        lines = stack.strip().splitlines()
        if not lines:
            continue
        total += 1
        address, _, name = lines[0].strip().partition(" ")
        if int(address, 16) >> 63:
            counts[name] = counts.get(name, 0) + 1
    return counts, total


def perf_beside(directory, pid):
    data = os.path.join(directory, "perf.data")
    subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(RATE), "-o", data, "-p", str(pid)],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return data


def pid_of(comm):
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and comm_of(int(entry)) == comm:
                return int(entry)
        time.sleep(0.01)
    raise RuntimeError(f"{comm} does not run")


def record_beside_perf(directory):
    """One run of the workload under both at once."""
    result = {}

    def beside():
        result["data"] = perf_beside(directory, pid_of("workload-kernel"))

    thread = threading.Thread(target=beside)
    thread.start()
    recording = Recording(directory, "kernel", "--", workload("kernel"), str(SECONDS))
    thread.join()
    return recording, result["data"]


def check_shares_beside_perf(ours, samples, perf, total):
    """The greatest by either's count, so that one that only one of them has is compared, too."""
    names = sorted(set(ours) | set(perf), key=lambda name: -(ours.get(name, 0) + perf.get(name, 0)))[:TOP]
    for name in names:
        a, b = ours.get(name, 0) / samples, perf.get(name, 0) / total
        p = (ours.get(name, 0) + perf.get(name, 0)) / (samples + total)
        error = SIGMA * math.sqrt(p * (1 - p) * (1 / samples + 1 / total))
        check(abs(a - b) <= error, f"{name}: {100 * a:.2f} %, perf {100 * b:.2f} %, apart by at most {100 * error:.2f}")
    check(len(names) == TOP, f"{len(names)} functions are compared")
    print(f"top {len(names)} are {100 * sum(ours.get(n, 0) for n in names) / samples:.1f} % of {samples} samples;"
          f" perf has {total}", flush=True)


def chains(node, above=()):
    """The names from main() down to each function that has samples of its own."""
    path = (*above, (node["name"], node["kernel"]))
    if node["self_samples"] > 0:
        yield path, node["self_samples"]
    for child in node.get("children", []):
        yield from chains(child, path)


def check_joined(recording):
    """Each way into the kernel is below the function that takes it, and never the other way round."""
    below = {"zeros": 0, "pipes": 0, "stats": 0, "parents": 0}
    kernel = joined = upside_down = 0
    for child in recording.report("callees")["tree"]["children"]:
        for path, samples in chains(child):
            flags = [k for _, k in path]
            if not flags[-1]:
                continue
            kernel += samples
            names = [name for name, _ in path]
            user = names[:flags.index(True)]
            upside_down += samples * (False in flags[flags.index(True):])
            if "main" in user:
                joined += samples
                for way in below:
                    below[way] += samples * (way in user)
    check(kernel > 0 and upside_down == 0, f"{kernel} samples in the kernel, none below which user code stands")
    check(joined >= 0.95 * kernel, f"{joined} of them below main()")
    for way, samples in below.items():
        check(samples > 0.02 * kernel, f"{way}() has {samples} of them")
    return kernel


def check_modes(recording, kernel):
    """The mode is that of the CPU, whatever is known of the stack."""
    db = sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)
    mode, = db.execute("SELECT sum(kernel) FROM sample").fetchone()
    named, = db.execute("SELECT count(*) FROM sample JOIN stack ON stack.id=sample.stack JOIN frame ON frame.id=frame "
                        "WHERE sample.kernel=1 AND frame.kernel=1 AND frame.symbol IS NOT NULL").fetchone()
    meta = dict(db.execute("SELECT key, value FROM meta"))
    build_id, = db.execute("SELECT build_id FROM file WHERE CAST(path AS TEXT)='[kernel]'").fetchone()
    db.close()
    with open("/sys/kernel/notes", "rb") as f:
        check(build_id and b"GNU\0" + build_id in f.read(), "the kernel's build id is this one's")
    check(mode == kernel, f"{mode} samples of kernel mode, {kernel} with a kernel function innermost")
    check(named >= 0.99 * mode, f"{named} of them have a name")
    check(meta["kernel_frames"] == "yes", f"kernel_frames is '{meta['kernel_frames']}'")


def test_granted(directory):
    rules(RULES)
    recording, data = record_beside_perf(directory)
    rows = recording.report("function")["rows"]
    samples = recording.report("function")["samples"]
    ours = {row["name"]: row["self_samples"] for row in rows if row["kernel"] and row["self_samples"] > 0}
    perf, total = perf_self(data)
    check_shares_beside_perf(ours, samples, perf, total)
    check_modes(recording, check_joined(recording))
    collapsed = as_user("ringside", "export", "--format=collapsed", recording.path)
    check("_[k] " in collapsed, "collapsed stacks mark kernel functions")


def check_foreign(title, recording):
    """What the other user runs has its functions' names, of a file that the recorder could not look up in /proc."""
    report = recording.report("function")
    check(report["recording"]["scope"] == "system", f"{title}: the scope is {report['recording']['scope']}")
    rows = json.loads(as_user("ringside", "report", "--format=json", "--threshold=0", "--process=workload-shares",
                              recording.path))
    shares = {row["name"]: 100 * row["total_samples"] / rows["samples"] for row in rows["rows"]}
    check(rows["samples"] > 100 and abs(shares.get("takes_seventy", 0) - 70) < 15,
          f"{title}: takes_seventy has {shares.get('takes_seventy', 0):.1f} % of {rows['samples']} samples")


def check_unreadable(directory):
    """Of a program that the recorder may not read there are addresses, and the kernel's names are no help."""
    program = os.path.join(directory, "unreadable")
    shutil.copy(workload("shares"), program)
    shutil.chown(program, OTHER_USER)
    os.chmod(program, 0o711)
    readable = subprocess.run(["as-user", USER, "test", "-r", program], stdin=subprocess.DEVNULL).returncode
    check(readable == 1, "unreadable: the recorder cannot read it")
    with running(OTHER_USER, program, "300") as pid:
        r = Recording(directory, "unreadable", "-a", "-p", str(pid), "-d", "2", rate=499)
    rows = [row for row in r.report("function")["rows"] if not row["kernel"]]
    own = sum(row["self_samples"] for row in rows if re.fullmatch(r"unreadable\+0x[0-9a-f]+", row["name"]))
    check(own > 0.9 * sum(row["self_samples"] for row in rows) > 100, f"unreadable: {own} samples have an address in it")
    named = [row["name"] for row in rows if row["name"].startswith(("takes_", "main"))]
    check(not named, f"unreadable: functions are {', '.join(named) or 'not named'}")


def test_all(directory):
    """With --all, other users' processes: all of them while a command runs, or those named by -p."""
    check_unreadable(directory)
    with running(OTHER_USER, workload("shares"), "300") as pid:
        r = Recording(directory, "all", "-a", "--", "sleep", "2", rate=499)
        check_foreign("all", r)
        processes = {row["name"] for row in r.report("process")["rows"]}
        check(len(processes) > 1, f"all: there are samples of {len(processes)} programs")
        r = Recording(directory, "all-pid", "-a", "-p", str(pid), "-d", "2", rate=499)
        check_foreign("all, by PID", r)
        processes = {row["name"] for row in r.report("process")["rows"]}
        check(processes == {"workload-shares"}, f"all, by PID: there are samples of {', '.join(sorted(processes))}")
        # Without it, it is somebody else's.
        rules(RULES)
        p = subprocess.run(["as-user", USER, "ringside", "record", "--no-ask", "-o", os.path.join(directory, "no.ringside"),
                            "-p", str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
        check(p.returncode != 0 and "record -a" in p.stderr, f"refused, with what to do: {p.stderr.strip()}")


def summary(path, *arguments):
    return subprocess.run(["as-user", USER, "ringside", "record", "--no-ask", "-o", path, *arguments, "--",
                           workload("kernel"), "0.5"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True).stdout


def check_said(directory, name, state, header, advice, *arguments):
    path = os.path.join(directory, name + ".ringside")
    text = " ".join(summary(path, *arguments).split())
    if advice:
        check(advice in text, f"{name}: the summary says '{advice}'")
    text = as_user("ringside", "report", "--no-pager", path)
    check(any(line.startswith("Kernel ") and header in line for line in text.splitlines()), f"{name}: so does the header")
    report = json.loads(as_user("ringside", "report", "--format=json", "--threshold=0", path))
    check(report["recording"]["kernel_frames"] == state, f"{name}: kernel_frames is '{state}'")
    kernel = {row["name"] for row in report["rows"] if row["kernel"]}
    check(kernel == {"[kernel]"}, f"{name}: all there is of the kernel is {', '.join(sorted(kernel))}")


def end_helper():
    """The next caller starts another, which reads the kernel's names again."""
    for pid in h.role_pids("front"):
        os.kill(pid, signal.SIGTERM)
    h.until("the helper has ended", lambda: not h.helpers())


@contextlib.contextmanager
def kptr_restrict(value):
    """Sets it for the whole machine, and back again even if this test is killed: by a process that waits for its end."""
    with open(KPTR, encoding="ascii") as f:
        before = f.read().strip()
    guard = subprocess.Popen(["sh", "-c", f"trap '' HUP INT TERM; read -r end; echo {before} >{KPTR}"],
                             stdin=subprocess.PIPE, start_new_session=True)
    try:
        with open(KPTR, "w", encoding="ascii") as f:
            f.write(value)
        end_helper()
        yield
    finally:
        guard.stdin.close()
        guard.wait()
        end_helper()


def main():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        os.environ["HOME"] = directory
        test_granted(directory)
        rules(EVERYTHING)
        test_all(directory)
        check_said(directory, "not-asked", "not asked", "--no-kernel", None, "--no-kernel")
        with kptr_restrict("2"):
            check_said(directory, "no-names", "no names", "kernel.kptr_restrict", "kernel.kptr_restrict=1")
        rules("default")
        check_said(directory, "denied", "denied", "not granted; --kernel asks", "were not granted")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
