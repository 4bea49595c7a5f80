# SPDX-License-Identifier: LGPL-2.1-or-later
"""
After the end of a session nothing more can be read through anything that its client ever got: each descriptor kept,
duplicated and passed to another process, of a session of one's own and of one of everybody's, with the kernel's names;
after close, after kill -9 of the session and after kill -9 of the keeper.
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
import subprocess
import time

import harness as h

A, B = h.users()
# Ring: positions and data; counters. Sizes of the memory a client can map of them.
RING_SIZE = 65536
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
        for size, offset in ((4096, 0), (4096, 4096), (2 * RING_SIZE, 8192), (0, 0)):
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
        session = h.open_session(connection, ring=RING_SIZE, hz=499, scope=("s", scope), kernel=("s", "quiet"))
    with A.act():
        h.check(session.hello() == h.OK, "HELLO")
        h.check(session.start() == h.OK, "START")
        error, _ = session.ask(h.SYMBOLS)
        h.check(error == h.OK, f"SYMBOLS: error {error}")
        if scope == "system":
            h.check(session.maps(1)[0] == h.OK, "MAPS")
    return session


def check_kinds(fds):
    """Maps, nothing that runs, and one file whose size and content stay."""
    files = [fd for fd in fds if is_file(fd)]
    h.check(len(files) == 1, f"{len(files)} files, not that of the kernel's names alone")
    h.check(os.readlink(f"/proc/self/fd/{files[0]}").startswith("/memfd:"), "a file that is somewhere")
    h.check(fcntl.fcntl(files[0], F_GET_SEALS) == ALL_SEALS, "names that may change")
    for fd in set(fds) - set(files):
        link, info = os.readlink(f"/proc/self/fd/{fd}"), h.read(f"/proc/self/fdinfo/{fd}")
        h.check(link == "anon_inode:bpf-map", f"the client was given {link}")
        h.check(not re.search("^(prog_id|link_id|link_type|prog_tag):", info, re.M), f"{link}: {info}")
        kind = int(re.search(r"^map_type:\t(\d+)", info, re.M).group(1))
        h.check(kind in (2, 27), f"a map of kind {kind}")
        h.check(kind == 27 or re.search(r"^frozen:\t1", info, re.M), "counters that can be written")


def end_by_close(session):
    session.socket.close()


def end_by_kill(role):
    def end(_):
        os.kill(h.role_pids(role)[0], signal.SIGKILL)
    return end


def check_end(scope, end):
    flat = h.bpf_list()
    session = opened(scope)
    holder = None
    try:
        h.check(len(session.fds) >= 2, "no descriptors")
        check_kinds(session.fds)
        holder = Holder(session.fds)
        first = holder.ask()
        # It does see what comes while the session lives: else the rest says nothing.
        h.until("the holder sees what is written", lambda: holder.ask() != first)
        pids = h.role_pids("session")
        objects = h.bpf_held(pids)
        h.check(any(kind == "prog" for kind, _ in objects), "no programs")
        end(session)
        h.until("the session is gone", lambda: not h.role_pids("session"))
        # Maps that somebody holds are maps; whatever wrote them is gone.
        h.until("its programs and links are gone",
                lambda: not {o for o in objects & h.bpf_list() if o[0] in ("prog", "link")})
        text = subprocess.run(["bpftool", "-j", "perf", "show"], stdout=subprocess.PIPE, text=True).stdout
        for pid in pids:
            h.check(f'"pid":{pid},' not in text, f"a perf event of the session's: {text}")
        last = holder.ask()
        # Others work meanwhile, and so do the holder and we.
        end_at = time.monotonic() + 0.5
        while time.monotonic() < end_at:
            sum(range(10000))
        h.check(holder.ask() == last, f"{scope}: something is written after the end")
    finally:
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
load = [A.spin(), B.spin()]
try:
    h.main(test_closed, test_session_killed, test_keeper_killed)
finally:
    for process in load:
        process.kill()
        process.wait()
