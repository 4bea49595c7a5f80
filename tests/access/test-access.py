#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The access rule against the kernel's own. Runs inside bus-env.

    test-access.py [NUMBER-OF-MUTANTS]

Processes of every identity burn CPU while user A's sessions without targets sample: in the initial namespaces,
in a user namespace, in a container of A's, in a pid namespace; and at last root's in direct mode. Who is in the
ring, by records, names and pids in its raw memory, must be exactly who A may read there without capabilities
(may-read). Then the helper is replaced by ones that lack one condition each, and each must be caught.
"""

import ctypes
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
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


def wait_until(condition, what, seconds=10):
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
        check(self.pid, f"{self.name} is not in /proc")

    def open(self):
        os.write(self.gate[1], b"x")

    def close(self):
        os.read(self.gate[0], 1)

    def expect(self, text, seconds=10):
        end = time.monotonic() + seconds
        while text not in self.output:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            piece = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            check(piece, f"{self.name} did not say {text!r}: {self.output!r}")
            self.output += piece

    def end(self):
        os.close(self.gate[1])
        self.process.wait(timeout=10)
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


def is_distinct(number):
    """
    Not a number that stands in the ring for something else, as 32 bits of it: lengths, counts, pages, the
    upper half of a time or of an address.
    """
    upper_time = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e9) >> 32
    return not (number < 2112 or number & 0xffff < 0x700 or 0x5500 <= number < 0x5700 or 0x7e00 <= number < 0x8000
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


# What the kernel says, and what the ring says.

class Answers:
    """May-read's answers in one place. Numbers are those of that place's pid namespace."""

    def __init__(self, prefix, *options):
        self.threads, self.names = {}, {}
        out = subprocess.run([*prefix, PROGRAMS + "/may-read", *options], check=True, stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, cwd="/").stdout.decode(errors="replace")
        for line in out.splitlines():
            pid, tid, environ, maps, _, comm = line.split(" ", 5)
            pid, tid = int(pid), int(tid)
            # maps is the plain question. environ, which adds who owns the file, is compared below.
            self.threads[pid, tid] = maps == "1", environ == "1"
            if comm.startswith("rx-"):
                self.names[comm] = pid, tid

    def may_read(self, pid, tid):
        return self.threads.get((pid, tid), (False, False))[0]

    def named(self, name):
        """pid, tid, may read; a process that has no number there is not there."""
        pid, tid = self.names.get(name, (0, 0))
        return pid, tid, self.may_read(pid, tid)


class Dump:
    """What one session delivered."""

    def __init__(self, output, raw):
        self.records, self.targets, self.statistics = [], {}, {}
        for line in output.decode(errors="replace").splitlines():
            kind, _, rest = line.partition(" ")
            if kind in ("sample", "stack", "process"):
                self.records.append((kind, rest.split(" ")))
            elif kind == "target":
                pid, result, _ = rest.split(" ", 2)
                self.targets[int(pid)] = int(result)
            elif kind == "statistics":
                self.statistics = {k: int(v) for k, v in (word.split("=") for word in rest.split())}
        check(self.statistics, "the session gave no statistics")
        self.position, size = struct.unpack("<QQ", raw[:16])
        check(self.position < size, "the ring wrapped around: too much for this test")
        self.memory = raw[16:]
        self.bytes = self.memory.rstrip(b"\0")
        self.words = set(memoryview(self.bytes + b"\0" * (-len(self.bytes) % 4)).cast("I"))

    def raw_records(self):
        """The ring's own walk through what was written: (type, event, pid, tid, ppid), without the library."""
        at = 0
        while at < self.position:
            length, = struct.unpack_from("<I", self.memory, at)
            check(not length & 0xc0000000, "a record that is unfinished or discarded")
            kind, event, size = struct.unpack_from("<BBH", self.memory, at + 8)
            check(size == length, "a record whose length is not the ring's")
            pid, tid, ppid = struct.unpack_from("<III", self.memory, at + 8 + 16)
            yield kind, event, pid, tid if kind != 3 else 0, ppid if kind == 4 else 0
            at += (length + 8 + 7) & ~7


