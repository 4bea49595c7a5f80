# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What the tests of targets share: programs of an ordinary user that wait at a gate until a recording runs, recordings
by `ringside record` over the real bus, and what is in them. Runs as root inside bus-env.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile

SOURCE = os.environ["RINGSIDE_TEST_SOURCE"]
sys.path.insert(0, SOURCE + "/tests/helper")

import harness as h  # noqa: E402

A, B = h.users()
RATE = 999
TICK = os.sysconf("SC_CLK_TCK")
NAME = f"ringside-test-{os.getpid()}"  # of our cgroups
# epoll_wait and epoll_pwait, of x86-64 and aarch64: where `ringside record` waits once it records, and not before.
WAITS = {"232", "281", "22"}


class Gated:
    """A program that begins when its standard input ends."""

    def __init__(self, *command, user=A, threads=0):
        self.process = subprocess.Popen(command, user=user.uid, group=user.gid, extra_groups=[], cwd="/",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.tids = [int(self.process.stdout.readline()) for _ in range(threads)]

    def open(self):
        self.process.stdin.close()

    def wait(self):
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def threads(*seconds):
    """A process with a thread for each number of CPU seconds; .tids are theirs."""
    return Gated(h.workload("gated"), *map(str, seconds), threads=len(seconds))


def gated(command):
    """A shell command behind the gate; the shell is gone by then if the command begins with exec."""
    return Gated("/bin/sh", "-c", f"read x; {command}")


def burner(user=A):
    return user.spin(1000)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def burns(pid, seconds):
    """Waits until it has had that much more CPU time."""
    end = cpu_seconds(pid) + seconds
    h.until(f"process {pid} has {seconds} s of CPU time", lambda: cpu_seconds(pid) >= end, 200)


# Cgroups.

def mounts():
    """[(directory, type, options)] of hierarchies of cgroups."""
    found = []
    for line in open("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split()
        if kind in ("cgroup", "cgroup2") and fields.split()[3] == "/":
            found.append((fields.split()[4], kind, options.split(",")))
    return found


def unified():
    for directory, kind, _ in mounts():
        if kind == "cgroup2":
            return directory
    # Only for us, and where every machine has it.
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)
    return "/sys/fs/cgroup"


class Tree:
    """Cgroups below one of our own in a hierarchy."""

    def __init__(self, mount):
        self.mount, self.path = mount, f"/{NAME}"
        self.made = []
        self.make("")

    def make(self, name):
        os.mkdir(self.directory(name))
        self.made.append(name)
        return self.name(name)

    def name(self, name):
        """As /proc/PID/cgroup has it."""
        return self.path + (f"/{name}" if name else "")

    def directory(self, name):
        return self.mount + self.name(name)

    def move(self, pid, name):
        with open(self.directory(name) + "/cgroup.procs", "w") as f:
            f.write(str(pid))

    def leave(self, pid):
        with open(self.mount + "/cgroup.procs", "w") as f:
            f.write(str(pid))

    def remove(self, name):
        h.until(f"{name} is empty", lambda: not h.read(self.directory(name) + "/cgroup.procs"))
        os.rmdir(self.directory(name))
        self.made.remove(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(self.made[:]):
            for pid in h.read(self.directory(name) + "/cgroup.procs").split():
                with contextlib.suppress(OSError):
                    self.leave(pid)
            self.remove(name)


def burner_in(stack, tree, name):
    """A burner of user A's; killed with the stack."""
    p = stack.enter_context(h.killed(burner()))
    if name is not None:
        tree.move(p.pid, name)
    return p.pid


# Recordings.

class Recording:
    """`ringside record` of user A with these options, under way; in a directory of its own."""

    def __init__(self, *options, env=None, quiet=True):
        self.directory = tempfile.TemporaryDirectory(prefix="targets-")
        os.chmod(self.directory.name, 0o777)
        self.path = self.directory.name + "/x.ringside"
        self.process = subprocess.Popen(["as-user", A.name, "env", *(env or []), "ringside", "record",
                                         *(["-q"] if quiet else []), "--no-ask", "-F", str(RATE), "-e", "cpu-clock", "-o", self.path, *options],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        h.until("the recording runs", self.runs)

    def runs(self):
        h.check(self.process.poll() is None, f"no recording: {self.process.stderr.read() if self.process.poll() else ''}")
        with contextlib.suppress(OSError):
            return h.read(f"/proc/{self.process.pid}/comm") == "ringside\n" and \
                h.read(f"/proc/{self.process.pid}/syscall").split()[0] in WAITS
        return False

    def stop(self, status=0):
        self.process.send_signal(signal.SIGINT)
        return self.end(status)

    def end(self, status=0):
        errors = self.process.communicate(timeout=h.PATIENCE)[1]
        h.check(self.process.returncode == status, f"record: exit {self.process.returncode}: {errors}")
        self.said = errors
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.directory.cleanup()

    def view(self, *arguments):
        """What this subcommand of ringside prints of the recording, in bytes."""
        return subprocess.run(["as-user", A.name, "ringside", *arguments, self.path], stdout=subprocess.PIPE,
                              check=True).stdout

    def report(self, *options):
        return json.loads(self.view("report", "--format=json", *options))

    def samples(self, by="target", *options):
        """{name: samples}"""
        found = {}
        for row in self.report("--by", by, *options)["rows"]:
            found[row["name"]] = found.get(row["name"], 0) + row["self_samples"]
        return found

    def pids(self):
        """Of everything that the recording has a row for, sampled or not."""
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return {pid for pid, in db.execute("SELECT pid FROM process")}


def refused(*options, env=None):
    """What `ringside record` says when it refuses these options."""
    with tempfile.TemporaryDirectory(prefix="targets-") as directory:
        os.chmod(directory, 0o777)
        r = subprocess.run(["as-user", A.name, "env", *(env or []), "ringside", "record", "--no-ask", "-d", "0.1", "-o",
                            directory + "/x", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
        h.check(r.returncode in (1, 2), f"{options}: exit {r.returncode}: {r.stderr}")
        h.check(not os.path.exists(directory + "/x"), f"{options}: refused, and there is a recording")
    return r.stderr


def check_samples(found, wanted):
    """wanted: {label: CPU seconds}; and these labels alone."""
    h.check(set(found) == set(wanted), f"labels are {found}, to be {wanted}")
    for label, seconds in wanted.items():
        h.check(abs(found[label] - seconds * RATE) <= seconds * RATE * 0.02 + 5,
                f"{label}: {found[label]} samples in {seconds} s of CPU time")


def main(*tests):
    """All of them, or those named on the command line."""
    h.main(*[test for test in tests if not sys.argv[1:] or test.__name__ in sys.argv[1:]])
