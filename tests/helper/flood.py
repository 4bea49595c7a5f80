# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A user who asks for all there is, all the time, on every way at once: calls on the bus, sessions opened one after the
other, and requests in those that are open. For test-flood.py, and for tests/bench/flood.py, which measures what that
costs others.
"""

import contextlib
import mmap
import os
import random
import select
import signal
import struct
import time

import harness as h
from dbus_client import NO_REPLY, Connection, DBusError

HZ = 49


def session_of(connection, **kwargs):
    """A session, or None where a budget says no."""
    with contextlib.suppress(DBusError):
        return h.open_session(connection, patient=False, **kwargs)


def call_on_bus(count):
    """Calls that nobody waits for, and some that make no sense."""
    with Connection() as c:
        while True:
            for args in (("ListEvents", "", []), ("OpenSession", "a{sv}", [[("nope", ("s", "x" * 1000))]])):
                c.send(h.NAME, h.PATH, h.NAME, *args, flags=NO_REPLY)
            h.call(c, "ListEvents")
            count(3)


def open_in_vain(count):
    """Sessions that no budget has room for."""
    with Connection() as c:
        while True:
            calls = [c.send(h.NAME, h.PATH, h.NAME, "OpenSession", "a{sv}", [h.options(hz=1001)]) for _ in range(4)]
            for serial in calls:
                with contextlib.suppress(DBusError):
                    os.close(c.wait(serial)[0])
                    raise h.Failure("served")
            count(len(calls))


def open_and_leave(count):
    """Said hello to, given garbage, closed at once, or left alone; three are open all the time."""
    dice, kept = random.Random(1), []
    with Connection() as c:
        while True:
            session = session_of(c, targets=dice.random() < 0.5, hz=1, ring=1 << dice.randrange(16, 23))
            if not session:
                time.sleep(0.01)
                continue
            count(1)
            with contextlib.suppress(OSError, h.Failure):
                if dice.random() < 0.5:
                    session.hello()
                if dice.random() < 0.3:
                    session.send(dice.randbytes(dice.randrange(1, 2000)))
            kept.append(session)
            if len(kept) > 3:
                kept.pop(dice.randrange(len(kept))).close()


def ask_and_ask(count):
    """
    As many requests as fit into the sockets of three sessions: statistics, rates that are granted and some that are
    not, and processes that are not to be had.
    """
    dice = random.Random(2)
    pidfds = [os.pidfd_open(os.getpid()), os.pidfd_open(1)]
    with Connection() as c, contextlib.ExitStack() as stack:
        sessions = []
        while len(sessions) < 3:
            session = session_of(c, targets=True, hz=HZ)
            if not session:
                time.sleep(0.01)
                continue
            sessions.append(stack.enter_context(session))
            h.check(session.hello() == h.OK and session.target(os.getpid())[0] == h.OK, "no session")
        while True:
            for session in sessions:
                session.send(session.message(h.STATS))
                session.send(session.message(h.SET_RATE, struct.pack("<II", 0, dice.randrange(HZ + 2))))
                session.send(session.message(h.TARGET, bytes(16)), pidfds[:1])
                session.send(session.message(h.TARGET, bytes(16)), pidfds[1:])
            for session in sessions:
                for _ in range(4):
                    # Not soon, where it has used up its time.
                    h.check(session.receive(600), "the session has ended")
            count(12)


def ask_everything(count):
    """
    The same of a session that sees everybody, with the kernel's functions, which is started and stopped all the time
    while nobody reads its ring: mappings of one's own processes, of others' and of some that are gone; names; cgroups, more
    than there may be.
    """
    dice, rounds = random.Random(3), 0
    gone = os.posix_spawn("/bin/true", ["true"], {})
    pidfds = [os.pidfd_open(pid) for pid in (os.getpid(), 1, gone)]
    os.waitpid(gone, 0)
    with Connection() as c:
        session = None
        while not session:
            time.sleep(0.01)
            session = session_of(c, scope=("s", "system"), kernel=("s", "quiet"), hz=HZ)
        with session:
            h.check(session.hello() == h.OK, "no session")
            while True:
                cgroup = struct.pack("<IIQ", h.TARGET_CGROUP, 0, dice.randrange(1, 1 << 40))
                requests = [(h.TARGET, cgroup, []), (h.START, b"", []), (h.SYMBOLS, b"", []),
                            *((h.MAPS, bytes(8), [pidfd]) for pidfd in pidfds), (h.STOP, b"", [])]
                for kind, body, descriptors in requests:
                    session.send(session.message(kind, body), descriptors)
                errors = []
                for _ in requests:
                    answer = session.receive(600)
                    h.check(answer, "the session has ended")
                    errors.append(h.HEAD.unpack_from(answer[0])[3])
                    for fd in answer[1]:
                        os.close(fd)
                rounds += 1
                target = h.OK if rounds <= h.TARGETS_MAX else h.E_TARGET_LIMIT
                h.check(errors == [target, h.OK, h.OK, h.OK, h.OK, h.E_TARGET_GONE, h.OK], f"round {rounds}: errors {errors}")
                count(len(requests))


WAYS = (call_on_bus, open_in_vain, open_and_leave, ask_and_ask, ask_everything)


class Flood:
    """One process for each way, each the user's, until stop(). Their counts are of what they got done."""

    def __init__(self, user, ways=WAYS):
        self.processes = {way.__name__: self.start(user, way) for way in ways}

    @staticmethod
    def start(user, way):
        """[pid, a number that it counts up, a pipe that says why it has ended]"""
        done = mmap.mmap(-1, 8)
        r, w = os.pipe()

        def count(n):
            done[:] = (int.from_bytes(done, "little") + n).to_bytes(8, "little")

        pid = os.fork()
        if pid == 0:
            try:
                user.become()
                way(count)
            except BaseException as e:
                os.write(w, f"{type(e).__name__}: {e}".encode())
            os._exit(1)
        os.close(w)
        return pid, done, r

    def counts(self):
        """{way: how much}; whoever has given up is a failure."""
        for name, (_, _, pipe) in self.processes.items():
            if select.select([pipe], [], [], 0)[0]:
                raise h.Failure(f"{name}: {os.read(pipe, 1000).decode()}")
        return {name: int.from_bytes(done, "little") for name, (_, done, _) in self.processes.items()}

    def stop(self):
        for pid, done, pipe in self.processes.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            done.close()
            os.close(pipe)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