class Session:
    """ring-dump, in a place."""

    def __init__(self, prefix, *options):
        self.raw = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*prefix, PROGRAMS + "/ring-dump", "--raw", str(self.raw.fileno()), *options], cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(self.raw.fileno(),))
        self.head = b""
        while True:
            line = self.process.stdout.readline()
            self.head += line
            if line == b"open\n":
                break
            check(line, f"no session: {' '.join(prefix)}")

    def start(self):
        self.process.stdin.write(b"start\n")
        self.process.stdin.flush()

    def stop(self):
        output = self.process.communicate(timeout=30)[0]
        check(self.process.returncode == 0, "ring-dump failed")
        self.raw.seek(0)
        return Dump(self.head + output, self.raw.read())


class Place:
    """Where a client runs: its name, and the command that goes there as user A."""

    def __init__(self, name, prefix, options=(), oracle=(), strict=True):
        self.name, self.prefix, self.options, self.oracle = name, prefix, options, oracle
        self.strict = strict  # every process of it is ours, so every pid must be explained


# The comparison.

def compare(place, answers, dump, targets, late=(), least=1, moving=()):
    """
    All disagreements, as {name: text}; "" holds what belongs to no target. late: pids that came into view
    while it ran.
    least: samples of each target that must be there at least.
    """
    wrong = {}
    by_pid = {pid: name for name, (pid, _) in answers.names.items()}
    by_pid |= {t.pid: t.name for t in targets if t.name not in answers.names}
    samples, gone = {}, set()
    known = {pid for (pid, tid), (yes, _) in answers.threads.items() if yes} | set(late)

    def disagree(name, text):
        wrong.setdefault(name, text)

    for kind, fields in dump.records:
        what = fields[0] if kind == "process" else kind
        pid = int(fields[0 if kind == "stack" else 2 if kind == "process" else 1])
        tid = int(fields[3 if kind == "process" else 2]) if kind != "stack" else pid
        ppid = int(fields[4]) if kind == "process" else 0
        if what == "fork" and ppid in known:
            known.add(pid)
        if pid not in known and (place.strict or pid in by_pid):
            disagree(by_pid.get(pid, ""), f"a record of pid {pid} that A may not read: {kind} {' '.join(fields)}")
        elif (pid, tid) in answers.threads and not answers.may_read(pid, tid) and pid not in late:
            name = next((n for n, numbers in answers.names.items() if numbers == (pid, tid)), "")
            disagree(name, f"a record of thread {tid} that A may not read: {kind} {' '.join(fields)}")
        if ppid and ppid not in known and place.strict:
            disagree("", f"the pid of a hidden parent: {kind} {' '.join(fields)}")
        if pid in gone:
            disagree(by_pid.get(pid, ""), f"pid {pid} after it was gone: {kind} {' '.join(fields)}")
        if what == "gone":
            gone.add(pid)
        if kind == "sample":
            # By thread, and all of a process under its own number.
            for number in {tid, pid}:
                samples[number] = samples.get(number, 0) + 1

    for target in targets:
        for name, number in ((target.name, target.pid), (target.thread, target.thread_tid)):
            if not name or name in moving:
                continue
            pid, tid, yes = answers.named(name)
            if yes and samples.get(tid, 0) < least:
                disagree(name, f"A may read it, and it has only {samples.get(tid, 0)} samples")
            if yes:
                continue
            if name.encode() + b"\0" in dump.memory:
                disagree(name, "the name is in the ring's memory")
            for n in {number, tid} - {0} - set(late):
                if is_distinct(n) and n in dump.words:
                    disagree(name, f"the pid {n} is in the ring's memory")
    return wrong, samples


def check_dump(dump, place):
    """What holds whoever is seen: the ring's memory has what the library read, and the counters agree."""
    raw = list(dump.raw_records())
    count = {kind: sum(1 for k, _ in dump.records if k == kind) for kind in ("sample", "stack", "process")}
    check(count == {"sample": sum(r[0] in (1, 2) for r in raw), "stack": sum(r[0] == 3 for r in raw),
                    "process": sum(r[0] == 4 for r in raw)}, f"{place.name}: library and ring differ: {count}")
    s = dump.statistics
    check(s["lost"] == 0 and s["taken"] == s["emitted"] == count["sample"], f"{place.name}: {s}, {count}")
    check(s["processes"] == count["process"] and not s["unknown"] and not s["malformed"], f"{place.name}: {s}")


