#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Interrupt work on an idle CPU: datagrams that another CPU has sent (datagrams.py). A recording of the whole machine has
it with its functions, for nobody; and it has no sample of a CPU that merely sleeps. Run by bus-env.

How often a CPU is idle is not the test's to say. It goes on until it has seen that; where the CPUs of a machine never
sleep it cannot be seen, and the test is skipped. In a machine of its own it always can (tests/system/seeing.py).
"""

import collections
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

from truth import Recording, check, exit_status

TESTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
RULES = os.path.join(TESTS, "lib/profile-system.rules")
DATAGRAMS = os.path.join(TESTS, "system/datagrams.py")
DEADLINE = 240
SLEPT = 5  # seconds of a CPU's sleep in which it has received something, without any doubt
RATE = 1999


@contextlib.contextmanager
def datagrams(sender, receiver):
    p = subprocess.Popen(["unshare", "-n", "-m", "/usr/bin/python3", DATAGRAMS, str(sender), str(receiver)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        check(p.stdout.readline(), f"CPU {receiver} receives what CPU {sender} sends")
        yield
    finally:
        p.kill()
        p.wait()


def idle_stacks(recording):
    """Of process 0: the names in each sample's stack, innermost first, and the CPU; and what it is called."""
    db = sqlite3.connect(f"file:{recording.path}?mode=ro", uri=True)
    frames = {i: (parent, name.decode() if name else file.decode() if file else "")
              for i, parent, name, file in db.execute(
                  "SELECT stack.id, stack.parent, symbol.name, file.path FROM stack JOIN frame ON frame.id = frame "
                  "LEFT JOIN symbol ON symbol.id = symbol LEFT JOIN file ON file.id = file")}
    rows = db.execute("SELECT process.comm, cpu, kernel, stack FROM sample JOIN thread ON thread.id = thread "
                      "JOIN process ON process.id = process WHERE pid = 0").fetchall()
    db.close()
    found = []
    for comm, cpu, kernel, stack in rows:
        names = []
        while stack is not None:
            stack, name = frames[stack]
            names.append(name)
        found.append((comm, cpu, kernel, names))
    return found


def idle_seconds(cpu):
    with open("/proc/stat", encoding="ascii") as f:
        fields = next(line.split() for line in f if line.startswith(f"cpu{cpu} "))
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def look(directory, sender, receiver, n):
    """One recording; how many samples there are of softirqs on the idle receiver."""
    # A machine that sleeps now and then is given longer.
    recording = Recording(directory, f"softirq-{n}", "-a", "-d", "2" if n == 0 else "8", rate=RATE)
    seen = idle_stacks(recording)
    # The kernel's own walk ends in the thunk of an indirect jump, now and then; that stack is nothing but the thunk.
    cut = [row for row in seen if len(row[3]) == 1 and "_thunk_" in row[3][0]]
    bad = [row for row in seen if row[0] != b"[idle softirq]" or row[2] != 1 or
           not (any("softirq" in name for name in row[3]) or row in cut)]
    check(not bad, f"{len(seen)} samples of CPUs without a task are of softirqs, and named so: {bad[:3]}")
    check(len(cut) <= max(1, len(seen) / 20), f"the stacks of {len(cut)} of them are cut off")
    rows = {row["name"]: row["self_samples"] for row in recording.report("process")["rows"]}
    check(rows.get("[idle softirq]", 0) == len(seen), f"the report has {rows.get('[idle softirq]', 0)} of them")
    received = [names for _, cpu, _, names in seen if cpu == receiver and any("net_rx" in name for name in names)]
    print(f"{len(received)} received on CPU {receiver}, innermost in "
          f"{collections.Counter(names[0] for names in received).most_common(3)}", flush=True)
    os.unlink(recording.path)
    return len(received)


def skip(reason):
    print(reason, flush=True)
    return 1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77


def main():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return skip("one CPU is busy with sending")
    subprocess.run(["polkit-rules", RULES], check=True)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        os.environ["HOME"] = directory
        seen, n, slept, end = 0, 0, 0, time.monotonic() + DEADLINE
        while not seen and slept < SLEPT and time.monotonic() < end:
            # Somebody may have chosen one of them for himself.
            sender, receiver = (cpus[0], cpus[-1]) if n % 2 == 0 else (cpus[-1], cpus[0])
            with datagrams(sender, receiver):
                before = idle_seconds(receiver)
                seen = look(directory, sender, receiver, n)
                slept += idle_seconds(receiver) - before
            n += 1
        if not seen and slept < SLEPT and exit_status() == 0:
            return skip(f"nothing seen in {n} recordings, with the CPU asleep for {slept:.2f} s")
        check(seen > 0, f"{seen} softirqs on an idle CPU, in {n} recordings, asleep for {slept:.2f} s")
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
