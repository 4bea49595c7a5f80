# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What takes long, or another machine, with a helper for which CPUs, kernel modules and the time are as a file says, and the
processes followed are few (small.c).

test-small.py HELPER
"""

import contextlib
import mmap
import os
import select
import struct
import subprocess
import sys
import time

import harness as h

SMALL = os.path.abspath(sys.argv[1])
A, B = h.users()
RING_SIZE = 1 << 20
FEW = 64
FILES = 16  # NAMES_USER
CPUS = os.sysconf("SC_NPROCESSORS_ONLN")
E_EVENTS = 16
NOT_THERE, ALL = -1, -2
SEEN, EXEC = 1, 3
# Does as it is told, and says when it is done: the number of the child where there is one that stays.
PARENT = """
import os, signal, sys
r, w = int(sys.argv[1]), int(sys.argv[2])
for line in os.fdopen(r):
    what, n = line.split()
    told = 0
    for i in range(int(n)):
        pid = os.fork()
        if pid == 0:
            if what == "exec":
                os.execv("/bin/true", ["true"])
            if what == "end":
                os._exit(0)
            if what == "keep":
                signal.pause()
            while True:
                pass
        if what in ("end", "exec"):
            os.waitpid(pid, 0)
        told = pid
    os.write(w, b"%d\\n" % told)