# The machine.

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
                            "org.ringside.Helper1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return r.stdout

    def replace(self, path=None):
        subprocess.run(["install", "-m", "0711", "-o", "root", "-g", "root", path or self.path + ".good", self.path],
                       check=True)
        found = re.search(r"uint32 (\d+)", self.ask_bus("GetConnectionUnixProcessID"))
        if found:
            os.kill(int(found.group(1)), signal.SIGTERM)
            wait_until(lambda: "false" in self.ask_bus("NameHasOwner"), "the end of the old helper")


class World:
    """Places, and a target for each identity."""

    def __init__(self):
        (self.a, self.ga), (self.b, self.gb) = ids_of(A), ids_of(B)
        self.targets, self.holders = [], []
        self.has_uring = has_uring()
        os.makedirs(PLACE)
        for name, mode, gid in (("target", 0o755, 0), ("unreadable", 0o711, 0), ("rx-setuid", 0o4755, 0),
                                ("rx-moved", 0o4755, 0), ("rx-moved-c", 0o4755, 0), ("rx-setgid", 0o2755, self.gb)):
            shutil.copy(PROGRAMS + "/access-target", f"{PLACE}/{name}")
            os.chown(f"{PLACE}/{name}", 0, gid)
            os.chmod(f"{PLACE}/{name}", mode)
        self.target = PLACE + "/target"
        self.as_a = ["setpriv", "--reuid", str(self.a), "--regid", str(self.ga), "--clear-groups", "--"]
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
        self.add("other-user", "setpriv", "--reuid", str(b), "--regid", str(gb), "--clear-groups", "--", t, *spin)
        self.add("other-group", "setpriv", "--reuid", str(a), "--regid", str(gb), "--clear-groups", "--", t, *spin)
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


def burn(targets, seconds):
    """Waits until each of them has had that much of a processor: else that it is not seen proves nothing."""
    # What these two do, others do for them: kernel threads, a child.
    until = {t: cpu_seconds(t.pid) + seconds for t in targets if t.name not in ("rx-pty", "rx-forker")}
    wait_until(lambda: all(cpu_seconds(t.pid) >= used for t, used in until.items()), "enough CPU time", 60)


def sample(targets, places, hz, seconds, options=()):
    """Sessions in all these places at once, while each target burns CPU seconds: (place, answers, dump) of each."""
    sessions = [(p, Session(p.prefix, "--hz", str(hz), *p.options, *options)) for p in places]
    runs = [(p, Answers(p.prefix, *p.oracle), s) for p, s in sessions]
    for _, s in sessions:
        s.start()
    for t in targets:
        t.open()
    burn(targets, seconds)
    for t in targets:
        t.close()
    return [(p, answers, s.stop()) for p, answers, s in runs]


# Whom the kernel shows where: that the targets are what they are meant to be. In direct mode all of them.
SEEN = {
    "plain": {"own", "own-threads", "own-pidns", "own-userns", "own-ns-root", "own-ns-deep", "own-ns-undmp",
              "own-ns-sub", "own-uring", "inheritable", "mixed", "u-inside", "c-caps", "c-plain", "c-deep",
              "p-inside", "p-child"},
    "unshare -U": {"u-inside"},
    "unshare -Urpf --mount-proc": {"c-plain", "c-deep"},
    "pid namespace": {"p-inside", "p-child"},
}


def check_seen(place, answers, targets):
    seen = {t.name[3:] for t in targets if answers.named(t.name)[2]}
    expected = SEEN.get(place.name, {t.name[3:] for t in targets}) & {t.name[3:] for t in targets}
    check(seen == expected, f"{place.name}: the kernel's answers are not as expected for {seen ^ expected}")


