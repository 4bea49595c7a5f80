#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Processes that are not what one expects of them: without the thread they are called by, with 300 threads, with
100,000 mappings. As an ordinary user over the real bus; runs inside bus-env.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import time

from truth import RATE, USER, Recording, check, check_shares, cpu_seconds, exit_status, running, stat_of, workload

N_THREADS = 300
N_MAPPINGS = 100000
MAX_MAP_COUNT = "/proc/sys/vm/max_map_count"
# Of one CPU, for ringside record itself.
CPU_PERCENT = 5.0
POINTS = 8.0


class Measured(Recording):
    """
    A recording, and the share of one CPU that ringside itself took of it: without its children, so from what
    /proc says of it between its end and its burial.
    """

    def __init__(self, directory, name, *arguments):  # pylint: disable=super-init-not-called
        self.path = os.path.join(directory, name + ".ringside")
        p = subprocess.Popen(["as-user", USER, "ringside", "record", "-q", "--no-ask", "-F", str(RATE), "-o",
                              self.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        started = time.monotonic()
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        seconds = cpu_seconds(p.pid)
        self.percent = 100.0 * seconds / (time.monotonic() - started)
        if p.wait() != 0:
            raise RuntimeError(f"{name}: exit {p.returncode}")

    def check(self, title):
        """It may be less than one tick of the clock it is told in."""
        check(self.percent < CPU_PERCENT, f"{title}: ringside took {self.percent:.1f} % of a CPU")


def test_leader_gone(directory):
    """The leader of a process has exited: /proc/PID has no mappings, a living thread has."""
    library = os.path.join(os.path.dirname(workload("inside")), "libinside.so")
    shares = {"after_leader": 50, "inner_library": 50, "worker_run": 100}

    r = Measured(directory, "leader-gone", "--", workload("leaderless"), "3", library)
    r.check("leader gone")
    check_shares("leader gone", r.shares("function"), shares, POINTS)
    check(set(r.shares("process")) == {"workload-leader"}, f"leader gone: its name is {', '.join(r.shares('process'))}")

    with running(USER, workload("leaderless"), "300", library) as pid:
        check(stat_of(pid)[0] == "Z", "leader gone: it is, and so before the recording begins")
        r = Measured(directory, "leader-was-gone", "-p", str(pid), "-d", "3")
        r.check("leader was gone")
        check_shares("leader was gone", r.shares("function"), shares, POINTS)
        check({row["id"] for row in r.report("process")["rows"]} == {pid}, "leader was gone: it is in by its PID")
        check(pid not in {row["id"] for row in r.report("thread")["rows"]}, "leader was gone: the leader is not")


def test_threads(directory):
    """Hundreds of threads at once: each is found, and each function."""
    r = Measured(directory, "crowd", "--", workload("crowd"), "3")
    r.check("threads")
    found = {name for name in r.shares("function") if name.startswith("crowd_")}
    check(found == {f"crowd_{i:03}" for i in range(N_THREADS)}, f"threads: {len(found)} functions of {N_THREADS}")
    threads = r.report("thread")["rows"]
    workers = [row["id"] for row in threads if row["total_samples"] >= RATE * 3 / N_THREADS * 0.5]
    check(len(workers) >= N_THREADS and len(workers) == len(set(workers)), f"threads: {len(workers)} have their samples")
    check(r.report("function")["recording"]["lost"] == 0, "threads: nothing lost")


@contextlib.contextmanager
def map_count(count):
    """
    As many mappings for a process as this; the limit is the machine's. What it was before is set again by
    somebody who outlives this test however it ends: not in our session, nor in our mount namespace.
    """
    with open(MAX_MAP_COUNT, encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # others like us wait for their turn, or they would set ours again
        before = f.read()
        if int(before) >= count:
            yield
            return
        restore = subprocess.Popen(["unshare", "-m", "sh", "-c", 'echo; read -r end; echo "$0" >"$1"', before.strip(),
                                    MAX_MAP_COUNT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   pass_fds=(f.fileno(),), start_new_session=True)
        restore.stdout.readline()
        try:
            with open(MAX_MAP_COUNT, "w", encoding="ascii") as limit:
                limit.write(str(count))
            yield
        finally:
            restore.stdin.close()
            restore.wait()


def check_mappings(title, recording):
    recording.check(title)
    check(recording.percent > 0, f"{title}: which is measured")
    shares = recording.shares("function", "self_samples")
    named, user = shares.get("in_mapping", 0), 100 - shares.get("[kernel]", 0)
    check(named >= 0.9 * user > 10, f"{title}: {named:.1f} of {user:.1f} % have their name")


def test_mappings(directory):
    """Reading that many mappings takes the kernel tens of milliseconds, so that is not done often."""
    with map_count(N_MAPPINGS + 10000):
        command = [workload("mappings"), "8", str(N_MAPPINGS)]
        check_mappings("mappings", Measured(directory, "mappings", "--", *command))
        p = subprocess.Popen(["as-user", USER, workload("mappings"), "300", str(N_MAPPINGS)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            check(p.stdout.readline() == b"ready\n", "mappings, attached: all of them are there before")
            check_mappings("mappings, attached", Measured(directory, "attached", "-p", str(p.pid), "-d", "8"))
        finally:
            p.kill()
            p.communicate()


def main():
    with tempfile.TemporaryDirectory(prefix="ringside-processes-") as directory:
        os.chmod(directory, 0o777)
        test_leader_gone(directory)
        test_threads(directory)
        test_mappings(directory)
    return exit_status()


if __name__ == "__main__":
    sys.exit(main())