"""


class World:
    modules = ahead = 0

    def write(self, offline=NOT_THERE, sleeper=0):
        with open("/run/world.new", "w", encoding="utf-8") as f:
            f.write(f"{offline} {sleeper} {self.modules} {self.ahead}\n")
        os.rename("/run/world.new", "/run/world")

    def pass_time(self, seconds):
        self.ahead += seconds
        self.write()

    def change_modules(self):
        self.modules += 1
        # The keeper looks at them once a second.
        self.pass_time(2)


world = World()


def events():
    return h.perf_events(h.role_pids("session"))


def records(session, kind=h.RECORD_SAMPLE):
    return [r for r in h.ring_records(session, RING_SIZE)[0] if r[0] == kind]


def samples_of(session, pid):
    return [r for r in records(session) if struct.unpack_from("<I", r, 16)[0] == pid]


@contextlib.contextmanager
def ready(**kwargs):
    with h.open_direct(ring=RING_SIZE, **kwargs) as session:
        h.check(session.hello() == h.OK, "HELLO")
        yield session


def test_first_cpu():
    """The first CPU is one as any other: where it is offline the others are sampled, and it is when it is back."""
    world.write(offline=0)
    with ready() as session, h.killed(A.spin()) as p:
        h.check(session.start() == h.OK, "START")
        h.check(events() == CPUS - 1, f"{events()} events on {CPUS} CPUs but one")
        if CPUS > 1:
            os.sched_setaffinity(p.pid, range(1, CPUS))
            h.until("another is sampled", lambda: samples_of(session, p.pid))
        world.write()
        # And nobody has asked for it.
        h.until("it is back", lambda: events() == CPUS)


def test_no_cpu():
    world.write(offline=ALL)
    with ready() as session:
        h.check(session.start() == E_EVENTS, "a session without any event")
        world.write()
        h.check(session.start() == h.OK and events() == CPUS, "START")


def test_often():
    """However often CPUs went away: they are sampled again, some time later."""
    with ready() as session, h.killed(A.spawn("sleep", "1000")) as sleeper:
        world.write(sleeper=sleeper.pid)
        h.check(session.start() == h.OK, "START")

        def used_up():
            time.sleep(0.1)
            h.check(session.stats()[0] == h.OK, "STATS")
            return events() == 0
        h.until("no more are opened", used_up)
        world.pass_time(60)
        h.until("all are there", lambda: events() == CPUS)
        time.sleep(0.3)
        h.check(session.stats()[0] == h.OK and events() == CPUS, "they do not count")


class Parent:
    def __init__(self):
        r, self.w = os.pipe()
        self.r, w = os.pipe()
        self.process = A.spawn("/usr/bin/python3", "-c", PARENT, str(r), str(w), pass_fds=[r, w], start_new_session=True)
        os.close(r)
        os.close(w)
        self.lines = os.fdopen(self.r)
        self.pid = self.process.pid
        h.until("it is its user's", lambda: os.stat(f"/proc/{self.pid}").st_uid == A.uid)

    def tell(self, what, n=1):
        os.write(self.w, f"{what} {n}\n".encode())
        h.check(select.select([self.lines], [], [], h.PATIENCE)[0], f"{what} {n}: it does not answer")
        line = self.lines.readline()
        h.check(line, "it has died")
        return int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, 9)
        self.process.wait()
        self.lines.close()
        os.close(self.w)


def untracked(session):
    """Of all CPUs' counters."""
    size = 256 * os.sysconf("SC_NPROCESSORS_CONF")
    with mmap.mmap(session.fds[1], -(-size // 4096) * 4096, mmap.MAP_SHARED, mmap.PROT_READ) as m:
        return sum(struct.unpack_from("<Q", m, at + 80)[0] for at in range(0, size, 256))


def cpu(pid):
    """Seconds."""
    fields = h.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count(session):
    """Seconds."""
    return struct.unpack_from("<Q", session.stats()[1], 24)[0] / 1e9


def test_followed():
    """What has ended takes no place from what is followed, whether it is told of or not; and what has none is told."""
    with ready(targets=True, hz=999) as session, Parent() as parent:
        def ends():
            before = len(records(session, 4))
            parent.tell("end", 2 * FEW)
            parent.tell("exec", 3)
            h.check(len(records(session, 4)) == before, "processes are told of outside START and STOP")

        h.check(session.target(parent.pid) == (h.OK, 1), "TARGET")
        ends()
        for _ in range(2):
            h.check(session.start() == h.OK, "START")
            child = parent.tell("spin")
            h.until("its child is sampled", lambda: samples_of(session, child))
            os.kill(child, 9)
            h.check(session.stop() == h.OK, "STOP")
            ends()
        h.check(untracked(session) == 0, "some were not followed")
        h.check(session.start() == h.OK, "START")
        parent.tell("keep", FEW + 10)
        before = untracked(session)
        h.check(before >= 10, f"{before} are not followed")
        child = parent.tell("spin")
        h.check(untracked(session) == before + 1, "one more")
        h.until("it computes", lambda: cpu(child) > 0.2)
        first, had = count(session), cpu(child)
        h.until("it computes", lambda: cpu(child) > had + 1)
        told, had = count(session) - first, cpu(child) - had
        # In no sample, and so in no count: else it would look as if samples had not been taken.
        h.check(not samples_of(session, child), "it is sampled")
        h.check(told < 0.3 * had, f"{told:.2f} s are counted of {had:.2f}")
        # Nor is there less room for others, or for START, by that.
        h.check(session.stop() == h.OK, "STOP")
        parent.tell("keep", 3)
        h.check(session.start() == h.OK, "START, with all places taken")


def test_exec_while_stopped():
    """
    What a process has become while nothing was told is told when it is sampled again; with targets, and without. Of whom
    nothing new is to be told nothing is.
    """
    for targets in True, False:
        check_exec_while_stopped(targets)


def check_exec_while_stopped(targets):
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/run/gate")
    program = f"""import os, sys
print(flush=True)
while not os.path.exists("/run/gate"):
    pass
os.execv("{h.workload('busy')}", ["busy", "300"])"""
    command = ["/usr/bin/python3", "-c", program]
    # A user's own, who are few: nobody is forgotten for others.
    with A.connect() as connection, h.killed(A.spawn(*command, stdout=subprocess.PIPE)) as p, h.killed(A.spin()) as other:
        way = h.Way("bus", A, connection)
        session = way.ready(targets=targets, ring=RING_SIZE)

        def told(pid):
            """Of the process as a whole: who it is by the name that it has."""
            return [(r[1], r[40:56].rstrip(b"\0")) for r in records(session, 4) if struct.unpack_from("<I", r, 16)[0] == pid]

        def act(what, *args, want=h.OK):
            with way.act():
                h.check(what(*args) == want, f"{what.__name__}")

        p.stdout.readline()
        for pid in (p.pid, other.pid) if targets else ():
            act(session.target, pid, want=(h.OK, 1))
        act(session.start)
        h.until("both are seen", lambda: told(p.pid) and told(other.pid))
        act(session.stop)
        with open("/run/gate", "w", encoding="ascii"):
            pass
        h.until("the exec", lambda: h.read(f"/proc/{p.pid}/comm") == "workload-busy\n")
        # The name comes first, the exec is told when all of it is done.
        had = cpu(p.pid)
        h.until("it computes", lambda: cpu(p.pid) > had + 0.05)
        h.check(told(p.pid) == [(SEEN, b"python3")], f"told after STOP: {told(p.pid)}")
        had = {pid: len(samples_of(session, pid)) for pid in (p.pid, other.pid)}
        act(session.start)
        h.until("both are sampled", lambda: all(len(samples_of(session, pid)) > n + 1 for pid, n in had.items()))
        h.check(told(p.pid) == [(SEEN, b"python3"), (EXEC, b"workload-busy")], f"{told(p.pid)}")
        h.check(len(told(other.pid)) == 1, f"{told(other.pid)}")
        session.close()


def names(session):
    """(error, generation); and how many files of them it has got stands in `files`."""
    n = len(session.fds)
    error, data = session.ask(h.SYMBOLS)
    session.files = getattr(session, "files", 0) + len(session.fds) - n
    return error, struct.unpack_from("<Q", data, 24)[0]


def test_names():
    """
    A user who keeps all names there have been gets only so many files of them, with whatever session, and more after some
    time. Nobody else has fewer.
    """
    with A.connect() as a, B.connect() as b, contextlib.ExitStack() as stack:
        def ready(user, connection):
            return stack.enter_context(h.Way("bus", user, connection).ready(targets=True, kernel=("s", "quiet")))
        first, second = ready(A, a), ready(A, a)
        for session in (first, second):
            h.until("names", lambda: names(session) == (h.OK, 1))
        for generation in range(2, FILES + 1):
            world.change_modules()
            h.until(f"names of generation {generation}", lambda: names(first) == (h.OK, generation))
        # Those again are no others.
        h.check(names(second) == (h.OK, FILES), "the newest once more")
        world.change_modules()
        other = ready(B, b)
        h.until("names for another user", lambda: names(other) == (h.OK, FILES + 1))
        h.check(names(first) == (h.OK, FILES) and first.files == FILES, f"{first.files} files")
        third = ready(A, a)
        h.check(names(third) == (h.E_NO_KERNEL_NAMES, 0) and third.files == 0, "names for another session")
        world.pass_time(600)
        h.check(names(first) == (h.OK, FILES + 1), "no more, ten minutes later")
        h.check(names(third) == (h.OK, FILES + 1), "the same for all sessions of a user")
        h.check((first.files, second.files, third.files, other.files) == (FILES + 1, 2, 1, 1), "other files")


with open("/run/allow.rules", "w", encoding="utf-8") as f:
    f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", "/run/allow.rules"], check=True)
world.write()
with h.installed(SMALL):
    h.main(test_first_cpu, test_no_cpu, test_often, test_followed, test_exec_while_stopped, test_names)