def report(place, answers, samples, targets):
    hidden = [t.name[3:] for t in targets if not answers.named(t.name)[2]]
    seen = [f"{t.name[3:]} {samples.get(answers.named(t.name)[1], 0)}" for t in targets if answers.named(t.name)[2]]
    print(f"{place.name}: seen: {', '.join(seen)}; not seen: {', '.join(hidden)}", flush=True)


def check_environ(answers, place):
    """The two ways to ask differ only where the file is not the user's own."""
    differ = {name for name, numbers in answers.names.items() if len(set(answers.threads[numbers])) > 1}
    check(differ <= {"rx-own-ns-sub"}, f"{place.name}: environ and maps differ for {differ}")


def test_places(world):
    others = [world.user, world.container, world.pids]
    for places, hz, seconds in ((others, 333, 0.1), ([world.direct], 999, 0.03)):
        for place, answers, dump in sample(world.targets, places, hz, seconds):
            check_environ(answers, place)
            check_seen(place, answers, world.targets)
            wrong, samples = compare(place, answers, dump, world.targets, least=5)
            report(place, answers, samples, world.targets)
            check(not wrong, f"{place.name}: {wrong}")
            check_dump(dump, place)


def kernel_threads():
    """CPU seconds of all children of kthreadd."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rpartition(")")[2].split()[1] == "2":
                    total += cpu_seconds(pid)
        except OSError:
            pass
    return total


def test_plain(world):
    """The main case: no targets, the initial namespaces, long enough for hundreds of samples of each."""
    t, as_a = world.target, world.as_a
    mover = Target("mover", [*as_a, t, "comm={name}", "burn=60", f"exec={PLACE}/rx-moved", "spin"])
    forker = Target("forker", [*as_a, t, "comm={name}", "burn=30", f"fork-exec={PLACE}/rx-moved-c", "spin"])
    hider = Target("hider", [*as_a, t, "thread={thread}", "comm={name}", "burn=100", "dumpable=0", "now",
                                         "spin"], thread="hider-2")
    moving = {"rx-mover", "rx-forker", "rx-hider", "rx-hider-2"}
    late = Target("late", [t, "comm={name}", "burn=60", f"gid={world.ga},{world.ga},{world.ga}",
                           f"uid={world.a},{world.a},{world.a}", "exec=" + t, "spin"])
    dynamic = [mover, forker, hider, late]

    workers = kernel_threads()
    (place, answers, dump), = sample(world.targets + dynamic, [world.plain], 999, 0.2)
    check_environ(answers, place)
    check_seen(place, answers, world.targets)
    workers = kernel_threads() - workers
    wrong, samples = compare(place, answers, dump, world.targets + [late], late={late.pid}, least=100, moving=moving)
    report(place, answers, samples, world.targets)
    check(not wrong, f"{place.name}: {wrong}")
    check_dump(dump, place)
    print(f"plain: kernel threads had {workers:.2f} s")
    check(workers > 0.05, "no kernel thread had anything to do")

    def of(target):
        return [(k, f) for k, f in dump.records if int(f[0 if k == "stack" else 2 if k == "process" else 1]) == target.pid]

    # From visible to hidden, by exec: GONE, and then nothing.
    kinds = [f[0] if k == "process" else k for k, f in of(mover)]
    check("sample" in kinds and kinds[-1] == "gone" and kinds.count("gone") == 1, f"mover: {kinds[-20:]}")
    gone = of(mover)[-1][1]
    check(gone[4:] == ["0", ""], f"GONE tells more than that it is: {gone}")
    # In a child: the child was seen until then, and its parent until its end.
    child = [f for k, f in dump.records if k == "process" and f[0] == "gone" and int(f[2]) != mover.pid]
    check(len(child) == 1, f"forker: {child}")
    for name in (b"rx-moved",):
        check(name not in dump.memory, f"the name {name} is in the ring's memory")
    # By prctl: no sample of any thread afterwards.
    hider.expect(b"now ")
    hidden_since = int(re.search(rb"now (\d+)", hider.output).group(1))
    times = [int(f[0]) for k, f in of(hider) if k == "sample"]
    check(times and max(times) <= hidden_since, f"hider: hidden at {hidden_since}, sampled at {max(times, default=0)}")
    check({samples.get(n, 0) > 0 for n in (hider.tid, hider.thread_tid)} == {True}, "hider: not both threads were seen")
    # From hidden to visible, by exec: not one record before, and still no parent and no old name.
    kinds = [f[0] if k == "process" else k for k, f in of(late)]
    check(kinds[0] == "exec" and kinds.count("sample") >= 50, f"late: {kinds[:20]}")
    check(of(late)[0][1][4:] == ["0", "target"], f"late: {of(late)[0]}")
    # Numbers, and who belongs to whom.
    check(samples.get(next(t for t in world.targets if t.name == "rx-own-pidns").pid, 0), "own-pidns: not by our number")
    own = next(t for t in world.targets if t.name == "rx-own")
    forks = [f for k, f in dump.records if k == "process" and f[0] == "fork" and f[4] == str(own.pid)]
    check(forks, "own: its children are not told as such")
    for target in world.targets:
        if target.name == "rx-own-uring":
            check_worker(dump, target)
    for target in dynamic:
        target.end()


def check_worker(dump, target):
    """Kernel worker threads of a process are the process's, and have no user frames."""
    workers = [f for k, f in dump.records if k == "sample" and int(f[1]) == target.pid and int(f[2]) != target.tid]
    check(workers, "own-uring: no sample of an io worker")
    check({(f[3], f[4], f[6]) for f in workers} == {("kernel", "0", "0")}, "own-uring: an io worker has user frames")


