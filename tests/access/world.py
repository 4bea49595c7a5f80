# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What test-access.py looks at: a target for each identity, the places clients run in, and the installed helper.
"""

import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import time

A, B = os.environ["RINGSIDE_TEST_USER_A"], os.environ["RINGSIDE_TEST_USER_B"]
PROGRAMS = os.environ["RINGSIDE_TEST_BUILD"] + "/tests/access"
PLACE = "/usr/local/lib/ringside-access"
SERVICE = "/usr/share/dbus-1/system-services/org.ringside.Helper1.service"
TICK = os.sysconf("SC_CLK_TCK")
SYS_IO_URING_SETUP = 425


def ids_of(user):
    with open("/etc/passwd") as f:
        fields = next(line.split(":") for line in f if line.startswith(user + ":"))
    return int(fields[2]), int(fields[3])


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def wait_until(condition, what, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what}: nothing for {seconds} s")
        time.sleep(0.01)


class Target:
    """
    One access-target; knows its numbers in our own pid namespace. It stands at a gate, a pipe: burns while a
    byte is in it, and ends with it.
    """

    def __init__(self, name, command, thread=None):
        self.name, self.thread = "rx-" + name, thread and "rx-" + thread
        check(len(self.name) < 16, f"{self.name}: too long for the name of a thread")
        steps = [part.format(name=self.name, thread=self.thread) for part in command]
        self.gate = os.pipe()
        self.process = subprocess.Popen(steps, stdin=self.gate[0], stdout=subprocess.PIPE, cwd="/")
        self.output = b""
        self.expect(b"ready\n")
        self.pid = self.tid = self.thread_tid = 0
        for pid, tid, comm in all_threads():
            if comm == self.name and not self.pid:
                self.pid, self.tid = pid, tid
            elif comm == self.thread:
                self.thread_tid = tid
        check(self.pid and bool(self.thread_tid) == bool(thread), f"{self.name} is not in /proc")

    def open(self):
        os.write(self.gate[1], b"x")

    def close(self):
        os.read(self.gate[0], 1)

    def expect(self, text, seconds=300):
        end = time.monotonic() + seconds
        while text not in self.output:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            piece = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            check(piece, f"{self.name} did not say {text!r}: {self.output!r}")
            self.output += piece

    def end(self):
        os.close(self.gate[1])
        self.process.wait(timeout=300)
        os.close(self.gate[0])
        self.process.stdout.close()


def all_threads():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for tid in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{tid}/comm", "rb") as f:
                    yield int(pid), int(tid), f.read().rstrip(b"\n").decode(errors="replace")
        except OSError:
            pass


def cpu_seconds(pid):
    """Of a whole process; 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK
    except OSError:
        return 0


def kernel_threads():
    """CPU seconds of each child of kthreadd, by pid: to the nanosecond, not by ticks, which hit by chance."""
    times = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rpartition(")")[2].split()[1] != "2":
                    continue
            with open(f"/proc/{pid}/schedstat") as f:
                times[pid] = int(f.read().split()[0]) / 1e9
        except OSError:
            pass
    return times


def is_distinct(number):
    """
    Not a number that stands in the ring for something else, as 32 bits of it: lengths, counts, pages, the
    upper half of a time or of an address.
    """
    upper_time = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e9) >> 32
    return not (number < 2112 or number & 0xffff < 0x700
                or 0x5500 <= number < 0x5700 or 0x7e00 <= number < 0x8000
                or abs(number - upper_time) < 64)


def pass_indistinct():
    """Uses up pids until the next ones are distinct."""
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        if is_distinct(pid + 1) and is_distinct(pid + 8):
            return


class Place:
    """Where a client runs: its name, and the command that goes there as user A."""

    def __init__(self, name, prefix, options=(), oracle=(), strict=True):
        self.name, self.prefix, self.options, self.oracle = name, prefix, options, oracle
        self.strict = strict  # every process of it is ours, so every pid must be explained


