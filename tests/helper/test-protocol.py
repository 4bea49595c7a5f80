# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The socket protocol as nobody should speak it, over the bus and directly. Every offence is refused with the documented
error or ends the session; after each group a fresh session works, and in the end nothing is left over.
"""

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import harness as h

A, B = h.users()
NEW, WELCOME, RUNNING = "new", "welcome", "running"
HELLO_BODY = struct.pack("<II", h.VERSION, 0)
TARGET_BODY = struct.pack("<IIQ", 0, 0, 0)
RATE_BODY = struct.pack("<II", 0, 49)
# type: body, states it is for, fds
REQUESTS = {
    h.HELLO: (HELLO_BODY, [NEW], 1),
    h.TARGET: (TARGET_BODY, [WELCOME], 1),
    h.START: (b"", [WELCOME], 0),
    h.STOP: (b"", [RUNNING], 0),
    h.STATS: (b"", [WELCOME, RUNNING], 0),
    h.SET_RATE: (RATE_BODY, [WELCOME, RUNNING], 0),
}
NULL = os.open("/dev/null", os.O_RDWR)
direct = h.Way("direct", A)


def at(way, state, target=None):
    """A session with targets in the given state."""
    session = way.open(targets=True)
    advance(way, session, state, target)
    return session


def advance(way, session, state, target):
    if state != NEW:
        with way.act():
            h.check(session.hello() == h.OK, "HELLO refused")
    if state == RUNNING:
        with way.act():
            answer = session.target(target.pid)
        h.check(answer == (h.OK, 1), f"TARGET: {answer}, and the target's end: {target.poll()}")
        h.check(session.start() == h.OK, "START refused")


class Group:
    """Runs func(way) over both ways; then a fresh session must work, and all must be as before."""

    def __init__(self, func):
        self.func = func
        self.__name__ = func.__name__

    def __call__(self):
        for way in ways():
            if way.connection:
                way.works()
                h.used()
            else:
                end_bus_helper()
            flat = h.Flat()
            self.func(way)
            way.works()
            flat.check()
            if way.connection:
                way.connection.close()


def end_bus_helper():
    """It would end by itself, but only when nobody has needed it for a minute."""
    for pid in h.role_pids("front"):
        os.kill(pid, signal.SIGTERM)
    h.until("the helper has ended", lambda: not h.helpers())


def ways():
    yield h.Way("bus", A, A.connect())
    yield direct


class Offences:
    """
    Sessions that are ended by what they are sent. A session takes a fifth of a second to load, so six load at once. All of
    them directly; over the bus, where the same code answers and a user may open so many a minute, each n-th.
    """
    AT_ONCE = 6

    def __init__(self, way, target=None, every=1):
        self.way = way
        self.target = target
        self.every = every if way.connection else 1
        self.cases = []

    def add(self, state, data, n_fds=0, what=""):
        self.cases.append((state, data, n_fds, what or data[:32].hex()))

    def run(self):
        cases = self.cases[::self.every]
        for i in range(0, len(cases), self.AT_ONCE):
            batch = cases[i:i + self.AT_ONCE]
            sessions = [self.way.open(targets=True) for _ in batch]
            for session, (state, *_) in zip(sessions, batch):
                advance(self.way, session, state, self.target)
            for session, (state, data, n_fds, what) in zip(sessions, batch):
                with self.way.act():
                    own = os.pidfd_open(os.getpid())
                    session.send(data, [own] * n_fds)
                    os.close(own)
            for session, (state, data, n_fds, what) in zip(sessions, batch):
                seen = session.ended()
                h.check(seen == h.E_PROTOCOL, f"{self.way.name}: {what} in state {state}: END with {seen}")
                session.close()


def message(kind, body, length=None, cookie=1, error=0, detail=0):
    return h.HEAD.pack(kind, 24 + len(body) if length is None else length, cookie, error, detail) + body


@Group
def test_cut(way):
    """Each message at every shorter length, with the length field of what it was and of what it is."""
    with h.killed(A.spin()) as p:
        offences = Offences(way, p, every=4)
        for kind, (body, states, n_fds) in REQUESTS.items():
            whole = message(kind, body)
            for size in range(1, len(whole)):
                offences.add(states[0], whole[:size], n_fds, f"{kind} cut to {size}")
            for size in (8, 23, len(whole) - 1):
                offences.add(states[0], message(kind, body, size)[:size], n_fds, f"{kind} cut to {size}, honestly")
        offences.run()


@Group
def test_fields(way):
    """Lengths that lie, more than there should be, answers' fields in requests, types there are not."""
    with h.killed(A.spin()) as p:
        offences = Offences(way, p, every=3)
        for kind, (body, states, n_fds) in REQUESTS.items():
            for more in (1, 8, 300, 4096):
                offences.add(states[-1], message(kind, body) + bytes(more), n_fds, f"{kind} grown by {more}")
            offences.add(states[-1], message(kind, body + bytes(8)), n_fds, f"{kind} grown, honestly")
            for length in (0, 23, 24 + len(body) - 1, 24 + len(body) + 1, 0xffffffff):
                offences.add(states[0], message(kind, body, length), n_fds, f"{kind}, length {length}")
            offences.add(states[0], message(kind, body, error=1), n_fds, f"{kind} with an error")
            offences.add(states[0], message(kind, body, detail=-1), n_fds, f"{kind} with a detail")
        for i, kind in enumerate((0, 1, 3, 5, 7, 9, 11, 12, 13, 14, 100, 0x7fffffff, 0xffffffff)):
            offences.add((NEW, WELCOME, RUNNING)[i % 3], message(kind, b""), what=f"type {kind}")
        offences.run()


