# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Where a kernel with real modules lies: what tests/leak looks for where there are none, with its scanner and by its
rules. And the generations of the names as modules come and go.
"""

import importlib.util
import os
import re
import struct
import sys

from machine import check, sh, until

# Seconds that the ring is looked at: more where too little has come of it.
SECONDS = (20, 80, 240)
# A sample costs a millisecond where everything is emulated, and the rest has to run as well.
HZ = 199
HELPER = "/usr/libexec/ringside-helper"


def load():
    """test-leak.py as a module. It asks for its tools by arguments, and for its world by the environment."""
    os.environ.update(RINGSIDE_TEST_USER_A="alice", RINGSIDE_TEST_BUILD="/test", RINGSIDE_TEST_PATIENCE="600")
    os.environ["PATH"] += ":/test"
    sys.argv[1:] = ["/test/leak-scan", "/test/leak-addresses", "/test/leak-hash", "/test/leak-halves", "", "", "0"]
    spec = importlib.util.spec_from_file_location("leak", "/test/test-leak.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HZ = HZ
    # Time in a module's text, in the ring as well as in the recording.
    module.WORK["files"] = ("import socket\nk = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)\n"
                            "k.bind(('hash', 'wp512'))\no, _ = k.accept()\nwhile True:\n o.sendall(bytes(65536))\n"
                            " o.recv(512)")
    # What is at work leaves time for who looks at it.
    spawn = module.A.spawn
    module.A.spawn = lambda *command, **kwargs: spawn("nice", "-n", "19", *command, **kwargs)
    return module


leak = load()
h = leak.h


def secrets():
    """And root sees each module where the scanner looks for modules."""
    known = leak.Secrets()
    with open("/proc/modules", encoding="ascii") as f:
        places = {line.split()[0]: int(line.split()[5], 16) for line in f}
    check("wp512" in places, f"the modules are {places}")
    for name, address in places.items():
        check(known.has(address) == "modules-and-jit", f"{name} at {address:#x} is {known.has(address)}")
    return known


def look(func):
    """func(): the ways in which it leaks, with a module at work."""
    sh("modprobe", "-a", "algif_hash", "wp512")
    for seconds in SECONDS:
        leak.SECONDS = seconds
        try:
            secrets()
            return func()
        except h.Failure as e:
            if "too little" not in str(e) or seconds == SECONDS[-1]:
                raise


def nothing():
    leaks = look(leak.leaks_of)
    check(not leaks, f"{leaks}")
    return "none"


def recording(session):
    sh("modprobe", "-a", "algif_hash", "wp512")
    known = secrets()
    session.shell("rm -f r.ringside; ringside record -q --kernel -F 499 -o r.ringside -- /test/hash.py wp512 5")
    path = session.shell("echo $HOME/r.ringside").strip()
    report = session.shell("ringside report --format=text --threshold=0 r.ringside")
    check(re.search(r"\bwp512\w* +\[wp512\]", report), f"no function of [wp512]: {report}")
    totals, scanned, out = known.scan("/test/words", "file", path)
    check(not totals and scanned == os.stat(path).st_size, f"{out}")
    written = leak.texts(known, path, set()) | leak.cells(known, path, set())
    check(not written, f"{written}")
    return "none, and functions of [wp512]"


def install(path):
    """Another helper from the next call on."""
    sh("install", "-m", "711", path, HELPER + ".new")
    os.rename(HELPER + ".new", HELPER)
    sh("systemctl", "stop", "ringside-helper.service")


def gives_away():
    leaks = leak.look(leak.Secrets(), whole=False)
    h.check({"core-text in ring", "module in ring"} <= leaks, f"too little is found: {leaks}")


def planted():
    sh("cp", HELPER, "/test/original")
    install("/test/ringside-helper-leak-1")
    try:
        look(gives_away)
    finally:
        install("/test/original")
    return "found, a module's as well"


class Names:
    """Those that a session has."""

    def __init__(self, session):
        self.session = session

    def look(self):
        """(generation, the file's bytes)"""
        n = len(self.session.fds)
        error, data = self.session.ask(h.SYMBOLS)
        check(error == h.OK, f"SYMBOLS: error {error}")
        if len(self.session.fds) > n:
            self.text = leak.read_all(self.session.fds[-1])
        return struct.unpack_from("<Q", data, 24)[0], self.text

    def generation(self, number, text, there):
        """Waits for the next: it is this number, and the text is there or not."""
        def newer():
            generation, names = self.look()
            return (generation, names) if generation != number - 1 else None
        generation, names = until(f"generation {number}", newer)
        check(generation == number, f"generation {generation}, not {number}")
        check((text in names) == there, f"generation {number}: {text} is there: {not there}")


def bpf_symbols():
    with open("/proc/kallsyms", encoding="ascii") as f:
        return {line for line in f if line.endswith("[bpf]\n")}


def generations():
    sh("modprobe", "algif_hash")
    sh("modprobe", "-r", "wp512", ok=False)
    with leak.A.connect() as connection, leak.open_session(connection, everybody=False) as session:
        with leak.A.act():
            h.check(session.hello() == h.OK, "HELLO refused")
        names = Names(session)
        until("a module that is not loaded has no names", lambda: b"wp512" not in names.look()[1])
        first = names.look()[0]
        for _ in range(3):
            before = bpf_symbols()
            with leak.open_session(connection, everybody=False) as other:
                with leak.A.act():
                    h.check(other.hello() == h.OK, "HELLO refused")
                check(bpf_symbols() != before, "no BPF program has come")
                check(names.look()[0] == first, "a new generation")
        # Had one of these made a generation, this would not be the next.
        sh("modprobe", "wp512")
        names.generation(first + 1, b"wp512", True)
        sh("modprobe", "-r", "wp512")
        names.generation(first + 2, b"wp512", False)
        sh("modprobe", "wp512")
        names.generation(first + 3, b"wp512", True)
        # Whoever begins now has no names of what has just gone, though the keeper has looked a moment ago.
        sh("modprobe", "-r", "wp512")
        with leak.open_session(connection, everybody=False) as other:
            with leak.A.act():
                h.check(other.hello() == h.OK, "HELLO refused")
            check(b"wp512" not in Names(other).look()[1], "names of a module from before the session")
    return "one more only with each change of the modules"