def has_uring():
    fd = ctypes.CDLL(None).syscall(SYS_IO_URING_SETUP, 1, ctypes.create_string_buffer(120))
    if fd >= 0:
        os.close(fd)
        return True
    print("no io_uring here: workers and borrowed credentials are left out")
    check(os.environ.get("RINGSIDE_MUST_RUN") != "1", "RINGSIDE_MUST_RUN is set, and there is no io_uring")
    return False


class Helper:
    """The installed helper, replaceable."""

    def __init__(self):
        with open(SERVICE) as f:
            self.path = re.search(r"^Exec=(\S+)", f.read(), re.M).group(1)
        shutil.copy(self.path, self.path + ".good")

    @staticmethod
    def ask_bus(method):
        r = subprocess.run(["gdbus", "call", "--system", "--dest", "org.freedesktop.DBus", "--object-path",
                            "/org/freedesktop/DBus", "--method", "org.freedesktop.DBus." + method,
                            "org.ringside.Helper1"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return r.stdout

    def replace(self, path=None):
        subprocess.run(["install", "-m", "0711", "-o", "root", "-g", "root", path or self.path + ".good",
                        self.path], check=True)
        found = re.search(r"uint32 (\d+)", self.ask_bus("GetConnectionUnixProcessID"))
        if found:
            os.kill(int(found.group(1)), signal.SIGTERM)
            wait_until(lambda: "false" in self.ask_bus("NameHasOwner"), "the end of the old helper")


def as_ids(uid, gid):
    return ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]


class World:
    """Places, and a target for each identity."""

    def __init__(self):
        (self.a, self.ga), (self.b, self.gb) = ids_of(A), ids_of(B)
        self.targets, self.holders = [], []
        self.has_uring = has_uring()
        os.makedirs(PLACE)
        for name, mode, gid in (("target", 0o755, 0), ("unreadable", 0o711, 0),
                                ("rx-setuid", 0o4755, 0), ("rx-setgid", 0o2755, self.gb),
                                ("rx-moved", 0o4755, 0), ("rx-moved-c", 0o4755, 0)):
            shutil.copy(PROGRAMS + "/access-target", f"{PLACE}/{name}")
            os.chown(f"{PLACE}/{name}", 0, gid)
            os.chmod(f"{PLACE}/{name}", mode)
        self.target = PLACE + "/target"
        self.as_a = as_ids(self.a, self.ga)
        self.make_places()

    def hold(self, *command):
        """The first process of a namespace; returns its pid."""
        name = f"hold-{len(self.holders)}"
        target = Target(name, [*command, self.target, "comm={name}", "hold"])
        self.holders.append(target)
        return str(target.pid)

    def make_places(self):
        user = self.hold(*self.as_a, "unshare", "-U")
        container = self.hold(*self.as_a, "unshare", "-Urpf", "--mount-proc")
        pids = self.hold("unshare", "-pf", "--mount-proc")
        self.in_pids = ["nsenter", "-t", pids, "-p", "-m", "--"]
        enter = ["nsenter", "-U", "--preserve-credentials", "-t"]
        self.plain = Place("plain", self.as_a)
        self.user = Place("unshare -U", [*self.as_a, *enter, user])
        self.container = Place("unshare -Urpf --mount-proc", [*self.as_a, *enter, container, "-p", "-m"])
        self.pids = Place("pid namespace", [*self.in_pids, *self.as_a])
        self.direct = Place("direct", [], ("--direct",), ("--with-capabilities",), strict=False)

    def add(self, name, *command, thread=None):
        for _ in range(20):
            pass_indistinct()
            target = Target(name, command, thread)
            if is_distinct(target.pid) and (not thread or is_distinct(target.thread_tid)):
                self.targets.append(target)
                return target
            target.end()
        raise AssertionError(f"{name}: no pid that can be told from other numbers")

    def add_all(self):
        a, ga, b, gb = self.a, self.ga, self.b, self.gb
        be_a = [f"gid={ga},{ga},{ga}", f"uid={a},{a},{a}"]
        as_a, t, spin = self.as_a, self.target, ["comm={name}", "spin"]
        set_a = as_a[:-1]

        # Seen from the initial namespaces.
        self.add("own", *as_a, t, *spin)
        self.add("own-threads", *as_a, t, "thread={thread}", *spin, thread="own-thread2")
        self.add("own-pidns", t, "pidns", *be_a, "exec=" + t, *spin)
        self.add("own-userns", *as_a, "unshare", "-U", t, *spin)
        self.add("own-ns-root", *as_a, "unshare", "-Ur", t, *spin)
        self.add("own-ns-deep", *as_a, "unshare", "-Ur", "unshare", "-Ur", t, *spin)
        self.add("own-ns-undmp", *as_a, "unshare", "-Ur", t, "dumpable=0", *spin)
        self.add("own-ns-sub", t, f"owned-ns={a},{b + 1},{b + 1}", "exec=" + t, *spin)
        self.add("inheritable", *set_a, "--inh-caps", "+net_raw", "--", t, *spin)
        if self.has_uring:
            self.add("own-uring", *as_a, t, "comm={name}", "uring-worker")
        # Not seen, each for one reason.
        self.add("ruid", t, f"gid={ga},{ga},{ga}", f"uid={b},{a},{a}", "dumpable=1", *spin)
        self.add("euid", t, f"gid={ga},{ga},{ga}", f"uid={a},{b},{a}", "dumpable=1", *spin)
        self.add("svuid", t, f"gid={ga},{ga},{ga}", f"uid={a},{a},{b}", "dumpable=1", *spin)
        self.add("rgid", t, f"gid={gb},{ga},{ga}", f"uid={a},{a},{a}", "dumpable=1", *spin)
        self.add("egid", t, f"gid={ga},{gb},{ga}", f"uid={a},{a},{a}", "dumpable=1", *spin)
        self.add("svgid", t, f"gid={ga},{ga},{gb}", f"uid={a},{a},{a}", "dumpable=1", *spin)
        self.add("undumpable", *as_a, t, "dumpable=0", *spin)
        self.add("dropped-root", t, *be_a, *spin)
        self.add("ambient", *set_a, "--inh-caps", "+net_raw", "--ambient-caps", "+net_raw", "--", t, *spin)
        self.add("kept-caps", t, "keepcaps", *be_a, "dumpable=1", *spin)
        self.add("mm-outside", *as_a, t, "userns", "dumpable=0", *spin)
        self.add("mm-unread", *as_a, "unshare", "-Ur", PLACE + "/unreadable", *spin)
        self.add("foreign-ns", t, f"owned-ns={b},{a},{ga}", "exec=" + t, *spin)
        self.add("own-in-frgn", t, f"owned-ns={b},{a},{ga}", "exec=" + t, "userns", *spin)
        if self.has_uring:
            self.add("borrowed", t, "comm={name}", f"uring-borrow={a},{ga}")
        # Not seen, for several.
        self.add("other-user", *as_ids(b, gb), t, *spin)
        self.add("other-group", *as_ids(a, gb), t, *spin)
        self.add("root", t, *spin)
        self.add("setuid", *as_a, PLACE + "/rx-setuid", *spin)
        self.add("setgid", *as_a, PLACE + "/rx-setgid", *spin)
        self.add("pty", t, "comm={name}", "pty")
        # One thread of a process is root's.
        self.add("mixed", t, "thread={thread}", *be_a, "dumpable=1", *spin, thread="mixed-root")
        # In the other places.
        self.add("u-inside", *self.user.prefix, t, *spin)
        self.add("c-caps", *self.container.prefix, t, *spin)
        self.add("c-plain", *self.container.prefix, t, "nocaps", *spin)
        self.add("c-deep", *self.container.prefix, "unshare", "-Ur", t, *spin)
        self.add("p-inside", *self.pids.prefix, t, *spin)
        self.add("p-child", *self.in_pids, t, "pidns", *be_a, "exec=" + t, *spin)

    def end(self):
        for target in self.targets + self.holders:
            target.end()