@Group
def test_states(way):
    """Every request in every state it is not for."""
    with h.killed(A.spin()) as p:
        offences = Offences(way, p)
        for kind, (body, states, n_fds) in REQUESTS.items():
            for state in {NEW, WELCOME, RUNNING} - set(states):
                offences.add(state, message(kind, body), n_fds, f"request {kind}")
        offences.run()
        # START twice, STOP without START, are among them; START and STOP in turn are not.
        with at(way, RUNNING, p) as session:
            for _ in range(20):
                h.check(session.stop() == h.OK and session.start() == h.OK, "START and STOP in turn")
        # START without a target.
        with at(way, WELCOME) as session:
            h.check(session.start() == h.E_STATE, "START without targets")
            with way.act():
                h.check(session.target(p.pid) == (h.OK, 1), "TARGET after a refused START")
            h.check(session.start() == h.OK, "START after a refused START")


@Group
def test_descriptors(way):
    """None, the wrong ones, too many."""
    with h.killed(A.spin()) as p, tempfile.TemporaryFile() as f:
        own = os.pidfd_open(os.getpid())
        r, w = os.pipe()
        # HELLO is refused with an answer, and the session is over.
        other = os.pidfd_open(p.pid)
        for descriptors in ([], [NULL], [r], [f.fileno()], [other]):
            with at(way, NEW) as session:
                with way.act():
                    error, _ = session.ask(h.HELLO, HELLO_BODY, descriptors)
                h.check(error == h.E_IDENTITY, f"{way.name}: HELLO with {descriptors}: {error}")
                h.check(session.ended() is None, "HELLO refused, and the session goes on")
        # TARGET is only refused.
        with at(way, WELCOME) as session:
            for descriptors in ([NULL], [r], [f.fileno()], [session.socket.fileno()], session.fds[:1]):
                error, _ = session.target([descriptors[0]])
                h.check(error == h.E_TARGET_HIDDEN, f"TARGET with {descriptors}: {error}")
            error, _ = session.ask(h.TARGET, TARGET_BODY)
            h.check(error == h.E_STATE, f"TARGET with nothing: {error}")
            h.check(session.target([other]) == (h.OK, 1), "TARGET after refusals")
        offences = Offences(way, p, every=3)
        for n in list(range(1, 41)) + [100, 253]:
            for kind, (body, states, n_fds) in REQUESTS.items():
                # All of them at the edges, one in turn between.
                if n != n_fds and (n in (1, 2, 33, 253) or n % 5 == kind // 2 % 5):
                    offences.add(states[0], message(kind, body), n, f"{kind} with {n} descriptors")
        offences.run()
        for fd in (own, other, r, w):
            os.close(fd)


@Group
def test_identity(way):
    """HELLO by whom the session was not granted to."""
    own = os.pidfd_open(os.getpid())

    def hello(session, user, pidfd=None):
        user.become()
        error = session.hello(pidfd=pidfd)
        return [error, session.ended(2) if error != h.OK else None]

    if way.connection:
        # The socket is passed to another user.
        with at(way, NEW) as session:
            h.check(h.fork(hello, session, B) == [h.E_IDENTITY, None], "another user said HELLO")
        # And to root, who is nobody special.
        with at(way, NEW) as session:
            h.check(session.hello() == h.E_IDENTITY and session.ended() is None, "root said HELLO")
        # One that has another group by the time its HELLO is read, as after it ran a setgid program.
        with at(way, NEW) as session:
            h.check(h.fork(hello_and_change, session) == h.E_IDENTITY, "HELLO by one group, and served as another")
    # A child: it may be the client, as itself and not as its parent.
    with at(way, NEW) as session:
        h.check(h.fork(hello, session, A, own) == [h.E_IDENTITY, None], "a child said HELLO for its parent")
    with at(way, NEW) as session:
        h.check(h.fork(hello, session, A)[0] == h.OK, "a child of the same user could not say HELLO")
    # A client that is gone when its HELLO is read; another's pidfd, made out of its credentials.
    with h.killed(A.spin()) as p:
        with at(way, NEW) as session, way.act():
            fd = os.pidfd_open(p.pid)
            socket.send_fds(session.socket, [message(h.HELLO, HELLO_BODY)], [fd])
            os.close(fd)
            seen = session.receive()
            h.check(seen and h.HEAD.unpack_from(seen[0])[3] == h.E_IDENTITY, "somebody else's pidfd")
    for version in (0, h.VERSION - 1, h.VERSION + 1, 0xffffffff):
        with at(way, NEW) as session, way.act():
            h.check(session.hello(version) == h.E_VERSION and session.ended() is None, f"version {version}")
    os.close(own)


def hello_and_change(session):
    os.setgroups([])
    os.setresgid(A.gid, A.gid, B.gid)
    os.setresuid(A.uid, A.uid, A.uid)
    session.send(message(h.HELLO, HELLO_BODY), [os.pidfd_open(os.getpid())])
    # In time: the session is still being loaded.
    os.setresgid(-1, B.gid, B.gid)
    return h.HEAD.unpack_from(session.receive()[0])[3]


@Group
def test_garbage(way):
    """Bytes, of all sizes, and nothing at all."""
    dice = random.Random(way.name)
    offences = Offences(way, every=3)
    for i, size in enumerate([1, 4, 23, 24, 25, 31, 32, 33, 328, 4095, 4096] +
                             [dice.randrange(1, 4097) for _ in range(20)]):
        offences.add((NEW, WELCOME)[i % 2], dice.randbytes(size), what=f"{size} bytes of garbage")
    offences.run()
    # A type there is, and garbage after it.
    for kind in REQUESTS:
        for _ in range(3):
            data = message(kind, dice.randbytes(dice.randrange(1, 300)))
            with at(way, WELCOME) as session:
                with way.act():
                    session.send(data)
                # Refused or the end, whichever the bytes came to.
                h.check(session.receive(), f"nothing after {data.hex()}")
    # An empty packet is an end, and no answer is owed.
    for state in (NEW, WELCOME):
        with at(way, state) as session:
            session.socket.send(b"")
            h.check(session.ended() is None, "an empty packet, and the session goes on")
        with at(way, state) as session:
            with way.act():
                session.send(b"", [NULL])
            h.check(session.ended() == h.E_PROTOCOL, "an empty packet with a descriptor, and the session goes on")
        # Closed for writing; then for reading, so that no answer gets through.
        with at(way, state) as session:
            session.socket.shutdown(socket.SHUT_WR)
            h.check(session.ended() is None, "half closed, and the session goes on")
        session = at(way, state)
        session.socket.shutdown(socket.SHUT_RD)
        try:
            session.send(session.message(h.STATS))
        except BrokenPipeError:
            pass
        session.close()


@Group
def test_flood(way):
    """Requests and no reading: the session breaks off, and only it."""
    with h.killed(A.spin()) as p, at(way, RUNNING, p) as session:
        session.socket.setblocking(False)
        sent, end = 0, time.monotonic() + 20
        while time.monotonic() < end:
            try:
                session.send(session.message(h.STATS))
                sent += 1
            except BlockingIOError:
                time.sleep(0.001)
            except (BrokenPipeError, ConnectionResetError):
                break
        else:
            raise h.Failure(f"goes on after {sent} unread answers")
        h.check(sent > 10, f"broken off after {sent} requests")
    # Read, a flood is served.
    with h.killed(A.spin()) as p, at(way, RUNNING, p) as session:
        for _ in range(2000):
            session.stats()


@Group
def test_targets(way):
    root = subprocess.Popen(["/bin/sleep", "1000"])
    with h.killed(A.spin()) as own, h.killed(B.spin()) as others, h.killed(root), \
            at(way, WELCOME) as session:
        with way.act():
            refused_targets(way, session, own, others, root)
        h.check(h.perf_events(h.role_pids("session")) == 1, "the same thread is sampled twice")
        h.check(session.start() == h.OK, "START after 65 targets")


def refused_targets(way, session, own, others, root):
    if way.connection:
        h.check(session.target(others.pid)[0] == h.E_TARGET_HIDDEN, "another user's process")
        h.check(session.target(root.pid)[0] == h.E_TARGET_HIDDEN, "a process of root")
        # Ourselves: since we changed users we are not dumpable, and not even our own to see.
        h.check(session.target(os.getpid())[0] == h.E_TARGET_HIDDEN, "a process that is not dumpable")
    pidfd = dead_pidfd()
    h.check(session.target([pidfd])[0] == h.E_TARGET_GONE, "a dead process")
    os.close(pidfd)
    for flags in (4, 8, 12, 16, 0x80000000):
        h.check(session.target(own.pid, flags)[0] == h.E_STATE, f"flags {flags}")
    h.check(session.target(own.pid, tid=1)[0] == h.E_TARGET_HIDDEN, "a thread of another process")
    h.check(session.target(own.pid, tid=0xffffffff)[0] == h.E_TARGET_HIDDEN, "no thread at all")
    h.check(session.target(own.pid, tid=own.pid) == (h.OK, 1), "a thread of its own")
    # None of the refused ones counts towards the number of targets; the same one again does, but opens nothing.
    for i in range(h.TARGETS_MAX - 1):
        h.check(session.target(own.pid) == (h.OK, 1), f"target {i + 2}")
    h.check(session.target(own.pid)[0] == h.E_TARGET_LIMIT, "one target too many")


@Group
def test_rates(way):
    """From 1 to what was granted, of the events there are; what is refused changes nothing."""
    with h.killed(A.spin()) as p, way.ready(targets=True, hz=99) as session:
        for state in WELCOME, RUNNING, WELCOME:
            for rate in (1, 98, 99, 50):
                h.check(session.set_rate(rate) == h.OK, f"{rate} Hz of 99, {state}")
            for rate in (0, 100, 20000, 20001, 1 << 31, 0xffffffff):
                h.check(session.set_rate(rate) == h.E_RATE, f"{rate} Hz of 99, {state}")
            for event in (1, 7, 8, 1 << 31, 0xffffffff):
                h.check(session.set_rate(50, event) == h.E_RATE, f"event {event} of one, {state}")
            with way.act():
                h.check(state == RUNNING or session.target(p.pid)[0] == h.OK, "TARGET after SET_RATE")
            h.check((session.stop if state == RUNNING else session.start)() == h.OK, f"after SET_RATE, {state}")


@Group
def test_cgroups(way):
    with h.killed(A.spin()) as p, way.ready(targets=True) as session:
        h.check(session.cgroup(1) == h.E_STATE, "a cgroup in a session of processes")
        with way.act():
            h.check(session.ask(h.TARGET, struct.pack("<IIQ", 0, 0, 1), [own := os.pidfd_open(p.pid)])[0] == h.E_STATE,
                    "a process that is a cgroup")
        os.close(own)
        h.check(session.start() == h.E_STATE, "no target was accepted")
    with h.killed(A.spin()) as p, way.ready() as session, way.act():
        h.check(session.target(p.pid)[0] == h.E_STATE, "a process in a session without targets")
        for flags in (0, 1, 2, 5, 6, 8, 13, 16, 20, 0x80000004):
            h.check(session.cgroup(1, flags) == h.E_STATE, f"flags {flags}")
        h.check(session.cgroup(0) == h.E_STATE, "no cgroup")
        h.check(session.cgroup(1, tid=1) == h.E_STATE, "a cgroup and a thread")
        h.check(session.cgroup(1, descriptors=[NULL]) == h.E_STATE, "a cgroup and a descriptor")
        # None of these counts. Numbers are not looked up: which there are is nobody's business.
        for i in range(h.TARGETS_MAX):
            flags = h.TARGET_CGROUP | (h.TARGET_CGROUP_V1 if i % 2 else 0)
            h.check(session.cgroup((1 << 64) - 1 - i, flags) == h.OK, f"cgroup {i + 1}")
        h.check(session.cgroup(1) == h.E_TARGET_LIMIT, "one cgroup too many")
        h.check(session.start() == h.OK, "START with 63 cgroups")


def dead_pidfd():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    pidfd = os.pidfd_open(pid)
    os.waitpid(pid, 0)
    return pidfd


@Group
def test_threads(way):
    """Many threads, and more than a session may watch."""
    for n, expected in ((300, h.OK), (1000, h.OK), (1100, h.E_TARGET_LIMIT)):
        with h.killed(A.spawn("/usr/bin/python3", "-c", THREADS, str(n))) as p:
            h.until("the threads", lambda: h.status(p.pid)["Threads"] == str(n + 1))
            with at(way, WELCOME) as session, way.act():
                error, threads = session.target(p.pid)
                h.check(error == expected, f"{n} threads: error {error}")
                if expected == h.OK:
                    h.check(threads == n + 1, f"{threads} of {n + 1} threads are watched")
                    h.check(session.start() == h.OK and session.stop() == h.OK, "START and STOP")


THREADS = """
import sys, threading
threading.stack_size(65536)
event = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=event.wait, daemon=True).start()
event.wait()
"""


def test_open():
    """What a helper started directly is told first: OPEN, whole, sound, and nothing else."""
    whole = message(h.OPEN, h.grant_bytes(targets=True))
    grants = {
        "no event": h.grant_bytes(n_events=0), "9 events": h.grant_bytes(n_events=9),
        "no rate": h.grant_bytes(hz=0), "a rate out of range": h.grant_bytes(hz=20001),
        "an unknown event": h.grant_bytes(event=99), "no ring": h.grant_bytes(ring=0),
        "an odd ring": h.grant_bytes(ring=65537), "a huge ring": h.grant_bytes(ring=1 << 40),
        "no frames": h.grant_bytes(depth=0), "256 frames": h.grant_bytes(depth=256),
        "by period": h.grant_bytes()[:28] + b"\1\0\0\0" + h.grant_bytes()[32:],
        "an unknown grant": h.grant_bytes()[:4] + b"\xff\0\0\0" + h.grant_bytes()[8:],
    }
    packets = {f"cut to {n}": whole[:n] for n in range(1, len(whole))}
    packets.update({what: message(h.OPEN, grant) for what, grant in grants.items()})
    packets.update({"grown": whole + b"\0", "4096 bytes": bytes(4096), "HELLO": message(h.HELLO, HELLO_BODY)})
    for what, data in packets.items():
        with h.start_direct(stderr=subprocess.DEVNULL) as session:
            session.send(data)
            seen = session.ended()
            h.check(seen == h.E_PROTOCOL, f"OPEN, {what}: END with {seen}")
    with h.start_direct(stderr=subprocess.DEVNULL) as session:
        session.send(whole, [NULL])
        session.ended()
    with h.start_direct() as session:
        pass  # nothing at all
    h.until("all have ended", lambda: "keeper" not in
            {r for p, r in h.helpers().items() if h.status(p)["PPid"] == str(os.getpid())})
    direct.works()


TESTS = [test_cut, test_fields, test_states, test_descriptors, test_identity, test_garbage, test_flood,
         test_targets, test_rates, test_cgroups, test_threads, test_open]
names = sys.argv[1:]  # all without
h.main(*[t for t in TESTS if not names or t.__name__ in names])
