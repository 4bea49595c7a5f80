# SPDX-License-Identifier: LGPL-2.1-or-later
"""
After the end of a session nothing more can be read through anything that its client ever got: each descriptor kept,
duplicated and passed to another process, of a session of one's own and of one of everybody's, with the kernel's names
and unwind tables; after close, after kill -9 of the session and after kill -9 of the keeper. Nor does anything that the
client goes on writing, where it may, do anything.
"""

import contextlib
import fcntl
import mmap
import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess

import harness as h

A, B = h.users()
# It is never emptied, and does not run full: else nothing more would be written, whoever is left to write.
RING_SIZE = 4 << 20
TABLES = 4 << 20
# common/protocol.h, record.h, unwind-table.h
WELCOME_FDS, WELCOME_KINDS, RING, COUNTERS, TABLE = 52, 72, 1, 2, 3
RECORD_PROCESS, PROCESS_START, PROCESS_PID = 4, 32, 16
SLOTS, FRAME_POINTERS = 8192, 1 << 31
F_GET_SEALS, ALL_SEALS = 1034, 1 | 2 | 4 | 8


def is_file(fd):
    return stat.S_ISREG(os.fstat(fd).st_mode)


class Holder:
    """Another process of user A's, which gets duplicates of the descriptors and looks into what they are."""

    def __init__(self, fds):
        self.ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                A.become()
                # Nothing but what is passed: so nothing inherited can hold the session up.
                os.dup2(theirs.fileno(), 3)
                os.closerange(4, 4096)
                self.serve(socket.socket(fileno=3))
            finally:
                os._exit(0)
        theirs.close()
        socket.send_fds(self.ours, [b"f"], fds)
        h.check(self.ours.recv(1) == b"k", "the holder did not get them")

    @staticmethod
    def serve(sock):
        _, fds, _, _ = socket.recv_fds(sock, 1, 64)
        fds += [os.dup(fd) for fd in fds]
        sock.sendall(b"k")
        while sock.recv(1):
            sock.sendall(repr([Holder.look(fd) for fd in fds]).encode() + b"\n")

    @staticmethod
    def look(fd):
        """All that can be read: by mapping, by reading, by the descriptor's own information."""
        seen = [h.read(f"/proc/self/fdinfo/{fd}")]
        for size, offset in ((4096, 0), (4096, 4096), (2 * RING_SIZE, 8192), (TABLES, 0), (0, 0)):
            with contextlib.suppress(OSError, ValueError):
                with mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset) as m:
                    seen.append(hash(m[:]))
        os.set_blocking(fd, False)
        with contextlib.suppress(OSError):
            # A file is mapped whole; and reading would move the offset that all duplicates share.
            seen.append(os.fstat(fd).st_size if is_file(fd) else os.read(fd, 4096))
        seen.append(select.select([fd], [], [], 0)[0] != [])
        return seen

    def ask(self):
        self.ours.sendall(b"?")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self.ours.recv(65536)
            h.check(piece, "the holder died")
            answer += piece
        return eval(answer)

    def end(self):
        self.ours.close()
        os.waitpid(self.pid, 0)


def opened(scope):
    connection = A.connect()
    with connection:
        session = h.open_session(connection, ring=RING_SIZE, tables=TABLES, hz=499, scope=("s", scope),
                                 kernel=("s", "quiet"))
    with A.act():
        check_welcome(session)
        h.check(session.start() == h.OK, "START")
        error, _ = session.ask(h.SYMBOLS)
        h.check(error == h.OK, f"SYMBOLS: error {error}")
        if scope == "system":
            h.check(session.maps(1)[0] == h.OK, "MAPS")
    return session


def check_welcome(session):
    """A ring, counters and unwind tables, in this order."""
    said = []
    receive = session.receive
    session.receive = lambda *a: said.append(receive(*a)) or said[-1]
    h.check(session.hello() == h.OK, "HELLO")
    del session.receive
    n, = struct.unpack_from("<I", said[0][0], WELCOME_FDS)
    kinds = struct.unpack_from(f"<{n}I", said[0][0], WELCOME_KINDS)
    h.check(kinds == (RING, COUNTERS, TABLE) and len(session.fds) == n, f"descriptors of kinds {kinds}: {session.fds}")


def may_write(fd, size, offset):
    with contextlib.suppress(OSError):
        mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset).close()
        return True
    return False


