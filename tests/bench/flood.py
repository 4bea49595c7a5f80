# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What a flood by user A costs user B, on each way and on all: CPU time that the helper spends, in percent of one CPU, and
the work that B's program gets done beside it, against the same with processes of A that flood nobody and compute as
much. Runs where Ringside is installed: tests/bench/flood.sh does it.

usage: flood.py [SECONDS] [ROUNDS]
"""

import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helper"))

import harness as h
from flood import WAYS, Flood, open_and_leave

A, B = h.users()
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
OPENS = 60  # helper/budget.h
TICK = os.sysconf("SC_CLK_TCK")


def spin(_):
    while True:
        pass


# Flood tells them apart by name.
SPINNERS = [type(spin)(spin.__code__, globals(), f"spin{i}") for i in range(len(WAYS))]


def cpu_of(pid):
    """Its own and its dead children's, in seconds."""
    fields = h.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return sum(int(n) for n in fields[11:15]) / TICK


def helper_cpu():
    """Of front, keeper and all sessions there are and were; the keeper has waited for those."""
    total = 0
    for pid in h.helpers():
        try:
            total += cpu_of(pid)
        except OSError:
            pass
    return total


class Worker:
    """B's program: one process for each CPU, which count what they do."""

    def __init__(self):
        self.processes = []
        for _ in range(os.cpu_count()):
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                B.become()
                units = 0
                signal.signal(signal.SIGTERM, lambda *_: (os.write(w, str(units).encode()), os._exit(0)))
                while True:
                    sum(range(1000))
                    units += 1
            os.close(w)
            self.processes.append((pid, r))

    def stop(self):
        """Units done."""
        units = 0
        for pid, r in self.processes:
            os.kill(pid, signal.SIGTERM)
            units += int(os.read(r, 100))
            os.close(r)
            os.waitpid(pid, 0)
        return units


def run(ways):
    """Units of B's a second, and CPU seconds of the helper a second, while A floods."""
    with Flood(A, ways) as flood:
        # What is allowed at first is not the point.
        time.sleep(2)
        if open_and_leave in ways:
            h.until("A has used up its sessions", lambda: flood.counts()[open_and_leave.__name__] >= OPENS, 120)
        worker, cpu, began = Worker(), helper_cpu(), time.monotonic()
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        cpu = helper_cpu() - cpu
        return worker.stop() / seconds, cpu / seconds, flood.counts() if ways[0] in WAYS else {}


def main():
    with open("/run/test.rules", "w") as f:
        f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
    subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
    with B.connect() as c:
        h.open_session(c).close()
    print(f"{'flood':>16}  {'helper, % of a CPU':>20}  {'work of B, against idle':>24}")
    for ways in [(way,) for way in WAYS] + [WAYS]:
        name = ways[0].__name__ if len(ways) == 1 else "all"
        idle, busy = [], []
        for _ in range(ROUNDS):
            idle.append(run(tuple(SPINNERS[:len(ways)])))
            busy.append(run(ways))
        work = statistics.median(b[0] for b in busy) / statistics.median(i[0] for i in idle)
        cpu = statistics.median(b[1] for b in busy)
        print(f"{name:>16}  {cpu * 100:>20.1f}  {work:>24.3f}   {busy[-1][2]}", flush=True)


main()
