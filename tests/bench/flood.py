# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What a flood by user A costs user B, on each way and on all. In turn, many times: A's flooders at work, or standing
still with all they have open while as many processes of A's compute. Meanwhile B does the same work over and over, on
each CPU: how much more of its own CPU time that takes, interrupts and all, is the median over the pairs, and so is how
much longer it takes on the clock. Beside it what the helper spends in a flood that goes on and on, in percent of one
CPU, how much of that its budgets allow, how much its front alone takes, and what the bus daemon does. And the same for
calls of the bus itself, in which Ringside has no part. Runs where Ringside is installed: tests/bench/flood.sh does it.

usage: flood.py [ROUNDS] [WAY...]
"""

import contextlib
import os
import signal
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helper"))

import harness as h
from dbus_client import BUS, Connection
from flood import WAYS, Flood, ask_and_ask, ask_everything, open_and_leave

A, B = h.users()
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
UNITS = 10000  # of B's work: about a sixth of a second
OPENS, OPENS_MINUTE, OPEN_SECONDS, SESSION_SHARE, SYSTEM_SHARE = 60, 30, 0.1, 1 / 64, 1 / 4  # docs/budgets.md
TICK = os.sysconf("SC_CLK_TCK")
SETTLE = 0.2  # s, for what lies in the sockets
GOES_ON = 20  # s


def spin(_):
    while True:
        pass


def call_the_bus(count):
    """The same calls of the bus itself, for comparison: what they cost others where there is no helper."""
    with Connection() as c:
        while True:
            for serial in [c.send(BUS, "/org/freedesktop/DBus", BUS, "GetId") for _ in range(3)]:
                c.wait(serial)
            count(3)


# Flood tells them apart by name.
SPINNERS = [type(spin)(spin.__code__, globals(), f"spin{i}") for i in range(len(WAYS))]
# Percent of one CPU: of sessions by their requests, and of those that are opened.
ALLOWED = {ask_and_ask: 300 * SESSION_SHARE, ask_everything: 100 * SYSTEM_SHARE,
           open_and_leave: 300 * SESSION_SHARE + OPENS_MINUTE / 60 * OPEN_SECONDS * 100}


def cpu_of(pid):
    """Its own and its dead children's, in seconds."""
    fields = h.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return sum(int(n) for n in fields[11:15]) / TICK


def spent_by():
    """
    CPU seconds of front, keeper and all sessions there are and were, for which the keeper has waited; of the front alone;
    of the bus daemon.
    """
    total = 0
    for pid in h.helpers():
        with contextlib.suppress(OSError):
            total += cpu_of(pid)
    return total, cpu_of(h.only("front")), cpu_of(h.named("dbus-daemon"))


def work():
    """ns that a fixed amount of work takes: of this thread's CPU time, and on the clock."""
    began = time.thread_time_ns(), time.monotonic_ns()
    for _ in range(UNITS):
        sum(range(1000))
    return time.thread_time_ns() - began[0], time.monotonic_ns() - began[1]


class Worker:
    """A process of B's on one CPU, which works when it is told to."""

    def __init__(self, cpu):
        self.r, theirs = os.pipe()
        ours, self.w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.sched_setaffinity(0, {cpu})
            B.become()
            while os.read(ours, 1):
                os.write(theirs, struct.pack("<QQ", *work()))
            os._exit(0)
        os.close(ours)
        os.close(theirs)

    def begin(self):
        os.write(self.w, b"x")

    def end(self):
        return struct.unpack("<QQ", os.read(self.r, 16))

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.r)
        os.close(self.w)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def let(runs, stands):
    """The one goes on, the other stands still."""
    for flood, number in ((stands, signal.SIGSTOP), (runs, signal.SIGCONT)):
        for pid, *_ in flood.processes.values():
            os.kill(pid, number)


def run(runs, stands, workers):
    """ns that B's work takes beside it, of CPU time and on the clock."""
    let(runs, stands)
    time.sleep(SETTLE)
    for worker in workers:
        worker.begin()
    return [sum(times) for times in zip(*[worker.end() for worker in workers])]


def spends(flood, none):
    """What spent_by() says, a second; nothing saves up meanwhile what may be opened a minute."""
    let(flood, none)
    time.sleep(GOES_ON)
    before, began = spent_by(), time.monotonic()
    time.sleep(GOES_ON)
    seconds = time.monotonic() - began
    return [(after - b) / seconds for b, after in zip(before, spent_by())]


def measure(ways, workers):
    """(B's times in a flood by those beside none, for each pair; spends(); how much of the flood there was)"""
    with Flood(A, ways) as flood, Flood(A, tuple(SPINNERS[:len(ways)])) as none:
        # What is allowed at first is not the point.
        time.sleep(2)
        if open_and_leave in ways:
            h.until("A has used up its sessions", lambda: flood.counts()[open_and_leave.__name__] >= OPENS, 300)
        ratios = []
        for i in range(ROUNDS):
            # Either first in turn: whatever changes steadily is nobody's.
            order = [(flood, none), (none, flood)][::1 if i % 2 else -1]
            results = {runs: run(runs, stands, workers) for runs, stands in order}
            flood.counts()
            ratios.append([a / b for a, b in zip(results[flood], results[none])])
        return ratios, spends(flood, none), flood.counts()


def main():
    with open("/run/test.rules", "w") as f:
        f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
    subprocess.run(["polkit-rules", "/run/test.rules"], check=True)
    with B.connect() as c:
        h.open_session(c).close()
    print(f"{'':>16}  {'work of B: CPU time +':>22}  {'half of the pairs':>18}  {'clock +':>8}  {'helper':>7}  {'allowed':>7}  "
          f"{'front':>7}  {'bus':>7}")
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(cpu)) for cpu in sorted(os.sched_getaffinity(0))]
        for ways in [(way,) for way in (call_the_bus, *WAYS)] + [WAYS]:
            name = ways[0].__name__ if len(ways) == 1 else "all"
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            ratios, spent, counts = measure(ways, workers)
            helper, front, bus = (f"{s * 100:.1f} %" for s in spent)
            cpu, clock = zip(*ratios)
            low, middle, high = (f"{(r - 1) * 100:+.1f}" for r in statistics.quantiles(cpu, n=4))
            longer = f"{(statistics.median(clock) - 1) * 100:+.1f} %"
            allowed = sum(ALLOWED.get(way, 0) for way in ways)
            print(f"{name:>16}  {middle + ' %':>22}  {low + ' to ' + high + ' %':>18}  {longer:>8}  {helper:>7}  "
                  f"{allowed:>5.1f} %  {front:>7}  {bus:>7}   {counts}", flush=True)


main()