def check_kinds(fds):
    """Maps, nothing that runs, and one file whose size and content stay."""
    *maps, names = fds
    h.check(is_file(names) and not any(map(is_file, maps)), "not the file of the kernel's names alone")
    h.check(os.readlink(f"/proc/self/fd/{names}").startswith("/memfd:"), "a file that is somewhere")
    h.check(fcntl.fcntl(names, F_GET_SEALS) == ALL_SEALS, "names that may change")
    kinds = []
    for fd in maps:
        link, info = os.readlink(f"/proc/self/fd/{fd}"), h.read(f"/proc/self/fdinfo/{fd}")
        h.check(link == "anon_inode:bpf-map", f"the client was given {link}")
        h.check(not re.search("^(prog_id|link_id|link_type|prog_tag):", info, re.M), f"{link}: {info}")
        kinds.append((int(re.search(r"^map_type:\t(\d+)", info, re.M).group(1)),
                      re.search(r"^frozen:\t(\d)", info, re.M).group(1)))
    h.check(kinds == [(27, "0"), (2, "1"), (2, "0")], f"maps of kinds {kinds}: what is frozen are the counters")
    ring, counters, tables = maps
    h.check(not may_write(counters, 4096, 0), "counters that can be written")
    h.check(may_write(ring, 4096, 0) and not may_write(ring, 4096, 4096) and not may_write(ring, 4096, 8192),
            "of the ring the client's own position is what it may write")
    h.check(may_write(tables, TABLES, 0), "tables that nobody can write")


class Slot:
    """In a session's tables, that of a process which the programs clear when it executes something."""

    def __init__(self, session, pid):
        def start():
            for record in h.ring_records(session, RING_SIZE)[0]:
                if record[0] == RECORD_PROCESS and struct.unpack_from("<I", record, PROCESS_PID)[0] == pid:
                    return struct.unpack_from("<Q", record, PROCESS_START)[0]
        self.pid, self.start = pid, h.until("the process is seen", start)
        self.map = mmap.mmap(session.fds[2], TABLES)
        hashed = (self.start ^ pid) * 0x9e3779b97f4a7c15 & (1 << 64) - 1
        self.place = (hashed >> 40 & SLOTS - 1) * 32

    def publish(self):
        struct.pack_into("<QIIQQ", self.map, self.place, self.start, self.pid, 0, FRAME_POINTERS, 0)

    def is_published(self):
        return struct.unpack_from("<Q", self.map, self.place + 16)[0] != 0

    def close(self):
        self.map.close()


def executed(pid):
    """Changes with each exec: where its stack begins."""
    return h.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[25]


def end_by_close(session):
    session.socket.close()


def end_by_kill(role):
    def end(_):
        os.kill(h.role_pids(role)[0], signal.SIGKILL)
    return end


def check_end(scope, end):
    flat = h.bpf_list()
    session = opened(scope)
    holder = slot = None
    try:
        check_kinds(session.fds)
        holder = Holder(session.fds)
        first = holder.ask()
        # It does see what comes while the session lives, in each of them: else the rest says nothing.
        slot = Slot(session, busy.pid)
        slot.publish()
        h.until("the programs clear the slot", lambda: not slot.is_published())
        slot.publish()
        h.until("the holder sees what is written", lambda: all(a != b for a, b in zip(holder.ask()[:3], first)))
        pids = h.role_pids("session")
        objects = h.bpf_held(pids)
        h.check(any(kind == "prog" for kind, _ in objects), "no programs")
        end(session)
        h.until("the session is gone", lambda: not h.role_pids("session"))
        # Maps that somebody holds are maps; whatever wrote them is gone.
        h.until("its programs and links are gone",
                lambda: not {o for o in objects & h.bpf_list() if o[0] in ("prog", "link")})
        left = [event for event in h.bpf_show("perf") if event["pid"] in pids]
        h.check(not left, f"a perf event of the session's: {left}")
        slot.publish()
        last = holder.ask()
        # Others work meanwhile, and so do the holder and we.
        for _ in range(2):
            before = executed(busy.pid)
            h.until("it has executed itself", lambda: executed(busy.pid) != before)
        h.check(holder.ask() == last, f"{scope}: something is written after the end")
        h.check(slot.is_published(), f"{scope}: the slot is cleared after the end")
        h.ring_records(session, RING_SIZE)
    finally:
        if slot:
            slot.close()
        if holder:
            holder.end()
        for fd in session.fds:
            os.close(fd)
        session.socket.close()
    h.until("the maps are gone as well", lambda: not {o for o in objects & h.bpf_list() - flat if o[0] == "map"})


def test_closed():
    for scope in ("own", "system"):
        check_end(scope, end_by_close)


def test_session_killed():
    for scope in ("own", "system"):
        check_end(scope, end_by_kill("session"))


def test_keeper_killed():
    for scope in ("own", "system"):
        check_end(scope, end_by_kill("keeper"))
        h.until("the front is gone, too", lambda: not h.helpers())


subprocess.run(["polkit-rules", os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/profile-system.rules"], check=True)
# Computes a little, executes itself, and so on.
AGAIN = 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exec sh -c "$0" "$0"'
busy = A.spawn("sh", "-c", AGAIN, AGAIN)
load = [busy, A.spin(), B.spin()]
try:
    h.main(test_closed, test_session_killed, test_keeper_killed)
finally:
    for process in load:
        process.kill()
        process.wait()
