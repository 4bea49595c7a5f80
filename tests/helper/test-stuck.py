# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Processes that keep whoever asks about them waiting, for as long as their owner likes: in the middle of an exec, for
which an event on them waits, and with the lock of their address space, for which reading their mappings waits. It
must be nobody but who asked, and not for ever.

test-stuck.py STUCK SLOW-LIST-HELPER
"""

import contextlib
import os
import stat
import subprocess
import sys

import harness as h

STUCK, SLOW_LIST_HELPER = map(os.path.abspath, sys.argv[1:])
A, _ = h.users()
E_EVENTS = 16  # common/protocol.h
WAITS = 1024 // 64


@contextlib.contextmanager
def stuck(how):
    """(its pid, its standard input): a process of A's that gets stuck, until the end of this."""
    # Gone with the mount namespace.
    directory = "/run/stuck-" + how
    os.makedirs(directory, exist_ok=True)
    os.chown(directory, A.uid, A.gid)
    # As udev makes /dev/fuse, where there is one: for everybody.
    with contextlib.suppress(FileExistsError):
        os.mknod("/run/fuse", stat.S_IFCHR, os.makedev(10, 229))
    os.chmod("/run/fuse", 0o666)
    ours, theirs = os.pipe()
    process = subprocess.Popen([STUCK, how, directory], user=A.uid, group=A.gid, extra_groups=[], cwd="/", stdin=ours,
                               stdout=subprocess.PIPE)
    os.close(ours)
    try:
        line = process.stdout.readline()
        if not line:
            print("no FUSE for users here", flush=True)
            os._exit(1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77)
        yield int(line), theirs
    finally:
        os.close(theirs)
        process.wait(60)
    h.until("the process has ended", lambda: not os.path.exists(f"/proc/{int(line)}"), timeout=60)


def waits(pid):
    """For something that no signal ends: behind the point where the old memory is given back, or with the lock."""
    try:
        return h.status(pid)["State"].startswith("D")
    except OSError:
        return False


def test_stuck_exec():
    with stuck("exec") as (pid, _):
        h.until("the process is in its exec", lambda: waits(pid), timeout=60)
        with A.connect() as a, h.open_session(a, targets=True) as session:
            with A.act():
                h.check(session.hello() == h.OK, "HELLO refused")
                errors = [session.target(pid)[0] for _ in range(40)]
            # Each has waited a twentieth of a second, and costs its share of the session's 1,024 events (helper/keeper.c).
            h.check(errors == [E_EVENTS] * WAITS + [h.E_TARGET_LIMIT] * (40 - WAITS), f"TARGET: {errors}")
            h.check(waits(pid), "the process was not in its exec all the while")
            with A.connect() as other:
                h.open_session(other).close()


def keep_lock(pid, stdin):
    os.write(stdin, b"x")
    h.until("the process has the lock", lambda: waits(pid), timeout=60)


def granted(connection):
    session = h.open_session(connection, scope=("s", "system"))
    with A.act():
        h.check(session.hello() == h.OK, "HELLO refused")
    return session


def test_locked_memory():
    """It is told at once that this process cannot be asked; the session goes on."""
    with stuck("memory") as (pid, stdin), A.connect() as a, granted(a) as session:
        error, told, _ = session.maps(pid)
        h.check(error == h.OK and any(m.path.endswith("/stuck") for m in told), f"MAPS before: {error}, {told}")
        keep_lock(pid, stdin)
        h.check([session.maps(pid)[0] for _ in range(3)] == [h.E_STATE] * 3, "MAPS of a process that keeps its lock")
        h.check(waits(pid), "the process did not keep the lock all the while")
        h.check(session.maps(os.getpid())[0] == h.OK and session.stats()[0] == h.OK, "the session is harmed")


def begin_reading(session, pid):
    """Up to where the session has seen that it can be done."""
    fd = os.pidfd_open(pid)
    session.send(session.message(h.MAPS, bytes(8)), [fd])
    os.close(fd)
    h.check(session.receive()[0] == b"reading", "nobody reads")


def test_lock_that_comes():
    """
    It was free, and then is kept for ever: a session that has begun to read ends, whether its client waits or not;
    and nobody else's waits.
    """
    with h.installed(SLOW_LIST_HELPER), stuck("memory") as (pid, stdin), \
            A.connect() as a, granted(a) as patient, granted(a) as gone:
        sessions = h.role_pids("session")
        for session in patient, gone:
            begin_reading(session, pid)
        keep_lock(pid, stdin)
        for session in patient, gone:
            session.send(b"go on")
        h.until("both read, or have ended already",
                lambda: all(waits(p) or not os.path.exists(f"/proc/{p}") for p in sessions), timeout=60)
        gone.socket.close()
        h.Way("bus", A, a).works()
        h.check(patient.ended(timeout=120) is None, "it had something to say")
        h.until("both sessions have ended", lambda: not set(sessions) & set(h.role_pids("session")), timeout=120)
        h.check(waits(pid), "the process did not keep the lock all the while")
        h.Way("bus", A, a).works()


subprocess.run(["polkit-rules", os.environ["RINGSIDE_TEST_SOURCE"] + "/tests/lib/profile-system.rules"], check=True)
h.main(test_stuck_exec, test_locked_memory, test_lock_that_comes)
