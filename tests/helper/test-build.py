# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The keeper's child that makes the kernel's names dies, or does not come to an end. And a session that was taken over
asks the keeper as much as it can. Neither costs more than that session's names, or that session.

test-build.py FRAGILE-HELPER ATTACK-HELPER
"""

import contextlib
import errno
import os
import signal
import struct
import subprocess
import sys
import time

import harness as h

FRAGILE, ATTACKING = map(os.path.abspath, sys.argv[1:])
A, B = h.users()
ALLOW = "/run/allow.rules"
FAKE = "/run/fake-kallsyms"
MARKER = 0xffff << 48
ATTACK, FLOOD, PRETEND = 0x4154, 8, 16
FLOODS = 8


@contextlib.contextmanager
def symbols_are(text):
    """For helpers that are started inside. Yields a function for other ones."""
    def write(text):
        with open(FAKE, "w", encoding="utf-8") as f:
            f.write(text)
    write(text)
    subprocess.run(["mount", "--bind", FAKE, "/proc/kallsyms"], check=True)
    try:
        yield write
    finally:
        subprocess.run(["umount", "-l", "/proc/kallsyms"], check=True)


def leaves_in_kernel(session):
    """Of a target that is there most of the time, from now on."""
    def samples():
        return [r for r in h.ring_records(session, 1 << 20)[0] if r[0] == h.RECORD_SAMPLE][before:]

    before = 0
    before = len(samples())
    with h.killed(subprocess.Popen(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"], stderr=subprocess.DEVNULL)) as p:
        h.check(session.target(p.pid)[0] == h.OK and session.start() == h.OK, "TARGET or START refused")
        h.until("samples", lambda: len(samples()) > 100, timeout=120)
        h.check(session.stop() == h.OK, "STOP refused")
    return {struct.unpack_from("<Q", r, 24)[0] for r in samples() if r[6] & 1}


def test_crash():
    """Another child is tried, later and later; all that is missing is the names, and then they are there."""
    real = h.read("/proc/kallsyms")
    with symbols_are("crash\n") as write, h.installed(FRAGILE), open("/run/builds", "w+", encoding="utf-8") as log:
        def builds():
            return h.read(log.name).count("build\n")

        began, asked = time.monotonic(), 0
        with h.start_direct(stderr=log) as session:
            session.send(session.message(h.OPEN, h.grant_bytes(targets=True, kernel=True, hz=999, ring=1 << 20)))
            h.check(session.hello() == h.OK, "HELLO refused")
            keeper = session.process.pid
            while builds() < 3:
                h.check(session.ask(h.SYMBOLS)[0] == h.E_NO_KERNEL_NAMES, "names, and nobody to make them")
                h.check(time.monotonic() < began + 120, f"{builds()} builds, and no more are tried")
                asked += 1
                time.sleep(0.02)
            # One second at least after the first, and three after the second.
            h.check(time.monotonic() - began > 4, f"3 builds in {time.monotonic() - began:.2f} s")
            h.check(asked > 20, f"asked {asked} times only")
            h.check(leaves_in_kernel(session) == {MARKER}, "leaves in the kernel that are not the marker")
            write(real)
            h.until("names", lambda: session.ask(h.SYMBOLS)[0] == h.OK, timeout=120)
            h.check(leaves_in_kernel(session) - {MARKER}, "names, and no frames")
            h.check(session.process.poll() is None and h.only("keeper") == keeper, "another keeper")


def test_kill():
    """One that does not get on is waited for by who asked for it, until it is killed."""
    real = h.read("/proc/kallsyms")
    with symbols_are("stay\n") as write, h.installed(FRAGILE), A.connect() as a, B.connect() as b:
        with h.Way("bus", A, a).ready(kernel=("s", "quiet")) as session:
            keeper = h.only("keeper")
            session.send(session.message(h.SYMBOLS))
            child = h.until("a child", lambda: h.role_pids("child"), timeout=60)
            h.Way("bus", B, b).works()
            write(real)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child[0], signal.SIGKILL)
            error = h.HEAD.unpack_from(session.receive(60)[0])[3]
            h.check(error == h.E_NO_KERNEL_NAMES, f"SYMBOLS: error {error}")
            h.until("names", lambda: session.ask(h.SYMBOLS)[0] == h.OK, timeout=120)
            h.check(h.only("keeper") == keeper, "another keeper")


def test_stale():
    """
    Who begins to look while tables cannot be made of the modules there are now, gets none: those from before could
    name what is gone.
    """
    real = h.read("/proc/kallsyms")

    def session(log):
        h.hide_proc()

        def proc(name, text):
            with open("/proc/" + name, "w", encoding="utf-8") as f:
                f.write(text)

        def children():
            return h.read(f"/run/real-proc/{session.process.pid}/task/{session.process.pid}/children").split()

        proc("kallsyms", real)
        proc("modules", "one 16384 0 - Live 0xffffffffc0100000\n")
        with h.start_direct(stderr=log) as session:
            session.send(session.message(h.OPEN, h.grant_bytes(targets=True, kernel=True, hz=999, ring=1 << 20)))
            h.check(session.hello() == h.OK, "HELLO refused")
            h.until("tables", lambda: h.read(log.name).count("build\n") == 1 and len(children()) == 1, timeout=60)
            proc("modules", "two 16384 0 - Live 0xffffffffc0100000\n")
            proc("kallsyms", "crash\n")
            h.check(session.ask(h.SYMBOLS)[0] == h.E_NO_KERNEL_NAMES, "names of what is gone")
            h.check(h.read(log.name).count("build\n") == 2, "it was not tried")
            h.check(session.ask(h.SYMBOLS)[0] == h.E_NO_KERNEL_NAMES, "names of what is gone, later")
            proc("kallsyms", real)
            h.until("names", lambda: session.ask(h.SYMBOLS)[0] == h.OK, timeout=120)

    with h.installed(FRAGILE), open("/run/builds", "w+", encoding="utf-8") as log:
        h.fork(session, log)


def memory(pid):
    return int(h.status(pid)["VmData"].split()[0])


def flood(connection, victim):
    """A session that sends the keeper all it takes, and reads nothing. How much that was, and what ended it."""
    with h.Way("bus", A, connection).ready(kernel=("s", "quiet")) as session:
        session.send(session.message(ATTACK, struct.pack("<IIII", FLOOD, 0, 0, 0), length=40))
        name, _, sent, error = session.receive(120)[0].decode().split()
        h.check(victim.stats()[0] == h.OK, "another user's session is harmed")
        h.check(name == "flood" and session.ended(60) == h.E_HELPER_GONE, "it goes on")
    return -int(sent), int(error)


def test_flood():
    with h.installed(ATTACKING), A.connect() as a, B.connect() as b, h.Way("bus", B, b).ready() as victim:
        h.check(victim.start() == h.OK, "START refused")
        keeper, sessions = h.only("keeper"), h.role_pids("session")

        def ended():
            return h.role_pids("session") == sessions
        flood(a, victim)
        h.until("the first has ended, and the keeper has looked for maps",
                lambda: ended() and "anon_inode:bpf_link" in h.fds(keeper), timeout=60)
        flat, before = h.Flat(), memory(keeper)
        for _ in range(FLOODS):
            sent, error = flood(a, victim)
            h.check(0 < sent < 100000 and error in (errno.EPIPE, errno.ECONNRESET), f"{sent} requests, then {error}")
            h.until("it has ended", ended, timeout=60)
        flat.check(timeout=60)
        h.check(memory(keeper) == before, f"the keeper had {before} kB and has {memory(keeper)}")
        print(f"{FLOODS} floods, {sent} requests in the last; the keeper has {before} kB before and after", flush=True)
        h.Way("bus", B, b).works()


def test_pretend():
    """To say that a module has gone makes new tables for everybody, so that is not done as often as it is said."""
    with h.installed(ATTACKING), A.connect() as a, h.Way("bus", A, a).ready(kernel=("s", "quiet")) as session:
        began = time.monotonic()
        session.send(session.message(ATTACK, struct.pack("<IIII", PRETEND, 0, 0, 0), length=40))
        name, _, made, _ = session.receive(120)[0].decode().split()
        most = (time.monotonic() - began) / 5 + 1
        h.check(name == "pretend" and 0 < int(made) <= most, f"{made} generations, not 1 to {most:.1f}")


with open(ALLOW, "w", encoding="utf-8") as f:
    f.write("polkit.addRule(function (action, subject) { return polkit.Result.YES; });\n")
subprocess.run(["polkit-rules", ALLOW], check=True)
h.main(test_crash, test_kill, test_stale, test_flood, test_pretend)