def test_targets(world):
    """Named as targets, exactly the same ones are accepted, and sampled."""
    pids = [option for t in world.targets for option in ("--pid", str(t.pid))]
    (place, answers, dump), = sample(world.targets, [world.plain], 333, 0.03, options=pids)
    for t in world.targets:
        check((dump.targets[t.pid] >= 0) == answers.named(t.name)[2], f"target {t.name}: {dump.targets[t.pid]}")
    wrong, _ = compare(place, answers, dump, world.targets)
    check(not wrong, f"targets: {wrong}")
    check_dump(dump, place)
    print(f"targets: {sum(r >= 0 for r in dump.targets.values())} of {len(dump.targets)} accepted")


# Which target, seen from where, shows that a condition is missing (RULE_* of bpf/rule.h).
MUTANTS = {
    1: ("plain", "ruid"), 2: ("plain", "euid"), 3: ("plain", "svuid"), 4: ("plain", "rgid"),
    5: ("plain", "undumpable"), 6: ("user", "own"), 7: ("plain", "ambient"), 8: ("pids", "own"),
    9: ("plain", "egid"), 10: ("plain", "svgid"), 11: ("plain", "mm-outside"), 12: ("plain", "borrowed"),
    13: ("plain", "foreign-ns"), 14: ("plain", "own-in-frgn"), 15: ("pids", "own-pidns"),
}


def test_mutant(world, helper, number):
    place, name = MUTANTS[number]
    helper.replace(f"{PROGRAMS}/ringside-helper-mutant-{number}")
    target = next((t for t in world.targets if t.name == "rx-" + name), None)
    if not target:
        return
    (place, answers, dump), = sample([target], [getattr(world, place)], 999, 0.05)
    wrong, _ = compare(place, answers, dump, world.targets, least=0)
    check(target.name in wrong, f"mutant {number} is not caught: {place.name} does not see {name}")
    print(f"mutant {number}: caught by {', '.join(filter(None, sorted(wrong)))}", flush=True)


def main():
    n_mutants = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    check(set(range(1, n_mutants + 1)) <= set(MUTANTS), "a mutant that nothing is known to catch")
    helper, world = Helper(), World()
    started = time.monotonic()

    def lap(what):
        print(f"{time.monotonic() - started:5.1f} s {what}", flush=True)

    try:
        world.add_all()
        lap(f"{len(world.targets)} targets")
        test_plain(world)
        lap("plain")
        test_places(world)
        lap("places")
        test_targets(world)
        lap("targets")
        for number in range(1, n_mutants + 1):
            test_mutant(world, helper, number)
        lap("mutants")
        helper.replace()
    finally:
        world.end()


main()
